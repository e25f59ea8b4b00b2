// SPDX-License-Identifier: Apache-2.0
//
// normalise_stacks.c - gives stacks that Go's profiler cut their missing part back. A cut stack has
// lost its root side, so its last locations stand somewhere inside a longer stack:
//
//     leaf                                              root
//     A: x x x x [t t t t t t t t t t t t t t t t]                 cut: ends with 16 t
//     B: y y [t t t t t t t t t t t t t t t t] m m m               has 3 locations below them
//     A: x x x x [t t t t t t t t t t t t t t t t] m m m           repaired
//
//     1. Stacks are grouped by their last 24 locations.
//     2. Each group offers windows of 16 locations that end 1 to 8 locations before its root.
//     3. If the last 16 locations of a group are a window of another group, that one is its source.
//        Of several the source is the one with most locations below the window; of equal ones, the
//        first.
//     4. A source may be cut as well, so the chain of sources is followed to its end; the missing
//        locations of all its links are appended.
//
// The numbers are Pyroscope's. So is giving up at deep recursion, where a stack looks like its own
// continuation: flame graphs of the same profile must not differ.
#include "base/hash.h"
#include "base/map.h"
#include "intake/normalise.h"

#include <stdlib.h>

#define WINDOW     16u  // locations that must agree
#define OFFSETS    8u   // how far from the root a window may end
#define SUFFIX     (WINDOW + OFFSETS)
#define CHAIN_MAX  56
#define HEAP_DEPTH 32u  // limits of Go's profilers. Since Go 1.23 a heap's is 128, and stacks that
#define CPU_DEPTH  64u  // deep need no repair.
#define SLACK      4u   // inlining makes cut stacks shorter than the limit

struct tall {
    const uint32_t *suffix;  // its last locations, leaf first
    uint32_t sample;
};

struct group {
    uint32_t first;  // of the tall stacks; they are in order
    uint32_t end;
    uint32_t source;   // a group that has more of the root side, or MAP_NONE
    uint32_t more;     // how many locations more
    uint32_t missing;  // locations to append
    uint32_t from;     // the sample that they are copied from
};

struct window {
    const uint32_t *locations;
    uint32_t group;
    uint32_t offset;
};

struct repair {
    struct arena *a;
    struct profile *p;
    struct tall *tall;
    struct group *groups;
    struct window *windows;
    struct map index;  // of windows
    uint32_t tall_count;
    uint32_t group_count;
    uint32_t window_count;
};

static bool has_type(const struct profile *p, const str *names, size_t n)
{
    for (uint32_t i = 0; i < p->type_count; i++) {
        for (size_t k = 0; k < n; k++) {
            if (str_eq(p->types[i].type, names[k])) return true;
        }
    }
    return false;
}

static bool may_be_cut(const struct profile *p)
{
    static const str heap[] = {S_INIT("alloc_objects"), S_INIT("alloc_space"),
                               S_INIT("inuse_objects"), S_INIT("inuse_space")};
    static const str cpu[] = {S_INIT("cpu")};
    bool is_heap = has_type(p, heap, COUNT(heap));
    if (!is_heap && !has_type(p, cpu, COUNT(cpu))) return false;
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        deepest = MAX(deepest, p->samples[i].location_count);
    }
    // Deeper than the limit shows that the profiler has another one, so nothing was cut at this
    // one.
    if (is_heap) return deepest >= HEAP_DEPTH - SLACK && deepest <= HEAP_DEPTH;
    return deepest >= CPU_DEPTH - SLACK;
}

// ---- groups

// Compares locations as little-endian bytes. That is Pyroscope's order, so that of several equally
// good sources the same one is taken.
static int by_bytes(uint32_t a, uint32_t b)
{
    // + 1: Pyroscope's rows count from 1, and the bytes of the number decide.
    uint32_t x = __builtin_bswap32(a + 1);
    uint32_t y = __builtin_bswap32(b + 1);
    return x < y ? -1 : x > y;
}

static int by_suffix(const void *one, const void *two)
{
    const struct tall *a = one;
    const struct tall *b = two;
    for (uint32_t i = 0; i < SUFFIX; i++) {
        int c = by_bytes(a->suffix[i], b->suffix[i]);
        if (c) return c;
    }
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

static bool collect_tall(struct repair *x)
{
    const struct profile *p = x->p;
    x->tall = ARENA_ARRAY(x->a, struct tall, p->sample_count);
    if (!x->tall) return false;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        if (s->location_count < SUFFIX) continue;
        uint32_t from = s->first_location + s->location_count - SUFFIX;
        x->tall[x->tall_count++] = (struct tall){p->stack_locations + from, i};
    }
    if (x->tall_count) qsort(x->tall, x->tall_count, sizeof *x->tall, by_suffix);
    return true;
}

static bool make_groups(struct repair *x)
{
    x->groups = ARENA_ARRAY(x->a, struct group, x->tall_count);
    if (!x->groups) return false;
    for (uint32_t i = 0; i < x->tall_count; i++) {
        // Equal suffixes are neighbours, because the stacks are sorted by them.
        bool same = i > 0 && memcmp(x->tall[i - 1].suffix, x->tall[i].suffix,
                                    SUFFIX * sizeof(uint32_t)) == 0;
        if (!same) x->groups[x->group_count++] = (struct group){.first = i, .source = MAP_NONE};
        x->groups[x->group_count - 1].end = i + 1;
    }
    // Pyroscope ends the last group at the number of groups, so that mostly none of it is repaired.
    // The same is done here: flame graphs of the same profile must not differ.
    if (x->group_count) {
        struct group *last = &x->groups[x->group_count - 1];
        last->end = MAX(last->first, MIN(last->end, x->group_count));
    }
    return true;
}

// ---- windows

static bool same_window(const void *ctx, uint32_t row)
{
    const struct window *const *x = ctx;
    return memcmp(x[0][row].locations, x[1]->locations, WINDOW * sizeof(uint32_t)) == 0;
}

static uint32_t find_window(const struct repair *x, const uint32_t *locations, uint64_t *hash)
{
    struct window wanted = {.locations = locations};
    *hash = hash_table_bytes(locations, WINDOW * sizeof *locations);
    return map_find(&x->index, *hash, same_window,
                    (const struct window *const[]){x->windows, &wanted});
}

static bool offer_windows(struct repair *x, uint32_t group, err *e)
{
    const uint32_t *suffix = x->tall[x->groups[group].first].suffix;
    for (uint32_t offset = 1; offset <= OFFSETS; offset++) {
        const uint32_t *locations = suffix + OFFSETS - offset;
        assert(group < x->group_count);
        uint64_t hash = 0;
        uint32_t row = find_window(x, locations, &hash);
        if (row == MAP_NONE) {
            assert(x->window_count < x->group_count * OFFSETS);
            x->windows[x->window_count] = (struct window){locations, group, offset};
            if (!map_put(&x->index, hash, x->window_count++, e)) return false;
            // A larger offset ends farther from the root, so its group has more locations to give.
        } else if (offset > x->windows[row].offset) {
            x->windows[row].group = group;
            x->windows[row].offset = offset;
        }
    }
    return true;
}

static bool find_sources(struct repair *x, err *e)
{
    x->windows = ARENA_ARRAY(x->a, struct window, (size_t)x->group_count * OFFSETS);
    if (!x->windows) return false;
    for (uint32_t i = 0; i < x->group_count; i++) {
        if (!offer_windows(x, i, e)) return false;
    }
    for (uint32_t i = 0; i < x->group_count; i++) {
        struct group *g = &x->groups[i];
        uint64_t hash = 0;
        uint32_t row = find_window(x, x->tall[g->first].suffix + OFFSETS, &hash);
        // A group that is its own source shows recursion: the same window comes twice in its stack.
        if (row == MAP_NONE || x->windows[row].group == i) continue;
        g->source = x->windows[row].group;
        g->more = x->windows[row].offset;
    }
    return true;
}

// ---- repair

// Follows the chain of sources to the group that has none. False at recursion.
static bool follow(struct repair *x, struct group *g)
{
    uint32_t at = g->source;
    uint32_t missing = g->more;
    assert(at < x->group_count);
    for (int hops = 0; x->groups[at].source != MAP_NONE;) {
        if (++hops == CHAIN_MAX) return false;
        missing += x->groups[at].more;
        at = x->groups[at].source;
    }
    // The first stack of that group may be too short to have all missing locations.
    uint32_t sample = x->tall[x->groups[at].first].sample;
    assert(x->groups[at].first < x->tall_count);
    if (missing >= x->p->samples[sample].location_count) return true;
    g->missing = missing;
    g->from = sample;
    return true;
}

static size_t find_missing(struct repair *x)
{
    size_t locations = 0;
    for (uint32_t i = 0; i < x->group_count; i++) {
        struct group *g = &x->groups[i];
        if (g->source == MAP_NONE) continue;
        if (!follow(x, g)) break;  // groups before it are still repaired
        if (g->missing == 0) continue;
        for (uint32_t k = g->first; k < g->end; k++) {
            locations += x->p->samples[x->tall[k].sample].location_count + g->missing;
        }
    }
    return locations;
}

static bool append_missing(struct repair *x, size_t more)
{
    struct profile *p = x->p;
    uint32_t *v = ARENA_ARRAY(x->a, uint32_t, p->stack_location_count + more);
    if (!v) return false;
    assert(more > 0 && more <= UINT32_MAX - p->stack_location_count);
    uint32_t n = p->stack_location_count;
    memcpy(v, p->stack_locations, n * sizeof *v);
    for (uint32_t i = 0; i < x->group_count; i++) {
        const struct group *g = &x->groups[i];
        if (g->missing == 0) continue;
        // The source's group has no source itself (follow), so this loop does not change it.
        const struct profile_sample *from = &p->samples[g->from];
        uint32_t root = from->first_location + from->location_count - g->missing;
        for (uint32_t k = g->first; k < g->end; k++) {
            struct profile_sample *s = &p->samples[x->tall[k].sample];
            uint32_t start = n;
            memcpy(v + n, v + s->first_location, s->location_count * sizeof *v);
            n += s->location_count;
            memcpy(v + n, v + root, g->missing * sizeof *v);
            n += g->missing;
            s->first_location = start;
            s->location_count += g->missing;
        }
    }
    assert(n == p->stack_location_count + more);
    p->stack_locations = v;
    p->stack_location_count = n;
    return true;
}

bool normalise_go_stacks(struct arena *a, struct profile *p)
{
    if (!may_be_cut(p)) return true;
    struct repair x = {.a = a, .p = p};
    err e = {0};
    map_init(&x.index, a->budget);
    bool ok = collect_tall(&x) && make_groups(&x) && find_sources(&x, &e);
    size_t more = ok ? find_missing(&x) : 0;
    // Without room for so many locations the profile is stored as it came: repair is a courtesy.
    bool room = more <= UINT32_MAX - p->stack_location_count;
    if (ok && more > 0 && room) ok = append_missing(&x, more);
    map_release(&x.index);
    a->exhausted |= !ok;
    return ok;
}
