// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/index.h"

#include "base/hash.h"

// ---- life

void index_init(struct index *x, struct mem_budget *budget)
{
    *x = (struct index){.budget = budget};
    map_init(&x->by_name, budget);
    map_init(&x->by_labels, budget);
}

static void text_free(struct mem_budget *b, str *text)
{
    char *p = NULL;
    memcpy(&p, &text->p, sizeof p);  // ours: a str borrows, so its pointer is const
    mem_free(b, p, text->n);
    *text = (str){0};
}

static void name_release(struct mem_budget *b, struct index_name *name)
{
    for (uint32_t i = 0; i < name->n; i++) {
        text_free(b, &name->values[i].text);
        mem_free(b, name->values[i].series, name->values[i].cap * sizeof(uint32_t));
    }
    mem_free(b, name->values, name->cap * sizeof *name->values);
    text_free(b, &name->text);
    map_release(&name->by_text);
}

void index_release(struct index *x)
{
    struct mem_budget *b = x->budget;
    for (uint32_t i = 0; i < x->name_count; i++)
        name_release(b, &x->names[i]);
    for (uint32_t i = 0; i < x->series_count; i++)
        mem_free(b, x->series[i].pairs, x->series[i].n * sizeof *x->series[i].pairs);
    mem_free(b, x->names, x->name_cap * sizeof *x->names);
    mem_free(b, x->series, x->series_cap * sizeof *x->series);
    map_release(&x->by_name);
    map_release(&x->by_labels);
    index_init(x, b);
}

// ---- names and values

static bool text_copy(struct mem_budget *b, str text, str *out, err *e)
{
    *out = (str){0};
    if (text.n == 0) return true;
    char *p = mem_alloc(b, text.n, e);
    if (!p) return false;
    memcpy(p, text.p, text.n);
    *out = (str){p, text.n};
    return true;
}

struct name_key {
    const struct index *x;
    str text;
};

static bool same_name(const void *ctx, uint32_t row)
{
    const struct name_key *k = ctx;
    return str_eq(k->x->names[row].text, k->text);
}

static uint32_t name_find(const struct index *x, str text)
{
    struct name_key key = {x, text};
    return map_find(&x->by_name, hash_table_str(text), same_name, &key);
}

struct value_key {
    const struct index_name *name;
    str text;
};

static bool same_value(const void *ctx, uint32_t row)
{
    const struct value_key *k = ctx;
    return str_eq(k->name->values[row].text, k->text);
}

static uint32_t value_find(const struct index_name *name, str text)
{
    struct value_key key = {name, text};
    return map_find(&name->by_text, hash_table_str(text), same_value, &key);
}

static uint32_t name_add(struct index *x, str text, err *e)
{
    uint32_t row = name_find(x, text);
    if (row != MAP_NONE) return row;
    if (!mem_grow(x->budget, &x->names, &x->name_cap, (size_t)x->name_count + 1, sizeof *x->names,
                  e)) {
        return MAP_NONE;
    }
    struct index_name *name = &x->names[x->name_count];
    *name = (struct index_name){0};
    map_init(&name->by_text, x->budget);
    if (!text_copy(x->budget, text, &name->text, e)) return MAP_NONE;
    if (!map_put(&x->by_name, hash_table_str(text), x->name_count, e)) {
        text_free(x->budget, &name->text);
        return MAP_NONE;
    }
    return x->name_count++;
}

static uint32_t value_add(struct index *x, struct index_name *name, str text, err *e)
{
    uint32_t row = value_find(name, text);
    if (row != MAP_NONE) return row;
    if (!mem_grow(x->budget, &name->values, &name->cap, (size_t)name->n + 1, sizeof *name->values,
                  e)) {
        return MAP_NONE;
    }
    struct index_value *value = &name->values[name->n];
    *value = (struct index_value){0};
    if (!text_copy(x->budget, text, &value->text, e)) return MAP_NONE;
    if (!map_put(&name->by_text, hash_table_str(text), name->n, e)) {
        text_free(x->budget, &value->text);
        return MAP_NONE;
    }
    return name->n++;
}

// ---- series

struct series_key {
    const struct index *x;
    labels ls;
    uint64_t fingerprint;
};

static bool same_series(const void *ctx, uint32_t row)
{
    const struct series_key *k = ctx;
    const struct index_series *s = &k->x->series[row];
    if (s->fingerprint != k->fingerprint || s->n != k->ls.n) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct index_name *name = &k->x->names[s->pairs[i].name];
        if (!str_eq(name->text, k->ls.v[i].name) ||
            !str_eq(name->values[s->pairs[i].value].text, k->ls.v[i].value)) {
            return false;
        }
    }
    return true;
}

// Finds or adds names and values of the pairs, and makes room in each posting list for one more
// series, so that nothing can fail once the series is in the map. Names without series do no harm.
static bool pairs_make(struct index *x, labels ls, struct index_pair *pairs, err *e)
{
    for (size_t i = 0; i < ls.n; i++) {
        uint32_t name = name_add(x, ls.v[i].name, e);
        if (name == MAP_NONE) return false;
        uint32_t value = value_add(x, &x->names[name], ls.v[i].value, e);
        if (value == MAP_NONE) return false;
        struct index_value *v = &x->names[name].values[value];
        if (!mem_grow(x->budget, &v->series, &v->cap, (size_t)v->n + 1, sizeof *v->series, e)) {
            return false;
        }
        pairs[i] = (struct index_pair){name, value};
    }
    return true;
}

static uint32_t series_find(const struct index *x, uint64_t hash, labels ls, uint64_t fingerprint)
{
    struct series_key key = {x, ls, fingerprint};
    return map_find(&x->by_labels, hash, same_series, &key);
}

uint32_t index_find(const struct index *x, labels ls, uint64_t fingerprint)
{
    return series_find(x, labels_hash(ls), ls, fingerprint);
}

uint32_t index_series(struct index *x, labels ls, uint64_t fingerprint, err *e)
{
    uint64_t hash = labels_hash(ls);
    uint32_t row = series_find(x, hash, ls, fingerprint);
    if (row != MAP_NONE) return row;
    if (!mem_grow(x->budget, &x->series, &x->series_cap, (size_t)x->series_count + 1,
                  sizeof *x->series, e)) {
        return MAP_NONE;
    }
    struct index_pair *pairs = mem_alloc(x->budget, ls.n * sizeof *pairs, e);
    if (!pairs) return MAP_NONE;
    if (!pairs_make(x, ls, pairs, e) || !map_put(&x->by_labels, hash, x->series_count, e)) {
        mem_free(x->budget, pairs, ls.n * sizeof *pairs);
        return MAP_NONE;
    }
    // From here on nothing can fail: pairs_make has made room.
    for (size_t i = 0; i < ls.n; i++) {
        struct index_value *v = &x->names[pairs[i].name].values[pairs[i].value];
        assert(v->n < v->cap);
        v->series[v->n++] = x->series_count;
    }
    x->series[x->series_count] =
        (struct index_series){.pairs = pairs,
                              .n = (uint32_t)ls.n,
                              .sampled = str_is(labels_get(ls, S(LABEL_SAMPLED)), "true"),
                              .fingerprint = fingerprint};
    return x->series_count++;
}

labels index_labels(const struct index *x, uint32_t series, label *room)
{
    assert(series < x->series_count);
    const struct index_series *s = &x->series[series];
    for (uint32_t i = 0; i < s->n; i++) {
        const struct index_name *name = &x->names[s->pairs[i].name];
        room[i] = (label){name->text, name->values[s->pairs[i].value].text};
    }
    return (labels){room, s->n};
}

// ---- selecting

static void set_add(struct index_set *s, const struct index_value *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        s->words[v->series[i] / 64] |= UINT64_C(1) << (v->series[i] % 64);
}

// The series whose value of the label matches. If an empty value matches, so do all series without
// the label; then *whole is true and the set holds the series that do not match. Either way only
// postings of the label are read.
static bool match(const struct index *x, const struct selector *sel, const struct matcher *m,
                  struct index_set *s, bool *whole, err *e)
{
    if (!matcher_test(sel, m, (str){0}, whole, e)) return false;
    uint32_t row = name_find(x, m->name);
    if (row == MAP_NONE) return true;
    const struct index_name *name = &x->names[row];
    // For != an empty value matches too, so *whole is true and the set is that of the value itself.
    bool exact = (m->op == MATCH_EQ || m->op == MATCH_NEQ) && m->value.n > 0;
    if (exact) {
        uint32_t value = value_find(name, m->value);
        if (value != MAP_NONE) set_add(s, &name->values[value]);
        return true;
    }
    for (uint32_t i = 0; i < name->n; i++) {
        bool matches = false;
        if (!matcher_test(sel, m, name->values[i].text, &matches, e)) return false;
        if (matches != *whole) set_add(s, &name->values[i]);
    }
    return true;
}

bool index_select(const struct index *x, struct arena *a, const struct selector *sel,
                  struct index_set *out, err *e)
{
    size_t n = ((size_t)x->series_count + 63) / 64;
    struct index_set one = {ARENA_ARRAY(a, uint64_t, n), n};
    *out = (struct index_set){ARENA_ARRAY(a, uint64_t, n), n};
    if (!arena_ok(a, e)) return false;
    for (size_t w = 0; w < n; w++)
        out->words[w] = ~UINT64_C(0);
    if (x->series_count % 64) out->words[n - 1] = (UINT64_C(1) << (x->series_count % 64)) - 1;
    for (size_t i = 0; i < sel->n; i++) {
        bool whole = false;
        if (!match(x, sel, &sel->v[i], &one, &whole, e)) return false;
        for (size_t w = 0; w < n; w++) {
            out->words[w] &= whole ? ~one.words[w] : one.words[w];
            one.words[w] = 0;
        }
    }
    return true;
}
