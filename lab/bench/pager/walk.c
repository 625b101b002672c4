/* Walks over memory and writes to every page it comes to, checking what it finds:
 *     walk loop|random MIB ROUNDS [THREADS]
 * `loop` touches all pages in order; `random` an eighth as many, each chosen afresh. Each thread
 * has an equal part of the pages and of the work. The round that fills memory comes first and is
 * not counted. Prints the seconds of each round; exit status 3 if a byte was wrong. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS 512

static int is_random, rounds, threads;
static size_t pages;
static uint64_t *memory;
static pthread_barrier_t barrier;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Goes over the pages of one thread once. */
static void walk(size_t first, size_t count, uint64_t *state)
{
    size_t touched = is_random ? count / 8 : count;
    for (size_t step = 0; step < touched; step++) {
        size_t page = first + step;
        if (is_random) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            page = first + *state % count;
        }
        uint64_t *at = memory + page * WORDS;
        for (int word = 0; word < WORDS; word += 64) {
            if (at[word] >> 20 != page || at[word] != at[0] + (word ? -1 : 0)) {
                printf("page %zu word %d is wrong\n", page, word);
                exit(3);
            }
            at[word]++;
        }
    }
}

static void *work(void *argument)
{
    size_t index = (size_t)argument;
    size_t first = pages * index / threads, end = pages * (index + 1) / threads;
    uint64_t state = 88172645463325252 + index;
    for (size_t page = first; page < end; page++)
        for (int word = 0; word < WORDS; word += 64) memory[page * WORDS + word] = page << 20;
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&barrier);
        double start = now();
        walk(first, end - first, &state);
        pthread_barrier_wait(&barrier);
        if (index) continue;
        printf("%.6f\n", now() - start);
        fflush(stdout);
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 4 && count != 5) return 2;
    is_random = !strcmp(arguments[1], "random");
    pages = strtoul(arguments[2], 0, 10) * 256;
    rounds = atoi(arguments[3]);
    threads = count == 5 ? atoi(arguments[4]) : 1;
    if (threads < 1) return 2;
    memory = malloc(pages * 4096);
    pthread_barrier_init(&barrier, 0, threads);
    pthread_t others[threads];
    for (size_t index = 1; index < (size_t)threads; index++)
        if (pthread_create(&others[index], 0, work, (void *)index)) return 2;
    work(0);
    for (int index = 1; index < threads; index++) pthread_join(others[index], 0);
    return 0;
}
