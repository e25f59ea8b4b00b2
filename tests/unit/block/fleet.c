// SPDX-License-Identifier: Apache-2.0
#include "unit/block/fleet.h"

static int fleet_order(const void *a, const void *b)
{
    const struct fleet_event *x = a;
    const struct fleet_event *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static str fleet_columns(const int64_t *sums, uint32_t n)
{
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode_sums(sums, n, &b);
    str s = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return s;
}

void fleet_make(struct fleet *f, uint64_t seed, enum block_kind kind)
{
    static const uint32_t hours[] = {0, 1, 1, 24, 672};
    struct symbols s;
    *f = (struct fleet){.random = {seed}};
    f->about = (struct block_about){.kind = kind,
                                    .tenant = S("anonymous"),
                                    .from_hour = INT64_C(672) * 700,
                                    .hours = hours[kind],
                                    .pack_hi = UINT32_MAX};
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&f->random, &s, 60);
    uint32_t *map = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
    assert_ok(block_order(&arena, &s.t, NULL, &f->symbols, map, e));
    for (uint32_t i = 0; i < f->symbols.string_count; i++)
        f->symbols.strings[i] = arena_str(&arena, f->symbols.strings[i]);
    symbols_release(&s);
    uint32_t stacks = f->symbols.stack_count;
    for (int v = 0; v < FLEET_VECTORS; v++) {
        f->vectors[v] = ARENA_ARRAY(&arena, int64_t, stacks);
        for (int i = 0; i < 12; i++)
            f->vectors[v][random_below(&f->random, stacks)] = 1 + random_below(&f->random, 900);
        for (uint32_t i = 0; i < stacks; i++)
            f->totals[v] += f->vectors[v][i];
        f->columns[v] = fleet_columns(f->vectors[v], stacks);
    }
    f->event_count = 60 + random_below(&f->random, 200);
    f->events = ARENA_ARRAY(&arena, struct fleet_event, f->event_count);
    int64_t from = slot_start(f->about.from_hour, SLOT_HOUR) + 1;
    for (uint32_t i = 0; i < f->event_count; i++) {
        struct fleet_event *x = &f->events[i];
        uint64_t at = random_next(&f->random) % ((uint64_t)f->about.hours * SLOT_HOUR);
        x->series = random_below(&f->random, FLEET_SERIES);
        x->time_ns = from + (int64_t)at;
        x->vector = i % FLEET_VECTORS;
        x->id = uuid_profile((uint64_t)(x->time_ns / 1000000), random_next(&f->random), 0);
    }
    qsort(f->events, f->event_count, sizeof *f->events, fleet_order);
}

// ---- what is of what

static bool fleet_sampled(uint32_t series)
{
    return series == FLEET_SERIES - 1;
}

// A key: a class, and a group of series (their number; for a projection their number / 2; for ALL
// the type).
struct fleet_key {
    enum block_class class;
    uint32_t type;
    uint32_t group;
};

static bool fleet_has(const struct fleet_key *k, uint32_t series)
{
    if (series % FLEET_TYPES != k->type) return false;
    if (k->class == BLOCK_SERIES) return series == k->group;
    if (fleet_sampled(series)) return false;
    return k->class == BLOCK_ALL || series / FLEET_TYPES % 2 == k->group;
}

// Is it the first time that the ordered fault is met?
static bool fleet_faulty(struct fleet *f, enum fleet_fault fault)
{
    if (f->fault != fault || f->faulted) return false;
    f->faulted = true;
    return true;
}

static bool fleet_node(struct fleet *f, struct block_writer *w, const struct fleet_key *k,
                       int64_t slot, int64_t width, err *e)
{
    uint32_t stacks = f->symbols.stack_count;
    int64_t *sums = ARENA_ARRAY(&arena, int64_t, stacks);
    struct block_node n = {.slot = slot,
                           .width = width,
                           .first_ns = INT64_MAX,
                           .last_ns = INT64_MIN};
    for (uint32_t i = 0; i < f->event_count; i++) {
        const struct fleet_event *x = &f->events[i];
        if (!fleet_has(k, x->series) || slot_of(x->time_ns, width) != slot) continue;
        n.profiles++;
        n.total += f->totals[x->vector];
        n.first_ns = MIN(n.first_ns, x->time_ns);
        n.last_ns = MAX(n.last_ns, x->time_ns);
        for (uint32_t s = 0; s < stacks; s++)
            sums[s] += f->vectors[x->vector][s];
    }
    bool leaf = f->about.kind == BLOCK_RAW;
    if (n.profiles == 0 || (leaf && n.profiles < 3)) return true;
    bool all = k->class == BLOCK_ALL;
    if (all && fleet_faulty(f, FLEET_NODE_MISSING)) return true;
    if (all && fleet_faulty(f, FLEET_NODE_PROFILES)) n.profiles++;
    if (all && n.first_ns < n.last_ns && fleet_faulty(f, FLEET_NODE_TIMES)) n.first_ns++;
    if (all && width == SLOT_WINDOW && fleet_faulty(f, FLEET_WIDE_NODE)) n.profiles++;
    if (all && fleet_faulty(f, FLEET_NODE_VECTOR)) {
        sums[1] -= 7;
        sums[2] += 7;
    }
    return block_node(w, &n, fleet_columns(sums, stacks), e);
}

static bool fleet_nodes(struct fleet *f, struct block_writer *w, const struct fleet_key *k, err *e)
{
    static const int64_t widths[][3] = {
        [BLOCK_SEGMENT] = {SLOT_HOUR},
        [BLOCK_RAW] = {SLOT_FIVE},
        [BLOCK_HOURS] = {SLOT_HOUR},
        [BLOCK_DAYS] = {SLOT_DAY, SLOT_WEEK, SLOT_WINDOW},
    };
    if (f->about.kind <= BLOCK_RAW && k->class != BLOCK_ALL) return true;
    for (int i = 0; i < 3; i++) {
        int64_t width = widths[f->about.kind][i];
        if (width == 0 || (i > 0 && k->class == BLOCK_SERIES)) continue;
        int64_t from = slot_start(f->about.from_hour, SLOT_HOUR);
        int64_t until = from + f->about.hours * SLOT_HOUR;
        for (int64_t slot = slot_of(from + 1, width); slot_start(slot, width) < until; slot++) {
            if (!fleet_node(f, w, k, slot, width, e)) return false;
        }
    }
    return true;
}

static bool fleet_totals(struct fleet *f, struct block_writer *w, const struct fleet_key *k, err *e)
{
    int64_t width = f->about.kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    struct block_total t = {0};
    if (f->about.kind < BLOCK_HOURS) return true;
    for (uint32_t i = 0; i < f->event_count; i++) {
        const struct fleet_event *x = &f->events[i];
        if (!fleet_has(k, x->series)) continue;
        int64_t slot = slot_of(x->time_ns, width);
        if (t.profiles && slot != t.slot) {
            if (!block_total(w, &t, e)) return false;
            t = (struct block_total){0};
        }
        t.slot = slot;
        t.sum += f->totals[x->vector];
        t.profiles += fleet_faulty(f, FLEET_TOTAL) ? 2 : 1;
    }
    return t.profiles == 0 || block_total(w, &t, e);
}

static bool fleet_rows(struct fleet *f, struct block_writer *w, const struct fleet_key *k,
                       const uint64_t *numbers, err *e)
{
    struct block_row last = {0};
    if (f->about.kind > BLOCK_RAW || k->class != BLOCK_SERIES) return true;
    for (uint32_t i = 0; i < f->event_count; i++) {
        const struct fleet_event *x = &f->events[i];
        struct block_span span = {.span_id = random_next(&f->random),
                                  .has_trace = i % 2,
                                  .vector = f->columns[x->vector]};
        if (!fleet_has(k, x->series)) continue;
        struct block_row row = {.time_ns = x->time_ns,
                                .id = x->id,
                                .total = f->totals[x->vector],
                                .vector = numbers[x->vector],
                                .factor = 1,
                                .attempt = i % 11 == 0,
                                .spans = &span,
                                .span_count = i % 3 == 0};
        if (span.has_trace) memcpy(span.trace.b, &(uint64_t){random_next(&f->random)}, 8);
        if (last.factor && fleet_faulty(f, FLEET_ROW_TWICE)) {
            row.time_ns = last.time_ns;
            row.id = last.id;
        }
        if (i > f->event_count / 2 && fleet_faulty(f, FLEET_ROW_TIME)) row.time_ns += SLOT_HOUR;
        if (!block_row(w, &row, e)) return false;
        last = row;
    }
    return true;
}

static bool fleet_key(struct fleet *f, struct block_writer *w, const struct fleet_key *k,
                      const uint64_t *numbers, err *e)
{
    label v[4] = {{S(LABEL_PROFILE_TYPE), arena_printf(&arena, "type%u", k->type)}};
    size_t n = 1;
    if (k->class == BLOCK_SERIES && fleet_sampled(k->group))
        v[n++] = (label){S(LABEL_SAMPLED), S("true")};
    if (k->class == BLOCK_SERIES) v[n++] = (label){S("pod"), arena_printf(&arena, "p%u", k->group)};
    if (k->class != BLOCK_ALL) v[n++] = (label){S("zone"), k->group % 2 ? S("east") : S("west")};
    return block_key(w, k->class, v[0].value, (labels){v, n}, e) && fleet_nodes(f, w, k, e) &&
           fleet_totals(f, w, k, e) && fleet_rows(f, w, k, numbers, e);
}

static bool fleet_keys(struct fleet *f, struct block_writer *w, uint32_t type,
                       const uint64_t *numbers, err *e)
{
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        uint32_t groups = c == BLOCK_ALL ? 1 : c == BLOCK_PROJECTION ? 2 : FLEET_SERIES;
        if (c == BLOCK_PROJECTION && f->about.kind <= BLOCK_RAW) continue;
        // __sampled__ comes before pod in order of labels.
        struct fleet_key sampled = {BLOCK_SERIES, type, FLEET_SERIES - 1};
        if (c == BLOCK_SERIES && sampled.group % FLEET_TYPES == type &&
            !fleet_key(f, w, &sampled, numbers, e)) {
            return false;
        }
        for (uint32_t g = 0; g < groups; g++) {
            // Projections in order of zone: "east" is that of group 1.
            uint32_t group = c == BLOCK_PROJECTION ? 1 - g : g;
            struct fleet_key k = {(enum block_class)c, type, group};
            if (c == BLOCK_SERIES && (group % FLEET_TYPES != type || fleet_sampled(group)))
                continue;
            if (!fleet_key(f, w, &k, numbers, e)) return false;
        }
    }
    return true;
}

static bool fleet_service(struct fleet *f, struct block_writer *w, str name, err *e)
{
    static const str churn[] = {S_INIT("pod")};
    uint64_t numbers[FLEET_VECTORS] = {0};
    uint64_t unused = 0;
    if (!block_service(w, name, &f->symbols, e)) return false;
    for (int v = 0; f->about.kind <= BLOCK_RAW && v < FLEET_VECTORS; v++) {
        if (!block_vector(w, f->columns[v], &numbers[v], e)) return false;
    }
    if (fleet_faulty(f, FLEET_VECTOR_UNUSED) && !block_vector(w, f->columns[0], &unused, e))
        return false;
    for (uint32_t t = 0; t < FLEET_TYPES; t++) {
        str type = arena_printf(&arena, "type%u", t);
        if (f->about.kind >= BLOCK_HOURS && !block_dropped(w, type, churn, 1, e)) return false;
        if (!fleet_keys(f, w, t, numbers, e)) return false;
    }
    return true;
}

static bool fleet_sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

bool fleet_write(struct fleet *f, uint32_t services, str *out, err *e)
{
    struct buf b;
    struct block_written written = {0};
    buf_init(&b, NULL, SIZE_MAX);
    struct block_writer_options o = {.about = f->about,
                                     .sink = fleet_sink,
                                     .arg = &b,
                                     .zstd_level = f->zstd_level};
    struct block_writer *w = block_begin(&o, e);
    bool ok = w != NULL;
    for (uint32_t i = 0; ok && i < services; i++)
        ok = fleet_service(f, w, arena_printf(&arena, "service%05u", i), e);
    if (ok)
        ok = block_finish(w, &written, e);
    else
        block_abandon(w);
    *out = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return ok;
}
