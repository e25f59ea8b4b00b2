// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/fleet.h"

// ---- writing

// What a block is made of.
struct fleet_part {
    enum block_kind kind;
    uint32_t classes;
    int64_t from_hour;
    uint32_t hours;
    const struct fleet_row **rows;  // by time
    size_t n;
};

struct fleet_key {
    enum block_class class;
    const char *type;
    labels ls;
    const struct fleet_row **rows;
    size_t n;
};

struct fleet_service {
    struct block_writer *w;
    struct symbol_table t;
    uint32_t stacks[FACT_STACKS];
    const struct fleet_part *part;
};

static bool fleet_sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

static str fleet_columns(const struct fleet_service *s, const struct fact *f, size_t n)
{
    struct vector_entry v[FACT_ENTRIES];
    struct buf b;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct vector_entry){s->stacks[f->entries[i].stack], f->entries[i].value};
    assert_ok(vector_normalise(v, &n, e));
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode(v, n, &b);
    str out = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return out;
}

static void fleet_node(const struct fleet_service *s, const struct fleet_key *k, int64_t slot,
                       int64_t width, size_t least)
{
    int64_t *sums = ARENA_ARRAY(&arena, int64_t, s->t.stack_count);
    struct block_node node = {.slot = slot, .width = width};
    struct buf b;
    for (size_t i = 0; i < k->n; i++) {
        const struct fact *f = &k->rows[i]->f;
        if (slot_of(f->time_ns, width) != slot) continue;
        if (node.profiles++ == 0) node.first_ns = f->time_ns;
        node.last_ns = f->time_ns;
        node.total += f->total;
        for (size_t e = 0; e < f->n; e++)
            sums[s->stacks[f->entries[e].stack]] += f->entries[e].value;
    }
    if (node.profiles < least) return;
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode_sums(sums, s->t.stack_count, &b);
    assert_ok(block_node(s->w, &node, buf_view(&b), e));
    buf_release(&b);
}

static void fleet_nodes(const struct fleet_service *s, const struct fleet_key *k, int64_t width,
                        size_t least)
{
    int64_t from = slot_start(s->part->from_hour, SLOT_HOUR);
    int64_t to = slot_start(s->part->from_hour + s->part->hours, SLOT_HOUR);
    for (int64_t slot = slot_of(from + 1, width); slot_start(slot, width) < to; slot++)
        fleet_node(s, k, slot, width, least);
}

static void fleet_totals(const struct fleet_service *s, const struct fleet_key *k, int64_t width)
{
    for (size_t i = 0; i < k->n;) {
        struct block_total t = {.slot = slot_of(k->rows[i]->f.time_ns, width)};
        for (; i < k->n && slot_of(k->rows[i]->f.time_ns, width) == t.slot; i++) {
            t.sum += k->rows[i]->f.total;
            t.profiles++;
        }
        assert_ok(block_total(s->w, &t, e));
    }
}

static void fleet_write_row(const struct fleet_service *s, const struct fleet_row *r)
{
    static const label notes[] = {{S_INIT("note"), S_INIT("")},
                                  {S_INIT("note"), S_INIT("b")},
                                  {S_INIT("note"), S_INIT("c")},
                                  {S_INIT("note"), S_INIT("{\"a\":1}")}};
    const struct fact *f = &r->f;
    struct block_row row = {.time_ns = f->time_ns,
                            .id = f->id,
                            .total = f->total,
                            .factor = 1,
                            .duration_ns = 10,
                            .attempt = r->attempt};
    struct block_span span = {.span_id = f->span_id, .has_trace = true};
    assert_ok(block_vector(s->w, fleet_columns(s, f, f->n), &row.vector, e));
    if (f->note) row.annotations = (labels){&notes[f->note], 1};
    if (f->span_id) {
        span.trace.b[0] = (uint8_t)f->span_id;
        span.vector = fleet_columns(s, f, 1);
        row.spans = &span;
        row.span_count = 1;
    }
    assert_ok(block_row(s->w, &row, e));
}

static void fleet_write_key(const struct fleet_service *s, const struct fleet_key *k)
{
    assert_ok(block_key(s->w, k->class, str_of(k->type), k->ls, e));
    switch (s->part->kind) {
    case BLOCK_SEGMENT:
        if (k->class == BLOCK_ALL) fleet_nodes(s, k, SLOT_HOUR, 1);
        break;
    case BLOCK_RAW:
        if (k->class == BLOCK_ALL) fleet_nodes(s, k, SLOT_FIVE, 3);
        break;
    case BLOCK_HOURS:
        fleet_nodes(s, k, SLOT_HOUR, 1);
        fleet_totals(s, k, SLOT_MINUTE);
        return;
    case BLOCK_DAYS:
        fleet_nodes(s, k, SLOT_DAY, 1);
        fleet_nodes(s, k, SLOT_WEEK, 3);
        fleet_nodes(s, k, SLOT_WINDOW, 3);
        fleet_totals(s, k, SLOT_HOUR);
        return;
    }
    for (size_t i = 0; i < k->n && k->class == BLOCK_SERIES; i++)
        fleet_write_row(s, k->rows[i]);
}

static int fleet_key_order(const void *a, const void *b)
{
    const struct fleet_key *x = a;
    const struct fleet_key *y = b;
    int order = strcmp(x->type, y->type);
    if (order == 0) order = (int)x->class - (int)y->class;
    return order ? order : labels_cmp(x->ls, y->ls);
}

// The labels that a key of a class has of a row's.
static labels fleet_labels(const struct fact *f, enum block_class class)
{
    labels all = fact_labels(&arena, f);
    label *v = ARENA_ARRAY(&arena, label, all.n);
    size_t n = 0;
    for (size_t i = 0; i < all.n && class != BLOCK_ALL; i++) {
        if (class == BLOCK_PROJECTION && str_is(all.v[i].name, "pod")) continue;
        v[n++] = all.v[i];
    }
    return (labels){v, n};
}

static void fleet_write_service(struct fleet_service *s, unsigned service)
{
    const struct fleet_part *p = s->part;
    struct fleet_key *keys = ARENA_ARRAY(&arena, struct fleet_key, 3 * p->n);
    size_t key_count = 0;
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        for (size_t i = 0; i < p->n; i++) {
            const struct fact *f = &p->rows[i]->f;
            if (f->service != service || (f->sampled && c != BLOCK_SERIES)) continue;
            if (!(p->classes & 1u << c)) continue;
            struct fleet_key key = {(enum block_class)c, fact_types[f->type],
                                    fleet_labels(f, (enum block_class)c), NULL, 0};
            size_t at = 0;
            while (at < key_count && fleet_key_order(&keys[at], &key) != 0)
                at++;
            if (at == key_count) {
                keys[key_count++] = key;
                keys[at].rows = ARENA_ARRAY(&arena, const struct fleet_row *, p->n);
            }
            keys[at].rows[keys[at].n++] = p->rows[i];
        }
    }
    if (key_count == 0) return;
    qsort(keys, key_count, sizeof *keys, fleet_key_order);
    assert_ok(block_service(s->w, str_of(fact_services[service]), &s->t, e));
    const char *type = "";
    for (size_t i = 0; i < key_count; i++) {
        static const str pod = S_INIT("pod");
        if (strcmp(type, keys[i].type) != 0 && p->classes & 1u << BLOCK_PROJECTION) {
            assert_ok(block_dropped(s->w, str_of(keys[i].type), &pod, 1, e));
        }
        type = keys[i].type;
        fleet_write_key(s, &keys[i]);
    }
}

static const struct level_object *fleet_write(struct fleet *f, const char *name,
                                              const struct fleet_part *p)
{
    static const unsigned order[] = {0, 2, 1};  // "api", "db", "web"
    struct symbols symbols;
    struct block_written written;
    struct buf out;
    struct fleet_service s = {.part = p};
    uint32_t rows[FACT_STACKS];
    if (p->n == 0) return NULL;
    assert_ok(symbols_init(&symbols, NULL, e));
    for (size_t i = 0; i < FACT_STACKS; i++)
        assert_ok((rows[i] = stack_of_text(&symbols, str_of(fact_stacks[i]), e)) != MAP_NONE);
    uint32_t *map = ARENA_ARRAY(&arena, uint32_t, symbols.t.stack_count);
    assert_ok(block_order(&arena, &symbols.t, NULL, &s.t, map, e));
    for (size_t i = 0; i < FACT_STACKS; i++)
        s.stacks[i] = map[rows[i]];

    buf_init(&out, NULL, SIZE_MAX);
    struct block_writer_options o = {.about = {.kind = p->kind,
                                               .tenant = S("one"),
                                               .from_hour = p->from_hour,
                                               .hours = p->hours,
                                               .pack_hi = UINT32_MAX,
                                               .classes = p->classes},
                                     .sink = fleet_sink,
                                     .arg = &out};
    assert_ok((s.w = block_begin(&o, e)) != NULL);
    for (size_t i = 0; i < COUNT(order); i++)
        fleet_write_service(&s, order[i]);
    assert_ok(block_finish(s.w, &written, e));
    memstore_set(f->store, name, buf_view(&out));
    struct level_object *object = &f->objects[f->object_count++];
    *object = (struct level_object){.kind = p->kind,
                                    .name = arena_str(&arena, str_of(name)),
                                    .bytes = out.n};
    buf_release(&out);
    symbols_release(&symbols);
    return object;
}

// Rows of hours [from, from + hours); half: 0 and 1 are every second one, 2 is all.
static const struct level_object *fleet_object(struct fleet *f, enum block_kind kind, int64_t from,
                                               uint32_t hours, unsigned half, uint32_t classes)
{
    struct fleet_part p = {.kind = kind,
                           .classes = classes,
                           .from_hour = FLEET_HOUR + from,
                           .hours = hours};
    p.rows = ARENA_ARRAY(&arena, const struct fleet_row *, f->n);
    for (size_t i = 0; i < f->n; i++) {
        int64_t hour = slot_of(f->rows[i].f.time_ns, SLOT_HOUR) - p.from_hour;
        if (hour >= 0 && hour < hours && (half == 2 || i % 2 == half)) p.rows[p.n++] = &f->rows[i];
    }
    char name[64];
    snprintf(name, sizeof name, "k%d/%03d-%u", kind, (int)from, half);
    return fleet_write(f, name, &p);
}

static int fleet_by_time(const void *a, const void *b)
{
    const struct fact *x = &((const struct fleet_row *)a)->f;
    const struct fact *y = &((const struct fleet_row *)b)->f;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

// Most rows are of three days, many lie on borders of slots.
static struct fleet_row fleet_roll(struct dice *d)
{
    static const int64_t widths[] = {SLOT_MINUTE, SLOT_FIVE, SLOT_HOUR, SLOT_DAY};
    struct fleet_row r;
    int64_t days = roll(d, 4) ? 3 : FLEET_DAYS;
    r.f = fact_roll(d, FLEET_FROM + 1, days * SLOT_DAY);
    r.f.tenant = 0;
    // Few hours have many.
    if (roll(d, 2)) r.f.time_ns = FLEET_FROM + 1 + (int64_t)roll(d, 2 * SLOT_HOUR);
    if (roll(d, 4) == 0) {
        int64_t width = widths[roll(d, COUNT(widths))];
        int64_t slot = slot_of(r.f.time_ns, width);
        r.f.time_ns = slot_start(slot + 1, width) - (int64_t)roll(d, 2);
    }
    r.f.id = uuid_profile((uint64_t)(r.f.time_ns / 1000000), roll(d, UINT64_MAX), 0);
    r.attempt = roll(d, 8) == 0;
    return r;
}

static struct fleet *fleet_make(struct dice *d, size_t n, bool series_in_days)
{
    const uint32_t leaf = 1u << BLOCK_ALL | 1u << BLOCK_SERIES;
    const uint32_t all = leaf | 1u << BLOCK_PROJECTION;
    struct fleet *f = ARENA_NEW(&arena, struct fleet);
    f->store = memstore_open();
    f->series_in_days = series_in_days;
    f->rows = ARENA_ARRAY(&arena, struct fleet_row, n);
    f->n = n;
    for (size_t i = 0; i < n; i++)
        f->rows[i] = fleet_roll(d);
    qsort(f->rows, n, sizeof *f->rows, fleet_by_time);
    f->objects = ARENA_ARRAY(&arena, struct level_object, 4 * FLEET_DAYS * 24);
    for (int h = 0; h < FLEET_DAYS * 24; h++) {
        f->raw[h] = fleet_object(f, BLOCK_RAW, h, 1, 2, leaf);
        f->segments[h][0] = fleet_object(f, BLOCK_SEGMENT, h, 1, 0, leaf);
        f->segments[h][1] = fleet_object(f, BLOCK_SEGMENT, h, 1, 1, leaf);
    }
    for (int day = 0; day < FLEET_DAYS; day++)
        f->hours[day] = fleet_object(f, BLOCK_HOURS, day * 24, 24, 2, all);
    f->days = fleet_object(f, BLOCK_DAYS, 0, FLEET_DAYS * 24, 2,
                           series_in_days ? all : all & ~(1u << BLOCK_SERIES));
    return f;
}

// ---- plans

void fleet_piece(struct fleet_plan *p, const struct level_object *o, enum level_use use,
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
static bool fleet_fits(const struct level_ask *ask, int64_t width)
{
    return ask->step_ns % width == 0 && ask->first_ns % width == 0;
}

// A leaf: nodes in the middle, rows at the edges; or only rows.
static void fleet_leaf(struct fleet_plan *p, const struct level_object *o, int64_t width,
                       bool nodes, int64_t from, int64_t to)
{
    int64_t a = slot_start(slot_of(from, width) + 1, width);
    int64_t b = slot_start(slot_of(to + 1, width), width);
    if (!nodes || a >= b) {
        fleet_piece(p, o, LEVEL_ROWS, from, to);
        return;
    }
    fleet_piece(p, o, LEVEL_ROWS, from, a);
    fleet_piece(p, o, LEVEL_NODES, a, b);
    fleet_piece(p, o, LEVEL_ROWS, b, to);
}

static void fleet_hour(const struct fleet *f, struct dice *d, const struct level_ask *ask,
                       struct fleet_plan *p, int hour)
{
    int64_t start = FLEET_FROM + hour * SLOT_HOUR;
    int64_t from = MAX(ask->from_ns, start);
    int64_t to = MIN(ask->to_ns, start + SLOT_HOUR);
    bool nodes = ask->use == LEVEL_NODES && fleet_fits(ask, SLOT_HOUR);
    if (from >= to) return;
    bool whole = from == start && to == start + SLOT_HOUR;
    bool steps = ask->use == LEVEL_TOTALS && fleet_fits(ask, SLOT_MINUTE);
    if (whole && (nodes || steps) && !f->without_parents && roll(d, 2)) {
        fleet_piece(p, f->hours[hour / 24], nodes ? LEVEL_NODES : LEVEL_TOTALS, from, to);
    } else if (roll(d, 2)) {
        fleet_leaf(p, f->raw[hour], SLOT_FIVE, nodes, from, to);
    } else {
        for (int i = 0; i < 2; i++)
            fleet_leaf(p, f->segments[hour][i], SLOT_HOUR, nodes && whole, from, to);
    }
}

struct fleet_plan fleet_plan(const struct fleet *f, struct dice *d, const struct level_ask *ask)
{
    struct fleet_plan p = {0};
    bool days = (ask->use == LEVEL_TOTALS && fleet_fits(ask, SLOT_HOUR)) ||
                (ask->use == LEVEL_NODES && fleet_fits(ask, SLOT_DAY));
    if (ask->classes & 1u << BLOCK_SERIES && !f->series_in_days) days = false;
    if (f->without_parents) days = false;
    uint64_t often = roll(d, 3);
    for (int day = 0; day < FLEET_DAYS; day++) {
        int64_t start = FLEET_FROM + day * SLOT_DAY;
        bool whole = ask->from_ns <= start && ask->to_ns >= start + SLOT_DAY;
        if (whole && days && (often == 0 || roll(d, 4) >= often)) {
            fleet_piece(&p, f->days, ask->use, start, start + SLOT_DAY);
            continue;
        }
        for (int h = 0; h < 24; h++)
            fleet_hour(f, d, ask, &p, day * 24 + h);
    }
    return p;
}

struct fleet_plan plan_of(const struct level_object *o, enum level_use use, int64_t from,
                          int64_t to)
{
    struct fleet_plan p = {0};
    fleet_piece(&p, o, use, from, to);
    return p;
}

// ---- a querier's part of it

void rig_make(struct rig *g, uint64_t seed, size_t n, size_t cache)
{
    *g = (struct rig){.dice = {seed}};
    mem_budget_init(&g->memory, "process", NULL, 0);
    g->fleet = fleet_make(&g->dice, n, seed % 2);
    g->blocks = blocks_new(g->fleet->store, &g->memory, cache);
    req_init(&g->req, RANK_PUBLIC, &g->memory, SIZE_MAX, 0);
    g->facts = ARENA_ARRAY(&arena, struct fact, n);
    for (size_t i = 0; i < n; i++)
        g->facts[i] = g->fleet->rows[i].f;
}

void rig_drop(struct rig *g)
{
    req_release(&g->req);
    blocks_free(g->blocks);
    store_close(g->fleet->store);
    assert_int_equal(g->memory.used, 0);
}

static int64_t some_time(struct dice *d)
{
    static const int64_t widths[] = {1, SLOT_MINUTE, SLOT_FIVE, SLOT_HOUR, SLOT_DAY};
    int64_t days = roll(d, 2) ? 3 : FLEET_DAYS;
    int64_t width = widths[roll(d, COUNT(widths))];
    int64_t t = FLEET_FROM + (int64_t)roll(d, (uint64_t)(days * SLOT_DAY));
    return slot_start(slot_of(t, width), width) + (int64_t)roll(d, 2);
}

void some_range(struct dice *d, struct query *q)
{
    int64_t a = some_time(d);
    int64_t b = some_time(d);
    q->from_ns = MIN(a, b);
    q->to_ns = MAX(a, b) + 1;
    if (roll(d, 8) == 0) q->from_ns = FLEET_FROM;
    if (roll(d, 8) == 0) q->to_ns = FLEET_FROM + SLOT_WINDOW;
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
