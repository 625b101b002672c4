/* Fills MIB of memory and ends with a core dump: crash MIB. The limit of cores stays what it is,
 * for the program and for what it starts. */
#include "check.h"
#include <sys/resource.h>

char *memory;

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    struct rlimit before, after;
    EXPECT(getrlimit(RLIMIT_CORE, &before) == 0);
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) memset(memory + page * PAGE, 'a' + page % 26, PAGE);
    EXPECT(getrlimit(RLIMIT_CORE, &after) == 0);
    EXPECT(after.rlim_cur == before.rlim_cur && after.rlim_max == before.rlim_max);
    EXPECT(setrlimit(RLIMIT_CORE, &after) == 0);
    if (before.rlim_cur == RLIM_INFINITY) EXPECT(system("test $(ulimit -c) = unlimited") == 0);
    abort();
}
