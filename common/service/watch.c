// SPDX-License-Identifier: Apache-2.0
//
// watch.c - compares the identities of other nodes with what this node knows. Every few seconds
// each listed node is probed:
//
//     its cluster is another one           notice cluster.differs
//     clusters of two ingesters differ     notice cluster.differs, if this node has no store; as
//                                          long as they agree, calls carry that cluster
//     it has this process' id              notice node.twin; the probed node raises the same
//     an ingester, without a store         its data directory is noted (directories.h)
#include "rpc/peer.h"
#include "service/directories.h"
#include "service/program.h"
#include "sys/thread.h"

#define TICK_NS     ((uint64_t)NS_PER_S)
#define PROBE_EVERY 10  // ticks
#define PROBE_NS    ((uint64_t)NS_PER_S)
#define CALL_BYTES  ((size_t)1 << 20)
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

static void check(struct watch *w, const struct member *m, const struct node_identity *n)
{
    struct program *p = w->program;
    if (id128_eq(n->boot, p->identity.boot)) return;  // an address by which we reach ourselves
    check_cluster(w, m, n);
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
            check(w, of[i], &answer.node);
        peer_release(&calls[i]);
    }
    return true;
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
        if (tick % PROBE_EVERY == 0) probe_all(w);
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
