/* echo: DEALER against ROUTER of libzmq, each in a process of its own; the counterpart of the `zmtp-bench` binary, whose
 * options and output are the same.
 *
 *     echo router ENDPOINT                             binds and sends every message back, until it is killed
 *     echo dealer ENDPOINT SIZES IN_FLIGHT SECONDS     connects, keeps IN_FLIGHT messages of frames of SIZES (a,b,c)
 *                                                      under way for SECONDS, then waits for the rest
 *
 * The first frame of 8 bytes or more carries a sequence number: each message must come back once, in order and of the
 * same shape, otherwise (or when nothing comes for 30 s) the exit code is 1. With one in flight round-trip
 * times are taken as well. On success the dealer prints one line of JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define MAX_FRAMES 16
#define MAX_SAMPLES 8000000

static void fail(const char *what)
{
    fprintf(stderr, "echo: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *open_socket(int type)
{
    void *socket = zmq_socket(zmq_ctx_new(), type);
    int none = 0, patience = 30000;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    if (type == ZMQ_DEALER) zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    return socket;
}

static _Noreturn void router(const char *endpoint)
{
    void *socket = open_socket(ZMQ_ROUTER);
    if (zmq_bind(socket, endpoint)) fail(zmq_strerror(zmq_errno()));
    zmq_msg_t part;
    zmq_msg_init(&part);
    for (;;) {
        if (zmq_msg_recv(&part, socket, 0) < 0) fail(zmq_strerror(zmq_errno()));
        int more = zmq_msg_more(&part);
        if (zmq_msg_send(&part, socket, more ? ZMQ_SNDMORE : 0) < 0) fail(zmq_strerror(zmq_errno()));
    }
}

/* ---- the dealer ---- */

static void *dealer;
static size_t size[MAX_FRAMES];
static int frames, numbered;
static char *body;
static zmq_msg_t part;

static void send_message(uint64_t number)
{
    for (int i = 0; i < frames; i++) {
        if (i == numbered) memcpy(body, &number, sizeof number);
        if (zmq_send(dealer, body, size[i], i + 1 < frames ? ZMQ_SNDMORE : 0) < 0) fail(zmq_strerror(zmq_errno()));
    }
}

static void receive_message(uint64_t expected)
{
    for (int i = 0; i < frames; i++) {
        if (zmq_msg_recv(&part, dealer, 0) < 0) fail(zmq_strerror(zmq_errno()));
        if (zmq_msg_size(&part) != size[i] || zmq_msg_more(&part) != (i + 1 < frames)) fail("a message changed shape");
        if (i == numbered && memcmp(zmq_msg_data(&part), &expected, sizeof expected)) fail("a message is missing");
    }
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int run_dealer(const char *endpoint, char *sizes, uint64_t in_flight, double seconds)
{
    size_t largest = 8;
    numbered = -1;
    for (char *token = strtok(sizes, ","); token; token = strtok(NULL, ",")) {
        if (frames == MAX_FRAMES) fail("too many frames");
        size[frames] = strtoul(token, NULL, 10);
        if (size[frames] > largest) largest = size[frames];
        if (size[frames] >= 8 && numbered < 0) numbered = frames;
        frames++;
    }
    if (numbered < 0 || in_flight < 1 || seconds <= 0) fail("needs a frame of 8 bytes or more, 1 or more in flight, time");
    body = calloc(largest, 1);
    float *latency = calloc(MAX_SAMPLES, sizeof *latency);

    zmq_msg_init(&part);
    dealer = open_socket(ZMQ_DEALER);
    if (zmq_connect(dealer, endpoint)) fail(zmq_strerror(zmq_errno()));
    send_message(0); /* once round before the clock starts */
    receive_message(0);

    uint64_t sent = 0, received = 0;
    double start = now(), stop = start + seconds, before = start, end = start;
    if (in_flight == 1)
        for (; before < stop && received < MAX_SAMPLES; received++) {
            send_message(received);
            receive_message(received);
            end = now();
            latency[received] = (end - before) * 1e6;
            before = end;
        }
    else {
        int sending = 1;
        while (sent < in_flight) send_message(sent++);
        while (received < sent) {
            receive_message(received++);
            if (sending) send_message(sent++);
            if (received % 256 == 0) sending = now() < stop;
        }
        end = now();
    }
    printf("{\"messages\": %llu, \"msgs_per_s\": %.1f", (unsigned long long)received, received / (end - start));
    if (in_flight == 1) {
        qsort(latency, received, sizeof *latency, by_size);
        printf(", \"p50_us\": %.2f, \"p99_us\": %.2f", latency[received / 2], latency[received * 99 / 100]);
    }
    printf("}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "router")) router(argv[2]);
    if (argc == 6 && !strcmp(argv[1], "dealer"))
        return run_dealer(argv[2], argv[3], strtoull(argv[4], NULL, 10), atof(argv[5]));
    fprintf(stderr, "usage: echo router ENDPOINT | echo dealer ENDPOINT SIZES IN_FLIGHT SECONDS\n");
    return 2;
}
