/* Maps memory where it has unmapped some, with more memory used in between: gaps ROUNDS. Nobody but
 * the program maps anything into the gap, so nothing is lost. */
#include "check.h"

#define GAP_PAGES 2048UL
#define STEP_PAGES 16384UL
/* One page of each of the pager's chunks: its arrays grow by 64 pages for each. */
#define STRIDE 64UL

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    size_t rounds = strtoul(arguments[1], 0, 10);
    char *first = sbrk(0);
    first += -(uintptr_t)first % PAGE;
    EXPECT(!brk(first));
    for (size_t round = 0; round < rounds; round++) {
        char *gap = map_pages(GAP_PAGES);
        for (size_t page = 0; page < GAP_PAGES; page += 8) fill(gap + page * PAGE, page, round);
        EXPECT(!munmap(gap, GAP_PAGES * PAGE));
        /* The heap is elsewhere, and grows by what the pager has not met before. */
        char *step = sbrk(STEP_PAGES * PAGE);
        EXPECT(step == first + round * STEP_PAGES * PAGE);
        for (size_t page = 0; page < STEP_PAGES; page += STRIDE)
            fill(step + page * PAGE, round * STEP_PAGES + page, 1);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        char *again = mmap(gap, GAP_PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        EXPECT(again == gap);
        for (size_t page = 0; page < GAP_PAGES; page += 4) verify_zero(gap + page * PAGE, page);
        EXPECT(!munmap(gap, GAP_PAGES * PAGE));
    }
    for (size_t page = 0; page < rounds * STEP_PAGES; page += STRIDE) verify(first + page * PAGE, page, 1);
    puts("right");
    return 0;
}
