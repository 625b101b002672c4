/* A hot set beside a scan, reference by reference: hotscan PAGES HOT ROUNDS. All pages are written
 * in order; then each page of the scan is read, round and round, and after each of them the next
 * page of the hot set. */
#include "check.h"

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10), hot = strtoul(arguments[2], 0, 10), turn = 0;
    int rounds = atoi(arguments[3]);
    volatile uint64_t *memory = (uint64_t *)map_pages(pages);
    for (size_t page = 0; page < pages; page++) memory[page * WORDS] = page;
    for (int round = 0; round < rounds; round++)
        for (size_t page = hot; page < pages; page++, turn++) {
            EXPECT(memory[page * WORDS] == page);
            EXPECT(memory[turn % hot * WORDS] == turn % hot);
        }
    puts("right");
    return 0;
}
