// SPDX-License-Identifier: Apache-2.0
//
// random_block.c - makes the rows, then the nodes and totals that follow from them.
#include "unit/block/random_block.h"

#include "block/order.h"

#include <stdlib.h>

static int event_order(const void *a, const void *b)
{
    const struct random_event *x = a;
    const struct random_event *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static void make_vector(struct random_block *f, int v)
{
    uint32_t stacks = f->symbols.stack_count;
    int64_t *sums = ARENA_ARRAY(&arena, int64_t, stacks);
    for (int i = 0; i < 12; i++)
        sums[random_below(&f->random, stacks)] = 1 + random_below(&f->random, 900);
    f->vectors[v] = ARENA_ARRAY(&arena, struct vector_entry, 12);
    for (uint32_t i = 0; i < stacks; i++) {
        if (sums[i]) f->vectors[v][f->vector_counts[v]++] = (struct vector_entry){i, sums[i]};
        f->totals[v] += sums[i];
    }
}

void random_block_make(struct random_block *f, uint64_t seed, enum block_kind kind)
{
    static const uint32_t hours[] = {0, 1, 1, 24, 672};
    struct symbols s;
    *f = (struct random_block){.random = {seed}};
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
    for (int v = 0; v < RANDOM_BLOCK_VECTORS; v++)
        make_vector(f, v);
    f->event_count = 60 + random_below(&f->random, 200);
    f->events = ARENA_ARRAY(&arena, struct random_event, f->event_count);
    int64_t from = slot_start(f->about.from_hour, SLOT_HOUR) + 1;
    for (uint32_t i = 0; i < f->event_count; i++) {
        struct random_event *x = &f->events[i];
        uint64_t at = random_next(&f->random) % ((uint64_t)f->about.hours * SLOT_HOUR);
        x->series = random_below(&f->random, RANDOM_BLOCK_SERIES);
        x->time_ns = from + (int64_t)at;
        x->vector = i % RANDOM_BLOCK_VECTORS;
        x->id = uuid_profile((uint64_t)(x->time_ns / 1000000), random_next(&f->random), 0);
    }
    qsort(f->events, f->event_count, sizeof *f->events, event_order);
}

// ---- what is wrong on purpose

// Is this the thing to write wrongly? Once, for what the test ordered.
static bool is_wrong(struct random_block *f, enum random_block_wrong wrong)
{
    if (f->wrong != wrong || f->spoilt) return false;
    f->spoilt = true;
    return true;
}

static bool spoil_node(void *arg, enum block_class class, struct block_node *n, int64_t *sums)
{
    struct random_block *f = arg;
    if (class != BLOCK_ALL) return true;
    if (is_wrong(f, WRONG_NODE_MISSING)) return false;
    if (is_wrong(f, WRONG_NODE_PROFILES)) n->profiles++;
    if (n->first_ns < n->last_ns && is_wrong(f, WRONG_NODE_TIMES)) n->first_ns++;
    if (n->width == SLOT_WINDOW && is_wrong(f, WRONG_WIDE_NODE)) n->profiles++;
    if (is_wrong(f, WRONG_NODE_VECTOR)) {
        sums[1] -= 7;
        sums[2] += 7;
    }
    return true;
}

static bool spoil_total(void *arg, struct block_total *t)
{
    if (is_wrong(arg, WRONG_TOTAL)) t->profiles++;
    return true;
}

static bool spoil_row(void *arg, const struct block_row *before, struct block_row *row)
{
    struct random_block *f = arg;
    if (before && is_wrong(f, WRONG_ROW_TWICE)) {
        row->time_ns = before->time_ns;
        row->id = before->id;
    }
    if (row->time_ns > f->events[f->event_count / 2].time_ns && is_wrong(f, WRONG_ROW_TIME))
        row->time_ns += SLOT_HOUR;
    return true;
}

static bool spoil_vector(void *arg)
{
    return is_wrong(arg, WRONG_VECTOR_UNUSED);
}

// ---- written

static struct plain_row make_row(struct random_block *f, uint32_t i)
{
    const struct random_event *x = &f->events[i];
    struct block_span *span = ARENA_NEW(&arena, struct block_span);
    label *v = ARENA_ARRAY(&arena, label, 4);
    size_t n = 0;
    struct plain_row r = {.type = arena_printf(&arena, "type%u", x->series % RANDOM_BLOCK_TYPES),
                          .sampled = x->series == RANDOM_BLOCK_SERIES - 1,
                          .v = f->vectors[x->vector],
                          .n = f->vector_counts[x->vector],
                          .row = {.time_ns = x->time_ns,
                                  .id = x->id,
                                  .total = f->totals[x->vector],
                                  .factor = 1,
                                  .attempt = i % 11 == 0,
                                  .spans = span,
                                  .span_count = i % 3 == 0}};
    *span = (struct block_span){.span_id = random_next(&f->random),
                                .has_trace = i % 2,
                                .vector = plain_columns(&arena, r.v, r.n)};
    if (span->has_trace) memcpy(span->trace.b, &(uint64_t){random_next(&f->random)}, 8);
    v[n++] = (label){S(LABEL_PROFILE_TYPE), r.type};
    if (r.sampled) v[n++] = (label){S(LABEL_SAMPLED), S("true")};
    v[n++] = (label){S("pod"), arena_printf(&arena, "p%u", x->series)};
    v[n++] = (label){S("zone"), x->series / RANDOM_BLOCK_TYPES % 2 ? S("east") : S("west")};
    r.ls = (labels){v, n};
    return r;
}

bool random_block_write(struct random_block *f, uint32_t services, str *out, err *e)
{
    static const str churn[] = {S_INIT("pod")};
    struct buf b;
    struct plain_row *rows = ARENA_ARRAY(&arena, struct plain_row, f->event_count);
    struct plain_service *v = ARENA_ARRAY(&arena, struct plain_service, services);
    bool parent = f->about.kind >= BLOCK_HOURS;
    struct plain_block block = {.about = f->about,
                                .classes = 1u << BLOCK_ALL | 1u << BLOCK_SERIES |
                                           (parent ? 1u << BLOCK_PROJECTION : 0),
                                .services = v,
                                .n = services,
                                .churn = churn,
                                .churn_count = COUNT(churn),
                                .share = true,
                                .zstd_level = f->zstd_level,
                                .spoil = {f, spoil_node, spoil_total, spoil_row, spoil_vector}};
    for (uint32_t i = 0; i < f->event_count; i++)
        rows[i] = make_row(f, i);
    for (uint32_t i = 0; i < services; i++) {
        v[i] = (struct plain_service){arena_printf(&arena, "service%05u", i), &f->symbols, rows,
                                      f->event_count};
    }
    buf_init(&b, NULL, SIZE_MAX);
    bool ok = plain_block_write(&arena, &block, &b, e);
    *out = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return ok;
}
