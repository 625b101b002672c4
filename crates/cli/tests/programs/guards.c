/* Guards among pages that come and go: guards MIB SEED. A guard stays where it is whatever is
 * paged out, read ahead or filled around it, and the page reads as zeros when it is removed. */
#include "check.h"
#include <setjmp.h>
#include <sys/uio.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#define PAGES 1024UL
/* What a page is: zeros, a guard, or what `fill` wrote as this version. */
#define ZEROS 0U
#define GUARDED ~0U

static char *memory, *others;
static uint32_t content[PAGES];
static size_t other_pages;
static uint64_t seed;
static sigjmp_buf back;

static void on_signal(int signal) { siglongjmp(back, signal); }

/* The signal that a touch ends with; 0: none. */
static int touch(volatile char *at, int writes)
{
    int signal = sigsetjmp(back, 1);
    if (signal) return signal;
    if (writes) *at = *at;
    else (void)*at;
    return 0;
}

static void check_page(size_t page)
{
    char *at = memory + page * PAGE;
    if (content[page] == GUARDED) {
        int signal = touch(at + 8 * (page % 512), page % 2);
        if (signal != SIGSEGV) FAIL("page %zu: signal %d where a guard is", page, signal);
    } else if (content[page] == ZEROS) {
        verify_zero(at, page);
    } else {
        verify(at, page, content[page]);
    }
}

static void check_all(void)
{
    for (size_t page = 0; page < PAGES; page++) check_page(page);
}

static void write_page(size_t page, uint32_t version)
{
    if (content[page] == GUARDED) return;
    fill(memory + page * PAGE, page, version);
    content[page] = version;
}

static void set(size_t page, size_t count, uint32_t to)
{
    for (; count--; page++)
        if (to == GUARDED || content[page] == GUARDED) content[page] = to;
}

static void install(size_t page, size_t count)
{
    EXPECT(!madvise(memory + page * PAGE, count * PAGE, MADV_GUARD_INSTALL));
    set(page, count, GUARDED);
}

static void removed(size_t page, size_t count)
{
    EXPECT(!madvise(memory + page * PAGE, count * PAGE, MADV_GUARD_REMOVE));
    set(page, count, ZEROS);
}

/* Pages out what is not used. */
static void press(void)
{
    static uint64_t version;
    for (size_t page = 0; page < other_pages; page++) {
        uint64_t *word = (uint64_t *)(others + page * PAGE);
        EXPECT(word[5] == page + version);
        word[5]++;
    }
    version++;
}

static void random_changes(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        size_t count = 1 + random_next(&seed) % 40, page = random_next(&seed) % (PAGES - count);
        switch (random_next(&seed) % 8) {
        case 0: install(page, count); break;
        case 1: removed(page, count); break;
        case 2:
            EXPECT(!madvise(memory + page * PAGE, count * PAGE, MADV_DONTNEED));
            for (size_t index = page; index < page + count; index++)
                if (content[index] != GUARDED) content[index] = ZEROS;
            break;
        case 3:
        case 4:
            for (size_t index = page; index < page + count; index++) write_page(index, round + 1);
            break;
        default:
            for (size_t index = page; index < page + count; index++) check_page(index);
        }
        if (round % 64 == 0) press();
    }
    check_all();
}

/* Moved memory takes its guards along; what is mapped in its place has none. */
static void moved(void)
{
    char *place = mmap(0, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(place != MAP_FAILED);
    char *old = memory;
    memory = mremap(memory, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    EXPECT(memory == place);
    char *new = mmap(old, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(new == old);
    for (size_t page = 0; page < PAGES; page++) verify_zero(new + page * PAGE, page);
    press();
    check_all();
    EXPECT(!munmap(new, PAGES * PAGE));
}

static void forked(void)
{
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        check_all();
        removed(0, PAGES);
        press();
        check_all();
        install(PAGES / 2, PAGES / 4);
        random_changes(200);
        _exit(0);
    }
    random_changes(200);
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    if (status) FAIL("child: status %x", status);
    check_all();
}

/* By other ways than the C library's madvise. Guards hold; for the pager to see one before it is
 * removed again, the pages around it are filled or read. */
static void by_other_calls(void)
{
    struct iovec range = {memory + 100 * PAGE, 8 * PAGE};
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    removed(0, PAGES);
    for (size_t page = 0; page < PAGES; page++) write_page(page, 7);
    press();
    if (self >= 0 && process_madvise(self, &range, 1, MADV_GUARD_INSTALL, 0) == (ssize_t)(8 * PAGE)) {
        set(100, 8, GUARDED);
        check_all();
        press();
        EXPECT(process_madvise(self, &range, 1, MADV_GUARD_REMOVE, 0) == (ssize_t)(8 * PAGE));
        set(100, 8, ZEROS);
        check_all();
    }
    press();
    if (!syscall(SYS_madvise, memory + 500 * PAGE, 8 * PAGE, MADV_GUARD_INSTALL)) {
        set(500, 8, GUARDED);
        /* In order, with windows that would reach over it. */
        check_all();
        press();
        check_all();
        removed(500, 8);
        check_all();
    }
    EXPECT(!madvise(memory, PAGES * PAGE, MADV_DONTNEED));
    memset(content, 0, sizeof content);
    if (!syscall(SYS_madvise, memory + 300 * PAGE, PAGE, MADV_GUARD_INSTALL)) {
        set(300, 1, GUARDED);
        check_all();
        EXPECT(!syscall(SYS_madvise, memory + 300 * PAGE, PAGE, MADV_GUARD_REMOVE));
        set(300, 1, ZEROS);
        check_all();
    }
}

/* Answers are the kernel's. */
static void answers(void)
{
    char *holed = map_pages(16);
    EXPECT(!munmap(holed + 8 * PAGE, PAGE));
    for (int page = 0; page < 8; page++) fill(holed + page * PAGE, page, 1);
    EXPECT(madvise(holed + 4 * PAGE, 8 * PAGE, MADV_GUARD_INSTALL) < 0 && errno == ENOMEM);
    EXPECT(touch(holed + 7 * PAGE, 0) == SIGSEGV && touch(holed + 11 * PAGE, 1) == SIGSEGV);
    EXPECT(!touch(holed + 12 * PAGE, 1) && !touch(holed + 3 * PAGE, 1));
    EXPECT(madvise(holed + 1, PAGE, MADV_GUARD_INSTALL) < 0 && errno == EINVAL);
    EXPECT(!madvise(holed, 0, MADV_GUARD_INSTALL));
    EXPECT(!madvise(holed + 4 * PAGE, 4 * PAGE, MADV_GUARD_REMOVE));
    for (int page = 0; page < 4; page++) verify(holed + page * PAGE, page, 1);
    for (int page = 4; page < 8; page++) verify_zero(holed + page * PAGE, page);
    /* The kernel cannot touch a guard either. */
    install(0, 1);
    int ends[2];
    EXPECT(!pipe(ends) && write(ends[1], "x", 1) == 1);
    EXPECT(read(ends[0], memory, 1) < 0 && errno == EFAULT);
    removed(0, 1);
}

static void *in_thread(void *unused)
{
    volatile char page[PAGE];
    page[0] = 1;
    return (void *)&page[0] == unused ? unused : 0;
}

int main(int count, char **arguments)
{
    other_pages = strtoul(arguments[1], 0, 10) * 256;
    seed = strtoul(arguments[2], 0, 10) * 77 + 1;
    EXPECT(count == 3);
    struct sigaction action = {.sa_handler = on_signal};
    EXPECT(!sigaction(SIGSEGV, &action, 0) && !sigaction(SIGBUS, &action, 0));
    memory = map_pages(PAGES);
    if (madvise(memory, PAGE, MADV_GUARD_INSTALL)) {
        printf("cannot: guards (errno %d)\n", errno);
        return 0;
    }
    content[0] = GUARDED;
    /* There before memory is managed. */
    for (size_t page = 1; page < PAGES; page++) write_page(page, 1);
    install(200, 3);
    install(PAGES - 1, 1);
    others = map_pages(other_pages);
    for (size_t page = 0; page < other_pages; page++) ((uint64_t *)(others + page * PAGE))[5] = page;
    check_all();
    press();
    check_all();
    /* Paged out, then guarded, then removed. */
    press();
    install(300, 64);
    press();
    removed(320, 20);
    check_all();
    /* In the midst of what is filled with zeros, and of what is read. */
    EXPECT(!madvise(memory + 400 * PAGE, 400 * PAGE, MADV_DONTNEED));
    for (size_t page = 400; page < 800; page++) content[page] = ZEROS;
    install(600, 1);
    for (size_t page = 400; page < 800; page++) write_page(page, 2);
    press();
    install(500, 1);
    check_all();
    answers();
    random_changes(1500);
    moved();
    forked();
    by_other_calls();
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        EXPECT(!pthread_create(&thread, 0, in_thread, 0));
        EXPECT(!pthread_join(thread, 0));
    }
    puts("right");
    return 0;
}
