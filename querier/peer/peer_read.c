// SPDX-License-Identifier: Apache-2.0
//
// peer_read.c - who reads which object, the calls, and what is read here after all.
#include "querier/peer/peer_read.h"

#include "cluster/place.h"
#include "cluster/probe.h"
#include "codec/pb.h"
#include "querier/metrics.h"
#include "querier/peer/question.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#include <stdlib.h>

// A querier may get so much more than its even share, where its cache has the objects.
#define UNEVEN 1.25

#define PATIENCE_NS    ((uint64_t)NS_PER_S)
#define PATIENCE_TIMES 2

// An object of the plan, and its pieces.
struct portion {
    const struct level_piece *pieces;  // of struct sharing.pieces
    size_t n;
    uint64_t bytes;
    size_t reader;  // row of struct sharing.readers
};

struct reader {
    const struct member *member;  // NULL: this querier
    struct level_plan plan;       // its pieces
    uint64_t bytes;
    struct buf message;
    struct peer_call call;
    bool started;
    bool read;  // its share is in the result
};

struct sharing {
    const struct peer_readers *p;
    struct blocks *blocks;
    struct req *req;
    const struct block_task *task;
    struct merged *m;
    struct block_reads *out;
    struct level_piece *pieces;  // of the plan, in order of objects
    struct portion *portions;
    size_t portion_count;
    struct member *members;  // of `readers`; the first one is this querier
    struct reader *readers;
    size_t reader_count;
    uint64_t own_ns;  // what this querier took for its own share
    uint64_t since_mono_ns;
};

static bool read_here(const struct sharing *s, const struct level_plan *plan, err *e)
{
    struct block_task task = *s->task;
    task.plan = plan;
    return plan->n == 0 || block_read(s->blocks, s->req, &task, s->m, s->out, e);
}

// ---- is it worth it?

static int by_name(const void *a, const void *b)
{
    const struct level_piece *x = a;
    const struct level_piece *y = b;
    return str_cmp(x->object->name, y->object->name);
}

// The objects of the plan with their pieces. *bytes: of the objects as a whole.
static bool list_portions(struct sharing *s, uint64_t *bytes)
{
    const struct level_plan *plan = s->task->plan;
    struct arena *a = &s->req->arena;
    s->pieces = ARENA_ARRAY(a, struct level_piece, plan->n);
    s->portions = ARENA_ARRAY(a, struct portion, plan->n);
    *bytes = 0;
    if (!s->pieces || !s->portions) return false;
    memcpy(s->pieces, plan->pieces, plan->n * sizeof *s->pieces);
    qsort(s->pieces, plan->n, sizeof *s->pieces, by_name);
    for (size_t i = 0; i < plan->n; i++) {
        struct portion *last = s->portion_count ? &s->portions[s->portion_count - 1] : NULL;
        if (!last || by_name(last->pieces, &s->pieces[i]) != 0) {
            last = &s->portions[s->portion_count++];
            *last = (struct portion){.pieces = &s->pieces[i]};
            *bytes += s->pieces[i].object->bytes;
        }
        last->n++;
    }
    return true;
}

// This querier, and its peers that are alive and ready.
static bool list_readers(struct sharing *s)
{
    struct arena *a = &s->req->arena;
    size_t n = 0;
    const struct member *known = members_of(s->p->members, a, MEMBER_QUERIER, &n);
    s->readers = ARENA_ARRAY(a, struct reader, n + 1);
    s->members = ARENA_ARRAY(a, struct member, n + 1);
    if (!s->readers || !s->members) return false;
    s->members[0] = (struct member){.id = s->p->self, .kind = MEMBER_QUERIER, .alive = true};
    s->reader_count = 1;
    for (size_t i = 0; i < n; i++) {
        if (!known[i].alive || known[i].unready || str_eq(known[i].id, s->p->self)) continue;
        s->members[s->reader_count] = known[i];
        s->readers[s->reader_count].member = &s->members[s->reader_count];
        s->reader_count++;
    }
    return true;
}

static bool weigh(struct sharing *s, const struct level_plan *plan, uint64_t *bytes, err *e)
{
    struct block_task task = *s->task;
    struct block_reads ignored = {0};  // whoever reads an object notes what is wrong with it
    task.plan = plan;
    bool ok = block_read_weigh(s->blocks, s->req, &task, bytes, &ignored, e);
    s->out->reads += ignored.reads;
    s->out->bytes += ignored.bytes;
    return ok;
}

// Whether there are peers, and more to read than one querier should. *all: how much.
static bool is_worth_it(struct sharing *s, bool *worth, uint64_t *all, err *e)
{
    const struct block_task *t = s->task;
    uint64_t bytes = 0;
    *worth = false;
    *all = 0;
    if (!s->p->members || s->p->split_bytes == 0) return true;
    if (!(t->q->tree.wanted || t->q->totals.wanted || t->q->heat.wanted) || t->q->stats)
        return true;
    if ((t->skip && t->skip->n) || t->plan->n < 2) return true;
    if (!list_readers(s)) return arena_fail(&s->req->arena, e);
    if (s->reader_count < 2) return true;
    if (!list_portions(s, &bytes)) return arena_fail(&s->req->arena, e);
    if (s->portion_count < 2 || bytes <= s->p->split_bytes) return true;
    // Of large objects most may be of other services; indexes know.
    if (!weigh(s, t->plan, all, e)) return false;
    *worth = *all > s->p->split_bytes;
    return true;
}

// ---- who reads what

static int heavier_first(const void *a, const void *b)
{
    const struct portion *x = a;
    const struct portion *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return by_name(x->pieces, y->pieces);
}

// The first querier in the object's own order that is not above its share; else the one with the
// least.
static size_t choose(const struct sharing *s, const struct portion *x, double most, uint32_t *order)
{
    const struct place_options all = {0};
    size_t least = 0;
    place_order(s->members, s->reader_count, &all, s->req->tenant, x->pieces->object->name, 0,
                order);
    for (size_t i = 0; i < s->reader_count; i++) {
        if ((double)(s->readers[order[i]].bytes + x->bytes) <= most) return order[i];
        if (s->readers[i].bytes < s->readers[least].bytes) least = i;
    }
    return least;
}

static bool share_out(struct sharing *s, uint64_t all, err *e)
{
    struct arena *a = &s->req->arena;
    uint32_t *order = ARENA_ARRAY(a, uint32_t, s->reader_count);
    if (!order) return arena_fail(a, e);
    for (size_t i = 0; i < s->portion_count; i++) {
        struct level_plan one = {.n = s->portions[i].n};
        one.pieces = ARENA_ARRAY(a, struct level_piece, one.n);
        if (!one.pieces) return arena_fail(a, e);
        memcpy(one.pieces, s->portions[i].pieces, one.n * sizeof *one.pieces);
        // What weighing needs of it is in the cache now.
        if (!weigh(s, &one, &s->portions[i].bytes, e)) return false;
    }
    qsort(s->portions, s->portion_count, sizeof *s->portions, heavier_first);
    double most = UNEVEN * (double)all / (double)s->reader_count;
    for (size_t i = 0; i < s->portion_count; i++) {
        struct portion *x = &s->portions[i];
        x->reader = choose(s, x, most, order);
        s->readers[x->reader].bytes += x->bytes;
        s->readers[x->reader].plan.n += x->n;
    }
    for (size_t i = 0; i < s->reader_count; i++) {
        struct level_plan *plan = &s->readers[i].plan;
        plan->pieces = ARENA_ARRAY(a, struct level_piece, plan->n);
        if (!plan->pieces) return arena_fail(a, e);
        plan->n = 0;
    }
    for (size_t i = 0; i < s->portion_count; i++) {
        struct level_plan *plan = &s->readers[s->portions[i].reader].plan;
        memcpy(&plan->pieces[plan->n], s->portions[i].pieces,
               s->portions[i].n * sizeof *plan->pieces);
        plan->n += s->portions[i].n;
    }
    return true;
}

// ---- calls

static void release_calls(void *arg)
{
    struct sharing *s = arg;
    for (size_t i = 1; i < s->reader_count; i++) {
        if (s->readers[i].started) peer_release(&s->readers[i].call);
        buf_release(&s->readers[i].message);
    }
}

static void start_calls(struct sharing *s)
{
    for (size_t i = 1; i < s->reader_count; i++) {
        struct reader *x = &s->readers[i];
        err ignored = {0};
        buf_init(&x->message, s->req->arena.budget, s->p->answer_max);
        if (x->plan.n == 0) continue;
        question_put(s->task->q, s->task->excluded, x->plan.pieces, x->plan.n, &x->message);
        if (!buf_ok(&x->message, &ignored)) continue;  // read here, or refused there
        peer_start(s->p->client, s->req, &x->call, x->member->address, PEER_READ_PATH,
                   buf_view(&x->message), RANK_QUERIER, s->p->answer_max);
        x->started = true;
    }
}

static void give_up_slow(void *arg)
{
    const struct sharing *s = arg;
    uint64_t patience = MAX(PATIENCE_TIMES * s->own_ns, PATIENCE_NS);
    if (clock_mono_ns() - s->since_mono_ns < patience) return;
    for (size_t i = 1; i < s->reader_count; i++) {
        const struct reader *x = &s->readers[i];
        struct call *c = &s->readers[i].call.http.call;
        if (x->started && !call_is_over(c)) call_stop(c);
    }
}

// ---- answers

static const struct level_object *object_of(const struct level_plan *plan, str name)
{
    for (size_t i = 0; i < plan->n; i++) {
        if (str_eq(plan->pieces[i].object->name, name)) return plan->pieces[i].object;
    }
    return NULL;
}

// An object that the peer could not read. False: the answer is of no use.
static bool note_fault(struct sharing *s, const struct reader *x, str bytes)
{
    struct block_reads *out = s->out;
    struct block_fault f = {.why.code = ERR_DATA_LOSS};
    str message = {0};
    str name = {0};
    uint64_t code = 0;
    err ignored = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) name = r.bytes;
        if (r.field == 2 && r.type == PB_VARINT) code = r.number;
        if (r.field == 3 && r.type == PB_BYTES) message = r.bytes;
    }
    f.object = object_of(&x->plan, name);
    if (!pb_done(&r, &ignored) || !f.object) return false;
    if (code == ERR_NOT_FOUND || code == ERR_UNAVAILABLE) f.why.code = (enum err_code)code;
    err_set(&f.why, f.why.code, "%.*s", STR(message));
    if (!arena_grow(&s->req->arena, &out->faults, &out->fault_cap, out->fault_count + 1,
                    sizeof *out->faults)) {
        return false;
    }
    out->faults[out->fault_count++] = f;
    return true;
}

static void count(struct block_reads *out, const struct pb_reader *r)
{
    uint64_t *const counters[] = {&out->objects, &out->nodes, &out->rows, &out->reads, &out->bytes};
    assert(r->field >= 3 && r->field < 3 + COUNT(counters));
    *counters[r->field - 3] += r->number;
}

// Adds the share. False with ERR_OK: the answer is of no use, and the share is to be read here.
static bool take_share(struct sharing *s, struct reader *x, str bytes, err *e)
{
    str partial = {0};
    bool useful = true;
    err ignored = {0};
    struct block_reads counts = {0};
    size_t faults = s->out->fault_count;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) partial = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES) useful &= note_fault(s, x, r.bytes);
        if (r.field >= 3 && r.field <= 7 && r.type == PB_VARINT) count(&counts, &r);
    }
    if (!pb_done(&r, &ignored) || !useful) {
        s->out->fault_count = faults;
        return false;
    }
    s->out->objects += counts.objects;
    s->out->nodes += counts.nodes;
    s->out->rows += counts.rows;
    s->out->reads += counts.reads;
    s->out->bytes += counts.bytes;
    x->read = true;
    // With a fault the caller throws away what was added.
    return s->out->fault_count > faults || merged_add(s->m, partial, e);
}

static bool take_answers(struct sharing *s, err *e)
{
    for (size_t i = 1; i < s->reader_count; i++) {
        struct reader *x = &s->readers[i];
        str bytes = {0};
        err fault = {0};
        if (!x->started) continue;
        bool ok = peer_answer(&x->call, &bytes, &fault);
        members_note_call(s->p->members, MEMBER_QUERIER, x->member->id, &x->call, &fault);
        if (ok && !take_share(s, x, bytes, e) && e->code) return false;
    }
    return true;
}

static bool gather(struct sharing *s, err *e)
{
    struct call **waits = ARENA_ARRAY(&s->req->arena, struct call *, s->reader_count);
    const struct call_watch watch = {.look = give_up_slow, .arg = s};
    size_t n = 0;
    err first = {0};
    if (!waits) return arena_fail(&s->req->arena, e);
    for (size_t i = 1; i < s->reader_count; i++) {
        if (s->readers[i].started) waits[n++] = &s->readers[i].call.http.call;
    }
    s->since_mono_ns = clock_mono_ns();
    if (n) (void)!call_gather_watched(s->req, waits, n, 0, false, &watch, &first);
    // Only what ends the request ends the reading: other faults are those of single peers.
    return req_alive(s->req, e) && take_answers(s, e);
}

// Waits for calls that nobody needs any more, because the reading here failed.
static void abandon(struct sharing *s)
{
    for (size_t i = 1; i < s->reader_count; i++) {
        if (s->readers[i].started) call_stop(&s->readers[i].call.http.call);
    }
    struct call **waits = ARENA_ARRAY(&s->req->arena, struct call *, s->reader_count);
    size_t n = 0;
    err ignored = {0};
    for (size_t i = 1; waits && i < s->reader_count; i++) {
        if (s->readers[i].started) waits[n++] = &s->readers[i].call.http.call;
    }
    if (n) (void)!call_gather(s->req, waits, n, 0, false, &ignored);
}

static bool read_shares(struct sharing *s, err *e)
{
    uint64_t began = clock_mono_ns();
    start_calls(s);
    bool ok = read_here(s, &s->readers[0].plan, e);
    s->own_ns = clock_mono_ns() - began;
    if (!ok) {
        abandon(s);
        return false;
    }
    if (!gather(s, e)) return false;
    for (size_t i = 1; i < s->reader_count; i++) {
        const struct reader *x = &s->readers[i];
        if (x->plan.n == 0) continue;
        metric_add_to(&querier_split_parts, x->read ? S("peer") : S("again"), 1);
        if (!x->read && !read_here(s, &x->plan, e)) return false;
    }
    metric_add_to(&querier_split_parts, S("here"), 1);
    return true;
}

bool peer_read(const struct peer_readers *p, struct blocks *b, struct req *r,
               const struct block_task *t, struct merged *m, struct block_reads *out, err *e)
{
    // In the arena: the calls are released with the request, as the result borrows from answers.
    struct sharing *s = ARENA_NEW(&r->arena, struct sharing);
    bool worth = false;
    uint64_t all = 0;
    if (!s) return arena_fail(&r->arena, e);
    *s = (struct sharing){.p = p, .blocks = b, .req = r, .task = t, .m = m, .out = out};
    if (!is_worth_it(s, &worth, &all, e)) return false;
    if (!worth) return block_read(b, r, t, m, out, e);
    if (!share_out(s, all, e)) return false;
    // Hooked before any call is started: after that nothing may fail without releasing it.
    if (!arena_defer(&r->arena, release_calls, s)) return arena_fail(&r->arena, e);
    metric_add(&querier_splits, 1);
    return read_shares(s, e);
}

// ---- the share of another querier

static bool alive(const void *req, err *e)
{
    return req_alive(req, e);
}

static void put_faults(const struct block_reads *reads, struct buf *out)
{
    for (size_t i = 0; i < reads->fault_count; i++) {
        const struct block_fault *f = &reads->faults[i];
        size_t mark = pb_begin(out, 2);
        pb_put_bytes(out, 1, f->object->name);
        pb_put_u64(out, 2, (uint64_t)f->why.code);
        pb_put_bytes(out, 3, str_of(f->why.msg));
        pb_end(out, mark);
    }
}

static bool put_answer(struct merged *m, bool wide_totals, const struct block_reads *reads,
                       struct req *r, struct buf *out, err *e)
{
    size_t mark = pb_begin(out, 1);
    if (!merged_encode(m, wide_totals, &r->arena, out, e)) return false;
    pb_end(out, mark);
    put_faults(reads, out);
    pb_put_u64_opt(out, 3, reads->objects);
    pb_put_u64_opt(out, 4, reads->nodes);
    pb_put_u64_opt(out, 5, reads->rows);
    pb_put_u64_opt(out, 6, reads->reads);
    pb_put_u64_opt(out, 7, reads->bytes);
    return buf_ok(out, e);
}

bool peer_read_answer(struct blocks *b, struct mem_budget *memory, size_t limit, struct req *r,
                      str message, struct buf *out, err *e)
{
    struct question *x = NULL;
    struct merged m;
    struct block_reads reads = {0};
    if (!question_read(&r->arena, message, alive, r, &x, e)) return false;
    metric_add(&querier_peer_reads, 1);
    const struct block_task task = {.q = &x->q, .plan = &x->plan, .excluded = x->excluded};
    bool ok = merged_init(&m, memory, limit, x->q.tree.full_symbols, e) &&
              block_read(b, r, &task, &m, &reads, e) &&
              put_answer(&m, x->wide_totals, &reads, r, out, e);
    merged_release(&m);
    if (!ok) metric_add_to(&querier_peer_read_failures, str_of(err_name(e->code)), 1);
    return ok;
}
