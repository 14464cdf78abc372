/* emqload: puts an eMQP/1.0 router under load with libzmq peers, and proves that every job came through.
 *
 *     emqload FRONTEND BACKEND WORKERS SLOTS PAYLOAD WINDOW SECONDS every|some ROUTER_PID
 *
 * One client (DEALER) keeps WINDOW jobs of PAYLOAD bytes outstanding for SECONDS, then waits for the rest. WORKERS
 * workers (DEALERs, SLOTS slots each) answer each job at once with REPLY and READY. Client and workers have a thread each,
 * for in life they are different programs: with one thread for both, the kernel puts it and the router on the same core and
 * leaves the other idle for a fifth of the time. WINDOW 1 is the latency run: the next job leaves the moment the one before
 * it has arrived, and one thread owns all the sockets, so no job waits for a wake-up inside the driver but libzmq's own.
 *
 * `every`: the router must answer every REQUEST with exactly one acceptance REPLY. `some`: at most one.
 * Each job must reach a worker exactly once with its payload unchanged, and nothing may be refused; otherwise, or
 * if the router stalls for 30 s, the exit code is 1. On success one line of JSON goes to standard output. Processor
 * time is measured from the first job until the router has come to rest.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define MAX_PARTS 16
#define MAX_WORKERS 64
#define MAX_JOBS 16000000
#define TURN 256 /* messages of one kind handled before the next socket is looked at */
#define STALL 30.0
#define ID_LENGTH 36
#define MAX_WINDOW 65536
#define NAP 400000 /* ns the client sleeps when its window is full: then a hundred acknowledgements are there */

struct message { int parts; zmq_msg_t part[MAX_PARTS]; };

static void *client, *worker[MAX_WORKERS];
static int workers, slots;
static size_t ids_kept; /* ids that stay as they are for libzmq: four for each job on its way, and some */
static char *payload;
static size_t payload_length;
static int every_ack;
static uint8_t *delivered_times, *acked_times; /* by job */
static atomic_long sent, delivered; /* each written by one thread */
static long acked;
static double delivered_at;
static atomic_int over;
static clockid_t router_clock;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double now(void) { return seconds_of(CLOCK_MONOTONIC); }

static long count(atomic_long *n) { return atomic_load_explicit(n, memory_order_acquire); }

/* For the one thread that writes it. */
static void count_up(atomic_long *n) { atomic_store_explicit(n, count(n) + 1, memory_order_release); }

static void fail(const char *what)
{
    fprintf(stderr, "emqload: %s (sent %ld, delivered %ld, acknowledged %ld)\n", what, count(&sent), count(&delivered), acked);
    exit(1);
}

/* ---- messages ---- */

static void part(void *socket, const void *bytes, size_t length, int more)
{
    if (zmq_send(socket, bytes, length, more ? ZMQ_SNDMORE : 0) < 0) fail(zmq_strerror(zmq_errno()));
}

static void text(void *socket, const char *bytes, int more) { part(socket, bytes, strlen(bytes), more); }

/* Bytes that stay as they are until they have been sent: libzmq neither copies them nor allocates for them. */
static void lasting(void *socket, const void *bytes, size_t length, int more)
{
    if (zmq_send_const(socket, bytes, length, more ? ZMQ_SNDMORE : 0) < 0) fail(zmq_strerror(zmq_errno()));
}

/* "", version, command, message id. */
static void head(void *socket, const char *command, const char *id, int more)
{
    part(socket, "", 0, 1);
    part(socket, "eMQP/1.0", 8, 1);
    text(socket, command, 1);
    lasting(socket, id, ID_LENGTH, more);
}

/* A message id as long as a UUID's text, made of a number. It lasts until as many more were made as can be on their way. */
static const char *id_of(long number)
{
    static _Thread_local char (*ids)[ID_LENGTH];
    static _Thread_local size_t next;
    if (!ids) {
        if (!(ids = malloc(ids_kept * sizeof *ids))) fail("no memory for message ids");
        for (size_t i = 0; i < ids_kept; i++) memcpy(ids[i], "00000000-0000-4000-9000-000000000000", ID_LENGTH);
    }
    char *id = ids[next];
    if (++next == ids_kept) next = 0;
    for (int i = ID_LENGTH - 1; i > 23; i--, number >>= 4) id[i] = "0123456789abcdef"[number & 15];
    return id;
}

/* The number of an outstanding or finished job, else ends the run. */
static long job_of(zmq_msg_t *id)
{
    const char *text = zmq_msg_data(id);
    long number = 0;
    if (zmq_msg_size(id) != ID_LENGTH || memcmp(text, "00000000-0000-4000-9000-", 24)) fail("unknown message id");
    for (int i = 24; i < ID_LENGTH; i++) {
        int digit = text[i] >= 'a' ? text[i] - 'a' + 10 : text[i] - '0';
        if (digit < 0 || digit > 15) fail("unknown message id");
        number = number << 4 | digit;
    }
    if (number >= count(&sent)) fail("message id of a job that was never sent");
    return number;
}

static int is(zmq_msg_t *part, const char *text)
{
    size_t length = strlen(text);
    return zmq_msg_size(part) == length && !memcmp(zmq_msg_data(part), text, length);
}

/* One whole message into `m`, whose parts are initialised once and reused; 0 if none is there (in time). */
static int take(void *socket, struct message *m, int flags)
{
    for (m->parts = 0;;) {
        if (m->parts == MAX_PARTS) fail("message of too many frames");
        if (zmq_msg_recv(&m->part[m->parts], socket, m->parts ? 0 : flags) < 0) {
            if (zmq_errno() == EAGAIN && m->parts == 0) return 0;
            if (zmq_errno() != EINTR) fail(zmq_strerror(zmq_errno()));
            continue;
        }
        if (!zmq_msg_more(&m->part[m->parts++])) break;
    }
    if (m->parts < 4 || !is(&m->part[1], "eMQP/1.0")) fail("not an eMQP/1.0 message");
    return 1;
}

/* ---- what peers do ---- */

static void send_job(void)
{
    long number = count(&sent);
    if (number == MAX_JOBS) fail("too many jobs for one run");
    count_up(&sent); /* first: its answers may come before this returns */
    head(client, "REQUEST", id_of(number), 1);
    part(client, "default", 7, 1);
    part(client, "", 0, 1);
    lasting(client, payload, payload_length, 0);
}

/* Takes up to a turn of acknowledgements; their number. */
static int client_turn(struct message *m)
{
    int n = 0;
    for (; n < TURN && take(client, m, ZMQ_DONTWAIT); n++) {
        if (!is(&m->part[2], "REPLY")) continue;
        if (m->parts != 5) fail(m->parts == 6 ? "a job was refused, or a result came unasked" : "malformed REPLY");
        if (++acked_times[job_of(&m->part[4])] > 1) fail("a job was acknowledged twice");
        acked++;
    }
    return n;
}

static void worker_does(void *socket, struct message *m)
{
    if (!is(&m->part[2], "REQUEST")) return;
    delivered_at = now();
    size_t edge = payload_length < 64 ? payload_length : 64;
    if (m->parts != 7) fail("malformed REQUEST");
    const char *body = zmq_msg_data(&m->part[6]);
    if (zmq_msg_size(&m->part[6]) != payload_length || memcmp(body, payload, edge)
        || memcmp(body + payload_length - edge, payload + payload_length - edge, edge)) fail("payload changed");
    long job = job_of(&m->part[3]);
    if (++delivered_times[job] > 1) fail("a job was delivered twice");
    static long replies = 1L << 40; /* ids apart from those of jobs */
    head(socket, "REPLY", id_of(replies++), 1);
    text(socket, "{\"value\": 1}", 1);
    lasting(socket, id_of(job), ID_LENGTH, 0);
    head(socket, "READY", id_of(replies++), 0);
    count_up(&delivered);
}

static int worker_turn(void *socket, struct message *m)
{
    int n = 0;
    for (; n < TURN && take(socket, m, ZMQ_DONTWAIT); n++) worker_does(socket, m);
    return n;
}

static void heartbeats(void)
{
    static double last;
    if (now() - last < 1) return;
    last = now();
    for (int i = 0; i < workers; i++) {
        head(worker[i], "HEARTBEAT", id_of(0), 1);
        text(worker[i], "0", 0);
    }
}

static void *connected(void *context, const char *kind, int number, const char *endpoint)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int none = 0, wait = 1000, length;
    char name[64];
    length = snprintf(name, sizeof name, "load-%s-%d-%d", kind, (int)getpid(), number);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, length);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
    if (zmq_connect(socket, endpoint)) fail(endpoint);
    return socket;
}

static void register_workers(struct message *m)
{
    double deadline = now() + STALL;
    for (int i = 0; i < workers; i++) {
        head(worker[i], "INFORM", id_of(i), 1);
        text(worker[i], "[[10, \"default\"]]", 1);
        text(worker[i], "worker", 0);
    }
    for (int i = 0; i < workers; i++)
        while (!take(worker[i], m, 0) || !is(&m->part[2], "ACK"))
            if (now() > deadline) fail("no ACK for INFORM");
    for (int i = 0; i < workers; i++)
        for (int k = 0; k < slots; k++) head(worker[i], "READY", id_of(k), 0);
}

/* Waits until the router uses less than a fifth of a core; the clock is its processor time. */
static void rest(void)
{
    struct timespec nap = { 0, 50000000 };
    for (int i = 0; i < 100; i++) {
        double before = seconds_of(router_clock);
        nanosleep(&nap, NULL);
        if (seconds_of(router_clock) - before < 0.01) return;
    }
}

/* ---- the runs ---- */

static void *work(void *message)
{
    zmq_pollitem_t items[MAX_WORKERS];
    for (int i = 0; i < workers; i++) items[i] = (zmq_pollitem_t){ worker[i], 0, ZMQ_POLLIN, ZMQ_POLLIN };
    while (!atomic_load(&over)) {
        int moved = 0;
        for (int i = 0; i < workers; i++) {
            if (items[i].revents) moved += worker_turn(items[i].socket, message);
            items[i].revents = ZMQ_POLLIN; /* look at all of them next time, unless zmq_poll knows better */
        }
        heartbeats();
        if (!moved) zmq_poll(items, workers, 10);
    }
    return NULL;
}

static void bulk(struct message *m, struct message *of_workers, long window, double stop)
{
    struct timespec nap = { 0, NAP };
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, of_workers)) fail("no thread for the workers");
    double progress = now();
    for (long before = 0, done = 0, sending = 1; sending || done < count(&sent); before = done) {
        int moved = 0;
        sending = now() < stop;
        done = count(&delivered);
        while (sending && moved < TURN && count(&sent) - done < window) send_job(), moved++;
        moved += client_turn(m);
        if (moved || done > before) progress = now();
        else if (now() - progress > STALL) fail("the router stalled");
        if (!moved) nanosleep(&nap, NULL);
    }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
}

static long one_at_a_time(struct message *m, double stop, float *latency)
{
    long n = 0;
    for (double start; (start = now()) < stop; n++) {
        long before = count(&delivered);
        send_job();
        while (count(&delivered) == before) {
            if (take(worker[0], m, 0)) worker_does(worker[0], m);
            else if (now() - start > STALL) fail("the router stalled");
        }
        latency[n] = (delivered_at - start) * 1e6;
        if (n % 64 == 0) client_turn(m);
        heartbeats();
    }
    return n;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 10) {
        fprintf(stderr, "usage: emqload FRONTEND BACKEND WORKERS SLOTS PAYLOAD WINDOW SECONDS every|some ROUTER_PID\n");
        return 2;
    }
    workers = atoi(argv[3]), slots = atoi(argv[4]), payload_length = atol(argv[5]);
    long window = atol(argv[6]);
    double seconds = atof(argv[7]);
    ids_kept = 4 * (window + (long)workers * slots) + 2 * MAX_WORKERS;
    every_ack = !strcmp(argv[8], "every");
    if (workers < 1 || workers > MAX_WORKERS || payload_length < 64 || window < 1 || window > MAX_WINDOW || seconds <= 0) {
        fprintf(stderr, "emqload: workers 1..%d, payload from 64, window 1..%d, seconds above 0\n", MAX_WORKERS, MAX_WINDOW);
        return 2;
    }
    if (clock_getcpuclockid(atoi(argv[9]), &router_clock)) fail("no such router process");

    const char *begin = "[\"run\", {\"path\": \"x\", \"callable\": \"y\", \"args\": [\"", *end = "\"]}]";
    payload = malloc(payload_length + 1);
    memset(payload, 'a', payload_length);
    memcpy(payload, begin, strlen(begin));
    memcpy(payload + payload_length - strlen(end), end, strlen(end));
    delivered_times = calloc(MAX_JOBS, 1);
    acked_times = calloc(MAX_JOBS, 1);
    float *latency = calloc(MAX_JOBS, sizeof *latency);
    struct message m, of_workers;
    for (int i = 0; i < MAX_PARTS; i++) zmq_msg_init(&m.part[i]), zmq_msg_init(&of_workers.part[i]);

    void *context = zmq_ctx_new();
    client = connected(context, "client", 0, argv[1]);
    for (int i = 0; i < workers; i++) worker[i] = connected(context, "worker", i, argv[2]);
    register_workers(&m);
    rest();

    double router_cpu = seconds_of(router_clock), own_cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), start = now();
    long samples = 0;
    if (window == 1) samples = one_at_a_time(&m, start + seconds, latency);
    else bulk(&m, &of_workers, window, start + seconds);
    double elapsed = delivered_at - start;
    zmq_pollitem_t more_acks = { client, 0, ZMQ_POLLIN, 0 };
    for (double from = now(); every_ack && acked < count(&sent); zmq_poll(&more_acks, 1, 1000)) {
        client_turn(&m);
        if (now() - from > STALL) fail("acknowledgements are missing");
    }
    own_cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_cpu;
    rest();
    router_cpu = seconds_of(router_clock) - router_cpu;
    while (client_turn(&m)) {} /* a second acknowledgement would show here */
    for (int i = 0; i < workers; i++) while (worker_turn(worker[i], &m)) {}
    long jobs = count(&sent);
    if (count(&delivered) != jobs) fail("the number of jobs delivered is not that of jobs sent");

    printf("{\"jobs\": %ld, \"acks\": %ld, \"jobs_per_s\": %.1f, \"router_us\": %.3f, \"driver_us\": %.3f", jobs, acked,
           jobs / elapsed, router_cpu * 1e6 / jobs, own_cpu * 1e6 / jobs);
    if (samples) {
        qsort(latency, samples, sizeof *latency, by_size);
        printf(", \"p50_us\": %.2f, \"p99_us\": %.2f", latency[samples / 2], latency[samples * 99 / 100]);
    }
    printf("}\n");
    fflush(stdout);
    _exit(0); /* nothing is left to send: do not wait for libzmq's threads */
}
