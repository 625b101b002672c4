/* miniDB, after the notes of linux-mm on page replacement: random look-ups in an index and the
 * records behind it. A look-up reads a random page of the index and a random record, which is in
 * one page. All of it is anonymous memory, so that the kernel's swapping and the pager page the
 * same; the wiki's was in files.
 *
 * Usage: minidb INDEX_MB DATA_MB QUERIES [lock] [STREAM_MB]
 * With `lock` the index is locked in memory. With STREAM_MB another thread goes through this much
 * other memory meanwhile, once, as a copy of files would. Prints the seconds of the look-ups, also
 * into the file `seconds`. */
#include "memory.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MB = 1 << 20, STREAM_PIECES = 100 };

static unsigned char *stream;
static size_t stream_bytes;
static volatile size_t queries_done, queries;

/* Goes on as the look-ups do, so that it is there from the first to the last. */
static void *go_through(void *unused) {
    size_t piece = stream_bytes / STREAM_PIECES;
    for (size_t at = 0; at < STREAM_PIECES; at++) {
        while (queries_done < queries / STREAM_PIECES * at) {
            struct timespec pause = {0, 1000000};
            nanosleep(&pause, NULL);
        }
        memset(stream + at * piece, 1, piece);
    }
    return unused;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fputs("usage: minidb INDEX_MB DATA_MB QUERIES [lock] [STREAM_MB]\n", stderr);
        return 2;
    }
    size_t index_bytes = strtoul(argv[1], NULL, 10) * MB, data_bytes = strtoul(argv[2], NULL, 10) * MB;
    queries = strtoul(argv[3], NULL, 10);
    int lock = argc > 4 && strcmp(argv[4], "lock") == 0;
    if (argc > 4 + lock)
        stream_bytes = strtoul(argv[4 + lock], NULL, 10) * MB;
    unsigned char *index = map(index_bytes), *data = map(data_bytes);
    for (size_t at = 0; at < data_bytes; at += PAGE)
        memset(data + at, (int)(at / PAGE), 64);
    for (size_t at = 0; at < index_bytes; at += PAGE)
        memset(index + at, (int)(at / PAGE), 64);
    if (lock && mlock(index, index_bytes) != 0) {
        perror("minidb: mlock");
        return 1;
    }
    pthread_t thread;
    if (stream_bytes > 0) {
        stream = map(stream_bytes);
        if (pthread_create(&thread, NULL, go_through, NULL) != 0)
            return 1;
    }
    uint64_t state = 1, sum = 0;
    double start = now();
    for (size_t query = 0; query < queries; query++) {
        sum += ((volatile unsigned char *)index)[draw(&state) % (index_bytes / PAGE) * PAGE];
        sum += ((volatile unsigned char *)data)[draw(&state) % (data_bytes / PAGE) * PAGE];
        queries_done = query;
    }
    double seconds = now() - start;
    queries_done = queries;
    if (stream_bytes > 0)
        pthread_join(thread, NULL);
    printf("%.3f %lu\n", seconds, (unsigned long)sum);
    FILE *file = fopen("seconds", "w");
    if (file == NULL || fprintf(file, "%.6f\n", seconds) < 0 || fclose(file) != 0) {
        perror("minidb: seconds");
        return 1;
    }
    return 0;
}
