// SPDX-License-Identifier: Apache-2.0
//
// jfr_build.c - from events to samples, and from samples to profiles.
#include "base/hash.h"
#include "decode/jfr_int.h"
#include "decode/symbol.h"
#include "model/symbols.h"

#include <inttypes.h>

static const struct {
    str name;
    struct profile_type types[JFR_VALUES];
    struct profile_type period;
} kinds[JFR_PROFILES] = {
    [JFR_CPU] = {S_INIT("process_cpu"),
                 {{S_INIT("cpu"), S_INIT("nanoseconds")}},
                 {S_INIT("cpu"), S_INIT("nanoseconds")}},
    [JFR_WALL] = {S_INIT("wall"),
                  {{S_INIT("wall"), S_INIT("nanoseconds")}},
                  {S_INIT("wall"), S_INIT("nanoseconds")}},
    [JFR_ALLOC_IN_TLAB] = {S_INIT("memory"),
                           {{S_INIT("alloc_in_new_tlab_objects"), S_INIT("count")},
                            {S_INIT("alloc_in_new_tlab_bytes"), S_INIT("bytes")}},
                           {S_INIT("space"), S_INIT("bytes")}},
    [JFR_ALLOC_OUTSIDE_TLAB] = {S_INIT("memory"),
                                {{S_INIT("alloc_outside_tlab_objects"), S_INIT("count")},
                                 {S_INIT("alloc_outside_tlab_bytes"), S_INIT("bytes")}},
                                {S_INIT("space"), S_INIT("bytes")}},
    [JFR_ALLOC_SAMPLE] = {S_INIT("memory"),
                          {{S_INIT("alloc_sample_objects"), S_INIT("count")},
                           {S_INIT("alloc_sample_bytes"), S_INIT("bytes")}},
                          {S_INIT("space"), S_INIT("bytes")}},
    [JFR_MUTEX] = {S_INIT("mutex"),
                   {{S_INIT("contentions"), S_INIT("count")},
                    {S_INIT("delay"), S_INIT("nanoseconds")}},
                   {S_INIT("mutex"), S_INIT("count")}},
    [JFR_BLOCK] = {S_INIT("block"),
                   {{S_INIT("contentions"), S_INIT("count")},
                    {S_INIT("delay"), S_INIT("nanoseconds")}},
                   {S_INIT("block"), S_INIT("count")}},
    [JFR_LIVE] = {S_INIT("memory"),
                  {{S_INIT("live"), S_INIT("count")}},
                  {S_INIT("objects"), S_INIT("count")}},
    [JFR_NATIVE] = {S_INIT("memory"),
                    {{S_INIT("malloc_objects"), S_INIT("count")},
                     {S_INIT("malloc_bytes"), S_INIT("bytes")}},
                    {{0}, {0}}},
};

void jfr_build_init(struct jfr_builder *b, struct arena *a, uint32_t symbol_max)
{
    *b = (struct jfr_builder){.a = a, .symbol_max = symbol_max};
    map_init(&b->function_rows, a->budget);
    map_init(&b->location_rows, a->budget);
    for (int i = 0; i < JFR_PROFILES; i++) {
        map_init(&b->samples[i].rows, a->budget);
    }
}

void jfr_build_release(struct jfr_builder *b)
{
    map_release(&b->function_rows);
    map_release(&b->location_rows);
    for (int i = 0; i < JFR_PROFILES; i++) {
        map_release(&b->samples[i].rows);
    }
}

uint32_t jfr_build_function(struct jfr_builder *b, str name, err *e)
{
    bool is_long = symbol_is_long(name, b->symbol_max);
    name = symbol_cut(name, b->symbol_max);
    uint64_t hash = hash_table_str(name);
    uint32_t step = 0;
    uint32_t row = map_next(&b->function_rows, hash, &step);
    while (row != MAP_NONE && !str_eq(b->functions[row], name)) {
        row = map_next(&b->function_rows, hash, &step);
    }
    if (row != MAP_NONE) return row;
    row = b->function_count;
    if (!arena_grow(b->a, &b->functions, &b->function_cap, (size_t)row + 1, sizeof(str))) {
        arena_fail(b->a, e);
        return MAP_NONE;
    }
    b->functions[b->function_count++] = name;
    b->long_names += is_long;
    return map_put(&b->function_rows, hash, row, e) ? row : MAP_NONE;
}

uint32_t jfr_build_location(struct jfr_builder *b, uint32_t function, int64_t line, err *e)
{
    uint64_t hash = hash_table_word((uint64_t)function << 32 ^ (uint64_t)line);
    uint32_t step = 0;
    uint32_t row = MAP_NONE;
    for (;;) {
        row = map_next(&b->location_rows, hash, &step);
        if (row == MAP_NONE) break;
        const struct jfr_location *l = &b->locations[row];
        if (l->function == function && l->line == line) return row;
    }
    row = b->location_count;
    if (!arena_grow(b->a, &b->locations, &b->location_cap, (size_t)row + 1, sizeof *b->locations)) {
        arena_fail(b->a, e);
        return MAP_NONE;
    }
    b->locations[b->location_count++] = (struct jfr_location){function, line};
    return map_put(&b->location_rows, hash, row, e) ? row : MAP_NONE;
}

// ---- samples

static bool same_sample(const struct jfr_sample *s, const struct jfr_sample *key)
{
    return s->stack == key->stack && s->context == key->context && s->span == key->span &&
           s->span_name == key->span_name && s->leaf == key->leaf;
}

static uint32_t find_sample(struct jfr_samples *all, const struct jfr_sample *key, struct arena *a,
                            err *e)
{
    uint64_t hash = hash_table_word(key->stack);
    hash = hash_table_and(hash, key->context);
    hash = hash_table_and(hash, key->span);
    hash = hash_table_and(hash, key->span_name);
    hash = hash_table_and(hash, key->leaf);
    uint32_t step = 0;
    uint32_t row = map_next(&all->rows, hash, &step);
    while (row != MAP_NONE && !same_sample(&all->v[row], key)) {
        row = map_next(&all->rows, hash, &step);
    }
    if (row != MAP_NONE) return row;
    row = all->count;
    if (!arena_grow(a, &all->v, &all->cap, (size_t)row + 1, sizeof *all->v)) {
        arena_fail(a, e);
        return MAP_NONE;
    }
    all->v[all->count++] = *key;
    return map_put(&all->rows, hash, row, e) ? row : MAP_NONE;
}

// Adds the values of an event to its sample, whose number is *last - 1. A sum beyond 64 bits is for
// those to refuse who take the profile, for the recording's other profiles may fit: what does not
// fit into the sample is a sample more.
static bool count_values(struct arena *a, struct jfr_samples *all, uint32_t *last, int64_t one,
                         int64_t two, err *e)
{
    struct jfr_sample *s = &all->v[*last - 1];
    int64_t sums[JFR_VALUES] = {0};
    bool over = __builtin_add_overflow(s->values[0], one, &sums[0]);
    over |= __builtin_add_overflow(s->values[1], two, &sums[1]);
    if (over) {
        if (!arena_grow(a, &all->v, &all->cap, (size_t)all->count + 1, sizeof *all->v))
            return arena_fail(a, e);
        all->v[all->count] = all->v[*last - 1];
        s = &all->v[all->count++];
        *last = all->count;
        sums[0] = one;
        sums[1] = two;
    }
    memcpy(s->values, sums, sizeof sums);
    return true;
}

static bool add(struct jfr *d, struct jfr_chunk *k, enum jfr_profile_kind kind,
                const struct jfr_values *v, int64_t one, int64_t two, err *e)
{
    struct jfr_samples *all = &d->build.samples[kind];
    uint32_t stack = idmap_row(&k->pools.stacks.rows, v->v[JFR_STACK]);
    if (stack == MAP_NONE) {
        stack = k->pools.stacks.count;
        losses_add(&all->losses, LOSS_UNKNOWN_STACK, 1);
    }
    struct jfr_sample key = {
        .stack = k->first_stack + stack,
        .context = v->v[JFR_CONTEXT],
        .span = v->v[JFR_SPAN],
        .span_name = v->v[JFR_SPAN_NAME],
    };
    if (d->o->allocation_class && v->v[JFR_OBJECT]) {
        bool ok = true;
        key.leaf = jfr_leaf_of(d, k, v->v[JFR_OBJECT], &ok, e);
        if (!ok) return false;
    }
    uint32_t *last = &k->samples[(size_t)kind * ((size_t)k->pools.stacks.count + 1) + stack];
    if (*last == 0 || !same_sample(&all->v[*last - 1], &key)) {
        if (!jfr_stack_ready(d, k, stack, e)) return false;
        key.first = k->stacks[stack].first;
        key.count = k->stacks[stack].count;
        uint32_t row = find_sample(all, &key, d->a, e);
        if (row == MAP_NONE) return false;
        *last = row + 1;
    }
    if (k->stacks[stack].unknown) losses_add(&all->losses, LOSS_UNKNOWN_FRAME, 1);
    return count_values(d->a, all, last, one, two, e);
}

static enum jfr_state state_of(const struct jfr_chunk *k, const struct jfr_values *v)
{
    uint32_t row = idmap_row(&k->pools.states.rows, v->v[JFR_STATE]);
    return row == MAP_NONE ? JFR_STATE_UNKNOWN : k->states[row];
}

// Adds `count` samples of time, of the wall clock's rate or of that of execution samples.
static bool add_time(struct jfr *d, struct jfr_chunk *k, enum jfr_profile_kind kind,
                     const struct jfr_values *v, bool of_wall, uint64_t count, err *e)
{
    const struct jfr_rate *r = jfr_rate_at(k, v->v[JFR_START]);
    struct jfr_samples *all = &d->build.samples[kind];
    int64_t time = 0;
    all->period = of_wall ? r->wall : r->execution;
    if (count > INT64_MAX || __builtin_mul_overflow((int64_t)count, all->period, &time)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "JFR: a wall clock sample of 2^63 ns or more");
    }
    if (of_wall ? r->wall_assumed : r->execution_assumed)
        losses_add(&all->losses, LOSS_ASSUMED_RATE, 1);
    return add(d, k, kind, v, time, 0, e);
}

// Samples of the CPU are awake, as far as the recording knows. The wall clock's own samples are
// those of a recording of event "wall"; beside another event they have a state of their own, and
// that is the default for those of the other. A sleeping sample is always of the wall clock.
static bool add_execution(struct jfr *d, struct jfr_chunk *k, const struct jfr_values *v, err *e)
{
    const struct jfr_rate *r = jfr_rate_at(k, v->v[JFR_START]);
    enum jfr_state state = state_of(k, v);
    bool sleeps = state == JFR_STATE_SLEEPING;
    bool beside = r->has_wall && (sleeps || state == JFR_STATE_RUNNABLE);
    bool cpu = !sleeps && !(r->is_wall && state == JFR_STATE_UNKNOWN);
    if (cpu && !add_time(d, k, JFR_CPU, v, false, 1, e)) return false;
    if (r->is_wall) return add_time(d, k, JFR_WALL, v, false, 1, e);
    if (!beside && !sleeps) return true;
    return add_time(d, k, JFR_WALL, v, beside, 1, e);
}

static bool add_wall(struct jfr *d, struct jfr_chunk *k, const struct jfr_values *v, err *e)
{
    const struct jfr_rate *r = jfr_rate_at(k, v->v[JFR_START]);
    uint64_t n = v->v[JFR_SAMPLES];
    if (r->is_wall && state_of(k, v) == JFR_STATE_RUNNABLE &&
        !add_time(d, k, JFR_CPU, v, true, n, e)) {
        return false;
    }
    return add_time(d, k, JFR_WALL, v, true, n, e);
}

bool jfr_build_event(struct jfr *d, struct jfr_chunk *k, enum jfr_class_kind kind,
                     const struct jfr_values *v, err *e)
{
    static const enum jfr_profile_kind profiles[JFR_EVENTS] = {
        [JFR_IN_TLAB] = JFR_ALLOC_IN_TLAB,
        [JFR_OUTSIDE_TLAB] = JFR_ALLOC_OUTSIDE_TLAB,
        [JFR_ALLOCATION_SAMPLE] = JFR_ALLOC_SAMPLE,
        [JFR_MONITOR_ENTER] = JFR_MUTEX,
        [JFR_THREAD_PARK] = JFR_BLOCK,
        [JFR_LIVE_OBJECT] = JFR_LIVE,
        [JFR_MALLOC] = JFR_NATIVE,
    };
    switch (kind) {
    case JFR_EXECUTION_SAMPLE:
        return add_execution(d, k, v, e);
    case JFR_WALL_SAMPLE:
        return add_wall(d, k, v, e);
    default:
        assert(kind < JFR_EVENTS);
        return add(d, k, profiles[kind], v, 1, (int64_t)v->v[JFR_VALUE], e);
    }
}

// ---- profiles: each has the functions and locations that its own samples use

struct copying {
    const struct jfr *d;
    struct profile *p;
    uint32_t *functions;  // of the builder's rows: the profile's + 1
    uint32_t *locations;
    size_t label_cap;
};

static uint32_t copy_location(struct copying *x, uint32_t row)
{
    struct profile *p = x->p;
    assert(x->locations && x->functions);  // a stack with frames: neither table is empty
    if (x->locations[row]) return x->locations[row] - 1;
    const struct jfr_location *l = &x->d->build.locations[row];
    uint32_t *function = &x->functions[l->function];
    if (*function == 0) {
        p->functions[p->function_count++].name = x->d->build.functions[l->function];
        *function = p->function_count;
    }
    p->lines[p->line_count] = (struct profile_line){*function - 1, l->line};
    p->locations[p->location_count] =
        (struct profile_location){.mapping = 0, .first_line = p->line_count++, .line_count = 1};
    x->locations[row] = ++p->location_count;
    return p->location_count - 1;
}

static void put_label(struct copying *x, str key, str text)
{
    struct profile *p = x->p;
    if (key.n == 0 || text.n == 0) return;
    if (!arena_grow(x->d->a, &p->labels, &x->label_cap, (size_t)p->label_count + 1,
                    sizeof *p->labels)) {
        return;  // the arena is exhausted, which is asked at the end
    }
    p->labels[p->label_count++] = (struct profile_label){.key = key, .text = text};
}

static str string_of(const struct jfr_labels *l, uint64_t id)
{
    uint32_t row = idmap_row(&l->string_rows, id);
    return row == MAP_NONE ? (str){0} : l->strings[row];
}

static void copy_labels(struct copying *x, const struct jfr_sample *s)
{
    const struct jfr_labels *l = &x->d->labels;
    uint32_t context = idmap_row(&l->contexts, s->context);
    bool known = context != MAP_NONE || s->context == 0;
    if (context != MAP_NONE) {
        for (uint32_t i = l->context_first[context]; i < l->context_first[context + 1]; i++) {
            const struct jfr_label_pair *pair = &l->pairs[i];
            known &= idmap_row(&l->string_rows, pair->key) != MAP_NONE &&
                     idmap_row(&l->string_rows, pair->text) != MAP_NONE;
            put_label(x, string_of(l, pair->key), string_of(l, pair->text));
        }
    }
    losses_add(&x->p->losses, LOSS_UNKNOWN_LABELS, !known);
    if (s->span) put_label(x, S("profile_id"), arena_printf(x->d->a, "%016" PRIx64, s->span));
    if (s->span_name) put_label(x, S("span_name"), string_of(l, s->span_name));
}

static bool make_tables(struct copying *x, const struct jfr_samples *all, err *e)
{
    struct arena *a = x->d->a;
    struct profile *p = x->p;
    uint64_t frames = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        frames += all->v[i].count + (all->v[i].leaf != 0);
    }
    if (frames > UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "JFR: stacks of %" PRIu64 " frames, limit 2^32",
                       frames);
    }
    const struct jfr_builder *b = &x->d->build;
    x->functions = ARENA_ARRAY(a, uint32_t, b->function_count);
    x->locations = ARENA_ARRAY(a, uint32_t, b->location_count);
    p->functions = ARENA_ARRAY(a, struct profile_function, b->function_count);
    p->locations = ARENA_ARRAY(a, struct profile_location, b->location_count);
    p->lines = ARENA_ARRAY(a, struct profile_line, b->location_count);
    p->samples = ARENA_ARRAY(a, struct profile_sample, all->count);
    p->values = ARENA_ARRAY(a, int64_t, (size_t)all->count * JFR_VALUES);
    p->stack_locations = ARENA_ARRAY(a, uint32_t, frames);
    p->types = ARENA_ARRAY(a, struct profile_type, JFR_VALUES);
    p->mappings = ARENA_NEW(a, struct profile_mapping);
    return arena_ok(a, e);
}

static bool make_profile(struct jfr *d, enum jfr_profile_kind kind, struct profile *p, err *e)
{
    const struct jfr_samples *all = &d->build.samples[kind];
    struct copying x = {.d = d, .p = p};
    if (!make_tables(&x, all, e)) return false;
    p->mappings[p->mapping_count++].flags = SYMBOL_HAS_FUNCTIONS;
    for (uint32_t i = 0; i < JFR_VALUES && kinds[kind].types[i].type.n; i++) {
        p->types[p->type_count++] = kinds[kind].types[i];
    }
    p->period_type = kinds[kind].period;
    p->period = all->period;
    p->losses = all->losses;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct jfr_sample *s = &all->v[i];
        struct profile_sample *to = &p->samples[i];
        to->first_location = p->stack_location_count;
        to->location_count = s->count + (s->leaf != 0);
        if (s->leaf) p->stack_locations[p->stack_location_count++] = copy_location(&x, s->leaf - 1);
        for (uint32_t f = 0; f < s->count; f++) {
            p->stack_locations[p->stack_location_count++] =
                copy_location(&x, d->build.stacks[s->first + f]);
        }
        to->first_label = p->label_count;
        copy_labels(&x, s);
        to->label_count = p->label_count - to->first_label;
        memcpy(&p->values[(size_t)i * p->type_count], s->values, p->type_count * sizeof(int64_t));
    }
    p->sample_count = all->count;
    // A recording holds much that is not in its profiles.
    p->encoded_bytes = decode_pprof_size(p);
    return arena_ok(d->a, e);
}

bool jfr_build_profiles(struct jfr *d, struct jfr_recording *out, err *e)
{
    struct profile *profiles = ARENA_ARRAY(d->a, struct profile, JFR_PROFILES);
    str *names = ARENA_ARRAY(d->a, str, JFR_PROFILES);
    if (!profiles || !names) return arena_fail(d->a, e);
    size_t n = 0;
    for (int kind = 0; kind < JFR_PROFILES; kind++) {
        if (d->build.samples[kind].count == 0) continue;
        names[n] = kinds[kind].name;
        if (!make_profile(d, (enum jfr_profile_kind)kind, &profiles[n++], e)) return false;
    }
    if (n) losses_add(&profiles[0].losses, LOSS_BAD_TEXT, d->bad_texts + d->labels.bad_texts);
    if (n) losses_add(&profiles[0].losses, LOSS_SYMBOL_LENGTH, d->build.long_names);
    if (n) losses_add(&profiles[0].losses, LOSS_CUT_CHUNK, d->is_cut);
    *out = (struct jfr_recording){{profiles, n}, names, d->settings.event};
    return true;
}
