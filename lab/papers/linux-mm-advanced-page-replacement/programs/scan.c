/* An anonymous mapping walked from its first page to its last, `loops` times, beside a hot set:
 * after each page of the walk, one page of the hot set, drawn at random. The linux-mm notes on page
 * replacement time such walks; here they are recorded.
 *
 * Usage: scan PAGES LOOPS HOT_PAGES
 * The hot set is allocated first, the walked mapping second, so that a trace tells them apart by
 * its objects. */
#include "memory.h"
#include <stdio.h>
#include <stdlib.h>

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
    volatile unsigned char *hot_set = map(hot * PAGE);
    volatile unsigned char *walked = map(pages * PAGE);
    uint64_t state = 1;
    for (size_t loop = 0; loop < loops; loop++) {
        for (size_t page = 0; page < pages; page++) {
            walked[page * PAGE]++;
            hot_set[draw(&state) % hot * PAGE]++;
        }
    }
    return 0;
}
