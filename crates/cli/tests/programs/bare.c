/* Memory that the C library is not asked for: bare MIB STEP_KIB PAUSE_US HOW, taken by system
 * calls of the program's own.
 *
 *   idle      by one thread, while others sleep
 *   busy      while another thread uses memory that is paged
 *   break     by moving the end of the heap
 *   fork      in children, one after another
 */
#include "check.h"

static volatile int stop;
static char *memory;
static size_t pages;

static void *use_memory(void *nothing)
{
    uint64_t state = 1;
    while (!stop) {
        size_t page = random_next(&state) % pages;
        verify(memory + page * PAGE, page, 0);
    }
    return nothing;
}

static void take(size_t steps, size_t step, unsigned pause_us, int by_break)
{
    char **taken = (char **)bare_call(SYS_mmap, 0, steps * sizeof(char *), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t number = 0; number < steps; number++) {
        long at;
        if (by_break) {
            at = (bare_call(SYS_brk, 0, 0, 0, 0, 0, 0) + PAGE - 1) & -PAGE;
            EXPECT(bare_call(SYS_brk, at + step * PAGE, 0, 0, 0, 0, 0) == at + (long)(step * PAGE));
        } else {
            at = bare_call(SYS_mmap, 0, step * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            EXPECT(at > 0);
        }
        taken[number] = (char *)at;
        for (size_t page = 0; page < step; page++) fill(taken[number] + page * PAGE, number * step + page, 5);
        if (pause_us) usleep(pause_us);
    }
    for (size_t number = 0; number < steps; number++)
        for (size_t page = 0; page < step; page++) verify(taken[number] + page * PAGE, number * step + page, 5);
}

int main(int count, char **arguments)
{
    EXPECT(count == 5);
    size_t step = strtoul(arguments[2], 0, 10) / 4;
    size_t steps = strtoul(arguments[1], 0, 10) * 256 / step;
    unsigned pause_us = strtoul(arguments[3], 0, 10);
    const char *how = arguments[4];
    pages = 16 * 256;
    memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    pthread_t thread;
    int is_busy = !strcmp(how, "busy");
    if (is_busy) EXPECT(!pthread_create(&thread, 0, use_memory, 0));
    if (!strcmp(how, "fork")) {
        for (int child = 0; child < 4; child++) {
            pid_t pid = fork();
            if (!pid) {
                take(steps, step, pause_us, 0);
                _exit(7);
            }
            int status;
            EXPECT(waitpid(pid, &status, 0) == pid);
            if (status != 7 << 8) FAIL("a child: %x", status);
        }
    } else {
        take(steps, step, pause_us, !strcmp(how, "break"));
    }
    stop = 1;
    if (is_busy) pthread_join(thread, 0);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
    puts("right");
    return 0;
}
