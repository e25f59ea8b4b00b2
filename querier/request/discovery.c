// SPDX-License-Identifier: Apache-2.0
//
// discovery.c - the four lists are one question for label sets (labels_query), which differ in the
// labels that they name: the profile type, one label, some, or only the names of all.
#include "querier/request/discovery.h"

#include "codec/pb.h"
#include "querier/v1/querier.pb-c.h"
#include "rpc/route.h"
#include "sys/clock.h"

#define LAST_HOUR_MS (INT64_C(3600) * 1000)

// The fields that all of these requests have.
struct asked {
    int64_t start_ms;
    int64_t end_ms;
    char *const *matchers;
    size_t matcher_count;
};

// Makes a question for labels of a request. range->empty: no profile can match, so do not ask.
static bool labels_query(struct answer *a, struct asked asked, struct query *q,
                         struct query_range *range, err *e)
{
    *q = (struct query){.labels.wanted = true, .selector.most = &a->selectors};
    if (!query_range(a->limits, a->now_wall_ns, asked.start_ms, asked.end_ms, range, e)) {
        return false;
    }
    query_set_range(q, range);
    for (size_t i = 0; i < asked.matcher_count; i++) {
        if (!query_add_selector(a->arena, q, str_of(asked.matchers[i]), e)) return false;
    }
    return true;
}

static void put_type(struct buf *out, str id)
{
    size_t mark = pb_begin(out, 1);
    pb_put_bytes_opt(out, 1, id);
    struct ptype t;
    err e = {0};
    if (ptype_parse(id, &t, &e)) {  // an id that somebody stored under another form has no parts
        pb_put_bytes_opt(out, 2, t.name);
        pb_put_bytes_opt(out, 4, t.sample_type);
        pb_put_bytes_opt(out, 5, t.sample_unit);
        pb_put_bytes_opt(out, 6, t.period_type);
        pb_put_bytes_opt(out, 7, t.period_unit);
    }
    pb_end(out, mark);
}

bool discovery_profile_types(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__ProfileTypesRequest *m =
        ANSWER_UNPACK(a, Querier__V1__ProfileTypesRequest, querier__v1__profile_types_request, in,
                      e);
    if (!m) return false;
    int64_t start = m->start;
    int64_t end = m->end;
    if (start == 0 && end == 0) {  // Grafana's health check and older clients
        end = a->now_wall_ns / NS_PER_MS;
        start = end - LAST_HOUR_MS;
    }
    struct query q;
    struct query_range range;
    struct asked asked = {.start_ms = start, .end_ms = end};
    if (!labels_query(a, asked, &q, &range, e)) return false;
    if (range.empty) return true;
    static const str type_only[] = {S_INIT(LABEL_PROFILE_TYPE)};
    q.labels.names = type_only;
    q.labels.name_count = COUNT(type_only);
    struct merged *found;
    if (!answer_read(a, &q, &found, e)) return false;
    for (size_t i = 0; i < found->sets.n; i++) {
        if (labels_has(found->sets.v[i], type_only[0])) {
            put_type(out, labels_get(found->sets.v[i], type_only[0]));
        }
    }
    return true;
}

bool discovery_label_names(struct answer *a, str in, struct buf *out, err *e)
{
    const Types__V1__LabelNamesRequest *m =
        ANSWER_UNPACK(a, Types__V1__LabelNamesRequest, types__v1__label_names_request, in, e);
    if (!m) return false;
    struct query q;
    struct query_range range;
    struct asked asked = {m->start, m->end, m->matchers, m->n_matchers};
    if (!labels_query(a, asked, &q, &range, e)) return false;
    if (range.empty) return true;
    q.labels.names_only = true;
    struct merged *found;
    if (!answer_read(a, &q, &found, e)) return false;
    bool all = route_wants_utf8_names(a->x);
    for (size_t i = 0; i < found->names.n; i++) {
        str name = label_sets_name(&found->names, i);
        if (all || label_name_is_legacy(name)) pb_put_bytes(out, 1, name);
    }
    return true;
}

bool discovery_label_values(struct answer *a, str in, struct buf *out, err *e)
{
    const Types__V1__LabelValuesRequest *m =
        ANSWER_UNPACK(a, Types__V1__LabelValuesRequest, types__v1__label_values_request, in, e);
    if (!m) return false;
    struct query q;
    struct query_range range;
    struct asked asked = {m->start, m->end, m->matchers, m->n_matchers};
    if (!labels_query(a, asked, &q, &range, e)) return false;
    str name = str_of(m->name);
    if (name.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "name is required");
    if (range.empty) return true;
    q.labels.names = &name;
    q.labels.name_count = 1;
    struct merged *found;
    if (!answer_read(a, &q, &found, e)) return false;
    for (size_t i = 0; i < found->sets.n; i++) {
        if (labels_has(found->sets.v[i], name)) {
            pb_put_bytes(out, 1, labels_get(found->sets.v[i], name));
        }
    }
    return true;
}

// ---- series

// Grafana asks for these five labels of all series and expects four back: pyroscope_app is a name
// that only an old storage had. Returns the number of names left.
static size_t grafana_names(const Querier__V1__SeriesRequest *m, str *names, size_t n)
{
    static const str five[] = {S_INIT("pyroscope_app"), S_INIT(LABEL_NAME), S_INIT("__type__"),
                               S_INIT(LABEL_PROFILE_TYPE), S_INIT(LABEL_SERVICE)};
    bool no_matchers = true;
    for (size_t i = 0; i < m->n_matchers; i++)
        no_matchers = no_matchers && strcmp(m->matchers[i], "{}") == 0;
    if (!no_matchers || n != COUNT(five)) return n;
    for (size_t i = 0; i < COUNT(five); i++) {
        if (!str_among(five[i], names, n)) return n;
    }
    memcpy(names, five + 1, sizeof five - sizeof five[0]);
    return n - 1;
}

// Where a request names no labels, label names beyond the old character set are hidden from clients
// that have not declared to understand them.
static bool hide_utf8_names(struct merged *found, err *e)
{
    for (size_t i = 0; i < found->sets.n; i++) {
        labels *set = &found->sets.v[i];
        label *kept = ARENA_ARRAY(&found->arena, label, set->n);
        if (!kept) return arena_fail(&found->arena, e);
        size_t n = 0;
        for (size_t k = 0; k < set->n; k++) {
            if (label_name_is_legacy(set->v[k].name)) kept[n++] = set->v[k];
        }
        *set = (labels){kept, n};
    }
    label_sets_finish(&found->sets);  // some may have become equal
    return true;
}

bool discovery_series(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__SeriesRequest *m =
        ANSWER_UNPACK(a, Querier__V1__SeriesRequest, querier__v1__series_request, in, e);
    if (!m) return false;
    struct query q;
    struct query_range range;
    struct asked asked = {m->start, m->end, m->matchers, m->n_matchers};
    if (!labels_query(a, asked, &q, &range, e)) return false;
    if (range.empty) return true;
    str *names = ARENA_ARRAY(a->arena, str, m->n_label_names);
    if (!names) return arena_fail(a->arena, e);
    for (size_t i = 0; i < m->n_label_names; i++)
        names[i] = str_of(m->label_names[i]);
    q.labels.names = names;
    q.labels.name_count = grafana_names(m, names, m->n_label_names);
    struct merged *found;
    if (!answer_read(a, &q, &found, e)) return false;
    if (q.labels.name_count == 0 && !route_wants_utf8_names(a->x) && !hide_utf8_names(found, e)) {
        return false;
    }
    // Only the empty set: none of the named labels exists anywhere. That is no series, not one.
    if (found->sets.n == 1 && found->sets.v[0].n == 0) return true;
    for (size_t i = 0; i < found->sets.n; i++)
        labels_put_set(found->sets.v[i], out, 2);
    return true;
}
