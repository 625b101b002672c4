/* Programs that do what few do: corners MIB WHAT. They fill memory first, so that most of it is
 * paged out, and all that they do goes as without a pager. */
#include "check.h"
#include <dirent.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <linux/filter.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Of headers older than the kernel. */
#define MOVES (1 << 16)
#define MOVE_PAGES 0xc028aa05
struct move { uint64_t to, from, bytes, mode, moved; };

static char *memory;
static size_t pages;

static void fill_all(int version)
{
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, version);
}

static void verify_all(int version)
{
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version);
}

/* Ends by SIGKILL: the strict mode allows no exit of the process. */
static void strict(void)
{
    puts("right");
    fflush(stdout);
    EXPECT(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
    _exit(0);
}

/* Ends by SIGSYS, as the only thread there is. */
static void kill_thread(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof steps / sizeof *steps, steps };
    EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    EXPECT(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    verify_all(0);
    puts("right");
    fflush(stdout);
    getppid();
    FAIL("the filter lets it go on");
}

/* Its last thread leaves by a bare call, with a status. */
static void leave(void)
{
    puts("right");
    fflush(stdout);
    bare_call(SYS_exit, 5, 0, 0, 0, 0, 0);
}

static void expect_child(pid_t child)
{
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 7 << 8) FAIL("a child has ended with %x", status);
}

static void child_goes_on(void)
{
    verify_all(0);
    fill_all(1);
    verify_all(1);
    _exit(7);
}

/* A daemon: closes what it does not know, may open little, and leaves its parent. */
static void daemon_of_old(void)
{
    int ends[2], null = open("/dev/null", O_RDWR);
    EXPECT(!pipe(ends) && dup2(ends[1], 200) == 200);
    for (int file = 3; file < 200; file++)
        if (file != ends[0]) close(file);
    for (int file = 3; file < 600; file++)
        if (file != 200 && file != ends[0]) EXPECT(dup2(1, file) == file);
    (void)null;
    struct rlimit few = { 5, 5 };
    EXPECT(!setrlimit(RLIMIT_NOFILE, &few));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        setsid();
        pid_t grandchild = fork();
        if (grandchild) _exit(grandchild > 0 ? 7 : 8);
        verify_all(0);
        fill_all(1);
        verify_all(1);
        EXPECT(write(200, "g", 1) == 1);
        _exit(0);
    }
    expect_child(child);
    char byte = 0;
    EXPECT(read(ends[0], &byte, 1) == 1 && byte == 'g');
    verify_all(0);
}

/* No descriptor is left, up to the hard limit. */
static void no_descriptors(void)
{
    struct rlimit limit = { 64, 64 };
    EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
    while (dup(1) >= 0) {}
    EXPECT(errno == EMFILE);
    for (int turn = 0; turn < 3; turn++) {
        pid_t child = fork();
        if (!child) child_goes_on();
        expect_child(child);
    }
    EXPECT(dup(1) == -1 && errno == EMFILE);
    struct rlimit now;
    EXPECT(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == 64 && now.rlim_max == 64);
    verify_all(0);
}

/* All of it is locked, and what comes later. */
static void lock_all(int flags)
{
    /* What there is of the rest goes, so that the locked memory fits. */
    EXPECT(!munmap(memory, pages * PAGE));
    pages /= 8;
    memory = map_pages(pages);
    fill_all(0);
    EXPECT(!mlockall(flags));
    size_t more = pages / 2;
    char *later = map_pages(more);
    for (size_t page = 0; page < more; page++) fill(later + page * PAGE, page, 3);
    unsigned char there[16];
    EXPECT(!mincore(later, 16 * PAGE, there));
    for (int page = 0; page < 16; page++)
        if (flags & MCL_FUTURE) EXPECT(there[page] & 1);
    verify_all(0);
    EXPECT(!munlockall());
    char *large = map_pages(8 * pages);
    for (size_t page = 0; page < 8 * pages; page++) fill(large + page * PAGE, page, 4);
    for (size_t page = 0; page < 8 * pages; page++) verify(large + page * PAGE, page, 4);
    for (size_t page = 0; page < more; page++) verify(later + page * PAGE, page, 3);
    verify_all(0);
}

static int faults;

struct server { int file; size_t answered; };

/* Answers faults with pages of its own. */
static void *answer_faults(void *argument)
{
    struct server *server = argument;
    struct uffd_msg message;
    static char page[PAGE] __attribute__((aligned(4096)));
    while (read(server->file, &message, sizeof message) == sizeof message) {
        uint64_t address = message.arg.pagefault.address & -PAGE;
        fill(page, address / PAGE, 9);
        struct uffdio_copy copy = { .dst = address, .src = (uint64_t)page, .len = PAGE };
        EXPECT(!ioctl(server->file, UFFDIO_COPY, &copy) || errno == EEXIST);
        __atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

/* A userfaultfd of the program's own, on memory that the pager has managed. */
static void own_faults(void)
{
    int file = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = { .api = UFFD_API, .features = MOVES };
    if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
        puts("cannot: no userfaultfd");
        exit(0);
    }
    size_t quarter = pages / 4;
    /* Half of this has been written to and is paged out. The other half is new. */
    char *part = mmap(0, quarter * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(part != MAP_FAILED && !mprotect(part, quarter / 2 * PAGE, PROT_READ | PROT_WRITE));
    for (size_t page = 0; page < quarter / 2; page++) fill(part + page * PAGE, page, 2);
    verify_all(0);
    char *new = mmap(part + quarter / 2 * PAGE, quarter / 2 * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(new != MAP_FAILED);
    struct uffdio_register wrong = { .range = { (uint64_t)part + 1, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    EXPECT(ioctl(file, UFFDIO_REGISTER, &wrong) == -1 && errno == EINVAL);
    struct uffdio_register right = { .range = { (uint64_t)part, quarter * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    EXPECT(!ioctl(file, UFFDIO_REGISTER, &right));
    struct server server = { file, 0 };
    pthread_t thread;
    EXPECT(!pthread_create(&thread, 0, answer_faults, &server));
    for (size_t page = 0; page < quarter; page++) {
        if (page < quarter / 2) verify(part + page * PAGE, page, 2);
        else verify(part + page * PAGE, (uint64_t)part / PAGE + page, 9);
    }
    for (int turn = 0; turn < 100 && __atomic_load_n(&faults, __ATOMIC_RELAXED) < (int)(quarter / 2); turn++)
        usleep(10000);
    if (faults != (int)(quarter / 2)) FAIL("%d faults, not %zu", faults, quarter / 2);
    /* From memory that is paged out to memory of its own. */
    verify_all(0);
    for (size_t page = 0; page < 16; page++) {
        EXPECT(!madvise(part + page * PAGE, PAGE, MADV_DONTNEED));
        struct move move = { (uint64_t)part + page * PAGE, (uint64_t)memory + page * PAGE, PAGE };
        EXPECT(!ioctl(file, MOVE_PAGES, &move));
        verify(part + page * PAGE, page, 0);
        verify_zero(memory + page * PAGE, page);
        fill(memory + page * PAGE, page, 0);
    }
    /* The pager has it back. */
    struct uffdio_range range = { (uint64_t)part, quarter * PAGE };
    EXPECT(!ioctl(file, UFFDIO_UNREGISTER, &range));
    for (size_t page = 0; page < quarter; page++) fill(part + page * PAGE, page, 5);
    verify_all(0);
    for (size_t page = 0; page < quarter; page++) verify(part + page * PAGE, page, 5);
    EXPECT(!munmap(part, quarter * PAGE));
}

static volatile int answers;

static void on_signal(int number)
{
    __atomic_fetch_add(&answers, 1, __ATOMIC_RELAXED);
}

static void *sleep_on(void *argument)
{
    for (;;) pause();
    return argument;
}

/* Signals all threads that `/proc` lists, and waits for all of them. */
static void all_threads(void)
{
    signal(SIGUSR1, on_signal);
    for (int number = 0; number < 5; number++) {
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, sleep_on, 0));
    }
    usleep(100000);
    int signalled = 0;
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        if (entry->d_name[0] != '.') signalled += !syscall(SYS_tgkill, getpid(), atoi(entry->d_name), SIGUSR1);
    closedir(tasks);
    int file = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    char entries[64];
    for (long length; (length = syscall(SYS_getdents64, file, entries, sizeof entries)) > 0;)
        for (long at = 0; at < length; at += *(unsigned short *)(entries + at + 16))
            if (entries[at + 19] != '.')
                signalled += !syscall(SYS_tgkill, getpid(), atoi(entries + at + 19), SIGUSR1);
    for (int turn = 0; turn < 500 && answers < signalled; turn++) usleep(10000);
    /* Two signals to a thread may be one. */
    if (signalled != 12 || answers < 6) FAIL("%d signals, %d answers", signalled, answers);
    EXPECT(opendir("/proc"));
    verify_all(0);
}

/* Its memory as a file, and as another's. */
static void own_memory(void)
{
    static char copy[4 * PAGE] __attribute__((aligned(4096)));
    int file = open("/proc/self/mem", O_RDWR);
    EXPECT(file >= 0);
    for (size_t page = 0; page + 4 <= pages; page += 4) {
        off_t place = (off_t)(memory + page * PAGE);
        switch (page / 4 % 5) {
        case 0: EXPECT(pread(file, copy, sizeof copy, place) == sizeof copy); break;
        case 1:
            EXPECT(lseek(file, place, SEEK_SET) == place);
            EXPECT(read(file, copy, PAGE) == PAGE && read(file, copy + PAGE, 3 * PAGE) > 0);
            EXPECT(pread(file, copy, sizeof copy, place) == sizeof copy);
            break;
        case 2: {
            struct iovec parts[] = { { copy, PAGE }, { copy + PAGE, 3 * PAGE } };
            EXPECT(preadv(file, parts, 2, place) >= (ssize_t)PAGE);
            EXPECT(pread(file, copy, sizeof copy, place) == sizeof copy);
            break;
        }
        case 3: EXPECT(syscall(SYS_pread64, file, copy, sizeof copy, place) == sizeof copy); break;
        default: {
            struct iovec here = { copy, sizeof copy }, there = { (void *)place, sizeof copy };
            EXPECT(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof copy);
        }
        }
        for (size_t part = 0; part < 4; part++) verify(copy + part * PAGE, page + part, 0);
    }
    for (size_t page = 0; page < pages; page += 3) {
        fill(copy, page, 1);
        EXPECT(pwrite(file, copy, PAGE, (off_t)(memory + page * PAGE)) == PAGE);
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, page % 3 ? 0 : 1);
    char *nothing = map_pages(1);
    EXPECT(!munmap(nothing, PAGE));
    EXPECT(pread(file, copy, PAGE, (off_t)nothing) == -1 && errno == EIO);
    int ends[2];
    EXPECT(!pipe(ends) && write(ends[1], "abc", 3) == 3 && read(ends[0], copy, PAGE) == 3);
}

static void *read_for_ever(void *argument)
{
    char byte;
    for (;;) read(*(int *)argument, &byte, 1);
    return argument;
}

/* A thread is cancelled while it waits in `read`. */
static void cancelled(void)
{
    int ends[2];
    void *result;
    pthread_t thread;
    EXPECT(!pipe(ends));
    EXPECT(!pthread_create(&thread, 0, read_for_ever, ends));
    usleep(50000);
    EXPECT(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    verify_all(0);
}

static size_t read_all(const char *path, char *to, size_t most)
{
    size_t length = 0;
    int file = open(path, O_RDONLY);
    EXPECT(file >= 0);
    for (ssize_t count; (count = read(file, to + length, most - length)) > 0;) length += count;
    close(file);
    return length;
}

/* What it was begun with, as `/proc` has it. */
static void names(char **arguments)
{
    enum { BYTES = 1 << 17 };
    static char line[BYTES], environment[BYTES], again[BYTES];
    size_t length = read_all("/proc/self/cmdline", line, BYTES);
    EXPECT(length > 10 && !strcmp(line, arguments[0]));
    size_t bytes = read_all("/proc/self/environ", environment, BYTES);
    EXPECT(bytes > 20000);
    for (int turn = 0; turn < 3; turn++) {
        fill_all(turn);
        verify_all(turn);
        EXPECT(read_all("/proc/self/cmdline", again, BYTES) == length && !memcmp(line, again, length));
        EXPECT(read_all("/proc/self/environ", again, BYTES) == bytes && !memcmp(environment, again, bytes));
    }
}

static char stack[1 << 16] __attribute__((aligned(16)));
static pid_t parent;

/* Waits for its parent's end, if it is to. */
static int share(void *argument)
{
    if (argument) {
        while (getppid() == parent) usleep(10000);
        fill_all(2);
        verify_all(2);
        EXPECT(write(1, "right\n", 6) == 6);
    } else {
        verify_all(0);
        fill_all(1);
    }
    return 7;
}

/* A process with the same memory, which ends before this one or after it. */
static void shared_memory(int outlives)
{
    parent = getpid();
    pid_t child = clone(share, stack + sizeof stack, CLONE_VM | SIGCHLD, outlives ? "" : 0);
    EXPECT(child > 0);
    if (outlives) {
        usleep(50000);
        _exit(0);
    }
    expect_child(child);
    verify_all(1);
    /* And one with memory of its own. */
    child = fork();
    if (!child) {
        verify_all(1);
        fill_all(3);
        verify_all(3);
        _exit(7);
    }
    expect_child(child);
    verify_all(1);
}

int main(int count, char **arguments)
{
    EXPECT(count == 3);
    pages = strtoul(arguments[1], 0, 10) * 256;
    const char *what = arguments[2];
    if (!strcmp(what, "names") && !getenv("PADDING")) {
        static char padding[20000];
        memset(padding, 'x', sizeof padding - 1);
        setenv("PADDING", padding, 1);
        execv("/proc/self/exe", arguments);
    }
    memory = map_pages(pages);
    fill_all(0);
    if (!strcmp(what, "strict")) strict();
    else if (!strcmp(what, "kill-thread")) kill_thread();
    else if (!strcmp(what, "leave")) leave();
    else if (!strcmp(what, "daemon")) daemon_of_old();
    else if (!strcmp(what, "no-descriptors")) no_descriptors();
    else if (!strcmp(what, "lock")) lock_all(MCL_CURRENT);
    else if (!strcmp(what, "lock-future")) lock_all(MCL_CURRENT | MCL_FUTURE);
    else if (!strcmp(what, "lock-on-fault")) lock_all(MCL_FUTURE | MCL_ONFAULT);
    else if (!strcmp(what, "faults")) own_faults();
    else if (!strcmp(what, "threads")) all_threads();
    else if (!strcmp(what, "memory")) own_memory();
    else if (!strcmp(what, "cancelled")) cancelled();
    else if (!strcmp(what, "names")) names(arguments);
    else if (!strcmp(what, "share")) shared_memory(0);
    else if (!strcmp(what, "outlive")) shared_memory(1);
    else FAIL("what is %s?", what);
    puts("right");
    return 0;
}
