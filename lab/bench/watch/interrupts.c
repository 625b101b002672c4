/* What it costs to clear the accessed bits of a range of pages while another thread of the process
 * runs: the thread that clears waits until the kernel has interrupted the processor of the other.
 * For the other thread's working sets and sizes of ranges, it prints a line of CSV with the
 * processor time of a range, and what the other thread loses by it. Two processors are needed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 4096, MOST_RANGES = 500 };
static const uint64_t MEASURED_NS = 200000000;

static char *hot;
static uint64_t hot_pages;
static atomic_int is_over;
static atomic_ulong touches;

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void stay_on(int processor)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static char *map(size_t bytes)
{
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memset(memory, 1, bytes);
}

static void *touch(void *unused)
{
    uint64_t state = 88172645463325252ull, sum = 0;
    stay_on(1);
    for (unsigned long count = 0; !is_over; touches = count) {
        for (int time = 0; time < 256; time++, count++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += hot[state % hot_pages * PAGE + (state >> 40) % PAGE];
        }
    }
    return unused ? unused : (void *)sum;
}

static double touches_in(uint64_t *ns)
{
    uint64_t began = now(CLOCK_MONOTONIC);
    unsigned long before = touches;
    while (now(CLOCK_MONOTONIC) - began < MEASURED_NS) sched_yield();
    *ns = now(CLOCK_MONOTONIC) - began;
    return touches - before;
}

int main(void)
{
    const uint64_t sets[] = {16, 1024, 8192};
    const int sizes[] = {1, 8, 32, 64, 128, 512};
    char *memory = map((size_t)PAGES * PAGE);
    hot = map(sets[2] * PAGE);
    stay_on(0);
    puts("other_threads_pages,range_pages,clear_us,lost_us,ranges");
    for (int set = 0; set < 3; set++) {
        pthread_t thread;
        uint64_t ns;
        hot_pages = sets[set];
        is_over = touches = 0;
        if (pthread_create(&thread, 0, touch, 0)) return 1;
        while (!touches) sched_yield();
        for (int size = 0; size < 6; size++) {
            double rate = touches_in(&ns);
            rate /= ns;
            uint64_t clearing = 0, ranges = 0, began = now(CLOCK_MONOTONIC);
            unsigned long before = touches;
            while (now(CLOCK_MONOTONIC) - began < MEASURED_NS) {
                for (int page = 0; page < PAGES; page++) ((volatile char *)memory)[page * PAGE]++;
                uint64_t then = now(CLOCK_THREAD_CPUTIME_ID);
                for (int page = 0, done = 0; page + sizes[size] <= PAGES && done < MOST_RANGES;
                     page += 2 * sizes[size], done++, ranges++)
                    madvise(memory + page * PAGE, (size_t)sizes[size] * PAGE, MADV_COLD);
                clearing += now(CLOCK_THREAD_CPUTIME_ID) - then;
            }
            uint64_t took = now(CLOCK_MONOTONIC) - began;
            unsigned long done = touches - before;
            /* Its speed is the mean of that before and of that after. */
            double after = touches_in(&ns);
            rate = (rate + after / ns) / 2;
            double lost = took - done / rate;
            printf("%lu,%d,%.2f,%.2f,%lu\n", hot_pages, sizes[size], clearing / 1e3 / ranges,
                   lost / 1e3 / ranges, ranges);
        }
        is_over = 1;
        pthread_join(thread, 0);
    }
}
