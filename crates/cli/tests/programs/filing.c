/* Uses a file round and round, until standard input ends: filing FILE PAGES HOW. It says so after
 * the first round. HOW is
 *   n   makes the file first, and then reads it, some pages at a time
 *   r   reads it, some pages at a time
 *   w   writes to every second page
 *   m   reads a word of each page where the file is mapped */
#include "check.h"
#include <poll.h>

#define SOME 16

int main(int words, char **arguments)
{
    static char bytes[SOME * PAGE];
    EXPECT(words == 4);
    size_t pages = strtoul(arguments[2], 0, 10);
    char how = arguments[3][0], *mapped = 0;
    int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    EXPECT(file >= 0);
    if (how == 'n')
        for (size_t page = 0; page < pages; page++)
            EXPECT(pwrite(file, bytes, PAGE, page * PAGE) == PAGE);
    if (how == 'm') {
        mapped = mmap(0, pages * PAGE, PROT_READ, MAP_SHARED, file, 0);
        EXPECT(mapped != MAP_FAILED);
    }
    for (int round = 0;; round++) {
        for (size_t page = 0; page < pages; page += SOME) {
            size_t part = (pages - page < SOME ? pages - page : SOME) * PAGE;
            if (how == 'w')
                for (size_t written = page; written < page + SOME && written < pages; written += 2)
                    EXPECT(pwrite(file, bytes, 1, written * PAGE) == 1);
            else if (how == 'm')
                for (size_t read = page; read < page + SOME && read < pages; read++)
                    *(volatile char *)(mapped + read * PAGE);
            else
                EXPECT(pread(file, bytes, part, page * PAGE) == (ssize_t)part);
        }
        if (round == 0) {
            puts("ready");
            fflush(stdout);
        }
        struct pollfd end = { 0, POLLIN, 0 };
        if (poll(&end, 1, how == 'm' ? 20 : 5) > 0) break;
    }
    puts("right");
}
