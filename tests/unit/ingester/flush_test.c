// SPDX-License-Identifier: Apache-2.0
//
// Closed cuts become segments: every row in every field, each exactly once whatever happens on the
// way. A question is answered here as the querier does it: the head, then what it does not name.
#include "flush_world.h"
#include "ingester/head/head_segment.h"
#include "sys/thread.h"

// ---- tests

static void a_flushed_cut_is_in_the_store_row_by_row(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct world x;
        struct flush_totals done = {0};
        world_start(&x, seed, "");
        for (size_t i = 0; i < 60; i++)
            push(&x, 1 + roll(&x.dice, 8), (seed % 2 ? 1 : 40) * HOUR);
        check(&x);
        assert_int_equal(rows_held(&x), x.rows);
        assert_ok(flush(&x, &done, e));
        assert_int_equal(done.cuts, 1);
        assert_int_equal(done.rows, x.rows);
        assert_int_equal(done.segments, hours_of(&x));
        assert_int_equal(segments(&x), done.segments);
        check(&x);
        AWAIT(rows_held(&x) == 0 && wal_cuts(x.w.in->wal, NULL, 0) == 0);
        check(&x);
        world_end(&x);
    }
}

static void what_comes_later_goes_into_segments_of_its_own(void **state)
{
    (void)state;
    struct world x;
    struct flush_totals done = {0};
    world_start(&x, 11, "");
    for (size_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < 8; i++)
            push(&x, 1 + roll(&x.dice, 8), HOUR);
        check(&x);
        assert_ok(flush(&x, &done, e));
        assert_int_equal(done.cuts, 1);
        check(&x);
    }
    assert_ok(flush(&x, &done, e));
    assert_int_equal(done.cuts + done.segments + done.rows + done.bytes, 0);
    world_end(&x);
}

static void hundreds_of_hours_in_one_cut_become_as_many_segments(void **state)
{
    (void)state;
    struct world x;
    struct flush_totals done = {0};
    world_start(&x, 21, "--ingester.flush_memory=16MiB --ingester.flush_width=4");
    for (size_t i = 0; i < 250; i++)
        push(&x, 1 + roll(&x.dice, 8), 30 * 24 * HOUR);
    assert_ok(flush(&x, &done, e));
    assert_int_equal(done.rows, x.rows);
    assert_true(done.segments > 400);
    assert_int_equal(done.segments, hours_of(&x));
    check(&x);
    world_end(&x);
}

static void a_creation_that_landed_all_the_same_counts_once(void **state)
{
    (void)state;
    struct world x;
    struct flush_totals done = {0};
    err fault = {0};
    world_start(&x, 31, "--ingester.flush_width=1");
    for (size_t i = 0; i < 20; i++)
        push(&x, 1 + roll(&x.dice, 8), 3 * HOUR);
    // The first creation notes the tenant.
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_LANDS, 2, 3);
    assert_false(flush(&x, &done, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    check(&x);
    memstore_heal(x.store);
    assert_ok(flush(&x, &done, e));
    check(&x);
    assert_int_equal(segments(&x), hours_of(&x));
    AWAIT(rows_held(&x) == 0);
    check(&x);
    world_end(&x);
}

static void a_store_that_fails_is_tried_again_and_told(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    struct world x;
    struct flush_totals done = {0};
    err fault = {0};
    world_start(&x, 41, "--ingester.head_memory=1MiB");
    uint64_t failures = count_of(&ingester_flush_failures);
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    push(&x, 8, HOUR);
    assert_false(flush(&x, &done, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_true(count_of(&ingester_flush_failures) > failures);
    check(&x);
    // Ingest goes on until the head is full, which then says whose fault it is.
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    bool refused = false;
    fault = (err){0};
    for (size_t i = 0; i < 20000 && !refused; i++) {
        struct batch b;
        struct fact f = fact_roll(&x.dice, clock_wall_ns() - HOUR, HOUR);
        str bytes = rich_batch(&a, &x.dice, &f, 1, &b);
        str tenant = str_of(fact_tenants[f.tenant]);
        refused = !push_bytes(&x, tenant, bytes, &fault);
        if (refused) break;
        lines_of_batch(&x.want[f.tenant], tenant, &b);
    }
    arena_release(&a);
    assert_true(refused);
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(fault.msg, "the object store has not taken profiles for "));
    assert_non_null(strstr(fault.msg, "ingester.head_memory"));
    // It recovers by itself.
    memstore_heal(x.store);
    AWAIT(wal_count(x.w.in->wal).closed_cuts == 0);
    assert_ok(flush(&x, &done, e));
    AWAIT(rows_held(&x) == 0);  // most of it was in the open cut
    // The full head had no room for the ids of all that left it, which is told.
    assert_true(head_knows_ids_ns(x.w.in->head) < RECENT_IDS_NS);
    rich_batch_ids = false;
    push(&x, 8, HOUR);
    rich_batch_ids = true;
    check(&x);
    assert_ok(flush(&x, &done, e));
    check(&x);
    world_end(&x);
}

// The store has everything, head and log have it still, and the process starts again.
static void after_a_restart_what_is_covered_is_not_written_again(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    struct world x;
    err fault = {0};
    struct flush_totals done = {0};
    world_start(&x, 51, "");
    for (size_t i = 0; i < 30; i++)
        push(&x, 1 + roll(&x.dice, 8), 20 * HOUR);
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_LANDS, 2, UINT64_MAX);
    assert_false(flush(&x, &done, &fault));
    restart(&x);
    memstore_heal(x.store);
    check(&x);
    push(&x, 8, 20 * HOUR);
    AWAIT(wal_count(x.w.in->wal).closed_cuts == 0);
    check(&x);
    assert_ok(flush(&x, &done, e));
    assert_true(done.rows >= 8 && done.rows <= 16);
    check(&x);
    AWAIT(rows_held(&x) == 0);
    world_end(&x);
#else
    skip();
#endif
}

// ---- borders

static void fact_push(struct world *x, struct arena *a, const struct fact *f)
{
    struct batch b;
    str tenant = str_of(fact_tenants[f->tenant]);
    str bytes = fact_batch(a, f, 1);
    assert_ok(batch_decode(a, bytes, &b, e));
    assert_ok(push_bytes(x, tenant, bytes, e));
    lines_of_batch(&x->want[f->tenant], tenant, &b);
    x->rows++;
}

// An hour has its end and not its beginning.
static void profiles_on_the_border_of_an_hour_are_in_the_one_that_ends(void **state)
{
    (void)state;
    struct world x;
    struct arena a;
    struct flush_totals done = {0};
    world_start(&x, 101, "");
    arena_init(&a, NULL, SIZE_MAX);
    int64_t hour = slot_of(clock_wall_ns(), SLOT_HOUR) - 5;
    for (int64_t d = -1; d <= 1; d++) {
        struct fact f = fact_roll(&x.dice, 1, 1);
        f.tenant = 0;
        f.time_ns = slot_start(hour, SLOT_HOUR) + d;
        fact_push(&x, &a, &f);
    }
    assert_ok(flush(&x, &done, e));
    assert_int_equal(done.segments, 2);
    check(&x);
    arena_release(&a);
    world_end(&x);
}

// Their sum has no place in a node; the rows are kept all the same.
static void values_whose_sum_is_too_large_are_flushed(void **state)
{
    (void)state;
    struct world x;
    struct arena a;
    struct flush_totals done = {0};
    world_start(&x, 103, "");
    arena_init(&a, NULL, SIZE_MAX);
    int64_t at = slot_start(slot_of(clock_wall_ns(), SLOT_HOUR) - 5, SLOT_HOUR);
    for (int64_t i = 0; i < 6; i++) {
        struct fact f = fact_roll(&x.dice, at + 1 + i, 1);
        f.tenant = 0;
        f.service = 0;
        f.type = i < 4 ? 0 : 1;
        f.n = 1;
        f.entries[0].value = f.total = i < 4 ? INT64_MAX - i : i;
        fact_push(&x, &a, &f);
    }
    assert_ok(flush(&x, &done, e));
    assert_int_equal(done.rows, 6);
    check(&x);
    arena_release(&a);
    world_end(&x);
}

static void a_profile_from_before_1970_is_refused_where_there_is_a_store(void **state)
{
    (void)state;
    struct world x;
    struct arena a;
    err fault = {0};
    world_start(&x, 105, "--ingester.head_age=30000d");
    arena_init(&a, NULL, SIZE_MAX);
    struct fact f = fact_roll(&x.dice, 0, 1);
    assert_false(push_bytes(&x, S("one"), fact_batch(&a, &f, 1), &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(fault.msg, "1970"));
    f.time_ns = 1;
    f.tenant = 0;
    fact_push(&x, &a, &f);
    struct flush_totals done = {0};
    assert_ok(flush(&x, &done, e));
    check(&x);
    arena_release(&a);
    world_end(&x);
}

// ---- parts that others wrote

static bool segment_sink(void *arg, str bytes, err *e)
{
    struct buf *out = arg;
    buf_str(out, bytes);
    return buf_ok(out, e);
}

// A segment of the open cut that has only some rows, as if somebody else had flushed them: the
// first of the batches that were pushed.
static void put_part(struct world *x, str tenant, str batch, uint32_t part, int64_t hour)
{
    struct arena a;
    struct req r;
    struct batch b;
    struct buf bytes;
    struct staged *s = NULL;
    struct block_written written;
    struct wal_cut open[4];
    bool existed = true;
    size_t n = wal_list_cuts(x->w.in->wal, open, COUNT(open));
    assert_int_equal(n, 1);
    struct cut cut = {.stream = open[0].stream, .number = open[0].number};
    struct head *head = head_new(NULL, 0);
    lock_init(&cut.lock, LOCK_CUT);
    arena_init(&a, NULL, SIZE_MAX);
    req_init(&r, RANK_DUTY, NULL, SIZE_MAX, 0);
    buf_init(&bytes, NULL, SIZE_MAX);
    assert_ok(batch_decode(&a, batch, &b, e));
    b.placing = TEST_PLACING;
    assert_ok(head_stage(head, &a, tenant, &b, NULL, &s, e));
    head_publish(s, &cut);
    struct head_segment ask = {
        .cut = &cut,
        .piece = {.tenant = tenant, .hour = hour, .services = &b.service, .service_count = 1},
        .sink = segment_sink,
        .arg = &bytes};
    assert_ok(head_segment(head, &r, &ask, &written, e));
    struct segment_name name = {hour, cut.stream, cut.number, part};
    assert_ok(
        store_put(x->store, &r, name_segment(&a, tenant, &name), buf_view(&bytes), &existed, e));
    assert_false(existed);
    buf_release(&bytes);
    head_free(head);
    lock_release(&cut.lock);
    req_release(&r);
    arena_release(&a);
}

struct parts {
    struct world x;
    str tenant;
    size_t tenant_row;
    int64_t hour;
    struct arena arena;
    str batches[4];
};

// Batches of one tenant and hour.
static void parts_start(struct parts *p, uint64_t seed)
{
    struct world *x = &p->x;
    world_start(x, seed, "--ingester.flush_width=1");
    arena_init(&p->arena, NULL, SIZE_MAX);
    p->tenant_row = roll(&x->dice, 2);
    p->tenant = str_of(fact_tenants[p->tenant_row]);
    p->hour = slot_of(clock_wall_ns(), SLOT_HOUR) - 2;
    for (size_t i = 0; i < COUNT(p->batches); i++) {
        struct fact facts[5];
        struct batch b;
        for (size_t k = 0; k < COUNT(facts); k++) {
            facts[k] = fact_roll(&x->dice, slot_start(p->hour, SLOT_HOUR) + 1, HOUR - 1);
            facts[k].tenant = (unsigned)p->tenant_row;
            facts[k].service = facts[0].service;
        }
        p->batches[i] = rich_batch(&p->arena, &x->dice, facts, COUNT(facts), &b);
        assert_ok(push_bytes(x, p->tenant, p->batches[i], e));
        lines_of_batch(&x->want[p->tenant_row], p->tenant, &b);
        x->rows += b.record_count;
    }
}

static void parts_end(struct parts *p)
{
    arena_release(&p->arena);
    world_end(&p->x);
}

static void a_part_that_is_there_is_compared_and_the_remainder_becomes_the_next(void **state)
{
    (void)state;
    struct parts p;
    struct flush_totals done = {0};
    err fault = {0};
    parts_start(&p, 61);
    put_part(&p.x, p.tenant, p.batches[0], 0, p.hour);
    put_part(&p.x, p.tenant, p.batches[2], 1, p.hour);
    check(&p.x);  // named with part 0: neither counts twice
    // The third creation would be of part 2.
    memstore_fail(p.x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 3, UINT64_MAX);
    assert_false(flush(&p.x, &done, &fault));
    assert_true(rows_held(&p.x) < p.x.rows && rows_held(&p.x) > 0);
    check(&p.x);  // the head has a remainder from part 2 on
    uint64_t before = count_of(&ingester_flush_profiles);
    memstore_heal(p.x.store);
    assert_ok(flush(&p.x, &done, e));
    // Counted here, because the ingester tries again by itself and may have come first.
    uint64_t written = count_of(&ingester_flush_profiles) - before;
    assert_true(written > 0 && written < p.x.rows);
    assert_int_equal(segments(&p.x), 3);
    check(&p.x);
    AWAIT(rows_held(&p.x) == 0);
    check(&p.x);
    parts_end(&p);
}

// ---- absorbed parts

// Asks the head as the querier does when a leaf has what the head names.
static void refresh(struct parts *p)
{
    struct req r;
    struct buf message;
    struct buf answer;
    struct wal_cut cuts[4];
    size_t n = wal_list_cuts(p->x.w.in->wal, cuts, COUNT(cuts));
    req_init(&r, RANK_INGESTER, &p->x.w.memory, SIZE_MAX, 0);
    r.tenant = p->tenant;
    buf_init(&message, NULL, 1 << 20);
    buf_init(&answer, NULL, 1 << 20);
    pb_put_i64_opt(&message, 2, slot_start(p->hour, SLOT_HOUR));
    pb_put_i64_opt(&message, 3, slot_start(p->hour + 1, SLOT_HOUR));
    for (size_t i = 0; i < n; i++) {
        size_t mark = pb_begin(&message, 8);
        pb_put_bytes(&message, 1, str_make(cuts[i].stream.b, sizeof cuts[i].stream.b));
        pb_put_u64_opt(&message, 2, cuts[i].number);
        pb_put_i64_opt(&message, 4, p->hour);
        pb_end(&message, mark);
    }
    assert_ok(read_run(p->x.w.in, &r, buf_view(&message), &answer, e));
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
}

static void what_a_leaf_has_leaves_the_head_when_a_question_says_so(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        const bool whole = how & 1;
        struct parts p;
        struct flush_totals done = {0};
        err fault = {0};
        parts_start(&p, 71 + how);
        if (whole) {
            // The creation lands unnoticed.
            memstore_fail(p.x.store, MEMSTORE_CREATE, MEMSTORE_LANDS, 2, 1);
            assert_false(flush(&p.x, &done, &fault));
            memstore_fail(p.x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
        } else {
            put_part(&p.x, p.tenant, p.batches[1], 0, p.hour);
            memstore_fail(p.x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
            assert_false(flush(&p.x, &done, &fault));
        }
        check(&p.x);
        world_absorb(&p.x, p.tenant, p.hour, how & 2);
        refresh(&p);
        check(&p.x);
        if (whole) assert_int_equal(rows_held(&p.x), 0);
        memstore_heal(p.x.store);
        assert_ok(flush(&p.x, &done, e));
        AWAIT(rows_held(&p.x) == 0);
        check(&p.x);
        parts_end(&p);
    }
}

// The creation lands unnoticed, is absorbed, and its leaf expires before anybody looks.
static void what_an_expired_leaf_had_is_not_written_again(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        struct parts p;
        struct flush_totals done = {0};
        err fault = {0};
        parts_start(&p, 91 + how);
        memstore_fail(p.x.store, MEMSTORE_CREATE, MEMSTORE_LANDS, 2, 1);
        memstore_fail(p.x.store, MEMSTORE_READ, MEMSTORE_FAILS, 1, UINT64_MAX);  // nobody looks
        assert_false(flush(&p.x, &done, &fault));
        world_absorb(&p.x, p.tenant, p.hour, how & 1);
        world_expire(&p.x, p.tenant);
        memstore_heal(p.x.store);
        if (how & 2) restart(&p.x);
        refresh(&p);
        assert_int_equal(rows_held(&p.x), 0);
        assert_ok(flush(&p.x, &done, e));
        assert_int_equal(done.segments, 0);
        assert_int_equal(segments(&p.x), how & 1 ? 0 : 1);
        parts_end(&p);
    }
}

static void of_an_expired_leaf_the_segment_tells_what_it_had_as_long_as_it_is_there(void **state)
{
    (void)state;
    struct parts p;
    struct flush_totals done = {0};
    parts_start(&p, 99);
    put_part(&p.x, p.tenant, p.batches[1], 0, p.hour);
    world_absorb(&p.x, p.tenant, p.hour, false);
    world_expire(&p.x, p.tenant);
    assert_ok(flush(&p.x, &done, e));
    assert_int_equal(done.segments, 1);
    assert_true(done.rows > 0 && done.rows < p.x.rows);
    assert_int_equal(segments(&p.x), 2);
    parts_end(&p);
}

// A client that did not see the answer pushes again, after the profile went to the store.
static void what_comes_again_after_its_flush_counts_once(void **state)
{
    (void)state;
    struct parts p;
    struct flush_totals done = {0};
    parts_start(&p, 65);
    for (size_t round = 0; round < 3; round++) {
        assert_ok(flush(&p.x, &done, e));
        assert_int_equal(done.rows, round ? 0 : p.x.rows);
        AWAIT(rows_held(&p.x) == 0);
        for (size_t i = 0; i < COUNT(p.batches); i++)
            assert_ok(push_bytes(&p.x, p.tenant, p.batches[i], e));
        assert_int_equal(rows_held(&p.x), 0);
        check(&p.x);
    }
    parts_end(&p);
}

// The same, and meanwhile the process ended, at once after the flush or a while later.
static void what_comes_again_after_a_restart_counts_once(void **state)
{
    (void)state;
    struct parts p;
    struct flush_totals done = {0};
    parts_start(&p, 66);
    for (size_t round = 0; round < 3; round++) {
        assert_ok(flush(&p.x, &done, e));
        AWAIT(rows_held(&p.x) == 0 && wal_cuts(p.x.w.in->wal, NULL, 0) == 0);
        restart(&p.x);
        for (size_t i = 0; i < COUNT(p.batches); i++)
            assert_ok(push_bytes(&p.x, p.tenant, p.batches[i], e));
        assert_int_equal(rows_held(&p.x), 0);
        check(&p.x);
        push(&p.x, 5, HOUR);
        check(&p.x);
    }
    parts_end(&p);
}

// A batch of which some profiles are known: what is new is in the log, and only that. So what was
// flushed with another cut does not come back from this one.
static void what_is_known_is_not_logged_again(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct world x;
        struct arena a;
        struct batch first;
        struct batch both;
        struct fact facts[8];
        struct dice same = {seed};
        struct flush_totals done = {0};
        err fault = {0};
        world_start(&x, 100 + seed, "--ingester.flush_width=1");
        arena_init(&a, NULL, SIZE_MAX);
        int64_t half_past = clock_wall_ns() / HOUR * HOUR - HOUR / 2;
        for (size_t i = 0; i < COUNT(facts); i++) {
            facts[i] = fact_roll(&x.dice, half_past, 1000);
            facts[i].tenant = facts[0].tenant;
            facts[i].service = facts[0].service;
        }
        str tenant = str_of(fact_tenants[facts[0].tenant]);
        struct dice again = same;
        assert_ok(push_bytes(&x, tenant, rich_batch(&a, &same, facts, 4, &first), e));
        // The tenant and the first segment are created, by the ingester itself perhaps, and nothing
        // else.
        memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 3, UINT64_MAX);
        assert_ok(wal_cut_now(x.w.in->wal, e));
        assert_ok(push_bytes(&x, tenant, rich_batch(&a, &again, facts, 8, &both), e));
        lines_of_batch(&x.want[facts[0].tenant], tenant, &both);
        check(&x);
        assert_false(flush(&x, &done, &fault));
        AWAIT(wal_cuts(x.w.in->wal, NULL, 0) == 1);
        uint64_t held = rows_held(&x);
        check(&x);
        restart(&x);
        assert_int_equal(rows_held(&x), held);
        check(&x);
        memstore_heal(x.store);
        assert_ok(flush(&x, &done, e));
        AWAIT(rows_held(&x) == 0);
        check(&x);
        arena_release(&a);
        world_end(&x);
    }
}

// ---- all at once

#define PUSHERS 2
#define PUSHES  60

struct crowd {
    struct world x;
    struct lock lock;
    struct lines acked[COUNT(fact_tenants)];
    atomic_bool over;
    _Atomic unsigned pushing;
    _Atomic unsigned pushed;
    _Atomic uint64_t questions;
};

struct pusher {
    struct crowd *crowd;
    struct dice dice;
};

static void *push_many(void *arg)
{
    struct pusher *p = arg;
    struct crowd *c = p->crowd;
    for (size_t i = 0; i < PUSHES; i++) {
        struct arena a;
        struct batch b;
        struct fact f = fact_roll(&p->dice, clock_wall_ns() - 3 * HOUR, 3 * HOUR);
        arena_init(&a, NULL, SIZE_MAX);
        str tenant = str_of(fact_tenants[f.tenant]);
        str bytes = rich_batch(&a, &p->dice, &f, 1, &b);
        assert_ok(push_bytes(&c->x, tenant, bytes, e));
        lock_take(&c->lock);
        lines_of_batch(&c->acked[f.tenant], tenant, &b);
        lock_give(&c->lock);
        atomic_fetch_add(&c->pushed, 1);
        arena_release(&a);
    }
    atomic_fetch_sub(&c->pushing, 1);
    return NULL;
}

static void *flush_often(void *arg)
{
    struct crowd *c = arg;
    struct flush_totals done;
    while (!atomic_load(&c->over)) {
        unsigned before = atomic_load(&c->pushed);
        assert_ok(flush(&c->x, &done, e));
        AWAIT(atomic_load(&c->over) || atomic_load(&c->pushed) > before);
    }
    return NULL;
}

// Nothing twice, and nothing missing that was acknowledged before the question.
static void ask(struct crowd *c, size_t tenant)
{
    struct req r;
    struct lines got;
    lock_take(&c->lock);
    size_t n = c->acked[tenant].n;
    lock_give(&c->lock);
    req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    lines_init(&got);
    assert_true(lines_of_question(&got, &c->x.w, str_of(fact_tenants[tenant]), &r));
    lines_sort(&got);
    for (size_t i = 1; i < got.n; i++) {
        if (str_eq(got.v[i - 1], got.v[i])) fail_msg("twice: %.*s", STR(got.v[i]));
    }
    lock_take(&c->lock);
    for (size_t i = 0; i < n; i++) {
        str line = c->acked[tenant].v[i];
        if (!bsearch(&line, got.v, got.n, sizeof line, lines_order))
            fail_msg("lost: %.*s", STR(line));
    }
    lock_give(&c->lock);
    lines_release(&got);
    req_release(&r);
    atomic_fetch_add(&c->questions, 1);
}

static void pushes_questions_and_flushes_go_on_at_once(void **state)
{
    (void)state;
    static struct crowd c;
    pthread_t threads[PUSHERS + 1];
    struct pusher pushers[PUSHERS];
    world_start(&c.x, 81, "--ingester.flush_width=3");
    lock_init(&c.lock, LOCK_SELFPROFILE);
    for (size_t i = 0; i < COUNT(c.acked); i++)
        lines_init(&c.acked[i]);
    atomic_store(&c.pushing, PUSHERS);
    for (size_t i = 0; i < PUSHERS; i++) {
        pushers[i] = (struct pusher){&c, {900 + i}};
        assert_ok(thread_start(&threads[i], "pusher", push_many, &pushers[i], e));
    }
    assert_ok(thread_start(&threads[PUSHERS], "flusher", flush_often, &c, e));
    while (atomic_load(&c.pushing) || atomic_load(&c.questions) < 20)
        ask(&c, atomic_load(&c.questions) % COUNT(c.acked));
    atomic_store(&c.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        thread_join(threads[i]);
    for (size_t i = 0; i < COUNT(c.acked); i++)
        lines_release(&c.acked[i]);
    lock_release(&c.lock);
    world_end(&c.x);
}

// ---- the end of the process

static void what_is_open_is_flushed_when_the_process_ends(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    struct world x;
    world_start(&x, 91, "");
    for (size_t i = 0; i < 10; i++)
        push(&x, 8, 3 * HOUR);
    ingester.drain(x.w.in, clock_mono_ns() + (uint64_t)(60 * NS_PER_S));
    assert_int_equal(segments(&x), hours_of(&x));
    restart(&x);
    assert_int_equal(rows_held(&x), 0);
    assert_int_equal(wal_cuts(x.w.in->wal, NULL, 0), 0);
    check(&x);
    // Without time it stays in the log.
    push(&x, 8, 3 * HOUR);
    whole_stop(&x.w);
    start(&x);
    check(&x);
    // So it does if the store takes nothing.
    push(&x, 8, 3 * HOUR);
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    ingester.drain(x.w.in, clock_mono_ns() + (uint64_t)(NS_PER_S / 10));
    restart(&x);
    check(&x);
    world_end(&x);
}

// One object a cut, tenant and hour, one of the tenant; nothing is read of what is new.
static void few_things_are_asked_of_the_store(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    struct world x;
    struct flush_totals done = {0};
    world_start(&x, 95, "");
    for (size_t round = 1; round <= 6; round++) {
        push(&x, 8, 1);
        assert_ok(flush(&x, &done, e));
        struct memstore_totals t = memstore_totals(x.store);
        assert_true(t.ops[MEMSTORE_CREATE] <= round + COUNT(fact_tenants));
        assert_int_equal(t.ops[MEMSTORE_READ] + t.ops[MEMSTORE_LIST] + t.ops[MEMSTORE_DELETE], 0);
    }
    world_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flushed_cut_is_in_the_store_row_by_row),
        cmocka_unit_test(what_comes_later_goes_into_segments_of_its_own),
        cmocka_unit_test(hundreds_of_hours_in_one_cut_become_as_many_segments),
        cmocka_unit_test(a_creation_that_landed_all_the_same_counts_once),
        cmocka_unit_test(a_store_that_fails_is_tried_again_and_told),
        cmocka_unit_test(after_a_restart_what_is_covered_is_not_written_again),
        cmocka_unit_test(profiles_on_the_border_of_an_hour_are_in_the_one_that_ends),
        cmocka_unit_test(values_whose_sum_is_too_large_are_flushed),
        cmocka_unit_test(a_profile_from_before_1970_is_refused_where_there_is_a_store),
        cmocka_unit_test(a_part_that_is_there_is_compared_and_the_remainder_becomes_the_next),
        cmocka_unit_test(what_a_leaf_has_leaves_the_head_when_a_question_says_so),
        cmocka_unit_test(what_an_expired_leaf_had_is_not_written_again),
        cmocka_unit_test(of_an_expired_leaf_the_segment_tells_what_it_had_as_long_as_it_is_there),
        cmocka_unit_test(what_comes_again_after_its_flush_counts_once),
        cmocka_unit_test(what_comes_again_after_a_restart_counts_once),
        cmocka_unit_test(what_is_known_is_not_logged_again),
        cmocka_unit_test(pushes_questions_and_flushes_go_on_at_once),
        cmocka_unit_test(what_is_open_is_flushed_when_the_process_ends),
        cmocka_unit_test(few_things_are_asked_of_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
