/* mdpbroker: the fastest MDP/0.1 broker that libzmq allows, as the mark a real one is measured against.
 *
 *     mdpbroker ENDPOINT
 *
 * One thread, one ROUTER; frames are moved from message to message, not copied. It knows services, idle workers (the
 * longest idle first) and waiting requests, and nothing else: no heartbeats, no expiry, no MMI, no limits, no MDP/0.2.
 * Messages that are not MDP/0.1 are dropped. It runs until it is killed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define MAX_PARTS 8
#define MAX_WORKERS 256
#define MAX_SERVICES 16

struct message { int parts; zmq_msg_t part[MAX_PARTS]; };
struct request { int parts; zmq_msg_t part[MAX_PARTS]; }; /* client, body... */
struct worker { uint8_t id[255]; size_t length; int service; };
struct service {
    uint8_t name[255]; size_t length;
    int idle[MAX_WORKERS]; unsigned idle_head, idle_used;
    struct request *ring; size_t size, head, used;
};

static void *router;
static struct worker workers[MAX_WORKERS];
static struct service services[MAX_SERVICES];
static int worker_count, service_count;

static void die(const char *what)
{
    fprintf(stderr, "mdpbroker: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(2);
}

static int take(struct message *m)
{
    for (m->parts = 0;;) {
        zmq_msg_t extra, *part = m->parts < MAX_PARTS ? &m->part[m->parts] : &extra;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, router, ZMQ_DONTWAIT) < 0) {
            if (zmq_errno() == EAGAIN) return 0;
            die("recv");
        }
        int more = zmq_msg_more(part);
        if (part == &extra) zmq_msg_close(part); else m->parts++;
        if (!more) return 1;
    }
}

static void copy(const void *bytes, size_t length, int more)
{
    zmq_send(router, bytes, length, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

static void move(zmq_msg_t *part, int more)
{
    if (zmq_msg_send(part, router, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) zmq_msg_close(part);
}

static int is(zmq_msg_t *part, const char *text)
{
    return zmq_msg_size(part) == strlen(text) && !memcmp(zmq_msg_data(part), text, strlen(text));
}

static int find_service(zmq_msg_t *name)
{
    size_t length = zmq_msg_size(name);
    for (int i = 0; i < service_count; i++)
        if (services[i].length == length && !memcmp(services[i].name, zmq_msg_data(name), length)) return i;
    if (service_count == MAX_SERVICES || length > 255) return -1;
    struct service *s = &services[service_count];
    memcpy(s->name, zmq_msg_data(name), length);
    s->length = length;
    s->size = 1 << 12;
    s->ring = malloc(s->size * sizeof *s->ring);
    return service_count++;
}

static int find_worker(zmq_msg_t *id)
{
    for (int i = 0; i < worker_count; i++)
        if (workers[i].length == zmq_msg_size(id) && !memcmp(workers[i].id, zmq_msg_data(id), workers[i].length))
            return i;
    return -1;
}

static int next_idle(struct service *s)
{
    s->idle_used--;
    return s->idle[s->idle_head++ % MAX_WORKERS];
}

/* A request to a worker: `part` is the client and the body. */
static void dispatch(int w, zmq_msg_t *part, int parts)
{
    copy(workers[w].id, workers[w].length, 1);
    copy("", 0, 1);
    copy("MDPW01", 6, 1);
    copy("\002", 1, 1);
    move(&part[0], 1);
    copy("", 0, 1);
    for (int i = 1; i < parts; i++) move(&part[i], i + 1 < parts);
}

static void wait_in_line(struct service *s, zmq_msg_t *client, zmq_msg_t *body, int parts)
{
    if (s->used == s->size) {
        struct request *grown = malloc(2 * s->size * sizeof *grown);
        for (size_t i = 0; i < s->used; i++) grown[i] = s->ring[(s->head + i) & (s->size - 1)];
        free(s->ring);
        s->ring = grown, s->size *= 2, s->head = 0;
    }
    struct request *r = &s->ring[(s->head + s->used++) & (s->size - 1)];
    r->parts = parts + 1;
    r->part[0] = *client;
    memcpy(&r->part[1], body, parts * sizeof *body);
}

static void on_idle(int w)
{
    struct service *s = &services[workers[w].service];
    if (s->used) {
        struct request *r = &s->ring[s->head];
        dispatch(w, r->part, r->parts);
        s->head = (s->head + 1) & (s->size - 1);
        s->used--;
    } else
        s->idle[(s->idle_head + s->idle_used++) % MAX_WORKERS] = w;
}

static void drop(struct message *m, int from, int to)
{
    for (int i = from; i < to; i++) zmq_msg_close(&m->part[i]);
}

/* client, "", MDPC01, service, body... */
static void from_client(struct message *m)
{
    int index = find_service(&m->part[3]);
    if (index < 0) { drop(m, 0, m->parts); return; }
    struct service *s = &services[index];
    drop(m, 1, 4);
    if (s->idle_used) {
        m->part[3] = m->part[0];
        dispatch(next_idle(s), &m->part[3], m->parts - 3);
    } else
        wait_in_line(s, &m->part[0], &m->part[4], m->parts - 4);
}

/* worker, "", MDPW01, command, client, "", body... */
static void from_worker(struct message *m)
{
    if (is(&m->part[3], "\003") && m->parts >= 7) {
        int w = find_worker(&m->part[0]);
        if (w < 0) { drop(m, 0, m->parts); return; }
        struct service *s = &services[workers[w].service];
        move(&m->part[4], 1);
        copy("", 0, 1);
        copy("MDPC01", 6, 1);
        copy(s->name, s->length, 1);
        for (int i = 6; i < m->parts; i++) move(&m->part[i], i + 1 < m->parts);
        drop(m, 0, 4);
        zmq_msg_close(&m->part[5]);
        on_idle(w);
    } else if (is(&m->part[3], "\001") && m->parts == 5 && worker_count < MAX_WORKERS) {
        int index = find_service(&m->part[4]);
        if (index >= 0 && zmq_msg_size(&m->part[0]) <= 255) {
            struct worker *w = &workers[worker_count];
            w->length = zmq_msg_size(&m->part[0]);
            memcpy(w->id, zmq_msg_data(&m->part[0]), w->length);
            w->service = index;
            on_idle(worker_count++);
        }
        drop(m, 0, m->parts);
    } else
        drop(m, 0, m->parts);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: mdpbroker ENDPOINT\n");
        return 2;
    }
    void *context = zmq_ctx_new();
    router = zmq_socket(context, ZMQ_ROUTER);
    int unlimited = 0;
    zmq_setsockopt(router, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(router, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    if (zmq_bind(router, argv[1])) die(argv[1]);
    zmq_pollitem_t item = { router, 0, ZMQ_POLLIN, 0 };
    for (;;) {
        struct message m;
        if (zmq_poll(&item, 1, -1) < 0) die("poll");
        while (take(&m)) {
            if (m.parts >= 5 && is(&m.part[2], "MDPC01")) from_client(&m);
            else if (m.parts >= 4 && is(&m.part[2], "MDPW01")) from_worker(&m);
            else drop(&m, 0, m.parts);
        }
    }
}
