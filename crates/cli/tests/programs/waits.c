/* Fills memory, says so, waits for a line, and looks at it again: waits MIB. */
#include "check.h"

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    char *memory = map_pages(pages), line[16];
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    EXPECT(write(1, "full\n", 5) == 5);
    EXPECT(read(0, line, sizeof line) > 0);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
    puts("right");
    return 0;
}
