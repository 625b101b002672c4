/* Copy on write across fork, with most of memory paged out: forks MIB CHILDREN DEPTH. Parent and
 * children write different things, each sees its own; orphans go on; exec works. */
#include "check.h"

static size_t pages;

static void check_and_write(char *memory, uint32_t *version, uint64_t seed, uint64_t mark)
{
    for (size_t step = 0; step < pages; step++) {
        size_t page = random_next(&seed) % pages;
        verify(memory + page * PAGE, page, version[page]);
        if (step % 4 == 0) {
            version[page] = (uint32_t)(mark * 1000003 + step);
            fill(memory + page * PAGE, page, version[page]);
        }
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
}

static void family(char *memory, uint32_t *version, int children, int depth, uint64_t mark)
{
    pid_t child[16];
    for (int number = 0; number < children; number++) {
        child[number] = fork();
        EXPECT(child[number] >= 0);
        if (!child[number]) {
            uint64_t own = mark * 16 + number + 1;
            check_and_write(memory, version, own * 7919 + 1, own);
            if (depth > 1) family(memory, version, children, depth - 1, own);
            _exit(7);
        }
        check_and_write(memory, version, mark * 31 + number + 1, mark + 500 + number);
    }
    for (int number = 0; number < children; number++) {
        int status;
        EXPECT(waitpid(child[number], &status, 0) == child[number]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) FAIL("child %d ended with %x", number, status);
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
}

int main(int count, char **arguments)
{
    pages = strtoul(arguments[1], 0, 10) * 256;
    char *memory = map_pages(pages);
    uint32_t *version = calloc(pages, sizeof *version);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    family(memory, version, atoi(arguments[2]), atoi(arguments[3]), 1);
    /* A child that outlives its parent tells through a pipe that it is right. */
    int ends[2];
    char byte = 0;
    EXPECT(!pipe(ends));
    pid_t middle = fork();
    EXPECT(middle >= 0);
    if (!middle) {
        pid_t orphan = fork();
        EXPECT(orphan >= 0);
        if (orphan) _exit(0);
        while (getppid() == middle) usleep(1000);
        check_and_write(memory, version, 99, 99);
        EXPECT(write(ends[1], "r", 1) == 1);
        _exit(0);
    }
    close(ends[1]);
    waitpid(middle, 0, 0);
    EXPECT(read(ends[0], &byte, 1) == 1 && byte == 'r');
    /* What children must not have. */
    char *secret = memory + 5 * PAGE;
    EXPECT(!madvise(secret, 3 * PAGE, MADV_WIPEONFORK));
    EXPECT(!madvise(secret + 10 * PAGE, 3 * PAGE, MADV_DONTFORK));
    pid_t wiped = fork();
    EXPECT(wiped >= 0);
    if (!wiped) {
        for (size_t page = 0; page < 3; page++) verify_zero(secret + page * PAGE, page);
        char *instead = mmap(secret + 10 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        EXPECT(instead == secret + 10 * PAGE);
        for (size_t page = 0; page < 3; page++) verify_zero(instead + page * PAGE, page);
        for (size_t page = 20; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
        _exit(0);
    }
    int how;
    EXPECT(waitpid(wiped, &how, 0) == wiped && how == 0);
    /* vfork, posix_spawn and system leave memory alone. */
    EXPECT(PATIENTLY(system("test 1 = 1")) == 0);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
    execlp("echo", "echo", "right", (char *)0);
    return 1;
}
