/* Signals that come while threads wait for the pager: signals MIB PERIOD_US ROUNDS. One thread's
 * handler only returns, one's calls the pager itself (on a stack of its own), one's jumps out of
 * whatever it has interrupted; the first thread forks. At the end nothing is busy. */
#include "check.h"
#include <setjmp.h>
#include <time.h>

#define PLACE (32 * PAGE)

static long period_ns;
static volatile int over;
static __thread timer_t timer;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t may_jump;
static volatile long jumps, nested;

/* The next signal comes a period after this one's handler. If signals came at a fixed pace, a
 * handler that takes longer than that on a busy machine would be all that the thread does. */
static void ring(void)
{
    struct itimerspec time = { { 0, 0 }, { 0, period_ns } };
    if (over) return; /* the timer may be gone */
    EXPECT(!timer_settime(timer, 0, &time, 0));
}

static void returning(int signal)
{
    (void)signal;
    ring();
}

static void calling(int signal)
{
    (void)signal;
    char *memory = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    memory[0] = memory[7 * PAGE] = 1;
    EXPECT(!madvise(memory, PAGE, MADV_DONTNEED) && !memory[0]);
    EXPECT(!munmap(memory, 8 * PAGE));
    nested++;
    ring();
}

static void jumping(int signal)
{
    (void)signal;
    ring();
    if (!may_jump) return;
    may_jump = 0;
    jumps++;
    siglongjmp(back, 1);
}

/* Has a timer send the calling thread the signal again and again. */
static void begin_to_ring(int signal)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal };
    event._sigev_un._tid = syscall(SYS_gettid);
    EXPECT(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    ring();
}

static void *map(void *argument)
{
    int signal = (intptr_t)argument;
    stack_t stack = { .ss_sp = map_pages(16), .ss_size = 16 * PAGE };
    EXPECT(!sigaltstack(&stack, 0));
    begin_to_ring(signal);
    for (long turn = 0; !over; turn++) {
        char *memory = map_pages(16);
        for (int page = 0; page < 16; page += 5) fill(memory + page * PAGE, page, turn);
        for (int page = 0; page < 16; page += 5) verify(memory + page * PAGE, page, turn);
        EXPECT(!munmap(memory, 16 * PAGE));
    }
    timer_delete(timer);
    return 0;
}

/* Maps and moves at fixed places, so that nothing is lost when a handler jumps out. */
static void *jump(void *argument)
{
    char *here = map_pages(PLACE / PAGE), *there = map_pages(PLACE / PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    /* Nobody else can come to a place that is never empty. */
    int how = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    begin_to_ring((intptr_t)argument);
    while (!over) {
        sigsetjmp(back, 1);
        may_jump = 1;
        EXPECT(mmap(here, PLACE, PROT_READ | PROT_WRITE, flags, -1, 0) == here);
        here[PAGE] = 1;
        EXPECT(mremap(here, PLACE, PLACE, how, there) == there);
        may_jump = 0;
        EXPECT(there[PAGE] == 1);
    }
    may_jump = 0;
    timer_delete(timer);
    return 0;
}

static double processor_seconds(void)
{
    struct timespec time;
    EXPECT(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    size_t pages = strtoul(arguments[1], 0, 10) * 256;
    period_ns = atol(arguments[2]) * 1000;
    struct { int signal; void (*handler)(int); int flags; void *(*thread)(void *); } kinds[] = {
        { SIGUSR1, returning, SA_RESTART, map },
        { SIGUSR2, calling, SA_ONSTACK, map },
        { SIGRTMIN, jumping, SA_NODEFER, jump },
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    char *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, 0);
    pthread_t threads[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        struct sigaction action = { .sa_handler = kinds[kind].handler, .sa_flags = kinds[kind].flags };
        EXPECT(!sigaction(kinds[kind].signal, &action, 0));
        void *signal = (void *)(intptr_t)kinds[kind].signal;
        EXPECT(!pthread_create(&threads[kind], 0, kinds[kind].thread, signal));
    }
    uint64_t seed = 1;
    for (int round = 0; round < atoi(arguments[3]) || !jumps || !nested; round++) {
        for (int look = 0; look < 200; look++) {
            size_t page = random_next(&seed) % pages;
            verify(memory + page * PAGE, page, 0);
        }
        pid_t child = fork();
        EXPECT(child >= 0);
        if (!child) {
            for (size_t page = round; page < pages; page += 97) verify(memory + page * PAGE, page, 0);
            _exit(7);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    over = 1;
    for (int kind = 0; kind < KINDS; kind++) EXPECT(!pthread_join(threads[kind], 0));
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 0);
    double before = processor_seconds();
    struct timespec rest = { 1, 0 };
    while (nanosleep(&rest, &rest)) continue;
    EXPECT(processor_seconds() - before < 0.5);
    puts("right");
    return 0;
}
