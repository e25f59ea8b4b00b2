// SPDX-License-Identifier: Apache-2.0
//
// Questions over blocks of all kinds, at random, against the rows that were written.
#include "querier/merge/merged_int.h"
#include "unit/querier/month.h"

// A plan whose objects have the classes that the question needs.
static struct month_plan plan_for(struct rig *g, const struct query *q)
{
    struct level_ask ask = {.from_ns = q->from_ns, .to_ns = q->to_ns};
    struct block_reads reads = {0};
    struct month_plan p = {0};
    bool survives = false;
    assert_ok(block_read_ask(q, &ask, e));
    for (;; ask.classes = 1u << BLOCK_SERIES) {
        p = month_plan(g->month, &g->dice, &ask);
        assert_ok(block_read_survives(g->blocks, &g->req, q, &p.p, &survives, &reads, e));
        assert_int_equal(reads.fault_count, 0);
        if (survives) return p;
        assert_false(ask.classes & 1u << BLOCK_SERIES);
    }
}

static void read_all(struct rig *g, const struct query *q, const struct loose_set *skip,
                     struct merged *m, struct month_plan *p)
{
    struct block_reads reads = {0};
    *p = plan_for(g, q);
    assert_ok(merged_init(m, &g->memory, 0, roll(&g->dice, 2), e));
    assert_ok(
        block_read(g->blocks, &g->req, &(struct block_task){q, &p->p, skip, false}, m, &reads, e));
    if (reads.fault_count) fail_msg("%s", reads.faults[0].why.msg);
    assert_ok(merged_finish(m, e));
}

// ---- trees

static void check_tree(struct rig *g)
{
    struct query q = {.tree.wanted = true};
    struct merged m;
    struct month_plan p;
    uint64_t span = 0;
    uint64_t profiles = 0;
    some_range(&g->dice, &q);
    fact_selector(&arena, &g->dice, &q.selector);
    if (roll(&g->dice, 3) == 0) {
        span = 1 + roll(&g->dice, 4);
        q.tree.spans = &span;
        q.tree.span_count = 1;
    }
    read_all(g, &q, NULL, &m, &p);
    struct head_query h = brute(&q);
    str expected = fact_tree(&arena, g->facts, g->month->n, &h, span, &profiles);
    assert_int_equal(m.profiles, profiles);
    assert_true(str_eq(merge_text(&arena, &m.stacks), expected));
    merged_release(&m);
}

static void add_part(struct rig *g, const struct query *q, bool excluded, struct merged *m)
{
    struct block_reads reads = {0};
    struct month_plan p = plan_for(g, q);
    const struct block_task task = {q, &p.p, NULL, excluded};
    uint64_t bytes = 0;
    assert_ok(block_read_weigh(g->blocks, &g->req, &task, &bytes, &reads, e));
    uint64_t nodes = reads.nodes + reads.rows;
    assert_int_equal(nodes, 0);
    assert_ok(block_read(g->blocks, &g->req, &task, m, &reads, e));
    if (reads.fault_count) fail_msg("%s", reads.faults[0].why.msg);
    assert_int_equal(bytes > 0, reads.nodes + reads.rows > 0);
}

// All of the service and type less what the matchers exclude, from plans of their own.
static void check_difference(struct rig *g)
{
    struct query q = {.tree.wanted = true};
    struct merged m;
    uint64_t profiles = 0;
    some_range(&g->dice, &q);
    fact_selector(&arena, &g->dice, &q.selector);
    struct query whole = q;
    whole.selector = (struct selector){0};
    bool others = false;
    for (size_t i = 0; i < q.selector.n; i++) {
        const struct matcher *x = &q.selector.v[i];
        bool of_all = str_is(x->name, LABEL_SERVICE) || str_is(x->name, LABEL_PROFILE_TYPE);
        others = others || !of_all;
        if (of_all) assert_ok(selector_add(&arena, &whole.selector, x->op, x->name, x->value, e));
    }
    if (!others) return;
    assert_ok(merged_init(&m, &g->memory, 0, roll(&g->dice, 2), e));
    add_part(g, &whole, false, &m);
    add_part(g, &q, true, &m);
    assert_ok(merged_finish(&m, e));
    struct head_query h = brute(&q);
    str expected = fact_tree(&arena, g->facts, g->month->n, &h, 0, &profiles);
    assert_int_equal(m.profiles, profiles);
    assert_true(str_eq(merge_text(&arena, &m.stacks), expected));
    merged_release(&m);
}

// ---- totals

struct expected {
    int64_t sum;
    uint64_t profiles;
    bool noted[FACT_NOTES];
    const struct fact *best;
    int64_t best_value;
};

static bool is_before(const struct fact *a, int64_t value, const struct expected *x)
{
    if (!x->best || value != x->best_value) return !x->best || value > x->best_value;
    if (a->time_ns != x->best->time_ns) return a->time_ns < x->best->time_ns;
    return memcmp(a->id.b, x->best->id.b, sizeof a->id.b) < 0;
}

static int64_t value_under(const struct fact *f, const char *site, bool span, bool *any)
{
    int64_t sums[FACT_STACKS] = {0};
    int64_t total = 0;
    size_t n = strlen(site);
    *any = n == 0 && !span;
    for (size_t i = 0; i < (span ? 1 : f->n); i++)
        sums[f->entries[i].stack] += f->entries[i].value;
    for (size_t i = 0; i < FACT_STACKS; i++) {
        const char *text = fact_stacks[i];
        if (sums[i] == 0 || strncmp(text, site, n) != 0) continue;
        if (n && text[n] != 0 && text[n] != ';') continue;
        total += sums[i];
        *any = true;
    }
    return total;
}

static void expect_exemplar(const struct exemplar *got, const struct expected *x, bool span,
                            const str *by, size_t by_count)
{
    assert_int_equal(got != NULL, x->best != NULL);
    if (!got) return;
    assert_int_equal(got->value, x->best_value);
    assert_int_equal(got->time_ns, x->best->time_ns);
    assert_true(id128_eq(got->profile, x->best->id));
    assert_int_equal(got->span_id, span ? x->best->span_id : 0);
    assert_int_equal(got->has_trace, span);
    labels all = fact_labels(&arena, x->best);
    size_t left = all.n;
    for (size_t i = 0; i < by_count; i++)
        left -= labels_has(all, by[i]);
    assert_int_equal(got->ls.n, left);
    for (size_t i = 0; i < got->ls.n; i++)
        assert_true(str_eq(labels_get(all, got->ls.v[i].name), got->ls.v[i].value));
}

static bool counts(struct rig *g, const struct fact *f, const struct query *q, labels group,
                   const str *by, size_t by_count)
{
    struct head_query h = brute(q);
    labels all = fact_labels(&arena, f);
    for (size_t i = 0; i < by_count; i++) {
        if (!str_eq(labels_get(group, by[i]), labels_get(all, by[i]))) return false;
    }
    (void)g;
    return fact_matches(&arena, f, &h);
}

static void check_total(struct rig *g, const struct query *q, const struct merged *m,
                        const struct cell *t, const char *site, bool notes)
{
    const struct totals_want *want = &q->totals;
    bool spans = want->exemplars == EXEMPLAR_SPAN;
    int64_t until = want->first_ns + t->point * want->step_ns;
    struct expected x = {0};
    for (size_t i = 0; i < g->month->n; i++) {
        const struct fact *f = &g->facts[i];
        bool any = false;
        if ((f->sampled && !want->include_sampled) || f->time_ns > until ||
            f->time_ns <= until - want->step_ns ||
            !counts(g, f, q, m->totals.groups[t->group], want->group_by, want->group_by_count)) {
            continue;
        }
        x.sum += value_under(f, site, false, &any);
        x.profiles++;
        x.noted[f->note] = true;
        if (spans && f->span_id == 0) any = false;
        int64_t value = any ? value_under(f, site, spans, &any) : 0;
        if (!any || !want->exemplars || !is_before(f, value, &x)) continue;
        x.best = f;
        x.best_value = value;
    }
    assert_int_equal(t->sum, x.sum);
    assert_int_equal(t->count, x.profiles);
    expect_exemplar(cells_best(&m->totals, t), &x, spans, want->group_by, want->group_by_count);
    size_t n = 0;
    labels shown;
    assert_ok(cells_notes(&m->totals, t, &shown, e));
    for (size_t i = 1; i < FACT_NOTES && notes; i++) {
        if (!x.noted[i]) continue;
        assert_true(n < shown.n);
        assert_true(str_is(shown.v[n].name, "note"));
        assert_true(str_is(shown.v[n++].value, fact_notes[i]));
    }
    if (notes) assert_int_equal(n, shown.n);
}

static void check_totals(struct rig *g)
{
    static const char *const sites[] = {"", "main", "main;work", "nowhere"};
    static const int64_t steps[] = {SLOT_HOUR, SLOT_DAY, SLOT_FIVE, 7 * SLOT_MINUTE + 1,
                                    2 * SLOT_DAY};
    static const str by[] = {S_INIT(LABEL_SERVICE), S_INIT("pod")};
    const str names[] = {S("main"), S("work")};
    const str nowhere = S("nowhere");
    struct dice *d = &g->dice;
    struct query q = {.totals.wanted = true};
    struct totals_want *t = &q.totals;
    some_range(d, &q);
    fact_selector(&arena, d, &q.selector);
    t->step_ns = steps[roll(d, COUNT(steps))];
    t->first_ns = roll(d, 4) ? slot_start(slot_of(q.from_ns, t->step_ns) + 1, t->step_ns)
                             : q.from_ns + (int64_t)roll(d, 1000000000);
    t->points = (q.to_ns - q.from_ns) / t->step_ns + (int64_t)roll(d, 3);
    t->group_by = by;
    t->group_by_count = roll(d, 3);
    t->include_sampled = roll(d, 2);
    const char *site = roll(d, 3) ? sites[0] : sites[roll(d, COUNT(sites))];
    t->call_site = site == sites[3] ? &nowhere : names;
    t->call_site_count = site == sites[0] ? 0 : site == sites[2] ? 2 : 1;
    if (roll(d, 2)) t->exemplars = (enum exemplar_kind)roll(d, 3);

    struct merged m;
    struct month_plan p;
    read_all(g, &q, NULL, &m, &p);
    uint64_t found = 0;
    uint64_t expected = 0;
    for (size_t i = 0; i < m.totals.n; i++) {
        check_total(g, &q, &m, &m.totals.v[i], site, !p.coarse);
        found += m.totals.v[i].count;
    }
    for (size_t i = 0; i < g->month->n; i++) {
        const struct fact *f = &g->facts[i];
        expected += (!f->sampled || t->include_sampled) && counts(g, f, &q, (labels){0}, NULL, 0) &&
                    f->time_ns > t->first_ns - t->step_ns &&
                    f->time_ns <= t->first_ns + (t->points - 1) * t->step_ns;
    }
    assert_int_equal(found, expected);
    merged_release(&m);
}

// ---- heat maps

static bool heat_value(const struct query *q, const struct fact *f, int64_t *value)
{
    bool any = false;
    bool spans = q->heat.kind == EXEMPLAR_SPAN;
    if (f->sampled || (spans && f->span_id == 0)) return false;
    *value = value_under(f, "", spans, &any);
    if (!any) return false;
    return q->heat.bound_count == 0 || (*value >= q->heat.bounds[0] && *value <= q->heat.largest);
}

static void check_cell(struct rig *g, const struct query *q, const struct merged *m,
                       const struct cell *c)
{
    const struct query_heat *want = &q->heat;
    struct expected x = {0};
    for (size_t i = 0; i < g->month->n; i++) {
        const struct fact *f = &g->facts[i];
        int64_t value = 0;
        int64_t slot = 0;
        uint32_t bucket = 0;
        if (!heat_value(q, f, &value)) continue;
        while (slot < want->slots - 1 && f->time_ns > want->first_ns + slot * want->step_ns)
            slot++;
        for (uint32_t b = 0; b < want->bound_count; b++) {
            if (want->bounds[b] <= value) bucket = b;
        }
        if (slot != c->point || bucket != c->bucket ||
            !counts(g, f, q, m->heat.groups[c->group], want->group_by, want->group_by_count)) {
            continue;
        }
        x.profiles++;
        if (!want->exemplars || !is_before(f, value, &x)) continue;
        x.best = f;
        x.best_value = value;
    }
    assert_int_equal(c->count, x.profiles);
    expect_exemplar(cells_best(&m->heat, c), &x, want->kind == EXEMPLAR_SPAN, want->group_by, 1);
}

static void check_heat(struct rig *g)
{
    static const str pod = S_INIT("pod");
    struct dice *d = &g->dice;
    struct query q = {.heat.wanted = true};
    some_range(d, &q);
    fact_selector(&arena, d, &q.selector);
    q.heat.kind = roll(d, 2) ? EXEMPLAR_PROFILE : EXEMPLAR_SPAN;
    q.heat.group_by = &pod;
    q.heat.group_by_count = 1;
    q.heat.first_ns = q.from_ns + 500;
    q.heat.step_ns = 1 + (q.to_ns - q.from_ns) / 4;
    q.heat.slots = 4;
    q.heat.exemplars = roll(d, 2);
    for (int round = 0; round < 2; round++) {
        struct merged m;
        struct month_plan p;
        struct expected x = {0};
        int64_t least = INT64_MAX;
        int64_t largest = INT64_MIN;
        read_all(g, &q, NULL, &m, &p);
        for (size_t i = 0; i < g->month->n; i++) {
            int64_t value = 0;
            if (!heat_value(&q, &g->facts[i], &value) ||
                !counts(g, &g->facts[i], &q, (labels){0}, NULL, 0)) {
                continue;
            }
            x.profiles++;
            least = MIN(least, value);
            largest = MAX(largest, value);
        }
        assert_int_equal(m.extent.count, x.profiles);
        if (x.profiles) assert_int_equal(m.extent.least, least);
        if (x.profiles) assert_int_equal(m.extent.largest, largest);
        uint64_t counted = 0;
        for (size_t i = 0; i < m.heat.n; i++) {
            check_cell(g, &q, &m, &m.heat.v[i]);
            counted += m.heat.v[i].count;
        }
        assert_int_equal(counted, round ? x.profiles : 0);
        if (x.profiles) query_set_axis(&q.heat, m.extent.least, m.extent.largest);
        merged_release(&m);
        if (x.profiles == 0) return;
    }
}

// ---- labels and what there is

static void check_labels(struct rig *g)
{
    static const str lists[][2] = {{S_INIT("pod")},
                                   {S_INIT(LABEL_PROFILE_TYPE)},
                                   {S_INIT(LABEL_SERVICE), S_INIT(LABEL_PROFILE_TYPE)},
                                   {S_INIT("pod"), S_INIT(LABEL_SERVICE)}};
    struct dice *d = &g->dice;
    struct query q = {.labels.wanted = true};
    struct merged m;
    struct merged all;
    struct month_plan p;
    some_range(d, &q);
    fact_selector(&arena, d, &q.selector);
    size_t list = roll(d, 6);
    q.labels.names_only = list == 4;
    if (list < 4) {
        q.labels.names = lists[list];
        q.labels.name_count = list < 2 ? 1 : 2;
    }
    read_all(g, &q, NULL, &m, &p);
    assert_ok(merged_init(&all, &g->memory, 0, false, e));
    for (size_t i = 0; i < g->month->n; i++) {
        if (!counts(g, &g->facts[i], &q, (labels){0}, NULL, 0)) continue;
        labels ls = fact_labels(&arena, &g->facts[i]);
        label *v = ARENA_ARRAY(&arena, label, ls.n);
        size_t n = 0;
        for (size_t k = 0; k < ls.n; k++) {
            if (q.labels.names_only) assert_ok(label_sets_add_name(&all.names, ls.v[k].name, e));
            if (q.labels.name_count &&
                !str_among(ls.v[k].name, q.labels.names, q.labels.name_count))
                continue;
            v[n++] = ls.v[k];
        }
        if (!q.labels.names_only) assert_ok(label_sets_add(&all.sets, (labels){v, n}, e));
    }
    assert_ok(merged_finish(&all, e));
    assert_int_equal(m.sets.n, all.sets.n);
    assert_int_equal(m.names.n, all.names.n);
    for (size_t i = 0; i < m.sets.n; i++)
        assert_true(labels_eq(m.sets.v[i], all.sets.v[i]));
    for (size_t i = 0; i < m.names.n; i++)
        assert_true(str_eq(label_sets_name(&m.names, i), label_sets_name(&all.names, i)));
    merged_release(&m);
    merged_release(&all);
}

static void check_stats(struct rig *g)
{
    struct query q = {.stats = true, .stat_sizes = roll(&g->dice, 2)};
    struct merged m;
    struct month_plan p;
    uint64_t profiles = 0;
    some_range(&g->dice, &q);
    if (roll(&g->dice, 2)) fact_selector(&arena, &g->dice, &q.selector);
    read_all(g, &q, NULL, &m, &p);
    int64_t oldest = INT64_MAX;
    int64_t newest = INT64_MIN;
    struct merged series;
    assert_ok(merged_init(&series, &g->memory, 0, false, e));
    for (size_t i = 0; i < g->month->n; i++) {
        if (!counts(g, &g->facts[i], &q, (labels){0}, NULL, 0)) continue;
        profiles++;
        oldest = MIN(oldest, g->facts[i].time_ns);
        newest = MAX(newest, g->facts[i].time_ns);
        assert_ok(label_sets_add(&series.sets, fact_labels(&arena, &g->facts[i]), e));
    }
    assert_ok(merged_finish(&series, e));
    assert_int_equal(m.there.profiles > 0, profiles > 0);
    if (q.stat_sizes) assert_int_equal(m.there.profiles, profiles);
    if (q.stat_sizes) assert_int_equal(m.there.series, series.sets.n);
    if (profiles) assert_int_equal(m.there.oldest_ns, oldest);
    if (profiles) assert_int_equal(m.there.newest_ns, newest);
    merged_release(&series);
    merged_release(&m);
}

static void every_want_equals_a_sum_over_the_rows(void **state)
{
    static void (*const checks[])(struct rig *) = {check_tree, check_difference, check_totals,
                                                   check_heat, check_labels,     check_stats};
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig g;
        rig_make(&g, seed, 60 + 200 * seed, seed % 3 ? 8 << 20 : 1 << 16);
        for (int i = 0; i < 120; i++)
            checks[(size_t)i % COUNT(checks)](&g);
        rig_drop(&g);
        arena_release(&arena);
    }
}

// ---- rows that others count

static struct loose_key key_of(const struct fact *f)
{
    return (struct loose_key){labels_fingerprint(fact_labels(&arena, f)), f->id};
}

static void rows_of_the_skip_list_do_not_count(void **state)
{
    (void)state;
    struct rig g;
    rig_make(&g, 5, 500, 8 << 20);
    for (int round = 0; round < 20; round++) {
        struct query q = {.tree.wanted = true};
        struct level_ask ask = {0};
        struct block_reads reads = {0};
        struct loose_set skip;
        struct merged m;
        struct fact *left = ARENA_ARRAY(&arena, struct fact, g.month->n);
        size_t n = 0;
        some_range(&g.dice, &q);
        fact_selector(&arena, &g.dice, &q.selector);
        loose_init(&skip, &arena, NULL, SIZE_MAX);
        for (size_t i = 0; i < g.month->n; i++) {
            if (roll(&g.dice, 20) == 0) {
                assert_ok(loose_add(&skip, key_of(&g.facts[i]), 0, e));
            } else {
                left[n++] = g.facts[i];
            }
        }
        assert_ok(block_read_ask(&q, &ask, e));
        ask.from_ns = q.from_ns;
        ask.to_ns = q.to_ns;
        struct month leaves = *g.month;
        leaves.without_parents = true;
        struct month_plan p = month_plan(&leaves, &g.dice, &ask);
        assert_ok(merged_init(&m, &g.memory, 0, round % 2, e));
        assert_ok(block_read(g.blocks, &g.req, &(struct block_task){&q, &p.p, &skip, false}, &m,
                             &reads, e));
        assert_int_equal(reads.fault_count, 0);
        struct head_query h = brute(&q);
        uint64_t profiles = 0;
        str expected = fact_tree(&arena, left, n, &h, 0, &profiles);
        assert_int_equal(m.profiles, profiles);
        assert_true(str_eq(merge_text(&arena, &m.stacks), expected));
        merged_release(&m);
        loose_release(&skip);
    }
    rig_drop(&g);
}

struct told {
    struct loose_set keys;
    size_t n;
};

static bool tell(void *arg, const struct level_object *o, struct loose_key key, err *e)
{
    struct told *t = arg;
    assert_non_null(o);
    t->n++;
    return loose_add(&t->keys, key, 0, e);
}

static void loose_rows_and_those_looked_for_are_told(void **state)
{
    (void)state;
    struct rig g;
    rig_make(&g, 6, 500, 8 << 20);
    for (int round = 0; round < 20; round++) {
        struct query q = {0};
        struct level_ask ask = {.use = LEVEL_ROWS};
        struct block_reads reads = {0};
        struct told told = {.n = 0};
        struct loose_set wanted;
        size_t expected = 0;
        some_range(&g.dice, &q);
        fact_selector(&arena, &g.dice, &q.selector);
        loose_init(&told.keys, &arena, NULL, SIZE_MAX);
        loose_init(&wanted, &arena, NULL, SIZE_MAX);
        for (size_t i = 0; i < g.month->n; i++) {
            if (roll(&g.dice, 30) == 0) assert_ok(loose_add(&wanted, key_of(&g.facts[i]), 0, e));
        }
        ask.from_ns = q.from_ns;
        ask.to_ns = q.to_ns;
        struct month_plan p = month_plan(g.month, &g.dice, &ask);
        const struct block_loose want = {.wanted = &wanted, .fn = tell, .arg = &told};
        assert_ok(block_read_loose(g.blocks, &g.req, &q, &p.p, &want, &reads, e));
        for (size_t i = 0; i < g.month->n; i++) {
            struct loose_key key = key_of(&g.facts[i]);
            if (!counts(&g, &g.facts[i], &q, (labels){0}, NULL, 0)) continue;
            if (g.month->rows[i].attempt == 0 && !loose_find(&wanted, key)) continue;
            expected++;
            assert_non_null(loose_find(&told.keys, key));
        }
        assert_int_equal(told.n, expected);
        loose_release(&told.keys);
        loose_release(&wanted);
    }
    rig_drop(&g);
}

// ---- damage

struct damaged {
    const char *name;
    struct query q;
    enum level_use use;
};

// Pieces of one object of each kind, so that one of them fails alone.
static struct month_plan plan_of_all(struct rig *g, enum level_use use)
{
    struct month_plan p = {0};
    int64_t hour = MONTH_FROM + SLOT_HOUR;
    bool rows = use == LEVEL_ROWS;
    if (!rows)
        month_piece(&p, g->month->days, use, MONTH_FROM + SLOT_DAY, MONTH_FROM + SLOT_WINDOW);
    if (!rows) month_piece(&p, g->month->hours[0], use, hour + SLOT_HOUR, MONTH_FROM + SLOT_DAY);
    enum level_use leaf = use == LEVEL_TOTALS ? LEVEL_ROWS : use;
    month_piece(&p, g->month->raw[0], leaf, MONTH_FROM, hour);
    month_piece(&p, g->month->segments[1][0], leaf, hour, hour + SLOT_HOUR);
    month_piece(&p, g->month->segments[1][1], leaf, hour, hour + SLOT_HOUR);
    return p;
}

static uint64_t profiles_of(const struct merged *m)
{
    uint64_t n = m->profiles + m->extent.count + m->sets.n + m->there.profiles;
    for (size_t i = 0; i < m->totals.n; i++)
        n += m->totals.v[i].count;
    return n;
}

static struct merged *read_plan(struct rig *g, const struct query *q, const struct month_plan *p,
                                struct block_reads *reads)
{
    struct merged *m = ARENA_NEW(&arena, struct merged);
    struct blocks *fresh = blocks_new(g->month->store, &g->memory, 8 << 20);
    assert_ok(merged_init(m, &g->memory, 0, true, e));
    *reads = (struct block_reads){0};
    assert_ok(block_read(fresh, &g->req, &(struct block_task){q, &p->p, NULL, false}, m, reads, e));
    assert_ok(merged_finish(m, e));
    blocks_free(fresh);
    return m;
}

// Without the pieces of an object.
static struct month_plan plan_without(const struct month_plan *p, const struct level_object *o)
{
    struct month_plan out = {0};
    for (size_t i = 0; i < p->p.n; i++) {
        const struct level_piece *v = &p->p.pieces[i];
        if (v->object != o) month_piece(&out, v->object, v->use, v->from_ns, v->to_ns);
    }
    return out;
}

static void damage_is_named_and_the_rest_is_right(void **state)
{
    static const str by[] = {S_INIT("pod")};
    struct damaged questions[] = {{"tree", {.tree.wanted = true}, LEVEL_NODES},
                                  {"rows", {.tree.wanted = true}, LEVEL_ROWS},
                                  {"series",
                                   {.totals = {.wanted = true,
                                               .first_ns = MONTH_FROM + SLOT_DAY,
                                               .step_ns = SLOT_DAY,
                                               .points = MONTH_DAYS,
                                               .group_by = by,
                                               .group_by_count = 1}},
                                   LEVEL_TOTALS},
                                  {"spans",
                                   {.heat = {.wanted = true, .kind = EXEMPLAR_SPAN}},
                                   LEVEL_ROWS},
                                  {"labels", {.labels = {.wanted = true}}, LEVEL_NODES},
                                  {"stats", {.stats = true, .stat_sizes = true}, LEVEL_NODES}};
    (void)state;
    struct rig g;
    rig_make(&g, 7, 900, 8 << 20);
    uint64_t named = 0;
    for (int round = 0; round < 600; round++) {
        struct damaged *k = &questions[(size_t)round % COUNT(questions)];
        struct block_reads reads;
        k->q.from_ns = MONTH_FROM;
        k->q.to_ns = MONTH_FROM + SLOT_WINDOW;
        struct month_plan p = plan_of_all(&g, k->use);
        const struct level_object *o = p.p.pieces[roll(&g.dice, p.p.n)].object;
        uint64_t at = roll(&g.dice, o->bytes);
        unsigned bit = (unsigned)roll(&g.dice, 8);
        struct merged *whole = read_plan(&g, &k->q, &p, &reads);
        assert_int_equal(reads.fault_count, 0);
        memstore_flip(g.month->store, o->name.p, at, bit);
        struct merged *got = read_plan(&g, &k->q, &p, &reads);
        if (reads.fault_count == 0) {
            assert_int_equal(profiles_of(got), profiles_of(whole));
        } else {
            named++;
            assert_int_equal(reads.fault_count, 1);
            assert_ptr_equal(reads.faults[0].object, o);
            assert_int_equal(reads.faults[0].why.code, ERR_DATA_LOSS);
            assert_non_null(strstr(reads.faults[0].why.msg, o->name.p));
            struct block_reads again;
            struct month_plan rest = plan_without(&p, o);
            struct merged *left = read_plan(&g, &k->q, &rest, &again);
            assert_int_equal(again.fault_count, 0);
            if (k->q.tree.wanted) {
                assert_int_equal(got->profiles, left->profiles);
                assert_true(
                    str_eq(merge_text(&arena, &got->stacks), merge_text(&arena, &left->stacks)));
            }
            merged_release(left);
        }
        memstore_flip(g.month->store, o->name.p, at, bit);
        merged_release(whole);
        merged_release(got);
    }
    assert_true(named > 200);
    rig_drop(&g);
}

static void what_cannot_be_read_is_named(void **state)
{
    static const struct {
        const char *name;
        enum memstore_fault fault;
        enum err_code code;
    } cases[] = {{"the store fails", MEMSTORE_FAILS, ERR_UNAVAILABLE},
                 {"half of it arrives", MEMSTORE_SHORT, ERR_DATA_LOSS},
                 {"a bit is wrong", MEMSTORE_FLIPS, ERR_DATA_LOSS}};
    (void)state;
    struct rig g;
    rig_make(&g, 8, 200, 8 << 20);
    struct query q = {.tree.wanted = true, .from_ns = MONTH_FROM, .to_ns = INT64_MAX};
    struct month_plan p = plan_of(g.month->days, LEVEL_NODES, MONTH_FROM, MONTH_FROM + SLOT_WINDOW);
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (uint64_t nth = 1; nth <= 2; nth++) {
            struct block_reads reads;
            memstore_fail(g.month->store, MEMSTORE_READ, cases[i].fault, nth, UINT64_MAX);
            struct merged *m = read_plan(&g, &q, &p, &reads);
            memstore_heal(g.month->store);
            assert_int_equal(reads.fault_count, 1);
            assert_int_equal(reads.faults[0].why.code, cases[i].code);
            assert_int_equal(m->profiles, 0);
            merged_release(m);
        }
    }
    struct block_reads reads;
    memstore_drop(g.month->store, g.month->days->name.p);
    struct merged *m = read_plan(&g, &q, &p, &reads);
    assert_int_equal(reads.fault_count, 1);
    assert_int_equal(reads.faults[0].why.code, ERR_NOT_FOUND);
    merged_release(m);
    rig_drop(&g);
}

// Every read in turn brings a wrong bit once: nothing of it shows.
static void bytes_that_were_damaged_on_their_way_are_read_again(void **state)
{
    static const str by[] = {S_INIT("pod")};
    const struct damaged questions[] = {{"tree", {.tree.wanted = true}, LEVEL_NODES},
                                        {"rows", {.tree.wanted = true}, LEVEL_ROWS},
                                        {"series",
                                         {.totals = {.wanted = true,
                                                     .first_ns = MONTH_FROM + SLOT_DAY,
                                                     .step_ns = SLOT_DAY,
                                                     .points = MONTH_DAYS,
                                                     .group_by = by,
                                                     .group_by_count = 1}},
                                         LEVEL_TOTALS},
                                        {"spans",
                                         {.heat = {.wanted = true, .kind = EXEMPLAR_SPAN}},
                                         LEVEL_ROWS},
                                        {"labels", {.labels = {.wanted = true}}, LEVEL_NODES}};
    (void)state;
    struct rig g;
    rig_make(&g, 9, 300, 8 << 20);
    uint64_t again = 0;
    for (size_t i = 0; i < COUNT(questions); i++) {
        struct query q = questions[i].q;
        struct block_reads reads;
        q.from_ns = MONTH_FROM;
        q.to_ns = MONTH_FROM + SLOT_WINDOW;
        struct month_plan p = plan_of_all(&g, questions[i].use);
        struct merged *whole = read_plan(&g, &q, &p, &reads);
        uint64_t needed = reads.reads;
        for (uint64_t nth = 1; nth <= MIN(needed, (uint64_t)60); nth++) {
            memstore_fail(g.month->store, MEMSTORE_READ, MEMSTORE_FLIPS, nth, 1);
            struct merged *got = read_plan(&g, &q, &p, &reads);
            memstore_heal(g.month->store);
            if (reads.fault_count)
                fail_msg("%s, read %u: %s", questions[i].name, (unsigned)nth,
                         reads.faults[0].why.msg);
            assert_int_equal(profiles_of(got), profiles_of(whole));
            again += reads.reads - needed;
            merged_release(got);
        }
        merged_release(whole);
    }
    assert_true(again > 30);
    rig_drop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ARENA_TEST(damage_is_named_and_the_rest_is_right),
                                       ARENA_TEST(
                                           bytes_that_were_damaged_on_their_way_are_read_again),
                                       ARENA_TEST(what_cannot_be_read_is_named),
                                       ARENA_TEST(every_want_equals_a_sum_over_the_rows),
                                       ARENA_TEST(rows_of_the_skip_list_do_not_count),
                                       ARENA_TEST(loose_rows_and_those_looked_for_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
