/* Runs for some processor time over memory that is all there, and says now and then that it does:
 * spin MILLISECONDS NAME. Each line is the name and the time, in nanoseconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    uint64_t end = strtoull(arguments[1], 0, 10) * 1000000, said = 0;
    volatile char memory[16 << 10];
    while (now(CLOCK_PROCESS_CPUTIME_ID) < end) {
        for (int i = 0; i < 16 << 10; i++) memory[i]++;
        uint64_t time = now(CLOCK_MONOTONIC);
        if (time - said < 10000000) continue;
        said = time;
        printf("%s %llu\n", arguments[2], (unsigned long long)time);
        fflush(stdout);
    }
    return 0;
}
