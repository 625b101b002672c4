/* Pages that the kernel goes on holding after they are paged out: held WAY MIB.
 *
 * Some pages are handed to the kernel, in one WAY. Then the program goes through MIB of other
 * memory, in order and here and there, until those pages have been paged out and frames have been
 * used again. What the kernel then gives out, or has put into them, must be theirs; and so must be
 * what the program finds there.
 */
#include "check.h"
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/user.h>

#define HELD 200UL

static char *held, *others;
static size_t other_pages;

/* Pages of a kind that the machine does not have are no reason to fail; but it is said. */
static void cannot(const char *what)
{
    printf("cannot: %s (errno %d)\n", what, errno);
    fflush(stdout);
    _exit(0);
}

static void fill_held(uint64_t version)
{
    for (size_t page = 0; page < HELD; page++) fill(held + page * PAGE, page, version);
}

static void verify_held(uint64_t version)
{
    for (size_t page = 0; page < HELD; page++) verify(held + page * PAGE, page, version);
}

/* Pages out whatever is not used. */
static void press(void)
{
    static uint64_t seed = 77, version;
    for (size_t page = 0; page < other_pages; page++) {
        uint64_t *word = (uint64_t *)(others + page * PAGE);
        EXPECT(word[3] == page + version);
        word[3]++;
    }
    version++;
    for (size_t turn = 0; turn < other_pages / 8; turn++) {
        size_t page = random_next(&seed) % other_pages;
        EXPECT(((uint64_t *)(others + page * PAGE))[3] == page + version);
    }
}

/* A whole buffer of what `fill` wrote, from wherever it comes in pieces. */
struct sink {
    size_t bytes;
    char page[PAGE] __attribute__((aligned(8)));
};

static void take(struct sink *sink, const char *bytes, size_t count, uint64_t version)
{
    while (count) {
        size_t at = sink->bytes % PAGE, part = count < PAGE - at ? count : PAGE - at;
        memcpy(sink->page + at, bytes, part);
        sink->bytes += part, bytes += part, count -= part;
        if (sink->bytes % PAGE == 0) verify(sink->page, sink->bytes / PAGE - 1, version);
    }
}

static void drain(int from, size_t bytes, uint64_t version)
{
    static char buffer[16 * PAGE];
    struct sink sink = {0};
    while (sink.bytes < bytes) {
        ssize_t count = read(from, buffer, sizeof buffer);
        if (count <= 0) FAIL("%zu of %zu bytes (errno %d)", sink.bytes, bytes, errno);
        take(&sink, buffer, count, version);
    }
}

static void open_pipe(int ends[2])
{
    EXPECT(!pipe(ends));
    EXPECT(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= (int)(HELD * PAGE));
}

static void to_pipe(int end, unsigned flags)
{
    for (size_t done = 0; done < HELD * PAGE;) {
        struct iovec part = {held + done, HELD * PAGE - done};
        ssize_t count = vmsplice(end, &part, 1, flags);
        EXPECT(count > 0);
        done += count;
    }
}

static void with_pipe(const char *way)
{
    int ends[2], more[2];
    open_pipe(ends);
    to_pipe(ends[1], strcmp(way, "gift") ? 0 : SPLICE_F_GIFT);
    if (!strcmp(way, "tee") || !strcmp(way, "splice")) {
        open_pipe(more);
        int teed = !strcmp(way, "tee");
        for (size_t done = 0; done < HELD * PAGE;) {
            ssize_t count = teed ? tee(ends[0], more[1], HELD * PAGE, 0)
                                 : splice(ends[0], 0, more[1], 0, HELD * PAGE - done, 0);
            EXPECT(count > 0);
            done += count;
        }
        if (teed) {
            /* The first pipe gives them out early, the second late. */
            drain(ends[0], HELD * PAGE, 1);
        }
        ends[0] = more[0];
    }
    press();
    drain(ends[0], HELD * PAGE, 1);
    verify_held(1);
    /* And again with pages that have come back. */
    press();
    fill_held(2);
    open_pipe(ends);
    to_pipe(ends[1], 0);
    press();
    verify_held(2);
    press();
    drain(ends[0], HELD * PAGE, 2);
    /* What is written after that is the program's, whatever the pipe has: old or new, but of this
     * page. */
    to_pipe(ends[1], 0);
    press();
    fill_held(3);
    press();
    static char page[PAGE] __attribute__((aligned(8)));
    for (size_t index = 0; index < HELD; index++) {
        EXPECT(read(ends[0], page, PAGE) == PAGE);
        verify(page, index, *(uint64_t *)page == word_of(index, 3, 0) ? 3 : 2);
    }
    verify_held(3);
}

/* Two ends of a TCP connection where much can wait to be sent and little is received. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096, large = 8 << 20;
    EXPECT(!setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
    EXPECT(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 1));
    EXPECT(!getsockname(listener, (struct sockaddr *)&address, &length));
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large)) cannot("SO_SNDBUFFORCE");
    EXPECT(!connect(ends[1], (struct sockaddr *)&address, sizeof address));
    ends[0] = accept(listener, 0, 0);
    EXPECT(ends[0] >= 0);
    close(listener);
}

static void with_zerocopy(void)
{
    int ends[2], one = 1;
    connect_pair(ends);
    if (setsockopt(ends[1], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one)) cannot("SO_ZEROCOPY");
    size_t done = 0;
    while (done < HELD * PAGE) {
        ssize_t count = send(ends[1], held + done, HELD * PAGE - done, MSG_ZEROCOPY | MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
        EXPECT(count > 0);
        done += count;
    }
    EXPECT(done > HELD * PAGE / 4);
    press();
    verify_held(1);
    press();
    drain(ends[0], done, 1);
    verify_held(1);
}

/* A ring of io_uring, by hand. */
struct ring {
    int fd;
    struct io_uring_params params;
    char *queue;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *done;
};

static void open_ring(struct ring *ring)
{
    memset(&ring->params, 0, sizeof ring->params);
    ring->fd = syscall(SYS_io_uring_setup, 256, &ring->params);
    if (ring->fd < 0) cannot("io_uring");
    EXPECT(ring->params.features & IORING_FEAT_SINGLE_MMAP);
    size_t bytes = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof *ring->done;
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    ring->queue = mmap(0, bytes, protection, flags, ring->fd, IORING_OFF_SQ_RING);
    bytes = ring->params.sq_entries * sizeof *ring->entries;
    ring->entries = mmap(0, bytes, protection, flags, ring->fd, IORING_OFF_SQES);
    EXPECT(ring->queue != MAP_FAILED && ring->entries != MAP_FAILED);
    ring->done = (void *)(ring->queue + ring->params.cq_off.cqes);
}

static uint32_t *ring_word(struct ring *ring, uint32_t at) { return (uint32_t *)(ring->queue + at); }

static struct io_uring_sqe *next_entry(struct ring *ring)
{
    uint32_t *tail = ring_word(ring, ring->params.sq_off.tail);
    uint32_t index = *tail & (ring->params.sq_entries - 1);
    ring_word(ring, ring->params.sq_off.array)[index] = index;
    memset(&ring->entries[index], 0, sizeof ring->entries[index]);
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    return &ring->entries[index];
}

static void enter(struct ring *ring, unsigned submitted, unsigned awaited)
{
    int result = syscall(SYS_io_uring_enter, ring->fd, submitted, awaited, IORING_ENTER_GETEVENTS, 0, 0);
    EXPECT(result == (int)submitted);
}

/* The result of what has been done next. */
static int next_done(struct ring *ring)
{
    uint32_t *head = ring_word(ring, ring->params.cq_off.head);
    while (__atomic_load_n(ring_word(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE) == *head)
        enter(ring, 0, 1);
    int result = ring->done[*head & (ring->params.cq_entries - 1)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static void with_send_zc(void)
{
    struct ring ring;
    int ends[2];
    open_ring(&ring);
    connect_pair(ends);
    size_t per_send = 20 * PAGE, sends = HELD * PAGE / per_send;
    for (size_t send = 0; send < sends; send++) {
        struct io_uring_sqe *entry = next_entry(&ring);
        entry->opcode = IORING_OP_SEND_ZC;
        entry->fd = ends[1];
        entry->addr = (uint64_t)(held + send * per_send);
        entry->len = per_send;
        entry->msg_flags = MSG_WAITALL;
        entry->flags = IOSQE_IO_LINK;
    }
    enter(&ring, sends, 1);
    int result = next_done(&ring);
    if (result == -EINVAL) cannot("IORING_OP_SEND_ZC");
    EXPECT(result == (int)per_send);
    press();
    verify_held(1);
    press();
    drain(ends[0], HELD * PAGE, 1);
    verify_held(1);
}

/* A file to read from directly, of what `fill` writes as version 5. */
static int direct_file(void)
{
    char name[] = "/var/tmp/held-XXXXXX";
    int file = mkstemp(name);
    EXPECT(file >= 0);
    close(file);
    file = open(name, O_RDWR | O_DIRECT);
    EXPECT(file >= 0);
    unlink(name);
    char *page = aligned_alloc(PAGE, PAGE);
    for (size_t index = 0; index < HELD; index++) {
        fill(page, index, 5);
        EXPECT(pwrite(file, page, PAGE, index * PAGE) == PAGE);
    }
    return file;
}

/* One request for each held page: to or from its place in a file. */
static void ask_for_each(struct ring *ring, int operation, int file)
{
    for (size_t page = 0; page < HELD; page++) {
        struct io_uring_sqe *entry = next_entry(ring);
        entry->opcode = operation;
        entry->fd = file;
        entry->addr = (uint64_t)(held + page * PAGE);
        entry->len = PAGE;
        entry->off = page * PAGE;
    }
}

static void with_registered(void)
{
    struct ring ring;
    open_ring(&ring);
    int file = direct_file();
    struct iovec buffer = {held, HELD * PAGE};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1)) cannot("buffers");
    press();
    verify_held(1);
    for (int round = 0; round < 3; round++) {
        ask_for_each(&ring, IORING_OP_READ_FIXED, file);
        enter(&ring, HELD, 0);
        press();
        for (size_t page = 0; page < HELD; page++) EXPECT(next_done(&ring) == PAGE);
        verify_held(5);
        fill_held(1);
        press();
    }
}

static void with_direct(void)
{
    struct ring ring;
    open_ring(&ring);
    int file = direct_file();
    for (int round = 0; round < 4; round++) {
        ask_for_each(&ring, IORING_OP_READ, file);
        enter(&ring, HELD, 0);
        press();
        for (size_t page = 0; page < HELD; page++) EXPECT(next_done(&ring) == PAGE);
        verify_held(5);
        press();
        /* The other way: what is written is what was there. */
        ask_for_each(&ring, IORING_OP_WRITE, file);
        enter(&ring, HELD, 0);
        press();
        for (size_t page = 0; page < HELD; page++) EXPECT(next_done(&ring) == PAGE);
        fill_held(1);
        press();
    }
}

/* Frames of an AF_XDP socket are sent over the loopback device, and seen by a packet socket. */
static void with_xdp(void)
{
    int xdp = socket(AF_XDP, SOCK_RAW, 0), index = if_nametoindex("lo"), entries = 256;
    if (xdp < 0) cannot("AF_XDP");
    struct xdp_umem_reg umem = {.addr = (uint64_t)held, .len = HELD * PAGE, .chunk_size = PAGE};
    if (setsockopt(xdp, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem)) cannot("XDP_UMEM_REG");
    EXPECT(!setsockopt(xdp, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof entries));
    EXPECT(!setsockopt(xdp, SOL_XDP, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries));
    EXPECT(!setsockopt(xdp, SOL_XDP, XDP_TX_RING, &entries, sizeof entries));
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    EXPECT(!getsockopt(xdp, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length));
    char *queue = mmap(0, offsets.tx.desc + entries * sizeof(struct xdp_desc), PROT_READ | PROT_WRITE, MAP_SHARED,
                       xdp, XDP_PGOFF_TX_RING);
    EXPECT(queue != MAP_FAILED);
    struct sockaddr_xdp place = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY, .sxdp_ifindex = index};
    if (bind(xdp, (struct sockaddr *)&place, sizeof place)) cannot("bind of AF_XDP to lo");
    int packet = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    if (packet < 0) cannot("AF_PACKET");
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
    EXPECT(!bind(packet, (struct sockaddr *)&all, sizeof all));
    press();
    verify_held(1);
    for (size_t page = 0; page < HELD; page++) {
        /* A header of a kind of its own, and the first words of the page behind it. */
        char *frame = held + page * PAGE;
        memset(frame, 0, 12);
        frame[12] = 0x12, frame[13] = 0x34;
    }
    press();
    struct xdp_desc *slots = (void *)(queue + offsets.tx.desc);
    uint32_t *tail = (uint32_t *)(queue + offsets.tx.producer);
    for (size_t page = 0; page < HELD; page++) {
        slots[*tail & (entries - 1)] = (struct xdp_desc){.addr = page * PAGE, .len = 1024};
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (sendto(xdp, 0, 0, MSG_DONTWAIT, 0, 0) < 0) EXPECT(errno == EAGAIN || errno == EBUSY || errno == ENOBUFS);
        uint64_t words[512];
        struct pollfd ready = {.fd = packet, .events = POLLIN};
        for (;;) {
            if (poll(&ready, 1, 10000) != 1) cannot("frames sent by AF_XDP are not seen");
            ssize_t count = recv(packet, words, sizeof words, 0);
            if (count == 1024 && ((char *)words)[12] == 0x12 && ((char *)words)[13] == 0x34) break;
        }
        for (size_t word = 2; word < 128; word++)
            if (words[word] != word_of(page, 1, word)) FAIL("frame %zu: word %zu", page, word);
    }
}

/* Another process that reads and writes this one's memory; by calls, by the file, or as a
 * tracer. */
static void with_process(const char *way)
{
    int ends[2], back[2];
    pid_t own = getpid();
    EXPECT(!pipe(ends) && !pipe(back));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        char byte, name[64];
        close(ends[1]);
        snprintf(name, sizeof name, "/proc/%d/mem", own);
        int memory = open(name, O_RDWR);
        EXPECT(memory >= 0);
        static char page[PAGE] __attribute__((aligned(8)));
        for (uint64_t version = 1; read(ends[0], &byte, 1) == 1; version++) {
            size_t refused = 0;
            for (size_t index = 0; index < HELD; index++) {
                char *at = held + index * PAGE;
                struct iovec mine = {page, PAGE}, theirs = {at, PAGE};
                if (!strcmp(way, "vm")) {
                    EXPECT(process_vm_readv(own, &mine, 1, &theirs, 1, 0) == PAGE);
                    verify(page, index, version);
                    fill(page, index, version + 1);
                    EXPECT(process_vm_writev(own, &mine, 1, &theirs, 1, 0) == PAGE);
                    continue;
                }
                /* The kernel does not wait for a pager here: what is not in memory is refused,
                 * never zeros. */
                ssize_t count = pread(memory, page, PAGE, (off_t)at);
                if (count == PAGE) verify(page, index, version);
                else EXPECT(count < 0 && errno == EIO);
                refused += count < 0;
                fill(page, index, version + 1);
                count = pwrite(memory, page, PAGE, (off_t)at);
                if (count == PAGE) continue;
                EXPECT(count < 0 && errno == EIO);
                EXPECT(process_vm_writev(own, &mine, 1, &theirs, 1, 0) == PAGE);
            }
            EXPECT(write(back[1], &byte, 1) == 1);
        }
        _exit(0);
    }
    close(ends[0]);
    for (uint64_t version = 1; version < 8; version++) {
        char byte = 0;
        if (version % 2) press();
        EXPECT(write(ends[1], &byte, 1) == 1);
        /* Pages go and come while they are written to. */
        press();
        EXPECT(read(back[0], &byte, 1) == 1);
        if (version % 3) press();
        verify_held(version + 1);
    }
    close(ends[1]);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* A machine that adds 1 to a word of each page of its memory, time and again. */
static void with_kvm(void)
{
    static const uint8_t code[] = {
        0xb8, 0x00, 0x10,       /* mov ax, 0x1000 */
        0x8e, 0xd8,             /* next: mov ds, ax */
        0xff, 0x06, 0x08, 0x00, /* inc word [8] */
        0x05, 0x00, 0x01,       /* add ax, 0x100 */
        0x3d, 0x00, 0x80,       /* cmp ax, 0x8000 */
        0x75, 0xf2,             /* jne next */
        0xf4,                   /* hlt */
        0xeb, 0xec,             /* jmp to the start */
    };
    int kvm = open("/dev/kvm", O_RDWR);
    if (kvm < 0) cannot("/dev/kvm");
    int machine = ioctl(kvm, KVM_CREATE_VM, 0);
    if (machine < 0) cannot("KVM_CREATE_VM");
    char *memory = map_pages(128);
    memcpy(memory, code, sizeof code);
    struct kvm_userspace_memory_region region = {
        .memory_size = 128 * PAGE, .userspace_addr = (uint64_t)memory};
    EXPECT(!ioctl(machine, KVM_SET_USER_MEMORY_REGION, &region));
    int processor = ioctl(machine, KVM_CREATE_VCPU, 0);
    int bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    EXPECT(processor >= 0 && bytes > 0);
    struct kvm_run *run = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, processor, 0);
    EXPECT(run != MAP_FAILED);
    struct kvm_sregs special;
    EXPECT(!ioctl(processor, KVM_GET_SREGS, &special));
    special.cs.base = special.cs.selector = 0;
    EXPECT(!ioctl(processor, KVM_SET_SREGS, &special));
    struct kvm_regs registers = {.rip = 0, .rflags = 2};
    EXPECT(!ioctl(processor, KVM_SET_REGS, &registers));
    for (unsigned round = 1; round <= 12; round++) {
        if (round % 2) press();
        if (ioctl(processor, KVM_RUN, 0)) cannot("KVM_RUN");
        EXPECT(run->exit_reason == KVM_EXIT_HLT);
        if (round % 3 == 0) press();
        for (size_t page = 16; page < 128; page++)
            EXPECT(*(uint16_t *)(memory + page * PAGE + 8) == round);
    }
}

int main(int count, char **arguments)
{
    EXPECT(count == 3);
    const char *way = arguments[1];
    other_pages = strtoul(arguments[2], 0, 10) * 256;
    /* As huge pages, which the kernel cannot split while somebody holds them. */
    int huge = !strcmp(way, "huge");
    held = map_pages(huge ? 1024 : HELD);
    if (huge) {
        held = (char *)(((uintptr_t)held + (2 << 20) - 1) & -(2UL << 20));
        madvise(held, 2 << 20, MADV_HUGEPAGE);
    }
    fill_held(1);
    int early[2];
    if (huge) {
        /* Before memory is managed, so that they still are. */
        open_pipe(early);
        to_pipe(early[1], 0);
    }
    others = map_pages(other_pages);
    for (size_t page = 0; page < other_pages; page++) ((uint64_t *)(others + page * PAGE))[3] = page;
    if (huge) {
        press();
        drain(early[0], HELD * PAGE, 1);
        press();
        verify_held(1);
        way = "vmsplice";
    } else {
        fill_held(1);
    }
    static const char *const pipes[] = {"vmsplice", "gift", "tee", "splice"};
    int known = 0;
    for (size_t index = 0; index < sizeof pipes / sizeof *pipes; index++)
        if (!strcmp(way, pipes[index])) with_pipe(way), known = 1;
    if (!strcmp(way, "zerocopy")) with_zerocopy(), known = 1;
    if (!strcmp(way, "send-zc")) with_send_zc(), known = 1;
    if (!strcmp(way, "registered")) with_registered(), known = 1;
    if (!strcmp(way, "direct")) with_direct(), known = 1;
    if (!strcmp(way, "xdp")) with_xdp(), known = 1;
    if (!strcmp(way, "vm") || !strcmp(way, "mem")) with_process(way), known = 1;
    if (!strcmp(way, "kvm")) with_kvm(), known = 1;
    EXPECT(known);
    puts("right");
    return 0;
}
