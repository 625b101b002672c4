/* Calls that the kernel refuses: refused MIB. Most of memory is paged out meanwhile. Each line says
 * what a call has answered; without a pager it says the same. No call may change anything. */
#include "check.h"
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

/* If the compiler knew the address, it would warn of each such call. */
static void *volatile nowhere = (void *)1;
#define NOWHERE nowhere
#define ABOVE ((void *)(1UL << 47))
#define TELL(call)                                                                     \
    do {                                                                               \
        errno = 0;                                                                     \
        long answer_ = (long)(call);                                                   \
        printf("%s: %s %s\n", #call, answer_ == -1 ? "-1" : answer_ ? "other" : "0",   \
               answer_ == -1 ? strerror(errno) : "");                                  \
        fflush(stdout);                                                                \
    } while (0)

static char *memory;
static size_t pages;

static void sandboxes(void)
{
    struct { unsigned short length; void *steps; } none = { 0, 0 };
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, SECCOMP_FILTER_FLAG_TSYNC, 0));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &none));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, &none));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, 0));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | 8, &none));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 32, &none));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &none));
    TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, NOWHERE));
    TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, 0));
    TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 0));
    TELL(syscall(SYS_seccomp, 99, 0, 0));
    TELL(prctl(PR_SET_SECCOMP, 77, 0, 0, 0));
    TELL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0));
    TELL(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    TELL(prctl(-1, 0, 0, 0, 0));
    TELL(prctl(PR_SET_NAME, NOWHERE, 0, 0, 0));
    TELL(prctl(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0));
}

static void limits(void)
{
    struct rlimit limit = { 100, 50 }, large = { 1UL << 40, 1UL << 40 };
    int resources[] = { RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_CORE, RLIMIT_STACK };
    for (size_t number = 0; number < sizeof resources / sizeof *resources; number++) {
        int resource = resources[number];
        TELL(setrlimit(resource, &limit));
        TELL(syscall(SYS_prlimit64, 0, resource, NOWHERE, 0));
        TELL(syscall(SYS_prlimit64, 0, resource, ABOVE, 0));
        TELL(syscall(SYS_prlimit64, 0, resource, 0, NOWHERE));
        TELL(syscall(SYS_prlimit64, 0, resource, 0, 0));
        TELL(syscall(SYS_prlimit64, getpid(), resource, &limit, 0));
        TELL(syscall(SYS_getrlimit, resource, 0));
        TELL(syscall(SYS_getrlimit, resource, NOWHERE));
        TELL(syscall(SYS_setrlimit, resource, 0));
        TELL(syscall(SYS_setrlimit, resource, ABOVE));
    }
    TELL(setrlimit(RLIMIT_NOFILE, &large));
    TELL(setrlimit(99, &limit));
    TELL(getrlimit(-1, &limit));
    TELL(prlimit(-1, RLIMIT_NOFILE, 0, &limit));
    TELL(getrlimit(RLIMIT_NOFILE, 0));
    TELL(setrlimit(RLIMIT_NOFILE, 0));
}

static int nothing(void *argument)
{
    return 0;
}

static void processes(void)
{
    static char stack[1 << 16];
    char *list[] = { "true", 0 };
    TELL(syscall(SYS_clone3, 0, 0));
    TELL(syscall(SYS_clone3, 0, 64));
    TELL(syscall(SYS_clone3, NOWHERE, 88));
    TELL(syscall(SYS_clone3, ABOVE, 64));
    TELL(syscall(SYS_clone3, memory, 1 << 20));
    TELL(syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0));
    TELL(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0));
    TELL(clone(0, stack + sizeof stack, SIGCHLD, 0));
    TELL(clone(nothing, 0, SIGCHLD, 0));
    TELL(clone(nothing, stack + sizeof stack, CLONE_SIGHAND | SIGCHLD, 0));
    TELL(clone(nothing, stack + sizeof stack, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0));
    TELL(unshare(-1));
    TELL(execve("/nowhere", list, list));
    TELL(execve(NOWHERE, list, list));
    TELL(execve("/bin/true", list, NOWHERE));
    TELL(execve("/bin/true", NOWHERE, list));
    TELL(execve("/bin/true", list, ABOVE));
    TELL(execve("/", list, 0));
    TELL(fexecve(-1, list, list));
    TELL(fexecve(0, list, 0));
    TELL(syscall(SYS_execveat, -1, "true", list, list, 0));
    TELL(syscall(SYS_execveat, -1, "", list, list, -1));
}

static void mappings(void)
{
    size_t bytes = pages * PAGE;
    int file = open("/proc/self/exe", O_RDONLY);
    char *of_file = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    EXPECT(of_file != MAP_FAILED);
    of_file[0] = 77;
    TELL(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TELL(mmap(0, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
    TELL(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
    TELL(mmap(0, -PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TELL(mmap(0, ~0UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TELL(mmap(memory + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    TELL(mmap(memory, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    TELL(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 1));
    TELL(syscall(SYS_mmap, 0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TELL(munmap(memory + 1, PAGE));
    TELL(munmap(memory, 0));
    TELL(munmap(memory, ~0UL));
    TELL(mprotect(memory + 1, PAGE, PROT_READ));
    TELL(mprotect(memory, 0, PROT_READ));
    TELL(mprotect(memory, PAGE, 1 << 20));
    TELL(mprotect(memory, ~0UL, PROT_READ | PROT_WRITE));
    TELL(mprotect(0, PAGE, PROT_READ | PROT_WRITE));
    TELL(mremap(memory + 1, PAGE, PAGE, MREMAP_MAYMOVE));
    TELL(mremap(memory, PAGE, 0, MREMAP_MAYMOVE));
    TELL(mremap(memory, ~0UL, PAGE, 0));
    TELL(mremap(memory, ~0UL, ~0UL, MREMAP_MAYMOVE));
    TELL(mremap(memory, bytes, -PAGE, MREMAP_MAYMOVE));
    TELL(mremap(memory, bytes, bytes, 1 << 10));
    TELL(mremap(memory, bytes, bytes, MREMAP_FIXED, memory));
    TELL(mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory));
    TELL(mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 1));
    TELL(mremap(memory, bytes, bytes - PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
    TELL(mremap(0, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    TELL(mremap(memory, 0, PAGE, MREMAP_MAYMOVE));
    for (int advice = -1; advice < 30; advice++) {
        printf("%d: ", advice);
        TELL(madvise(memory + 1, PAGE, advice));
        TELL(madvise(memory, ~0UL, advice));
        TELL(madvise(memory, 0, advice));
    }
    TELL(madvise(of_file, PAGE, MADV_FREE));
    TELL(madvise(memory, PAGE, MADV_REMOVE));
    TELL(madvise(0, PAGE, MADV_DONTNEED));
    TELL(madvise(0, PAGE, MADV_FREE));
    EXPECT(of_file[0] == 77);
    TELL(syscall(SYS_process_madvise, -1, 0, 0, MADV_COLD, 0));
    TELL(brk((void *)~0UL));
    TELL(brk(NOWHERE));
    EXPECT(!munmap(of_file, PAGE) && !close(file));
}

static void locks(void)
{
    TELL(mlockall(0));
    TELL(mlockall(MCL_ONFAULT));
    TELL(mlockall(1 << 10));
    TELL(mlockall(-1));
    TELL(syscall(SYS_mlockall, 8));
    TELL(mlock(memory, ~0UL));
    TELL(mlock(0, PAGE));
    TELL(mlock2(memory, PAGE, 7));
    TELL(munlock(0, PAGE));
    TELL(munlockall());
}

static void files(void)
{
    struct iovec parts = { memory, PAGE };
    int own = open("/proc/self/mem", O_RDWR);
    EXPECT(own >= 0);
    TELL(pread(own, memory, PAGE, 0));
    TELL(pread(own, memory, PAGE, 1L << 46));
    TELL(pwrite(own, memory, PAGE, 0));
    TELL(preadv(own, &parts, 1, 0));
    TELL(pread(-1, memory, PAGE, 0));
    TELL(read(-1, memory, PAGE));
    TELL(readv(-1, &parts, 1));
    TELL(pread(own, NOWHERE, PAGE, (long)memory));
    TELL(syscall(SYS_getdents64, own, memory, PAGE));
    TELL(syscall(SYS_getdents64, -1, memory, PAGE));
    TELL(ioctl(-1, 0xc020aa00, 0));
    TELL(ioctl(own, 0xc020aa00, 0));
    TELL(ioctl(own, 0xc020aa00, NOWHERE));
    TELL(syscall(SYS_ioctl, own, 0x8010aa01, NOWHERE));
    TELL(syscall(SYS_userfaultfd, ~0));
    TELL(syscall(511));
    TELL(syscall(-1));
    TELL(syscall(99999));
    EXPECT(!close(own));
}

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    pages = strtoul(arguments[1], 0, 10) * 256;
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    void (*groups[])(void) = { sandboxes, limits, processes, mappings, locks, files };
    for (size_t group = 0; group < sizeof groups / sizeof *groups; group++) {
        groups[group]();
        for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
    }
    puts("right");
    return 0;
}
