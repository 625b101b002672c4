/* Writes over all that it shares with the command: scribble. What the agents act on cannot be
 * written. */
#include "check.h"

int main(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], rights[5];
    unsigned long start, end;
    int parts = 0;
    EXPECT(maps);
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, "/control-")) continue;
        EXPECT(sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3);
        parts++;
        if (rights[1] == 'w') memset((void *)start, 0xff, end - start);
        else EXPECT(mprotect((void *)start, end - start, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    }
    EXPECT(parts == 2);
    puts("right");
    return 0;
}
