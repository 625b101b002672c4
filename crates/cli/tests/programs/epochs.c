/* Uses pages of its memory by a pattern that the test knows, when it is told to:
 * epochs PAGES [PROGRAM ARG...]. It prints the number of its first page. For each number on
 * standard input it uses every page whose number in the memory is 0 modulo that number, and says
 * so. For `e` it becomes the program, for `f` it forks and waits for the child, which waits for
 * a while, for `m` it makes 30,000 mappings, for `q` it ends. */
#include "check.h"

int main(int count, char **arguments)
{
    EXPECT(count >= 2);
    size_t pages = strtoul(arguments[1], 0, 10);
    char *memory = map_pages(pages);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 1);
    printf("at %lu\n", (unsigned long)memory / PAGE);
    fflush(stdout);
    char order[32];
    while (fgets(order, sizeof order, stdin)) {
        if (order[0] == 'q') break;
        if (order[0] == 'e') {
            execv(arguments[2], arguments + 2);
            FAIL("%s cannot be started", arguments[2]);
        }
        if (order[0] == 'f') {
            pid_t child = fork();
            if (child == 0) {
                sleep(2);
                _exit(0);
            }
            printf("forked %d\n", child);
        } else if (order[0] == 'm') {
            /* Every other page may only be read: neighbours do not become one mapping. */
            char *more = map_pages(30000);
            for (size_t page = 0; page < 30000; page += 2) {
                more[page * PAGE] = 1;
                EXPECT(!mprotect(more + page * PAGE, PAGE, PROT_READ));
            }
            puts("mapped");
        } else {
            size_t step = strtoul(order, 0, 10);
            for (size_t page = 0; page < pages; page += step) *(volatile char *)(memory + page * PAGE);
            printf("used %zu\n", step);
        }
        fflush(stdout);
    }
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 1);
    printf("right\n");
}
