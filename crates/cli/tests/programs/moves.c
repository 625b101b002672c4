/* Threads that move their memory to wherever the kernel finds a place, and threads that give up
 * memory of the same size all the while, so that what is moved lands where something else has just
 * been: moves MIB MOVERS ROUNDS [FORKS]. The kernel tells of both when they are over, in either
 * order. Nothing that was moved may be taken for what was given up; and with FORKS no child may
 * miss what was moved just before it was made. */
#include "check.h"

#define MOST 64

static size_t pages;
static int rounds;
static volatile int moving;

/* Where each mover's memory is, and where it is being moved to; -1 if that is for the kernel to
 * say. On one page, so that a child has all of it as of one moment. */
static struct {
    char *volatile memory, *volatile next;
} movers[MOST] __attribute__((aligned(4096)));

/* Nothing can grow where it is. */
static void fence(char *end)
{
    void *page = mmap(end, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(page == end || errno == EEXIST);
}

static void *mover(void *argument)
{
    uint64_t number = (uint64_t)argument << 32, seed = 1 + (uint64_t)argument;
    __typeof__(&movers[0]) own = &movers[(uint64_t)argument];
    char *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, number + page, 0);
    for (int round = 0; round < rounds; round++) {
        fence(memory + pages * PAGE);
        /* By turns: anywhere, and to a place that is known before. */
        char *next = 0, *moved;
        if (round % 2) {
            next = mmap(0, (pages + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            EXPECT(next != MAP_FAILED);
        }
        own->next = next ? next : MAP_FAILED;
        moved = mremap(memory, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE | (next ? MREMAP_FIXED : 0), next);
        EXPECT(moved != MAP_FAILED);
        EXPECT(!munmap(moved + pages * PAGE, PAGE));
        own->memory = memory = moved;
        own->next = 0;
        for (int look = 0; look < 8; look++) {
            size_t page = random_next(&seed) % pages;
            verify(memory + page * PAGE, number + page, 0);
        }
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, number + page, 0);
    __sync_fetch_and_sub(&moving, 1);
    return 0;
}

static void *giver(void *argument)
{
    while (moving) {
        char *memory = map_pages(pages + 1);
        memory[0] = memory[pages / 2 * PAGE] = 1;
        EXPECT(!munmap(memory, (pages + 1) * PAGE));
        /* The kernel takes a while to free page tables, and they count. */
        usleep(200);
    }
    return argument;
}

/* A child that sees what its parent's movers have. */
static void make_child(uint64_t seed)
{
    int ends[2];
    EXPECT(!pipe(ends));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        for (uint64_t number = 1; number < MOST; number++) {
            char *memory = movers[number].memory, *next = movers[number].next;
            /* The place taken cannot be read, until it has come there. */
            if (next) memory = next == MAP_FAILED ? 0 : write(ends[1], next, 1) == 1 ? next : memory;
            for (int look = 0; look < 16 && memory; look++) {
                size_t page = random_next(&seed) % pages;
                verify(memory + page * PAGE, (number << 32) + page, 0);
            }
        }
        _exit(7);
    }
    int status;
    close(ends[0]);
    close(ends[1]);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int count, char **arguments)
{
    int threads = moving = atoi(arguments[2]), forks = count > 4 ? atoi(arguments[4]) : 0;
    pages = strtoul(arguments[1], 0, 10) * 256 / threads;
    rounds = atoi(arguments[3]);
    pthread_t thread[MOST];
    for (int number = 0; number < threads; number++)
        EXPECT(!pthread_create(&thread[number], 0, mover, (void *)(uint64_t)(number + 1)));
    for (int number = 0; number < 3; number++)
        EXPECT(!pthread_create(&thread[threads + number], 0, giver, 0));
    for (int number = 0; number < forks && moving; number++) {
        make_child(number + 1);
        usleep(2000);
    }
    for (int number = 0; number < threads + 3; number++) pthread_join(thread[number], 0);
    puts("right");
    return 0;
}
