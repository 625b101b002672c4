/* A service that wants less memory than it has: served PAGES HOT FILE. All pages are written once.
 * Then the first HOT of them are used again and again, with a pause after each pass, and the file
 * always has the passes a second of the last moment. It ends when its standard input does. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10), hot = strtoul(arguments[2], 0, 10);
    int file = open(arguments[3], O_CREAT | O_WRONLY, 0644);
    EXPECT(file >= 0);
    volatile uint64_t *memory = (uint64_t *)map_pages(pages);
    for (size_t page = 0; page < pages; page++) memory[page * WORDS] = page;
    double began = now();
    for (unsigned passes = 0;;) {
        struct pollfd orders = {.fd = 0, .events = POLLIN};
        if (poll(&orders, 1, 5) != 0) break;
        for (size_t page = 0; page < hot; page++) EXPECT(memory[page * WORDS] == page);
        passes++;
        double time = now() - began;
        if (time < 0.15) continue;
        char line[32];
        int length = snprintf(line, sizeof line, "%12.3f\n", passes / time);
        EXPECT(pwrite(file, line, length, 0) == length);
        passes = 0;
        began = now();
    }
    puts("right");
    return 0;
}
