/* Reads pages at random, for some seconds, of which none is read more often than another, beside
 * others that are only read at the end: hot COLD_MIB HOT_MIB SECONDS PATTERN. The words of a page
 * repeat after PATTERN of them, so it becomes about PATTERN/512 of its size. */
#include "check.h"
#include <time.h>

static void check_page(const char *memory, uint64_t page, uint64_t pattern)
{
    const uint64_t *words = (const uint64_t *)(memory + page * PAGE);
    for (uint64_t word = 0; word < WORDS; word++)
        if (words[word] != word_of(page, 1, word % pattern))
            FAIL("page %lu word %lu: %lx, not %lx", page, word, words[word],
                 word_of(page, 1, word % pattern));
}

int main(int count, char **arguments)
{
    EXPECT(count == 5);
    uint64_t cold = strtoul(arguments[1], 0, 10) * 256, hot = strtoul(arguments[2], 0, 10) * 256;
    time_t end = time(NULL) + atoi(arguments[3]);
    uint64_t pattern = strtoul(arguments[4], 0, 10), seed = 88172645463325252;
    char *memory = map_pages(cold + hot);
    for (uint64_t page = 0; page < cold + hot; page++) {
        uint64_t *words = (uint64_t *)(memory + page * PAGE);
        for (uint64_t word = 0; word < WORDS; word++) words[word] = word_of(page, 1, word % pattern);
    }
    while (time(NULL) < end)
        for (int step = 0; step < 256; step++)
            check_page(memory, cold + random_next(&seed) % hot, pattern);
    for (uint64_t page = 0; page < cold + hot; page++) check_page(memory, page, pattern);
    puts("right");
    return 0;
}
