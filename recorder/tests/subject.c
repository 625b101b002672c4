/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs whose page references are known beforehand: subject CASE. Each prints, as "name value"
 * lines, the addresses that run.py needs, and brackets what it tests by a store to each of two
 * fence pages that nothing else touches.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

extern char **environ;
static volatile char *fences;
static volatile char *area; /* 64 pages, page aligned */
enum { AREA_PAGES = 64 };

static void say(const char *name, const volatile void *value) { printf("%s %ld\n", name, (long)value); }

static char *pages(size_t n)
{
    char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(3);
    return p;
}

static void begin(void)
{
    fflush(stdout);
    fences[0] = 1;
}
static void end(void) { fences[PAGE] = 1; }

static void scan(void)
{
    begin();
    for (int i = 0; i < AREA_PAGES * PAGE; i += 8)
        *(volatile long *)(area + i) = i;
    for (int i = 0; i < AREA_PAGES * PAGE; i += 8)
        (void)*(volatile long *)(area + i);
    end();
}

static void stride(void)
{
    begin();
    for (int i = AREA_PAGES - 1; i >= 0; i -= 3)
        (void)area[i * PAGE + 100];
    end();
}

static void crossing(void)
{
    begin();
    *(volatile long *)(area + PAGE - 4) = 1;
    (void)*(volatile long *)(area + 3 * PAGE - 1);
    *(volatile int *)(area + 5 * PAGE - 4) = 1; /* ends with its page */
    end();
}

static void atomics(void)
{
    begin();
    __atomic_fetch_add((long *)area, 1, __ATOMIC_SEQ_CST);
    long expected = 77; /* not what is there: the compare fails */
    __atomic_compare_exchange_n((long *)(area + PAGE), &expected, 5, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    __asm__ volatile("lock cmpxchg16b %0" : "+m"(*(__int128 *)(area + 2 * PAGE))
                     : "a"(0L), "d"(0L), "b"(1L), "c"(1L) : "cc");
    __asm__ volatile("xchg %%rax, %0" : "+m"(*(long *)(area + 3 * PAGE)) : : "rax");
    __asm__ volatile("lock addl $1, %0" : "+m"(*(int *)(area + 5 * PAGE - 2))); /* crosses */
    end();
}

__attribute__((target("avx2"))) static void vector(void)
{
    long at[4] = {0, PAGE, 2 * PAGE, 3 * PAGE};
    begin();
    __m256i index = _mm256_loadu_si256((__m256i *)at);
    __m256i mask = _mm256_set_epi64x(-1, 0, -1, 0); /* lanes 1 and 3 */
    __m256i got = _mm256_mask_i64gather_epi64(index, (long long *)area, index, mask, 1);
    /* 9 - 8 bytes, 9 + 8 */
   _mm256_maskstore_epi64((long long *)(area + 9 * PAGE - 16), mask, got);
    _mm256_storeu_si256((__m256i *)(area + 12 * PAGE - 16), got);            /* crosses */
    (void)*(volatile __m256i *)(area + 20 * PAGE);
    end();
}

static void string(void)
{
    void *to = (void *)area, *from = (void *)(area + 10 * PAGE);
    long n = 2 * PAGE;
    begin();
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(1) : "memory");
    to = (void *)(area + 20 * PAGE + 8);
    n = PAGE / 8;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    end();
}

static void x87(void)
{
    begin();
    __asm__ volatile("fxsave %0" : "=m"(*(char(*)[512])(area + PAGE)));
    __asm__ volatile("fnstenv %0" : "=m"(*(char(*)[28])(area + 3 * PAGE - 14)));
    end();
}

static void mappings(void)
{
    char *a = pages(32), *b = pages(8), *hole = pages(64);
    say("a", a);
    say("b", b);
    say("hole", hole);
    munmap(hole, 64 * PAGE);
    a[0] = 1;
    munmap(a + 4 * PAGE, 4 * PAGE);
    madvise(a + 8 * PAGE, 2 * PAGE, MADV_DONTNEED);
    madvise(a + 10 * PAGE, PAGE, MADV_FREE);
    madvise(a + 11 * PAGE, PAGE, MADV_WILLNEED);
    mmap(a + 12 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    /* So that B cannot grow in place: where HOLE was, or else something lies there already. Then
     * Valgrind takes the address for a hint, and the page goes elsewhere. */
    char *blocker = mmap(b + 8 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (blocker != MAP_FAILED)
        say("blocker", blocker);
    b[0] = 7;
    char *c = mremap(b, 8 * PAGE, 40 * PAGE, MREMAP_MAYMOVE);
    say("c", c);
    if (c[0] != 7)
        exit(4);
    c = mremap(c, 40 * PAGE, 30 * PAGE, 0);
    munmap(c, 30 * PAGE);
}

static void break_(void)
{
    char *base = sbrk(0);
    say("base", base);
    sbrk(10 * PAGE);
    base[5 * PAGE] = 1;
    sbrk(-4 * PAGE);
}

static void fork_(void)
{
    begin();
    area[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < AREA_PAGES; i++)
            area[i * PAGE] = 2;
        munmap((void *)area, PAGE);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 9)
        exit(5);
    char *argv[] = {"/bin/true", NULL};
    if (posix_spawn(&child, argv[0], NULL, NULL, argv, environ) || waitpid(child, &status, 0) != child)
        exit(6);
    area[PAGE] = 1;
    end();
}

static void exec(void)
{
    char *missing[] = {"/nonexistent/program", NULL}, *real[] = {"/bin/true", NULL};
    begin();
    execv(missing[0], missing);
    area[0] = 1;
    end();
    execv(real[0], real);
}

static void exec_fails(void)
{
    char *missing[] = {"/nonexistent/program", NULL};
    begin();
    execv(missing[0], missing);
    area[0] = 1;
    end();
}

static void *thread(void *argument)
{
    long n = (long)argument;
    for (int i = 0; i < 8; i++)
        area[(n * 8 + i) * PAGE] = 1;
    return malloc(100000 + n);
}

static void threads(void)
{
    pthread_t t[8];
    void *block;
    begin();
    for (long n = 0; n < 8; n++)
        pthread_create(&t[n], NULL, thread, (void *)n);
    for (long n = 0; n < 8; n++) {
        pthread_join(t[n], &block);
        free(block);
    }
    end();
}

static void interrupted(void)
{
    begin();
    area[0] = 1;
    end();
    signal(SIGINT, SIG_DFL); /* a job in the background of a script inherits it ignored */
    kill(getpid(), SIGINT);
    for (;;)
        pause();
}

static void handler(int signal) { area[3 * PAGE] = (char)signal; }
static void handles(void)
{
    signal(SIGINT, handler);
    begin();
    kill(getpid(), SIGINT);
    end();
    exit(17);
}

static void protect_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    mprotect((void *)((uintptr_t)info->si_addr & -PAGE), PAGE, PROT_READ | PROT_WRITE);
}

/* A write barrier: every page's first store faults and is repeated. The registers must survive. */
static void barrier(void)
{
    struct sigaction action = {.sa_sigaction = protect_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    mprotect((void *)area, AREA_PAGES * PAGE, PROT_READ);
    begin();
    long sum = 0;
    /* A register is cleared before the access that faults, and its low half is set after it. */
    double wide[2] = {1, 1};
    long zero = 0;
    __asm__ volatile("movupd %0, %%xmm7\n\tmovq %1, %%rax\n\tpxor %%xmm7, %%xmm7\n\tmovq %2, %1\n\t"
                     "cvtsi2sdq %2, %%xmm7\n\tmovupd %%xmm7, %0"
                     : "+m"(wide), "+m"(*(long *)area) : "r"(zero) : "rax", "xmm7");
    if (wide[0] != 0 || wide[1] != 0)
        exit(11);
    for (int i = 0; i < AREA_PAGES; i++) {
        long was = *(volatile long *)(area + i * PAGE);
        *(volatile long *)(area + i * PAGE) = was + i;
        sum += *(volatile long *)(area + i * PAGE) * 3 + i;
    }
    end();
    if (sum != 4 * (AREA_PAGES - 1) * AREA_PAGES / 2)
        exit(7);
}

static void objects(void)
{
    char *small = malloc(1000), *big = malloc(100000);
    say("malloc", big);
    char *zeroed = calloc(50, 1000);
    say("calloc", zeroed);
    char *grown = realloc(big, 300000);
    say("realloc", grown);
    char *aligned = aligned_alloc(8192, 65536);
    say("aligned_alloc", aligned);
    void *posix;
    if (posix_memalign(&posix, 4096, 50000))
        exit(8);
    say("posix_memalign", posix);
    char *shrunk = realloc(grown, 1000);
    free(zeroed);
    free(aligned);
    free(posix);
    free(shrunk);
    free(small);
    free(NULL);
    char *mapped = pages(64);
    say("mmap", mapped);
    munmap(mapped, 16 * PAGE);             /* loses its head */
    munmap(mapped + 40 * PAGE, 24 * PAGE); /* and its tail */
    char *moved = mremap(mapped + 16 * PAGE, 24 * PAGE, 48 * PAGE, MREMAP_MAYMOVE);
    say("mremap", moved);
    munmap(moved, 48 * PAGE);
    for (int i = 0; i < 200; i++) /* makes the allocator map an arena: not the program's own mmap */
        (void)!malloc(30000);
}

static jmp_buf out;
static void *volatile block;
/* An allocator that is left by longjmp: what is allocated afterwards must still be seen. */
__attribute__((noinline)) void *valloc(size_t n)
{
    if (n == 12345)
        longjmp(out, 1);
    block = malloc(n);
    return block;
}
static void left(void)
{
    if (!setjmp(out))
        (void)!valloc(12345);
    char *a = malloc(70000);
    say("malloc", a);
    free(a);
    char *b = valloc(80000);
    say("valloc", b);
    free(b);
}

static void syscalls(void)
{
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY), pipes[2];
    if (zero < 0 || null < 0 || pipe2(pipes, O_NONBLOCK))
        exit(9);
    char *wide = pages(1024);
    say("wide", wide);
    begin();
    (void)!read(zero, (void *)(area + 10), 3 * PAGE);         /* pages 0 to 3, written */
    (void)!write(null, (void *)(area + 8 * PAGE), 2 * PAGE);  /* 8 and 9, read */
    struct iovec v[] = {{(void *)(area + 20 * PAGE), 10}, {(void *)(area + 22 * PAGE), 10}};
    (void)!writev(null, v, 2);
    (void)!write(pipes[1], wide, 1024 * PAGE);                /* a short one: 16 pages fit */
    (void)!write(pipes[1], wide, 1024 * PAGE);                /* none fits */
    strcpy((char *)area + 31 * PAGE - 3, "/nonexistent");
    (void)!open((char *)area + 31 * PAGE - 3, O_RDONLY);      /* a path over two pages */
    end();
    errno = 0;
    void *volatile nowhere = (void *)8, *volatile beyond = (void *)-4096;
    if (read(zero, nowhere, 100) != -1 || write(null, beyond, 1L << 40) == 0)
        exit(10);
    (void)!open(nowhere, O_RDONLY);
}

/* Something with loops over several arrays, calls, branches: for comparing recordings. */
static void mixed(void)
{
    enum { N = 96 };
    double *a = malloc(N * N * 8), *b = malloc(N * N * 8), *c = calloc(N * N, 8), sum = 0;
    for (int i = 0; i < N * N; i++) {
        a[i] = i % 31;
        b[i] = i % 17;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++)
                c[i * N + j] += a[i * N + k] * b[k * N + j];
            if (j % 7 == 0)
                memmove(a + 3, a, 999);
            if (j % 40 == 0)
                b = realloc(b, N * N * 8 + i * 100);
        }
    for (int i = 0; i < 20000; i++) {
        int at = (int)((unsigned)i * 2654435761u % (N * N));
        if (at % 3)
            c[at] += i;
        sum += c[at];
    }
    printf("sum %ld\n", (long)sum);
}

/* A NaN's sign says nothing, and Valgrind does not keep it. */
static void print_number(double x)
{
    if (isnan(x))
        puts("NaN");
    else
        printf("%a\n", x);
}

/* Multiply-adds of which rounding twice would give others, with and without infinities. */
__attribute__((target("fma"))) static void fused(void)
{
    static volatile double d[] = {1.1, -3.3e-200, 7e200, 1.0 / 3, 5e-324, INFINITY, -0.0, 0x1.fffffffffffffp0};
    static volatile float f[] = {1.1f, -3.3e-20f, 7e20f, 1.0f / 3, 1e-45f, INFINITY, -0.0f, 0x1.fffffep0f};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++) {
                print_number(__builtin_fma(d[i], d[j], d[k]));
                print_number(__builtin_fmaf(f[i], f[j], -f[k]));
            }
}

/* Scalar arithmetic in all the ways that the recorder translates otherwise than Valgrind. */
static void numbers(void)
{
    static volatile double d[64];
    static volatile float f[64];
    double a = 1.5, b = 0;
    float c = 2.25f;
    for (int i = 0; i < 64; i++) {
        d[i] = 1.0 / (i + 1);
        f[i] = 3.0f / (i + 2);
    }
    for (int i = 0; i < 100000; i++) {
        double x = d[i % 64], y = d[(i * 7) % 64];
        float z = f[(i * 3) % 64];
        a = a * 0.999 + x * y - (double)z;
        c = c * 0.5f + (float)x;
        b += (i & 1) ? (double)i * x : (double)(long)(y * 1000);
        f[i % 64] = c > 1.0f ? c - 1.0f : z;
        d[(i * 5) % 64] = a < 0 ? -a : a * y;
        __m128d pair = _mm_loadl_pd(_mm_loadh_pd(_mm_setzero_pd(), (double *)d + 3), (double *)d + 9);
        pair = _mm_add_sd(_mm_mul_pd(pair, _mm_load_sd((double *)d + i % 60)), _mm_cvtsi32_sd(pair, i));
        b += _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair)) + _mm_cvtsd_f64(pair);
    }
    printf("%a %a %a\n", a, b, (double)c);
    for (int i = 0; i < 64; i++)
        printf("%a %a\n", d[i], (double)f[i]);
    if (__builtin_cpu_supports("fma"))
        fused();
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"scan", scan}, {"stride", stride}, {"crossing", crossing}, {"atomics", atomics},
        {"vector", vector}, {"string", string}, {"x87", x87}, {"mappings", mappings}, {"brk", break_},
        {"fork", fork_}, {"exec", exec}, {"exec-fails", exec_fails}, {"threads", threads},
        {"interrupted", interrupted}, {"handles", handles}, {"barrier", barrier}, {"objects", objects},
        {"left", left}, {"syscalls", syscalls}, {"mixed", mixed}, {"numbers", numbers},
    };
    fences = pages(2);
    area = pages(AREA_PAGES);
    say("fence", fences);
    say("area", area);
    fflush(stdout);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            return 0;
        }
    return 2;
}
