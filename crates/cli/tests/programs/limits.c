/* What shared memory is no match for: limits MIB WHAT, once most of memory is paged out. */
#include "check.h"
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>

extern char **environ;

static char *memory;
static size_t pages;

static void verify_all(void)
{
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
}

/* The child would write where its parent reads. */
static void in_child(void)
{
    for (size_t page = 0; page < pages; page++) memset(memory + page * PAGE, 0, PAGE);
    puts("the child went on");
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments)
{
    const char *what = arguments[2];
    if (!strcmp(what, "early")) {
        /* While everything fits a fork is as ever, and the child may then grow. */
        pid_t child = fork();
        int status;
        if (child) {
            EXPECT(waitpid(child, &status, 0) == child);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
        }
        what = "spawn";
    }
    pages = strtoul(arguments[1], 0, 10) * 256;
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    if (!strcmp(what, "fork")) {
        if (!fork()) in_child();
    } else if (!strcmp(what, "clone")) {
        if (!syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) in_child();
    } else if (!strcmp(what, "remap")) {
        char *target = map_pages(pages);
        bare_call(SYS_mremap, (long)memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)target, 0);
        memory = target;
    } else if (!strcmp(what, "spawn")) {
        pid_t child;
        int status;
        char *command[] = { "sh", "-c", "exit 9", 0 };
        EXPECT(!posix_spawnp(&child, "sh", 0, 0, command, environ));
        EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
        EXPECT(system("exit 8") == 8 << 8);
        if (!(child = vfork())) execlp("true", "true", (char *)0);
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    } else if (!strcmp(what, "direct")) {
        int file = open(arguments[0], O_RDONLY | O_DIRECT);
        EXPECT(file < 0 && errno == EINVAL);
        struct { uint64_t start, bytes; uint32_t chunk, headroom, flags, metadata; } umem =
            {(uintptr_t)memory, 64 * PAGE, PAGE, 0, 0, 0};
        int xdp = socket(44 /* AF_XDP */, SOCK_RAW, 0);
        /* XDP_UMEM_REG. (A kernel without AF_XDP has no such sockets.) */
        EXPECT(xdp < 0 || (setsockopt(xdp, 283, 4, &umem, sizeof umem) && errno == ENOPROTOOPT));
        file = open(arguments[0], O_RDONLY);
        EXPECT(file >= 0);
        EXPECT(fcntl(file, F_SETFL, O_DIRECT) < 0 && errno == EINVAL);
        EXPECT(fcntl(file, F_SETFL, O_NONBLOCK) == 0);
        EXPECT(syscall(SYS_open, arguments[0], O_RDONLY | O_DIRECT) < 0 && errno == EINVAL);
        char parameters[256] = { 0 };
        EXPECT(syscall(SYS_io_uring_setup, 8, parameters) < 0 && errno == ENOSYS);
        EXPECT(syscall(SYS_openat2, -100, arguments[0], parameters, 24) < 0 && errno == ENOSYS);
        /* Through the page cache it works, into pages that are paged out too. */
        for (size_t page = 0; page < pages; page += 100) {
            EXPECT(pread(file, memory + page * PAGE, 4, 0) == 4 && !memcmp(memory + page * PAGE, "\177ELF", 4));
            fill(memory + page * PAGE, page, 0);
        }
    } else if (!strcmp(what, "advice")) {
        /* Private memory has no such thing; and what is dropped reads as zeros, wherever it was. */
        EXPECT(madvise(memory, 5 * PAGE, MADV_REMOVE) < 0 && errno == EINVAL);
        verify_all();
        EXPECT(!madvise(memory, 100 * PAGE, MADV_DONTNEED));
        EXPECT(!madvise(memory + (pages - 100) * PAGE, 100 * PAGE, MADV_FREE));
        for (size_t page = 0; page < 100; page++) {
            verify_zero(memory + page * PAGE, page);
            verify_zero(memory + (pages - 1 - page) * PAGE, page);
            fill(memory + page * PAGE, page, 0);
            fill(memory + (pages - 1 - page) * PAGE, pages - 1 - page, 0);
        }
        /* Where the pager cannot see it the answer is no, rather than that nothing is dropped. */
        EXPECT(bare_call(SYS_madvise, (long)memory, PAGE, MADV_DONTNEED, 0, 0, 0) == -EINVAL);
        EXPECT(mremap(memory, 0, pages * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
        char *moved = mremap(memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
        EXPECT(moved != MAP_FAILED && moved != memory);
        for (size_t page = 0; page < pages; page += 10) verify_zero(memory + page * PAGE, page);
        memory = moved;
    } else {
        return 2;
    }
    verify_all();
    puts("right");
    return 0;
}
