/* Pages that are written once, then mostly read: reader MIB ROUNDS SHARE. Every SHAREth page is
 * written to again in each round; 0: none. */
#include "check.h"

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]), share = atoi(arguments[3]);
    char *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    for (int round = 0; round < rounds; round++)
        for (size_t page = 0; page < pages; page++) {
            int is_written = share && page % share == 0;
            verify(memory + page * PAGE, page, is_written ? round : 0);
            if (is_written) fill(memory + page * PAGE, page, round + 1);
        }
    puts("right");
    return 0;
}
