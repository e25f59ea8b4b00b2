// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/translation.h"

#include <stdlib.h>

enum table {
    STRINGS,
    FUNCTIONS,
    MAPPINGS,
    FRAMES,
    STACKS
};

void translations_init(struct translations *ts, struct mem_budget *budget)
{
    *ts = (struct translations){.budget = budget};
    lock_init(&ts->lock, LOCK_TRANSLATIONS);
    for (size_t i = 0; i < TRANSLATION_GROUPS; i++)
        shelf_init(&ts->groups[i].shelf, budget);
}

static void translation_free(struct translations *ts, struct translation *t)
{
    for (size_t i = 0; i < TRANSLATION_TABLES; i++)
        mem_free(ts->budget, t->rows[i].to, t->rows[i].cap * sizeof *t->rows[i].to);
    mem_free(ts->budget, t, sizeof *t);
}

// The last reference goes after all use: release orders that before the free, acquire sees it.
void translation_unref(struct translations *ts, struct translation *t)
{
    assert(atomic_load_explicit(&t->refs, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) translation_free(ts, t);
}

// With the lock.
static void forget(struct translations *ts, struct translation *t)
{
    struct shelf *shelf = &ts->groups[t->group].shelf;
    if (!t->shelved) return;
    shelf_remove(shelf, &t->item);
    if (shelf->count == 0) shelf_release(shelf);  // its buckets
    assert(ts->groups[t->group].bytes >= t->bytes && ts->bytes >= t->bytes);
    ts->groups[t->group].bytes -= t->bytes;
    ts->bytes -= t->bytes;
    ts->count--;
    t->shelved = false;
    translation_unref(ts, t);
}

// With the lock: those of the group that has most bytes.
static struct shelf *largest(struct translations *ts)
{
    size_t found = 0;
    for (size_t i = 1; i < TRANSLATION_GROUPS; i++)
        if (ts->groups[i].bytes > ts->groups[found].bytes) found = i;
    return &ts->groups[found].shelf;
}

// With the lock. Other threads may be reading the ones that go; these are freed with their last
// reference.
static void make_room(struct translations *ts)
{
    size_t limit = atomic_load_explicit(&ts->limit, memory_order_relaxed);
    while (ts->bytes > limit) {
        struct shelf_item *oldest = largest(ts)->oldest;
        assert(oldest);
        forget(ts, CONTAINER_OF(oldest, struct translation, item));
    }
}

void translations_release(struct translations *ts)
{
    translations_limit(ts, 0);
    assert(ts->bytes == 0 && ts->count == 0);
    for (size_t i = 0; i < TRANSLATION_GROUPS; i++)
        shelf_release(&ts->groups[i].shelf);
    lock_release(&ts->lock);
}

void translations_limit(struct translations *ts, size_t bytes)
{
    if (atomic_exchange_explicit(&ts->limit, bytes, memory_order_relaxed) == bytes) return;
    lock_take(&ts->lock);
    make_room(ts);
    lock_give(&ts->lock);
}

struct translation_counts translations_count(struct translations *ts)
{
    lock_take(&ts->lock);
    struct translation_counts c = {ts->count, ts->bytes, 0};
    lock_give(&ts->lock);
    c.refused = atomic_load_explicit(&ts->refused, memory_order_relaxed);
    return c;
}

uint64_t translations_age(struct translations *ts)
{
    return atomic_fetch_add_explicit(&ts->age, 1, memory_order_relaxed) + 1;
}

bool translation_refuse(struct translations *ts, const struct batch *b, const char *why, err *e)
{
    char hex[2 * sizeof b->lexicon.b + 1];
    hex_print(b->lexicon.b, sizeof b->lexicon.b, hex);
    atomic_fetch_add_explicit(&ts->refused, 1, memory_order_relaxed);
    return err_set(e, ERR_NOT_FOUND, "lexicon %s %s: send the batch with all its symbols", hex,
                   why);
}

// ---- finding one

struct wanted {
    id128 lexicon;
    uint64_t age;
    uint32_t group;
};

static bool same(const void *ctx, struct shelf_item *item)
{
    const struct wanted *w = ctx;
    const struct translation *t = CONTAINER_OF(item, struct translation, item);
    return t->age == w->age && id128_eq(t->lexicon, w->lexicon);
}

static struct translation *translation_new(struct translations *ts, const struct wanted *w, err *e)
{
    struct translation *t = mem_alloc(ts->budget, sizeof *t, e);
    if (!t) return NULL;
    t->lexicon = w->lexicon;
    t->age = w->age;
    t->group = w->group;
    t->shelved = true;
    t->bytes = sizeof *t;
    atomic_init(&t->refs, 1);
    for (size_t i = 0; i < TRANSLATION_TABLES; i++) {
        if (!mem_grow(ts->budget, &t->rows[i].to, &t->rows[i].cap, 1, sizeof(uint32_t), e)) {
            translation_free(ts, t);
            return NULL;
        }
        t->rows[i].count = 1;  // row 0 is row 0
    }
    return t;
}

// With a reference. If there is none and `fresh`, it is made. NULL: *e says why, or is untouched if
// there is none.
static struct translation *find(struct translations *ts, const struct wanted *w, bool fresh, err *e)
{
    uint64_t hash = hash_table_bytes(w->lexicon.b, sizeof w->lexicon.b);
    struct shelf *shelf = &ts->groups[w->group].shelf;
    lock_take(&ts->lock);
    struct shelf_item *item = shelf_find(shelf, hash, same, w);
    struct translation *t = item ? CONTAINER_OF(item, struct translation, item) : NULL;
    if (!t && fresh) {
        t = translation_new(ts, w, e);
        if (t && !shelf_put(shelf, &t->item, hash, e)) {
            translation_free(ts, t);
            t = NULL;
        }
        if (t) {
            ts->groups[t->group].bytes += t->bytes;
            ts->bytes += t->bytes;
            ts->count++;
        }
    }
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    lock_give(&ts->lock);
    return t;
}

// ---- rows

struct extension {
    struct translation *t;
    struct symbols *to;
    const struct symbol_table *from;
    err *e;
};

static uint32_t at(const struct extension *x, enum table table, uint32_t row)
{
    assert(row < x->t->rows[table].count);
    return x->t->rows[table].to[row];
}

static struct symbol_function function_of(const struct extension *x, uint32_t i)
{
    const struct symbol_function *f = &x->from->functions[i];
    return (struct symbol_function){
        .name = at(x, STRINGS, f->name),
        .system_name = at(x, STRINGS, f->system_name),
        .filename = at(x, STRINGS, f->filename),
        .start_line = f->start_line,
    };
}

static struct symbol_mapping mapping_of(const struct extension *x, uint32_t i)
{
    struct symbol_mapping m = x->from->mappings[i];
    m.filename = at(x, STRINGS, m.filename);
    m.build_id = at(x, STRINGS, m.build_id);
    return m;
}

static struct symbol_frame frame_of(const struct extension *x, uint32_t i)
{
    struct symbol_frame f = x->from->frames[i];
    f.function = at(x, FUNCTIONS, f.function);
    f.mapping = at(x, MAPPINGS, f.mapping);
    return f;
}

// Row i of the batch in the service's table, added if it is new there.
static uint32_t add(const struct extension *x, enum table table, uint32_t i)
{
    const struct symbol_stack *s = &x->from->stacks[i];
    switch (table) {
    case STRINGS:
        return symbols_string(x->to, x->from->strings[i], x->e);
    case FUNCTIONS:
        return symbols_function(x->to, function_of(x, i), x->e);
    case MAPPINGS:
        return symbols_mapping(x->to, mapping_of(x, i), x->e);
    case FRAMES:
        return symbols_frame(x->to, frame_of(x, i), x->e);
    case STACKS:
        return symbols_stack(x->to, at(x, STACKS, s->parent), at(x, FRAMES, s->frame), x->e);
    }
    abort();
}

// Whether row i of the batch equals this row of the service. Compares directly, without a look-up:
// that is what makes repeated rows cheap.
static bool is(const struct extension *x, enum table table, uint32_t i, uint32_t row)
{
    const struct symbol_table *t = &x->to->t;
    switch (table) {
    case STRINGS:
        return str_eq(t->strings[row], x->from->strings[i]);
    case FUNCTIONS: {
        struct symbol_function f = function_of(x, i);
        const struct symbol_function *g = &t->functions[row];
        return g->name == f.name && g->system_name == f.system_name && g->filename == f.filename &&
               g->start_line == f.start_line;
    }
    case MAPPINGS: {
        struct symbol_mapping m = mapping_of(x, i);
        const struct symbol_mapping *g = &t->mappings[row];
        return g->start == m.start && g->limit == m.limit && g->offset == m.offset &&
               g->filename == m.filename && g->build_id == m.build_id && g->flags == m.flags;
    }
    case FRAMES: {
        struct symbol_frame f = frame_of(x, i);
        return symbols_is_frame(x->to, row, &f);
    }
    case STACKS: {
        uint32_t parent = at(x, STACKS, x->from->stacks[i].parent);
        uint32_t frame = at(x, FRAMES, x->from->stacks[i].frame);
        if (frame == 0) return row == parent;
        return t->stacks[row].parent == parent && t->stacks[row].frame == frame;
    }
    }
    abort();
}

// Rows of one table: those that are here are compared, the others added. Sets *differ, or fails
// with resource_exhausted; what was added by then stays.
static bool extend_table(const struct extension *x, struct translations *ts, enum table table,
                         uint32_t had, uint32_t count, bool *differ)
{
    struct translation *t = x->t;
    if (!mem_grow(ts->budget, &t->rows[table].to, &t->rows[table].cap, (size_t)had + count,
                  sizeof(uint32_t), x->e)) {
        return false;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t number = had + i - 1;
        if (number < t->rows[table].count) {
            *differ |= !is(x, table, i, t->rows[table].to[number]);
            if (*differ) return true;
            continue;
        }
        uint32_t row = add(x, table, i);
        if (row == MAP_NONE) return false;
        t->rows[table].to[number] = row;
        t->rows[table].count = number + 1;
    }
    return true;
}

static bool extend(struct translations *ts, struct translation *t, const struct batch *b,
                   struct symbols *to, err *e)
{
    const struct symbol_counts counts = symbols_counts(&b->symbols);
    const uint32_t had[] = {b->had.strings, b->had.functions, b->had.mappings, b->had.frames,
                            b->had.stacks};
    const uint32_t more[] = {counts.strings, counts.functions, counts.mappings, counts.frames,
                             counts.stacks};
    struct extension x = {t, to, &b->symbols, e};
    bool differ = false;
    for (size_t i = 0; i < TRANSLATION_TABLES; i++) {
        if (had[i] > t->rows[i].count) return translation_refuse(ts, b, "has rows before", e);
    }
    for (size_t i = 0; i < TRANSLATION_TABLES && !differ; i++) {
        if (more[i] == 1) continue;
        if (!extend_table(&x, ts, (enum table)i, had[i], more[i], &differ)) return false;
    }
    return !differ || translation_refuse(ts, b, "has other rows than before", e);
}

static void count_bytes(struct translations *ts, struct translation *t, bool keep)
{
    size_t bytes = sizeof *t;
    for (size_t i = 0; i < TRANSLATION_TABLES; i++)
        bytes += t->rows[i].cap * sizeof(uint32_t);
    lock_take(&ts->lock);
    if (t->shelved) {
        ts->groups[t->group].bytes += bytes - t->bytes;
        ts->bytes += bytes - t->bytes;
        t->bytes = bytes;
        if (!keep) forget(ts, t);
        // It may be this one: then it serves this batch and is dropped.
        make_room(ts);
    }
    lock_give(&ts->lock);
}

static bool is_first(const struct symbol_counts *had)
{
    return had->strings == 1 && had->functions == 1 && had->mappings == 1 && had->frames == 1 &&
           had->stacks == 1;
}

struct translation *translation_take(struct translations *ts, str tenant, const struct batch *b,
                                     struct symbols *to, uint64_t age, err *e)
{
    const struct wanted w = {b->lexicon, age,
                             (uint32_t)(hash_table_str(tenant) % TRANSLATION_GROUPS)};
    if (atomic_load_explicit(&ts->limit, memory_order_relaxed) == 0) {
        (void)translation_refuse(ts, b, "is not taken", e);
        return NULL;
    }
    err fault = {0};
    struct translation *t = find(ts, &w, is_first(&b->had), &fault);
    if (!t) {
        if (!fault.code) (void)translation_refuse(ts, b, "is not known", &fault);
        *e = fault;
        return NULL;
    }
    bool ok = extend(ts, t, b, to, e);
    count_bytes(ts, t, ok || e->code != ERR_NOT_FOUND);
    if (ok) return t;
    translation_unref(ts, t);
    return NULL;
}
