/* Pages that are read much and written little, or the other way round, while threads write to the
 * same pages, memory is dropped and moved, a disk writes to memory, and the process forks:
 * mostly MIB ROUNDS reads|writes. Every page is checked whenever it is touched. */
#include "check.h"
#include <stdatomic.h>

#define THREADS 3
#define FORKS 12

static size_t pages;
static int rounds, writes_in_100;
static _Atomic uint64_t *shared;
static _Atomic int running = THREADS;
static int file = -1;

/* 0: zeros; otherwise one more than the version that `fill` was given. */
struct area { char *memory; uint64_t number; uint32_t *version; };

static struct area make(uint64_t number)
{
    struct area area = { map_pages(pages), number << 32, calloc(pages, sizeof(uint32_t)) };
    for (size_t page = 0; page < pages; page++) {
        area.version[page] = 1;
        fill(area.memory + page * PAGE, area.number + page, 0);
    }
    return area;
}

static void check(struct area *area, size_t page)
{
    if (area->version[page]) verify(area->memory + page * PAGE, area->number + page, area->version[page] - 1);
    else verify_zero(area->memory + page * PAGE, page);
}

static void change(struct area *area, size_t page)
{
    ++area->version[page];
    fill(area->memory + page * PAGE, area->number + page, area->version[page] - 1);
}

/* A device writes to a page, which no page table shows. */
static void read_directly(struct area *area, size_t page)
{
    if (file < 0) return change(area, page);
    EXPECT(pread(file, area->memory + page * PAGE, PAGE, 0) == PAGE);
    verify(area->memory + page * PAGE, 7, 7);
    change(area, page);
}

static void *work(void *argument)
{
    uint64_t thread = (uintptr_t)argument, seed = 88172645463325253 + thread;
    struct area area = make(1 + thread);
    uint32_t *added = calloc(pages, sizeof(uint32_t));
    for (size_t step = 0; step < rounds * pages; step++) {
        size_t page = random_next(&seed) % pages, chance = random_next(&seed) % 4000;
        check(&area, page);
        if (chance < (size_t)writes_in_100 * 40) change(&area, page);
        if (chance == 0) {
            size_t first = page & ~7ul, some = pages - first < 8 ? pages - first : 8;
            EXPECT(!madvise(area.memory + first * PAGE, some * PAGE, MADV_DONTNEED));
            for (size_t index = first; index < first + some; index++) area.version[index] = 0;
        } else if (chance == 1) {
            char *place = map_pages(pages);
            area.memory = mremap(area.memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            EXPECT(area.memory == place);
        } else if (chance < 6) {
            read_directly(&area, page);
        }
        /* Of a page that all threads write to, each thread has words of its own. */
        size_t other = random_next(&seed) % pages, word = other * WORDS + thread * 64 + chance % 64;
        if (chance % 50 == 0) {
            uint64_t old = atomic_fetch_add(&shared[other * WORDS + thread * 64], 1);
            if (old != added[other]++) FAIL("page %lu of all: %lu, not %u", other, old, added[other] - 1);
        } else if (word % 64 && shared[word]) {
            FAIL("page %lu of all, word %lu: %lx", other, word % WORDS, (uint64_t)shared[word]);
        }
    }
    for (size_t page = 0; page < pages; page++) {
        check(&area, page);
        if (shared[page * WORDS + thread * 64] != added[page]) FAIL("page %lu of all has lost a write", page);
    }
    atomic_fetch_sub(&running, 1);
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    pages = strtoul(arguments[1], 0, 10) * 256 / (THREADS + 2);
    rounds = atoi(arguments[2]);
    writes_in_100 = strcmp(arguments[3], "reads") ? 60 : 2;
    char name[] = "/var/tmp/mostlyXXXXXX";
    int plain = mkstemp(name);
    if (plain >= 0) {
        static char page[PAGE];
        fill(page, 7, 7);
        EXPECT(write(plain, page, PAGE) == PAGE && !fsync(plain));
        file = open(name, O_RDONLY | O_DIRECT);
        unlink(name);
    }
    shared = (void *)map_pages(pages);
    struct area own = make(THREADS + 1);
    pthread_t threads[THREADS];
    for (uintptr_t thread = 0; thread < THREADS; thread++)
        EXPECT(!pthread_create(&threads[thread], 0, work, (void *)thread));
    for (int forks = 0; forks < FORKS && running; forks++) {
        for (size_t page = 0; page < pages; page++) check(&own, page);
        change(&own, forks % pages);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (!child) {
            for (size_t page = 0; page < pages; page++) {
                check(&own, page);
                if (page % 16 == 0) change(&own, page);
            }
            for (size_t page = 0; page < pages; page++) check(&own, page);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        if (status) FAIL("a child has ended with %x", status);
    }
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], 0);
    for (size_t page = 0; page < pages; page++) check(&own, page);
    puts("right");
    return 0;
}
