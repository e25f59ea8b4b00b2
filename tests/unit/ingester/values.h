// SPDX-License-Identifier: Apache-2.0
//
// values.h - totals, exemplars and heat maps over facts by brute force.
#pragma once

#include "facts.h"

// What a fact has under a call site of n names (of its first entry only, if it is of a span); *any:
// whether there is anything.
static inline int64_t fact_value(const struct fact *f, const char *site, bool span, bool *any)
{
    int64_t sums[FACT_STACKS] = {0};
    int64_t total = 0;
    size_t n = strlen(site);
    *any = n == 0 && !span;
    for (size_t i = 0; i < (span ? 1 : f->n); i++)
        sums[f->entries[i].stack] += f->entries[i].value;
    for (size_t i = 0; i < FACT_STACKS; i++) {
        const char *text = fact_stacks[i];
        if (sums[i] == 0 || strncmp(text, site, n) != 0) continue;
        if (n && text[n] != 0 && text[n] != ';') continue;
        total += sums[i];
        *any = true;
    }
    return total;
}

static inline bool is_better(int64_t value, const struct fact *f, int64_t best,
                             const struct fact *than)
{
    if (!than) return true;
    if (value != best) return value > best;
    if (f->time_ns != than->time_ns) return f->time_ns < than->time_ns;
    return memcmp(f->id.b, than->id.b, sizeof f->id.b) < 0;
}

static inline void check_exemplar(struct req *r, const struct head_exemplar *got,
                                  const struct fact *f, int64_t value, bool span)
{
    if (!f) {
        assert_null(got);
        return;
    }
    assert_non_null(got);
    assert_int_equal(got->value, value);
    assert_true(id128_eq(got->profile, f->id));
    assert_int_equal(got->time_ns, f->time_ns);
    assert_int_equal(got->span_id, span ? f->span_id : 0);
    assert_int_equal(got->has_trace, span);
    labels all = fact_labels(&r->arena, f);
    size_t n = all.n - labels_has(all, S("pod"));
    assert_int_equal(got->ls.n, n);
    for (size_t i = 0; i < got->ls.n; i++) {
        assert_false(str_is(got->ls.v[i].name, "pod"));
        assert_true(str_eq(labels_get(all, got->ls.v[i].name), got->ls.v[i].value));
    }
}

static inline int64_t heat_slot(const struct head_heat_want *w, int64_t time_ns)
{
    int64_t slot = 0;
    while (slot < w->slots - 1 && time_ns > w->first_ns + slot * w->step_ns)
        slot++;
    return slot;
}

static inline uint32_t heat_bucket(const struct head_heat_want *w, int64_t value)
{
    uint32_t bucket = 0;
    for (uint32_t i = 0; i < w->bound_count; i++) {
        if (w->bounds[i] <= value) bucket = i;
    }
    return bucket;
}

static inline bool is_heat(struct arena *a, const struct fact *f, const struct head_query *q,
                           const struct head_heat_want *want, int64_t *value)
{
    if (f->sampled || !fact_matches(a, f, q)) return false;
    if (want->kind == HEAD_SPAN && f->span_id == 0) return false;
    bool any = false;
    *value = fact_value(f, "", want->kind == HEAD_SPAN, &any);
    if (!any) return false;
    return want->bound_count == 0 || (*value >= want->bounds[0] && *value <= want->largest);
}

static inline void check_heat_cell(const struct fact *facts, size_t n, struct req *r,
                                   const struct head_query *q, const struct head_heat_want *want,
                                   labels group, const struct head_heat_cell *c)
{
    uint64_t count = 0;
    const struct fact *best = NULL;
    int64_t best_value = 0;
    for (size_t i = 0; i < n; i++) {
        const struct fact *f = &facts[i];
        int64_t value = 0;
        if (!is_heat(&r->arena, f, q, want, &value) || heat_slot(want, f->time_ns) != c->slot ||
            heat_bucket(want, value) != c->bucket ||
            !str_eq(labels_get(group, S("pod")), str_of(fact_pods[f->pod]))) {
            continue;
        }
        count++;
        if (!is_better(value, f, best_value, best)) continue;
        best = f;
        best_value = value;
    }
    assert_int_equal(c->count, count);
    check_exemplar(r, c->exemplar, want->exemplars ? best : NULL, best_value,
                   want->kind == HEAD_SPAN);
}

static inline void check_heat(struct head *head, const struct fact *facts, size_t n, struct dice *d,
                              struct req *r, const struct head_query *q)
{
    static const str pod = S_INIT("pod");
    static const int64_t bounds[] = {-150, 0, 0, 100, 700};
    struct head_heat_want want = {.group_by = &pod,
                                  .group_by_count = 1,
                                  .kind = roll(d, 2) ? HEAD_ROW : HEAD_SPAN};
    struct head_heat got;
    for (int round = 0; round < 2; round++) {
        assert_ok(head_heat(head, r, q, &want, &got, e));
        struct head_extent extent = {0};
        for (size_t i = 0; i < n; i++) {
            int64_t value = 0;
            if (!is_heat(&r->arena, &facts[i], q, &want, &value)) continue;
            if (extent.count == 0 || value < extent.least) extent.least = value;
            if (extent.count == 0 || value > extent.largest) extent.largest = value;
            extent.count++;
        }
        assert_int_equal(got.extent.count, extent.count);
        assert_int_equal(got.extent.least, extent.least);
        assert_int_equal(got.extent.largest, extent.largest);
        uint64_t counted = 0;
        for (size_t g = 0; g < got.n; g++) {
            if (g) assert_true(labels_cmp(got.groups[g - 1].group, got.groups[g].group) < 0);
            for (size_t k = 0; k < got.groups[g].n; k++) {
                counted += got.groups[g].cells[k].count;
                check_heat_cell(facts, n, r, q, &want, got.groups[g].group,
                                &got.groups[g].cells[k]);
            }
        }
        assert_int_equal(counted, want.bound_count ? extent.count : 0);
        want.first_ns = q->from_ns + 500;
        want.step_ns = 900;
        want.slots = 4;
        want.bounds = bounds;
        want.bound_count = COUNT(bounds);
        want.largest = 1500;
        want.exemplars = true;
    }
}

// The annotations of a point are those of the facts that match it, each once.
static inline void check_notes(const struct head_point *p, const bool *noted)
{
    size_t n = 0;
    for (size_t i = 1; i < FACT_NOTES; i++) {
        if (!noted[i]) continue;
        assert_true(n < p->annotation_count);
        assert_true(str_is(p->annotations[n].name, "note"));
        assert_true(str_is(p->annotations[n++].value, fact_notes[i]));
    }
    assert_int_equal(n, p->annotation_count);
}

static inline void check_totals(struct head *head, const struct fact *facts, size_t count,
                                struct dice *d, struct req *r, const struct head_query *q)
{
    static const str pod = S_INIT("pod");
    static const char *const sites[] = {"", "main", "main;work", "nowhere"};
    const char *site = sites[roll(d, COUNT(sites))];
    const str names[] = {S("main"), S("work")};
    const str nowhere = S("nowhere");
    struct head_totals_want want = {.first_ns = q->from_ns + 100,
                                    .step_ns = 700,
                                    .points = 6,
                                    .group_by = &pod,
                                    .group_by_count = 1,
                                    .include_sampled = roll(d, 2),
                                    .call_site = site == sites[3] ? &nowhere : names,
                                    .call_site_count = site == sites[0]   ? 0
                                                       : site == sites[2] ? 2
                                                                          : 1,
                                    .exemplars = (enum head_kind)roll(d, 3)};
    bool spans = want.exemplars == HEAD_SPAN;
    struct head_group *groups = NULL;
    size_t n = 0;
    assert_ok(head_totals(head, r, q, &want, &groups, &n, e));
    size_t points = 0;
    for (size_t g = 0; g < n; g++) {
        if (g) assert_true(labels_cmp(groups[g - 1].group, groups[g].group) < 0);
        for (size_t k = 0; k < groups[g].n; k++) {
            const struct head_point *p = &groups[g].points[k];
            int64_t sum = 0;
            uint64_t profiles = 0;
            const struct fact *best = NULL;
            int64_t best_value = 0;
            bool noted[FACT_NOTES] = {false};
            for (size_t i = 0; i < count; i++) {
                const struct fact *f = &facts[i];
                int64_t until = want.first_ns + p->point * want.step_ns;
                if ((f->sampled && !want.include_sampled) || !fact_matches(&r->arena, f, q) ||
                    f->time_ns > until || f->time_ns <= until - want.step_ns ||
                    !str_eq(labels_get(groups[g].group, pod), str_of(fact_pods[f->pod]))) {
                    continue;
                }
                bool any = false;
                sum += fact_value(f, site, false, &any);
                profiles++;
                noted[f->note] = true;
                if (spans && f->span_id == 0) any = false;
                int64_t value = any ? fact_value(f, site, spans, &any) : 0;
                if (!any || !is_better(value, f, best_value, best)) continue;
                best = f;
                best_value = value;
            }
            check_exemplar(r, p->exemplar, want.exemplars ? best : NULL, best_value, spans);
            check_notes(p, noted);
            assert_int_equal(p->sum, sum);
            assert_int_equal(p->profiles, profiles);
            assert_true(p->point >= 0 && p->point < want.points);
            if (k) assert_true(groups[g].points[k - 1].point < p->point);
            points += profiles;
        }
    }
    size_t expected = 0;
    for (size_t i = 0; i < count; i++) {
        const struct fact *f = &facts[i];
        expected += (!f->sampled || want.include_sampled) && fact_matches(&r->arena, f, q) &&
                    f->time_ns > want.first_ns - want.step_ns &&
                    f->time_ns <= want.first_ns + (want.points - 1) * want.step_ns;
    }
    assert_int_equal(points, expected);
}
