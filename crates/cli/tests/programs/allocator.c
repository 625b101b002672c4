/* A program whose own allocator cannot serve before `main`, as that of GNU Common Lisp: allocator
 * MIB. It says how many allocations there were by then. */
#include "check.h"

static char room[1 << 20] __attribute__((aligned(16)));
static size_t used, early, has_begun;

void *malloc(size_t bytes)
{
    early += !has_begun;
    char *place = room + used;
    used += (bytes + 15) & ~15UL;
    return used <= sizeof room ? place : 0;
}

void free(void *place) { (void)place; }

/* What is given back is never given out again, so it is empty. */
void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }

void *realloc(void *place, size_t bytes)
{
    char *new = malloc(bytes);
    if (place && new) memmove(new, place, bytes);
    return new;
}

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    has_begun = 1;
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    char *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
    printf("%zu allocations before main\nright\n", early);
    return 0;
}
