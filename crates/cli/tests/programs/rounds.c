/* The same pages in the same order, which is not that of their addresses: rounds MIB ROUNDS. */
#include "check.h"

/* It goes through the pages in steps. A prime that divides no number of pages there is. */
enum { STEP = 1009 };

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]);
    char *memory = aligned_alloc(PAGE, pages * PAGE);
    for (int round = 0; round <= rounds; round++)
        for (size_t step = 0; step < pages; step++) {
            size_t page = step * STEP % pages;
            if (round > 0) verify(memory + page * PAGE, page, round - 1);
            fill(memory + page * PAGE, page, round);
        }
    /* A sanitizer would complain. */
    free(memory);
    puts("right");
    return 0;
}
