// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/month.h"

// ---- writing

static struct plain_row month_plain(const struct month_row *r, const uint32_t *stacks)
{
    static const label notes[] = {{S_INIT("note"), S_INIT("")},
                                  {S_INIT("note"), S_INIT("b")},
                                  {S_INIT("note"), S_INIT("c")},
                                  {S_INIT("note"), S_INIT("{\"a\":1}")}};
    const struct fact *f = &r->f;
    struct vector_entry *v = ARENA_ARRAY(&arena, struct vector_entry, FACT_ENTRIES);
    size_t n = f->n;
    struct plain_row row = {.type = str_of(fact_types[f->type]),
                            .ls = fact_labels(&arena, f),
                            .sampled = f->sampled,
                            .v = v,
                            .row = {.time_ns = f->time_ns,
                                    .id = f->id,
                                    .total = f->total,
                                    .factor = 1,
                                    .duration_ns = 10,
                                    .attempt = r->attempt}};
    for (size_t i = 0; i < n; i++)
        v[i] = (struct vector_entry){stacks[f->entries[i].stack], f->entries[i].value};
    if (f->note) row.row.annotations = (labels){&notes[f->note], 1};
    if (f->span_id) {
        struct block_span *span = ARENA_NEW(&arena, struct block_span);
        *span = (struct block_span){.span_id = f->span_id, .has_trace = true};
        span->trace.b[0] = (uint8_t)f->span_id;
        struct vector_entry first = v[0];
        size_t count = 1;
        assert_ok(vector_normalise(&first, &count, e));  // it may be 0
        span->vector = plain_columns(&arena, &first, count);
        row.row.spans = span;
        row.row.span_count = 1;
    }
    assert_ok(vector_normalise(v, &n, e));
    row.n = n;
    return row;
}

static const struct level_object *month_write(struct month *m, const char *name,
                                              struct plain_block *b,
                                              const struct month_row *const *rows, size_t n)
{
    static const unsigned order[] = {0, 2, 1};  // "api", "db", "web"
    static const str churn[] = {S_INIT("pod")};
    struct symbols symbols;
    struct symbol_table table;
    struct plain_service services[COUNT(order)];
    struct buf out;
    uint32_t stacks[FACT_STACKS];
    if (n == 0) return NULL;
    assert_ok(symbols_init(&symbols, NULL, e));
    for (size_t i = 0; i < FACT_STACKS; i++)
        assert_ok((stacks[i] = stack_of_text(&symbols, str_of(fact_stacks[i]), e)) != MAP_NONE);
    uint32_t *map = ARENA_ARRAY(&arena, uint32_t, symbols.t.stack_count);
    assert_ok(block_order(&arena, &symbols.t, NULL, &table, map, e));
    for (size_t i = 0; i < FACT_STACKS; i++)
        stacks[i] = map[stacks[i]];
    for (size_t k = 0; k < COUNT(order); k++) {
        struct plain_row *v = ARENA_ARRAY(&arena, struct plain_row, n);
        services[k] = (struct plain_service){str_of(fact_services[order[k]]), &table, v, 0};
        for (size_t i = 0; i < n; i++) {
            if (rows[i]->f.service == order[k]) v[services[k].n++] = month_plain(rows[i], stacks);
        }
    }
    b->services = services;
    b->n = COUNT(order);
    b->churn = churn;
    b->churn_count = COUNT(churn);
    buf_init(&out, NULL, SIZE_MAX);
    assert_ok(plain_block_write(&arena, b, &out, e));
    memstore_set(m->store, name, buf_view(&out));
    struct level_object *object = &m->objects[m->object_count++];
    *object = (struct level_object){.kind = b->about.kind,
                                    .name = arena_str(&arena, str_of(name)),
                                    .bytes = out.n};
    buf_release(&out);
    symbols_release(&symbols);
    return object;
}

// Rows of hours [from, from + hours); half: 0 and 1 are every second one, 2 is all.
static const struct level_object *month_object(struct month *f, enum block_kind kind, int64_t from,
                                               uint32_t hours, unsigned half, uint32_t classes)
{
    struct plain_block b = {.about = {.kind = kind,
                                      .tenant = S("one"),
                                      .from_hour = MONTH_HOUR + from,
                                      .hours = hours,
                                      .pack_hi = UINT32_MAX,
                                      .classes = classes},
                            .classes = classes};
    const struct month_row **rows = ARENA_ARRAY(&arena, const struct month_row *, f->n);
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        int64_t hour = slot_of(f->rows[i].f.time_ns, SLOT_HOUR) - b.about.from_hour;
        if (hour >= 0 && hour < hours && (half == 2 || i % 2 == half)) rows[n++] = &f->rows[i];
    }
    char name[64];
    snprintf(name, sizeof name, "k%d/%03d-%u", kind, (int)from, half);
    return month_write(f, name, &b, rows, n);
}

static int month_by_time(const void *a, const void *b)
{
    const struct fact *x = &((const struct month_row *)a)->f;
    const struct fact *y = &((const struct month_row *)b)->f;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

// Most rows are of three days, many lie on borders of slots.
static struct month_row month_roll(struct dice *d)
{
    static const int64_t widths[] = {SLOT_MINUTE, SLOT_FIVE, SLOT_HOUR, SLOT_DAY};
    struct month_row r;
    int64_t days = roll(d, 4) ? 3 : MONTH_DAYS;
    r.f = fact_roll(d, MONTH_FROM + 1, days * SLOT_DAY);
    r.f.tenant = 0;
    // Few hours have many.
    if (roll(d, 2)) r.f.time_ns = MONTH_FROM + 1 + (int64_t)roll(d, 2 * SLOT_HOUR);
    if (roll(d, 4) == 0) {
        int64_t width = widths[roll(d, COUNT(widths))];
        int64_t slot = slot_of(r.f.time_ns, width);
        r.f.time_ns = slot_start(slot + 1, width) - (int64_t)roll(d, 2);
    }
    r.f.id = uuid_profile((uint64_t)(r.f.time_ns / 1000000), roll(d, UINT64_MAX), 0);
    r.attempt = roll(d, 8) == 0;
    return r;
}

static struct month *month_make(struct dice *d, size_t n, bool series_in_days)
{
    const uint32_t leaf = 1u << BLOCK_ALL | 1u << BLOCK_SERIES;
    const uint32_t all = leaf | 1u << BLOCK_PROJECTION;
    struct month *f = ARENA_NEW(&arena, struct month);
    f->store = memstore_open();
    f->series_in_days = series_in_days;
    f->rows = ARENA_ARRAY(&arena, struct month_row, n);
    f->n = n;
    for (size_t i = 0; i < n; i++)
        f->rows[i] = month_roll(d);
    qsort(f->rows, n, sizeof *f->rows, month_by_time);
    f->objects = ARENA_ARRAY(&arena, struct level_object, 4 * MONTH_DAYS * 24);
    for (int h = 0; h < MONTH_DAYS * 24; h++) {
        f->raw[h] = month_object(f, BLOCK_RAW, h, 1, 2, leaf);
        f->segments[h][0] = month_object(f, BLOCK_SEGMENT, h, 1, 0, leaf);
        f->segments[h][1] = month_object(f, BLOCK_SEGMENT, h, 1, 1, leaf);
    }
    for (int day = 0; day < MONTH_DAYS; day++)
        f->hours[day] = month_object(f, BLOCK_HOURS, day * 24, 24, 2, all);
    f->days = month_object(f, BLOCK_DAYS, 0, MONTH_DAYS * 24, 2,
                           series_in_days ? all : all & ~(1u << BLOCK_SERIES));
    return f;
}

// ---- plans

void month_piece(struct month_plan *p, const struct level_object *o, enum level_use use,
                 int64_t from, int64_t to)
{
    if (!o || from >= to) return;
    struct level_piece *last = p->p.n ? &p->p.pieces[p->p.n - 1] : NULL;
    p->coarse = p->coarse || o->kind >= BLOCK_HOURS;
    if (last && last->object == o && last->use == use && last->to_ns == from) {
        last->to_ns = to;
        return;
    }
    assert_true(arena_grow(&arena, &p->p.pieces, &p->cap, p->p.n + 1, sizeof *p->p.pieces));
    p->p.pieces[p->p.n++] = (struct level_piece){o, use, from, to, 0, UINT32_MAX};
}

// No border of steps lies within a slot.
static bool month_fits(const struct level_ask *ask, int64_t width)
{
    return ask->step_ns % width == 0 && ask->first_ns % width == 0;
}

// A leaf: nodes in the middle, rows at the edges; or only rows.
static void month_leaf(struct month_plan *p, const struct level_object *o, int64_t width,
                       bool nodes, int64_t from, int64_t to)
{
    int64_t a = slot_start(slot_of(from, width) + 1, width);
    int64_t b = slot_start(slot_of(to + 1, width), width);
    if (!nodes || a >= b) {
        month_piece(p, o, LEVEL_ROWS, from, to);
        return;
    }
    month_piece(p, o, LEVEL_ROWS, from, a);
    month_piece(p, o, LEVEL_NODES, a, b);
    month_piece(p, o, LEVEL_ROWS, b, to);
}

static void month_hour(const struct month *f, struct dice *d, const struct level_ask *ask,
                       struct month_plan *p, int hour)
{
    int64_t start = MONTH_FROM + hour * SLOT_HOUR;
    int64_t from = MAX(ask->from_ns, start);
    int64_t to = MIN(ask->to_ns, start + SLOT_HOUR);
    bool nodes = ask->use == LEVEL_NODES && month_fits(ask, SLOT_HOUR);
    if (from >= to) return;
    bool whole = from == start && to == start + SLOT_HOUR;
    bool steps = ask->use == LEVEL_TOTALS && month_fits(ask, SLOT_MINUTE);
    if (whole && (nodes || steps) && !f->without_parents && roll(d, 2)) {
        month_piece(p, f->hours[hour / 24], nodes ? LEVEL_NODES : LEVEL_TOTALS, from, to);
    } else if (roll(d, 2)) {
        month_leaf(p, f->raw[hour], SLOT_FIVE, nodes, from, to);
    } else {
        for (int i = 0; i < 2; i++)
            month_leaf(p, f->segments[hour][i], SLOT_HOUR, nodes && whole, from, to);
    }
}

struct month_plan month_plan(const struct month *f, struct dice *d, const struct level_ask *ask)
{
    struct month_plan p = {0};
    bool days = (ask->use == LEVEL_TOTALS && month_fits(ask, SLOT_HOUR)) ||
                (ask->use == LEVEL_NODES && month_fits(ask, SLOT_DAY));
    if (ask->classes & 1u << BLOCK_SERIES && !f->series_in_days) days = false;
    if (f->without_parents) days = false;
    uint64_t often = roll(d, 3);
    for (int day = 0; day < MONTH_DAYS; day++) {
        int64_t start = MONTH_FROM + day * SLOT_DAY;
        bool whole = ask->from_ns <= start && ask->to_ns >= start + SLOT_DAY;
        if (whole && days && (often == 0 || roll(d, 4) >= often)) {
            month_piece(&p, f->days, ask->use, start, start + SLOT_DAY);
            continue;
        }
        for (int h = 0; h < 24; h++)
            month_hour(f, d, ask, &p, day * 24 + h);
    }
    return p;
}

struct month_plan plan_of(const struct level_object *o, enum level_use use, int64_t from,
                          int64_t to)
{
    struct month_plan p = {0};
    month_piece(&p, o, use, from, to);
    return p;
}

// ---- a querier's part of it

void rig_make(struct rig *g, uint64_t seed, size_t n, size_t cache)
{
    *g = (struct rig){.dice = {seed}};
    mem_budget_init(&g->memory, "process", NULL, 0);
    g->month = month_make(&g->dice, n, seed % 2);
    g->blocks = blocks_new(g->month->store, &g->memory, cache);
    req_init(&g->req, RANK_PUBLIC, &g->memory, SIZE_MAX, 0);
    g->facts = ARENA_ARRAY(&arena, struct fact, n);
    for (size_t i = 0; i < n; i++)
        g->facts[i] = g->month->rows[i].f;
}

void rig_drop(struct rig *g)
{
    req_release(&g->req);
    blocks_free(g->blocks);
    store_close(g->month->store);
    assert_int_equal(g->memory.used, 0);
}

static int64_t some_time(struct dice *d)
{
    static const int64_t widths[] = {1, SLOT_MINUTE, SLOT_FIVE, SLOT_HOUR, SLOT_DAY};
    int64_t days = roll(d, 2) ? 3 : MONTH_DAYS;
    int64_t width = widths[roll(d, COUNT(widths))];
    int64_t t = MONTH_FROM + (int64_t)roll(d, (uint64_t)(days * SLOT_DAY));
    return slot_start(slot_of(t, width), width) + (int64_t)roll(d, 2);
}

void some_range(struct dice *d, struct query *q)
{
    int64_t a = some_time(d);
    int64_t b = some_time(d);
    q->from_ns = MIN(a, b);
    q->to_ns = MAX(a, b) + 1;
    if (roll(d, 8) == 0) q->from_ns = MONTH_FROM;
    if (roll(d, 8) == 0) q->to_ns = MONTH_FROM + SLOT_WINDOW;
}

struct head_query brute(const struct query *q)
{
    static const str tenant = S_INIT("one");
    return (struct head_query){.tenants = &tenant,
                               .tenant_count = 1,
                               .selector = q->selector,
                               .from_ns = q->from_ns,
                               .to_ns = q->to_ns};
}
