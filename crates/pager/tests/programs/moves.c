/* Threads that move their memory to wherever the kernel finds a place, and threads that give up memory of the same size
 * all the while, so that what is moved lands where something else has just been: moves MIB MOVERS ROUNDS. The kernel tells
 * of both when they are over, in either order. Nothing that was moved may be taken for what was given up. */
#include "check.h"

static size_t pages;
static int rounds;
static volatile int moving;

/* Nothing can grow where it is. */
static void fence(char *end)
{
    void *page = mmap(end, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(page == end || errno == EEXIST);
}

static void *mover(void *argument)
{
    uint64_t number = (uint64_t)argument << 32, seed = 1 + (uint64_t)argument;
    char *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, number + page, 0);
    for (int round = 0; round < rounds; round++) {
        fence(memory + pages * PAGE);
        char *moved = mremap(memory, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE);
        EXPECT(moved != MAP_FAILED);
        EXPECT(!munmap(moved + pages * PAGE, PAGE));
        memory = moved;
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

int main(int count, char **arguments)
{
    int movers = atoi(arguments[2]);
    pages = strtoul(arguments[1], 0, 10) * 256 / movers;
    rounds = atoi(arguments[3]);
    moving = movers;
    pthread_t thread[64];
    for (int number = 0; number < movers; number++)
        EXPECT(!pthread_create(&thread[number], 0, mover, (void *)(uint64_t)(number + 1)));
    for (int number = 0; number < 3; number++)
        EXPECT(!pthread_create(&thread[movers + number], 0, giver, 0));
    for (int number = 0; number < movers + 3; number++) pthread_join(thread[number], 0);
    puts("right");
    return 0;
}
