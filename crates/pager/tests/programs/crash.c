/* Fills MIB of memory, says where it is, and ends with a core dump: crash MIB. */
#include "check.h"

char *memory;

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) memset(memory + page * PAGE, 'a' + page % 26, PAGE);
    printf("%lu\n", (unsigned long)memory);
    fflush(stdout);
    abort();
}
