/* How threads and processes end, and what is left then: ends MIB WHAT. Statuses other than 0 are
 * expected: `last` ends with 3, `leader` with 0 from its second thread. */
#include "check.h"
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <ucontext.h>

static size_t pages;
static char *memory;

/* Everything that is not used meanwhile is paged out. */
static void churn(void)
{
    for (int turn = 0; turn < 3; turn++)
        for (size_t page = 0; page < pages; page++) fill(memory + page * PAGE, page, turn);
    for (size_t page = 0; page < pages; page++) verify(memory + page * PAGE, page, 2);
}

static volatile int locked, go;
static pthread_mutex_t *mutexes[3];

static void *own_mutexes(void *argument)
{
    for (int number = 0; number < 3; number++) EXPECT(!pthread_mutex_lock(mutexes[number]));
    locked = 1;
    while (!go) usleep(1000);
    return argument;
}

/* The owner of three mutexes ends; whoever wants them next is told. One of them is shared. */
static void robust(void)
{
    pthread_mutexattr_t attributes;
    EXPECT(!pthread_mutexattr_init(&attributes));
    EXPECT(!pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    char *place = map_pages(64);
    for (int number = 0; number < 3; number++) {
        mutexes[number] = (pthread_mutex_t *)(place + number * 20 * PAGE + PAGE - 16);
        if (number == 2) {
            EXPECT(!pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
            mutexes[number] =
                mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        }
        EXPECT(!pthread_mutex_init(mutexes[number], &attributes));
    }
    /* Its stack, with what the kernel looks at in the end, is memory like any other. */
    pthread_attr_t stack;
    EXPECT(!pthread_attr_init(&stack) && !pthread_attr_setstack(&stack, map_pages(32), 32 * PAGE));
    pthread_t thread;
    EXPECT(!pthread_create(&thread, &stack, own_mutexes, mutexes));
    while (!locked) usleep(1000);
    churn();
    go = 1;
    void *result;
    EXPECT(!pthread_join(thread, &result) && result == mutexes);
    for (int number = 0; number < 3; number++) {
        struct timespec time;
        EXPECT(!clock_gettime(CLOCK_REALTIME, &time));
        time.tv_sec += 60;
        int told = pthread_mutex_timedlock(mutexes[number], &time);
        if (told != EOWNERDEAD) FAIL("mutex %d: %s", number, strerror(told));
        EXPECT(!pthread_mutex_consistent(mutexes[number]) && !pthread_mutex_unlock(mutexes[number]));
        EXPECT(!pthread_mutex_destroy(mutexes[number]));
    }
    churn();
}

static void *outlive(void *argument)
{
    usleep(100000);
    churn();
    puts("right");
    return argument;
}

static void *become(void *argument)
{
    churn();
    char mib[20];
    snprintf(mib, sizeof mib, "%zu", pages / 256);
    execl("/proc/self/exe", "ends", mib, "churn", (char *)0);
    FAIL("no exec: %d", errno);
    return argument;
}

/* Children that share memory, and others, with whatever the C library and the kernel have for
 * that. */
static int child_of_clone(void *argument)
{
    for (size_t page = 0; page < pages; page += 5) verify(memory + page * PAGE, page, 2);
    return argument ? 7 : 8;
}

static void expect_child(pid_t child, int status)
{
    int ended;
    EXPECT(child > 0 && waitpid(child, &ended, __WALL) == child);
    if (ended != status << 8) FAIL("the child has ended with %x", ended);
}

static void children(void)
{
    char *stack = map_pages(64) + 64 * PAGE, *arguments[] = { "true", 0 };
    churn();
    for (int turn = 0; turn < 5; turn++) {
        expect_child(clone(child_of_clone, stack, SIGCHLD, memory), 7);
        expect_child(clone(child_of_clone, stack, SIGCHLD | CLONE_VM, memory), 7);
        expect_child(clone(child_of_clone, stack, SIGCHLD | CLONE_VM | CLONE_VFORK, 0), 8);
        expect_child(clone(child_of_clone, stack, SIGCHLD | CLONE_NEWPID | CLONE_NEWNS, memory), 7);
        pid_t child = syscall(SYS_fork);
        if (!child) _exit(child_of_clone(memory));
        expect_child(child, 7);
        struct { uint64_t words[8]; } wanted = { { 0, 0, 0, 0, SIGCHLD } };
        child = syscall(SYS_clone3, &wanted, sizeof wanted);
        if (!child) _exit(child_of_clone(memory));
        expect_child(child, 7);
        child = vfork();
        if (!child) _exit(5);
        expect_child(child, 5);
        EXPECT(!posix_spawnp(&child, "true", 0, 0, arguments, environ));
        expect_child(child, 0);
        /* A signal of the program's own for a child whose parent is gone. */
        int ends[2];
        EXPECT(!pipe(ends));
        child = fork();
        if (!child) {
            pid_t grandchild = fork();
            if (!grandchild) {
                EXPECT(!prctl(PR_SET_PDEATHSIG, SIGKILL));
                EXPECT(write(ends[1], "x", 1) == 1);
                for (;;) pause();
            }
            char byte;
            EXPECT(read(ends[0], &byte, 1) == 1);
            _exit(7);
        }
        expect_child(child, 7);
        char byte;
        close(ends[1]);
        EXPECT(read(ends[0], &byte, 1) == 0);
        close(ends[0]);
    }
}

/* Threads that start programs, all at once. */
static void *spawn(void *argument)
{
    for (int turn = 0; turn < 20; turn++) {
        pid_t child = vfork();
        if (!child) {
            execlp("true", "true", (char *)0);
            _exit(9);
        }
        expect_child(child, 0);
        char *own = map_pages(16);
        fill(own, turn, 0);
        verify(own, turn, 0);
        EXPECT(!munmap(own, 16 * PAGE));
    }
    return argument;
}

/* A thread is cancelled wherever it is, in the midst of the pager's work, too. */
static void *map_until_cancelled(void *argument)
{
    EXPECT(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0));
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    for (char *place = argument;; place[PAGE] = 1)
        mmap(place, 16 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
}

static void cancelled(void)
{
    for (int turn = 0; turn < 100; turn++) {
        char *place = map_pages(16);
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, map_until_cancelled, place));
        usleep(turn * 20);
        void *result;
        EXPECT(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
        EXPECT(!munmap(place, 16 * PAGE));
        if (turn % 20 == 0) churn();
    }
}

/* Coroutines, each on a stack that is paged. */
#define COROUTINES 200

static ucontext_t home, coroutines[COROUTINES];

static void coroutine(int number)
{
    for (int turn = 0; turn < 5; turn++) {
        uint64_t local[WORDS];
        fill(local, number, turn);
        EXPECT(!swapcontext(&coroutines[number], &home));
        verify(local, number, turn);
    }
}

static void switching(void)
{
    for (int number = 0; number < COROUTINES; number++) {
        ucontext_t *context = &coroutines[number];
        EXPECT(!getcontext(context));
        context->uc_stack.ss_sp = map_pages(16);
        context->uc_stack.ss_size = 16 * PAGE;
        context->uc_link = &home;
        makecontext(context, (void (*)(void))coroutine, 1, number);
    }
    for (int turn = 0; turn < 6; turn++) {
        for (int number = 0; number < COROUTINES; number++)
            EXPECT(!swapcontext(&home, &coroutines[number]));
        churn();
    }
}

int main(int count, char **arguments)
{
    pages = strtoul(arguments[1], 0, 10) * 256;
    const char *what = arguments[2];
    setvbuf(stdout, 0, _IOLBF, 0);
    memory = map_pages(pages);
    if (!strcmp(what, "churn")) {
        churn();
    } else if (!strcmp(what, "robust")) {
        robust();
    } else if (!strcmp(what, "last")) {
        churn();
        puts("right");
        syscall(SYS_exit, 3);
    } else if (!strcmp(what, "leader")) {
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, outlive, 0));
        pthread_exit(0);
    } else if (!strcmp(what, "exec")) {
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, become, 0));
        for (;;) pause();
    } else if (!strcmp(what, "children")) {
        children();
    } else if (!strcmp(what, "spawn")) {
        pthread_t threads[4];
        for (int number = 0; number < 4; number++)
            EXPECT(!pthread_create(&threads[number], 0, spawn, 0));
        churn();
        for (int number = 0; number < 4; number++) EXPECT(!pthread_join(threads[number], 0));
    } else if (!strcmp(what, "cancelled")) {
        cancelled();
    } else if (!strcmp(what, "coroutines")) {
        switching();
    } else {
        FAIL("what is %s?", what);
    }
    puts("right");
    return 0;
}
