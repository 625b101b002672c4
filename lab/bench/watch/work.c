/* The program that is watched: work KIND MIB PIECES. It fills its memory, says "ready", waits for a
 * line, and then does PIECES pieces of work. It prints the time and the processor time that they
 * took, in nanoseconds, and a checksum. `scan` goes through all of the memory, over and over;
 * `random` adds to words in an order that no processor foresees. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t *memory;
static uint64_t words, state = 88172645463325252ull;

/* A piece of work: about a million words. */
static void piece(const char *kind, uint64_t number)
{
    const uint64_t count = 1 << 20;
    if (kind[0] == 's') {
        uint64_t start = number * count % words;
        for (uint64_t word = start; word < start + count; word++) memory[word] += number;
        return;
    }
    for (uint64_t step = 0; step < count / 16; step++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memory[state % words] += step;
    }
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    words = strtoull(arguments[2], 0, 10) << 17;
    uint64_t pieces = strtoull(arguments[3], 0, 10);
    memory = mmap(0, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    madvise(memory, words * 8, MADV_NOHUGEPAGE);
    memset(memory, 1, words * 8);
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 4;
    uint64_t began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t number = 0; number < pieces; number++) piece(arguments[1], number);
    uint64_t wall = now(CLOCK_MONOTONIC) - began, processor = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    uint64_t sum = 0;
    for (uint64_t word = 0; word < words; word++) sum = sum * 31 + memory[word];
    printf("%llu %llu %llx\n", (unsigned long long)wall, (unsigned long long)processor,
           (unsigned long long)sum);
}
