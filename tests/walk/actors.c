// SPDX-License-Identifier: Apache-2.0
#include "ingester/flush/flush.h"
#include "ingester/head/head_int.h"
#include "querier/request/stacktraces.h"
#include "querier/v1/querier.pb-c.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "walk/clocks.h"
#include "walk/compact.h"
#include "walk/crash.h"
#include "walk/crowd.h"
#include "walk/edges.h"
#include "walk/log.h"
#include "walk/place.h"
#include "walk/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define TENANT    S(WALK_TENANT)
#define GRID_NS   (10 * NS_PER_MS)  // rows lie between its points, borders of questions on them
#define LATE_NS   (90 * SLOT_MINUTE)
#define AGAIN_NS  (30 * SLOT_MINUTE)
#define REST_NS   (20 * NS_PER_S)
#define JOBS_MOST 3

const char *const walk_services[WALK_SERVICES] = {"api", "web"};
const char *const walk_pods[WALK_PODS] = {"p-0", "p-1", "p-2"};
#define services walk_services
#define pods     walk_pods

static void count(struct world *w, uint64_t *counter)
{
    pthread_mutex_lock(&w->lock);
    ++*counter;
    pthread_mutex_unlock(&w->lock);
}

// What work may end with while others work: the store fails now and then, somebody was first, and
// without grace things go while they are read.
bool walk_may_fail(const struct world *w, const err *e)
{
    if (w->grace_ns == 0 && (e->code == ERR_NOT_FOUND || e->code == ERR_DATA_LOSS)) return true;
    return e->code == ERR_UNAVAILABLE || e->code == ERR_ABORTED || e->code == ERR_CANCELED ||
           e->code == ERR_DEADLINE_EXCEEDED;
}

bool walk_asks_again(struct world *w, struct http_exchange *x, struct buf *out, err *e,
                     uint64_t *until)
{
    if (w->mistake != NO_MISTAKE || e->code != ERR_UNAVAILABLE) return false;
    if (!*until) *until = clock_mono_ns() + (uint64_t)REST_NS;
    if (clock_mono_ns() > *until) return false;
    usleep(50000);
    req_release(&x->req);
    memset(x, 0, sizeof *x);
    req_init(&x->req, RANK_PUBLIC, &w->memory, SIZE_MAX, 0);
    buf_clear(out);
    *e = (err){0};
    return true;
}

// ---- pushing

static labels series_of(struct arena *a, const struct pushed *row)
{
    label *ls = ARENA_ARRAY(a, label, 3);
    ls[0] = (label){S(LABEL_PROFILE_TYPE), S(WALK_TYPE)};
    ls[1] = (label){S("pod"), str_of(pods[row->pod])};
    ls[2] = (label){S(LABEL_SERVICE), str_of(services[row->service])};
    labels_sort(ls, 3);
    return (labels){ls, 3};
}

static str batch_of(struct arena *a, const struct world *w, const struct bundle *rows,
                    uint32_t attempt)
{
    struct symbols s;
    struct buf out;
    labels series[COUNT(rows->numbers)];
    struct record records[COUNT(rows->numbers)];
    struct batch b = {.series = series, .records = records};
    assert_ok(symbols_init(&s, NULL, e));
    buf_init(&out, NULL, 1 << 16);
    for (unsigned i = 0; i < rows->n; i++) {
        unsigned number = rows->numbers[i];
        const struct pushed *row = &w->rows[number];
        struct vector_entry v = {.value = 1};
        char name[16];
        snprintf(name, sizeof name, "r%u", number);
        assert_ok((v.stack = stack_of_text(&s, str_of(name), e)) != MAP_NONE);
        buf_clear(&out);
        vector_encode(&v, 1, &out);
        if (i == 0 || row->pod != w->rows[rows->numbers[0]].pod)
            series[b.series_count++] = series_of(a, row);
        b.service = str_of(services[row->service]);
        records[b.record_count++] =
            (struct record){.series = b.series_count - 1,
                            .time_ns = row->time_ns,
                            .id =
                                uuid_profile((uint64_t)(row->time_ns / NS_PER_MS), number, number),
                            .duration_ns = 10,
                            .period = 1,
                            .sibling = RECORD_NO_SIBLING,
                            .total = 1,
                            .attempt = attempt,
                            .identified = true,
                            .vector = arena_str(a, buf_view(&out))};
    }
    b.symbols = s.t;
    buf_clear(&out);
    assert_ok(batch_encode(&b, a, &out, e));
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    symbols_release(&s);
    return bytes;
}

// The mistake: ids that are faint or were let go count as known.
static void forget_faint(struct recent_ids *p)
{
    pthread_rwlock_wrlock(&p->lock);
    for (size_t i = 0; i < p->faint_count; i++)
        memset(p->faint[i].words, 0, p->faint[i].blocks * RECENT_BLOCK * sizeof(uint32_t));
    memset(p->let_go, 0, sizeof p->let_go);
    pthread_rwlock_unlock(&p->lock);
}

bool walk_give(struct world *w, struct node *n, const struct bundle *rows, uint32_t attempt,
               uint64_t placing)
{
    struct req r;
    struct buf message;
    struct buf answer;
    err e = {0};
    pthread_mutex_lock(&w->lock);
    bool up = n->up;
    n->users += up;
    pthread_mutex_unlock(&w->lock);
    if (!up) return false;
    for (unsigned k = 0; k < rows->n && attempt == 0; k++)
        attempt = home_forgot(w, n, w->rows[rows->numbers[k]].pushed_ns);
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    r.tenant = TENANT;
    buf_init(&message, NULL, 1 << 20);
    buf_init(&answer, NULL, 1 << 20);
    pb_put_bytes(&message, 1, batch_of(&r.arena, w, rows, attempt));
    pb_put_fixed64_opt(&message, 2, placing);
    if (w->mistake == FORGETFUL) forget_faint(&n->whole.in->head->recent_ids);
    copies_open(w, n);
    bool ok = append_run(n->whole.in, &r, buf_view(&message), &answer, &e);
    for (unsigned k = 0; k < rows->n; k++)
        atomic_fetch_or(&w->rows[rows->numbers[k]].holders, (unsigned)ok << (n - w->nodes));
    // Out of range: the walk said so of an object of the log.
    if (!ok && e.code != ERR_UNAVAILABLE && e.code != ERR_ABORTED && e.code != ERR_OUT_OF_RANGE)
        world_fault(w, "push: %s: %s", err_name(e.code), e.msg);
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
    pthread_mutex_lock(&w->lock);
    n->users--;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    return ok;
}

static bool is_young(const struct world *w, unsigned number)
{
    return clock_wall_ns() - w->rows[number].pushed_ns < AGAIN_NS;
}

// A row that a client may push again: what was flushed is known for a while
// (ingester/head/recent_ids.h), unless the disk is gone (home.h). Above all those whose push was
// refused, as when the write of a log failed.
static bool choose_again(struct world *w, unsigned number, unsigned *again)
{
    unsigned doubtful = atomic_load(&w->doubtful);
    // While a log is read again many pushes fail: the one whose entry is in doubt comes first.
    if (w->mistake == READY_EARLY && doubtful && roll(&w->dice, 2)) {
        *again = doubtful - 1;
        return !atomic_load(&w->rows[*again].acked) && is_young(w, *again);
    }
    for (unsigned i = 1; i <= MIN(number, 12); i++) {
        *again = number - i;
        if (atomic_load(&w->rows[*again].acked) || roll(&w->dice, 2)) continue;
        return is_young(w, *again);
    }
    unsigned back = 1 + (unsigned)roll(&w->dice, 12);
    if (roll(&w->dice, 5) || back > number) return false;
    *again = number - back;
    return is_young(w, *again);
}

// As a distributor does it: an ingester that did not answer (or whose answer was lost) is passed
// over, and the next one is told that it may not be the first. So is the next one if lists of
// members differ, and the home is not in this distributor's. Now and then a client repeats itself,
// and then something new is in the same batch.
static void push_roll(struct world *w, struct push *p)
{
    unsigned number = atomic_load(&w->row_count);
    struct pushed *row = &w->rows[number];
    int64_t now = clock_wall_ns();
    row->pushed_ns = now;
    // Where rows expire, some come when others of their day are gone already.
    bool very_late = w->retention_ns && roll(&w->dice, 4) == 0;
    uint64_t late = very_late ? 5 * (uint64_t)w->retention_ns / 2 : LATE_NS;
    row->time_ns = (now - (int64_t)roll(&w->dice, late)) / GRID_NS * GRID_NS + GRID_NS / 2;
    row->service = (unsigned)roll(&w->dice, COUNT(services));
    row->pod = (unsigned)roll(&w->dice, COUNT(pods));
    row->home = (unsigned)roll(&w->dice, w->node_count);
    *p = (struct push){.rows = {{number}, 1}};
    if (choose_again(w, number, &p->rows.numbers[1])) {
        const struct pushed *again = &w->rows[p->rows.numbers[1]];
        p->rows.n = 2;
        row->service = again->service;
        row->home = again->home;
        w->counts.repeated++;
    }
    p->home = row->home;
    p->lost = roll(&w->dice, 8) == 0;
    uint64_t sides = w->mistake == SURE_HOME ? 3 : 8;
    p->unlisted = w->in_store && w->node_count > 1 && roll(&w->dice, sides) == 0;
    p->other = w->two_lists && roll(&w->dice, 2);
    atomic_store(&w->row_count, number + 1);
}

// One row that was never pushed, for this ingester.
static void push_roll_new(struct world *w, unsigned home, struct push *p)
{
    if (atomic_load(&w->row_count) == WALK_ROWS) return;
    push_roll(w, p);
    p->rows.n = 1;
    p->home = home;
    w->rows[p->rows.numbers[0]].home = home;
}

// Both lists give some services the same home.
static unsigned home_of(const struct world *w, const struct push *p)
{
    bool differs = p->other && w->rows[p->rows.numbers[0]].service == 1;
    return (p->home + differs) % w->node_count;
}

static void push(struct world *w, const struct push *p)
{
    bool ok = false;
    bool tells = p->other && w->mistake != ONE_LIST;
    uint64_t placing = tells ? WALK_OTHER_PLACING : WALK_PLACING;
    bool sure = w->mistake == UNRAISED || (w->mistake == SURE_HOME && p->unlisted);
    for (uint32_t i = p->unlisted; i < w->node_count && !ok; i++) {
        struct node *n = &w->nodes[(home_of(w, p) + i) % w->node_count];
        uint32_t attempt = sure ? 0 : i;
        ok = !stall_takes(w, n, &p->rows, attempt, placing) &&
             walk_give(w, n, &p->rows, attempt, placing);
        if (i == p->unlisted && p->lost) ok = false;
    }
    for (unsigned k = 0; ok && k < p->rows.n; k++)
        atomic_store(&w->rows[p->rows.numbers[k]].acked, true);
    if (ok) count(w, &w->counts.pushed);
}

void walk_push(struct world *w)
{
    struct push p;
    if (atomic_load(&w->row_count) == WALK_ROWS) return;
    // A log in the store waits for it, and so does who pushes.
    if (w->in_store) {
        (void)walk_start(w, ACT_PUSH);
        return;
    }
    push_roll(w, &p);
    push(w, &p);
}

// ---- asking

// Before which no row can be.
int64_t walk_first_ns(const struct world *w)
{
    return w->start_ns - MAX(3 * SLOT_HOUR, 3 * w->retention_ns);
}

static const Querier__V1__FlameGraph *graph_of(struct req *r, const struct buf *out)
{
    err e = {0};
    const Querier__V1__SelectMergeStacktracesResponse *m =
        (const Querier__V1__SelectMergeStacktracesResponse *)
            pb_unpack(&r->arena, &querier__v1__select_merge_stacktraces_response__descriptor,
                      buf_view(out), &e);
    return m ? m->flamegraph : NULL;
}

// How often each row was counted.
static void count_rows(struct world *w, const Querier__V1__FlameGraph *g, uint32_t *times)
{
    for (size_t i = 0; g && i < g->n_levels; i++) {
        const Querier__V1__Level *l = g->levels[i];
        for (size_t k = 0; k + 3 < l->n_values; k += 4) {
            uint64_t number = 0;
            const char *name = g->names[l->values[k + 3]];
            if (name[0] != 'r' || !str_u64(str_of(name + 1), &number)) continue;
            if (number < WALK_ROWS)
                times[number] += (uint32_t)l->values[k + 2];
            else
                world_fault(w, "row %" PRIu64 " was never pushed", number);
        }
    }
}

void walk_count_rows(struct world *w, struct req *r, const struct buf *out, uint32_t *times)
{
    count_rows(w, graph_of(r, out), times);
}

void walk_count_answer(struct world *w, bool ok, bool rounded)
{
    count(w, &w->counts.queries);
    if (!ok)
        count(w, &w->counts.refused);
    else
        count(w, rounded ? &w->counts.rounded : &w->counts.exact);
}

struct question {
    int64_t from_ns;
    int64_t to_ns;
    int service;  // -1: all
    int pod;
    bool may_be_partial;
    bool acked[WALK_ROWS];  // when it was asked
    uint32_t times[WALK_ROWS];
};

static bool means(const struct question *q, const struct pushed *row)
{
    return row->time_ns > q->from_ns && row->time_ns <= q->to_ns &&
           (q->service < 0 || (unsigned)q->service == row->service) &&
           (q->pod < 0 || (unsigned)q->pod == row->pod);
}

// explained: how the answer came about.
static void check(struct world *w, const struct question *q, str explained)
{
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++) {
        const struct pushed *row = &w->rows[i];
        bool in = means(q, row);
        bool right = q->times[i] == 1 ? in : q->times[i] == 0 && !(in && q->acked[i]);
        if (right || (q->times[i] == 0 && walk_log_forgives(w, i))) continue;
        if (q->times[i] == 2 && in && walk_log_may_double(w, i)) continue;
        const char *want = !in ? "0" : q->acked[i] ? "1" : "0 or 1";
        world_fault(w,
                    "row %u (%s, hour %" PRIx64 ", at %" PRId64
                    ", taken by %x) counts %u times, expected %s; asked for (%" PRId64 ", %" PRId64
                    "], service %d, pod %d; %.*s",
                    i, q->acked[i] ? "acknowledged" : "not acknowledged",
                    (uint64_t)slot_of(row->time_ns, SLOT_HOUR), row->time_ns, row->holders,
                    q->times[i], want, q->from_ns, q->to_ns, q->service, q->pod, STR(explained));
        return;
    }
}

static void question_roll(struct world *w, struct dice *d, bool whole, struct question *q)
{
    int64_t now = clock_wall_ns();
    int64_t from = walk_first_ns(w);
    int64_t span = now + SLOT_HOUR - from;
    *q = (struct question){.from_ns = from, .to_ns = from + span, .service = -1, .pod = -1};
    if (!whole && roll(d, 2)) {
        q->from_ns = from + (int64_t)roll(d, (uint64_t)span);
        q->to_ns = q->from_ns + (int64_t)roll(d, (uint64_t)(from + span - q->from_ns)) + 1;
    }
    // Where rows expire, nodes of days are what is left.
    int64_t grid = w->retention_ns ? SLOT_DAY : GRID_NS;
    q->from_ns = q->from_ns / grid * grid;
    q->to_ns = q->to_ns / grid * grid + grid;
    if (roll(d, 3) == 0) q->service = (int)roll(d, COUNT(services));
    if (roll(d, 4) == 0 && !w->retention_ns) q->pod = (int)roll(d, COUNT(pods));
    q->may_be_partial = !whole && roll(d, 3) == 0;
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++)
        q->acked[i] = atomic_load(&w->rows[i].acked);
}

static void selector_print(const struct question *q, char *text, size_t n)
{
    char service[40] = "";
    char pod[40] = "";
    if (q->service >= 0)
        snprintf(service, sizeof service, "service_name=\"%s\"", services[q->service]);
    if (q->pod >= 0) snprintf(pod, sizeof pod, "pod=\"%s\"", pods[q->pod]);
    snprintf(text, n, "{%s%s%s}", service, service[0] && pod[0] ? "," : "", pod);
}

static bool ask(struct world *w, const struct question *q, struct http_exchange *x, struct buf *out,
                err *e)
{
    char selector[100];
    char type[] = WALK_TYPE;
    Querier__V1__SelectMergeStacktracesRequest m =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    struct buf in;
    selector_print(q, selector, sizeof selector);
    m.profile_typeid = type;
    m.label_selector = selector;
    m.start = q->from_ns / NS_PER_MS;
    m.end = q->to_ns / NS_PER_MS;
    m._max_nodes_case = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST___MAX_NODES_MAX_NODES;
    m.max_nodes = 1 << 20;
    buf_init(&in, NULL, 1 << 16);
    pb_pack(&m.base, &in);
    x->req.tenant = TENANT;
    http_headers_add(&x->headers, &x->req.arena, S("flametree-explain"), S("1"));
    http_headers_add(&x->headers, &x->req.arena, S("flametree-partial"),
                     q->may_be_partial ? S("allow") : S("deny"));
    bool ok = answer_run(&w->querier, x, S("SelectMergeStacktraces"), stacktraces_merge,
                         buf_view(&in), out, e);
    buf_release(&in);
    return ok;
}

void walk_ask(struct world *w, struct dice *d, bool whole)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    struct question *q = calloc(1, sizeof *q);
    struct buf out;
    err e = {0};
    req_init(&x->req, RANK_PUBLIC, &w->memory, SIZE_MAX, 0);
    buf_init(&out, NULL, (size_t)1 << 28);
    seat_freeze(w);
    question_roll(w, d, whole, q);
    count(w, &w->counts.queries);
    bool ok = false;
    uint64_t until = 0;
    do
        ok = ask(w, q, x, &out, &e);
    while (!ok && whole && walk_asks_again(w, x, &out, &e, &until));
    seat_thaw();
    str exact = ok ? http_headers_get(&x->answer_headers, "flametree-exact") : (str){0};
    if (!ok) {
        count(w, &w->counts.refused);
        bool known = walk_may_fail(w, &e);
        if (!known || (whole && w->mistake == NO_MISTAKE))
            world_fault(w, "question: %s: %s", err_name(e.code), e.msg);
    } else {
        bool partial = str_starts(exact, S("partial="));
        count(w, partial ? &w->counts.partial : &w->counts.exact);
        if (partial) stall_marked(w, x, q->may_be_partial);
        // Of a marked answer rows may be missing; the rest counts once.
        if (partial) memset(q->acked, 0, sizeof q->acked);
        // An edge within 1 ms of a border lies on it; rows of walks keep farther off.
        bool near = w->retention_ns && str_is(exact, "rounded=0.001");
        if (!near && !partial && !str_is(exact, "exact"))
            world_fault(w, "the answer is '%.*s'", STR(exact));
        count_rows(w, graph_of(&x->req, &out), q->times);
        check(w, q, http_headers_get(&x->answer_headers, "flametree-explain"));
    }
    buf_release(&out);
    req_release(&x->req);
    free(q);
    free(x);
}

// ---- flush, compaction, sweep

static void flush(struct world *w, struct node *n, struct req *r, bool must)
{
    struct flush_totals done = {0};
    err e = {0};
    pthread_mutex_lock(&w->lock);
    bool up = n->up;
    n->users += up;
    pthread_mutex_unlock(&w->lock);
    if (!up) return;
    bool ok = flush_now(n->whole.in->flush, r, true, &done, &e);
    if (ok) count(w, &w->counts.flushes);
    if (!ok && must) world_fault(w, "flush: %s: %s", err_name(e.code), e.msg);
    pthread_mutex_lock(&w->lock);
    n->users--;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
}

// One due job, any of them; false if there is none.
static bool compact_once(struct world *w, struct manifests *ms, struct seat *seat, struct req *r,
                         struct dice *d, bool must)
{
    err e = {0};
    bool wrong = w->mistake == TOO_EARLY || w->mistake == DROPPED;
    if (wrong && roll(d, 4) == 0)
        (void)walk_wrong_change(ms, r, TENANT, w->retention_ns, w->mistake == DROPPED);
    const struct job_way way = {.retention_ns = w->retention_ns,
                                .mistake = w->mistake == HASTY         ? JOB_HASTY
                                           : w->mistake == NAMED_AGAIN ? JOB_AGAIN
                                           : w->mistake == STAYS_TAKEN ? JOB_KEPT
                                                                       : JOB_RIGHT,
                                .taken = &w->taken,
                                .copies = w->mistake == HURRIED ? NULL : w->copies};
    enum compact_end end =
        walk_job(ms, seat->store, &w->memory, r, TENANT, &way, roll(d, UINT64_MAX), &e);
    if (end == COMPACT_FAILED && (must || !walk_may_fail(w, &e)))
        world_fault(w, "job: %s: %s", err_name(e.code), e.msg);
    if (end != COMPACT_NOTHING)
        count(w, end == COMPACT_DONE ? &w->counts.jobs : &w->counts.aborted);
    arena_release(&r->arena);
    return end == COMPACT_DONE;
}

static void compact(struct world *w, struct seat *seat, struct req *r, struct dice *d, int most,
                    bool must)
{
    err e = {0};
    struct manifests *ms = manifests_open(seat->store, &w->memory, NULL, &e);
    while (most-- > 0 && compact_once(w, ms, seat, r, d, must)) {
    }
    manifests_close(ms);
}

static void sweep(struct world *w, struct seat *seat, struct req *r, bool must)
{
    struct manifest_sweep s = {.segment_grace_ns = w->grace_ns,
                               .garbage_grace_ns = w->grace_ns,
                               .version_age_ns = 24 * SLOT_HOUR,
                               .versions = 8,
                               .orphan_age_ns = 48 * SLOT_HOUR};
    err e = {0};
    struct manifests *ms = manifests_open(seat->store, &w->memory, NULL, &e);
    bool ok = clocks_sweep(w, ms, r, &s, &e);
    manifests_close(ms);
    count(w, &w->counts.sweeps);
    pthread_mutex_lock(&w->lock);
    w->counts.deleted += s.segments_deleted + s.blocks_deleted + s.pages_deleted + s.roots_deleted +
                         s.orphans_deleted;
    pthread_mutex_unlock(&w->lock);
    if (!ok && (must || !walk_may_fail(w, &e)))
        world_fault(w, "sweep: %s: %s", err_name(e.code), e.msg);
}

// A whole compactor, beside another one and those that do single jobs.
static void crowd(struct world *w, struct actor *a)
{
    uint64_t jobs = walk_crowd(a->seat.store, &w->memory, &a->req, (unsigned)(a - w->actors),
                               w->retention_ns, w->grace_ns);
    pthread_mutex_lock(&w->lock);
    w->counts.jobs += jobs;
    w->counts.crowds++;
    pthread_mutex_unlock(&w->lock);
}

static bool has_seat(const struct actor *a)
{
    return a->kind == ACT_COMPACT || a->kind == ACT_SWEEP || a->kind == ACT_CROWD;
}

static void *act(void *arg)
{
    struct actor *a = arg;
    struct world *w = a->w;
    if (has_seat(a)) clocks_choose(w, &a->dice);
    if (has_seat(a) && w->mistake == ULID_ALONE) clocks_choose_ahead(w, a->kind == ACT_SWEEP);
    switch (a->kind) {
    case ACT_FLUSH:
        flush(w, &w->nodes[a->node], &a->req, false);
        break;
    case ACT_COMPACT:
        compact(w, &a->seat, &a->req, &a->dice, JOBS_MOST, false);
        break;
    case ACT_SWEEP:
        sweep(w, &a->seat, &a->req, false);
        break;
    case ACT_QUERY:
        if (roll(&a->dice, 2))
            walk_ask(w, &a->dice, false);
        else
            walk_ask_edges(w, &a->dice, false);
        break;
    case ACT_CRASH:
        crash_act(w, a);
        break;
    case ACT_STALL:
        stall_act(w, a);
        break;
    case ACT_CROWD:
        crowd(w, a);
        break;
    case ACT_ROLL:
        copies_roll(w, &w->nodes[a->node], &a->req);
        break;
    case ACT_PUSH:
        push(w, &a->push);
        break;
    case ACT_ADOPT:
        home_adopt(w, a);
        break;
    case ACT_KINDS:
        abort();
    }
    atomic_store(&a->done, true);
    gate_note(&w->gate);
    return NULL;
}

bool walk_start(struct world *w, enum actor_kind kind)
{
    static const unsigned most[ACT_KINDS] = {
        [ACT_FLUSH] = 2, [ACT_COMPACT] = 2, [ACT_SWEEP] = 1, [ACT_QUERY] = 3, [ACT_CRASH] = 1,
        [ACT_STALL] = 1, [ACT_CROWD] = 2,   [ACT_ROLL] = 2,  [ACT_PUSH] = 4,  [ACT_ADOPT] = 2};
    struct actor *a = NULL;
    unsigned same = 0;
    err e = {0};
    pthread_mutex_lock(&w->lock);
    // Pushes are actors where logs are in the store.
    for (unsigned i = 0; i < (w->in_store ? WALK_ACTORS : WALK_ACTORS - 4); i++) {
        same += w->actors[i].used && w->actors[i].kind == kind;
        if (!w->actors[i].used) a = &w->actors[i];
    }
    if (same >= most[kind]) a = NULL;
    if (a) {
        *a = (struct actor){.w = w,
                            .kind = kind,
                            .used = true,
                            .dice = {roll(&w->dice, UINT64_MAX)}};
        a->node = (unsigned)roll(&w->dice, w->node_count);
        req_init(&a->req, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    }
    pthread_mutex_unlock(&w->lock);
    if (!a) return false;
    if (kind == ACT_PUSH) push_roll(w, &a->push);
    if (kind == ACT_CRASH && w->in_store) push_roll_new(w, a->node, &a->push);
    if (has_seat(a)) seat_open(&a->seat, w, w->mistake == ULID_ALONE);
    // The sweep has to find what a job made and has not named yet: it must not take longer.
    bool quick = kind == ACT_SWEEP && w->mistake == ULID_ALONE;
    if (quick) place_set_page(a->seat.inner, 10000);
    unsigned moves = gate_moves(&w->gate);
    assert_true(thread_start(&a->thread, "actor", act, a, &e));
    gate_settle(&w->gate, moves);
    return true;
}

void walk_reap(struct world *w, bool all)
{
    for (unsigned i = 0; i < WALK_ACTORS; i++) {
        struct actor *a = &w->actors[i];
        if (!a->used || !(all || atomic_load(&a->done))) continue;
        thread_join(a->thread);
        if (has_seat(a)) seat_close(&a->seat);
        pthread_mutex_lock(&w->lock);
        req_release(&a->req);
        a->used = false;
        pthread_mutex_unlock(&w->lock);
    }
}

// ---- the end

static void hear(void *arg, bool is_fault, const char *text)
{
    if (is_fault || strstr(text, "nobody names it")) world_fault(arg, "at the end: %s", text);
}

// Whatever is named is there, and nothing else.
static void check_objects(struct world *w, struct seat *seat, struct req *r)
{
    err e = {0};
    struct manifest_verify v = {.report = hear, .arg = w};
    struct manifest_about about = {0};
    struct manifests *ms = manifests_open(seat->store, &w->memory, NULL, &e);
    struct manifest *m = manifest_newest(ms, r, TENANT, &e);
    if (!m || !manifest_verify(ms, r, TENANT, &v, &e)) world_fault(w, "at the end: %s", e.msg);
    if (v.segments) world_fault(w, "%" PRIu64 " segments are left", v.segments);
    if (m) manifest_tell(m, &about);
    w->counts.expired += about.expired;
    manifest_unref(m);
    manifests_close(ms);
}

void walk_settle(struct world *w)
{
    struct seat seat;
    struct req r;
    seat_open(&seat, w, false);
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    bool must = w->mistake == NO_MISTAKE;
    home_settle(w);
    for (int round = 0; round < 3 && !world_failed(w); round++) {
        for (unsigned i = 0; i < w->node_count; i++)
            flush(w, &w->nodes[i], &r, must);
        for (unsigned i = 0; i < w->node_count; i++)
            walk_log_wait(&w->nodes[i]);
        for (unsigned i = 0; i < w->node_count; i++)
            copies_roll(w, &w->nodes[i], &r);
        walk_ask(w, &w->dice, true);
        world_advance(3 * SLOT_HOUR);
        for (int i = 0; i < 20; i++) {
            compact(w, &seat, &r, &w->dice, 10, false);
            walk_ask_edges(w, &w->dice, false);
            for (unsigned k = 0; k < w->node_count; k++)
                copies_roll(w, &w->nodes[k], &r);
            world_advance(SLOT_MINUTE);
        }
        walk_ask(w, &w->dice, true);
        walk_ask_edges(w, &w->dice, true);
        world_advance(60 * SLOT_HOUR);
        for (int i = 0; i < 3; i++) {
            sweep(w, &seat, &r, false);
            world_advance(14 * SLOT_HOUR);
        }
        walk_ask(w, &w->dice, true);
    }
    seat.dead = false;
    bool done = must || w->mistake == STAYS_TAKEN;
    if (done && !world_failed(w)) check_objects(w, &seat, &r);
    if (must && !world_failed(w)) home_check(w);
    req_release(&r);
    seat_close(&seat);
}
