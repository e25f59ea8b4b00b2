// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/values.h"

// What a fact has under a call site of n names (of its first entry only, if it is of a span); *any:
// whether there is anything.
static int64_t fact_value(const struct fact *f, const char *site, bool span, bool *any)
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

static bool is_better(int64_t value, const struct fact *f, int64_t best, const struct fact *than)
{
    if (!than) return true;
    if (value != best) return value > best;
    if (f->time_ns != than->time_ns) return f->time_ns < than->time_ns;
    return memcmp(f->id.b, than->id.b, sizeof f->id.b) < 0;
}

static void check_exemplar(struct req *r, const struct exemplar *got, const struct fact *f,
                           int64_t value, bool span)
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

static int64_t heat_slot(const struct heat_want *w, int64_t time_ns)
{
    int64_t slot = 0;
    while (slot < w->slots.count - 1 && time_ns > w->slots.first_ns + slot * w->slots.step_ns)
        slot++;
    return slot;
}

static uint32_t heat_bucket(const struct heat_want *w, int64_t value)
{
    uint32_t bucket = 0;
    for (uint32_t i = 0; i < w->buckets.n; i++) {
        if (w->buckets.bounds[i] <= value) bucket = i;
    }
    return bucket;
}

static bool is_heat(struct arena *a, const struct fact *f, const struct head_query *q,
                    const struct heat_want *want, int64_t *value)
{
    if (f->sampled || !fact_matches(a, f, q)) return false;
    if (want->kind == EXEMPLAR_SPAN && f->span_id == 0) return false;
    bool any = false;
    *value = fact_value(f, "", want->kind == EXEMPLAR_SPAN, &any);
    if (!any) return false;
    return want->buckets.n == 0 ||
           (*value >= want->buckets.bounds[0] && *value <= want->buckets.largest);
}

static void check_heat_cell(const struct fact *facts, size_t n, struct req *r,
                            const struct head_query *q, const struct heat_want *want,
                            const struct cells *cells, const struct cell *c)
{
    labels group = cells->groups[c->group];
    uint64_t count = 0;
    const struct fact *best = NULL;
    int64_t best_value = 0;
    for (size_t i = 0; i < n; i++) {
        const struct fact *f = &facts[i];
        int64_t value = 0;
        if (!is_heat(&r->arena, f, q, want, &value) || heat_slot(want, f->time_ns) != c->point ||
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
    check_exemplar(r, cells_best(cells, c), want->exemplars ? best : NULL, best_value,
                   want->kind == EXEMPLAR_SPAN);
}

void check_heat(struct head *head, const struct fact *facts, size_t n, struct dice *d,
                struct req *r, const struct head_query *q)
{
    static const str pod = S_INIT("pod");
    static const int64_t bounds[] = {-150, 0, 0, 100, 700};
    struct heat_want want = {.group_by = &pod,
                             .group_by_count = 1,
                             .kind = roll(d, 2) ? EXEMPLAR_PROFILE : EXEMPLAR_SPAN};
    struct cells got;
    struct extent found;
    for (int round = 0; round < 2; round++) {
        assert_ok(head_heat(head, r, q, &want, &got, &found, e));
        struct extent extent = {0};
        for (size_t i = 0; i < n; i++) {
            int64_t value = 0;
            if (!is_heat(&r->arena, &facts[i], q, &want, &value)) continue;
            if (extent.count == 0 || value < extent.least) extent.least = value;
            if (extent.count == 0 || value > extent.largest) extent.largest = value;
            extent.count++;
        }
        assert_int_equal(found.count, extent.count);
        assert_int_equal(found.least, extent.least);
        assert_int_equal(found.largest, extent.largest);
        uint64_t counted = 0;
        for (uint32_t i = 1; i < got.group_count; i++)
            assert_true(labels_cmp(got.groups[i - 1], got.groups[i]) < 0);
        for (uint32_t i = 0; i < got.n; i++) {
            if (i) assert_true(got.v[i - 1].group <= got.v[i].group);
            counted += got.v[i].count;
            check_heat_cell(facts, n, r, q, &want, &got, &got.v[i]);
        }
        assert_int_equal(counted, want.buckets.n ? extent.count : 0);
        want.slots = (struct points){.first_ns = q->from_ns + 500, .step_ns = 900, .count = 4};
        want.buckets = (struct buckets){.bounds = bounds, .n = COUNT(bounds), .largest = 1500};
        want.exemplars = true;
    }
}

// The annotations of a point are those of the facts that match it, each once.
static void check_notes(const struct total *p, const bool *noted)
{
    size_t n = 0;
    for (size_t i = 1; i < FACT_NOTES; i++) {
        if (!noted[i]) continue;
        assert_true(n < p->annotations.n);
        assert_true(str_is(p->annotations.v[n].name, "note"));
        assert_true(str_is(p->annotations.v[n++].value, fact_notes[i]));
    }
    assert_int_equal(n, p->annotations.n);
}

void check_totals(struct head *head, const struct fact *facts, size_t count, struct dice *d,
                  struct req *r, const struct head_query *q)
{
    static const str pod = S_INIT("pod");
    static const char *const sites[] = {"", "main", "main;work", "nowhere"};
    const char *site = sites[roll(d, COUNT(sites))];
    const str names[] = {S("main"), S("work")};
    const str nowhere = S("nowhere");
    struct totals_want want = {.first_ns = q->from_ns + 100,
                               .step_ns = 700,
                               .points = 6,
                               .group_by = &pod,
                               .group_by_count = 1,
                               .include_sampled = roll(d, 2),
                               .call_site = site == sites[3] ? &nowhere : names,
                               .call_site_count = site == sites[0]   ? 0
                                                  : site == sites[2] ? 2
                                                                     : 1,
                               .exemplars = (enum exemplar_kind)roll(d, 3)};
    bool spans = want.exemplars == EXEMPLAR_SPAN;
    struct cells cells;
    assert_ok(head_totals(head, r, q, &want, &cells, e));
    size_t points = 0;
    for (uint32_t k = 0; k < cells.n; k++) {
        const struct cell *cell = &cells.v[k];
        labels group = cells.groups[cell->group];
        struct total p;
        assert_ok(totals_show(&cells, cell, &p, e));
        int64_t sum = 0;
        uint64_t profiles = 0;
        const struct fact *best = NULL;
        int64_t best_value = 0;
        bool noted[FACT_NOTES] = {false};
        for (size_t i = 0; i < count; i++) {
            const struct fact *f = &facts[i];
            int64_t until = want.first_ns + p.point * want.step_ns;
            if ((f->sampled && !want.include_sampled) || !fact_matches(&r->arena, f, q) ||
                f->time_ns > until || (p.point > 0 && f->time_ns <= until - want.step_ns) ||
                !str_eq(labels_get(group, pod), str_of(fact_pods[f->pod]))) {
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
        check_exemplar(r, p.exemplar, want.exemplars ? best : NULL, best_value, spans);
        check_notes(&p, noted);
        assert_int_equal(p.sum, sum);
        assert_int_equal(p.profiles, profiles);
        assert_true(p.point >= 0 && p.point < want.points);
        if (k && cell->group == cell[-1].group) assert_true(cell[-1].point < cell->point);
        if (k) assert_true(cell[-1].group <= cell->group);
        points += profiles;
    }
    for (uint32_t i = 1; i < cells.group_count; i++)
        assert_true(labels_cmp(cells.groups[i - 1], cells.groups[i]) < 0);
    size_t expected = 0;
    for (size_t i = 0; i < count; i++) {
        const struct fact *f = &facts[i];
        expected += (!f->sampled || want.include_sampled) && fact_matches(&r->arena, f, q) &&
                    f->time_ns > want.first_ns - want.step_ns &&
                    f->time_ns <= want.first_ns + (want.points - 1) * want.step_ns;
    }
    assert_int_equal(points, expected);
}
