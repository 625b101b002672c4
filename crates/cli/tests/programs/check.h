/* What the test programs share: pages that say whose they are, so that a wrong one is told from a
 * right one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define WORDS (PAGE / sizeof(uint64_t))

#define FAIL(...)                                                     \
    do {                                                              \
        printf("%s:%d: ", __FILE__, __LINE__);                        \
        printf(__VA_ARGS__);                                          \
        puts("");                                                     \
        fflush(stdout);                                               \
        _exit(3);                                                     \
    } while (0)
#define EXPECT(condition) do { if (!(condition)) FAIL("%s (errno %d)", #condition, errno); } while (0)

/* Where the kernel directed keeps the limit, it may refuse a process if memory is short
 * (crates/director/src/lib.rs): the tests of that backend set this variable, and the programs try
 * again for ten seconds, as a shell does. Elsewhere nothing may be refused. */
#define MAY_BE_REFUSED "FORKS_MAY_BE_REFUSED"
#define PATIENTLY(call)                                               \
    ({                                                                \
        int answer_ = (call);                                         \
        int tries_ = getenv(MAY_BE_REFUSED) ? 1000 : 0;               \
        while (answer_ < 0 && errno == ENOMEM && tries_-- > 0) {      \
            usleep(10000);                                            \
            answer_ = (call);                                         \
        }                                                             \
        answer_;                                                      \
    })
#define fork() PATIENTLY(fork())

/* The word of a page, mixed from its number and how often it was written, so that no two pages look
 * alike. */
static inline uint64_t word_of(uint64_t page, uint64_t version, uint64_t word)
{
    uint64_t x = page * 0x9e3779b97f4a7c15 + version * 0xbf58476d1ce4e5b9 + word + 1;
    x ^= x >> 31;
    return x * 0x94d049bb133111eb;
}

static inline void fill(void *memory, uint64_t page, uint64_t version)
{
    uint64_t *words = memory;
    for (uint64_t word = 0; word < WORDS; word++) words[word] = word_of(page, version, word);
}

/* Every word of the page is what `fill` wrote. */
static inline void verify(const void *memory, uint64_t page, uint64_t version)
{
    const uint64_t *words = memory;
    for (uint64_t word = 0; word < WORDS; word++)
        if (words[word] != word_of(page, version, word))
            FAIL("page %lu version %lu word %lu: %lx, not %lx", page, version, word, words[word],
                 word_of(page, version, word));
}

static inline void verify_zero(const void *memory, uint64_t page)
{
    const uint64_t *words = memory;
    for (uint64_t word = 0; word < WORDS; word++)
        if (words[word]) FAIL("page %lu word %lu: %lx, not 0", page, word, words[word]);
}

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A system call that no library sees, not even the `syscall` of the C library. */
static inline long bare_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline char *map_pages(size_t pages)
{
    char *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    return memory;
}
