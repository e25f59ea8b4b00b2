// SPDX-License-Identifier: Apache-2.0
//
// mend.c - profiles with more samples than the limit.
//
//     1. merge     samples of one stack and one label set become one; where their sum does not fit
//                  64 bits they stay apart
//     2. rank      by the sample's share of the profile: |value| / sum of |values|, over all types;
//                  of equal ones the first
//     3. cut       all but the first of that order: their values go to a sample of their label set
//                  that has only the frame STACK_SURPLUS_NAME
#include "intake/mend.h"

#include "base/hash.h"
#include "base/map.h"
#include "model/marks.h"

#include <stdlib.h>

bool mend_add_mark(struct arena *a, struct profile *p, str name, uint32_t *location, err *e)
{
    struct profile_function *functions =
        ARENA_ARRAY(a, struct profile_function, (size_t)p->function_count + 1);
    struct profile_line *lines = ARENA_ARRAY(a, struct profile_line, (size_t)p->line_count + 1);
    struct profile_location *locations =
        ARENA_ARRAY(a, struct profile_location, (size_t)p->location_count + 1);
    if (!functions || !lines || !locations) return arena_fail(a, e);
    if (p->function_count) memcpy(functions, p->functions, p->function_count * sizeof *functions);
    if (p->line_count) memcpy(lines, p->lines, p->line_count * sizeof *lines);
    if (p->location_count) memcpy(locations, p->locations, p->location_count * sizeof *locations);
    // Copies, because the decoder's arrays have no room for one more row.
    functions[p->function_count] = (struct profile_function){.name = name, .system_name = name};
    lines[p->line_count] = (struct profile_line){.function = p->function_count++};
    locations[p->location_count] = (struct profile_location){.mapping = PROFILE_NONE,
                                                             .first_line = p->line_count++,
                                                             .line_count = 1};
    *location = p->location_count++;
    p->functions = functions;
    p->lines = lines;
    p->locations = locations;
    return true;
}

// ---- 1. merge

struct merging {
    struct profile *p;
    struct map index;
};

static const uint32_t *mend_stack_of(const struct profile *p, const struct profile_sample *s)
{
    return p->stack_locations + s->first_location;
}

static uint64_t label_hash(const struct profile_label *l)
{
    uint64_t hash = hash_table_and(hash_table_str(l->key), hash_table_str(l->text));
    hash = hash_table_and(hash, (uint64_t)l->number);
    return l->unit.n ? hash_table_and(hash, hash_table_str(l->unit)) : hash;
}

static bool label_same(const struct profile_label *a, const struct profile_label *b)
{
    return str_eq(a->key, b->key) && str_eq(a->text, b->text) && a->number == b->number &&
           str_eq(a->unit, b->unit);
}

static uint64_t sample_hash(const struct profile *p, const struct profile_sample *s)
{
    size_t bytes = s->location_count * sizeof *p->stack_locations;
    uint64_t hash = bytes ? hash_table_bytes(mend_stack_of(p, s), bytes) : 0;
    for (uint32_t i = 0; i < s->label_count; i++)
        hash = hash_table_and(hash, label_hash(&p->labels[s->first_label + i]));
    return hash;
}

static bool sample_same(const struct profile *p, const struct profile_sample *a,
                        const struct profile_sample *b)
{
    if (a->location_count != b->location_count || a->label_count != b->label_count) return false;
    size_t bytes = a->location_count * sizeof *p->stack_locations;
    if (bytes && memcmp(mend_stack_of(p, a), mend_stack_of(p, b), bytes) != 0) return false;
    if (a->first_label == b->first_label) return true;
    for (uint32_t i = 0; i < a->label_count; i++) {
        if (!label_same(&p->labels[a->first_label + i], &p->labels[b->first_label + i]))
            return false;
    }
    return true;
}

// Adds all values of a row to another, or none.
static bool values_add(struct profile *p, int64_t *to, const int64_t *from)
{
    int64_t sum = 0;
    for (uint32_t t = 0; t < p->type_count; t++) {
        if (__builtin_add_overflow(to[t], from[t], &sum)) return false;
    }
    for (uint32_t t = 0; t < p->type_count; t++)
        to[t] += from[t];
    return true;
}

static int64_t *mend_values_of(const struct profile *p, uint32_t row)
{
    return p->values + (size_t)row * p->type_count;
}

static bool mend_is_zero(const struct profile *p, uint32_t row)
{
    for (uint32_t t = 0; t < p->type_count; t++) {
        if (mend_values_of(p, row)[t]) return false;
    }
    return true;
}

// Moves a row to the front part of the table, in which all rows have been looked at.
static void sample_move(struct profile *p, uint32_t to, uint32_t from)
{
    if (to == from) return;
    p->samples[to] = p->samples[from];
    memcpy(mend_values_of(p, to), mend_values_of(p, from), p->type_count * sizeof *p->values);
}

static bool merge_row(struct merging *x, uint32_t *n, uint32_t row, err *e)
{
    struct profile *p = x->p;
    uint64_t hash = sample_hash(p, &p->samples[row]);
    uint32_t step = 0;
    uint32_t at = map_next(&x->index, hash, &step);
    while (at != MAP_NONE) {
        if (sample_same(p, &p->samples[at], &p->samples[row]) &&
            values_add(p, mend_values_of(p, at), mend_values_of(p, row))) {
            return true;
        }
        at = map_next(&x->index, hash, &step);
    }
    sample_move(p, *n, row);
    return map_put(&x->index, hash, (*n)++, e);
}

static bool merge_samples(struct arena *a, struct profile *p, err *e)
{
    struct merging x = {.p = p};
    uint32_t n = 0;
    bool ok = true;
    map_init(&x.index, a->budget);
    for (uint32_t i = 0; ok && i < p->sample_count; i++)
        ok = mend_is_zero(p, i) || merge_row(&x, &n, i, e);
    map_release(&x.index);
    if (ok) p->sample_count = n;
    return ok;
}

// ---- 2. rank

struct ranked {
    double share;
    uint32_t row;
};

static int rank_order(const void *one, const void *two)
{
    const struct ranked *a = one;
    const struct ranked *b = two;
    if (a->share != b->share) return a->share > b->share ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static double mend_size_of(int64_t v)
{
    return v < 0 ? -(double)v : (double)v;
}

static struct ranked *rank_samples(struct arena *a, const struct profile *p)
{
    struct ranked *v = ARENA_ARRAY(a, struct ranked, p->sample_count);
    double *sums = ARENA_ARRAY(a, double, p->type_count);
    if (!v || !sums) return NULL;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        for (uint32_t t = 0; t < p->type_count; t++)
            sums[t] += mend_size_of(mend_values_of(p, i)[t]);
    }
    for (uint32_t i = 0; i < p->sample_count; i++) {
        v[i].row = i;
        for (uint32_t t = 0; t < p->type_count; t++) {
            if (sums[t] > 0) v[i].share += mend_size_of(mend_values_of(p, i)[t]) / sums[t];
        }
    }
    if (p->sample_count) qsort(v, p->sample_count, sizeof *v, rank_order);
    return v;
}

// ---- 3. cut

struct cutting {
    struct arena *a;
    struct profile *p;
    struct profile_sample *samples;  // those that remain, then those of label sets
    int64_t *values;
    struct profile_label *labels;
    uint32_t *stacks;
    struct map index;   // of samples of label sets
    uint32_t count;     // samples that remain
    uint32_t sets;      // samples of label sets behind them
    uint32_t sets_max;  // but if a sum does not fit there are more
    uint32_t mark;
};

static bool makes_series(const struct profile_label *l)
{
    return l->text.n && !str_is(l->key, "trace_id") && !str_is(l->key, "span_id") &&
           !str_is(l->key, "profile_id");
}

static int label_by_key(const void *one, const void *two)
{
    const struct profile_label *a = one;
    const struct profile_label *b = two;
    int c = str_cmp(a->key, b->key);
    return c ? c : str_cmp(a->text, b->text);
}

// Copies the labels of a sample that make series, in order.
static uint32_t series_labels(const struct profile *p, const struct profile_sample *s,
                              struct profile_label *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->label_count; i++) {
        const struct profile_label *l = &p->labels[s->first_label + i];
        if (makes_series(l)) out[n++] = (struct profile_label){.key = l->key, .text = l->text};
    }
    if (n > 1) qsort(out, n, sizeof *out, label_by_key);
    return n;
}

static uint64_t set_hash(const struct profile_label *v, uint32_t n)
{
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = hash_table_and(hash, label_hash(&v[i]));
    return hash;
}

// The sample of these labels, among those of the same hash the first to which the values can be
// added; MAP_NONE if there is none.
static uint32_t find_set(struct cutting *x, const struct profile_sample *s, uint64_t hash,
                         const int64_t *add)
{
    struct profile view = *x->p;
    view.labels = x->labels;
    view.stack_locations = x->stacks;
    uint32_t step = 0;
    uint32_t at = map_next(&x->index, hash, &step);
    for (; at != MAP_NONE; at = map_next(&x->index, hash, &step)) {
        if (sample_same(&view, &x->samples[at], s) &&
            values_add(x->p, x->values + (size_t)at * x->p->type_count, add)) {
            return at;
        }
    }
    return MAP_NONE;
}

static bool cut_row(struct cutting *x, uint32_t row, err *e)
{
    struct profile *p = x->p;
    struct profile_sample one = {
        .first_location = p->stack_location_count,
        .location_count = 1,
        .first_label = p->label_count,
    };
    const int64_t *add = mend_values_of(p, row);
    // Behind all others; they stay there if they are those of a new set.
    one.label_count = series_labels(p, &p->samples[row], x->labels + p->label_count);
    x->stacks[one.first_location] = x->mark;
    p->losses.count[LOSS_SAMPLES_LIMIT]++;
    for (int i = 0; i < 2; i++) {
        uint64_t hash = set_hash(x->labels + one.first_label, one.label_count);
        if (find_set(x, &one, hash, add) != MAP_NONE) return true;
        // The last set is for samples whose labels go as well.
        if (x->sets + 1 < x->sets_max || one.label_count == 0) {
            uint32_t at = x->count + x->sets++;
            x->samples[at] = one;
            memcpy(x->values + (size_t)at * p->type_count, add, p->type_count * sizeof *add);
            p->label_count += one.label_count;
            p->stack_location_count++;
            return map_put(&x->index, hash, at, e);
        }
        losses_add(&p->losses, LOSS_LABELS_LIMIT, one.label_count);
        one.label_count = 0;
    }
    return true;
}

static bool cut_tables(struct cutting *x, const struct ranked *v, err *e)
{
    struct profile *p = x->p;
    uint32_t surplus = p->sample_count - x->count;
    size_t label_count = p->label_count;
    for (uint32_t i = x->count; i < p->sample_count; i++)
        label_count += p->samples[v[i].row].label_count;
    if (label_count > UINT32_MAX || (uint64_t)p->stack_location_count + surplus > UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "the profile has too many labels and frames");
    }
    x->samples = ARENA_ARRAY(x->a, struct profile_sample, p->sample_count);
    x->values = ARENA_ARRAY(x->a, int64_t, (size_t)p->sample_count * p->type_count);
    x->labels = ARENA_ARRAY(x->a, struct profile_label, label_count);
    x->stacks = ARENA_ARRAY(x->a, uint32_t, (size_t)p->stack_location_count + surplus);
    if (!arena_ok(x->a, e)) return false;
    if (p->label_count) memcpy(x->labels, p->labels, p->label_count * sizeof *p->labels);
    if (p->stack_location_count) {
        memcpy(x->stacks, p->stack_locations, p->stack_location_count * sizeof *p->stack_locations);
    }
    return mend_add_mark(x->a, p, S(STACK_SURPLUS_NAME), &x->mark, e);
}

static int row_order(const void *one, const void *two)
{
    const struct ranked *a = one;
    const struct ranked *b = two;
    return a->row < b->row ? -1 : a->row > b->row;
}

// The number of label sets of all samples, or `most` if there are more.
static bool count_sets(struct arena *a, const struct profile *p, uint32_t most, uint32_t *out,
                       err *e)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < p->sample_count; i++)
        longest = MAX(longest, p->samples[i].label_count);
    struct profile_label *v = ARENA_ARRAY(a, struct profile_label, longest);
    struct map seen;
    bool ok = v || arena_fail(a, e);
    map_init(&seen, a->budget);
    for (uint32_t i = 0; ok && i < p->sample_count && seen.count < most; i++) {
        uint32_t step = 0;
        uint64_t hash = set_hash(v, series_labels(p, &p->samples[i], v));
        // Two sets of one keyed hash of 64 bits do not happen; and one set too few costs nothing.
        if (map_next(&seen, hash, &step) == MAP_NONE) ok = map_put(&seen, hash, i, e);
    }
    *out = seen.count;
    map_release(&seen);
    return ok;
}

static bool cut_samples(struct arena *a, struct profile *p, uint32_t most, err *e)
{
    struct cutting x = {.a = a, .p = p};
    struct ranked *v = rank_samples(a, p);
    if (!v) return arena_fail(a, e);
    // With a sample for each label set of the others there are no more than `most`.
    uint32_t half = MAX(most / 2, 1u);
    uint32_t sets = 0;
    if (!count_sets(a, p, half + 1, &sets, e)) return false;
    x.count = most - MIN(sets, half);
    x.sets_max = sets <= half ? UINT32_MAX : half;
    if (!cut_tables(&x, v, e)) return false;
    // Those that remain keep the order of the profile.
    if (x.count) qsort(v, x.count, sizeof *v, row_order);
    for (uint32_t i = 0; i < x.count; i++) {
        x.samples[i] = p->samples[v[i].row];
        memcpy(x.values + (size_t)i * p->type_count, mend_values_of(p, v[i].row),
               p->type_count * sizeof *p->values);
    }
    bool ok = true;
    map_init(&x.index, a->budget);
    for (uint32_t i = x.count; ok && i < p->sample_count; i++)
        ok = cut_row(&x, v[i].row, e);
    map_release(&x.index);
    p->samples = x.samples;
    p->values = x.values;
    p->labels = x.labels;
    p->stack_locations = x.stacks;
    p->sample_count = x.count + x.sets;
    return ok;
}

bool mend_samples(struct arena *a, struct profile *p, const struct limits *l, err *e)
{
    int64_t most = l->max_profile_stacktrace_samples;
    if (most <= 0 || p->sample_count <= (uint64_t)most) return true;
    if (!merge_samples(a, p, e)) return false;
    return p->sample_count <= (uint64_t)most || cut_samples(a, p, (uint32_t)most, e);
}

// ---- types

#define MEND_TYPES_MAX 256  // all are compared with all; of so many none is there twice by mistake

static bool mend_add_column(struct profile *p, uint32_t to, uint32_t from, err *e)
{
    for (uint32_t i = 0; i < p->sample_count; i++) {
        int64_t *v = p->values + (size_t)i * p->type_count;
        if (!__builtin_add_overflow(v[to], v[from], &v[to])) continue;
        return err_set(e, ERR_OUT_OF_RANGE, "two values of the type %.*s do not fit 64 bits",
                       STR(p->types[to].type));
    }
    return true;
}

static void mend_drop_column(struct profile *p, uint32_t column)
{
    int64_t *to = p->values;
    for (size_t i = 0; i < (size_t)p->sample_count * p->type_count; i++) {
        if (i % p->type_count != column) *to++ = p->values[i];
    }
    p->type_count--;
    memmove(p->types + column, p->types + column + 1, (p->type_count - column) * sizeof *p->types);
}

bool mend_types(struct profile *p, err *e)
{
    if (p->type_count > MEND_TYPES_MAX) return true;
    for (uint32_t i = 1; i < p->type_count;) {
        uint32_t k = 0;
        while (k < i && (!str_eq(p->types[k].type, p->types[i].type) ||
                         !str_eq(p->types[k].unit, p->types[i].unit)))
            k++;
        if (k == i) {
            i++;
            continue;
        }
        if (!mend_add_column(p, k, i, e)) return false;
        mend_drop_column(p, i);
    }
    return true;
}
