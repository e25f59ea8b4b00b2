// SPDX-License-Identifier: Apache-2.0
//
// head_stacks.c - the sets of an hour's stacks, and the mapping of a batch's stacks. head_stacks.h
// tells of both.
#include "ingester/head/head_stacks.h"

#include "model/marks.h"
#include "model/slot.h"
#include "model/vector.h"

// ---- sets of an hour

static bool has(const struct stack_hour *h, uint32_t stack)
{
    return stack / 64 < h->words && (h->bits[stack / 64] >> (stack % 64) & 1);
}

static void put(struct stack_hour *h, uint32_t stack)
{
    assert(stack / 64 < h->words);
    h->bits[stack / 64] |= UINT64_C(1) << (stack % 64);
    h->count++;
}

static void hour_release(struct mem_budget *b, struct stack_hour *h)
{
    mem_free(b, h->bits, h->words * sizeof *h->bits);
    *h = (struct stack_hour){0};
}

void stack_hours_free(struct mem_budget *b, struct stack_hour v[STACK_HOURS])
{
    for (size_t i = 0; i < STACK_HOURS; i++)
        hour_release(b, &v[i]);
}

void stack_hours_release(struct service_head *s)
{
    stack_hours_free(service_budget(s), s->hours);
}

// Adds a stack and its ancestors, up to one that is in the set: the ancestors of that one are too.
static void put_path(struct stack_hour *h, const struct symbol_table *t, uint32_t stack,
                     uint32_t end)
{
    for (; stack != 0 && !has(h, stack); stack = t->stacks[stack].parent) {
        if (t->stacks[stack].frame == end) continue;  // stands for stacks that were cut off
        put(h, stack);
    }
}

static bool put_row(struct stack_hour *h, const struct symbol_table *t, const struct row *row,
                    uint32_t end, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, payload_view(row->vector), e)) return false;
    while (vector_next(&r, &v))
        put_path(h, t, v.stack, end);
    return vector_done(&r, e);
}

// Adds the stacks of all rows in the slot (hour, hour + 1].
static bool fill(struct stack_mapper *m, struct stack_hour *h, err *e)
{
    struct service_head *s = m->service;
    for (uint32_t i = 0; i < s->index.series_count; i++) {
        struct rows_cursor c = rows_within(&s->rows[i], slot_start(h->hour, SLOT_HOUR),
                                           slot_start(h->hour + 1, SLOT_HOUR));
        for (const struct row *row; (row = rows_next(&c));) {
            if (!put_row(h, &s->symbols.t, row, m->end, e)) return false;
        }
    }
    return true;
}

// Room for every stack of the table and every one that this batch may add: each of its stacks, and
// one `[too many stacks]` for each.
static bool widen(struct stack_mapper *m, struct stack_hour *h, err *e)
{
    uint64_t stacks =
        (uint64_t)m->service->symbols.t.stack_count + 2 * (uint64_t)m->remap.from->stack_count;
    return mem_grow(service_budget(m->service), &h->bits, &h->words, (size_t)(stacks / 64 + 1),
                    sizeof *h->bits, e);
}

static struct stack_hour *find_hour(struct stack_mapper *m, int64_t hour, err *e)
{
    struct service_head *s = m->service;
    struct stack_hour *oldest = &s->hours[0];
    for (size_t i = 0; i < STACK_HOURS; i++) {
        struct stack_hour *h = &s->hours[i];
        if (h->bits && h->hour == hour) return widen(m, h, e) ? h : NULL;
        if (h->used < oldest->used) oldest = h;
    }
    hour_release(service_budget(s), oldest);
    oldest->hour = hour;
    if (widen(m, oldest, e) && fill(m, oldest, e)) return oldest;
    hour_release(service_budget(s), oldest);
    return NULL;
}

// ---- mapping

static bool translate(struct stack_mapper *m, const struct batch *b, uint64_t limit, err *e)
{
    struct service_head *s = m->service;
    struct translations *ts = &s->head->translations;
    uint64_t most = (uint64_t)s->symbols.t.stack_count + b->symbols.stack_count - 2;
    if (limit != 0 && most > limit)
        return translation_refuse(ts, b, "is of a service with about as many stacks as it may", e);
    m->translation = translation_take(ts, s->tenant, b, &s->symbols, s->age, e);
    if (m->translation) m->stacks = translation_stacks(m->translation);
    return m->translation != NULL;
}

void mapper_release(struct stack_mapper *m)
{
    if (m->translation) translation_unref(&m->service->head->translations, m->translation);
    m->translation = NULL;
}

bool mapper_init(struct stack_mapper *m, struct service_head *s, struct arena *a,
                 const struct batch *b, uint64_t limit, err *e)
{
    const struct symbol_table *from = &b->symbols;
    *m = (struct stack_mapper){.service = s};
    if (b->has_lexicon) return translate(m, b, limit, e);
    if (!symbols_remap_init(&m->remap, a, from, &s->symbols, e)) return false;
    symbols_remap_hint(&m->remap, &s->hints);
    uint64_t most = (uint64_t)s->symbols.t.stack_count + from->stack_count - 2;
    if (limit == 0 || most <= limit) return true;
    m->limit = limit;
    m->known = ARENA_ARRAY(a, uint32_t, from->stack_count);
    if (!m->known) return arena_fail(a, e);
    struct symbol_function f = {.name = symbols_string(&s->symbols, S(STACK_MANY_NAME), e)};
    if (f.name == MAP_NONE) return false;
    struct symbol_frame frame = {.function = symbols_function(&s->symbols, f, e)};
    if (frame.function == MAP_NONE) return false;
    m->end = symbols_frame(&s->symbols, frame, e);
    return m->end != MAP_NONE;
}

bool mapper_hour(struct stack_mapper *m, int64_t hour, err *e)
{
    if (m->limit == 0 || (m->hour && m->hour->hour == hour)) return true;
    memset(m->known, 0, m->remap.from->stack_count * sizeof *m->known);
    m->hour = find_hour(m, hour, e);
    if (m->hour) m->hour->used = ++m->service->hour_clock;
    return m->hour != NULL;
}

// The child of `parent` in the service's table, or the stack that ends in `[too many stacks]`. A
// child that the hour has already is not counted again.
static uint32_t step(struct stack_mapper *m, uint32_t parent, uint32_t from_frame, err *e)
{
    struct symbols *to = &m->service->symbols;
    if (parent != 0 && to->t.stacks[parent].frame == m->end) return parent;
    uint32_t frame = symbols_remap_frame(&m->remap, from_frame, e);
    if (frame == MAP_NONE) return MAP_NONE;
    uint32_t child = symbols_find_stack(to, parent, frame);
    if (child == parent || (child != MAP_NONE && has(m->hour, child))) return child;
    if (m->hour->count >= m->limit) {
        m->capped++;
        return symbols_stack(to, parent, m->end, e);
    }
    if (child == MAP_NONE) child = symbols_stack(to, parent, frame, e);
    if (child != MAP_NONE) put(m->hour, child);
    return child;
}

// As symbols_remap_stack: no recursion; on the way up each unknown row notes its child.
static uint32_t map_capped(struct stack_mapper *m, uint32_t stack, err *e)
{
    const struct symbol_stack *rows = m->remap.from->stacks;
    uint32_t child = 0;
    uint32_t at = stack;
    while (at != 0 && m->known[at] == 0) {
        m->known[at] = child;
        child = at;
        at = rows[at].parent;
    }
    uint32_t result = at == 0 ? 0 : m->known[at] - 1;
    while (child != 0) {
        at = child;
        child = m->known[at];
        m->known[at] = 0;
        if (result != MAP_NONE) result = step(m, result, rows[at].frame, e);
        if (result != MAP_NONE) m->known[at] = result + 1;
    }
    return result;
}

uint32_t mapper_stack(struct stack_mapper *m, uint32_t stack, err *e)
{
    // batch_decode has checked that vectors name stacks that the batch or its lexicon has.
    if (m->stacks) return m->stacks[stack];
    if (m->limit == 0) return symbols_remap_stack(&m->remap, stack, e);
    assert(m->hour);
    return map_capped(m, stack, e);
}
