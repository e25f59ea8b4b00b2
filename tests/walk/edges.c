// SPDX-License-Identifier: Apache-2.0
//
// edges.c - questions of every kind whose ranges begin and end anywhere, where rows are no longer
// kept too: totals by step and group, trees, label sets, heat maps.
//
// The book says what each answer must be. An answer is exact, or says in its header by how much its
// range, or its steps, were rounded: then it is the sum over a range that is so far from the one
// asked for at most, and has everything within that. Only heat maps need single profiles: they say
// between which times there are none any more.
#include "walk/edges.h"

#include "querier/request/discovery.h"
#include "querier/request/heatmap.h"
#include "querier/request/series.h"
#include "querier/request/stacktraces.h"
#include "querier/v1/querier.pb-c.h"
#include "walk/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GRID_NS    (10 * NS_PER_MS)  // rows lie between its points, borders of questions on them
#define POINTS_MAX 400
#define GROUPS     (WALK_SERVICES * WALK_PODS)

enum edge_kind {
    EDGE_SERIES,
    EDGE_TREE,
    EDGE_LABELS,
    EDGE_HEAT,
    EDGE_KINDS
};

struct span {
    int64_t from_ns;
    int64_t to_ns;
};

struct edge_question {
    enum edge_kind kind;
    int64_t from_ms;
    int64_t to_ms;
    int64_t step_ms;
    int service;  // -1: all
    int pod;
    bool by_service;
    bool by_pod;
    int64_t asked_ns;
    bool acked[WALK_ROWS];  // when it was asked

    // the answer
    int64_t rounded_ns;
    uint32_t times[WALK_ROWS];              // of a tree
    uint64_t sums[GROUPS][POINTS_MAX + 1];  // of totals, by group and point
    uint64_t cells;                         // of a heat map, all together
    struct span gone;                       // where it says that single profiles are no longer kept
    bool sets[GROUPS];                      // of label sets
};

// ---- the question

static int64_t step_of(struct dice *d, int64_t span_ms)
{
    static const int64_t grids[] = {10, 1000, 60000, 1800000, 3600000};
    int64_t least = span_ms / POINTS_MAX + 1;
    int64_t step = least + (int64_t)roll(d, (uint64_t)span_ms);
    if (roll(d, 2)) step = least + (int64_t)roll(d, (uint64_t)span_ms / 16 + 1);
    int64_t grid = grids[roll(d, COUNT(grids))];
    return (step + grid - 1) / grid * grid;
}

static void roll_question(struct world *w, struct dice *d, bool whole, struct edge_question *q)
{
    static const int64_t grids[] = {GRID_NS, SLOT_MINUTE, SLOT_HOUR, SLOT_DAY};
    *q = (struct edge_question){.kind = (enum edge_kind)roll(d, EDGE_KINDS),
                                .service = -1,
                                .pod = -1,
                                .asked_ns = clock_wall_ns()};
    int64_t from = walk_first_ns(w);
    int64_t span = q->asked_ns + SLOT_HOUR - from;
    int64_t to = from + span;
    if (!whole && roll(d, 3)) {
        from += (int64_t)roll(d, (uint64_t)span);
        to = from + (int64_t)roll(d, (uint64_t)(to - from)) + 1;
    }
    int64_t grid = grids[roll(d, COUNT(grids))];
    q->from_ms = from / grid * grid / NS_PER_MS;
    q->to_ms = (to / grid * grid + grid) / NS_PER_MS;
    q->step_ms = step_of(d, q->to_ms - q->from_ms);
    if (roll(d, 3) == 0) q->service = (int)roll(d, WALK_SERVICES);
    if (roll(d, 3) == 0) q->pod = (int)roll(d, WALK_PODS);
    q->by_service = roll(d, 2);
    q->by_pod = roll(d, 2);
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++)
        q->acked[i] = atomic_load(&w->rows[i].acked) && walk_log_spares(w, i);
}

static void print_selector(const struct edge_question *q, char *text, size_t n)
{
    char service[40] = "";
    char pod[40] = "";
    if (q->service >= 0)
        snprintf(service, sizeof service, "service_name=\"%s\"", walk_services[q->service]);
    if (q->pod >= 0) snprintf(pod, sizeof pod, "pod=\"%s\"", walk_pods[q->pod]);
    snprintf(text, n, "{%s%s%s}", service, service[0] && pod[0] ? "," : "", pod);
}

static bool run(struct world *w, struct http_exchange *x, str method, answer_fn *fn,
                const ProtobufCMessage *m, struct buf *out, err *e)
{
    struct buf in;
    buf_init(&in, NULL, 1 << 16);
    pb_pack(m, &in);
    x->req.tenant = S(WALK_TENANT);
    http_headers_add(&x->headers, &x->req.arena, S("flametree-explain"), S("1"));
    http_headers_add(&x->headers, &x->req.arena, S("flametree-partial"), S("deny"));
    bool ok = answer_run(&w->querier, x, method, fn, buf_view(&in), out, e);
    buf_release(&in);
    return ok;
}

static bool ask(struct world *w, struct edge_question *q, struct http_exchange *x, struct buf *out,
                err *e)
{
    char selector[100];
    char type[] = WALK_TYPE;
    char service[] = LABEL_SERVICE;
    char pod[] = "pod";
    char *groups[2];
    char *matchers[] = {selector};
    size_t n = 0;
    print_selector(q, selector, sizeof selector);
    if (q->by_service) groups[n++] = service;
    if (q->by_pod) groups[n++] = pod;
    if (q->kind == EDGE_SERIES) {
        Querier__V1__SelectSeriesRequest m = QUERIER__V1__SELECT_SERIES_REQUEST__INIT;
        m.profile_typeid = type;
        m.label_selector = selector;
        m.start = q->from_ms;
        m.end = q->to_ms;
        m.step = ((double)q->step_ms + 0.5) / 1000;  // seconds are cut to whole ms
        m.group_by = groups;
        m.n_group_by = n;
        // Rows are shorter than the grid, so each is of one point all the same; plans differ.
        m.spread = q->step_ms / 10 % 2 != 0;
        return run(w, x, S("SelectSeries"), series_select, &m.base, out, e);
    }
    if (q->kind == EDGE_LABELS) {
        char *names[] = {service, pod};
        Querier__V1__SeriesRequest m = QUERIER__V1__SERIES_REQUEST__INIT;
        m.matchers = matchers;
        m.n_matchers = 1;
        m.label_names = names;
        m.n_label_names = COUNT(names);
        m.start = q->from_ms;
        m.end = q->to_ms;
        return run(w, x, S("Series"), discovery_series, &m.base, out, e);
    }
    if (q->kind == EDGE_HEAT) {
        Querier__V1__SelectHeatmapRequest m = QUERIER__V1__SELECT_HEATMAP_REQUEST__INIT;
        m.profile_typeid = type;
        m.label_selector = selector;
        m.start = q->from_ms;
        m.end = q->to_ms;
        m.step = ((double)q->step_ms + 0.5) / 1000;
        m.query_type = QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL;
        return run(w, x, S("SelectHeatmap"), heatmap_select, &m.base, out, e);
    }
    Querier__V1__SelectMergeStacktracesRequest m =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    m.profile_typeid = type;
    m.label_selector = selector;
    m.start = q->from_ms;
    m.end = q->to_ms;
    m._max_nodes_case = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST___MAX_NODES_MAX_NODES;
    m.max_nodes = 1 << 20;
    return run(w, x, S("SelectMergeStacktraces"), stacktraces_merge, &m.base, out, e);
}

// ---- the answer

static unsigned group_of(const struct edge_question *q, unsigned service, unsigned pod)
{
    return (q->by_service ? service : 0) * WALK_PODS + (q->by_pod ? pod : 0);
}

static unsigned index_of(const char *value, const char *const *v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(v[i], value) == 0) return i;
    return 0;
}

static void read_pairs(Types__V1__LabelPair *const *v, size_t n, unsigned *service, unsigned *pod)
{
    *service = *pod = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(v[i]->name, "pod") == 0) *pod = index_of(v[i]->value, walk_pods, WALK_PODS);
        if (strcmp(v[i]->name, LABEL_SERVICE) == 0)
            *service = index_of(v[i]->value, walk_services, WALK_SERVICES);
    }
}

static void read_series(struct world *w, struct edge_question *q, struct req *r, str bytes)
{
    err e = {0};
    const Querier__V1__SelectSeriesResponse *m = (const Querier__V1__SelectSeriesResponse *)
        pb_unpack(&r->arena, &querier__v1__select_series_response__descriptor, bytes, &e);
    for (size_t i = 0; m && i < m->n_series; i++) {
        unsigned service = 0;
        unsigned pod = 0;
        read_pairs(m->series[i]->labels, m->series[i]->n_labels, &service, &pod);
        for (size_t k = 0; k < m->series[i]->n_points; k++) {
            const Types__V1__Point *p = m->series[i]->points[k];
            int64_t at = p->timestamp - q->from_ms;
            if (at % q->step_ms || at < 0 || at / q->step_ms > POINTS_MAX)
                world_fault(w, "a point at %" PRId64 " ms after the start", at);
            else
                q->sums[group_of(q, service, pod)][at / q->step_ms] += (uint64_t)p->value;
        }
    }
}

static void read_sets(struct edge_question *q, struct req *r, str bytes)
{
    err e = {0};
    const Querier__V1__SeriesResponse *m =
        (const Querier__V1__SeriesResponse *)pb_unpack(&r->arena,
                                                       &querier__v1__series_response__descriptor,
                                                       bytes, &e);
    for (size_t i = 0; m && i < m->n_labels_set; i++) {
        unsigned service = 0;
        unsigned pod = 0;
        read_pairs(m->labels_set[i]->labels, m->labels_set[i]->n_labels, &service, &pod);
        q->sets[service * WALK_PODS + pod] = true;
    }
}

static void read_heat(struct edge_question *q, struct req *r, str bytes)
{
    err e = {0};
    const Querier__V1__SelectHeatmapResponse *m = (const Querier__V1__SelectHeatmapResponse *)
        pb_unpack(&r->arena, &querier__v1__select_heatmap_response__descriptor, bytes, &e);
    for (size_t i = 0; m && i < m->n_series; i++) {
        for (size_t k = 0; k < m->series[i]->n_slots; k++) {
            const Types__V1__HeatmapSlot *slot = m->series[i]->slots[k];
            for (size_t c = 0; c < slot->n_counts; c++)
                q->cells += (uint64_t)slot->counts[c];
        }
    }
}

static void read_answer(struct world *w, struct edge_question *q, struct req *r,
                        const struct buf *out)
{
    if (q->kind == EDGE_SERIES) read_series(w, q, r, buf_view(out));
    if (q->kind == EDGE_LABELS) read_sets(q, r, buf_view(out));
    if (q->kind == EDGE_HEAT) read_heat(q, r, buf_view(out));
    if (q->kind == EDGE_TREE) walk_count_rows(w, r, out, q->times);
}

// "2026-12-31T00:00:00Z", the seconds cut.
static int64_t read_time(const char *text)
{
    struct tm t = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) ? (int64_t)timegm(&t) * NS_PER_S : 0;
}

static bool read_gone(struct edge_question *q, str exact)
{
    char text[200];
    char from[32];
    char to[32];
    snprintf(text, sizeof text, "%.*s", STR(exact));
    if (q->kind != EDGE_HEAT ||
        sscanf(text, "partial=single profiles of %31s to %31s are no longer kept", from, to) != 2) {
        return false;
    }
    q->gone = (struct span){read_time(from), read_time(to) + NS_PER_S};
    return true;
}

// "exact" or "rounded=3600" or "rounded=0.001", or what is gone; false: something else, which no
// question here may be answered with.
static bool read_header(struct edge_question *q, str exact)
{
    if (read_gone(q, exact)) return true;
    str rest = {0};
    uint64_t seconds = 0;
    uint64_t ms = 0;
    if (str_is(exact, "exact") || str_is(exact, "totals")) return true;
    if (!str_starts(exact, S("rounded="))) return false;
    str whole = str_split(str_slice(exact, S("rounded=").n, exact.n), '.', &rest);
    if (!str_u64(whole, &seconds) || (rest.n && !str_u64(rest, &ms))) return false;
    q->rounded_ns = (int64_t)seconds * NS_PER_S + (int64_t)ms * NS_PER_MS;
    return true;
}

// ---- what it must be

static bool is_meant(const struct edge_question *q, const struct pushed *row)
{
    return (q->service < 0 || (unsigned)q->service == row->service) &&
           (q->pod < 0 || (unsigned)q->pod == row->pod);
}

static bool is_in(const struct pushed *row, struct span at)
{
    return row->time_ns > at.from_ns && row->time_ns <= at.to_ns;
}

// How many rows of a group lie in a span; of those that were acknowledged, or of all.
static uint64_t count_in(struct world *w, const struct edge_question *q, unsigned group,
                         struct span at, bool all)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++) {
        const struct pushed *row = &w->rows[i];
        bool counts = is_meant(q, row) && is_in(row, at) && (all || q->acked[i]) &&
                      group_of(q, row->service, row->pod) == group;
        n += counts + (counts && all && walk_log_may_double(w, i));
    }
    return n;
}

// Sums up to each point: a slot counts in the step in which it ends, so what was rounded comes
// later by a slot at most, or within the last point.
static void check_series(struct world *w, const struct edge_question *q, str explained)
{
    const int64_t from = q->from_ms * NS_PER_MS - 1;
    const int64_t points = (q->to_ms - q->from_ms + q->step_ms - 1) / q->step_ms;
    const int64_t slack = q->rounded_ns;
    for (unsigned g = 0; g < GROUPS; g++) {
        uint64_t sum = 0;
        for (int64_t k = 0; k <= points; k++) {
            int64_t to = MIN(q->from_ms + k * q->step_ms, q->to_ms) * NS_PER_MS;
            bool last = k == points;
            sum += q->sums[g][k];
            uint64_t least = count_in(w, q, g, (struct span){from, last ? to : to - slack}, false);
            uint64_t most =
                count_in(w, q, g, (struct span){from - slack, last ? to + slack : to}, true);
            if (sum >= least && sum <= most) continue;
            world_fault(w,
                        "series of group %u: up to point %" PRId64 " of %" PRId64 " %" PRIu64
                        " rows, expected %" PRIu64 " to %" PRIu64 "; asked at %" PRId64
                        " for [%" PRId64 ", %" PRId64 "] ms step %" PRId64
                        ", service %d, pod %d, rounded by %" PRId64 "; %.*s",
                        g, k, points, sum, least, most, q->asked_ns, q->from_ms, q->to_ms,
                        q->step_ms, q->service, q->pod, slack, STR(explained));
            return;
        }
    }
}

// The edge that an edge is rounded to at the borders of a width: the nearer one if it lies on it.
static int64_t rounded_edge(int64_t t, int64_t width, bool up)
{
    int64_t down = t / width * width;
    int64_t above = down == t ? t : down + width;
    if (above - t <= NS_PER_MS) return above;
    if (t - down <= NS_PER_MS) return down;
    return up ? above : down;
}

static const struct pushed *wrong_row(struct world *w, const struct edge_question *q,
                                      struct span at)
{
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++) {
        const struct pushed *row = &w->rows[i];
        bool in = is_meant(q, row) && is_in(row, at);
        bool right = q->times[i] == 1 ? in : q->times[i] == 0 && !(in && q->acked[i]);
        if (right || (q->times[i] == 2 && in && walk_log_may_double(w, i))) continue;
        return row;
    }
    return NULL;
}

// A tree is the sum over the range that the header tells of: one whose edges are rounded so far.
static void check_tree(struct world *w, const struct edge_question *q, str explained)
{
    static const int64_t widths[] = {1, SLOT_MINUTE, SLOT_HOUR, SLOT_DAY};
    const struct span asked = {q->from_ms * NS_PER_MS - 1, q->to_ms * NS_PER_MS};
    const struct pushed *wrong = NULL;
    bool fits = false;
    for (size_t i = 0; i < COUNT(widths) * COUNT(widths); i++) {
        struct span at = {rounded_edge(asked.from_ns, widths[i / COUNT(widths)], false),
                          rounded_edge(asked.to_ns, widths[i % COUNT(widths)], true)};
        if (q->rounded_ns == 0) at = asked;
        int64_t far = MAX(imaxabs(at.from_ns - asked.from_ns), imaxabs(at.to_ns - asked.to_ns));
        if ((far + NS_PER_MS - 1) / NS_PER_MS * NS_PER_MS != q->rounded_ns) continue;
        fits = true;
        wrong = wrong_row(w, q, at);
        if (!wrong) return;
    }
    unsigned number = wrong ? (unsigned)(wrong - w->rows) : 0;
    world_fault(w,
                "tree: %s: row %u at %" PRId64 " counts %u times, %s; asked at %" PRId64
                " for (%" PRId64 ", %" PRId64 "], service %d, pod %d, rounded by %" PRId64 "; %.*s",
                fits ? "no range that is rounded so has these rows" : "no edge is rounded so",
                number, wrong ? wrong->time_ns : 0, q->times[number],
                q->acked[number] ? "acknowledged" : "not acknowledged", q->asked_ns, asked.from_ns,
                asked.to_ns, q->service, q->pod, q->rounded_ns, STR(explained));
}

static void check_labels(struct world *w, const struct edge_question *q, str explained)
{
    const struct span asked = {q->from_ms * NS_PER_MS - 1, q->to_ms * NS_PER_MS};
    const struct span widest = {asked.from_ns - q->rounded_ns, asked.to_ns + q->rounded_ns};
    struct edge_question each = *q;
    each.by_service = each.by_pod = true;
    for (unsigned g = 0; g < GROUPS; g++) {
        bool must = count_in(w, &each, g, asked, false);
        bool may = count_in(w, &each, g, widest, true);
        if (q->sets[g] ? may : !must) continue;
        world_fault(w,
                    "labels: the set of service %u, pod %u is %s; asked for (%" PRId64 ", %" PRId64
                    "], service %d, pod %d, rounded by %" PRId64 "; %.*s",
                    g / WALK_PODS, g % WALK_PODS, q->sets[g] ? "there" : "missing", asked.from_ns,
                    asked.to_ns, q->service, q->pod, q->rounded_ns, STR(explained));
        return;
    }
}

// (Slots are not checked: a heat map of values that are all one is a series of counts.)
static void check_heat(struct world *w, const struct edge_question *q, str explained)
{
    const struct span at = {q->from_ms * NS_PER_MS - 1, q->to_ms * NS_PER_MS};
    uint64_t least = 0;
    uint64_t most = 0;
    for (unsigned i = 0; i < atomic_load(&w->row_count); i++) {
        const struct pushed *row = &w->rows[i];
        bool in = is_meant(q, row) && is_in(row, at);
        least += in && q->acked[i] && !is_in(row, q->gone);
        most += in + (in && walk_log_may_double(w, i));
    }
    if (q->cells >= least && q->cells <= most) return;
    world_fault(w,
                "heat map: %" PRIu64 " rows, expected %" PRIu64 " to %" PRIu64
                "; asked for (%" PRId64 ", %" PRId64 "], service %d, pod %d, gone (%" PRId64
                ", %" PRId64 "]; %.*s",
                q->cells, least, most, at.from_ns, at.to_ns, q->service, q->pod, q->gone.from_ns,
                q->gone.to_ns, STR(explained));
}

void walk_ask_edges(struct world *w, struct dice *d, bool whole)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    struct edge_question *q = calloc(1, sizeof *q);
    struct buf out;
    err e = {0};
    req_init(&x->req, RANK_PUBLIC, &w->memory, SIZE_MAX, 0);
    buf_init(&out, NULL, (size_t)1 << 28);
    seat_freeze(w);
    roll_question(w, d, whole, q);
    bool ok = false;
    uint64_t until = 0;
    do
        ok = ask(w, q, x, &out, &e);
    while (!ok && whole && walk_asks_again(w, x, &out, &e, &until));
    seat_thaw();
    str exact = ok ? http_headers_get(&x->answer_headers, "flametree-exact") : (str){0};
    str explained = ok ? http_headers_get(&x->answer_headers, "flametree-explain") : (str){0};
    walk_count_answer(w, ok, ok && !str_is(exact, "exact"));
    if (!ok) {
        if (!walk_may_fail(w, &e) || (whole && w->mistake == NO_MISTAKE))
            world_fault(w, "question %d: %s: %s", (int)q->kind, err_name(e.code), e.msg);
    } else if (!read_header(q, exact)) {
        world_fault(w, "the answer to question %d is '%.*s'; %.*s", (int)q->kind, STR(exact),
                    STR(explained));
    } else {
        if (w->mistake == UNTOLD) q->rounded_ns = 0;
        read_answer(w, q, &x->req, &out);
        if (q->kind == EDGE_SERIES) check_series(w, q, explained);
        if (q->kind == EDGE_TREE) check_tree(w, q, explained);
        if (q->kind == EDGE_LABELS) check_labels(w, q, explained);
        if (q->kind == EDGE_HEAT) check_heat(w, q, explained);
    }
    buf_release(&out);
    req_release(&x->req);
    free(q);
    free(x);
}
