/* A process of a task that means the command harm: rogue HOW. It knows what the task's agents
 * know. */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { HELLO_WORDS = 7, SHARED_BYTES = 4096 + (1 << 26) };
static uint32_t hello[HELLO_WORDS];
static struct sockaddr_un lender = {.sun_family = AF_UNIX};

static int call(void)
{
    int socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT(socket_ >= 0);
    if (connect(socket_, (struct sockaddr *)&lender, sizeof lender) == 0) return socket_;
    close(socket_);
    return -1;
}

static int shared_file(off_t bytes, int seals)
{
    int file = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(file >= 0 && ftruncate(file, bytes) == 0);
    EXPECT(!seals || fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

static int introduce(int socket_, const uint32_t *words, size_t count, int file)
{
    char space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)words, 4 * count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &file, sizeof(int));
    }
    return sendmsg(socket_, &message, MSG_NOSIGNAL) == (ssize_t)(4 * count) ? 0 : -1;
}

/* Whether the command has hung up, within some seconds. */
static int is_refused(int socket_)
{
    struct timeval patience = {20, 0};
    uint32_t word[64];
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = recv(socket_, word, sizeof word, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static uint64_t state = 88172645463325252;
static uint32_t number(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 16;
}

int main(int count, char **arguments)
{
    const char *control = getenv("SWEEPHAND_PAGER"), *how = arguments[1];
    uint32_t order[6];
    int file = open(control, O_RDONLY);
    EXPECT(file >= 0 && read(file, order, sizeof order) == sizeof order);
    memcpy(hello, (uint32_t[]){0x31707773, 0, 16}, 12);
    memcpy(hello + 3, order + 2, 16);
    snprintf(lender.sun_path, sizeof lender.sun_path, "%.*s/lender", (int)(strrchr(control, '/') - control), control);
    if (!strcmp(how, "hello")) {
        /* Wrong in one way each. */
        for (int word = 0; word < HELLO_WORDS; word++) {
            uint32_t wrong[HELLO_WORDS];
            memcpy(wrong, hello, sizeof wrong);
            wrong[word] ^= 0x40000000;
            int socket_ = call();
            EXPECT(introduce(socket_, wrong, HELLO_WORDS, shared_file(SHARED_BYTES, F_SEAL_SHRINK)) == 0);
            EXPECT(is_refused(socket_));
        }
        int socket_ = call();
        EXPECT(introduce(socket_, hello, HELLO_WORDS - 1, shared_file(SHARED_BYTES, F_SEAL_SHRINK)) == 0);
        EXPECT(is_refused(socket_));
        socket_ = call();
        EXPECT(introduce(socket_, hello, HELLO_WORDS, -1) == 0);
        EXPECT(is_refused(socket_));
        int devices[] = {open("/dev/null", O_RDWR), open("/dev/zero", O_RDWR), shared_file(SHARED_BYTES, 0), shared_file(4096, F_SEAL_SHRINK)};
        for (int index = 0; index < 4; index++) {
            socket_ = call();
            EXPECT(introduce(socket_, hello, HELLO_WORDS, devices[index]) == 0);
            ftruncate(devices[index], 0);
            EXPECT(is_refused(socket_));
        }
    } else if (!strcmp(how, "silent")) {
        /* More than the command has descriptors for, and then some who are let go. */
        for (int turn = 0; turn < 4000; turn++) {
            int socket_ = call();
            if (socket_ >= 900) close(socket_);
        }
    } else if (!strcmp(how, "flood") || !strcmp(how, "deaf")) {
        int socket_ = call(), sent = 0;
        EXPECT(introduce(socket_, hello, HELLO_WORDS, shared_file(SHARED_BYTES, F_SEAL_SHRINK)) == 0);
        struct timespec since, now;
        clock_gettime(CLOCK_MONOTONIC, &since);
        do {
            uint32_t words[256];
            for (int word = 0; word < 256; word++) {
                /* Every operation, operands small, large and impossible. */
                uint32_t operand = number() >> (number() % 28 + 4);
                words[word] = (number() % 16) << 28 | operand;
            }
            if (send(socket_, words, sizeof words, MSG_NOSIGNAL) < 0) break;
            if (!strcmp(how, "flood"))
                while (recv(socket_, words, sizeof words, MSG_DONTWAIT) > 0) {}
            sent++;
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while (now.tv_sec - since.tv_sec < 5);
        EXPECT(sent > 0);
    } else return 2;
    puts("right");
    return 0;
}
