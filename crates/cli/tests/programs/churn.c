/* Sequential and random reads and writes over more memory than there is: churn MIB ROUNDS SEED
 * [huge]. */
#include "check.h"

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]);
    uint64_t seed = strtoull(arguments[3], 0, 10) + 88172645463325252;
    char *memory = malloc(pages * PAGE + (2 << 20));
    if (count > 4) {
        /* Half of it is touched as huge pages before there is a need for anything else. */
        memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
        madvise(memory, pages * PAGE, MADV_HUGEPAGE);
        memset(memory, 0, pages * PAGE / 4);
    }
    uint32_t *version = calloc(pages, sizeof *version);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    for (int round = 0; round < rounds; round++) {
        int mode = round % 4;
        for (size_t step = 0; step < pages; step++) {
            size_t page = mode == 0 ? step : mode == 1 ? pages - 1 - step
                : random_next(&seed) % (mode == 2 ? pages : pages / 4);
            verify(memory + page * PAGE, page, version[page]);
            if (mode != 1 && random_next(&seed) % 2) fill(memory + page * PAGE, page, ++version[page]);
        }
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, version[page]);
    puts("right");
    return 0;
}
