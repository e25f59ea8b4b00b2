// SPDX-License-Identifier: Apache-2.0
//
// model.c - makes random blocks as plain lists, and writes them.
#include "unit/block/model.h"

struct model_row {
    struct block_row row;  // vector: number within `vectors` of the service
};

static str model_columns(struct random *r, uint32_t stacks, uint32_t most, int64_t *total)
{
    int64_t *sums = mem_must(stacks * sizeof *sums);
    int64_t unit = random_below(r, 2) ? 10000000 : 1;
    uint32_t n = random_below(r, most + 1);
    struct buf b;
    *total = 0;
    for (uint32_t i = 0; i < n; i++)
        sums[random_below(r, stacks)] = ((int64_t)random_below(r, 900) - 50) * unit;
    for (uint32_t i = 0; i < stacks; i++)
        *total += sums[i];
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode_sums(sums, stacks, &b);
    str s = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    mem_must_free(sums);
    return s;
}

// Now and then what a node of another key has, or twelve times that.
static bool model_again(struct random *r, const struct model_service *s, struct model_node *n)
{
    const struct model_key *k = &s->keys[random_below(r, s->key_count)];
    if (random_below(r, 3) || k->node_count == 0) return false;
    const struct model_node *from = &k->nodes[random_below(r, k->node_count)];
    if (!from->columns.p) return false;
    n->columns = from->columns;
    n->node.total = from->node.total;
    if (random_below(r, 2)) return true;
    const uint8_t *at = (const uint8_t *)from->columns.p;
    const uint8_t *end = at + from->columns.n;
    uint64_t count = 0;
    uint64_t divisor = 0;
    assert_true(varint_get(&at, end, &count) && varint_get(&at, end, &divisor));
    if (count == 0 || divisor > 10000000) return true;
    uint8_t head[2 * VARINT_MAX];
    size_t used = varint_put(head, count);
    used += varint_put(head + used, divisor * 12);
    char *to = arena_new(&arena, used + (size_t)(end - at));
    memcpy(to, head, used);
    memcpy(to + used, at, (size_t)(end - at));
    n->columns = str_make(to, used + (size_t)(end - at));
    n->node.total *= 12;
    return true;
}

static void model_nodes(struct random *r, const struct model *m, const struct model_size *z,
                        const struct model_service *s, struct model_key *k)
{
    static const int64_t widths[] = {SLOT_FIVE, SLOT_HOUR, SLOT_DAY, SLOT_WEEK, SLOT_WINDOW};
    int64_t from = slot_start(m->about.from_hour, SLOT_HOUR);
    int64_t to = slot_start(m->about.from_hour + m->about.hours, SLOT_HOUR);
    k->nodes = ARENA_ARRAY(&arena, struct model_node, 64);
    for (size_t w = 0; w < COUNT(widths); w++) {
        for (int64_t slot = slot_of(from + 1, widths[w]);
             slot_start(slot + 1, widths[w]) <= to && k->node_count < 60; slot++) {
            if (slot_start(slot, widths[w]) < from || random_below(r, 3) == 0) continue;
            struct model_node *n = &k->nodes[k->node_count++];
            int64_t first = slot_start(slot, widths[w]) + 1 + random_below(r, 1000000);
            n->node = (struct block_node){.slot = slot,
                                          .width = widths[w],
                                          .profiles = 1 + random_below(r, 100),
                                          .first_ns = first,
                                          .last_ns = first + random_below(r, 1000000000)};
            if (model_again(r, s, n)) continue;
            n->columns = model_columns(r, s->symbols.stack_count, z->entries, &n->node.total);
        }
    }
}

static void model_totals(struct random *r, const struct model *m, const struct model_size *z,
                         struct model_key *k)
{
    uint32_t most = z->totals ? z->totals : 100;
    int64_t width = m->about.kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    int64_t slot = slot_of(slot_start(m->about.from_hour, SLOT_HOUR) + 1, width);
    int64_t end = slot + m->about.hours * SLOT_HOUR / width;
    k->totals = ARENA_ARRAY(&arena, struct block_total, most);
    for (; slot < end && k->total_count < most; slot += 1 + random_below(r, 3)) {
        k->totals[k->total_count++] =
            (struct block_total){slot, ((int64_t)random_below(r, 1000) - 5) * 1000,
                                 random_below(r, 50)};
    }
}

static void model_spans(struct random *r, const struct model_size *z, const struct model_service *s,
                        struct block_row *row)
{
    if (!z->spans || random_below(r, 4)) return;
    size_t n = 1 + random_below(r, 3);
    struct block_span *v = ARENA_ARRAY(&arena, struct block_span, n);
    for (size_t i = 0; i < n; i++) {
        int64_t total = 0;
        v[i].span_id = random_next(r);
        v[i].has_trace = random_below(r, 2);
        if (v[i].has_trace) memcpy(v[i].trace.b, &(uint64_t){random_next(r)}, 8);
        v[i].vector = model_columns(r, s->symbols.stack_count, 3, &total);
    }
    row->spans = v;
    row->span_count = n;
}

static void model_rows(struct random *r, const struct model *m, const struct model_size *z,
                       const struct model_service *s, struct model_key *k)
{
    static const label note[] = {{S_INIT("k"), S_INIT("v")}, {S_INIT("l"), S_INIT("w")}};
    uint32_t n = random_below(r, z->rows + 1);
    int64_t time = slot_start(m->about.from_hour, SLOT_HOUR) + 1;
    k->rows = ARENA_ARRAY(&arena, struct block_row, n);
    bool strange = random_below(r, 4) == 0;
    for (; k->row_count < n; k->row_count++) {
        struct block_row *row = &k->rows[k->row_count];
        time += 1 + random_below(r, 1000000000);
        row->time_ns = time;
        row->id = uuid_profile((uint64_t)(time / 1000000), random_next(r), random_next(r));
        if (strange) memcpy(row->id.b, &(uint64_t){random_next(r)}, 8);
        row->vector = (uint64_t)k->row_count * s->vector_count / n;
        if (random_below(r, 99) == 0) row->vector = random_below(r, 1 + (uint32_t)row->vector);
        row->factor = random_below(r, 3) ? 1 : (int64_t)random_below(r, 9) - 10;
        row->total = s->vector_totals[row->vector] * row->factor;
        row->duration_ns = strange ? (int64_t)random_below(r, 1000) : 15000000000;
        row->period = strange ? 0 : 10000000;
        row->attempt = strange ? random_below(r, 3) : 0;
        if (strange && k->row_count % 3 == 0) row->attempt |= BLOCK_IDENTIFIED;
        row->has_first_stream = strange && random_below(r, 3) == 0;
        if (row->has_first_stream) row->first_stream.b[3] = 7;
        if (strange && random_below(r, 2)) row->annotations = (labels){note, 1 + time % 2};
        model_spans(r, z, s, row);
    }
}

static struct symbol_table model_symbols(struct random *r, uint32_t stacks)
{
    struct symbols s;
    struct symbol_table t = {0};
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(r, &s, (int)stacks);
    uint32_t *map = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
    assert_ok(block_order(&arena, &s.t, NULL, &t, map, e));
    for (uint32_t i = 0; i < t.string_count; i++)
        t.strings[i] = arena_str(&arena, t.strings[i]);
    symbols_release(&s);
    return t;
}

static void model_key_make(struct random *r, const struct model *m, const struct model_size *z,
                           struct model_service *s, struct model_key *k, uint32_t i)
{
    label *v = ARENA_ARRAY(&arena, label, 3);
    v[0] = (label){S("__profile_type__"), k->type};
    v[1] = (label){S("pod"), arena_printf(&arena, "p%04u", i)};
    if (i % 5 == 4) v[0] = (label){S(LABEL_SAMPLED), S("true")};
    k->ls = (labels){v, k->class == BLOCK_ALL ? 1 : 2};
    model_nodes(r, m, z, s, k);
    if (m->about.kind >= BLOCK_HOURS) model_totals(r, m, z, k);
    if (k->class == BLOCK_SERIES && s->vector_count) model_rows(r, m, z, s, k);
}

static void model_keys(struct random *r, const struct model *m, const struct model_size *z,
                       struct model_service *s)
{
    s->keys = ARENA_ARRAY(&arena, struct model_key, (size_t)z->types * (1 + 2 * (size_t)z->keys));
    for (uint32_t t = 0; t < s->type_count; t++) {
        for (int c = 0; c < BLOCK_CLASSES; c++) {
            for (uint32_t i = 0; i < (c ? z->keys : 1); i++) {
                struct model_key *k = &s->keys[s->key_count++];
                k->class = (enum block_class)c;
                k->type = s->types[t].name;
                model_key_make(r, m, z, s, k, i);
            }
        }
    }
}

static int model_key_order(const void *a, const void *b)
{
    const struct model_key *x = a;
    const struct model_key *y = b;
    int order = str_cmp(x->type, y->type);
    if (order == 0) order = (int)x->class - (int)y->class;
    return order ? order : labels_cmp(x->ls, y->ls);
}

static void model_service_make(struct random *r, const struct model *m, const struct model_size *z,
                               struct model_service *s)
{
    s->symbols = model_symbols(r, z->stacks);
    s->types = ARENA_ARRAY(&arena, struct model_type, z->types);
    for (; s->type_count < z->types; s->type_count++) {
        struct model_type *t = &s->types[s->type_count];
        t->name = arena_printf(&arena, "type%u", s->type_count);
        t->dropped = ARENA_ARRAY(&arena, str, 2);
        t->dropped[0] = S("ip");
        t->dropped[1] = S("pod");
        t->dropped_count = random_below(r, 3);
    }
    uint32_t vectors = z->rows ? 1 + random_below(r, 2 * z->rows) : 0;
    s->vectors = ARENA_ARRAY(&arena, str, vectors);
    s->vector_totals = ARENA_ARRAY(&arena, int64_t, vectors);
    for (; s->vector_count < vectors; s->vector_count++) {
        s->vectors[s->vector_count] = model_columns(r, s->symbols.stack_count, z->entries,
                                                    &s->vector_totals[s->vector_count]);
    }
    model_keys(r, m, z, s);
    qsort(s->keys, s->key_count, sizeof *s->keys, model_key_order);
}

struct model *model_make(struct random *r, enum block_kind kind, const struct model_size *z)
{
    static const uint32_t hours[] = {0, 1, 1, 24, 672};
    struct model *m = ARENA_NEW(&arena, struct model);
    int64_t from = random_below(r, 8) ? 700 * 672 : -700 * 672;
    m->about = (struct block_about){.kind = kind,
                                    .id = {{1, 2, 3}},
                                    .tenant = S("anonymous"),
                                    .from_hour = from,
                                    .hours = hours[kind],
                                    .pack_hi = UINT32_MAX};
    if (kind == BLOCK_RAW) {
        static const str sources[] = {S_INIT("a.1.2.3"), S_INIT("a.1.2.4")};
        m->about.sources = sources;
        m->about.source_count = 2;
    }
    m->services = ARENA_ARRAY(&arena, struct model_service, z->services);
    for (; m->service_count < z->services; m->service_count++) {
        struct model_service *s = &m->services[m->service_count];
        s->name = arena_printf(&arena, "service%03u", m->service_count);
        model_service_make(r, m, z, s);
    }
    assert_ok(arena_ok(&arena, e));
    return m;
}

// ---- written
static bool model_write_key(struct block_writer *w, const struct model_key *k, err *e)
{
    if (!block_key(w, k->class, k->type, k->ls, e)) return false;
    for (uint32_t i = 0; i < k->node_count; i++) {
        if (!block_node(w, &k->nodes[i].node, k->nodes[i].columns, e)) return false;
    }
    for (uint32_t i = 0; i < k->total_count; i++) {
        if (!block_total(w, &k->totals[i], e)) return false;
    }
    for (uint32_t i = 0; i < k->row_count; i++) {
        if (!block_row(w, &k->rows[i], e)) return false;
    }
    return true;
}

static bool model_write_service(struct block_writer *w, const struct model_service *s, err *e)
{
    if (!block_service(w, s->name, &s->symbols, e)) return false;
    for (uint32_t i = 0; i < s->vector_count; i++) {
        uint64_t number = 0;
        if (!block_vector(w, s->vectors[i], &number, e)) return false;
        assert_int_equal(number, i);
    }
    uint32_t t = 0;
    for (uint32_t k = 0; k < s->key_count; k++) {
        while (t < s->type_count && str_cmp(s->types[t].name, s->keys[k].type) <= 0) {
            if (!block_dropped(w, s->types[t].name, s->types[t].dropped, s->types[t].dropped_count,
                               e)) {
                return false;
            }
            t++;
        }
        if (!model_write_key(w, &s->keys[k], e)) return false;
    }
    return true;
}

bool model_sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

bool model_write(const struct model *m, struct mem_budget *memory, struct buf *out,
                 struct block_written *written, err *e)
{
    struct block_writer_options o = {.about = m->about,
                                     .sink = model_sink,
                                     .arg = out,
                                     .memory = memory};
    struct block_writer *w = block_begin(&o, e);
    if (!w) return false;
    for (uint32_t i = 0; i < m->service_count; i++) {
        if (model_write_service(w, &m->services[i], e)) continue;
        block_abandon(w);
        return false;
    }
    return block_finish(w, written, e);
}
