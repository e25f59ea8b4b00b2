// SPDX-License-Identifier: Apache-2.0
//
// node.c - who this process is to other nodes: its identity, the cluster of its store, its answers
// to probes. A node of another cluster is refused, and a second process with our id is told.
#include "cluster/node.h"

#include "flametree/v1/internal.pb-c.h"
#include "rpc/peer.h"
#include "service/program.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdio.h>

_Static_assert(SERVICES_MAX <= NODE_SERVICES_MAX, "every service of a process is named");

bool node_identify(struct program *p, err *e)
{
    const char *const *keeps = NULL;
    struct node_identity *n = &p->identity;
    uint8_t random[10];
    assert(n->service_count == 0 && p->unit_count <= NODE_SERVICES_MAX);
    rand_bytes(random, sizeof random);
    n->boot = ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random);
    n->node = str_of(p->id);
    n->address = str_of(p->internal_address);
    for (size_t i = 0; i < p->unit_count; i++) {
        const struct service *s = p->units[i].service;
        n->services[n->service_count++] = str_of(s->name);
        if (s->keeps[0]) keeps = s->keeps;
    }
    return datadir_identify(&p->datadir, keeps, &n->directory, e);
}

// ---- the cluster

void node_joins(struct program *p, id128 cluster)
{
    char text[ULID_TEXT];
    if (atomic_load_explicit(&p->cluster_known, memory_order_acquire)) return;
    ulid_print(cluster, text);
    // Once only: readers have no lock, and a process never changes its cluster.
    memcpy(p->cluster_text, text, sizeof text);
    p->cluster = cluster;
    // Release: a thread that sees the flag sees the cluster and its text as well.
    atomic_store_explicit(&p->cluster_known, true, memory_order_release);
    client_introduce(p->client, str_of(p->id), str_of(p->cluster_text));
}

bool node_cluster(const struct program *p, id128 *cluster)
{
    *cluster = (id128){0};
    if (!atomic_load_explicit(&p->cluster_known, memory_order_acquire)) return false;
    *cluster = p->cluster;
    return true;
}

bool process_cluster(const struct process *process, id128 *cluster)
{
    *cluster = (id128){0};
    return process->program && node_cluster(process->program, cluster);
}

void node_differs(struct program *p, str node, id128 mine, str theirs)
{
    char text[ULID_TEXT];
    ulid_print(mine, text);
    notice_raise(p->notices, "cluster.differs", node, NODE_TOLD_NS,
                 "its store is of cluster %.*s, and this node (%s) is of cluster %s: set the same "
                 "storage.dir for both, or take one out of the other's lists",
                 STR(str_slice(theirs, 0, ULID_TEXT)), p->id, text);
}

// Says in words how far a clock is from this process'.
static void put_difference(char text[NODE_DIFFERENCE], int64_t ahead_ms)
{
    int64_t ms = ahead_ms < 0 ? -ahead_ms : ahead_ms;
    snprintf(text, NODE_DIFFERENCE, "%" PRId64 " s %s", ms / 1000,
             ahead_ms < 0 ? "behind" : "ahead of");
}

bool node_clock_differs(struct program *p, str node, int64_t wall_ms, char text[NODE_DIFFERENCE])
{
    const struct cluster_settings *c = config_section(p->config, "cluster");
    int64_t ahead = 0;
    int64_t now = clock_wall_ns() / NS_PER_MS;
    int64_t most = c->clock_difference / NS_PER_MS;
    if (most == 0 || wall_ms <= 0) return false;
    if (__builtin_sub_overflow(wall_ms, now, &ahead)) ahead = INT64_MAX;
    if (ahead <= most && ahead >= -most) return false;
    put_difference(text, ahead);
    notice_raise(p->notices, "clock.differs", node, NODE_TOLD_NS,
                 "its clock is %s this node's (%s), more than cluster.clock_difference: calls "
                 "between the two are refused until both are right; is NTP running?",
                 text, p->id);
    return true;
}

// A node whose clock is far off would ask for other times than it means, take new profiles for old
// ones, and let them expire too early. The same process may be set in the middle of a call.
static bool admit_clock(struct program *p, const struct http_headers *h, str node, err *e)
{
    uint64_t ms = 0;
    char text[NODE_DIFFERENCE];
    if (str_is(node, p->id) || !str_u64(http_headers_get(h, PEER_TIME), &ms)) return true;
    if (!node_clock_differs(p, node.n ? node : S("a node"), (int64_t)MIN(ms, (uint64_t)INT64_MAX),
                            text))
        return true;
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "the clock of %.*s is %s that of %s, more than cluster.clock_difference "
                   "allows: set both by NTP",
                   STR(node.n ? node : S("the caller")), text, p->id);
}

// A node with another store would miss our objects in its answers, and store ours where we do not
// find them. So it is refused.
bool node_admit(void *arg, const struct http_headers *h, err *e)
{
    struct program *p = arg;
    id128 mine;
    str theirs = http_headers_get(h, PEER_CLUSTER);
    str node = str_slice(http_headers_get(h, PEER_NODE), 0, sizeof p->id);
    if (!admit_clock(p, h, node, e)) return false;
    // A caller that names no cluster is a program of before, or has no store.
    if (theirs.n == 0 || !node_cluster(p, &mine)) return true;
    if (str_is(theirs, p->cluster_text)) return true;
    node_differs(p, node, mine, theirs);
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "%.*s has a store of cluster %.*s, %s one of cluster %s: they must have the "
                   "same storage.dir",
                   STR(node), STR(str_slice(theirs, 0, ULID_TEXT)), p->id, p->cluster_text);
}

// ---- another process with the same id

static bool shares_service(const struct node_identity *a, const struct node_identity *b)
{
    for (size_t i = 0; i < a->service_count; i++) {
        for (size_t k = 0; k < b->service_count; k++) {
            if (str_eq(a->services[i], b->services[k])) return true;
        }
    }
    return false;
}

bool node_is_twin(const struct node_identity *me, const struct node_identity *other)
{
    // Two processes on one machine may share an id if they do not share a service.
    return str_eq(me->node, other->node) && node_knows(other->boot) &&
           !id128_eq(me->boot, other->boot) && shares_service(me, other);
}

void node_tell_twin(const struct process *process, const struct node_identity *other)
{
    char boot[ULID_TEXT];
    char directory[ULID_TEXT] = "";
    ulid_print(other->boot, boot);
    if (node_knows(other->directory)) ulid_print(other->directory, directory);
    notice_raise(process->notices, "node.twin", other->node, NODE_TOLD_NS,
                 "another process runs with this server.id at %.*s (boot %s, data directory %s), "
                 "beside this one at %s: give one of them another id, or stop it",
                 STR(other->address), boot, directory[0] ? directory : "unknown",
                 process->internal_address);
}

// ---- probes

// The used part of server.memory_limit, because requests are refused near the limit.
double node_load(const struct program *p)
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
    if (node_is_twin(&p->identity, &from)) node_tell_twin(&p->process, &from);
    struct buf why;
    buf_init(&why, NULL, 4096);
    const struct cluster_settings *c = config_section(p->config, "cluster");
    struct node_answer answer = {.node = p->identity,
                                 .ready = admin_is_ready(p, &why),
                                 .load = node_load(p),
                                 .version = str_of(service_version),
                                 .weight = (uint32_t)c->weight,
                                 .list = members_list_print(p->members),
                                 .wall_ms = clock_wall_ns() / NS_PER_MS};
    buf_release(&why);
    (void)node_cluster(p, &answer.node.cluster);  // it may have become known later
    node_put_answer(&answer, out);
    return buf_ok(out, e);
}

const struct rpc_method node_rpc[] = {
    {.path = NODE_PROBE,
     .in = &flametree__v1__probe_request__descriptor,
     .out = &flametree__v1__probe_response__descriptor,
     .run = probe,
     .auth = ROUTE_NODE,
     .rank = RANK_INGESTER},
};
const size_t node_rpc_count = COUNT(node_rpc);
