// SPDX-License-Identifier: Apache-2.0
//
// jfr_pools.c - the constant pools of a chunk: checkpoints, chained from the last to the first.
//
// Entries are kept as they lie in the recording; names and stacks are put together when an event
// asks for them. References go from stack to method to class to symbol and never back.
#include "base/utf8.h"
#include "decode/jfr_int.h"
#include "model/marks.h"

#define FUNCTION_UNKNOWN (UINT32_C(1) << 31)  // in jfr_chunk.functions: a part is not in the pools
#define CLASS_DEPTH_MAX  255                  // of arrays, Java's

static struct jfr_pool *pool_of(struct jfr_pools *p, enum jfr_class_kind kind)
{
    switch (kind) {
    case JFR_SYMBOL:
        return &p->symbols;
    case JFR_CLASS:
        return &p->classes;
    case JFR_METHOD_TYPE:
        return &p->methods;
    case JFR_STACK_TRACE:
        return &p->stacks;
    case JFR_THREAD_STATE:
        return &p->states;
    case JFR_STRING:
        return &p->strings;
    default:
        return NULL;
    }
}

static union jfr_entry entry_of(enum jfr_class_kind kind, const struct jfr_values *v)
{
    if (kind == JFR_STACK_TRACE) return (union jfr_entry){.frames = v->v[JFR_FRAMES]};
    if (kind == JFR_CLASS || kind == JFR_METHOD_TYPE) {
        return (union jfr_entry){.call = {.type = v->v[JFR_TYPE], .name = v->v[JFR_NAME]}};
    }
    return (union jfr_entry){.text = v->name};
}

static bool add_entry(struct jfr_chunk *k, struct jfr_pool *p, uint64_t id, union jfr_entry entry,
                      err *e)
{
    size_t need = (size_t)p->count + 1;
    if (!arena_grow(k->a, &p->ids, &p->id_cap, need, sizeof *p->ids) ||
        !arena_grow(k->a, &p->entries, &p->entry_cap, need, sizeof *p->entries)) {
        return arena_fail(k->a, e);
    }
    p->ids[p->count] = id;
    p->entries[p->count++] = entry;
    return true;
}

static bool read_pool(struct jfr *d, struct jfr_chunk *k, struct jfr_cursor *c, err *e)
{
    const uint8_t *at = c->at;
    uint32_t row = idmap_row(&k->types.rows, jfr_long(c));
    uint64_t n = jfr_int(c);
    if (c->fault) return true;
    if (row == MAP_NONE) {
        jfr_broken(c, at, "a constant pool of a class that is not there");
        return true;
    }
    if (n > (uint64_t)(c->end - c->at)) {
        jfr_broken(c, at, "a constant pool longer than its checkpoint");
        return true;
    }
    if (!jfr_class_ready(k, row, e)) return false;
    const struct jfr_class *class = &k->types.classes[row];
    struct jfr_pool *p = pool_of(&k->pools, class->kind);
    for (uint64_t i = 0; i < n && !c->fault; i++) {
        struct jfr_values v = {0};
        uint64_t id = jfr_long(c);
        jfr_run(c, d->start, class->steps, class->step_count, &v);
        if (c->fault || !p) continue;
        if (!add_entry(k, p, id, entry_of(class->kind, &v), e)) return false;
    }
    return true;
}

// Reads the checkpoint at the cursor; *delta is the way to the one before.
static bool read_checkpoint(struct jfr *d, struct jfr_chunk *k, struct jfr_cursor *c, size_t *left,
                            uint64_t *delta, err *e)
{
    const uint8_t *at = c->at;
    uint64_t size = jfr_int(c);
    if (c->fault) return true;
    // Checkpoints do not overlap, so all of them are no larger than the chunk. That also ends a
    // chain that goes in a circle.
    if (size > *left || size > (uint64_t)(k->end - at) || size < (uint64_t)(c->at - at)) {
        jfr_broken(c, at,
                   "a checkpoint whose size is not that of a part of its chunk, or a circle");
        return true;
    }
    *left -= size;
    c->end = at + size;
    uint64_t type = jfr_long(c);
    if (!c->fault && type != 1) jfr_broken(c, at, "no checkpoint where there should be one");
    jfr_long(c);
    jfr_long(c);
    *delta = jfr_long(c);
    jfr_byte(c);
    uint64_t n = jfr_int(c);
    for (uint64_t i = 0; i < n && !c->fault; i++) {
        if (!read_pool(d, k, c, e)) return false;
    }
    return true;
}

// idmap counts the last of equal ids, so that the first comes last here.
static void turn(struct jfr_pool *p)
{
    for (uint32_t i = 0, j = p->count; i + 1 < j; i++) {
        j--;
        uint64_t id = p->ids[i];
        union jfr_entry entry = p->entries[i];
        p->ids[i] = p->ids[j];
        p->entries[i] = p->entries[j];
        p->ids[j] = id;
        p->entries[j] = entry;
    }
}

static bool index_pools(struct jfr_chunk *k, err *e)
{
    struct jfr_pool *all[] = {&k->pools.symbols, &k->pools.classes, &k->pools.methods,
                              &k->pools.stacks,  &k->pools.states,  &k->pools.strings};
    for (size_t i = 0; i < COUNT(all); i++) {
        turn(all[i]);
        if (!idmap_build(&all[i]->rows, k->a, all[i]->ids, all[i]->count, e)) return false;
    }
    return true;
}

static bool make_tables(struct jfr_chunk *k, err *e)
{
    const struct jfr_pools *p = &k->pools;
    k->states = ARENA_ARRAY(k->a, uint8_t, p->states.count);
    k->functions = ARENA_ARRAY(k->a, uint32_t, p->methods.count);
    k->lasts = ARENA_ARRAY(k->a, struct jfr_last, p->methods.count);
    k->stacks = ARENA_ARRAY(k->a, struct jfr_stack, (size_t)p->stacks.count + 1);
    k->samples = ARENA_ARRAY(k->a, uint32_t, ((size_t)p->stacks.count + 1) * JFR_PROFILES);
    k->leaves = ARENA_ARRAY(k->a, uint32_t, p->classes.count);
    if (!arena_ok(k->a, e)) return false;
    for (uint32_t i = 0; i < p->states.count; i++) {
        str s = jfr_resolve(k, k->a, &p->states.entries[i].text);
        k->states[i] = str_is(s, "STATE_SLEEPING")   ? JFR_STATE_SLEEPING
                       : str_is(s, "STATE_RUNNABLE") ? JFR_STATE_RUNNABLE
                                                     : JFR_STATE_OTHER;
    }
    return arena_ok(k->a, e);
}

// The steps of a frame, from the class of stacks.
static bool find_frames(struct jfr_chunk *k, err *e)
{
    for (uint32_t i = 0; i < k->types.class_count; i++) {
        const struct jfr_class *class = &k->types.classes[i];
        if (class->kind != JFR_STACK_TRACE) continue;
        if (!jfr_class_ready(k, i, e)) return false;
        for (uint32_t s = 0; s < class->step_count; s++) {
            const struct jfr_step *step = &class->steps[s];
            if (step->kind != JFR_ARRAY || step->slot != JFR_FRAMES) continue;
            k->frame_steps = step + 1;
            k->frame_step_count = step->body;
            k->frame_numbers = step->numbers;
        }
    }
    if (k->frame_step_count) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "malformed JFR: the metadata has no class jdk.types.StackTrace with frames");
}

bool jfr_read_pools(struct jfr *d, struct jfr_chunk *k, err *e)
{
    const uint8_t *at = k->start + k->pools_at;
    size_t left = (size_t)(k->end - k->start);
    uint64_t delta = 0;
    do {
        struct jfr_cursor c = {at, k->end, k->compressed, NULL, NULL};
        if (!read_checkpoint(d, k, &c, &left, &delta, e)) return false;
        uint64_t next = (uint64_t)(at - k->start) + delta;  // delta may be negative: it wraps
        if (!c.fault && delta &&
            (next < JFR_HEADER_BYTES || next >= (uint64_t)(k->end - k->start))) {
            jfr_broken(&c, at, "a checkpoint whose predecessor lies outside of its chunk");
        }
        if (c.fault) return jfr_fail(d, &c, e);
        if (delta) at = k->start + next;
    } while (delta != 0);
    return index_pools(k, e) && make_tables(k, e) && find_frames(k, e);
}

// ---- what the entries mean

str jfr_resolve(struct jfr_chunk *k, struct arena *a, const struct jfr_text *t)
{
    if (t->kind != JFR_TEXT_POOL) return jfr_text_str(a, t, k->compressed);
    uint32_t row = idmap_row(&k->pools.strings.rows, t->n);
    // One step: a string of the pool that names another one is empty.
    return row == MAP_NONE ? (str){0}
                           : jfr_text_str(a, &k->pools.strings.entries[row].text, k->compressed);
}

static bool is_bad_text(const struct jfr_chunk *k, const struct jfr_text *t)
{
    if (t->kind == JFR_TEXT_POOL) {
        uint32_t row = idmap_row(&k->pools.strings.rows, t->n);
        if (row == MAP_NONE) return false;
        t = &k->pools.strings.entries[row].text;
    }
    return t->kind == JFR_TEXT_UTF8 && !utf8_is_text(str_make(t->p, t->n));
}

// Empty with *there = false if the pool does not have it.
static str symbol(struct jfr *d, struct jfr_chunk *k, uint64_t id, bool *there)
{
    uint32_t row = idmap_row(&k->pools.symbols.rows, id);
    *there = row != MAP_NONE;
    if (row == MAP_NONE) return (str){0};
    const struct jfr_text *t = &k->pools.symbols.entries[row].text;
    d->bad_texts += is_bad_text(k, t);
    return jfr_name_merge(d->a, jfr_resolve(k, d->a, t));
}

// "class.name" in memory of the recording; what is not in the pools is STACK_UNKNOWN_NAME.
static str method_name(struct jfr *d, struct jfr_chunk *k, struct jfr_call m, bool *known)
{
    bool of_there = false;
    bool name_there = false;
    str of = {0};
    uint32_t class = idmap_row(&k->pools.classes.rows, m.type);
    *known = false;
    if (class == MAP_NONE) return S(STACK_UNKNOWN_NAME);
    of = symbol(d, k, k->pools.classes.entries[class].call.name, &of_there);
    str name = symbol(d, k, m.name, &name_there);
    *known = of_there && name_there;
    if (!of_there && !name_there) return S(STACK_UNKNOWN_NAME);
    if (!of_there) of = S(STACK_UNKNOWN_NAME);
    if (!name_there) name = S(STACK_UNKNOWN_NAME);
    char *p = arena_new(d->a, of.n + name.n + 1);
    if (!p) return (str){0};
    if (of.n) memcpy(p, of.p, of.n);
    p[of.n] = '.';
    if (name.n) memcpy(p + of.n + 1, name.p, name.n);
    return str_make(p, of.n + name.n + 1);
}

// The function of a method; MAP_NONE without memory.
static uint32_t function_of(struct jfr *d, struct jfr_chunk *k, uint32_t method, err *e)
{
    uint32_t *known = &k->functions[method];
    if (*known) return (*known & ~FUNCTION_UNKNOWN) - 1;
    bool whole = false;
    str name = method_name(d, k, k->pools.methods.entries[method].call, &whole);
    if (!arena_ok(d->a, e)) return MAP_NONE;
    uint32_t row = jfr_build_function(&d->build, name, e);
    if (row == MAP_NONE) return MAP_NONE;
    *known = (row + 1) | (whole ? 0 : FUNCTION_UNKNOWN);
    return row;
}

// The location of a line of a method + 1; 0 without memory. Most stacks ask for the line that was
// asked for last, as they have their roots in common.
static uint32_t location_of(struct jfr *d, struct jfr_chunk *k, uint32_t method, int32_t line,
                            err *e)
{
    struct jfr_last *last = &k->lasts[method];
    if (last->location && last->line == line) return last->location;
    uint32_t function = function_of(d, k, method, e);
    if (function == MAP_NONE) return 0;
    uint32_t row = jfr_build_location(&d->build, function, line, e);
    if (row == MAP_NONE) return 0;
    *last = (struct jfr_last){line, row + 1};
    return row + 1;
}

// The location of STACK_UNKNOWN_NAME + 1; 0 without memory.
static uint32_t unknown_location(struct jfr *d, err *e)
{
    uint32_t function = jfr_build_function(&d->build, S(STACK_UNKNOWN_NAME), e);
    if (function == MAP_NONE) return 0;
    uint32_t row = jfr_build_location(&d->build, function, 0, e);
    return row == MAP_NONE ? 0 : row + 1;
}

static bool put_frame(struct jfr_builder *b, uint32_t location, err *e)
{
    if (!arena_grow(b->a, &b->stacks, &b->stack_cap, (size_t)b->stack_count + 1,
                    sizeof *b->stacks)) {
        return arena_fail(b->a, e);
    }
    b->stacks[b->stack_count++] = location;
    return true;
}

static bool add_frame(struct jfr *d, struct jfr_chunk *k, struct jfr_stack *s, uint64_t method_id,
                      int32_t line, err *e)
{
    uint32_t method = idmap_row(&k->pools.methods.rows, method_id);
    uint32_t location =
        method == MAP_NONE ? unknown_location(d, e) : location_of(d, k, method, line, e);
    if (location == 0) return false;
    s->unknown |= method == MAP_NONE || (k->functions[method] & FUNCTION_UNKNOWN) != 0;
    return put_frame(&d->build, location - 1, e);
}

// The method and the line of a frame.
static void read_frame(struct jfr *d, const struct jfr_chunk *k, struct jfr_cursor *c,
                       struct jfr_values *v)
{
    v->v[JFR_METHOD] = v->v[JFR_LINE] = 0;
    if (!k->frame_numbers) {
        jfr_run(c, d->start, k->frame_steps, k->frame_step_count, v);
        return;
    }
    for (uint32_t i = 0; i < k->frame_step_count; i++) {
        const struct jfr_step *s = &k->frame_steps[i];
        v->v[s->slot] = jfr_number(c, s->kind == JFR_SHORT ? 2 : s->kind == JFR_INT ? 4 : 8);
    }
}

bool jfr_stack_ready(struct jfr *d, struct jfr_chunk *k, uint32_t row, err *e)
{
    struct jfr_stack *s = &k->stacks[row];
    if (s->ready) return true;
    s->first = d->build.stack_count;
    s->ready = true;
    if (row == k->pools.stacks.count) {
        uint32_t location = unknown_location(d, e);
        s->count = 1;
        return location && put_frame(&d->build, location - 1, e);
    }
    struct jfr_cursor c = {d->start + k->pools.stacks.entries[row].frames, k->end, k->compressed,
                           NULL, NULL};
    struct jfr_values v = {0};
    uint64_t n = jfr_int(&c);
    for (uint64_t i = 0; i < n && !c.fault; i++) {
        read_frame(d, k, &c, &v);
        if (!add_frame(d, k, s, v.v[JFR_METHOD], (int32_t)v.v[JFR_LINE], e)) return false;
    }
    if (c.fault) return jfr_fail(d, &c, e);  // not possible: the pool was read this way before
    s->count = d->build.stack_count - s->first;
    return true;
}

// ---- classes as frames

// As Java writes it: "byte[]" for "[B", "java/lang/String[]" for "[Ljava/lang/String;".
static str class_name(struct arena *a, str name)
{
    static const struct {
        char code;
        str name;
    } primitives[] = {{'Z', S_INIT("boolean")}, {'B', S_INIT("byte")},  {'C', S_INIT("char")},
                      {'S', S_INIT("short")},   {'I', S_INIT("int")},   {'J', S_INIT("long")},
                      {'F', S_INIT("float")},   {'D', S_INIT("double")}};
    size_t depth = 0;
    while (depth < name.n && depth < CLASS_DEPTH_MAX && name.p[depth] == '[')
        depth++;
    if (depth == 0) return name;
    str of = str_slice(name, depth, name.n);
    for (size_t i = 0; of.n == 1 && i < COUNT(primitives); i++) {
        if (of.p[0] == primitives[i].code) of = primitives[i].name;
    }
    if (str_starts(of, S("L")) && str_ends(of, S(";"))) of = str_slice(of, 1, of.n - 1);
    char *p = arena_new(a, of.n + 2 * depth);
    if (!p) return (str){0};
    if (of.n) memcpy(p, of.p, of.n);
    for (size_t i = 0; i < 2 * depth; i++)
        p[of.n + i] = i % 2 ? ']' : '[';
    return str_make(p, of.n + 2 * depth);
}

uint32_t jfr_leaf_of(struct jfr *d, struct jfr_chunk *k, uint64_t class_id, bool *ok, err *e)
{
    uint32_t class = idmap_row(&k->pools.classes.rows, class_id);
    if (class == MAP_NONE) return 0;
    if (k->leaves[class]) return k->leaves[class];
    bool there = false;
    str name = symbol(d, k, k->pools.classes.entries[class].call.name, &there);
    if (!there || name.n == 0) name = S(STACK_UNKNOWN_NAME);
    name = class_name(d->a, name);
    *ok = arena_ok(d->a, e);
    uint32_t function = *ok ? jfr_build_function(&d->build, name, e) : MAP_NONE;
    uint32_t row = function == MAP_NONE ? MAP_NONE : jfr_build_location(&d->build, function, 0, e);
    *ok = row != MAP_NONE;
    if (*ok) k->leaves[class] = row + 1;
    return *ok ? row + 1 : 0;
}
