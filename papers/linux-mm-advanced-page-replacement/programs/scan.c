/* An anonymous mapping walked from its first page to its last, `loops` times, beside a hot set:
 * after each page of the walk, one page of the hot set, drawn at random. The linux-mm notes on page
 * replacement time such walks; here they are recorded.
 *
 * Usage: scan PAGES LOOPS HOT_PAGES
 * The hot set is allocated first, the walked mapping second, so that a trace tells them apart by
 * its objects. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static volatile unsigned char *map(size_t pages) {
    void *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("scan: mmap");
        exit(1);
    }
    return memory;
}

/* SplitMix64: the same pages on every machine. */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: scan PAGES LOOPS HOT_PAGES\n", stderr);
        return 2;
    }
    size_t pages = strtoul(argv[1], NULL, 10), loops = strtoul(argv[2], NULL, 10), hot = strtoul(argv[3], NULL, 10);
    if (pages == 0 || loops == 0 || hot == 0) {
        fputs("scan: each of PAGES, LOOPS and HOT_PAGES is a number from 1\n", stderr);
        return 2;
    }
    volatile unsigned char *hot_set = map(hot);
    volatile unsigned char *walked = map(pages);
    uint64_t state = 1;
    for (size_t loop = 0; loop < loops; loop++) {
        for (size_t page = 0; page < pages; page++) {
            walked[page * PAGE]++;
            hot_set[draw(&state) % hot * PAGE]++;
        }
    }
    return 0;
}
