/* Memory that a pager cannot page out, beside much that it can: fixed KIND KIB MIB.
 *
 *   lock      locked
 *   code      readable, writable and executable
 *   read      written to, then protected against writing
 *   ring      registered with an io_uring as buffers
 *   private   private pages of a file, written to
 *   shared    shared memory
 *   tables    a page here and there, so that page tables take as much as the pages
 *   turns     locked in one place after another, some of it at a time
 */
#include "check.h"
#include <linux/io_uring.h>
#include <sys/uio.h>

static size_t paged;
static char *memory;

/* Goes through the memory that can be paged, a few times. */
static void use_all(void)
{
    for (int round = 1; round < 4; round++)
        for (size_t page = 0; page < paged; page++) {
            verify(memory + page * PAGE, page, round - 1);
            fill(memory + page * PAGE, page, round);
        }
    for (size_t page = 0; page < paged; page++) {
        verify(memory + page * PAGE, page, 3);
        fill(memory + page * PAGE, page, 0);
    }
}

static void check_fixed(const char *fixed, size_t pages)
{
    for (size_t page = 0; page < pages; page++) verify(fixed + page * PAGE, page, 9);
}

int main(int count, char **arguments)
{
    EXPECT(count == 4);
    const char *kind = arguments[1];
    size_t pages = strtoul(arguments[2], 0, 10) / 4;
    paged = strtoul(arguments[3], 0, 10) * 256;
    memory = map_pages(paged);
    for (size_t page = 0; page < paged; page++) fill(memory + page * PAGE, page, 0);
    if (!strcmp(kind, "tables")) {
        /* One page in each 2 MiB: each has a page table of its own. */
        char *sparse = mmap(0, pages << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1, 0);
        EXPECT(sparse != MAP_FAILED && !madvise(sparse, pages << 21, MADV_NOHUGEPAGE));
        for (int round = 0; round < 3; round++)
            for (size_t page = 0; page < pages; page++) {
                char *at = sparse + (page << 21);
                if (round) verify(at, page, round - 1);
                fill(at, page, round);
            }
        use_all();
        for (size_t page = 0; page < pages; page++) verify(sparse + (page << 21), page, 2);
        puts("right");
        return 0;
    }
    char *fixed;
    if (!strcmp(kind, "private") || !strcmp(kind, "shared")) {
        int file = !strcmp(kind, "shared") ? memfd_create("fixed", 0) : open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
        EXPECT(file >= 0 && !ftruncate(file, pages * PAGE));
        int sharing = !strcmp(kind, "shared") ? MAP_SHARED : MAP_PRIVATE;
        fixed = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, sharing, file, 0);
        EXPECT(fixed != MAP_FAILED);
    } else {
        fixed = map_pages(pages);
    }
    for (size_t page = 0; page < pages; page++) fill(fixed + page * PAGE, page, 9);
    if (!strcmp(kind, "lock")) {
        EXPECT(!mlock(fixed, pages * PAGE));
    } else if (!strcmp(kind, "code")) {
        EXPECT(!mprotect(fixed, pages * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    } else if (!strcmp(kind, "read")) {
        EXPECT(!mprotect(fixed, pages * PAGE, PROT_READ));
    } else if (!strcmp(kind, "ring")) {
        struct io_uring_params parameters = { 0 };
        int ring = syscall(SYS_io_uring_setup, 8, &parameters);
        struct iovec buffer = { fixed, pages * PAGE };
        if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) < 0) {
            puts("right");
            fprintf(stderr, "NOT TESTED: no io_uring here: %s\n", strerror(errno));
            return 0;
        }
    } else if (!strcmp(kind, "turns")) {
        for (size_t at = 0; at + pages <= paged; at += pages / 2 + 1) {
            EXPECT(!mlock(memory + at * PAGE, pages * PAGE));
            for (size_t page = 0; page < paged; page += 3) verify(memory + page * PAGE, page, 0);
            EXPECT(!munlock(memory + at * PAGE, pages * PAGE));
        }
    } else if (strcmp(kind, "private") && strcmp(kind, "shared")) {
        return 2;
    }
    use_all();
    check_fixed(fixed, pages);
    use_all();
    check_fixed(fixed, pages);
    puts("right");
    return 0;
}
