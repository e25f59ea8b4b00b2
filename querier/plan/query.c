// SPDX-License-Identifier: Apache-2.0
//
// query.c - what a request asks for, checked and in the words of heads and blocks: ranges, steps,
// ids, limits, and the message that ingesters get. Messages of errors are Pyroscope's where it has
// them, as clients and dashboards show them.
#include "querier/plan/query.h"

#include "codec/pb.h"
#include "sys/clock.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>

// Steps above 34 years and starts before 1823 are cut to these, so that start - step stays
// inside int64; no profile can tell the difference.
#define STEP_MAX_NS  (INT64_C(1) << 60)
#define START_MIN_NS (-(INT64_C(1) << 62))

#define TEXT_SHOWN 200  // bytes of a client's selector or id that a message repeats

#define MS_PER_S (INT64_C(1000))
#define MS_PER_M (60 * MS_PER_S)
#define MS_PER_H (60 * MS_PER_M)
#define MS_PER_D (24 * MS_PER_H)

// Saturates: a request may name any ms, and beyond int64 of ns there is no profile.
static int64_t ms_to_ns(int64_t ms)
{
    int64_t ns = 0;
    if (!__builtin_mul_overflow(ms, NS_PER_MS, &ns)) return ns;
    return ms < 0 ? INT64_MIN : INT64_MAX;
}

// As Go prints a time.Duration of whole ms: 48h0m0s, 1m30s, 1.5s, 20ms.
static void print_go_duration(int64_t ms, char *text, size_t room)
{
    if (ms < MS_PER_S) {
        snprintf(text, room, ms ? "%" PRId64 "ms" : "%" PRId64 "s", ms);
        return;
    }
    char fraction[8] = "";
    int64_t rest = ms % MS_PER_S;
    if (rest) {
        int n = snprintf(fraction, sizeof fraction, ".%03" PRId64, rest);
        while (n > 0 && fraction[n - 1] == '0')
            fraction[--n] = 0;
    }
    int64_t h = ms / MS_PER_H;
    int64_t m = ms % MS_PER_H / MS_PER_M;
    int64_t s = ms % MS_PER_M / MS_PER_S;
    if (h) {
        snprintf(text, room, "%" PRId64 "h%" PRId64 "m%" PRId64 "%ss", h, m, s, fraction);
    } else if (m) {
        snprintf(text, room, "%" PRId64 "m%" PRId64 "%ss", m, s, fraction);
    } else {
        snprintf(text, room, "%" PRId64 "%ss", s, fraction);
    }
}

// As Prometheus prints a duration: years and weeks only if nothing is left over.
static void print_prometheus_duration(int64_t ms, char *text, size_t room)
{
    static const struct {
        int64_t ms;
        const char *unit;
        bool exact;
    } units[] = {{365 * MS_PER_D, "y", true},
                 {7 * MS_PER_D, "w", true},
                 {MS_PER_D, "d", false},
                 {MS_PER_H, "h", false},
                 {MS_PER_M, "m", false},
                 {MS_PER_S, "s", false},
                 {1, "ms", false}};
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < COUNT(units) && ms > 0 && n < room; i++) {
        int64_t v = ms / units[i].ms;
        if (v == 0 || (units[i].exact && ms % units[i].ms != 0)) continue;
        n += (size_t)snprintf(text + n, room - n, "%" PRId64 "%s", v, units[i].unit);
        ms -= v * units[i].ms;
    }
    if (n == 0) snprintf(text, room, "0s");
}

bool query_range(const struct limits *l, int64_t now_wall_ns, int64_t start_ms, int64_t end_ms,
                 struct query_range *out, err *e)
{
    if (start_ms == 0 || end_ms == 0) {
        return err_set(e, ERR_INVALID_ARGUMENT, "missing time range in the query");
    }
    if (start_ms > end_ms) {
        return err_set(e, ERR_INVALID_ARGUMENT, "query start time is after end time");
    }
    *out = (struct query_range){.start_ms = start_ms, .end_ms = end_ms};
    // The lookback first: the length of what it leaves is what counts, as in Pyroscope.
    if (l->max_query_lookback > 0) {
        int64_t oldest = now_wall_ns / NS_PER_MS - l->max_query_lookback / NS_PER_MS;
        out->empty = end_ms < oldest;
        if (out->empty) return true;
        out->start_ms = MAX(start_ms, oldest);
    }
    int64_t longest = l->max_query_length / NS_PER_MS;
    int64_t length = 0;
    // A length that does not fit is longer than every limit.
    if (__builtin_sub_overflow(end_ms, out->start_ms, &length)) length = INT64_MAX;
    if (longest <= 0 || length <= longest) return true;
    char actual[48];
    char limit[64];
    print_go_duration(length, actual, sizeof actual);
    print_prometheus_duration(longest, limit, sizeof limit);
    return err_set(
        e, ERR_INVALID_ARGUMENT,
        "the query time range exceeds the limit (max_query_length, actual: %s, limit: %s)", actual,
        limit);
}

void query_set_range(struct query *q, const struct query_range *range)
{
    assert(range->start_ms <= range->end_ms);  // query_range saw to it
    // A request includes both ends, a question excludes its beginning: a nanosecond earlier.
    q->from_ns = ms_to_ns(range->start_ms);
    if (q->from_ns > INT64_MIN) q->from_ns--;
    q->to_ns = ms_to_ns(range->end_ms);
}

bool query_add_type(struct arena *a, struct query *q, str id, struct ptype *type, err *e)
{
    if (!ptype_parse(id, type, e)) return false;
    // As it is printed, since an id may end in a sixth part that series do not have.
    return selector_add(a, &q->selector, MATCH_EQ, S(LABEL_PROFILE_TYPE), ptype_print(a, type), e);
}

bool query_add_selector(struct arena *a, struct query *q, str text, err *e)
{
    if (selector_parse(a, text, &q->selector, e)) return true;
    return err_wrap(e, "parsing label selector \"%.*s\"", STR(str_slice(text, 0, TEXT_SHOWN)));
}

bool query_max_nodes(const struct limits *l, int64_t asked, int64_t *max_nodes, err *e)
{
    // The default is the operator's, as the limit is, so the one is not held against the other.
    *max_nodes = asked ? asked : l->max_flamegraph_nodes_default;
    int64_t most = l->max_flamegraph_nodes_max;
    if (asked == 0 || most == 0) return true;
    if (asked < 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "max flamegraph nodes limit must be set (max allowed %" PRId64 ")", most);
    }
    if (asked <= most) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "max flamegraph nodes limit %" PRId64 " is greater than allowed %" PRId64, asked,
                   most);
}

bool query_pprof_nodes(const struct limits *l, int64_t asked, bool pgo, int64_t *max_nodes, err *e)
{
    *max_nodes = asked;
    if (l->max_flamegraph_nodes_on_select_merge_profile &&
        !query_max_nodes(l, asked, max_nodes, e)) {
        return false;
    }
    // The compiler looks for call sites, so a profile for it is no use with frames left out.
    if (pgo) *max_nodes = 0;
    return true;
}

static bool hex_id(const char *text, const char *what, uint8_t *bytes, size_t n, err *e)
{
    str s = str_of(text);
    str shown = str_slice(s, 0, TEXT_SHOWN);
    if (s.n != 2 * n) {
        return err_set(e, ERR_INVALID_ARGUMENT, "invalid %s id length: \"%.*s\"", what, STR(shown));
    }
    if (hex_parse(s, bytes, n)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "invalid %s id: \"%.*s\" is not hexadecimal", what,
                   STR(shown));
}

bool query_add_spans(struct arena *a, struct query *q, char *const *texts, size_t n, err *e)
{
    struct query_tree *t = &q->tree;
    assert(t->span_count == 0);
    t->spans = ARENA_ARRAY(a, uint64_t, n);
    if (!t->spans) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[8] = {0};
        if (!hex_id(texts[i], "span", bytes, sizeof bytes, e)) return false;
        // Not memcpy: the number is the same on every machine, as heads and blocks have it.
        uint64_t id = 0;
        for (size_t k = 0; k < sizeof bytes; k++)
            id |= (uint64_t)bytes[k] << (8 * k);
        if (id) t->spans[t->span_count++] = id;
    }
    // A selector of zeros alone must not become a question without a selector.
    if (n && t->span_count == 0) q->nothing = true;
    return true;
}

bool query_add_traces(struct arena *a, struct query *q, char *const *texts, size_t n, err *e)
{
    static const id128 zero;
    struct query_tree *t = &q->tree;
    assert(t->trace_count == 0);
    t->traces = ARENA_ARRAY(a, id128, n);
    if (!t->traces) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        id128 id = {{0}};
        if (!hex_id(texts[i], "trace", id.b, sizeof id.b, e)) return false;
        if (!id128_eq(id, zero)) t->traces[t->trace_count++] = id;
    }
    if (n && t->trace_count == 0) q->nothing = true;
    return true;
}

bool query_add_profiles(struct arena *a, struct query *q, char *const *texts, size_t n, err *e)
{
    struct query_tree *t = &q->tree;
    t->profiles = ARENA_ARRAY(a, id128, n);
    if (!t->profiles) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        if (!uuid_parse(str_of(texts[i]), &t->profiles[i], e)) {
            return err_wrap(e, "profile_id_selector");
        }
    }
    t->profile_count = n;
    return true;
}

// A step in whole ms, at least 1. Written so that NaN fails too. No double is 1.001 s, so the
// product may be a hair below 1001 ms: it is 1001 then.
static bool read_step(struct query_step *s)
{
    if (!(s->seconds >= 0.001)) return false;
    const int64_t most_ms = STEP_MAX_NS / NS_PER_MS;
    double step = s->seconds * 1000 * (1 + 4 * DBL_EPSILON);
    s->ms = step < (double)most_ms ? (int64_t)step : most_ms;
    if (s->ms < 1) s->ms = 1;
    return true;
}

// Where points lie. Sets the range of the question.
static struct points lay_points(struct query *q, const struct query_range *range,
                                const struct query_step *s)
{
    int64_t start = MAX(ms_to_ns(range->start_ms), START_MIN_NS);
    int64_t end = MAX(ms_to_ns(range->end_ms), start);
    int64_t step_ns = s->ms * NS_PER_MS;
    q->from_ns = start - 1 - (s->lead ? step_ns : 0);
    q->to_ns = end;
    return (struct points){
        .first_ns = start,
        .step_ns = step_ns,
        .count = (int64_t)(((uint64_t)end - (uint64_t)start) / (uint64_t)step_ns) + 1,
        .early_ns = NS_PER_MS - 1,
    };
}

bool query_add_totals(struct query *q, const struct query_range *range, struct query_step *step,
                      err *e)
{
    if (!read_step(step)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "step must be >= 1ms");
    }
    const struct points p = lay_points(q, range, step);
    bool part = ((uint64_t)q->to_ns - (uint64_t)p.first_ns) % (uint64_t)p.step_ns != 0;
    q->steps = p.count;
    q->totals.wanted = true;
    q->totals.first_ns = p.first_ns;
    q->totals.step_ns = p.step_ns;
    q->totals.points = p.count + part;
    q->totals.early_ns = p.early_ns;
    assert(q->from_ns < q->to_ns && q->totals.points >= 1);
    return true;
}

// ---- heat maps

bool query_add_heat(struct query *q, const struct query_range *range, struct query_step *step,
                    err *e)
{
    if (!read_step(step)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "step must be >= 1ms, got %g s", step->seconds);
    }
    const struct points p = lay_points(q, range, step);
    q->heat.wanted = true;
    q->heat.first_ns = p.first_ns;
    q->heat.step_ns = p.step_ns;
    q->heat.slots = p.count;
    q->heat.early_ns = p.early_ns;
    assert(q->from_ns < q->to_ns && q->heat.slots >= 1);
    return true;
}

void query_set_axis(struct query_heat *heat, int64_t least, int64_t largest)
{
    // Unsigned, since the distance of two int64 may need all 64 bits.
    uint64_t width = (uint64_t)largest - (uint64_t)least;
    double bucket = (double)(width ? width : 1) / HEAT_BUCKETS;
    for (int i = 0; i < HEAT_BUCKETS; i++) {
        heat->bounds[i] = (int64_t)((uint64_t)least + (uint64_t)((double)i * bucket));
    }
    heat->bound_count = HEAT_BUCKETS;
    heat->largest = largest;
}

// ---- limits of a query

static bool at_most(uint64_t asked, int64_t most, const char *what, const char *setting, err *e)
{
    if (most <= 0 || asked <= (uint64_t)most) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the query asks for %" PRIu64 " %s, which exceeds the limit (%s, limit: %" PRId64
                   ")",
                   asked, what, setting, most);
}

// Names and values travel to the ingesters as text of a message. A label has no NUL byte either.
static bool check_text(str text, const char *what, err *e)
{
    if (text.n && memchr(text.p, 0, text.n)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "%s of the query holds a NUL byte", what);
    }
    if (str_utf8(text)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s of the query is not valid UTF-8", what);
}

static bool check_names(const str *names, size_t n, const char *what, err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!check_text(names[i], what, e)) return false;
    }
    return true;
}

static bool check_texts(const struct query *q, err *e)
{
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (!check_text(m->name, "the name of a matcher", e) ||
            !check_text(m->value, "the value of a matcher", e)) {
            return false;
        }
    }
    return check_names(q->labels.names, q->labels.name_count, "a label name", e) &&
           check_names(q->totals.group_by, q->totals.group_by_count, "a label to group by", e) &&
           check_names(q->heat.group_by, q->heat.group_by_count, "a label to group by", e);
}

bool query_check(const struct query *q, const struct query_most *most, err *e)
{
    uint64_t points = q->totals.wanted && q->steps > 0 ? (uint64_t)q->steps : 0;
    uint64_t cells = 0;
    if (q->heat.wanted && __builtin_mul_overflow((uint64_t)q->heat.slots, HEAT_BUCKETS, &cells)) {
        cells = UINT64_MAX;
    }
    size_t names = MAX(q->labels.name_count, MAX(q->totals.group_by_count, q->heat.group_by_count));
    return at_most(points, most->points, "points, (end - start) / step + 1", "querier.max_points",
                   e) &&
           at_most(cells, most->points, "cells, 20 for each of (end - start) / step + 1 slots",
                   "querier.max_points", e) &&
           at_most(q->selector.n, most->matchers, "matchers", "querier.max_matchers", e) &&
           at_most(names, most->labels, "labels", "querier.max_labels", e) && check_texts(q, e);
}

bool query_names(struct arena *a, char *const *texts, size_t n, int64_t most, const str **names,
                 size_t *count, err *e)
{
    if (!at_most(n, most, "labels", "querier.max_labels", e)) return false;
    str *v = ARENA_ARRAY(a, str, n);
    if (!v) return arena_fail(a, e);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < *count; k++)
            known = known || str_is(v[k], texts[i]);
        if (!known) v[(*count)++] = str_of(texts[i]);
    }
    *names = v;
    return true;
}

// ---- the message

static void put_tree(const struct query_tree *t, struct buf *out)
{
    if (!t->wanted) return;
    size_t mark = pb_begin(out, 4);
    if (t->span_count) {
        size_t packed = pb_begin(out, 1);
        for (size_t i = 0; i < t->span_count; i++) {
            for (unsigned k = 0; k < 8; k++)
                buf_byte(out, (unsigned char)(t->spans[i] >> (8 * k)));
        }
        pb_end(out, packed);
    }
    for (size_t i = 0; i < t->trace_count; i++)
        pb_put_bytes(out, 2, str_make(t->traces[i].b, sizeof t->traces[i].b));
    for (size_t i = 0; i < t->profile_count; i++)
        pb_put_bytes(out, 3, str_make(t->profiles[i].b, sizeof t->profiles[i].b));
    pb_put_u64_opt(out, 4, t->full_symbols);
    pb_put_u64_opt(out, 16, t->by_service ? 2 : 1);
    pb_end(out, mark);
}

static void put_totals(const struct totals_want *t, struct buf *out)
{
    if (!t->wanted) return;
    size_t mark = pb_begin(out, 5);
    pb_put_i64_opt(out, 1, t->first_ns);
    pb_put_i64_opt(out, 2, t->step_ns);
    pb_put_i64_opt(out, 3, t->points);
    for (size_t i = 0; i < t->group_by_count; i++)
        pb_put_bytes(out, 4, t->group_by[i]);
    pb_put_u64_opt(out, 5, t->include_sampled);
    for (size_t i = 0; i < t->call_site_count; i++)
        pb_put_bytes(out, 6, t->call_site[i]);
    pb_put_u64_opt(out, 7, (uint64_t)t->exemplars);
    pb_put_i64_opt(out, 8, t->early_ns);
    pb_put_u64_opt(out, 9, t->spread);
    pb_put_u64_opt(out, 16, 1);
    pb_end(out, mark);
}

static void put_heat(const struct query_heat *h, struct buf *out)
{
    if (!h->wanted) return;
    assert(h->bound_count <= HEAT_BUCKETS && h->step_ns > 0);
    size_t mark = pb_begin(out, 10);
    pb_put_i64_opt(out, 1, h->first_ns);
    pb_put_i64_opt(out, 2, h->step_ns);
    pb_put_i64_opt(out, 3, h->slots);
    for (size_t i = 0; i < h->group_by_count; i++)
        pb_put_bytes(out, 4, h->group_by[i]);
    pb_put_u64_opt(out, 5, (uint64_t)h->kind);
    if (h->bound_count) {
        size_t packed = pb_begin(out, 6);
        for (size_t i = 0; i < h->bound_count; i++)
            pb_put_varint(out, zigzag(h->bounds[i]));
        pb_end(out, packed);
    }
    pb_put_u64_opt(out, 7, zigzag(h->largest));
    pb_put_u64_opt(out, 8, h->exemplars);
    pb_put_i64_opt(out, 9, h->early_ns);
    pb_end(out, mark);
}

static void put_labels(const struct query_labels *l, struct buf *out)
{
    if (!l->wanted) return;
    size_t mark = pb_begin(out, 6);
    for (size_t i = 0; i < l->name_count; i++)
        pb_put_bytes(out, 1, l->names[i]);
    pb_put_u64_opt(out, 2, l->names_only);
    pb_end(out, mark);
}

static void put_selector(const struct selector *sel, struct buf *out)
{
    for (size_t i = 0; i < sel->n; i++) {
        const struct matcher *m = &sel->v[i];
        size_t mark = pb_begin(out, 1);
        pb_put_u64_opt(out, 1, (uint64_t)m->op);
        pb_put_bytes_opt(out, 2, m->name);
        pb_put_bytes_opt(out, 3, m->value);
        pb_end(out, mark);
    }
}

void query_put_hides(const struct hide *v, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t mark = pb_begin(out, 11);
        put_selector(&v[i].selector, out);
        pb_put_i64_opt(out, 2, v[i].from_ns);
        pb_put_i64_opt(out, 3, v[i].to_ns);
        pb_end(out, mark);
    }
}

void query_encode(const struct query *q, struct buf *out)
{
    put_selector(&q->selector, out);
    pb_put_i64_opt(out, 2, q->from_ns);
    pb_put_i64_opt(out, 3, q->to_ns);
    put_tree(&q->tree, out);
    put_totals(&q->totals, out);
    put_labels(&q->labels, out);
    if (q->stats) {
        size_t mark = pb_begin(out, 7);
        pb_put_u64_opt(out, 1, q->stat_sizes);
        pb_end(out, mark);
    }
    put_heat(&q->heat, out);
    query_put_hides(q->hides, q->hide_count, out);
}
