/* Sequential and random reads and writes over more memory than there is: churn MIB ROUNDS SEED
 * [huge | meet FILE | until FILE]. With `meet`, it waits with all of its memory filled until a
 * second one has filled its own: each adds a byte to the file. With `until`, the rounds go on until
 * there is such a file. */
#include "check.h"
#include <sys/stat.h>

static void meet(const char *path)
{
    alarm(60);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    struct stat status = { 0 };
    if (file < 0 || write(file, "x", 1) != 1) exit(2);
    while (fstat(file, &status) == 0 && status.st_size < 2) usleep(1000);
    alarm(0);
}

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]);
    uint64_t seed = strtoull(arguments[3], 0, 10) + 88172645463325252;
    char *allocated = malloc(pages * PAGE + (2 << 20)), *memory = allocated;
    if (count == 5) {
        /* Half of it is touched as huge pages before there is a need for anything else. */
        memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
        madvise(memory, pages * PAGE, MADV_HUGEPAGE);
        memset(memory, 0, pages * PAGE / 4);
    }
    uint32_t *version = calloc(pages, sizeof *version);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    const char *file = count > 5 ? arguments[5] : 0;
    int goes_on = file && strcmp(arguments[4], "until") == 0;
    if (file && !goes_on) meet(file);
    if (goes_on) alarm(120);
    for (int round = 0; round < rounds || (goes_on && access(file, F_OK) != 0); round++) {
        int mode = round % 4;
        for (size_t step = 0; step < pages; step++) {
            size_t page = mode == 0 ? step : mode == 1 ? pages - 1 - step
                : random_next(&seed) % (mode == 2 ? pages : pages / 4);
            verify(memory + page * PAGE, page, version[page]);
            if (mode != 1 && random_next(&seed) % 2) fill(memory + page * PAGE, page, ++version[page]);
        }
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
    // A sanitizer would complain.
    free(version);
    free(allocated);
    puts("right");
    return 0;
}
