/* crouter: the smallest eMQP/1.0 router that libzmq allows, as the mark a real broker is measured against.
 *
 *     crouter FRONTEND BACKEND
 *
 * It forwards and nothing else: one thread, two ROUTER sockets, no timers, no heartbeats, no queue names, no tracking
 * of jobs, no limits. Frames are moved from socket to socket, not copied. It runs until it is killed.
 *
 *   INFORM   registers the sender with no slots and is answered with ACK
 *   READY    adds a slot to its sender, and takes the oldest waiting job if there is one
 *   REQUEST  goes to the next worker with a free slot, else waits; either way REPLY (fresh id, the request's id) is sent
 *   others   are dropped
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define MAX_PARTS 12
#define MAX_WORKERS 1024
#define TURN 256 /* messages taken from one socket before the other is looked at */

struct message { int parts; zmq_msg_t part[MAX_PARTS]; };
struct worker { uint8_t id[255]; size_t length; long slots; };
struct waiting { int parts; zmq_msg_t part[]; }; /* a request without its sender */

static void *frontend, *backend;
static struct worker workers[MAX_WORKERS];
static int worker_count, next_worker;
static long free_slots;
static struct waiting **ring;
static size_t ring_size, ring_head, ring_used;

static void die(const char *what)
{
    fprintf(stderr, "crouter: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(2);
}

/* Takes one whole message if one is there. Parts beyond MAX_PARTS are lost. */
static int take(void *socket, struct message *m)
{
    for (m->parts = 0;;) {
        zmq_msg_t extra, *part = m->parts < MAX_PARTS ? &m->part[m->parts] : &extra;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            if (zmq_errno() == EAGAIN) return 0;
            die("recv");
        }
        int more = zmq_msg_more(part);
        if (part == &extra) zmq_msg_close(part); else m->parts++;
        if (!more) return 1;
    }
}

static void drop(struct message *m, int from)
{
    for (int i = from; i < m->parts; i++) zmq_msg_close(&m->part[i]);
}

/* Peers that went away are no error here: ROUTER drops what it cannot route. */
static void copy(void *socket, const void *bytes, size_t length, int more)
{
    zmq_send(socket, bytes, length, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

static void move(void *socket, zmq_msg_t *part, int more)
{
    if (zmq_msg_send(part, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) zmq_msg_close(part);
}

static int is(zmq_msg_t *part, const char *text)
{
    size_t length = strlen(text);
    return zmq_msg_size(part) == length && !memcmp(zmq_msg_data(part), text, length);
}

/* A message id as long as a UUID's text. */
static const char *fresh_id(void)
{
    static char id[] = "00000000-0000-4000-8000-000000000000";
    static uint64_t last;
    uint64_t n = ++last;
    for (int i = 35; i > 23; i--, n >>= 4) id[i] = "0123456789abcdef"[n & 15];
    return id;
}

static void answer(void *socket, zmq_msg_t *to, const char *command, const void *about, size_t length)
{
    move(socket, to, 1);
    copy(socket, "", 0, 1);
    copy(socket, "eMQP/1.0", 8, 1);
    copy(socket, command, strlen(command), 1);
    copy(socket, fresh_id(), 36, 1);
    copy(socket, about, length, 0);
}

static struct worker *find(zmq_msg_t *id)
{
    for (int i = 0; i < worker_count; i++)
        if (workers[i].length == zmq_msg_size(id) && !memcmp(workers[i].id, zmq_msg_data(id), workers[i].length))
            return &workers[i];
    return NULL;
}

/* Sends the parts to a worker with a free slot; 0 if none is left. */
static int dispatch(zmq_msg_t *part, int parts)
{
    while (free_slots > 0) {
        while (workers[next_worker].slots == 0) next_worker = (next_worker + 1) % worker_count;
        struct worker *w = &workers[next_worker];
        if (zmq_send(backend, w->id, w->length, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) { /* gone: ROUTER_MANDATORY tells */
            free_slots -= w->slots;
            *w = workers[--worker_count];
            next_worker = 0;
            continue;
        }
        next_worker = (next_worker + 1) % worker_count;
        w->slots--;
        free_slots--;
        for (int i = 0; i < parts; i++) move(backend, &part[i], i + 1 < parts);
        return 1;
    }
    return 0;
}

static void wait_in_line(zmq_msg_t *part, int parts)
{
    if (ring_used == ring_size) {
        size_t size = ring_size ? ring_size * 2 : 1024;
        struct waiting **grown = malloc(size * sizeof *grown);
        for (size_t i = 0; i < ring_used; i++) grown[i] = ring[(ring_head + i) & (ring_size - 1)];
        free(ring);
        ring = grown, ring_size = size, ring_head = 0;
    }
    struct waiting *w = malloc(sizeof *w + parts * sizeof *w->part);
    w->parts = parts;
    for (int i = 0; i < parts; i++) {
        zmq_msg_init(&w->part[i]);
        zmq_msg_move(&w->part[i], &part[i]);
        zmq_msg_close(&part[i]);
    }
    ring[(ring_head + ring_used++) & (ring_size - 1)] = w;
}

static void from_client(struct message *m)
{
    if (m->parts >= 6 && is(&m->part[3], "REQUEST")) {
        uint8_t id[255];
        size_t length = zmq_msg_size(&m->part[4]);
        if (length > sizeof id) { drop(m, 0); return; }
        memcpy(id, zmq_msg_data(&m->part[4]), length);
        if (ring_used || !dispatch(&m->part[1], m->parts - 1)) wait_in_line(&m->part[1], m->parts - 1);
        answer(frontend, &m->part[0], "REPLY", id, length);
    } else
        drop(m, 0);
}

static void from_worker(struct message *m)
{
    if (m->parts >= 5 && is(&m->part[3], "READY")) {
        struct worker *w = find(&m->part[0]);
        if (w) w->slots++, free_slots++;
        while (ring_used && dispatch(ring[ring_head]->part, ring[ring_head]->parts)) {
            free(ring[ring_head]);
            ring_head = (ring_head + 1) & (ring_size - 1);
            ring_used--;
        }
        drop(m, 0);
    } else if (m->parts >= 5 && is(&m->part[3], "INFORM")) {
        size_t length = zmq_msg_size(&m->part[0]);
        if (!find(&m->part[0]) && worker_count < MAX_WORKERS && length <= sizeof workers->id) {
            struct worker *w = &workers[worker_count++];
            memcpy(w->id, zmq_msg_data(&m->part[0]), length);
            w->length = length, w->slots = 0;
        }
        answer(backend, &m->part[0], "ACK", zmq_msg_data(&m->part[4]), zmq_msg_size(&m->part[4]));
        drop(m, 1);
    } else
        drop(m, 0);
}

static void *bound(void *context, const char *endpoint)
{
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    int unlimited = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    if (zmq_bind(socket, endpoint)) die(endpoint);
    return socket;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: crouter FRONTEND BACKEND\n");
        return 2;
    }
    void *context = zmq_ctx_new();
    frontend = bound(context, argv[1]);
    backend = bound(context, argv[2]);
    int yes = 1;
    zmq_setsockopt(backend, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes);
    zmq_pollitem_t items[] = { { backend, 0, ZMQ_POLLIN, 0 }, { frontend, 0, ZMQ_POLLIN, 0 } };
    for (;;) {
        struct message m;
        if (zmq_poll(items, 2, -1) < 0) die("poll");
        if (items[0].revents) for (int i = 0; i < TURN && take(backend, &m); i++) from_worker(&m);
        if (items[1].revents) for (int i = 0; i < TURN && take(frontend, &m); i++) from_client(&m);
    }
}
