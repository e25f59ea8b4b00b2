// SPDX-License-Identifier: Apache-2.0
//
// mend_labels.c - labels beyond the limits, and texts that are not UTF-8.
#include "base/utf8.h"
#include "intake/mend.h"

#include <stdlib.h>

// ---- labels of samples

static bool mend_is_origin(str key)
{
    return str_is(key, "trace_id") || str_is(key, "span_id") || str_is(key, "profile_id");
}

// Span and trace first, then labels that make series by name; those that make none (numbers, empty
// texts) last.
static int mend_class_of(const struct profile_label *l)
{
    if (l->text.n == 0) return 2;
    return mend_is_origin(l->key) ? 0 : 1;
}

static int mend_label_order(const void *one, const void *two)
{
    const struct profile_label *a = one;
    const struct profile_label *b = two;
    int x = mend_class_of(a);
    int y = mend_class_of(b);
    if (x != y) return x - y;
    int c = str_cmp(a->key, b->key);
    return c ? c : str_cmp(a->text, b->text);
}

// A label without a name would make no valid series. It moves to the end: samples may share it.
static void mend_nameless(struct profile *p, struct profile_sample *s)
{
    struct profile_label *v = p->labels + s->first_label;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->label_count; i++) {
        if (v[i].key.n == 0 && v[i].text.n) continue;
        struct profile_label one = v[i];
        v[i] = v[n];
        v[n++] = one;
    }
    losses_add(&p->losses, LOSS_LABELS_LIMIT, s->label_count - n);
    s->label_count = n;
}

void mend_sample_labels(struct profile *p, const struct limits *l)
{
    int64_t most = l->max_profile_stacktrace_sample_labels;
    for (uint32_t i = 0; i < p->sample_count; i++)
        mend_nameless(p, &p->samples[i]);
    if (most <= 0) return;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        struct profile_sample *s = &p->samples[i];
        if (s->label_count <= (uint64_t)most) continue;
        // Samples may share their labels: the order is the same whichever of them is first.
        struct profile_label *v = p->labels + s->first_label;
        qsort(v, s->label_count, sizeof *v, mend_label_order);
        uint32_t n = 0;
        while (n < s->label_count && mend_class_of(&v[n]) < 2)
            n++;
        if (n > (uint64_t)most) losses_add(&p->losses, LOSS_LABELS_LIMIT, n - (uint64_t)most);
        s->label_count = (uint32_t)MIN((uint64_t)n, (uint64_t)most);
    }
}

// ---- labels of series

// Labels that go first: they are the same in most profiles of a process, or few people use them.
static const str mend_first[] = {S_INIT("process.environment_variable."), S_INIT("process."),
                                 S_INIT("telemetry."), S_INIT("os."), S_INIT("host.")};

#define MEND_KEPT (COUNT(mend_first) + 1)  // class of a label that stays

static size_t mend_series_class(labels own, str name)
{
    if (str_starts(name, S("__")) || str_is(name, LABEL_SERVICE)) return MEND_KEPT;
    size_t at = labels_place(own, name);
    if (at == own.n || !str_eq(own.v[at].name, name)) return MEND_KEPT;
    for (size_t i = 0; i < COUNT(mend_first); i++) {
        if (str_starts(name, mend_first[i])) return i;
    }
    return COUNT(mend_first);
}

static bool mend_is_long(size_t n, int64_t most)
{
    return most > 0 && n > (uint64_t)most;
}

bool mend_labels_fit(labels set, const struct limits *l)
{
    bool fit = !mend_is_long(set.n, l->max_label_names_per_series);
    for (size_t i = 0; fit && i < set.n; i++) {
        fit = !mend_is_long(set.v[i].name.n, l->max_label_name_length) &&
              !mend_is_long(set.v[i].value.n, l->max_label_value_length);
    }
    return fit;
}

uint32_t mend_series_labels(labels own, labels *set, label *v, const struct limits *l)
{
    int64_t most = l->max_label_names_per_series;
    size_t counted = 0;
    if (most <= 0 || set->n <= (uint64_t)most) return 0;
    for (size_t i = 0; i < set->n; i++) {
        v[i] = set->v[i];
        counted +=
            mend_series_class(own, v[i].name) < MEND_KEPT || str_is(v[i].name, LABEL_SERVICE);
    }
    size_t surplus = counted > (uint64_t)most ? counted - (uint64_t)most : 0;
    size_t left = surplus;
    size_t n = set->n;
    // A pass for each class: from the last name to the first, which keeps the others in order.
    for (size_t class = 0; class < MEND_KEPT && left; class ++) {
        size_t to = n;
        for (size_t i = n; i-- > 0;) {
            bool gone = left && mend_series_class(own, v[i].name) == class;
            left -= gone;
            if (!gone) v[--to] = v[i];
        }
        n -= to;
        memmove(v, v + to, n * sizeof *v);
    }
    *set = (labels){v, n};
    return (uint32_t)(surplus - left);
}

uint32_t mend_label_lengths(labels *set, label *v, const struct limits *l)
{
    uint32_t mended = 0;
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        label one = set->v[i];
        bool long_name = mend_is_long(one.name.n, l->max_label_name_length);
        bool long_value = mend_is_long(one.value.n, l->max_label_value_length);
        mended += long_name || long_value;
        if (long_value) one.value = utf8_head(one.value, (size_t)l->max_label_value_length);
        if (!long_name) v[n++] = one;
    }
    if (mended) *set = (labels){v, n};
    return mended;
}

// ---- texts

struct mending {
    struct arena *a;
    uint64_t n;
};

static void mend_str(struct mending *x, str *s)
{
    if (utf8_is_text(*s)) return;
    *s = utf8_mended(x->a, *s);
    x->n++;
}

bool mend_text(struct arena *a, struct profile *p, err *e)
{
    struct mending x = {a, 0};
    for (uint32_t i = 0; i < p->function_count; i++) {
        struct profile_function *f = &p->functions[i];
        // Mostly one string.
        bool twin = f->system_name.p == f->name.p && f->system_name.n == f->name.n;
        mend_str(&x, &f->name);
        if (twin) f->system_name = f->name;
        mend_str(&x, &f->system_name);
        mend_str(&x, &f->filename);
    }
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        mend_str(&x, &p->mappings[i].filename);
        mend_str(&x, &p->mappings[i].build_id);
    }
    for (uint32_t i = 0; i < p->label_count; i++) {
        mend_str(&x, &p->labels[i].key);
        mend_str(&x, &p->labels[i].text);
        mend_str(&x, &p->labels[i].unit);
    }
    for (uint32_t i = 0; i < p->type_count; i++) {
        mend_str(&x, &p->types[i].type);
        mend_str(&x, &p->types[i].unit);
    }
    mend_str(&x, &p->period_type.type);
    mend_str(&x, &p->period_type.unit);
    losses_add(&p->losses, LOSS_BAD_TEXT, x.n);
    return arena_ok(a, e);
}

bool mend_label_text(struct arena *a, labels *ls, struct losses *losses, err *e)
{
    bool good = true;
    for (size_t i = 0; good && i < ls->n; i++)
        good = utf8_is_text(ls->v[i].name) && utf8_is_text(ls->v[i].value);
    if (good) return true;
    struct mending x = {a, 0};
    label *v = ARENA_ARRAY(a, label, ls->n);
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < ls->n; i++) {
        v[i] = ls->v[i];
        mend_str(&x, &v[i].name);
        mend_str(&x, &v[i].value);
    }
    labels_sort(v, ls->n);
    *ls = (labels){v, ls->n};
    losses_add(losses, LOSS_BAD_TEXT, x.n);
    return arena_ok(a, e);
}
