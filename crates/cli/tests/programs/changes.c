/* The address space changes while it is paged out: munmap, mmap over, MADV_DONTNEED, MADV_FREE,
 * mremap, mprotect, realloc, brk: changes MIB ROUNDS SEED. A plain model says what each page has to
 * hold. */
#include "check.h"

#define AREAS 24

/* 0: zeros; otherwise one more than the version that `fill` was given. */
struct area { char *memory; size_t pages; uint64_t number; uint32_t *version; };

static uint64_t numbers;

static struct area make(size_t pages)
{
    struct area area = { map_pages(pages), pages, ++numbers << 32, calloc(pages, sizeof(uint32_t)) };
    return area;
}

static void check(struct area *area, size_t page)
{
    if (area->version[page]) verify(area->memory + page * PAGE, area->number + page, area->version[page] - 1);
    else verify_zero(area->memory + page * PAGE, page);
}

static void write_page(struct area *area, size_t page)
{
    ++area->version[page];
    fill(area->memory + page * PAGE, area->number + page, area->version[page] - 1);
}

static void drop(struct area *area, size_t first, size_t pages)
{
    for (size_t page = first; page < first + pages; page++) area->version[page] = 0;
}

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256 / AREAS;
    int rounds = atoi(arguments[2]);
    uint64_t seed = strtoull(arguments[3], 0, 10) * 2 + 88172645463325253;
    struct area areas[AREAS];
    for (int index = 0; index < AREAS; index++) {
        areas[index] = make(pages);
        for (size_t page = 0; page < pages; page++) write_page(&areas[index], page);
    }
    for (int round = 0; round < rounds; round++) {
        struct area *area = &areas[random_next(&seed) % AREAS];
        size_t first = random_next(&seed) % area->pages;
        size_t some = 1 + random_next(&seed) % (area->pages - first);
        char *at = area->memory + first * PAGE;
        switch (random_next(&seed) % 9) {
        case 0: /* gone, and a new area most likely at the same place */
            for (size_t page = 0; page < area->pages; page++) check(area, page);
            EXPECT(!munmap(area->memory, area->pages * PAGE));
            free(area->version);
            *area = make(pages);
            break;
        case 1:
            EXPECT(!madvise(at, some * PAGE, MADV_DONTNEED));
            drop(area, first, some);
            break;
        case 2: /* may drop or keep: what is written next counts */
            EXPECT(!madvise(at, some * PAGE, MADV_FREE));
            for (size_t page = first; page < first + some; page++) write_page(area, page);
            break;
        case 3: /* new memory over a part */
            EXPECT(mmap(at, some * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
            drop(area, first, some);
            break;
        case 4: { /* elsewhere, larger; or smaller */
            size_t now = random_next(&seed) % 2 ? area->pages + some : first + 1;
            if (now > 2 * pages) now = pages;
            char *moved = mremap(area->memory, area->pages * PAGE, now * PAGE, MREMAP_MAYMOVE);
            /* The kernel moves one mapping at a time, and by now the area may be several. */
            if (moved == MAP_FAILED && errno == EFAULT) break;
            EXPECT(moved != MAP_FAILED);
            area->memory = moved;
            area->version = realloc(area->version, now * sizeof(uint32_t));
            for (size_t page = area->pages; page < now; page++) area->version[page] = 0;
            area->pages = now;
            break;
        }
        case 5: { /* to a given place, which is taken */
            char *target = map_pages(area->pages);
            for (size_t page = 0; page < area->pages; page += 3) fill(target + page * PAGE, page, 77);
            char *moved = mremap(area->memory, area->pages * PAGE, area->pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                                 target);
            if (moved == MAP_FAILED && errno == EFAULT) {
                munmap(target, area->pages * PAGE);
                break;
            }
            EXPECT(moved == target);
            area->memory = target;
            break;
        }
        case 6: /* not writable for a while */
            EXPECT(!mprotect(at, some * PAGE, PROT_READ));
            for (size_t page = first; page < first + some; page++) check(area, page);
            EXPECT(!mprotect(at, some * PAGE, PROT_READ | PROT_WRITE));
            break;
        case 7: { /* the allocator's own ways */
            size_t bytes = 1000 + random_next(&seed) % (4 << 20);
            unsigned char *block = malloc(bytes);
            for (size_t byte = 0; byte < bytes; byte += 997) block[byte] = (unsigned char)(byte / 997);
            size_t larger = bytes + random_next(&seed) % (8 << 20);
            block = realloc(block, larger);
            for (size_t byte = 0; byte < bytes; byte += 997) EXPECT(block[byte] == (unsigned char)(byte / 997));
            free(block);
            char *old = sbrk(0);
            EXPECT(sbrk(100000) == old);
            for (size_t byte = 0; byte < 100000; byte++) EXPECT(old[byte] == 0);
            memset(old, 0x5a, 100000);
            EXPECT(sbrk(-100000) == old + 100000);
            break;
        }
        default:
            for (size_t page = first; page < first + some; page++) {
                check(area, page);
                if (random_next(&seed) % 2) write_page(area, page);
            }
        }
    }
    for (int index = 0; index < AREAS; index++)
        for (size_t page = 0; page < areas[index].pages; page++) check(&areas[index], page);
    puts("right");
    return 0;
}
