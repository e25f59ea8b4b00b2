// SPDX-License-Identifier: Apache-2.0
//
// split.c - groups the samples of a profile in two steps: first by the samples' own labels, of
// which a profile has few distinct sets; then by what each of these sets becomes, so that rules and
// validation run once for each set, not once for each sample.
#include "intake/split.h"

#include "base/map.h"
#include "base/ulid.h"
#include "model/ptype.h"

#include <stdlib.h>

#define SORT_MAX 16  // labels up to which insertion is quicker

// ---- sets of labels that are being edited; name order is kept

struct label_set {
    label *v;
    size_t n;
    size_t cap;
};

static bool set_init(struct label_set *s, struct arena *a, labels from, size_t more)
{
    *s = (struct label_set){.v = ARENA_ARRAY(a, label, from.n + more), .cap = from.n + more};
    if (!s->v) return false;
    // `more` names may be added at most: set_put has no way to fail.
    for (size_t i = 0; i < from.n; i++) {
        s->v[s->n++] = from.v[i];
    }
    return true;
}

// Sets a name; an empty value removes it.
static void set_put(struct label_set *s, str name, str value)
{
    size_t at = 0;
    assert(name.n > 0 && s->n <= s->cap);
    while (at < s->n && str_cmp(s->v[at].name, name) < 0) {
        at++;
    }
    bool there = at < s->n && str_eq(s->v[at].name, name);
    if (value.n == 0) {
        if (there) memmove(s->v + at, s->v + at + 1, (--s->n - at) * sizeof *s->v);
        return;
    }
    if (!there) {
        assert(s->n < s->cap);
        memmove(s->v + at + 1, s->v + at, (s->n++ - at) * sizeof *s->v);
    }
    s->v[at] = (label){name, value};
}

static labels set_view(const struct label_set *s)
{
    return (labels){s->v, s->n};
}

// ---- series

labels split_series(struct arena *a, labels ls, const struct profile *p, uint32_t type)
{
    struct label_set s;
    if (!set_init(&s, a, ls, 6)) return (labels){0};
    struct ptype id = {
        .name = labels_get(ls, S(LABEL_NAME)),
        .sample_type = p->types[type].type,
        .sample_unit = p->types[type].unit,
        .period_type = p->period_type.type,
        .period_unit = p->period_type.unit,
    };
    assert(type < p->type_count);
    set_put(&s, S("__delta__"), (str){0});
    set_put(&s, S("__order__"), (str){0});
    set_put(&s, S(LABEL_PROFILE_TYPE), ptype_print(a, &id));
    set_put(&s, S("__service_name__"), labels_get(ls, S(LABEL_SERVICE)));
    // Set after the id was printed, and in the place of labels that a client sent under these
    // names.
    set_put(&s, S("__type__"), id.sample_type);
    set_put(&s, S("__unit__"), id.sample_unit);
    set_put(&s, S("__period_type__"), id.period_type);
    set_put(&s, S("__period_unit__"), id.period_unit);
    return set_view(&s);
}

// ---- groups

struct splitter {
    struct arena *a;
    const struct profile *p;
    labels common;
    struct map index;
    labels *sets;  // of the groups found so far
    uint64_t *fingerprints;
    size_t set_cap;
    size_t fingerprint_cap;
    uint32_t set_count;
    uint32_t *group_of;  // of each sample; MAP_NONE: dropped
    const struct split_finish *finish;
    struct split *out;
};

struct set_probe {
    const labels *sets;
    labels wanted;
};

static bool same_set(const void *ctx, uint32_t row)
{
    const struct set_probe *probe = ctx;
    assert(probe->sets);
    return labels_eq(probe->sets[row], probe->wanted);
}

static bool find_or_add(struct splitter *x, labels wanted, uint32_t *group, err *e)
{
    uint64_t hash = labels_hash(wanted);
    *group = map_find(&x->index, hash, same_set, &(struct set_probe){x->sets, wanted});
    if (*group != MAP_NONE) return true;
    *group = x->set_count;
    if (!arena_grow(x->a, &x->sets, &x->set_cap, (size_t)*group + 1, sizeof *x->sets) ||
        !arena_grow(x->a, &x->fingerprints, &x->fingerprint_cap, (size_t)*group + 1,
                    sizeof *x->fingerprints)) {
        return arena_fail(x->a, e);
    }
    // `wanted` may be scratch of the caller, who then puts a copy in its place.
    x->sets[*group] = wanted;
    x->fingerprints[*group] = labels_fingerprint(wanted);
    x->set_count++;
    return map_put(&x->index, hash, *group, e);
}

static bool is_origin(str key)
{
    return str_is(key, "trace_id") || str_is(key, "span_id") || str_is(key, "profile_id");
}

// Labels that split_series sets or takes away. Two sets that differ in nothing else would become
// one series with two rows of one id, of which a question counts one.
static bool is_of_storage(str key)
{
    static const str names[] = {S_INIT("__delta__"),        S_INIT("__order__"),
                                S_INIT("__period_type__"),  S_INIT("__period_unit__"),
                                S_INIT(LABEL_PROFILE_TYPE), S_INIT("__service_name__"),
                                S_INIT("__type__"),         S_INIT("__unit__")};
    return str_starts(key, S("__")) && str_among(key, names, COUNT(names));
}

// Agents write a span id as 16 hex digits: the bytes of a little-endian number.
static void read_origin(const struct profile_label *l, struct split_origin *o)
{
    uint8_t bytes[8];
    if (str_is(l->key, "trace_id")) {
        o->has_trace = hex_parse(l->text, o->trace_id, sizeof o->trace_id);
    } else if (hex_parse(l->text, bytes, sizeof bytes)) {
        // Text that is not hex leaves the origin as it is: a sample without a span is still a
        // sample.
        o->span_id = 0;
        for (size_t i = 0; i < sizeof bytes; i++) {
            o->span_id |= (uint64_t)bytes[i] << (8 * i);
        }
    }
}

static void sort(label *v, size_t n)
{
    if (n > SORT_MAX) {
        qsort(v, n, sizeof *v, label_order);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        label one = v[i];
        size_t at = i;
        for (; at > 0 && label_order(&v[at - 1], &one) > 0; at--)
            v[at] = v[at - 1];
        v[at] = one;
    }
}

// The labels of a sample that make series, in order, each name once, in v. Notes its span and trace
// on the way; the array of these is made for the first sample that has one.
static labels own_labels(struct splitter *x, uint32_t row, label *v)
{
    const struct profile_sample *s = &x->p->samples[row];
    size_t n = 0;
    for (uint32_t i = 0; i < s->label_count; i++) {
        const struct profile_label *l = &x->p->labels[s->first_label + i];
        if (is_of_storage(l->key)) continue;
        if (!is_origin(l->key)) {
            v[n++] = (label){l->key, l->text};
            continue;
        }
        if (!x->out->origins) {
            x->out->origins = ARENA_ARRAY(x->a, struct split_origin, x->p->sample_count);
        }
        if (x->out->origins) read_origin(l, &x->out->origins[row]);
    }
    // A name that comes twice keeps the smallest value, whatever order the agent sent them in.
    sort(v, n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || !str_eq(v[kept - 1].name, v[i].name)) v[kept++] = v[i];
    }
    return (labels){v, kept};
}

static bool same_text(str a, str b)
{
    return a.n == b.n && (a.p == b.p || str_eq(a, b));  // mostly the same string of one table
}

static bool same_labels(labels a, labels b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++) {
        if (!same_text(a.v[i].name, b.v[i].name)) return false;
        if (!same_text(a.v[i].value, b.v[i].value)) return false;
    }
    return true;
}

// The first step. Most samples have the labels of the sample before, which is compared first.
static bool group_by_own_labels(struct splitter *x, err *e)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < x->p->sample_count; i++) {
        most = MAX(most, x->p->samples[i].label_count);
    }
    label *v = ARENA_ARRAY(x->a, label, most);
    if (!v) return arena_fail(x->a, e);
    for (uint32_t i = 0; i < x->p->sample_count; i++) {
        labels own = own_labels(x, i, v);
        // Compared by address first (same_text), so most samples need neither hash nor look-up.
        assert(i == 0 || x->group_of[i - 1] < x->set_count);
        if (i > 0 && same_labels(own, x->sets[x->group_of[i - 1]])) {
            x->group_of[i] = x->group_of[i - 1];
            continue;
        }
        uint32_t before = x->set_count;
        if (!find_or_add(x, own, &x->group_of[i], e)) return false;
        if (x->set_count == before) continue;
        // `own` is in v, which the next sample overwrites.
        label *kept = ARENA_ARRAY(x->a, label, own.n);
        if (!kept) return arena_fail(x->a, e);
        if (own.n) memcpy(kept, v, own.n * sizeof *v);
        x->sets[before] = (labels){kept, own.n};
    }
    return arena_ok(x->a, e);
}

// The profile's labels that are not empty, then those of the samples that are new; sorted.
static labels merged(struct splitter *x, labels own)
{
    label *v = ARENA_ARRAY(x->a, label, x->common.n + own.n);
    if (!v) return (labels){0};
    size_t n = 0;
    size_t k = 0;
    for (size_t i = 0; i < x->common.n; i++) {
        label one = x->common.v[i];
        // An empty label of the profile does not hide the sample's: the loop below takes that one
        // up.
        if (one.value.n == 0) continue;
        for (; k < own.n && str_cmp(own.v[k].name, one.name) <= 0; k++) {
            if (!str_eq(own.v[k].name, one.name)) v[n++] = own.v[k];
        }
        v[n++] = one;
    }
    for (; k < own.n; k++) {
        v[n++] = own.v[k];
    }
    return (labels){v, n};
}

// The labels of storage are those of the profile: what a rule made of them would be set anew, as
// above, so groups that differ in nothing else are one.
static labels without_rules_of_storage(struct splitter *x, labels set)
{
    label *v = ARENA_ARRAY(x->a, label, set.n + x->common.n);
    if (!v) return (labels){0};
    size_t n = 0;
    for (size_t i = 0; i < set.n; i++) {
        if (!is_of_storage(set.v[i].name)) v[n++] = set.v[i];
    }
    size_t others = n;
    for (size_t i = 0; i < x->common.n; i++) {
        label one = x->common.v[i];
        if (is_of_storage(one.name) && one.value.n) v[n++] = one;
    }
    if (n > others) sort(v, n);
    return (labels){v, n};
}

static bool become(struct splitter *x, labels own, uint32_t *group, err *e)
{
    labels set = merged(x, own);
    bool keep = true;
    if (!arena_ok(x->a, e)) return false;
    if (x->finish && !x->finish->run(x->finish->arg, x->a, &set, &keep, e)) return false;
    *group = MAP_NONE;
    if (!keep) return true;
    set = without_rules_of_storage(x, set);
    return arena_ok(x->a, e) && find_or_add(x, set, group, e);
}

// The second step: groups whose sets became equal are put together.
static bool group_by_final_labels(struct splitter *x, err *e)
{
    uint32_t own_count = x->set_count;
    labels *own = x->sets;
    uint32_t *becomes = ARENA_ARRAY(x->a, uint32_t, own_count);
    if (!becomes) return arena_fail(x->a, e);
    // The index starts anew for the final sets. The first ones stay in `own`.
    map_release(&x->index);
    x->sets = NULL;
    x->set_cap = x->set_count = 0;
    for (uint32_t i = 0; i < own_count; i++) {
        if (!become(x, own[i], &becomes[i], e)) return false;
    }
    for (uint32_t i = 0; i < x->p->sample_count; i++) {
        assert(x->group_of[i] < own_count);
        x->group_of[i] = becomes[x->group_of[i]];
        x->out->dropped += x->group_of[i] == MAP_NONE;
    }
    return true;
}

static bool collect(struct splitter *x, err *e)
{
    struct split *out = x->out;
    uint32_t *rows = ARENA_ARRAY(x->a, uint32_t, x->p->sample_count);
    uint32_t *at = ARENA_ARRAY(x->a, uint32_t, (size_t)x->set_count + 1);
    out->groups = ARENA_ARRAY(x->a, struct split_group, x->set_count);
    if (!rows || !at || !out->groups) return arena_fail(x->a, e);
    // A counting sort: at[g + 1] counts the rows of group g, then at[g] is where its next row goes.
    for (uint32_t i = 0; i < x->p->sample_count; i++) {
        if (x->group_of[i] != MAP_NONE) at[x->group_of[i] + 1]++;
    }
    for (uint32_t g = 0; g < x->set_count; g++) {
        out->groups[g] = (struct split_group){
            .ls = x->sets[g],
            .fingerprint = x->fingerprints[g],
            .rows = rows + at[g],
            .row_count = at[g + 1],
        };
        at[g + 1] += at[g];
    }
    for (uint32_t i = 0; i < x->p->sample_count; i++) {
        // Ascending i, so each group has its samples in the order of the profile.
        if (x->group_of[i] != MAP_NONE) rows[at[x->group_of[i]]++] = i;
    }
    out->group_count = x->set_count;
    return true;
}

bool split_profile(struct arena *a, const struct profile *p, labels ls,
                   const struct split_finish *finish, struct split *out, err *e)
{
    *out = (struct split){.sent = labels_fingerprint(ls)};
    struct splitter x = {.a = a, .p = p, .common = ls, .finish = finish, .out = out};
    map_init(&x.index, a->budget);
    x.group_of = ARENA_ARRAY(a, uint32_t, p->sample_count);
    bool ok = arena_ok(a, e) && group_by_own_labels(&x, e) && group_by_final_labels(&x, e) &&
              collect(&x, e);
    map_release(&x.index);
    return ok;
}
