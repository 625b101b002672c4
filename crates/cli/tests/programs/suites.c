/* Programs that do what those of other test suites and of public bug reports do: suites MIB WHAT.
 * Most of memory is paged out meanwhile. The table in tests/corners.rs says what each is after. */
#include "check.h"
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <ucontext.h>

#define ITSELF "/proc/self/exe"

static char *memory;
static size_t pages;
static char **arguments;

static char *page_at(size_t page) { return memory + page * PAGE; }

static void fill_all(int version)
{
    for (size_t page = 0; page < pages; page++) fill(page_at(page), page, version);
}

static void verify_all(int version)
{
    for (size_t page = 0; page < pages; page++) verify(page_at(page), page, version);
}

static void expect_status(pid_t child, int expected)
{
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    if (status != expected) FAIL("a child has ended with %x", status);
}

/* Memory moves away and its old place stays mapped, without pages. */
static void keep_the_place(void)
{
    enum { KEPT = 4 }; /* MREMAP_DONTUNMAP */
    size_t half = pages / 2;
    char *moved = mremap(memory, half * PAGE, half * PAGE, MREMAP_MAYMOVE | KEPT, 0);
    EXPECT(moved != MAP_FAILED && moved != memory);
    for (size_t page = 0; page < half; page++) verify(moved + page * PAGE, page, 0);
    for (size_t page = 0; page < half; page += 3) verify_zero(page_at(page), page);
    fill_all(1);
    for (size_t page = 0; page < half; page++) verify(moved + page * PAGE, page, 0);
    verify_all(1);
    EXPECT(!munmap(moved, half * PAGE));
}

/* Of three parts a child gets one, an empty one, and none. */
static void not_for_children(void)
{
    size_t third = pages / 3;
    EXPECT(!madvise(memory, third * PAGE, MADV_WIPEONFORK));
    EXPECT(!madvise(page_at(third), third * PAGE, MADV_DONTFORK));
    pid_t child = fork();
    if (!child) {
        unsigned char there[1];
        for (size_t page = 0; page < third; page++) verify_zero(page_at(page), page);
        EXPECT(mincore(page_at(third), PAGE, there) == -1 && errno == ENOMEM);
        for (size_t page = 2 * third; page < pages; page++) verify(page_at(page), page, 0);
        _exit(7);
    }
    expect_status(child, 7 << 8);
    verify_all(0);
    EXPECT(!madvise(memory, third * PAGE, MADV_KEEPONFORK) && !madvise(page_at(third), third * PAGE, MADV_DOFORK));
    child = fork();
    if (!child) {
        verify_all(0);
        _exit(7);
    }
    expect_status(child, 7 << 8);
}

/* A mapping that grows downward by being used. */
static void grow_downward(void)
{
    enum { MOST = 300 };
    char *room = mmap(0, 2 * MOST * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(room != MAP_FAILED && !munmap(room, 2 * MOST * PAGE));
    char *end = room + 2 * MOST * PAGE;
    char *last = mmap(end - PAGE, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    EXPECT(last == end - PAGE);
    for (size_t page = 1; page <= MOST; page++) fill(end - page * PAGE, page, 2);
    verify_all(0);
    for (size_t page = 1; page <= MOST; page++) verify(end - page * PAGE, page, 2);
}

static sigjmp_buf back;
static volatile int caught;

static void jump_back(int number)
{
    caught = number;
    siglongjmp(back, 1);
}

/* A file that gets shorter under its mapping, sealed afterwards. */
static void shorter_file(void)
{
    enum { PAGES = 64 };
    signal(SIGBUS, jump_back);
    int file = memfd_create("file", MFD_ALLOW_SEALING);
    EXPECT(file >= 0 && !ftruncate(file, PAGES * PAGE));
    char *shared = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(shared != MAP_FAILED);
    for (size_t page = 0; page < PAGES; page++) fill(shared + page * PAGE, page, 3);
    char *private = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    for (size_t page = 0; page < PAGES; page += 2) fill(private + page * PAGE, page, 4);
    EXPECT(!ftruncate(file, PAGES / 2 * PAGE));
    verify_all(0);
    volatile int ended = 0;
    for (volatile size_t page = 0; page < PAGES; page++)
        if (!sigsetjmp(back, 1)) {
            verify(shared + page * PAGE, page, 3);
            verify(private + page * PAGE, page, page % 2 ? 3 : 4);
        } else {
            ended++;
        }
    if (ended != PAGES / 2) FAIL("%d pages are gone", ended);
    EXPECT(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EBUSY);
    EXPECT(!munmap(shared, PAGES * PAGE) && !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
    EXPECT(mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED && errno == EPERM);
    verify_all(0);
}

/* Children that become other programs, one after another, by each way there is. */
static void start_programs(void)
{
    char size[] = "8", what[] = "plain", *command[] = { arguments[0], size, what, 0 };
    for (int turn = 0; turn < 3; turn++) {
        pid_t child = vfork();
        if (!child) {
            execv(ITSELF, command);
            _exit(9);
        }
        expect_status(child, 0);
        posix_spawn_file_actions_t actions;
        EXPECT(!posix_spawn_file_actions_init(&actions));
        EXPECT(!posix_spawn_file_actions_addclose(&actions, 0));
        EXPECT(!posix_spawn(&child, ITSELF, &actions, 0, command, environ));
        expect_status(child, 0);
        EXPECT(posix_spawn(&child, "/nowhere", 0, 0, command, environ) == ENOENT);
        EXPECT(system("exit 3") == 3 << 8);
        verify_all(turn);
        fill_all(turn + 1);
    }
}

static volatile size_t counted;

static void use_the_stack(int number)
{
    char local[3 * PAGE];
    memset(local, number, sizeof local);
    for (size_t page = counted % 16; page < pages; page += 256) verify(page_at(page), page, 0);
    counted += local[PAGE] == number;
}

/* Handlers on a stack of their own, which is paged out between signals. */
static void other_stack(void)
{
    enum { BYTES = 64 << 10 };
    stack_t stack = { .ss_sp = map_pages(BYTES / PAGE), .ss_size = BYTES };
    struct sigaction action = { .sa_handler = use_the_stack, .sa_flags = SA_ONSTACK };
    EXPECT(!sigaltstack(&stack, 0) && !sigaction(SIGUSR1, &action, 0));
    for (int turn = 0; turn < 10; turn++) {
        verify_all(0);
        raise(SIGUSR1);
    }
    EXPECT(counted == 10);
    EXPECT(!madvise(stack.ss_sp, BYTES, MADV_DONTNEED));
    raise(SIGUSR1);
    EXPECT(counted == 11);
}

static void overflow(size_t depth)
{
    volatile char local[PAGE];
    local[0] = depth;
    /* Without an end, as the compiler need not know. */
    if (depth < SIZE_MAX) overflow(depth + 1);
    local[1] = local[0];
}

/* The stack overflows, and the handler leaves it by a jump. */
static void stack_overflow(void)
{
    stack_t stack = { .ss_sp = map_pages(16), .ss_size = 16 * PAGE };
    struct sigaction action = { .sa_handler = jump_back, .sa_flags = SA_ONSTACK };
    struct rlimit limit = { 1 << 20, 1 << 20 };
    EXPECT(!setrlimit(RLIMIT_STACK, &limit));
    EXPECT(!sigaltstack(&stack, 0) && !sigaction(SIGSEGV, &action, 0));
    for (volatile int turn = 0; turn < 3; turn++) {
        caught = 0;
        if (!sigsetjmp(back, 1)) overflow(0);
        EXPECT(caught == SIGSEGV);
        verify_all(0);
    }
}

/* A parent that reads and writes its child's memory, as debuggers do. What is paged out the kernel
 * does not get for another: it says so, and never reads zeros. */
static void debugger(void)
{
    static char copy[PAGE] __attribute__((aligned(4096)));
    pid_t child = fork();
    if (!child) {
        fill_all(1);
        verify(memory, 0, 1);
        EXPECT(!ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        uint64_t *word = (uint64_t *)memory;
        if (*word != 77 && *word != word_of(0, 1, 0)) FAIL("%lx was never there", *word);
        for (size_t page = 1; page < pages; page++) verify(page_at(page), page, 1);
        _exit(7);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    for (size_t page = 1; page < pages; page += 7) {
        struct iovec here = { copy, PAGE }, there = { page_at(page), PAGE };
        ssize_t got = process_vm_readv(child, &here, 1, &there, 1, 0);
        if (got == PAGE) verify(copy, page, 1);
        else EXPECT(got == -1 && errno == EFAULT);
    }
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, child, memory, 0);
    EXPECT(errno == EIO || word == (long)word_of(0, 1, 0));
    EXPECT(!ptrace(PTRACE_POKEDATA, child, memory, 77) || errno == EIO);
    EXPECT(!ptrace(PTRACE_DETACH, child, 0, 0));
    expect_status(child, 7 << 8);
    verify_all(0);
}

/* Pages go into a pipe by reference, and are read from it. */
static void through_pipes(void)
{
    static char copy[16 * PAGE] __attribute__((aligned(4096)));
    int ends[2], others[2];
    EXPECT(!pipe(ends) && !pipe(others));
    for (size_t page = 0; page + 16 <= pages; page += 16) {
        struct iovec part = { page_at(page), 16 * PAGE };
        EXPECT(vmsplice(ends[1], &part, 1, 0) == 16 * PAGE);
        if (page % 256 == 0) verify_all(0);
        size_t moved = 0;
        while (moved < 16 * PAGE) {
            ssize_t got = splice(ends[0], 0, others[1], 0, 16 * PAGE - moved, 0);
            EXPECT(got > 0);
            moved += got;
        }
        for (size_t length = 0; length < sizeof copy;) {
            ssize_t got = read(others[0], copy + length, sizeof copy - length);
            EXPECT(got > 0);
            length += got;
        }
        for (size_t number = 0; number < 16; number++) verify(copy + number * PAGE, page + number, 0);
    }
}

struct words { pthread_mutex_t robust; uint32_t word; };

static void *wait_for_word(void *argument)
{
    uint32_t *word = argument;
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    return argument;
}

static void *end_as_owner(void *argument)
{
    EXPECT(!pthread_mutex_lock(argument));
    return argument;
}

/* Threads wait at words that are paged out, and for owners that are gone. */
static void words_to_wait_at(void)
{
    enum { THREADS = 8 };
    struct words *all[THREADS];
    pthread_t threads[THREADS];
    pthread_mutexattr_t attributes;
    EXPECT(!pthread_mutexattr_init(&attributes));
    EXPECT(!pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    for (int number = 0; number < THREADS; number++) {
        all[number] = (struct words *)map_pages(1);
        EXPECT(!pthread_mutex_init(&all[number]->robust, &attributes));
        EXPECT(!pthread_create(&threads[number], 0, end_as_owner, &all[number]->robust));
        EXPECT(!pthread_join(threads[number], 0));
        EXPECT(!pthread_create(&threads[number], 0, wait_for_word, &all[number]->word));
    }
    fill_all(1);
    verify_all(1);
    for (int number = 0; number < THREADS; number++) {
        EXPECT(pthread_mutex_lock(&all[number]->robust) == EOWNERDEAD);
        EXPECT(!pthread_mutex_consistent(&all[number]->robust) && !pthread_mutex_unlock(&all[number]->robust));
        __atomic_store_n(&all[number]->word, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &all[number]->word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
        EXPECT(!pthread_join(threads[number], 0));
    }
}

/* Segments that processes share, and one that is taken away while it is attached. */
static void segments(void)
{
    enum { PAGES = 256 };
    int id = shmget(IPC_PRIVATE, PAGES * PAGE, IPC_CREAT | 0600);
    EXPECT(id >= 0);
    char *shared = shmat(id, 0, 0);
    EXPECT(shared != (void *)-1 && !shmctl(id, IPC_RMID, 0));
    pid_t child = fork();
    if (!child) {
        for (size_t page = 0; page < PAGES; page++) fill(shared + page * PAGE, page, 5);
        fill_all(1);
        _exit(7);
    }
    expect_status(child, 7 << 8);
    verify_all(0);
    for (size_t page = 0; page < PAGES; page++) verify(shared + page * PAGE, page, 5);
    EXPECT(!shmdt(shared));
}

static void unprotect(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & -PAGE);
    if (page < memory || page >= page_at(pages)) _exit(4);
    counted++;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE)) _exit(5);
}

/* A collector's write barrier: a page of a quarter is protected until it is written to. */
static void write_barrier(int protection)
{
    size_t quarter = pages / 4;
    struct sigaction action = { .sa_sigaction = unprotect, .sa_flags = SA_SIGINFO };
    EXPECT(!sigaction(SIGSEGV, &action, 0));
    for (int turn = 0; turn < 2; turn++) {
        counted = 0;
        EXPECT(!mprotect(memory, quarter * PAGE, protection));
        for (size_t page = quarter; page < pages; page++) verify(page_at(page), page, 0);
        for (size_t page = 0; page < quarter; page += 2) fill(page_at(page), page, turn + 1);
        if (counted != (quarter + 1) / 2) FAIL("%zu pages were written to", counted);
        if (protection == PROT_NONE) EXPECT(!mprotect(memory, quarter * PAGE, PROT_READ | PROT_WRITE));
        for (size_t page = 0; page < quarter; page++) verify(page_at(page), page, page % 2 ? 0 : turn + 1);
    }
}

/* Contents that may go if memory is short stay, or are zeros, and what is written later stays. */
static void may_go(void)
{
    size_t half = pages / 2;
    EXPECT(!madvise(memory, half * PAGE, MADV_FREE));
    for (size_t page = half; page < pages; page++) verify(page_at(page), page, 0);
    for (size_t page = 0; page < half; page++) {
        uint64_t *words = (uint64_t *)page_at(page);
        for (size_t word = 0; word < WORDS; word++)
            if (words[word] && words[word] != word_of(page, 0, word)) FAIL("page %zu holds something else", page);
    }
    for (size_t page = 0; page < half; page += 3) fill(page_at(page), page, 6);
    for (size_t page = half; page < pages; page++) verify(page_at(page), page, 0);
    for (size_t page = 0; page < half; page += 3) verify(page_at(page), page, 6);
}

/* A program that protects its own memory by a userfaultfd, as one that migrates itself. */
static void own_protection(void)
{
    int file = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
    if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
        puts("cannot: no userfaultfd");
        exit(0);
    }
    size_t quarter = pages / 4;
    struct uffdio_range range = { (uint64_t)memory, quarter * PAGE };
    struct uffdio_register all = { .range = range, .mode = UFFDIO_REGISTER_MODE_WP };
    EXPECT(!ioctl(file, UFFDIO_REGISTER, &all));
    struct uffdio_writeprotect protect = { .range = range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
    EXPECT(!ioctl(file, UFFDIO_WRITEPROTECT, &protect));
    verify_all(0);
    protect.mode = 0;
    EXPECT(!ioctl(file, UFFDIO_WRITEPROTECT, &protect) && !ioctl(file, UFFDIO_UNREGISTER, &range));
    fill_all(1);
    verify_all(1);
}

/* The break goes up and down. What comes back is empty. */
static void breaks(void)
{
    for (int turn = 0; turn < 20; turn++) {
        size_t bytes = (64 + 16 * turn) * PAGE;
        char *start = sbrk(0);
        EXPECT(sbrk(bytes) == start);
        char *first = (char *)(((uintptr_t)start + PAGE - 1) & -PAGE);
        size_t whole = (start + bytes - first) / PAGE;
        for (size_t page = 0; page < whole; page++) verify_zero(first + page * PAGE, page);
        for (size_t page = 0; page < whole; page++) fill(first + page * PAGE, page, turn);
        if (turn % 5 == 0) verify_all(0);
        for (size_t page = 0; page < whole; page++) verify(first + page * PAGE, page, turn);
        EXPECT(sbrk(-(intptr_t)bytes) != (void *)-1);
    }
}

static void *become_another(void *argument)
{
    char size[] = "8", what[] = "right", *command[] = { arguments[0], size, what, 0 };
    execv(ITSELF, command);
    FAIL("it goes on");
    return argument;
}

/* Another thread than the first becomes another program. */
static void other_thread_leaves(void)
{
    pthread_t thread;
    EXPECT(!pthread_create(&thread, 0, become_another, 0));
    for (;;) verify_all(0);
}

static ucontext_t here, there[32];

static void take_turns(void)
{
    char local[4 * PAGE];
    for (int turn = 0; turn < 5; turn++) {
        memset(local, turn + 1, sizeof local);
        EXPECT(!swapcontext(&there[counted], &here));
        for (size_t byte = 0; byte < sizeof local; byte += 64)
            if (local[byte] != turn + 1) FAIL("another's stack");
    }
}

/* Coroutines, whose stacks are paged out while others run. */
static void coroutines(void)
{
    enum { COUNT = 32, BYTES = 32 << 10 };
    for (int number = 0; number < COUNT; number++) {
        EXPECT(!getcontext(&there[number]));
        there[number].uc_stack = (stack_t){ .ss_sp = map_pages(BYTES / PAGE), .ss_size = BYTES };
        there[number].uc_link = &here;
        makecontext(&there[number], take_turns, 0);
    }
    for (int turn = 0; turn < 6; turn++) {
        for (counted = 0; counted < COUNT; counted++) EXPECT(!swapcontext(&here, &there[counted]));
        verify_all(0);
    }
}

/* A write of which a part cannot be read says how far it came. */
static void partly_readable(void)
{
    int ends[2];
    char bytes[2 * PAGE];
    EXPECT(!pipe(ends));
    char *last = map_pages(2);
    fill(last, 0, 8);
    EXPECT(!munmap(last + PAGE, PAGE));
    fill_all(1);
    verify_all(1);
    struct iovec parts[] = { { last, PAGE }, { last + PAGE, PAGE } };
    ssize_t done = writev(ends[1], parts, 2);
    EXPECT(done == PAGE && read(ends[0], bytes, sizeof bytes) == PAGE);
    verify(bytes, 0, 8);
    EXPECT(write(ends[1], last + PAGE, 8) == -1 && errno == EFAULT);
}

static void deny(int number, int error)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof steps / sizeof *steps, steps };
    EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

/* Children that may not do all that there is, and become other programs then. */
static void sandboxed(void)
{
    static const int denied[] = { SYS_userfaultfd, SYS_pidfd_open, SYS_close_range, SYS_io_uring_setup, SYS_ioctl };
    char *command[] = { arguments[0], arguments[1], "plain", 0 };
    for (size_t number = 0; number < sizeof denied / sizeof *denied; number++)
        for (int turn = 0; turn < 2; turn++) {
            pid_t child = fork();
            if (!child) {
                deny(denied[number], turn ? ENOSYS : EPERM);
                execv(ITSELF, command);
                _exit(9);
            }
            expect_status(child, 0);
        }
    verify_all(0);
}

int main(int count, char **words)
{
    EXPECT(count == 3);
    arguments = words;
    pages = strtoul(arguments[1], 0, 10) * 256;
    const char *what = arguments[2];
    memory = map_pages(pages);
    fill_all(0);
    if (!strcmp(what, "keep-place")) keep_the_place();
    else if (!strcmp(what, "not-for-children")) not_for_children();
    else if (!strcmp(what, "downward")) grow_downward();
    else if (!strcmp(what, "shorter-file")) shorter_file();
    else if (!strcmp(what, "programs")) start_programs();
    else if (!strcmp(what, "other-stack")) other_stack();
    else if (!strcmp(what, "overflow")) stack_overflow();
    else if (!strcmp(what, "debugger")) debugger();
    else if (!strcmp(what, "pipes")) through_pipes();
    else if (!strcmp(what, "words")) words_to_wait_at();
    else if (!strcmp(what, "segments")) segments();
    else if (!strcmp(what, "barrier")) write_barrier(PROT_READ);
    else if (!strcmp(what, "guards")) write_barrier(PROT_NONE);
    else if (!strcmp(what, "may-go")) may_go();
    else if (!strcmp(what, "own-protection")) own_protection();
    else if (!strcmp(what, "breaks")) breaks();
    else if (!strcmp(what, "thread-leaves")) other_thread_leaves();
    else if (!strcmp(what, "coroutines")) coroutines();
    else if (!strcmp(what, "partly")) partly_readable();
    else if (!strcmp(what, "sandboxed")) sandboxed();
    else if (!strcmp(what, "plain") || !strcmp(what, "right")) verify_all(0);
    else FAIL("what is %s?", what);
    if (strcmp(what, "plain")) puts("right");
    return 0;
}
