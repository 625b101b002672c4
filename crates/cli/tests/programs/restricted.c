/* A program that restricts itself, and goes on: restricted MIB WHAT.
 * It fills memory before and after, changes it, and forks; all as without a pager. What is called
 * late-... restricts it first, before it has so much memory that it is paged. */
#include "check.h"
#include <dirent.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NOBODY 65534

static size_t pages;
static char *memory;
static int version;

/* Grows, and changes all that there is. */
static void go_on(void)
{
    char *more = map_pages(pages / 4);
    for (size_t page = 0; page < pages / 4; page++) fill(more + page * PAGE, page, 77);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version);
    version++;
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, version);
    for (size_t page = 0; page < pages / 4; page++) verify(more + page * PAGE, page, 77);
    EXPECT(!munmap(more, pages / 4 * PAGE));
}

/* The child looks at one page in this many, and changes it. */
enum { STRIDE = 7 };

static void fork_and_go_on(void)
{
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        for (size_t page = 0; page < pages; page += STRIDE) verify(memory + page * PAGE, page, version);
        for (size_t page = 0; page < pages; page += STRIDE) fill(memory + page * PAGE, page, 99);
        for (size_t page = 0; page < pages; page += STRIDE) verify(memory + page * PAGE, page, 99);
        _exit(7);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    if (status != 7 << 8) FAIL("the child has ended with %x", status);
    go_on();
}

/* No thread of the process has rights that the program has given up. */
static void expect_nobody(void)
{
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[4096], name[64] = "";
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        while (fgets(line, sizeof line, file)) {
            unsigned long real = 0, effective = 0, saved = 0;
            sscanf(line, "Name: %63s", name);
            /* The kernel's own thread does what it is asked with the rights of who asks. */
            if (!strncmp(name, "iou-", 4)) break;
            if (sscanf(line, "Uid: %lu %lu %lu", &real, &effective, &saved) == 3
                || sscanf(line, "Gid: %lu %lu %lu", &real, &effective, &saved) == 3)
                EXPECT(real == NOBODY && effective == NOBODY && saved == NOBODY);
            if (sscanf(line, "CapPrm: %lx", &real) == 1) EXPECT(!real);
            if (!strncmp(line, "Groups:", 7)) EXPECT(!strpbrk(line, "0123456789"));
        }
        fclose(file);
    }
    closedir(tasks);
}

static void become_nobody(void)
{
    EXPECT(!setgroups(0, 0) && !setresgid(NOBODY, NOBODY, NOBODY));
    /* There and back, before it is for good. */
    EXPECT(!seteuid(NOBODY) && !seteuid(0));
    EXPECT(!setresuid(NOBODY, NOBODY, NOBODY));
    expect_nobody();
}

/* The limit is what the program has set, and holds. */
static void limit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit wanted = { soft, hard }, now;
    EXPECT(!setrlimit(resource, &wanted));
    EXPECT(!getrlimit(resource, &now) && now.rlim_cur == soft && now.rlim_max == hard);
    EXPECT(!prlimit(0, resource, 0, &now) && now.rlim_cur == soft && now.rlim_max == hard);
    struct rlimit wrong = { hard, soft };
    if (soft != hard) EXPECT(setrlimit(resource, &wrong) == -1 && errno == EINVAL);
}

static void addresses(int resource)
{
    size_t most = (pages * PAGE) * 3;
    limit(resource, most, most);
    go_on();
    EXPECT(mmap(0, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
           && errno == ENOMEM);
    fork_and_go_on();
}

static void descriptors(void)
{
    limit(RLIMIT_NOFILE, 3, 3);
    /* Not even root may have as many as this. */
    struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY }, now;
    EXPECT(setrlimit(RLIMIT_NOFILE, &most) == -1 && errno == EPERM);
    go_on();
    fork_and_go_on();
    EXPECT(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == 3 && now.rlim_max == 3);
    EXPECT(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE);
}

static atomic_int has_gone_on;

static void *go_on_beside(void *argument)
{
    go_on();
    has_gone_on = 1;
    return argument;
}

static void file_size(void)
{
    const off_t most = 1 << 20;
    /* Limits come and go while pages are on their way to the disk. */
    pthread_t thread;
    EXPECT(!pthread_create(&thread, 0, go_on_beside, 0));
    while (!has_gone_on) {
        limit(RLIMIT_FSIZE, most, RLIM_INFINITY);
        usleep(200);
        limit(RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY);
        usleep(200);
    }
    EXPECT(!pthread_join(thread, 0));
    limit(RLIMIT_FSIZE, most, 2 * most);
    signal(SIGXFSZ, SIG_IGN);
    go_on();
    fork_and_go_on();
    int file = memfd_create("file", 0);
    EXPECT(pwrite(file, "x", 1, most - 1) == 1);
    EXPECT(pwrite(file, "x", 1, most) == -1 && errno == EFBIG);
}

static void *sleep_on(void *argument)
{
    for (;;) pause();
    return argument;
}

#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* A filter that allows little; `answer` is for everything else. */
static void filter(unsigned flags, unsigned answer)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap),
        ALLOW(SYS_brk), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_futex), ALLOW(SYS_fstat),
        ALLOW(SYS_newfstatat), ALLOW(SYS_getrandom), ALLOW(SYS_exit_group), BPF_STMT(BPF_RET | BPF_K, answer),
    };
    struct sock_fprog program = { sizeof steps / sizeof *steps, steps };
    EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    EXPECT(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
    go_on();
    char *moved = mremap(memory, pages * PAGE, pages * PAGE * 2, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED);
    memory = moved;
    go_on();
}

int main(int count, char **arguments)
{
    pages = strtoul(arguments[1], 0, 10) * 256;
    const char *what = arguments[2];
    if (!strcmp(what, "late-user")) {
        become_nobody();
    } else if (!strcmp(what, "late-chroot")) {
        EXPECT(!chroot("/usr/share") && !chdir("/"));
    } else if (!strcmp(what, "late-descriptors")) {
        limit(RLIMIT_NOFILE, 3, 3);
    } else if (!strcmp(what, "late-child")) {
        int status;
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child) {
            EXPECT(waitpid(child, &status, 0) == child);
            return status >> 8 | status;
        }
        become_nobody();
    }
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, version);
    if (!strncmp(what, "late-", 5)) {
        go_on();
        fork_and_go_on();
    } else if (!strcmp(what, "chroot")) {
        EXPECT(!chroot("/usr/share") && !chdir("/"));
        go_on();
        fork_and_go_on();
        EXPECT(!chroot(".") && access("/proc", F_OK) == -1);
    } else if (!strcmp(what, "user")) {
        become_nobody();
        go_on();
        fork_and_go_on();
        expect_nobody();
    } else if (!strcmp(what, "undumpable")) {
        EXPECT(!prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
        fork_and_go_on();
        EXPECT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    } else if (!strcmp(what, "mdwe")) {
        /* PR_SET_MDWE; kernels before 6.3 have none. */
        EXPECT(!prctl(65, 1, 0, 0, 0) || errno == EINVAL);
        fork_and_go_on();
    } else if (!strcmp(what, "addresses")) {
        addresses(RLIMIT_AS);
    } else if (!strcmp(what, "data")) {
        addresses(RLIMIT_DATA);
    } else if (!strcmp(what, "descriptors")) {
        descriptors();
    } else if (!strcmp(what, "files")) {
        file_size();
    } else if (!strcmp(what, "filter")) {
        filter(0, SECCOMP_RET_KILL_PROCESS);
    } else if (!strcmp(what, "filter-threads")) {
        /* There is no filter for all threads but the agent. */
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, sleep_on, 0));
        filter(SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ERRNO | EPERM);
    } else if (!strcmp(what, "filter-all")) {
        filter(SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ERRNO | EPERM);
    } else {
        FAIL("what is %s?", what);
    }
    puts("right");
    return 0;
}
