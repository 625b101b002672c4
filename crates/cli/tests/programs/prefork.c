/* A server that forks its workers beforehand, as a test orders it: prefork PAGES WORKERS.
 * It fills PAGES pages of its own and PAGES of shared memory, forks, and says so. Orders on
 * standard input, each of which it answers:
 *   u STEP    the first worker reads every STEPth page of both
 *   w COUNT   the first worker writes to COUNT of the pages that it has from before the fork
 *   f         one more worker, which reads all pages of both at once
 *   k         the last worker ends
 *   q         all end */
#include "check.h"

#define MOST_WORKERS 64

static char *own, *shared;
static size_t pages;
static int orders[MOST_WORKERS], answers[2];
static pid_t workers[MOST_WORKERS];
static int count;

static void use(size_t step)
{
    for (size_t page = 0; page < pages; page += step) {
        *(volatile char *)(own + page * PAGE);
        *(volatile char *)(shared + page * PAGE);
    }
}

static void work(int from)
{
    struct { char kind; size_t number; } order;
    while (read(from, &order, sizeof order) == sizeof order) {
        if (order.kind == 'u') use(order.number);
        if (order.kind == 'w')
            for (size_t page = 0; page < order.number; page++) fill(own + page * PAGE, page, 2);
        EXPECT(write(answers[1], "", 1) == 1);
    }
    _exit(0);
}

static void start(int uses_all)
{
    int both[2];
    EXPECT(count < MOST_WORKERS && !pipe(both));
    pid_t worker = fork();
    EXPECT(worker >= 0);
    if (worker == 0) {
        for (int other = 0; other < count; other++) close(orders[other]);
        close(both[1]);
        if (uses_all) {
            use(1);
            EXPECT(write(answers[1], "", 1) == 1);
        }
        work(both[0]);
    }
    close(both[0]);
    orders[count] = both[1];
    workers[count++] = worker;
}

static void wait_for_answer(void)
{
    char byte;
    EXPECT(read(answers[0], &byte, 1) == 1);
}

static void end_last(void)
{
    close(orders[--count]);
    EXPECT(waitpid(workers[count], 0, 0) == workers[count]);
}

int main(int words, char **arguments)
{
    EXPECT(words == 3 && !pipe(answers));
    pages = strtoul(arguments[1], 0, 10);
    own = map_pages(pages);
    madvise(own, pages * PAGE, MADV_NOHUGEPAGE);
    shared = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    for (size_t page = 0; page < pages; page++) {
        fill(own + page * PAGE, page, 1);
        fill(shared + page * PAGE, page, 1);
    }
    for (int worker = atoi(arguments[2]); worker > 0; worker--) start(0);
    puts("forked");
    fflush(stdout);
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        struct { char kind; size_t number; } order = { line[0], strtoul(line + 1, 0, 10) };
        if (order.kind == 'q') break;
        if (order.kind == 'f') {
            start(1);
            wait_for_answer();
        } else if (order.kind == 'k') {
            end_last();
        } else {
            EXPECT(write(orders[0], &order, sizeof order) == sizeof order);
            wait_for_answer();
        }
        puts("done");
        fflush(stdout);
    }
    while (count > 0) end_last();
    for (size_t page = 0; page < pages; page++) {
        verify(own + page * PAGE, page, 1);
        verify(shared + page * PAGE, page, 1);
    }
    puts("right");
}
