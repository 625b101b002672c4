/* The same pages over and over: rounds MIB ROUNDS. In an order that is not that of their addresses;
 * each round fills all of them anew. rounds MIB ROUNDS touch: in the order of their addresses; the
 * first round fills them, and each of the others adds 1 to a word of each page. */
#include "check.h"

/* It goes through the pages in steps. A prime that divides no number of pages there is. */
enum { STEP = 1009 };

int main(int count, char **arguments)
{
    if (count != 3 && count != 4) return 2;
    int only_touches = count == 4;
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]);
    char *memory = aligned_alloc(PAGE, pages * PAGE);
    for (int round = 0; round <= rounds; round++)
        for (size_t step = 0; step < pages; step++) {
            size_t page = only_touches ? step : step * STEP % pages;
            uint64_t *words = (uint64_t *)(memory + page * PAGE);
            if (only_touches && round > 0) {
                if (words[0]++ != page + round) FAIL("page %zu, round %d: %lu", page, round, words[0]);
                continue;
            }
            if (round > 0) verify(words, page, round - 1);
            fill(words, page, round);
            if (only_touches) words[0] = page + 1;
        }
    /* A sanitizer would complain. */
    free(memory);
    puts("right");
    return 0;
}
