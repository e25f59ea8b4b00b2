// SPDX-License-Identifier: Apache-2.0
//
// legacy_cpu.c - gperftools' binary CPU profile. Words of 4 or 8 bytes, of either order:
//
//     0, 3, 0 (C++) or 1 (Java), period in µs, 0
//     count, n, n addresses, leaf first                 for each stack
//     0, 1, 0
//
// and then text: the memory map, or Java's names.
#include "decode/legacy_int.h"

#define HEADER_WORDS   5
#define NS_PER_US      1000
#define SIMILAR        32  // of so many stacks one may differ
#define STRIPPED_TIMES 2   // frames of the signal's handler, at most

struct words {
    const uint8_t *at;
    const uint8_t *end;
    size_t size;
    bool big;
};

static uint64_t word(struct words *w)
{
    uint64_t v = 0;
    assert((size_t)(w->end - w->at) >= w->size);
    for (size_t i = 0; i < w->size; i++)
        v |= (uint64_t)w->at[i] << 8 * (w->big ? w->size - 1 - i : i);
    w->at += w->size;
    return v;
}

// Finds the words in which the header makes sense, and stands behind it.
static bool find_words(str bytes, struct words *w, bool *java, uint64_t *period)
{
    static const struct words kinds[] = {{.size = 4},
                                         {.size = 4, .big = true},
                                         {.size = 8},
                                         {.size = 8, .big = true}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        *w = kinds[i];
        if (bytes.n < HEADER_WORDS * w->size) continue;
        w->at = (const uint8_t *)bytes.p;
        w->end = w->at + bytes.n;
        uint64_t h[HEADER_WORDS];
        for (size_t k = 0; k < HEADER_WORDS; k++)
            h[k] = word(w);
        *java = h[2] == 1;
        *period = h[3];
        if (h[0] == 0 && h[1] == 3 && h[2] <= 1 && h[3] > 0 && h[4] == 0) return true;
    }
    return false;
}

bool legacy_cpu_is(str bytes)
{
    struct words w;
    bool java = false;
    uint64_t period = 0;
    return find_words(bytes, &w, &java, &period);
}

// One stack; *ended if it is the mark of the end.
static bool read_stack(struct legacy *l, struct words *w, size_t at, bool java, bool *ended, err *e)
{
    size_t left = (size_t)(w->end - w->at) / w->size;
    if (left < 2)
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: cut before the end of the stacks", at);
    uint64_t count = word(w);
    uint64_t depth = word(w);
    if (depth > left - 2) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "byte %zu: a stack of %llu addresses, limit %zu: the words that are left",
                       at, (unsigned long long)depth, left - 2);
    }
    if (count > INT64_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: count %llu, limit 2^63-1", at,
                       (unsigned long long)count);
    }
    uint64_t first = 0;
    for (uint64_t i = 0; i < depth; i++) {
        uint64_t address = word(w);
        if (i == 0) first = address;
        // All but the leaf are return addresses.
        if (!legacy_push(l, !java && i > 0 ? address - 1 : address, e)) return false;
    }
    *ended = count == 0 && depth == 1 && first == 0;
    if (*ended) {
        l->depth = 0;
        return true;
    }
    int64_t values[] = {(int64_t)count, 0};
    return legacy_times(values[0], l->p->period, "count x period", &values[1], e) &&
           legacy_add_sample(l, values, e);
}

static void drop_second(struct legacy *l, struct profile_sample *s)
{
    uint32_t *stack = l->p->stack_locations + s->first_location;
    memmove(stack + 1, stack + 2, (s->location_count - 2) * sizeof *stack);
    s->location_count--;
}

// If nearly all stacks have the same second frame, it is the signal's handler and no caller.
static bool strip_handler(struct legacy *l, err *e)
{
    struct profile *p = l->p;
    uint32_t *counts = ARENA_ARRAY(l->a, uint32_t, p->location_count);
    if (!counts) return arena_fail(l->a, e);
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        if (s->location_count < 2) continue;
        uint32_t row = p->stack_locations[s->first_location + 1];
        if (++counts[row] > counts[most]) most = row;
    }
    if (p->location_count == 0 || counts[most] == 0 ||
        counts[most] < p->sample_count - p->sample_count / SIMILAR) {
        return true;
    }
    for (uint32_t i = 0; i < p->sample_count; i++) {
        struct profile_sample *s = &p->samples[i];
        if (s->location_count > 1 && p->stack_locations[s->first_location + 1] == most)
            drop_second(l, s);
    }
    return true;
}

// The leaf may be there twice, from the signal's registers and from unwinding.
static void drop_twins(struct legacy *l)
{
    struct profile *p = l->p;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        struct profile_sample *s = &p->samples[i];
        const uint32_t *stack = p->stack_locations + s->first_location;
        if (s->location_count > 1 &&
            p->locations[stack[0]].address == p->locations[stack[1]].address + 1) {
            drop_second(l, s);
        }
    }
}

bool legacy_read_cpu(struct legacy *l, str bytes, err *e)
{
    static const struct profile_type types[] = {{S_INIT("samples"), S_INIT("count")},
                                                {S_INIT("cpu"), S_INIT("nanoseconds")}};
    struct words w;
    bool java = false;
    uint64_t period = 0;
    bool found = find_words(bytes, &w, &java, &period);
    assert(found);
    if (!found || period > INT64_MAX / NS_PER_US)
        return err_set(e, ERR_INVALID_ARGUMENT, "period %llu us, limit %lld",
                       (unsigned long long)period, (long long)(INT64_MAX / NS_PER_US));
    legacy_types(l, types, COUNT(types));
    l->p->period_type = types[1];
    l->p->period = (int64_t)period * NS_PER_US;
    for (bool ended = false; !ended;) {
        size_t at = (size_t)(w.at - (const uint8_t *)bytes.p);
        if (!read_stack(l, &w, at, java, &ended, e)) return false;
    }
    l->r.rest = str_make(w.at, (size_t)(w.end - w.at));
    l->java = java;
    if (java) return legacy_java_names(l, e);
    for (int i = 0; i < STRIPPED_TIMES; i++) {
        if (!strip_handler(l, e)) return false;
    }
    drop_twins(l);
    return legacy_read_map(l, e);
}
