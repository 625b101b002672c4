/* A disk that is as slow as it is told to be: a FUSE file system with one file, `disk`, whose reads
 * and writes wait as they would on that disk. disks.py puts a block device over the file.
 *
 *     slow_disk FOLDER MIB LATENCY_US REQUESTS_PER_SECOND BYTES_PER_SECOND arm|no-arm
 *
 * Mounts FOLDER, prints a line, and serves requests until FOLDER is unmounted. The data is in this
 * process's memory, of which it takes as much as has been written. It needs libfuse 3.12 or newer.
 * Exit status 2 if it cannot begin.
 *
 * Without an arm, requests overlap. Each takes LATENCY_US, or as long as its bytes take. Over any
 * 20 ms, no more begin than REQUESTS_PER_SECOND and BYTES_PER_SECOND allow. 0 is no bound.
 *
 * With an arm, the disk serves one request at a time, in the order in which they come. A request
 * that begins where the last one ended takes only the time of its bytes. Any other also waits for a
 * seek and for half a turn. A seek takes a constant, and the square root of its distance, as short
 * ones do (Ruemmler and Wilkes, "An introduction to disk drive modeling", Computer 27(3), 1994).
 * LATENCY_US is the mean of seek and half a turn for places at random in the whole file. Unlike a
 * real disk, this one has no cache and does not sort requests. */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#define _GNU_SOURCE
#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

/* A disk of 7200 revolutions a minute. Its arm takes 1 ms to the next track: data sheets of such
 * disks say 0.8 to 1.2. */
#define HALF_TURN_NS 4166667
#define NEXT_TRACK_NS 1000000
/* The mean of the square root of the distance between two places at random on a disk of length 1:
 * the integral of 2 (1 - x) sqrt(x). */
#define MEAN_ROOT (8.0 / 15)
/* Bounds on requests and bytes hold over this time. A disk that was idle so long takes a burst. */
#define BURST_NS 20000000
/* Requests that wait at the same time. By default the kernel sends 12. */
#define MOST_REQUESTS 64

#define FOLDER_INODE FUSE_ROOT_ID
#define DISK_INODE 2
/* Only the data ever changes, so the kernel may keep everything else. */
#define FOREVER_S 1e6

static char *data;
static size_t size;
static int64_t latency_ns, request_ns;
static double byte_ns;
static int has_arm;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* When the bounds, or the arm, allow the next request to begin. */
static int64_t free_ns;
/* Where the last request ended. */
static off_t head;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int64_t later(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

/* How long the arm and the platter take to a place. */
static int64_t positioning_ns(off_t at)
{
    if (at == head) return 0;
    double mean_root_ns = latency_ns - HALF_TURN_NS - NEXT_TRACK_NS;
    double distance = fabs((double)(at - head)) / size;
    return HALF_TURN_NS + NEXT_TRACK_NS + mean_root_ns / MEAN_ROOT * sqrt(distance);
}

/* Waits as long as the disk takes for a request that has just come. */
static void serve(off_t at, size_t bytes)
{
    int64_t transfer_ns = bytes * byte_ns, end_ns;
    pthread_mutex_lock(&lock);
    int64_t now = now_ns();
    if (has_arm) {
        free_ns = end_ns = later(free_ns, now) + positioning_ns(at) + transfer_ns;
        head = at + bytes;
    } else {
        int64_t begin_ns = later(free_ns, now - BURST_NS);
        free_ns = begin_ns + later(transfer_ns, request_ns);
        end_ns = later(begin_ns, now) + later(transfer_ns, latency_ns);
    }
    pthread_mutex_unlock(&lock);
    struct timespec end = {end_ns / 1000000000, end_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0) == EINTR) continue;
}

/* How many of the bytes the disk has from a place on. */
static size_t within(off_t at, size_t bytes)
{
    if (at < 0 || (size_t)at >= size) return 0;
    return bytes < size - at ? bytes : size - at;
}

static void on_init(void *unused, struct fuse_conn_info *connection)
{
    connection->max_background = MOST_REQUESTS;
    connection->congestion_threshold = MOST_REQUESTS;
}

static struct stat attributes(fuse_ino_t inode)
{
    if (inode == FOLDER_INODE) return (struct stat){.st_ino = inode, .st_mode = S_IFDIR | 0700, .st_nlink = 2};
    return (struct stat){.st_ino = inode, .st_mode = S_IFREG | 0600, .st_nlink = 1, .st_size = size};
}

static void on_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
    struct stat found = attributes(inode);
    fuse_reply_attr(request, &found, FOREVER_S);
}

static void on_lookup(fuse_req_t request, fuse_ino_t folder, const char *name)
{
    if (folder != FOLDER_INODE || strcmp(name, "disk")) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    struct fuse_entry_param entry = {
        .ino = DISK_INODE, .attr = attributes(DISK_INODE), .attr_timeout = FOREVER_S, .entry_timeout = FOREVER_S};
    fuse_reply_entry(request, &entry);
}

static void on_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
    /* The page cache would answer sooner than the disk. */
    file->direct_io = 1;
    fuse_reply_open(request, file);
}

static void on_read(fuse_req_t request, fuse_ino_t inode, size_t bytes, off_t at, struct fuse_file_info *file)
{
    bytes = within(at, bytes);
    serve(at, bytes);
    fuse_reply_buf(request, data + at, bytes);
}

static void on_write(fuse_req_t request, fuse_ino_t inode, const char *from, size_t bytes, off_t at,
                     struct fuse_file_info *file)
{
    if (within(at, bytes) < bytes) {
        fuse_reply_err(request, ENOSPC);
        return;
    }
    memcpy(data + at, from, bytes);
    serve(at, bytes);
    fuse_reply_write(request, bytes);
}

static int fail(const char *what)
{
    perror(what);
    return 2;
}

int main(int count, char **arguments)
{
    if (count != 7) {
        fprintf(stderr, "slow_disk FOLDER MIB LATENCY_US REQUESTS_PER_SECOND BYTES_PER_SECOND arm|no-arm\n");
        return 2;
    }
    size = strtoull(arguments[2], 0, 10) << 20;
    latency_ns = strtoll(arguments[3], 0, 10) * 1000;
    double requests_per_second = strtod(arguments[4], 0), bytes_per_second = strtod(arguments[5], 0);
    request_ns = requests_per_second ? 1e9 / requests_per_second : 0;
    byte_ns = bytes_per_second ? 1e9 / bytes_per_second : 0;
    has_arm = !strcmp(arguments[6], "arm");
    /* By default the kernel lets timers fire up to 50 us late. Threads inherit this. */
    if (prctl(PR_SET_TIMERSLACK, 1)) return fail("timer slack");
    /* A disk does not wait until programs leave it a processor. Threads inherit this, too. */
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1})) return fail("real-time priority");
    /* What keeps a swap file must not be swapped out. Pages are locked as they are used. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) return fail("memory cannot be locked");
    data = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return fail("no memory for the disk");

    struct fuse_lowlevel_ops operations = {
        .init = on_init, .getattr = on_getattr, .lookup = on_lookup, .open = on_open, .read = on_read, .write = on_write};
    struct fuse_args name = FUSE_ARGS_INIT(1, arguments);
    struct fuse_session *session = fuse_session_new(&name, &operations, sizeof operations, 0);
    struct fuse_loop_config *threads = fuse_loop_cfg_create();
    if (!session || fuse_session_mount(session, arguments[1])) return 2;
    fuse_loop_cfg_set_max_threads(threads, MOST_REQUESTS);
    fuse_loop_cfg_set_idle_threads(threads, MOST_REQUESTS);
    puts("mounted");
    fflush(stdout);
    int status = fuse_session_loop_mt(session, threads);
    fuse_session_unmount(session);
    return status ? 1 : 0;
}
