/* Random reads and writes of pages of which three in four compress: pooled MIB ROUNDS SEED. Some
 * are dropped. After each round all of them move, and a child checks them. */
#include "check.h"

/* The words of a page that compresses repeat after this many: to less than half. */
#define PATTERN 192

static uint64_t word_at(uint64_t page, uint64_t version, uint64_t word)
{
    return word_of(page, version, page % 4 ? word % PATTERN : word);
}

static void write_page(char *memory, uint64_t page, uint64_t version)
{
    uint64_t *words = (uint64_t *)(memory + page * PAGE);
    for (uint64_t word = 0; word < WORDS; word++) words[word] = word_at(page, version, word);
}

/* A page of version 0 was never written to, or was dropped. */
static void check_page(const char *memory, uint64_t page, uint64_t version)
{
    const uint64_t *words = (const uint64_t *)(memory + page * PAGE);
    if (version == 0) {
        verify_zero(words, page);
        return;
    }
    for (uint64_t word = 0; word < WORDS; word++)
        if (words[word] != word_at(page, version, word))
            FAIL("page %lu version %lu word %lu: %lx, not %lx", page, version, word, words[word],
                 word_at(page, version, word));
}

static void check_all(const char *memory, size_t pages, const uint32_t *version)
{
    for (size_t page = 0; page < pages; page++) check_page(memory, page, version[page]);
}

int main(int count, char **arguments)
{
    EXPECT(count == 4);
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    int rounds = atoi(arguments[2]);
    uint64_t seed = strtoull(arguments[3], 0, 10) + 88172645463325252;
    char *memory = map_pages(pages);
    uint32_t *version = calloc(pages, sizeof *version), newest = 0;
    EXPECT(version);
    for (int round = 0; round < rounds; round++) {
        for (size_t step = 0; step < 2 * pages; step++) {
            size_t page = random_next(&seed) % pages;
            check_page(memory, page, version[page]);
            if (random_next(&seed) % 64 == 0) {
                EXPECT(madvise(memory + page * PAGE, PAGE, MADV_DONTNEED) == 0);
                version[page] = 0;
            } else if (random_next(&seed) % 2) {
                write_page(memory, page, version[page] = ++newest);
            }
        }
        char *place = map_pages(pages);
        EXPECT(mremap(memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
        memory = place;
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            check_all(memory, pages, version);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(status == 0);
    }
    check_all(memory, pages, version);
    puts("right");
    return 0;
}
