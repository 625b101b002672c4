/* Much of one kind, natively done within a second: many WHAT MIB COUNT. Before, during and after,
 * MIB of other memory is written to and verified, so that the program is paged.
 *
 * mappings   COUNT mappings that cannot become one, each written to, verified and unmapped
 * protect    a mapping of COUNT pages, of which every other is made readable only, one by one
 * threads    COUNT threads that are there at the same time, each with a stack that it uses
 * comeandgo  COUNT threads, one after another
 * move       a mapping of 64 pages, moved COUNT times
 * grow       a mapping that grows COUNT times, by a page
 * drop       a page that is written and dropped COUNT times
 * dropnone   memory without pages that is dropped COUNT times
 * advise     advice of other kinds on a mapping, COUNT times
 * mapunmap   a mapping that is made, written to and unmapped COUNT times
 * break      the break that goes up and down COUNT times */
#include "check.h"

static char *other;
static size_t other_pages;
static uint64_t version;

static void write_other(void)
{
    version++;
    for (size_t page = 0; page < other_pages; page++) fill(other + page * PAGE, page, version);
}

static void verify_other(void)
{
    for (size_t page = 0; page < other_pages; page++) verify(other + page * PAGE, page, version);
}

static void mappings(size_t count)
{
    char **made = calloc(count, sizeof *made);
    for (size_t number = 0; number < count; number++) {
        /* With a page between that may not be touched, two are never neighbours. */
        made[number] = map_pages(2);
        EXPECT(!mprotect(made[number] + PAGE, PAGE, PROT_NONE));
        fill(made[number], number, 1);
    }
    write_other();
    for (size_t number = 0; number < count; number++) verify(made[number], number, 1);
    for (size_t number = 0; number < count; number++) EXPECT(!munmap(made[number], 2 * PAGE));
    free(made);
}

static void protect(size_t count)
{
    char *memory = map_pages(count);
    for (size_t page = 0; page < count; page++) fill(memory + page * PAGE, page, 1);
    for (size_t page = 0; page < count; page += 2) EXPECT(!mprotect(memory + page * PAGE, PAGE, PROT_READ));
    write_other();
    for (size_t page = 0; page < count; page++) verify(memory + page * PAGE, page, 1);
    for (size_t page = 0; page < count; page += 2)
        EXPECT(!mprotect(memory + page * PAGE, PAGE, PROT_READ | PROT_WRITE));
    for (size_t page = 0; page < count; page++) fill(memory + page * PAGE, page, 2);
    for (size_t page = 0; page < count; page++) verify(memory + page * PAGE, page, 2);
    EXPECT(!munmap(memory, count * PAGE));
}

static pthread_barrier_t all_there;
/* Whether threads wait for each other. */
static int waits;

static void *use_stack(void *number)
{
    char page[2 * PAGE];
    char *whole = (char *)(((uintptr_t)page + PAGE - 1) & ~(PAGE - 1));
    fill(whole, (uintptr_t)number, 3);
    if (waits) pthread_barrier_wait(&all_there);
    verify(whole, (uintptr_t)number, 3);
    return number;
}

static pthread_t started(size_t number)
{
    pthread_attr_t attributes;
    EXPECT(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, 64 << 10));
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, use_stack, (void *)number);
    if (error) FAIL("thread %zu: %s", number, strerror(error));
    return thread;
}

static void threads(size_t count)
{
    pthread_t *all = calloc(count, sizeof *all);
    EXPECT(!pthread_barrier_init(&all_there, 0, count + 1));
    waits = 1;
    for (size_t number = 0; number < count; number++) all[number] = started(number);
    pthread_barrier_wait(&all_there);
    for (size_t number = 0; number < count; number++) EXPECT(!pthread_join(all[number], 0));
    free(all);
}

static void come_and_go(size_t count)
{
    for (size_t number = 0; number < count; number++) EXPECT(!pthread_join(started(number), 0));
}

static void move(size_t count)
{
    enum { PAGES = 64 };
    char *memory = map_pages(PAGES);
    for (size_t page = 0; page < PAGES; page++) fill(memory + page * PAGE, page, 4);
    for (size_t number = 0; number < count; number++) {
        char *place = mmap(0, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(place != MAP_FAILED);
        char *moved = mremap(memory, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        EXPECT(moved == place);
        memory = moved;
        verify(memory + number % PAGES * PAGE, number % PAGES, 4);
    }
    for (size_t page = 0; page < PAGES; page++) verify(memory + page * PAGE, page, 4);
}

static void grow(size_t count)
{
    char *memory = map_pages(1);
    fill(memory, 0, 5);
    for (size_t pages = 1; pages < count; pages++) {
        memory = mremap(memory, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE);
        EXPECT(memory != MAP_FAILED);
        fill(memory + pages * PAGE, pages, 5);
    }
    for (size_t page = 0; page < count; page++) verify(memory + page * PAGE, page, 5);
}

static void drop(size_t count, int is_written)
{
    enum { PAGES = 16 };
    char *memory = map_pages(PAGES);
    for (size_t number = 0; number < count; number++) {
        char *page = memory + number % PAGES * PAGE;
        if (is_written) *(volatile uint64_t *)page = number + 1;
        EXPECT(!madvise(page, PAGE, MADV_DONTNEED));
        if (is_written && *(volatile uint64_t *)page) FAIL("page %zu is not zero", number);
    }
}

static void advise(size_t count)
{
    enum { PAGES = 64 };
    static const int kinds[] = {MADV_NORMAL, MADV_WILLNEED, MADV_COLD, MADV_RANDOM, MADV_SEQUENTIAL};
    char *memory = map_pages(PAGES);
    for (size_t page = 0; page < PAGES; page++) fill(memory + page * PAGE, page, 6);
    for (size_t number = 0; number < count; number++)
        EXPECT(!madvise(memory, PAGES * PAGE, kinds[number % (sizeof kinds / sizeof *kinds)]));
    for (size_t page = 0; page < PAGES; page++) verify(memory + page * PAGE, page, 6);
}

static void map_and_unmap(size_t count)
{
    for (size_t number = 0; number < count; number++) {
        char *memory = map_pages(4);
        *(volatile uint64_t *)memory = number;
        EXPECT(!munmap(memory, 4 * PAGE));
    }
}

static void up_and_down(size_t count)
{
    for (size_t number = 0; number < count; number++) {
        char *old = sbrk(4 * PAGE);
        EXPECT(old != (void *)-1);
        if (*(volatile uint64_t *)old) FAIL("the break %zu is not zero", number);
        *(volatile uint64_t *)old = number + 1;
        EXPECT(sbrk(-(intptr_t)(4 * PAGE)) != (void *)-1);
    }
}

int main(int count, char **arguments)
{
    EXPECT(count == 4);
    const char *what = arguments[1];
    other_pages = strtoul(arguments[2], 0, 10) << 8;
    size_t number = strtoul(arguments[3], 0, 10);
    other = map_pages(other_pages);
    write_other();
    if (!strcmp(what, "mappings")) mappings(number);
    else if (!strcmp(what, "protect")) protect(number);
    else if (!strcmp(what, "threads")) threads(number);
    else if (!strcmp(what, "comeandgo")) come_and_go(number);
    else if (!strcmp(what, "move")) move(number);
    else if (!strcmp(what, "grow")) grow(number);
    else if (!strcmp(what, "drop")) drop(number, 1);
    else if (!strcmp(what, "dropnone")) drop(number, 0);
    else if (!strcmp(what, "advise")) advise(number);
    else if (!strcmp(what, "mapunmap")) map_and_unmap(number);
    else if (!strcmp(what, "break")) up_and_down(number);
    else FAIL("%s?", what);
    verify_other();
    write_other();
    verify_other();
    puts("right");
    return 0;
}
