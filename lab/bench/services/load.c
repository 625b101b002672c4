/* Clients of a server: each sends a request, waits for its answer and sends the next one.
 *
 * load http|redis PORT KEYS HOT SKEW CONNECTIONS SECONDS SEED
 *
 * Only the first HOT of 0..KEYS-1 are asked for, in blocks that lie anywhere. The block of rank
 * HOT * u^SKEW is next, with u at random in 0..1. One request in ten to redis is a SET.
 * Prints the answers and the wrong ones. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 64, VALUE = 1000, MOST = 1 << 17 };

static int is_redis, port;
static long keys, hot;
static double skew, end;

struct client {
    unsigned short chance[3];
    long answers, wrong;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int connected(void)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = 20};
    int connection = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(connection, (void *)&place, sizeof place)) {
        close(connection);
        return -1;
    }
    return connection;
}

/* The length of a whole answer at the beginning of `text`, 0: not yet known, -1: a wrong one. */
static long length(char *text)
{
    char *body = strstr(text, is_redis ? "\r\n" : "\r\n\r\n");
    if (!body) return 0;
    if (is_redis) {
        if (text[0] == '+') return body + 2 - text;
        return text[0] == '$' && atol(text + 1) >= 0 ? body + 2 - text + atol(text + 1) + 2 : -1;
    }
    char *said = strcasestr(text, "\r\nContent-Length:");
    if (strncmp(text, "HTTP/1.1 200", 12) || !said || said > body) return -1;
    return body + 4 - text + atol(said + 17);
}

static int ask(int connection, long key, int is_set, char *buffer)
{
    int size;
    if (!is_redis) size = sprintf(buffer, "GET /%ld HTTP/1.1\r\nHost: localhost\r\n\r\n", key);
    else if (is_set) size = sprintf(buffer, "SET key:%ld %0*ld\r\n", key, VALUE, key);
    else size = sprintf(buffer, "GET key:%ld\r\n", key);
    if (send(connection, buffer, size, MSG_NOSIGNAL) != size) return -1;
    long have = 0, whole = 0;
    while (!whole || have < whole) {
        ssize_t got = recv(connection, buffer + have, MOST - 1 - have, 0);
        if (got <= 0) return -1;
        have += got;
        buffer[have] = 0;
        if (!whole) whole = length(buffer);
        if (whole < 0 || whole >= MOST) return -1;
    }
    return have == whole ? 0 : -1;
}

static void *run(void *argument)
{
    struct client *client = argument;
    char *buffer = malloc(MOST);
    int connection = connected();
    long blocks = keys / BLOCK;
    while (now() < end) {
        long rank = hot * pow(erand48(client->chance), skew);
        long key = rank / BLOCK * 7919 % blocks * BLOCK + rank % BLOCK;
        if (connection >= 0 && !ask(connection, key, is_redis && erand48(client->chance) < 0.1, buffer)) {
            client->answers++;
            continue;
        }
        client->wrong++;
        close(connection);
        usleep(10000);
        connection = connected();
    }
    close(connection);
    free(buffer);
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 9) return 2;
    is_redis = !strcmp(arguments[1], "redis");
    port = atoi(arguments[2]);
    keys = atol(arguments[3]);
    hot = atol(arguments[4]);
    skew = atof(arguments[5]);
    int connections = atoi(arguments[6]);
    end = now() + atof(arguments[7]);
    pthread_t threads[connections];
    struct client clients[connections];
    for (int n = 0; n < connections; n++) {
        clients[n] = (struct client){.chance = {atoi(arguments[8]), n, 1}};
        if (pthread_create(&threads[n], 0, run, &clients[n])) return 1;
    }
    long answers = 0, wrong = 0;
    for (int n = 0; n < connections; n++) {
        pthread_join(threads[n], 0);
        answers += clients[n].answers;
        wrong += clients[n].wrong;
    }
    printf("%ld %ld\n", answers, wrong);
    return 0;
}
