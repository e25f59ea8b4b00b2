// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"

#include "flametree/v1/internal.pb-c.h"
#include "service/program.h"
#include "sys/clock.h"
#include "sys/rand.h"

_Static_assert(SERVICES_MAX <= NODE_SERVICES_MAX, "every service of a process is named");

void node_identify(struct program *p)
{
    struct node_identity *n = &p->identity;
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    n->boot = ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random);
    n->node = str_of(p->id);
    n->address = str_of(p->internal_address);
    for (size_t i = 0; i < p->unit_count; i++)
        n->services[n->service_count++] = str_of(p->units[i].service->name);
}

// How much of server.memory_limit is taken: near it requests are refused.
static double load_of(const struct program *p)
{
    const struct mem_budget *b = &p->memory;
    double limit = (double)atomic_load_explicit(&b->limit, memory_order_relaxed);
    double used = (double)atomic_load_explicit(&b->used, memory_order_relaxed);
    return limit > 0 ? MIN(used / limit, 1.0) : 0.0;
}

static bool probe(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)x;
    struct program *p = self;
    struct node_identity from;
    if (!node_read_probe(in, &from, e)) return false;
    struct buf why;
    buf_init(&why, NULL, 4096);
    struct node_answer answer = {.node = p->identity,
                                 .ready = admin_is_ready(p, &why),
                                 .load = load_of(p)};
    buf_release(&why);
    node_put_answer(&answer, out);
    return buf_ok(out, e);
}

const struct rpc_method node_rpc[] = {
    {.path = NODE_PROBE,
     .in = &flametree__v1__probe_request__descriptor,
     .out = &flametree__v1__probe_response__descriptor,
     .run = probe,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
};
const size_t node_rpc_count = COUNT(node_rpc);
