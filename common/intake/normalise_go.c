// SPDX-License-Identifier: Apache-2.0
//
// normalise_go.c - names of Go's generic functions. The compiler makes an instance for each shape
// of type arguments and names it f[go.shape.int_0]. The shapes are removed, and functions and
// locations that are equal then are put together.
#include "base/hash.h"
#include "base/map.h"
#include "decode/decode.h"
#include "intake/normalise.h"

// ---- is it Go?

bool normalise_is_go(const struct profile *p, labels ls)
{
    static const struct {
        str spy;
        bool go;
    } spies[] = {
        {S_INIT("gospy"), true},         {S_INIT("dotnetspy"), false},
        {S_INIT("phpspy"), false},       {S_INIT("pyspy"), false},
        {S_INIT("rbspy"), false},        {S_INIT("nodespy"), false},
        {S_INIT("javaspy"), false},      {S_INIT("grafana-agent.java"), false},
        {S_INIT("pyroscope-rs"), false},
    };
    str spy = labels_get(ls, S("pyroscope_spy"));
    for (size_t i = 0; i < COUNT(spies); i++) {
        if (str_eq(spy, spies[i].spy)) return spies[i].go;
    }
    return str_is(decode_language(p->language_hint), "go");
}

// ---- names

// The place behind the bracket that closes the one at `open`; 0: there is none.
static size_t closing(str s, size_t open)
{
    size_t depth = 0;
    assert(open < s.n && s.p[open] == '[');
    for (size_t i = open; i < s.n; i++) {
        depth += s.p[i] == '[';
        depth -= s.p[i] == ']';
        // Arguments may be generic as well, so brackets nest.
        if (depth == 0) return i + 1;
    }
    return 0;
}

static str without_shapes(struct arena *a, str name)
{
    static const str mark = S_INIT("[go.shape.");
    if (name.n == 0 || !memchr(name.p, '[', name.n) || !str_contains(name, mark)) return name;
    char *out = arena_new(a, name.n);
    if (!out) return name;
    size_t n = 0;
    bool open = false;  // a bracket that nothing closes: the rest stays as it is
    for (size_t i = 0; i < name.n;) {
        bool shape = !open && str_starts(str_slice(name, i, name.n), mark);
        size_t end = shape ? closing(name, i) : 0;
        open |= shape && end == 0;
        if (end) {
            i = end;
        } else {
            out[n++] = name.p[i++];
        }
    }
    return (str){out, n};
}

// *changed becomes true if a name had a shape.
static bool drop_shapes(struct arena *a, struct profile *p, bool *changed)
{
    for (uint32_t i = 0; i < p->function_count; i++) {
        struct profile_function *f = &p->functions[i];
        size_t before = f->name.n;
        str system_name = f->system_name;
        bool same =
            system_name.n == before && (system_name.p == f->name.p || str_eq(system_name, f->name));
        f->name = without_shapes(a, f->name);
        // The same text again, not a copy: later steps compare addresses first.
        f->system_name = same ? f->name : without_shapes(a, system_name);
        *changed |= f->name.n != before;
    }
    return !a->exhausted;
}

struct probe {
    const struct profile *p;
    uint32_t row;
};

static bool same_function(const void *ctx, uint32_t row)
{
    const struct probe *x = ctx;
    const struct profile_function *a = &x->p->functions[x->row];
    const struct profile_function *b = &x->p->functions[row];
    return a->start_line == b->start_line && str_eq(a->name, b->name) &&
           str_eq(a->system_name, b->system_name) && str_eq(a->filename, b->filename);
}

static bool same_location(const void *ctx, uint32_t row)
{
    const struct probe *x = ctx;
    const struct profile_location *a = &x->p->locations[x->row];
    const struct profile_location *b = &x->p->locations[row];
    if (a->address != b->address || a->mapping != b->mapping || a->folded != b->folded ||
        a->line_count != b->line_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->line_count; i++) {
        const struct profile_line *one = &x->p->lines[a->first_line + i];
        const struct profile_line *two = &x->p->lines[b->first_line + i];
        if (one->function != two->function || one->line != two->line) return false;
    }
    return true;
}

static uint64_t function_hash(const struct profile *p, uint32_t row)
{
    const struct profile_function *f = &p->functions[row];
    return hash_table_and(hash_table_str(f->name),
                          hash_table_and(hash_table_str(f->filename), (uint64_t)f->start_line));
}

static uint64_t location_hash(const struct profile *p, uint32_t row)
{
    const struct profile_location *l = &p->locations[row];
    uint64_t h = hash_table_and(l->address, l->mapping);
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct profile_line *line = &p->lines[l->first_line + i];
        h = hash_table_and(hash_table_and(h, line->function), (uint64_t)line->line);
    }
    return h;
}

// For each row the first row that is equal to it.
static bool first_of_equal(struct arena *a, const struct profile *p, uint32_t count,
                           uint64_t (*hash)(const struct profile *p, uint32_t row),
                           bool (*same)(const void *ctx, uint32_t row), uint32_t **out)
{
    struct map index;
    err e = {0};
    map_init(&index, a->budget);
    *out = ARENA_ARRAY(a, uint32_t, count);
    bool ok = *out != NULL;
    for (uint32_t i = 0; i < count && ok; i++) {
        // Rows before i only: the first of equal ones is the one that stays.
        uint64_t h = hash(p, i);
        uint32_t row = map_find(&index, h, same, &(struct probe){p, i});
        (*out)[i] = row == MAP_NONE ? i : row;
        if (row == MAP_NONE) ok = map_put(&index, h, i, &e);
    }
    map_release(&index);
    a->exhausted |= !ok;
    return ok;
}

// Puts equal functions together, then equal locations: those compare by function, so in this order.
static bool merge_equal(struct arena *a, struct profile *p)
{
    uint32_t *first = NULL;
    if (!first_of_equal(a, p, p->function_count, function_hash, same_function, &first)) {
        return false;
    }
    for (uint32_t i = 0; i < p->line_count; i++)
        p->lines[i].function = first[p->lines[i].function];
    if (!first_of_equal(a, p, p->location_count, location_hash, same_location, &first)) {
        return false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->location_count; i++) {
        assert(first[i] <= i);
        // first[i] < i was renumbered by an earlier turn, so it holds the new number already.
        bool keep = first[i] == i;
        first[i] = keep ? n : first[first[i]];
        if (keep) p->locations[n++] = p->locations[i];
    }
    p->location_count = n;
    for (uint32_t i = 0; i < p->stack_location_count; i++)
        p->stack_locations[i] = first[p->stack_locations[i]];
    return true;
}

bool normalise_go_names(struct arena *a, struct profile *p)
{
    bool changed = false;
    return drop_shapes(a, p, &changed) && (!changed || merge_equal(a, p));
}
