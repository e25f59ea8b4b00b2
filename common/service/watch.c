// SPDX-License-Identifier: Apache-2.0
//
// watch.c - compares the identities of other nodes with what this node knows. Every few seconds
// each listed node is probed:
//
//     its cluster is another one           notice cluster.differs
//     clusters of two ingesters differ     notice cluster.differs, if this node has no store; as
//                                          long as they agree, calls carry that cluster
//     its clock is far off                 notice clock.differs
//     it has this process' id              notice node.twin; the probed node raises the same
//     it has another id than in the list   notice member.differs; likewise if it does not have the
//                                          service of its list
//     an ingester, without a store         its data directory is noted (directories.h)
//
// And this node's own lists are compared with what it is:
//
//     it has a service, and the list of    notice cluster.unlisted
//     that service's nodes is without it
//     two entries have one address         notice member.twice
#include "cluster/dns.h"
#include "rpc/peer.h"
#include "service/directories.h"
#include "service/program.h"
#include "sys/thread.h"

#include <stdlib.h>

#define TICK_NS     ((uint64_t)NS_PER_S)
#define PROBE_EVERY 10  // ticks
#define PROBE_NS    ((uint64_t)NS_PER_S)
#define CALL_BYTES  ((size_t)1 << 20)
#define SHOWN       400  // bytes of a list in a notice

struct watch {
    struct program *program;
    pthread_t thread;
    struct lock lock;
    struct cond wake;
    bool stopping;
    id128 cluster;  // of the ingesters that answered in this round
    bool clusters_differ;
};

// ---- what an answer says

// A node without a store, such as a distributor, belongs to the cluster of its ingesters.
static void check_cluster(struct watch *w, const struct member *m, const struct node_identity *n)
{
    struct program *p = w->program;
    id128 mine;
    char theirs[ULID_TEXT];
    bool known = node_cluster(p, &mine);
    if (!node_knows(n->cluster) || (!known && m->kind != MEMBER_INGESTER)) return;
    // The first ingester that answers decides what the others are compared with.
    if (!known && !node_knows(w->cluster)) w->cluster = n->cluster;
    if (!known) mine = w->cluster;
    if (id128_eq(mine, n->cluster)) return;
    ulid_print(n->cluster, theirs);
    w->clusters_differ = true;
    node_differs(p, n->node, mine, str_of(theirs));
}

static void join(struct watch *w)
{
    struct program *p = w->program;
    id128 mine;
    char text[ULID_TEXT];
    if (node_cluster(p, &mine) || w->clusters_differ || !node_knows(w->cluster)) return;
    ulid_print(w->cluster, text);
    client_introduce(p->client, str_of(p->id), str_of(text));
}

static const char *list_of(enum member_kind kind)
{
    static const char *const names[MEMBER_KINDS] = {[MEMBER_INGESTER] = "cluster.ingesters",
                                                    [MEMBER_QUERIER] = "cluster.queriers",
                                                    [MEMBER_COMPACTOR] = "cluster.compactors"};
    assert(kind < MEMBER_KINDS && names[kind]);
    return names[kind];
}

static bool has_service(const struct node_identity *n, enum member_kind kind)
{
    for (size_t i = 0; i < n->service_count; i++) {
        if (str_is(n->services[i], member_kind_names[kind])) return true;
    }
    return false;
}

// A list of before: somebody else is at the address now. An entry without an id names nobody, and
// found nodes are looked up anew (discover.h).
static void check_entry(struct watch *w, const struct member *m, const struct node_identity *n)
{
    struct notices *notices = w->program->notices;
    bool other = n->node.n && !str_eq(m->id, m->address) && !str_eq(m->id, n->node);
    bool serves = n->service_count == 0 || has_service(n, m->kind);
    if ((!other && serves) || members_has_found(w->program->members, m->kind, m->address)) return;
    if (other) {
        notice_raise(
            notices, "member.differs", m->id, NODE_TOLD_NS,
            "%s has %.*s=%.*s, and the node there has the id %.*s: is the list out of date?",
            list_of(m->kind), STR(m->id), STR(m->address), STR(n->node));
    } else {
        notice_raise(notices, "member.differs", m->id, NODE_TOLD_NS,
                     "%s has %.*s=%.*s, and the node there is no %s", list_of(m->kind), STR(m->id),
                     STR(m->address), member_kind_names[m->kind]);
    }
}

static void check(struct watch *w, const struct member *m, const struct node_answer *answer)
{
    struct program *p = w->program;
    const struct node_identity *n = &answer->node;
    char text[NODE_DIFFERENCE];
    if (id128_eq(n->boot, p->identity.boot)) return;  // an address by which we reach ourselves
    check_cluster(w, m, n);
    // Told only: the answer may have taken a second, which no setting counts as far off.
    (void)node_clock_differs(p, n->node.n ? n->node : m->id, answer->wall_ms, text);
    check_entry(w, m, n);
    if (node_is_twin(&p->identity, n)) node_tell_twin(&p->process, n);
    if (m->kind == MEMBER_INGESTER) directories_saw(p->process.directories, n->node, n->directory);
}

// ---- probing

static bool probe_kind(struct watch *w, struct req *r, enum member_kind kind, str message)
{
    struct program *p = w->program;
    size_t n = 0;
    const struct member *m = members_of(p->members, &r->arena, kind, &n);
    struct peer_call *calls = ARENA_ARRAY(&r->arena, struct peer_call, n);
    struct call **waits = ARENA_ARRAY(&r->arena, struct call *, n);
    if (!m || !calls || !waits) return false;
    size_t asked = 0;
    const struct member **of = ARENA_ARRAY(&r->arena, const struct member *, n);
    for (size_t i = 0; of && i < n; i++) {
        if (str_is(m[i].address, p->internal_address)) continue;
        assert(asked < n);
        peer_start(p->probe_client, r, &calls[asked], m[i].address, NODE_PROBE, message,
                   RANK_INGESTER, NODE_MESSAGE_MAX);
        waits[asked] = &calls[asked].http.call;
        of[asked++] = &m[i];
    }
    err first = {0};
    if (asked) (void)!call_gather(r, waits, asked, 0, false, &first);
    for (size_t i = 0; i < asked; i++) {
        str bytes = {0};
        err ignored = {0};  // a node that does not answer is the prober's business (probe.h)
        struct node_answer answer;
        if (peer_answer(&calls[i], &bytes, &ignored) && node_read_answer(bytes, &answer, &ignored))
            check(w, of[i], &answer);
        peer_release(&calls[i]);
    }
    return true;
}

// Does an entry of a list name this process? One that is looked up may.
static bool names_self(const struct program *p, str entry)
{
    str address = {0};
    str id = str_trim(str_split(entry, '=', &address));
    return dns_is(entry) || str_is(id, p->id) || str_is(id, p->internal_address) ||
           str_is(str_trim(address), p->internal_address);
}

static void check_self(struct watch *w, enum member_kind kind, CONFIG_LIST list)
{
    struct program *p = w->program;
    struct buf all;
    bool there = list.n == 0 || !has_service(&p->identity, kind);
    buf_init(&all, NULL, SHOWN);
    for (size_t i = 0; i < list.n && !there; i++) {
        there = names_self(p, str_of(list.v[i]));
        buf_printf(&all, "%s%s", i ? "," : "", list.v[i]);
    }
    if (!there) {
        notice_raise(p->notices, "cluster.unlisted", str_of(p->id), NODE_TOLD_NS,
                     "%s is '%.*s%s', and this %s (server.id %s, at %s) is not in it: nodes with "
                     "this list do not ask it",
                     list_of(kind), STR(buf_view(&all)), all.failed ? "..." : "",
                     member_kind_names[kind], p->id, p->internal_address);
    }
    buf_release(&all);
}

static str address_of(const char *text)
{
    str entry = str_of(text);
    size_t eq = str_find(entry, '=');
    return str_trim(str_slice(entry, eq < entry.n ? eq + 1 : 0, entry.n));
}

static int by_address(const void *a, const void *b)
{
    return str_cmp(address_of(*(const char *const *)a), address_of(*(const char *const *)b));
}

// One process at two ids gets two shares, and the node that should be at the second gets nothing.
static void check_addresses(struct watch *w, enum member_kind kind, CONFIG_LIST list)
{
    size_t bytes = MAX(list.n, (size_t)1) * sizeof *list.v;
    err ignored = {0};  // next time, then
    const char **v = mem_alloc(NULL, bytes, &ignored);
    if (!v) return;
    for (size_t i = 0; i < list.n; i++)
        v[i] = list.v[i];
    qsort(v, list.n, sizeof *v, by_address);
    for (size_t i = 1; i < list.n; i++) {
        if (by_address(&v[i - 1], &v[i]) == 0) {
            notice_raise(w->program->notices, "member.twice", address_of(v[i]), NODE_TOLD_NS,
                         "%s has '%s' and '%s', which have one address", list_of(kind), v[i - 1],
                         v[i]);
        }
    }
    mem_free(NULL, v, bytes);
}

static void check_list(struct watch *w, enum member_kind kind, CONFIG_LIST list)
{
    check_self(w, kind, list);
    check_addresses(w, kind, list);
}

static void check_lists(struct watch *w)
{
    const struct cluster_settings *c = config_section(w->program->config, "cluster");
    check_list(w, MEMBER_INGESTER, c->ingesters);
    check_list(w, MEMBER_QUERIER, c->queriers);
    check_list(w, MEMBER_COMPACTOR, c->compactors);
}

static void probe_all(struct watch *w)
{
    static const enum member_kind kinds[] = {MEMBER_INGESTER, MEMBER_QUERIER, MEMBER_COMPACTOR};
    struct node_identity me = w->program->identity;
    struct buf message;
    w->cluster = (id128){0};
    w->clusters_differ = false;
    (void)node_cluster(w->program, &me.cluster);
    buf_init(&message, NULL, NODE_MESSAGE_MAX);
    node_put_probe(&me, &message);
    for (size_t i = 0; !message.failed && i < COUNT(kinds); i++) {
        struct req r;
        req_init(&r, RANK_DUTY, NULL, CALL_BYTES, PROBE_NS);
        (void)probe_kind(w, &r, kinds[i], buf_view(&message));
        req_release(&r);
    }
    buf_release(&message);
    join(w);
}

// ---- the thread

static bool wait(struct watch *w)
{
    lock_take(&w->lock);
    if (!w->stopping) (void)cond_wait_until(&w->wake, &w->lock, clock_mono_ns() + TICK_NS);
    bool goes_on = !w->stopping;
    lock_give(&w->lock);
    return goes_on;
}

static void *run_watch(void *arg)
{
    struct watch *w = arg;
    for (unsigned tick = 0;; tick++) {
        // Each second, because pushes may wait for what it finds out.
        if (w->program->process.store) storage_ask(w->program);
        if (tick % PROBE_EVERY == 0) {
            check_lists(w);
            probe_all(w);
        }
        if (!wait(w)) return NULL;
    }
}

struct watch *watch_start(struct program *p, err *e)
{
    struct watch *w = mem_must(sizeof *w);
    w->program = p;
    lock_init(&w->lock, LOCK_PROCESS);
    cond_init(&w->wake);
    if (thread_start(&w->thread, "watch", run_watch, w, e)) return w;
    cond_release(&w->wake);
    lock_release(&w->lock);
    mem_must_free(w);
    return NULL;
}

void watch_stop(struct watch *w)
{
    if (!w) return;
    lock_take(&w->lock);
    w->stopping = true;
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
    thread_join(w->thread);
    cond_release(&w->wake);
    lock_release(&w->lock);
    mem_must_free(w);
}
