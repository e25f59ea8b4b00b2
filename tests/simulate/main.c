// SPDX-License-Identifier: Apache-2.0
//
// simulate - what one push and one question cost in clusters of several sizes: the real placement,
// lists of streams, choice of answers, snapshots and plans, over a store in memory.
//
//     simulate                                  sizes that double; asserts how counts grow
//     simulate INGESTERS SERIES QUERIERS        one size, with CPU; docs/scaling.md has the figures
//
// One tenant has all series, fifty services for each ingester; that is the worst case, as tenants
// share nothing. Each ingester closes a cut every ten minutes, and an hour's segments wait 75
// minutes for its raw blocks, so 14 segments of each wait. Of the month before there are raw
// blocks, hours and days: a pack for four ingesters.
//
// A step that grows with the square of a size would show in the growth of a count: what is sent,
// what is asked of the store, what memory a step takes, how many pieces a plan has. CPU is printed,
// and asserted nowhere.
#include "codec/pb.h"
#include "distributor/dispatch.h"
#include "querier/head/fetch.h"
#include "querier/head/streams.h"
#include "querier/plan/levels.h"
#include "unit/compactor/many.h"
#include "unit/manifest/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAITING  14  // segments of an ingester
#define DAYS     30
#define PORTIONS 512  // objects of a question that queriers share

struct size {
    uint32_t ingesters;
    uint32_t series;
    uint32_t queriers;
    uint32_t sets;  // label sets of a service
};

// How a count may grow with the ingesters, where series and queriers grow alike.
enum growth {
    FREE,    // printed alone
    STILL,   // not at all
    LINEAR,  // as they do
};

enum count {
    HEADS,
    HEADS_OF_ONE,
    UNEVEN,
    MOVED,
    PROBES,
    STREAM_LISTS,
    STREAM_READS,
    LIVE_LISTS,
    LIVE_READS,
    CALLS,
    REPLY_BYTES,
    ANSWERS,
    CHOICE_MEMORY,
    SEGMENTS,
    HOUR_PIECES,
    HOUR_MEMORY,
    BLOCKS,
    MONTH_PIECES,
    MONTH_MEMORY,
    PEERS,
    COUNTS
};

static const struct {
    const char *name;
    enum growth growth;
} counts[COUNTS] = {
    [HEADS] = {"pairs of service and ingester", LINEAR},
    [HEADS_OF_ONE] = {"  of one ingester, most", FREE},
    [UNEVEN] = {"series of the fullest ingester / its share", FREE},
    [MOVED] = {"series that one more ingester moves, in shares of it", FREE},
    [PROBES] = {"probes of a node in a round", LINEAR},
    [STREAM_LISTS] = {"LISTs of streams, pages", STILL},
    [STREAM_READS] = {"GETs of streams that are known", STILL},
    [LIVE_LISTS] = {"LISTs of segments, pages", FREE},  // a page is 1,000 names: the end says so
    [LIVE_READS] = {"GETs of a manifest that is known", STILL},
    [CALLS] = {"calls of ingesters by a question", LINEAR},
    [REPLY_BYTES] = {"bytes of replies without rows", LINEAR},
    [ANSWERS] = {"answers that count", LINEAR},
    [CHOICE_MEMORY] = {"memory of their choice", LINEAR},
    [SEGMENTS] = {"segments that wait", LINEAR},
    [HOUR_PIECES] = {"pieces of a plan of the last hour", LINEAR},
    [HOUR_MEMORY] = {"memory of it", LINEAR},
    [BLOCKS] = {"blocks of a month", LINEAR},
    [MONTH_PIECES] = {"pieces of a plan of a month", LINEAR},
    [MONTH_MEMORY] = {"memory of it", LINEAR},
    [PEERS] = {"queriers that share it", LINEAR},
};

enum step {
    PLACE,
    STREAMS,
    CHOOSE,
    SNAPSHOT,
    PLAN_HOUR,
    PLAN_MONTH,
    SHARE,
    STEPS
};

static const char *const steps[STEPS] = {
    [PLACE] = "placing one series",        [STREAMS] = "the list of streams",
    [CHOOSE] = "choosing among replies",   [SNAPSHOT] = "a snapshot",
    [PLAN_HOUR] = "the plan of an hour",   [PLAN_MONTH] = "the plan of a month",
    [SHARE] = "sharing it among queriers",
};

struct result {
    double counts[COUNTS];
    double us[STEPS];
};

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

// The fastest of a few: the first one finds nothing in caches.
static void note_us(double *us, double began)
{
    double took = cpu_us() - began;
    if (*us == 0 || took < *us) *us = took;
}

static str node_name(char text[24], const char *kind, uint32_t number)
{
    return str_make(text, (size_t)snprintf(text, 24, "%s-%u", kind, number));
}

static struct member *make_members(struct arena *a, const char *kind, uint32_t n)
{
    struct member *v = ARENA_ARRAY(a, struct member, n);
    if (!v) abort();
    for (uint32_t i = 0; i < n; i++)
        v[i] = (struct member){.id = arena_printf(a, "%s-%u", kind, i), .alive = true};
    return v;
}

static id128 stream_of(uint32_t ingester)
{
    id128 id = bench_id(1);
    memcpy(id.b + 6, &ingester, sizeof ingester);
    return id;
}

// ---- placement

struct placing {
    struct size size;
    struct distributor_config config;
    struct spread spread;
    struct req req;
    struct dispatch dispatch;
    uint32_t *owners;  // by series
};

static void place_all(struct placing *p, uint32_t members)
{
    struct dispatch *d = &p->dispatch;
    d->member_count = members;
    for (uint32_t i = 0; i < p->size.series; i++) {
        char name[24];
        char set[24];
        str service = node_name(name, "service", i / p->size.sets);
        uint64_t hash = hash_str(node_name(set, "pod", i));
        p->owners[i] = dispatch_owner(d, service, hash, NULL);
    }
}

static void count_places(struct placing *p, struct result *out)
{
    uint32_t n = p->size.ingesters;
    uint32_t *series = mem_must(n * sizeof *series);
    uint32_t *heads = mem_must(n * sizeof *heads);
    uint32_t *last = mem_must(n * sizeof *last);
    double most = 0;
    for (uint32_t i = 0; i < p->size.series; i++) {
        uint32_t m = p->owners[i];
        series[m]++;
        // Its last service, from 1 on: series of a service come one after the other.
        heads[m] += last[m] != i / p->size.sets + 1;
        last[m] = i / p->size.sets + 1;
    }
    for (uint32_t m = 0; m < n; m++) {
        most = MAX(most, (double)series[m]);
        out->counts[HEADS] += heads[m];
        out->counts[HEADS_OF_ONE] = MAX(out->counts[HEADS_OF_ONE], (double)heads[m]);
    }
    out->counts[UNEVEN] = most * n / p->size.series;
    mem_must_free(series);
    mem_must_free(heads);
    mem_must_free(last);
}

static void simulate_placement(const struct size *s, struct result *out)
{
    struct placing p = {.size = *s};
    size_t moved = 0;
    p.config = (struct distributor_config){.ingester_rate = 16 << 20};
    spread_init(&p.spread);
    req_init(&p.req, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    p.req.tenant = TENANT;
    struct member *members = make_members(&p.req.arena, "ingester", s->ingesters + 1);
    uint32_t *order = ARENA_ARRAY(&p.req.arena, uint32_t, s->ingesters + 1);
    // A tenant of this size needs all ingesters; its services are of the usual size.
    uint64_t bytes = (uint64_t)s->ingesters * 1000 * (16 << 20);
    spread_note(&p.spread, spread_key(TENANT, (str){0}), bytes, 16 << 20, clock_mono_ns());
    p.dispatch = (struct dispatch){.req = &p.req,
                                   .config = &p.config,
                                   .members = members,
                                   .homes = members,
                                   .order = order,
                                   .spread = &p.spread};
    p.owners = mem_must(s->series * sizeof *p.owners);
    place_all(&p, s->ingesters + 1);
    uint32_t *after = p.owners;
    p.owners = mem_must(s->series * sizeof *p.owners);
    double began = cpu_us();
    place_all(&p, s->ingesters);
    out->us[PLACE] = (cpu_us() - began) / s->series;
    count_places(&p, out);
    for (uint32_t i = 0; i < s->series; i++)
        moved += p.owners[i] != after[i];
    out->counts[MOVED] = (double)moved * (s->ingesters + 1) / s->series;
    mem_must_free(after);
    mem_must_free(p.owners);
    req_release(&p.req);
    spread_release(&p.spread);
}

// ---- registered streams

static void simulate_streams(const struct size *s, struct result *out)
{
    struct store *store = memstore_open();
    struct mem_budget memory;
    mem_budget_init(&memory, "streams", NULL, 0);
    struct streams *streams = streams_new(store, &memory);
    for (uint32_t i = 0; i < s->ingesters; i++) {
        char node[24];
        bool existed = false;
        struct req r;
        req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
        const struct registered_stream v = {.stream = stream_of(i),
                                            .node = node_name(node, "ingester", i),
                                            .address = S("10.0.0.1:4041"),
                                            .directory = stream_of(i)};
        assert_ok(stream_register(store, &r, &v, &existed, e));
        req_release(&r);
    }
    // The first list reads them all; those of each second after it read what is new.
    for (int i = 0; i < 4; i++) {
        struct req r;
        const struct registered *list = NULL;
        req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
        memstore_reset_totals(store);
        double began = cpu_us();
        assert_ok(streams_take(streams, &r, clock_mono_ns(), &list, e));
        note_us(&out->us[STREAMS], began);
        assert_int_equal(list->n, s->ingesters);
        req_release(&r);
    }
    struct memstore_totals t = memstore_totals(store);
    out->counts[STREAM_LISTS] = (double)t.ops[MEMSTORE_LIST];
    out->counts[STREAM_READS] = (double)t.ops[MEMSTORE_READ];
    streams_free(streams);
    store_close(store);
}

// ---- replies of ingesters

// Of an ingester that has two cuts and no row of the question. It has the querier's list of
// members, or it would name all of its own in each reply (members_print).
static str make_reply(struct arena *a, uint32_t number)
{
    struct buf out;
    char name[24];
    id128 stream = stream_of(number);
    str id = str_make(stream.b, sizeof stream.b);
    buf_init(&out, NULL, SIZE_MAX / 2);
    size_t answer = pb_begin(&out, 1);
    size_t info = pb_begin(&out, 1);
    pb_put_bytes(&out, 1, id);
    pb_put_bytes(&out, 2, node_name(name, "ingester", number));
    pb_end(&out, info);
    pb_put_u64_opt(&out, 2, 1);
    for (uint64_t cut = 1; cut <= 2; cut++) {
        size_t mark = pb_begin(&out, 3);
        pb_put_bytes(&out, 1, id);
        pb_put_u64_opt(&out, 2, cut);
        pb_put_i64_opt(&out, 4, BENCH_HOUR);
        pb_end(&out, mark);
    }
    pb_end(&out, answer);
    pb_put_bytes(&out, 14, node_name(name, "ingester", number));
    pb_put_u64_opt(&out, 16, 1);
    pb_put_bytes(&out, 18, id);
    size_t served = pb_begin(&out, 19);
    pb_put_bytes(&out, 1, id);
    pb_end(&out, served);
    str kept = arena_str(a, buf_view(&out));
    buf_release(&out);
    return kept;
}

static void simulate_replies(const struct size *s, struct result *out)
{
    struct arena all;
    arena_init(&all, NULL, SIZE_MAX);
    struct head_reply *v = ARENA_ARRAY(&all, struct head_reply, s->ingesters);
    for (uint32_t i = 0; i < s->ingesters; i++) {
        v[i] = (struct head_reply){.member = arena_printf(&all, "ingester-%u", i),
                                   .bytes = make_reply(&all, i)};
        out->counts[REPLY_BYTES] += (double)v[i].bytes.n;
    }
    const struct head_replies replies = {.v = v, .n = s->ingesters};
    for (int i = 0; i < 4; i++) {
        struct arena a;
        struct fetched f = {0};
        arena_init(&a, NULL, SIZE_MAX);
        double began = cpu_us();
        assert_ok(fetch_choose(&a, &replies, &f, e));
        note_us(&out->us[CHOOSE], began);
        assert_int_equal(f.missing_count, 0);
        out->counts[ANSWERS] = (double)f.partial_count;
        out->counts[CHOICE_MEMORY] = (double)a.used;
        arena_release(&a);
    }
    out->counts[CALLS] = s->ingesters;
    arena_release(&all);
}

// ---- snapshot and plans

static enum level_leaf is_live(const void *arg, id128 id)
{
    (void)arg;
    (void)id;
    return LEVEL_LIVE;
}

static void plan(const struct level_given *g, int64_t from_ns, int64_t to_ns, double *pieces,
                 double *memory, double *us)
{
    const struct level_ask ask = {.from_ns = from_ns,
                                  .to_ns = to_ns,
                                  .pack_hi = UINT32_MAX,
                                  .classes = 1,
                                  .use = LEVEL_NODES};
    for (int i = 0; i < 4; i++) {
        struct arena a;
        struct level_plan p;
        arena_init(&a, NULL, SIZE_MAX);
        double began = cpu_us();
        assert_ok(level_plan_given(&a, g, &ask, &p, e));
        note_us(us, began);
        *pieces = (double)p.n;
        *memory = (double)a.used;
        arena_release(&a);
    }
}

static void simulate_hour(const struct size *s, struct result *out)
{
    struct bench b;
    bench_begin(&b);
    for (uint32_t i = 0; i < s->ingesters; i++) {
        for (uint64_t cut = 0; cut < WAITING; cut++) {
            const struct segment_name name = {.hour = BENCH_HOUR - (int64_t)(cut / 7),
                                              .stream = stream_of(i),
                                              .cut = cut};
            bench_write_segment(&b, &name);
        }
    }
    for (int i = 0; i < 4; i++) {
        struct snapshot snap;
        struct req r;
        req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
        memstore_reset_totals(b.store);
        double began = cpu_us();
        assert_ok(snapshot_take(b.ms, &r, &r.arena, TENANT, &snap, e));
        note_us(&out->us[SNAPSHOT], began);
        struct memstore_totals t = memstore_totals(b.store);
        out->counts[LIVE_LISTS] = (double)t.ops[MEMSTORE_LIST];
        out->counts[LIVE_READS] = (double)t.ops[MEMSTORE_READ];
        out->counts[SEGMENTS] = (double)snap.segment_count;
        const struct level_given g = level_given_of(&snap);
        plan(&g, BENCH_HOUR * SLOT_HOUR, (BENCH_HOUR + 1) * SLOT_HOUR, &out->counts[HOUR_PIECES],
             &out->counts[HOUR_MEMORY], &out->us[PLAN_HOUR]);
        snapshot_release(&snap);
        req_release(&r);
    }
    bench_end(&b);
}

static void simulate_month(const struct size *s, struct result *out)
{
    size_t packs = MAX(s->ingesters / 4, 1u);
    const struct many_shape shape = {.deltas = 1, .packs = packs, .copies = 1};
    struct many m;
    many_init(&m, &shape, packs * DAYS * 24);
    out->counts[BLOCKS] = (double)m.n;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < m.n; i++)
        first = MIN(first, m.blocks[i].from_hour);
    const struct level_given g = {.tenant = TENANT,
                                  .blocks = m.blocks,
                                  .block_count = m.n,
                                  .leaf = is_live};
    plan(&g, first * SLOT_HOUR, (first + (int64_t)DAYS * 24) * SLOT_HOUR,
         &out->counts[MONTH_PIECES], &out->counts[MONTH_MEMORY], &out->us[PLAN_MONTH]);
    many_release(&m);
}

// Each portion of a large question has an order of queriers (querier/peer).
static void simulate_sharing(const struct size *s, struct result *out)
{
    struct arena a;
    static const struct place_options all = {0};
    arena_init(&a, NULL, SIZE_MAX);
    struct member *queriers = make_members(&a, "querier", s->queriers);
    uint32_t *order = ARENA_ARRAY(&a, uint32_t, s->queriers);
    bool *used = ARENA_ARRAY(&a, bool, s->queriers);
    double began = cpu_us();
    for (uint32_t i = 0; i < PORTIONS; i++) {
        char object[24];
        place_order(queriers, s->queriers, &all, TENANT, node_name(object, "object", i), 0, order);
        used[order[0]] = true;
    }
    out->us[SHARE] = cpu_us() - began;
    for (uint32_t i = 0; i < s->queriers; i++)
        out->counts[PEERS] += used[i];
    arena_release(&a);
}

static struct result simulate(const struct size *s)
{
    struct result out = {0};
    simulate_placement(s, &out);
    simulate_streams(s, &out);
    simulate_replies(s, &out);
    simulate_hour(s, &out);
    simulate_month(s, &out);
    simulate_sharing(s, &out);
    out.counts[PROBES] = s->ingesters + s->queriers - 1;
    return out;
}

// ---- what is expected

static void print(const struct size *s, const struct result *r)
{
    printf("%u ingesters, %u series, %u queriers\n", s->ingesters, s->series, s->queriers);
    for (int i = 0; i < COUNTS; i++)
        printf("%12.2f  %s\n", r->counts[i], counts[i].name);
    for (int i = 0; i < STEPS; i++)
        printf("%12.2f  us of CPU: %s\n", r->us[i], steps[i]);
}

static void check(const struct size *s, const struct result *r)
{
    const double *c = r->counts;
    double n = s->ingesters;
    // The formulas of docs/scaling.md.
    assert_true(c[HEADS] <= 2.0 * s->series / s->sets);
    assert_true(c[UNEVEN] < 2);
    assert_true(c[MOVED] < 2);
    assert_true(c[STREAM_LISTS] <= 1 + n / 1000 && c[STREAM_READS] <= 0);
    assert_true(c[LIVE_LISTS] <= 1 + (WAITING * n + 64) / 1000 && c[LIVE_READS] <= 0);
    assert_true(c[ANSWERS] >= n && c[ANSWERS] <= n);
    assert_true(c[SEGMENTS] >= WAITING * n && c[SEGMENTS] <= WAITING * n);
    assert_true(c[HOUR_PIECES] <= WAITING * n);
    assert_true(c[MONTH_PIECES] <= c[BLOCKS] / 24);
}

// Twice the size: counts that are linear may double, and a quarter more for tables that grow by
// doubling. The square would be four times as much.
static void check_growth(const struct result *small, const struct result *large)
{
    for (int i = 0; i < COUNTS; i++) {
        double most = counts[i].growth == LINEAR ? 2.5 : 1.0;
        if (counts[i].growth == FREE || large->counts[i] <= most * small->counts[i] + 16) continue;
        fprintf(stderr, "simulate: %s: %.0f and, at twice the size, %.0f\n", counts[i].name,
                small->counts[i], large->counts[i]);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        const struct size s = {(uint32_t)strtoul(argv[1], NULL, 10),
                               (uint32_t)strtoul(argv[2], NULL, 10),
                               (uint32_t)strtoul(argv[3], NULL, 10), 200};
        if (s.ingesters < 2 || s.series < s.sets || s.queriers < 1) return 2;
        struct result r = simulate(&s);
        print(&s, &r);
        check(&s, &r);
        return fflush(stdout) != 0;
    }
    if (argc != 1) {
        fprintf(stderr, "usage: simulate [INGESTERS SERIES QUERIERS]\n");
        return 2;
    }
    struct result before = {0};
    for (uint32_t n = 16; n <= 64; n *= 2) {
        const struct size s = {n, n * 1000, n / 2, 20};
        struct result r = simulate(&s);
        print(&s, &r);
        check(&s, &r);
        if (n > 16) check_growth(&before, &r);
        before = r;
    }
    return fflush(stdout) != 0;
}
