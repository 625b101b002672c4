/* Two arrays of MIB each, one gone through in order and one used at random: objects apart|together
 * MIB ROUNDS. They are in allocations of their own, or in one. */
#include "check.h"

int main(int count, char **arguments)
{
    int together = !strcmp(arguments[1], "together");
    size_t pages = strtoul(arguments[2], 0, 10) * 256;
    int rounds = atoi(arguments[3]);
    char *looped = malloc((together ? 2 * pages : pages) * PAGE + PAGE);
    looped = (char *)(((uintptr_t)looped + PAGE - 1) & ~(PAGE - 1));
    char *random = together ? looped + pages * PAGE : malloc(pages * PAGE);
    uint64_t seed = 88172645463325252;
    for (size_t page = 0; page < pages; page++) fill(looped + page * PAGE, page, 0);
    for (size_t page = 0; page < pages; page++) random[page * PAGE + 16] = (char)page;
    for (int round = 0; round < rounds; round++)
        for (size_t page = 0; page < pages; page++) {
            verify(looped + page * PAGE, page, 0);
            /* Three quarters of the uses are of an eighth of the array. */
            size_t other = random_next(&seed) % (random_next(&seed) % 4 ? pages / 8 : pages);
            EXPECT(random[other * PAGE + 16] == (char)other);
        }
    /* Allocated, grown, moved and freed, from a signal handler's size to large, while others do the
     * same. */
    for (int step = 0; step < 200; step++) {
        char *block = malloc(1 + random_next(&seed) % (256 << 10));
        block[0] = (char)step;
        block = realloc(block, 1 + random_next(&seed) % (512 << 10));
        EXPECT(block[0] == (char)step);
        free(block);
    }
    free(random == looped + pages * PAGE ? 0 : random);
    puts("right");
    return 0;
}
