// SPDX-License-Identifier: Apache-2.0
//
// prefetch.c - a job on the querier's own lane for each tenant, begun before the heads are asked
// and ended before the answer reads blocks. It fails silently: all it does is fill the cache.
//
//     prefetch_begin   a job, if the tenant's manifest is known and the lane has room
//     run_prefetch     plans over the known manifest, and reads into the cache
//     prefetch_end     takes the job back if it did not begin, else waits for it
#include "querier/answer/prefetch.h"

#include "loop/call.h"
#include "loop/lane.h"
#include "manifest/manifest.h"
#include "querier/answer/serve.h"
#include "querier/block/block_read.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#define ARENA_MAX ((size_t)16 << 20)  // of a plan

struct prefetch {
    struct answer *a;
    const struct query *q;
    struct manifest *manifest;
    struct job job;
    struct call call;
    struct req req;
    struct block_reads reads;
};

// Plans over blocks alone, as the manifest does not list segments.
static void fetch_known(struct prefetch *h)
{
    struct snapshot known = {.manifest = h->manifest};
    struct level_ask ask = {0};
    struct level_plan plan = {0};
    err why = {0};
    const struct block_task task = {h->q, &plan, NULL, false};
    if (!serve_ask(h->q, &ask, &why)) return;
    if (!level_plan(&h->req.arena, &known, &ask, &plan, &why) || plan.n == 0) return;
    // Whatever goes wrong here the answer meets again, and reports.
    (void)!block_read_into_cache(h->a->querier->blocks, &h->req, &task, &h->reads, &why);
}

static void run_prefetch(struct job *j)
{
    struct prefetch *h = CONTAINER_OF(j, struct prefetch, job);
    fetch_known(h);
    call_finish(&h->call, NULL);
}

static void refuse(struct job *j, const err *e)
{
    struct prefetch *h = CONTAINER_OF(j, struct prefetch, job);
    call_finish(&h->call, e);
}

// The question's request ended: the job's request ends too, so that its reads stop.
static void stop(struct call *c)
{
    struct prefetch *h = CONTAINER_OF(c, struct prefetch, call);
    atomic_store_explicit(&h->req.canceled, true, memory_order_relaxed);
}

struct prefetch *prefetch_begin(struct answer *a, const struct query *q, str tenant)
{
    const struct querier_state *s = a->querier;
    struct prefetch *h = NULL;
    err busy = {0};
    if (!s->prefetch || !s->manifests || q->nothing) return NULL;
    struct manifest *known = manifest_known(s->manifests, tenant);
    if (!known) return NULL;
    size_t n = 0;
    (void)manifest_blocks(known, &n);
    if (n > 0) h = ARENA_NEW(a->arena, struct prefetch);  // a tenant without blocks needs none
    if (!h) {
        manifest_unref(known);
        return NULL;
    }
    *h = (struct prefetch){.a = a, .q = q, .manifest = known};
    req_init(&h->req, RANK_QUERIER, s->memory, ARENA_MAX, 0);
    h->req.asker = &a->x->req;
    h->req.deadline_mono_ns = a->x->req.deadline_mono_ns;
    // As for heads and snapshot (reconcile.c): a partial answer must still be sent if the store
    // hangs.
    if (a->takes == FETCH_ANY && h->req.deadline_mono_ns) {
        h->req.deadline_mono_ns -= req_left_ns(&a->x->req) / 8;
    }
    h->req.tenant = tenant;
    h->job = (struct job){.req = &h->req, .run = run_prefetch, .refuse = refuse};
    call_begin(&h->call, RANK_QUERIER, stop);
    if (lane_submit(s->prefetch, &h->job, &busy)) return h;
    // The lane is full: a busy querier has better things to do than to prefetch.
    req_release(&h->req);
    manifest_unref(known);
    return NULL;
}

void prefetch_end(struct prefetch *h)
{
    err why = {0};
    if (!h) return;
    struct answer *a = h->a;
    assert(h->manifest);
    if (!lane_withdraw(a->querier->prefetch, &h->job)) {
        uint64_t began = clock_mono_ns();
        (void)!call_wait(&a->x->req, &h->call, &why);
        a->work.ns[WORK_READ] += clock_mono_ns() - began;
        a->work.reads += h->reads.reads;
        a->work.bytes += h->reads.bytes;
        metric_add(&querier_prefetches, h->reads.reads);
    }
    req_release(&h->req);
    manifest_unref(h->manifest);
}
