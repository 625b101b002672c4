/* Walks over memory and writes to every page it comes to, checking what it finds:
 *     walk loop|random MIB ROUNDS
 * `loop` touches all pages in order; `random` an eighth as many, each chosen afresh. The round that
 * fills memory comes first and is not counted. Prints the seconds of each round; exit status 3 if a
 * byte was wrong. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS 512

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    int is_random = !strcmp(arguments[1], "random");
    size_t pages = strtoul(arguments[2], 0, 10) * 256;
    int rounds = atoi(arguments[3]);
    uint64_t *memory = malloc(pages * 4096), state = 88172645463325252;
    for (size_t page = 0; page < pages; page++)
        for (int word = 0; word < WORDS; word += 64) memory[page * WORDS + word] = page << 20;
    for (int round = 0; round < rounds; round++) {
        double start = now();
        size_t touched = is_random ? pages / 8 : pages;
        for (size_t step = 0; step < touched; step++) {
            size_t page = step;
            if (is_random) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                page = state % pages;
            }
            uint64_t *at = memory + page * WORDS;
            for (int word = 0; word < WORDS; word += 64) {
                if (at[word] >> 20 != page || at[word] != at[0] + (word ? -1 : 0)) {
                    printf("page %zu word %d is wrong\n", page, word);
                    return 3;
                }
                at[word]++;
            }
        }
        printf("%.6f\n", now() - start);
        fflush(stdout);
    }
    return 0;
}
