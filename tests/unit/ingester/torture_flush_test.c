// SPDX-License-Identifier: Apache-2.0
//
// A flush whose allocations and calls fail, one after the other: what was told to be in the store
// is there, everything else is in head and log still, and a question finds each row once.
#include "flush_world.h"
#include "ingester/head/head_segment.h"
#include "lib/torture.h"
#include "sys/log.h"

// ---- a segment alone

struct head_store {
    struct head *head;
    struct cut cut;
    struct head_piece piece;
};

static str shelf_services[] = {S_INIT("api"), S_INIT("db"), S_INIT("web")};

static void head_store_fill(struct head_store *s)
{
    struct arena a;
    struct dice d = {5};
    arena_init(&a, NULL, SIZE_MAX);
    *s = (struct head_store){.head = head_new(NULL, 0)};
    lock_init(&s->cut.lock, LOCK_CUT);
    s->cut.number = 1;
    for (size_t i = 0; i < 12; i++) {
        struct batch b;
        struct staged *staged = NULL;
        struct fact f = fact_roll(&d, 500 * HOUR + 1, HOUR);
        str bytes = rich_batch(&a, &d, &f, 1, &b);
        struct batch decoded;
        assert_ok(batch_decode(&a, bytes, &decoded, e));
        assert_ok(head_stage(s->head, &a, S("one"), &decoded, NULL, &staged, e));
        head_publish(staged, &s->cut);
    }
    arena_release(&a);
}

static void head_store_empty(struct head_store *s)
{
    head_free(s->head);
    lock_release(&s->cut.lock);
}

static bool put_bytes(void *arg, str bytes, err *e)
{
    struct buf *out = arg;
    buf_str(out, bytes);
    return buf_ok(out, e);
}

static bool make_segment(struct torture_bench *b, void *arg, err *e)
{
    struct head_store *s = arg;
    struct req r;
    struct block_written written;
    struct head_segment ask = {.cut = &s->cut,
                               .piece = {.tenant = S("one"),
                                         .hour = 500,
                                         .services = shelf_services,
                                         .service_count = COUNT(shelf_services)},
                               .memory = &b->budget,
                               .sink = put_bytes,
                               .arg = &b->out};
    req_init(&r, RANK_DUTY, &b->budget, SIZE_MAX, 0);
    bool ok = head_segment(s->head, &r, &ask, &written, e);
    req_release(&r);
    return ok;
}

static bool make_pieces(struct torture_bench *b, void *arg, err *e)
{
    struct head_store *s = arg;
    struct head_piece *v = NULL;
    size_t n = 0;
    if (!head_pieces(s->head, &s->cut, &b->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        buf_printf(&b->out, "%.*s %lld %llu\n", STR(v[i].tenant), (long long)v[i].hour,
                   (unsigned long long)v[i].rows);
    return buf_ok(&b->out, e);
}

static bool make_keys(struct torture_bench *b, void *arg, err *e)
{
    struct head_store *s = arg;
    struct loose_set keys;
    struct head_piece piece = {.tenant = S("one"),
                               .hour = 500,
                               .services = shelf_services,
                               .service_count = COUNT(shelf_services)};
    loose_init(&keys, &b->arena, &b->budget, SIZE_MAX);
    bool ok = head_piece_keys(s->head, &s->cut, &piece, &keys, e);
    buf_printf(&b->out, "%u", keys.n);
    loose_release(&keys);
    return ok && buf_ok(&b->out, e);
}

static void a_segment_is_whole_or_refused(void **state)
{
    (void)state;
    static struct head_store s;
    head_store_fill(&s);
    const struct torture_maker makers[] = {
        {.name = "ingester.segment", .make = make_segment, .arg = &s, .most = 150},
        {.name = "ingester.pieces", .make = make_pieces, .arg = &s},
        {.name = "ingester.keys", .make = make_keys, .arg = &s},
    };
    torture_make_all(makers, COUNT(makers));
    head_store_empty(&s);
}

// ---- a flush of all

static void begin(void *arg)
{
    struct world *x = arg;
    log_set_level(LOG_ERROR + 1);  // failures are what is wanted here
    world_start(x, 3, "--ingester.flush_width=1");
    for (size_t i = 0; i < 4; i++)
        push(x, 3, HOUR);
}

// A flush waits for a log that cannot be opened as long as its request may take.
static bool flush_it(void *arg, err *e)
{
    struct world *x = arg;
    struct flush_totals done;
    return flush_within(x, torture_disturbs() ? 3 : 60, &done, e);
}

static void check_it(void *arg, bool done)
{
    struct world *x = arg;
    // A log that could not be written is opened again meanwhile.
    AWAIT((duty_wake(x->w.in), wal_state(x->w.in->wal) == WAL_OPEN));
    if (done) assert_int_equal(segments(x), hours_of(x));
    check(x);
}

static void end(void *arg)
{
    world_end(arg);
}

static void a_flush_is_in_the_store_or_refused(void **state)
{
    (void)state;
    static struct world x;
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.flush",
                                                                 .begin = begin,
                                                                 .run = flush_it,
                                                                 .check = check_it,
                                                                 .end = end,
                                                                 .arg = &x,
                                                                 .hurries = true,
                                                                 .most = 16});
    assert_true(n.allocations > 50);
}

// ---- a look into the store: the creations landed unnoticed

static void begin_unnoticed(void *arg)
{
    struct world *x = arg;
    struct flush_totals done;
    err fault = {0};
    begin(arg);
    memstore_fail(x->store, MEMSTORE_CREATE, MEMSTORE_LANDS, 2, UINT64_MAX);
    assert_false(flush(x, &done, &fault));
}

// Healed here, because the ingester tries again by itself and would have looked before.
static bool heal_and_flush(void *arg, err *e)
{
    memstore_heal(((struct world *)arg)->store);
    return flush_it(arg, e);
}

static void a_look_into_the_store_is_whole_or_tried_again(void **state)
{
    (void)state;
    static struct world x;
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.look",
                                                                 .begin = begin_unnoticed,
                                                                 .run = heal_and_flush,
                                                                 .check = check_it,
                                                                 .end = end,
                                                                 .arg = &x,
                                                                 .no_calls = true,
                                                                 .hurries = true,
                                                                 .most = 16});
    assert_true(n.allocations > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_whole_or_refused),
        cmocka_unit_test(a_flush_is_in_the_store_or_refused),
        cmocka_unit_test(a_look_into_the_store_is_whole_or_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
