/* A program with a working set: fills MIB of memory from SEED, then goes over it ROUNDS times, page
 * by page in an order that looks random, checks what it finds on each page and writes to it. Prints
 * what it all comes to, the same each time:
 *     work MIB ROUNDS SEED
 * Exit status 3 if a word was wrong. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 512

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    uint64_t pages = strtoull(arguments[1], 0, 10) * 256, seed = strtoull(arguments[3], 0, 10), sum = 0;
    int rounds = atoi(arguments[2]);
    uint64_t *memory = malloc(pages * 4096);
    for (uint64_t page = 0; page < pages; page++)
        for (int word = 0; word < WORDS; word++) memory[page * WORDS + word] = mix(seed + page * WORDS + word);
    /* A step that has no divisor in common with the number of pages comes to each of them once. */
    uint64_t step = 2654435761u % pages | 1;
    for (uint64_t a = step, b = pages; b;) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
        if (!b && a != 1) step += 2, a = step, b = pages;
    }
    for (int round = 0; round < rounds; round++) {
        uint64_t page = mix(seed + round) % pages;
        for (uint64_t done = 0; done < pages; done++, page = (page + step) % pages) {
            uint64_t *at = memory + page * WORDS;
            for (int word = 0; word < WORDS; word++) {
                if (at[word] != mix(seed + page * WORDS + word) + round) {
                    fprintf(stderr, "page %llu word %d is wrong\n", (unsigned long long)page, word);
                    return 3;
                }
                at[word]++;
            }
            sum = sum * 31 + at[round % WORDS];
        }
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
