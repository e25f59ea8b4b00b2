// SPDX-License-Identifier: Apache-2.0
//
// An ingester whose allocations, file calls and calls of RocksDB fail: while it starts and reads
// its log back, while it appends, while cuts close and go, while it opens its log again, while it
// answers. What was refused does not show, what was acknowledged is there once.
#include "flametree/v1/internal.pb-c.h"
#include "ingester/log/wal_int.h"
#include "lib/memstore.h"
#include "lib/torture.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "whole.h"

#define KEPT 12  // facts that are there from the beginning
#define NEW  3   // facts of one append

struct place {
    char dir[DIR_MAX];
    struct whole w;
    struct dice dice;
    struct fact kept[KEPT];
    struct fact fresh[NEW];
    struct arena arena;  // of the message
    struct buf message;
};

// Facts of one tenant and service, which come in time.
static struct fact roll_fact(struct dice *d)
{
    struct fact f = fact_roll(d, clock_wall_ns() - 60 * NS_PER_S, 50 * NS_PER_S);
    f.tenant = 0;
    f.sampled = false;
    return f;
}

// The duty thread looks every second; it need not be waited for.
static void await_ready(struct whole *w)
{
    struct buf why;
    buf_init(&why, NULL, 4096);
    AWAIT((duty_wake(w->in), buf_clear(&why),
           ingester.ready(w->in, &why) && wal_state(w->in->wal) == WAL_OPEN));
    buf_release(&why);
}

static void place_open(struct place *p, const char *flags)
{
    *p = (struct place){.dice = {7}};
    log_set_level(LOG_ERROR + 1);  // failures are what is wanted here
    dir_new(p->dir);
    whole_start(&p->w, p->dir, flags);
    await_ready(&p->w);
    for (size_t i = 0; i < KEPT; i++) {
        p->kept[i] = roll_fact(&p->dice);
        assert_ok(whole_push(&p->w, &p->kept[i], 1, e));
    }
}

static void place_close(struct place *p)
{
    whole_stop(&p->w);
    dir_remove(p->dir);
}

static void check_kept(struct place *p)
{
    for (size_t i = 0; i < KEPT; i++)
        assert_int_equal(whole_holds(&p->w, &p->kept[i]), 1);
}

// ---- start and replay

static bool start(void *arg, err *e)
{
    struct place *p = arg;
    void *self = NULL;
    p->w.in = NULL;
    if (!ingester.start(&p->w.process, &self, e)) return false;
    p->w.in = self;
    // The log is read in the background: disturbed until it is read or a few tries of that have
    // failed, then it must get well.
    struct buf why;
    torture_spare(true);
    buf_init(&why, NULL, 4096);
    AWAIT((duty_wake(p->w.in), buf_clear(&why),
           ingester.ready(p->w.in, &why) || torture_failures() >= 8));
    buf_release(&why);
    torture_end();
    await_ready(&p->w);
    check_kept(p);
    ingester.drain(p->w.in, 0);
    ingester.stop(p->w.in);
    assert_int_equal(atomic_load(&p->w.memory.used), 0);
    return true;
}

static void a_start_reads_all_or_tells(void **state)
{
    (void)state;
    static struct place p;
    place_open(&p, "");
    ingester.drain(p.w.in, 0);
    ingester.stop(p.w.in);
    struct torture_count n = torture_work(&(struct torture_work){
        .name = "ingester.start", .run = start, .arg = &p, .is_start = true, .most = 12});
    assert_true(n.allocations > 20 && n.calls > 10);
    void *self = NULL;
    assert_ok(ingester.start(&p.w.process, &self, e));
    p.w.in = self;
    await_ready(&p.w);
    place_close(&p);
}

// ---- append

static void append_begin(void *arg)
{
    struct place *p = arg;
    arena_init(&p->arena, NULL, 1 << 24);
    buf_init(&p->message, NULL, 1 << 24);
    for (size_t i = 0; i < NEW; i++) {
        p->fresh[i] = roll_fact(&p->dice);
        pb_put_bytes(&p->message, 1, fact_batch(&p->arena, &p->fresh[i], 1));
    }
    await_ready(&p->w);
}

static bool append(void *arg, err *e)
{
    struct place *p = arg;
    struct req r;
    struct buf answer;
    req_init(&r, RANK_INGESTER, &p->w.memory, SIZE_MAX, 0);
    r.tenant = str_of(fact_tenants[0]);
    buf_init(&answer, &p->w.memory, 1 << 20);
    bool ok = append_run(p->w.in, &r, buf_view(&p->message), &answer, e);
    buf_release(&answer);
    req_release(&r);
    return ok;
}

// An answer that could not be made is the one failure after which the rows are there.
static void append_check(void *arg, bool done)
{
    struct place *p = arg;
    await_ready(&p->w);
    uint64_t first = whole_holds(&p->w, &p->fresh[0]);
    for (size_t i = 0; i < NEW; i++) {
        uint64_t held = whole_holds(&p->w, &p->fresh[i]);
        assert_int_equal(held, done ? 1 : first);
    }
    check_kept(p);
}

static void append_end(void *arg)
{
    struct place *p = arg;
    buf_release(&p->message);
    arena_release(&p->arena);
}

static void an_append_is_whole_or_nothing(void **state)
{
    (void)state;
    static struct place p;
    place_open(&p, "");
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.append",
                                                                 .begin = append_begin,
                                                                 .run = append,
                                                                 .check = append_check,
                                                                 .end = append_end,
                                                                 .arg = &p,
                                                                 .lives_on = true,
                                                                 .most = 120});
    assert_true(n.failed > 10 && n.calls >= 1);
    place_close(&p);
}

// ---- cuts

struct log {
    char dir[DIR_MAX];
    struct store *store;  // NULL: on disk
    struct wal *wal;
    uint64_t acknowledged;
};

static int64_t now_ns = 1000 * NS_PER_S;

static int64_t tell_now(void)
{
    return now_ns;
}

static struct wal_options log_options(const struct log *l, uint64_t cut_bytes)
{
    return (struct wal_options){.dir = l->dir,
                                .owner = "ingester-0",
                                .buffers = 4 << 20,
                                .store = l->store,
                                .cut_bytes = cut_bytes,
                                .cut_age_ns = 600 * NS_PER_S,
                                .keep_ns = 10 * NS_PER_S,
                                .wall_ns = tell_now,
                                .boot_ns = tell_now};
}

static void log_begin(struct log *l, uint64_t cut_bytes, bool in_store)
{
    *l = (struct log){.store = in_store ? memstore_open() : NULL};
    dir_new(l->dir);
    struct wal_options o = log_options(l, cut_bytes);
    assert_ok((l->wal = wal_open(&o, e)));
    assert_ok(wal_begin(l->wal, e));
}

static void log_end(struct log *l)
{
    wal_drain(l->wal);
    wal_close(l->wal);
    store_close(l->store);
    dir_remove(l->dir);
}

static bool count_entry(void *arg, const struct wal_entry *entry, err *e)
{
    (void)entry;
    (void)e;
    ++*(uint64_t *)arg;
    return true;
}

static bool scan_all(struct wal *w, err *e)
{
    struct cut *cuts[64];
    size_t n = MIN(wal_cuts(w, cuts, COUNT(cuts)), COUNT(cuts));
    uint64_t entries = 0;
    for (size_t i = 0; i < n; i++) {
        if (wal_is_unread(cuts[i]) && !wal_scan(w, cuts[i], count_entry, &entries, e)) return false;
    }
    return true;
}

static bool get_well(struct wal *w, err *e)
{
    if (wal_state(w) == WAL_BROKEN && !wal_recover(w, e)) return false;
    return wal_state(w) != WAL_RECOVERED || (scan_all(w, e) && wal_begin(w, e));
}

// An append closes the cut before it, which is full; a tick closes its own by age; the oldest goes.
static bool turn_over(void *arg, err *e)
{
    struct log *l = arg;
    struct wal_place at;
    char text[120];
    memset(text, 'x', sizeof text);
    struct wal_item item = {.rows = str_make(text, sizeof text)};
    if (!get_well(l->wal, e) || !wal_append(l->wal, S("t"), &item, 1, &at, e)) return false;
    wal_unpin(l->wal, at.cut);
    l->acknowledged++;
    now_ns += 601 * NS_PER_S;
    if (l->acknowledged % 2) wal_tick(l->wal);
    struct cut *cuts[64];
    size_t n = MIN(wal_cuts(l->wal, cuts, COUNT(cuts)), COUNT(cuts));
    for (size_t i = 0; i < n; i++) {
        if (wal_cut_is_past(l->wal, cuts[i], 700 * NS_PER_S) && !wal_drop(l->wal, cuts[i], e))
            return false;
    }
    if (wal_state(l->wal) == WAL_OPEN) return true;
    return err_set(e, ERR_UNAVAILABLE, "the log is broken");
}

static void turn_check(void *arg, bool done)
{
    struct log *l = arg;
    assert_ok(get_well(l->wal, e));
    uint64_t held = 0;
    struct cut *cuts[64];
    size_t n = MIN(wal_cuts(l->wal, cuts, COUNT(cuts)), COUNT(cuts));
    for (size_t i = 0; i < n; i++) {
        if (cuts[i]->last_seq == 0) continue;
        assert_true(cuts[i]->first_seq > 0 && cuts[i]->first_seq <= cuts[i]->last_seq);
        held += cuts[i]->last_seq - cuts[i]->first_seq + 1;
    }
    if (done) assert_true(held > 0);
    assert_true(n < 60);  // what is past goes
}

static void cuts_close_and_go_or_tell(void **state)
{
    (void)state;
    static struct log l;
    log_begin(&l, 300, false);  // one append fills a cut
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.cuts",
                                                                 .run = turn_over,
                                                                 .check = turn_check,
                                                                 .arg = &l,
                                                                 .lives_on = true,
                                                                 .most = 5});
    assert_true(n.calls >= 4);
    log_end(&l);
}

static void cuts_in_a_store_close_and_go_or_tell(void **state)
{
    (void)state;
    static struct log l;
    log_begin(&l, 300, true);
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.cuts_in_store",
                                                                 .run = turn_over,
                                                                 .check = turn_check,
                                                                 .arg = &l,
                                                                 .lives_on = true,
                                                                 .most = 40});
    assert_true(n.allocations >= 3);
    log_end(&l);
}

static void break_log(void *arg)
{
    struct log *l = arg;
    err fault = {.code = ERR_UNAVAILABLE, .msg = "told so"};
    assert_ok(get_well(l->wal, e));
    wal_break(l->wal, &fault);
}

static bool recover(void *arg, err *e)
{
    return get_well(((struct log *)arg)->wal, e);
}

// Every entry that was acknowledged is read again.
static void recover_check(void *arg, bool done)
{
    struct log *l = arg;
    uint64_t entries = 0;
    if (!done) return;
    assert_int_equal(wal_state(l->wal), WAL_OPEN);
    struct cut *cuts[64];
    size_t n = MIN(wal_cuts(l->wal, cuts, COUNT(cuts)), COUNT(cuts));
    for (size_t i = 0; i < n; i++) {
        cuts[i]->read_seq = 0;
        assert_ok(wal_scan(l->wal, cuts[i], count_entry, &entries, e));
        assert_true(cuts[i]->closed);
    }
    assert_int_equal(entries, l->acknowledged);
}

static void a_log_opens_again_or_tells(void **state)
{
    (void)state;
    static struct log l;
    log_begin(&l, 200, false);
    char text[120] = {0};
    struct wal_item item = {.rows = str_make(text, sizeof text)};
    for (; l.acknowledged < 6; l.acknowledged++) {
        struct wal_place at;
        assert_ok(wal_append(l.wal, S("t"), &item, 1, &at, e));
        wal_unpin(l.wal, at.cut);
    }
    struct torture_count n = torture_work(&(struct torture_work){.name = "ingester.recover",
                                                                 .begin = break_log,
                                                                 .run = recover,
                                                                 .check = recover_check,
                                                                 .arg = &l,
                                                                 .lives_on = true,
                                                                 .most = 5});
    assert_true(n.calls >= 4);
    log_end(&l);
}

static void a_log_in_a_store_opens_again_or_tells(void **state)
{
    (void)state;
    static struct log l;
    log_begin(&l, 200, true);
    char text[120] = {0};
    struct wal_item item = {.rows = str_make(text, sizeof text)};
    for (; l.acknowledged < 6; l.acknowledged++) {
        struct wal_place at;
        assert_ok(wal_append(l.wal, S("t"), &item, 1, &at, e));
        wal_unpin(l.wal, at.cut);
    }
    struct torture_count n =
        torture_work(&(struct torture_work){.name = "ingester.recover_in_store",
                                            .begin = break_log,
                                            .run = recover,
                                            .check = recover_check,
                                            .arg = &l,
                                            .lives_on = true,
                                            .most = 5});
    assert_true(n.calls >= 4);
    log_end(&l);
}

// ---- questions

struct question {
    struct place *place;
    str message;
};

static bool ask(struct torture_bench *b, void *arg, err *e)
{
    const struct question *q = arg;
    struct req r;
    req_init(&r, RANK_INGESTER, &b->budget, SIZE_MAX, 0);
    r.tenant = S("one|two");
    bool ok = read_run(q->place->w.in, &r, q->message, &b->out, e);
    req_release(&r);
    return ok;
}

static void put_question(struct buf *out, const struct place *p, unsigned which)
{
    Flametree__V1__HeadReadRequest m;
    Flametree__V1__Matcher matcher;
    Flametree__V1__Matcher *matchers[] = {&matcher};
    Flametree__V1__WantTree tree;
    Flametree__V1__WantTotals totals;
    Flametree__V1__WantLabels sets;
    Flametree__V1__WantStats stats;
    Flametree__V1__WantHeat heat;
    static char pod[] = "pod";
    static char pods[] = "p-.*|";
    char *group_by[] = {pod};
    int64_t bounds[] = {-1000, 0, 100, 1000};
    flametree__v1__head_read_request__init(&m);
    flametree__v1__matcher__init(&matcher);
    flametree__v1__want_tree__init(&tree);
    flametree__v1__want_totals__init(&totals);
    flametree__v1__want_labels__init(&sets);
    flametree__v1__want_stats__init(&stats);
    flametree__v1__want_heat__init(&heat);
    matcher.op = MATCH_RE;
    matcher.name = pod;
    matcher.value = pods;
    m.matchers = matchers;
    m.n_matchers = 1;
    m.from_ns = p->kept[0].time_ns - 3600 * NS_PER_S;
    m.to_ns = p->kept[0].time_ns + 3600 * NS_PER_S;
    totals.first_ns = m.from_ns;
    totals.step_ns = 60 * NS_PER_S;
    totals.points = 122;
    totals.group_by = group_by;
    totals.n_group_by = 1;
    totals.exemplars = 1;
    heat.first_ns = m.from_ns;
    heat.step_ns = 600 * NS_PER_S;
    heat.slots = 13;
    heat.group_by = group_by;
    heat.n_group_by = 1;
    heat.kind = 1;
    heat.lower_bounds = bounds;
    heat.n_lower_bounds = COUNT(bounds);
    heat.largest = 10000;
    heat.exemplars = true;
    tree.full_symbols = which == 1;
    sets.names_only = which == 4;
    stats.sizes = true;
    if (which <= 1) m.tree = &tree;
    if (which == 2) m.totals = &totals;
    if (which == 3 || which == 4) m.labels = &sets;
    if (which == 3) m.stats = &stats;
    if (which == 5) m.heat = &heat;
    pb_pack(&m.base, out);
}

static void answers_are_whole_or_refused(void **state)
{
    (void)state;
    static struct place p;
    static const char *const names[] = {"ingester.tree",        "ingester.tree_full",
                                        "ingester.totals",      "ingester.labels",
                                        "ingester.label_names", "ingester.heat"};
    place_open(&p, "");
    for (unsigned i = 0; i < COUNT(names); i++) {
        struct buf message;
        buf_init(&message, NULL, 1 << 16);
        put_question(&message, &p, i);
        struct question q = {&p, buf_view(&message)};
        const struct torture_maker m = {.name = names[i], .make = ask, .arg = &q, .most = 100};
        torture_make_all(&m, 1);
        buf_release(&message);
    }
    place_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_reads_all_or_tells),
        cmocka_unit_test(an_append_is_whole_or_nothing),
        cmocka_unit_test(cuts_close_and_go_or_tell),
        cmocka_unit_test(cuts_in_a_store_close_and_go_or_tell),
        cmocka_unit_test(a_log_opens_again_or_tells),
        cmocka_unit_test(a_log_in_a_store_opens_again_or_tells),
        cmocka_unit_test(answers_are_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
