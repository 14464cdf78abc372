/* roles: what every contestant does in a run, with libzmq; roles, arguments and output are those of
 * crates/src/roles.rs, which explains them. One application thread and libzmq's one I/O thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define HWM 2000
#define SOCKET_BUFFER (4 << 20)
#define PATIENCE 30 /* seconds */
#define PUB_WINDOW 4096
#define PUB_HWM (8 * PUB_WINDOW)
#define PUSH_WINDOW_BYTES (128 << 20)
#define PUSH_WINDOW 65536
#define HELLO UINT64_MAX

#define MAX_FRAMES 16
#define MAX_SOCKETS 1000
#define MAX_SAMPLES 8000000

static void *context;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "libzmq: %s\n", what);
    exit(1);
}

static void check(int result)
{
    if (result < 0) fail(errno == EAGAIN ? "a message is missing" : zmq_strerror(errno));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void nap(int milliseconds)
{
    struct timespec t = { 0, milliseconds * 1000000L };
    nanosleep(&t, NULL);
}

static void *open_socket(int type)
{
    int hwm = type == ZMQ_PUB || type == ZMQ_SUB ? PUB_HWM : HWM;
    const struct { int option, value; } options[] = {
        { ZMQ_SNDHWM, hwm }, { ZMQ_RCVHWM, hwm }, { ZMQ_SNDBUF, SOCKET_BUFFER }, { ZMQ_RCVBUF, SOCKET_BUFFER },
        { ZMQ_LINGER, 0 }, { ZMQ_RCVTIMEO, type == ZMQ_ROUTER ? -1 : PATIENCE * 1000 },
    };
    void *socket = zmq_socket(context, type);
    if (!socket) fail(zmq_strerror(errno));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check(zmq_setsockopt(socket, options[i].option, &options[i].value, sizeof options[i].value));
    return socket;
}

static void set_key(void *socket, int option, const char *key)
{
    check(zmq_setsockopt(socket, option, key, strlen(key) + 1));
}

static void report(uint64_t messages, double elapsed, const char *more)
{
    printf("{\"messages\": %llu, \"msgs_per_s\": %.1f%s}\n", (unsigned long long)messages, messages / elapsed, more);
}

/* ---- DEALER and ROUTER ---- */

static _Noreturn void router(const char *endpoint)
{
    void *socket = open_socket(ZMQ_ROUTER);
    check(zmq_bind(socket, endpoint));
    zmq_msg_t part;
    zmq_msg_init(&part);
    for (;;) {
        check(zmq_msg_recv(&part, socket, 0));
        int more = zmq_msg_more(&part);
        check(zmq_msg_send(&part, socket, more ? ZMQ_SNDMORE : 0));
    }
}

static size_t size[MAX_FRAMES];
static int frames, numbered = -1;
static char *body;
static zmq_msg_t part;

static void send_message(void *dealer, uint64_t number)
{
    for (int i = 0; i < frames; i++) {
        if (i == numbered) memcpy(body, &number, sizeof number);
        check(zmq_send(dealer, body, size[i], i + 1 < frames ? ZMQ_SNDMORE : 0));
    }
}

/* 0 if there is none and that is allowed. */
static int receive_message(void *dealer, uint64_t expected, int flags)
{
    for (int i = 0; i < frames; i++) {
        int result = zmq_msg_recv(&part, dealer, flags);
        if (result < 0 && errno == EAGAIN && flags && i == 0) return 0;
        check(result);
        if (zmq_msg_size(&part) != size[i] || zmq_msg_more(&part) != (i + 1 < frames)) fail("a message changed shape");
        if (i == numbered && memcmp(zmq_msg_data(&part), &expected, sizeof expected)) fail("a message is missing");
    }
    return 1;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void one_at_a_time(void *dealer, double seconds)
{
    float *latency = calloc(MAX_SAMPLES, sizeof *latency);
    uint64_t received = 0;
    double start = now(), before = start, end = start;
    for (; before < start + seconds && received < MAX_SAMPLES; received++, before = end) {
        send_message(dealer, received);
        receive_message(dealer, received, 0);
        end = now();
        latency[received] = (end - before) * 1e6;
    }
    char percentiles[80];
    qsort(latency, received, sizeof *latency, by_size);
    snprintf(percentiles, sizeof percentiles, ", \"p50_us\": %.2f, \"p99_us\": %.2f", latency[received / 2],
             latency[received * 99 / 100]);
    report(received, end - start, percentiles);
}

/* Takes what is there, up to what is in flight, and sends as much again. */
static int dealer_turn(void *dealer, uint64_t *sent, uint64_t *received, uint64_t most, int flags, int sending)
{
    uint64_t before = *received;
    while (*received - before < most && *received < *sent && receive_message(dealer, *received, flags)) {
        ++*received;
        if (sending) send_message(dealer, (*sent)++);
    }
    return *received > before;
}

static void in_flight_all_the_time(void **dealer, int count, uint64_t in_flight, double seconds)
{
    static uint64_t sent[MAX_SOCKETS], received[MAX_SOCKETS];
    zmq_pollitem_t items[MAX_SOCKETS];
    uint64_t total = 0, turn = in_flight < 256 ? in_flight : 256;
    double start = now();
    for (int i = 0; i < count; i++) {
        items[i] = (zmq_pollitem_t){ dealer[i], 0, ZMQ_POLLIN, 0 };
        while (sent[i] < in_flight) send_message(dealer[i], sent[i]++);
    }
    for (int sending = 1, waiting = 1; sending || waiting; sending = sending && now() < start + seconds) {
        int moved = 0;
        waiting = 0;
        for (int i = 0; i < count; i++) { /* a lone socket blocks, several are polled */
            moved += dealer_turn(dealer[i], &sent[i], &received[i], turn, count > 1 ? ZMQ_DONTWAIT : 0, sending);
            waiting += received[i] < sent[i];
        }
        if (waiting && !moved && zmq_poll(items, count, PATIENCE * 1000) <= 0) fail("a message is missing");
    }
    double elapsed = now() - start;
    for (int i = 0; i < count; i++) total += received[i];
    report(total, elapsed, "");
}

static void dealers(const char *endpoint, int count, char *sizes, uint64_t in_flight, double seconds)
{
    size_t largest = 8;
    for (char *token = strtok(sizes, ","); token; token = strtok(NULL, ",")) {
        if (frames == MAX_FRAMES) fail("too many frames");
        size[frames] = strtoul(token, NULL, 10);
        if (size[frames] > largest) largest = size[frames];
        if (size[frames] >= 8 && numbered < 0) numbered = frames;
        frames++;
    }
    if (numbered < 0 || in_flight < 1 || in_flight > HWM || seconds <= 0 || count < 1 || count > MAX_SOCKETS)
        fail("needs sockets, a frame of 8 bytes or more, messages in flight (up to the high-water mark), and time");
    body = calloc(largest, 1);
    zmq_msg_init(&part);
    void *dealer[MAX_SOCKETS];
    for (int i = 0; i < count; i++) {
        dealer[i] = open_socket(ZMQ_DEALER);
        check(zmq_connect(dealer[i], endpoint));
        send_message(dealer[i], 0); /* once round before the clock starts */
    }
    for (int i = 0; i < count; i++) receive_message(dealer[i], 0, 0);
    if (count == 1 && in_flight == 1) one_at_a_time(dealer[0], seconds);
    else in_flight_all_the_time(dealer, count, in_flight, seconds);
}

/* ---- PUSH and PULL, PUB and SUB ---- */

static int control = -1;
static uint64_t step, window_end;

static uint64_t push_window(size_t length)
{
    uint64_t window = 64; /* a power of two */
    while (window < PUSH_WINDOW && window < PUSH_WINDOW_BYTES / (length ? length : 1)) window *= 2;
    return window;
}

static struct sockaddr_in address_of(const char *text)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    char host[32];
    int port;
    if (sscanf(text, "%31[0-9.]:%d", host, &port) != 2 || !inet_aton(host, &address.sin_addr)) fail("bad CONTROL");
    address.sin_port = htons(port);
    return address;
}

static void listen_for_receivers(const char *at, uint64_t window)
{
    struct sockaddr_in address = address_of(at);
    int yes = 1;
    control = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(control, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(control, (void *)&address, sizeof address) || listen(control, 1)) fail("cannot listen at CONTROL");
    step = window / 4, window_end = window;
}

static void read_credits(int wait)
{
    static int connected;
    if (!connected) {
        control = accept(control, NULL, NULL);
        if (control < 0) fail("nobody at CONTROL");
        struct timeval patience = { PATIENCE, 0 };
        setsockopt(control, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        connected = 1;
    }
    char credits[64];
    ssize_t n = recv(control, credits, sizeof credits, wait ? 0 : MSG_DONTWAIT);
    if (n == 0) fail("the receivers went away");
    if (n < 0 && wait) fail("the receivers got stuck, or lost messages");
    if (n > 0) window_end += n * step;
}

static void connect_to_sender(const char *at, uint64_t window)
{
    struct sockaddr_in address = address_of(at);
    double start = now();
    for (;;) {
        control = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(control, (void *)&address, sizeof address)) break;
        if (now() > start + PATIENCE) fail("cannot connect to CONTROL");
        close(control);
        nap(10);
    }
    int yes = 1;
    setsockopt(control, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    step = window / 4;
}

static void say(void)
{
    if (write(control, "\1", 1) != 1) fail("the sender went away");
}

static void send_numbered(void *socket, size_t length, uint64_t number, int last)
{
    memcpy(body, &number, sizeof number);
    body[8] = last;
    check(zmq_send(socket, body, length, 0));
}

/* Sends for that time, then waits to be killed. */
static _Noreturn void send_all(void *socket, size_t length, double seconds)
{
    send_numbered(socket, length, 0, 0);
    double stop = now() + seconds;
    uint64_t number = 0;
    for (int last = 0; !last; ) {
        number++;
        while (number >= window_end) read_credits(1);
        last = number % 256 == 0 && now() >= stop;
        send_numbered(socket, length, number, last);
    }
    for (;;) pause();
}

static _Noreturn void push(const char *endpoint, const char *at, size_t length, double seconds, char **keys)
{
    listen_for_receivers(at, push_window(length));
    void *socket = open_socket(ZMQ_PUSH);
    if (keys) {
        int yes = 1;
        check(zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof yes));
        set_key(socket, ZMQ_CURVE_SECRETKEY, keys[1]);
    }
    check(zmq_bind(socket, endpoint));
    send_all(socket, length, seconds);
}

static _Noreturn void publish(const char *endpoint, const char *at, size_t length, double seconds)
{
    listen_for_receivers(at, PUB_WINDOW);
    void *socket = open_socket(ZMQ_PUB);
    check(zmq_bind(socket, endpoint));
    while (window_end == PUB_WINDOW) { /* from here on all the SUBs get everything */
        send_numbered(socket, length, HELLO, 0);
        read_credits(0);
        nap(2);
    }
    window_end = PUB_WINDOW;
    send_all(socket, length, seconds);
}

static int receivers, greeted;
static uint64_t received[MAX_SOCKETS], all_made;

/* A byte goes to the sender when all have heard it, and for every step that all have made. */
static void made_a_step(void)
{
    uint64_t least = received[0];
    for (int i = 1; i < receivers; i++) if (received[i] < least) least = received[i];
    for (; all_made < least / step; all_made++) say();
}

/* 1 if a message was there, 2 if it was the last. */
static int receive_numbered(void *socket, int index, size_t length, int flags)
{
    static char greets[MAX_SOCKETS];
    int result = zmq_msg_recv(&part, socket, flags);
    if (result < 0 && errno == EAGAIN && flags) return 0;
    check(result);
    uint64_t number;
    const char *bytes = zmq_msg_data(&part);
    if (zmq_msg_size(&part) != length || zmq_msg_more(&part)) fail("a message changed shape");
    memcpy(&number, bytes, sizeof number);
    if (number == HELLO) {
        if (!greets[index] && ++greeted == receivers) say();
        greets[index] = 1;
        return 1;
    }
    if (number != received[index]) {
        fprintf(stderr, "libzmq: %lld message(s) missing before %llu\n", (long long)(number - received[index]),
                (unsigned long long)number);
        exit(1);
    }
    if ((++received[index] & (step - 1)) == 0) made_a_step();
    return bytes[8] ? 2 : 1;
}

static void receive_all(void **socket, int count, size_t length)
{
    static char ended[MAX_SOCKETS];
    zmq_pollitem_t items[MAX_SOCKETS];
    double start = 0;
    uint64_t total = 0;
    zmq_msg_init(&part);
    for (int i = 0; i < count; i++) items[i] = (zmq_pollitem_t){ socket[i], 0, ZMQ_POLLIN, 0 };
    for (int left = count; left; ) {
        int moved = 0;
        for (int i = 0; i < count; i++) /* a lone socket blocks, several are polled */
            for (int n = 0; n < 256 && !ended[i]; n++) {
                int got = receive_numbered(socket[i], i, length, count > 1 ? ZMQ_DONTWAIT : 0);
                if (!got) break;
                moved = 1;
                if (!start && received[i]) start = now();
                if (got == 2) ended[i] = 1, left--;
            }
        if (left && !moved && zmq_poll(items, count, PATIENCE * 1000) <= 0) fail("a message is missing");
    }
    double elapsed = now() - start;
    for (int i = 0; i < count; i++) total += received[i];
    report(total, elapsed, "");
}

static void pull(const char *endpoint, const char *at, size_t length, char **keys)
{
    connect_to_sender(at, push_window(length));
    void *socket = open_socket(ZMQ_PULL);
    if (keys) {
        set_key(socket, ZMQ_CURVE_SERVERKEY, keys[0]);
        set_key(socket, ZMQ_CURVE_PUBLICKEY, keys[1]);
        set_key(socket, ZMQ_CURVE_SECRETKEY, keys[2]);
    }
    check(zmq_connect(socket, endpoint));
    receivers = 1;
    receive_all(&socket, 1, length);
}

static void subscribers(const char *endpoint, const char *at, size_t length, int count)
{
    if (count < 1 || count > MAX_SOCKETS) fail("too many sockets");
    connect_to_sender(at, PUB_WINDOW);
    void *socket[MAX_SOCKETS];
    for (int i = 0; i < count; i++) {
        socket[i] = open_socket(ZMQ_SUB);
        check(zmq_setsockopt(socket[i], ZMQ_SUBSCRIBE, "", 0));
        check(zmq_connect(socket[i], endpoint));
    }
    receivers = count;
    receive_all(socket, count, length);
}

static int role(const char *name, int argc, char **argv)
{
    if (!strcmp(name, "features") && argc == 0) puts(zmq_has("curve") ? "curve" : "");
    else if (!strcmp(name, "router") && argc == 1) router(argv[0]);
    else if (!strcmp(name, "dealer") && argc == 5)
        dealers(argv[0], atoi(argv[1]), argv[2], strtoull(argv[3], NULL, 10), atof(argv[4]));
    else {
        size_t length = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
        if (argc > 2 && length < 9) fail("messages have 9 bytes or more");
        body = calloc(length + 1, 1);
        if (!strcmp(name, "push") && (argc == 4 || argc == 6))
            push(argv[0], argv[1], length, atof(argv[3]), argc == 6 ? argv + 4 : NULL);
        else if (!strcmp(name, "pull") && (argc == 3 || argc == 6))
            pull(argv[0], argv[1], length, argc == 6 ? argv + 3 : NULL);
        else if (!strcmp(name, "pub") && argc == 4) publish(argv[0], argv[1], length, atof(argv[3]));
        else if (!strcmp(name, "sub") && argc == 4) subscribers(argv[0], argv[1], length, atoi(argv[3]));
        else return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    context = zmq_ctx_new();
    int result = argc > 1 ? role(argv[1], argc - 2, argv + 2) : 2;
    if (result) fprintf(stderr, "the roles are features, router, dealer, push, pull, pub, sub; see roles.rs\n");
    fflush(stdout);
    _exit(result); /* nothing is left to send: do not wait for libzmq's threads */
}
