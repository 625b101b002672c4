/* Forks while other threads miss pages with locks of the C library held: forklocks MIB FORKS.
 * `fork` takes the locks of all arenas; a thread that frees and allocates again touches pages under
 * its arena's. */
#include "check.h"

#define THREADS 2
#define BLOCK 1000UL

static size_t blocks;
static volatile int over;

/* Small blocks, each with the number of its last owner; freed and allocated in random order. */
static void *churn(void *argument)
{
    uint64_t seed = (uintptr_t)argument + 1;
    uint64_t **block = calloc(blocks, sizeof *block), *mark = calloc(blocks, sizeof *mark);
    for (uint64_t step = 1; !over || step < 2 * blocks; step++) {
        size_t index = step <= blocks ? step - 1 : random_next(&seed) % blocks;
        if (block[index]) {
            EXPECT(block[index][0] == mark[index] && block[index][BLOCK / 8 - 1] == mark[index]);
            free(block[index]);
        }
        block[index] = malloc(BLOCK);
        mark[index] = block[index][0] = block[index][BLOCK / 8 - 1] = step;
    }
    for (size_t index = 0; index < blocks; index++)
        EXPECT(block[index][0] == mark[index] && block[index][BLOCK / 8 - 1] == mark[index]);
    return 0;
}

int main(int count, char **arguments)
{
    blocks = strtoul(arguments[1], 0, 10) * (1 << 20) / BLOCK / THREADS;
    pthread_t thread[THREADS];
    for (long number = 0; number < THREADS; number++)
        EXPECT(!pthread_create(&thread[number], 0, churn, (void *)number));
    usleep(100000);
    for (int number = 0; number < atoi(arguments[2]); number++) {
        /* What the parent knows, the child knows; and its allocator works. */
        char *own = malloc(BLOCK);
        memset(own, number, BLOCK);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (!child) {
            for (size_t byte = 0; byte < BLOCK; byte++) EXPECT(own[byte] == (char)number);
            for (int turn = 0; turn < 1000; turn++) EXPECT(malloc(BLOCK));
            _exit(7);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        free(own);
    }
    over = 1;
    for (int number = 0; number < THREADS; number++) EXPECT(!pthread_join(thread[number], 0));
    puts("right");
    return 0;
}
