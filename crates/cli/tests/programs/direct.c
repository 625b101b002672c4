/* Direct I/O and system calls into memory that is being paged out: direct FILE MIB ROUNDS. */
#include "check.h"

#define FILE_PAGES 256

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[2], 0, 10) * 256;
    int rounds = atoi(arguments[3]);
    int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    EXPECT(file >= 0);
    unlink(arguments[1]);
    char *memory = map_pages(pages);
    for (size_t page = 0; page < FILE_PAGES; page++) {
        fill(memory + page * PAGE, page, 5);
        EXPECT(pwrite(file, memory + page * PAGE, PAGE, page * PAGE) == PAGE);
    }
    uint32_t *content = calloc(pages, sizeof *content);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    uint64_t seed = 4242;
    for (int round = 0; round < rounds; round++) {
        size_t page = random_next(&seed) % (pages - 8), from = random_next(&seed) % (FILE_PAGES - 8);
        size_t length = 1 + random_next(&seed) % 8;
        EXPECT(pread(file, memory + page * PAGE, length * PAGE, from * PAGE) == (ssize_t)(length * PAGE));
        for (size_t index = 0; index < length; index++) {
            verify(memory + (page + index) * PAGE, from + index, 5);
            content[page + index] = from + index + 1;
        }
        /* Somewhere else meanwhile, to keep the pager busy; and out by a pipe. */
        for (int other = 0; other < 16; other++) {
            size_t looked = random_next(&seed) % pages;
            if (content[looked]) verify(memory + looked * PAGE, content[looked] - 1, 5);
            else verify(memory + looked * PAGE, looked, 0);
        }
    }
    int ends[2];
    static char copy[PAGE];
    EXPECT(!pipe(ends));
    for (size_t page = 0; page < pages; page += 7) {
        EXPECT(write(ends[1], memory + page * PAGE, PAGE) == PAGE);
        EXPECT(read(ends[0], copy, PAGE) == PAGE);
        if (content[page]) verify(copy, content[page] - 1, 5);
        else verify(copy, page, 0);
    }
    puts("right");
    return 0;
}
