/* Writers that add to counters all over memory while it is paged out under them; threads start and
 * end all the while: threads MIB WRITERS ROUNDS. No addition may be lost. */
#include "check.h"

static size_t pages;
static volatile uint64_t *memory;
static int rounds;

static void *writer(void *argument)
{
    uint64_t seed = 1 + (uint64_t)argument;
    uint64_t *sums = calloc(pages, sizeof *sums);
    volatile char stack[64 << 10];
    for (size_t at = 0; at < sizeof stack; at += PAGE) stack[at] = (char)(at / PAGE + seed);
    for (int round = 0; round < rounds; round++) {
        size_t page = random_next(&seed) % pages;
        /* A word of its own in each page, so that no lock is needed. */
        volatile uint64_t *word = memory + page * WORDS + (uint64_t)argument;
        for (int time = 0; time < 20; time++) ++*word;
        sums[page] += 20;
        if (round % 64 == 0) sched_yield();
    }
    for (size_t page = 0; page < pages; page++)
        if (memory[page * WORDS + (uint64_t)argument] != sums[page])
            FAIL("writer %lu page %lu: %lu, not %lu", (uint64_t)argument, page,
                 memory[page * WORDS + (uint64_t)argument], sums[page]);
    for (size_t at = 0; at < sizeof stack; at += PAGE) EXPECT(stack[at] == (char)(at / PAGE + 1 + (uint64_t)argument));
    free(sums);
    return 0;
}

static void *short_lived(void *argument)
{
    char buffer[20000];
    memset(buffer, (int)(uint64_t)argument, sizeof buffer);
    for (size_t at = 0; at < sizeof buffer; at++) EXPECT(buffer[at] == (char)(uint64_t)argument);
    return argument;
}

int main(int count, char **arguments)
{
    pages = strtoul(arguments[1], 0, 10) * 256;
    int writers = atoi(arguments[2]);
    rounds = atoi(arguments[3]);
    memory = (uint64_t *)map_pages(pages);
    pthread_t thread[64];
    for (int writer_number = 0; writer_number < writers; writer_number++)
        EXPECT(!pthread_create(&thread[writer_number], 0, writer, (void *)(uint64_t)writer_number));
    for (uint64_t number = 0; number < 300; number++) {
        pthread_t other;
        void *result;
        EXPECT(!pthread_create(&other, 0, short_lived, (void *)number));
        EXPECT(!pthread_join(other, &result) && result == (void *)number);
    }
    for (int writer_number = 0; writer_number < writers; writer_number++) pthread_join(thread[writer_number], 0);
    puts("right");
    return 0;
}
