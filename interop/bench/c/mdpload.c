/* mdpload: one MDP/0.1 client and some echoing workers on libzmq, all in one thread.
 *
 *     mdpload ENDPOINT WORKERS PAYLOAD WINDOW COUNT BROKER_PID
 *
 * The client keeps WINDOW requests in flight until COUNT are answered. Every request is numbered, and each number must
 * come back exactly once. Prints one JSON object; latencies are from sending a request to having its reply.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define MAX_WORKERS 64
#define TURN 256

static void die(const char *what)
{
    fprintf(stderr, "mdpload: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(2);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *dealer(void *context, const char *endpoint)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    if (zmq_connect(socket, endpoint)) die(endpoint);
    return socket;
}

static void put(void *socket, const void *bytes, size_t length, int more)
{
    if (zmq_send(socket, bytes, length, more ? ZMQ_SNDMORE : 0) < 0) die("send");
}

/* Takes a message of at most `max` parts; its parts, or 0 if there is none. */
static int take(void *socket, zmq_msg_t *part, int max)
{
    for (int n = 0;; n++) {
        if (n == max) { fprintf(stderr, "mdpload: too many frames\n"); exit(2); }
        zmq_msg_init(&part[n]);
        if (zmq_msg_recv(&part[n], socket, ZMQ_DONTWAIT) < 0) {
            if (zmq_errno() == EAGAIN && n == 0) return 0;
            die("recv");
        }
        if (!zmq_msg_more(&part[n])) return n + 1;
    }
}

static void work(void *socket)
{
    zmq_msg_t part[8];
    for (int turn = 0; turn < TURN; turn++) {
        int parts = take(socket, part, 8);
        if (!parts) return;
        uint8_t command = parts > 2 ? *(uint8_t *)zmq_msg_data(&part[2]) : 0;
        if (command == 2 && parts == 6) {
            put(socket, "", 0, 1);
            put(socket, "MDPW01", 6, 1);
            put(socket, "\003", 1, 1);
            zmq_msg_send(&part[3], socket, ZMQ_SNDMORE);
            zmq_msg_send(&part[4], socket, ZMQ_SNDMORE);
            zmq_msg_send(&part[5], socket, 0);
            parts = 3;
        } else if (command != 4) {
            fprintf(stderr, "mdpload: unexpected command %d of %d frames\n", command, parts);
            exit(2);
        }
        for (int i = 0; i < parts; i++) zmq_msg_close(&part[i]);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: mdpload ENDPOINT WORKERS PAYLOAD WINDOW COUNT BROKER_PID\n");
        return 2;
    }
    int worker_count = atoi(argv[2]), payload = atoi(argv[3]);
    long window = atol(argv[4]), count = atol(argv[5]);
    clockid_t broker_cpu = (~(clockid_t)atoi(argv[6]) << 3) | 2;
    if (worker_count < 1 || worker_count > MAX_WORKERS || payload < 8 || window < 1 || count < 1) return 2;

    void *context = zmq_ctx_new();
    void *workers[MAX_WORKERS];
    zmq_pollitem_t items[MAX_WORKERS + 1];
    for (int i = 0; i < worker_count; i++) {
        workers[i] = dealer(context, argv[1]);
        put(workers[i], "", 0, 1);
        put(workers[i], "MDPW01", 6, 1);
        put(workers[i], "\001", 1, 1);
        put(workers[i], "echo", 4, 0);
        items[i] = (zmq_pollitem_t){ workers[i], 0, ZMQ_POLLIN, 0 };
    }
    void *client = dealer(context, argv[1]);
    items[worker_count] = (zmq_pollitem_t){ client, 0, ZMQ_POLLIN, 0 };

    uint8_t *body = calloc(1, payload);
    double *sent_at = malloc(count * sizeof *sent_at), *took = malloc(count * sizeof *took);
    uint8_t *seen = calloc(1, count);
    struct timespec settle = { 0, 300000000 };
    nanosleep(&settle, NULL); /* every worker is registered */

    long sent = 0, received = 0;
    double own = seconds(CLOCK_PROCESS_CPUTIME_ID), theirs = seconds(broker_cpu), start = seconds(CLOCK_MONOTONIC);
    while (received < count) {
        while (sent < count && sent - received < window) {
            uint64_t number = sent;
            memcpy(body, &number, sizeof number);
            sent_at[sent++] = seconds(CLOCK_MONOTONIC);
            put(client, "", 0, 1);
            put(client, "MDPC01", 6, 1);
            put(client, "echo", 4, 1);
            put(client, body, payload, 0);
        }
        int ready = zmq_poll(items, worker_count + 1, 10000);
        if (ready < 0) die("poll");
        if (ready == 0) {
            fprintf(stderr, "mdpload: %ld of %ld replies, then silence\n", received, count);
            return 2;
        }
        for (int i = 0; i < worker_count; i++)
            if (items[i].revents) work(workers[i]);
        if (!items[worker_count].revents) continue;
        zmq_msg_t part[4];
        for (int turn = 0, parts; turn < TURN && (parts = take(client, part, 4)); turn++) {
            uint64_t number = UINT64_MAX;
            if (parts == 4 && zmq_msg_size(&part[3]) == (size_t)payload) memcpy(&number, zmq_msg_data(&part[3]), 8);
            if (number >= (uint64_t)sent || seen[number]++) {
                fprintf(stderr, "mdpload: a reply nobody waits for\n");
                return 2;
            }
            took[received++] = seconds(CLOCK_MONOTONIC) - sent_at[number];
            for (int i = 0; i < parts; i++) zmq_msg_close(&part[i]);
        }
    }
    double elapsed = seconds(CLOCK_MONOTONIC) - start;
    own = seconds(CLOCK_PROCESS_CPUTIME_ID) - own, theirs = seconds(broker_cpu) - theirs;
    qsort(took, received, sizeof *took, by_size);
    printf("{\"requests\": %ld, \"requests_per_s\": %.1f, \"broker_us\": %.3f, \"driver_us\": %.3f, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           received, received / elapsed, theirs / received * 1e6, own / received * 1e6,
           took[received / 2] * 1e6, took[received * 99 / 100] * 1e6);
    return 0;
}
