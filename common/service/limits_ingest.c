// SPDX-License-Identifier: Apache-2.0
//
// limits_ingest.c - the limits of the write path that are maps: usage groups, quotas and sampling.
#include "model/label.h"
#include "service/limits_int.h"

#include <stdlib.h>

// ---- distributor_usage_groups

static bool check_placeholders(const struct yaml_node *t, bool *templated, err *e)
{
    str rest = t->key;
    *templated = false;
    for (;;) {
        size_t at = 0;
        while (at < rest.n && !str_starts(str_slice(rest, at, rest.n), S("${")))
            at++;
        if (at == rest.n) return true;
        rest = str_slice(rest, at, rest.n);
        size_t end = str_find(rest, '}');
        if (end == rest.n || !str_starts(rest, S("${labels.")) || end == sizeof "${labels." - 1)
            return yaml_node_fail(t, e, "a part ${ of a name must be ${labels.NAME}");
        // The name of the label is not checked: a label that no series has makes the group empty.
        *templated = true;
        rest = str_slice(rest, end + 1, rest.n);
    }
}

static int by_name(const void *a, const void *b)
{
    return str_cmp(((const struct usage_group *)a)->name, ((const struct usage_group *)b)->name);
}

static bool read_group(const struct yaml_node *t, struct usage_group *g, struct arena *a, err *e)
{
    err why = {0};
    g->name = t->key;
    if (str_is(t->key, "other")) return yaml_node_fail(t, e, "the name other is reserved");
    if (t->kind != YAML_NODE_SCALAR) return yaml_node_fail(t, e, "must be a selector");
    if (!check_placeholders(t, &g->templated, e)) return false;
    struct selector *s = ARENA_NEW(a, struct selector);
    if (!s) return arena_fail(a, e);
    g->selector = s;
    if (selector_parse(a, t->text, s, &why)) return true;
    if (why.code == ERR_RESOURCE_EXHAUSTED) {
        *e = why;
        return false;
    }
    return yaml_node_fail(t, e, "%s", why.msg);
}

static bool read_groups(const struct yaml_node *map, struct usage_groups *out, struct arena *a,
                        err *e)
{
    *out = (struct usage_groups){0};
    if (!map) return true;
    if (map->kind != YAML_NODE_MAP)
        return yaml_node_fail(map, e, "must be a map of names to selectors");
    if (map->count > LIMITS_GROUPS_MAX)
        return yaml_node_fail(map, e, "holds %zu groups, limit %d", map->count, LIMITS_GROUPS_MAX);
    struct usage_group *v = ARENA_ARRAY(a, struct usage_group, map->count);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (const struct yaml_node *t = map->first; t; t = t->next) {
        for (size_t i = 0; i < n; i++) {
            if (str_eq(v[i].name, t->key)) return yaml_node_fail(t, e, "given twice");
        }
        if (!read_group(t, &v[n++], a, e)) return false;
    }
    // By name, so that the order of groups does not depend on the file.
    assert(n == map->count && n <= LIMITS_GROUPS_MAX);
    if (n > 1) qsort(v, n, sizeof *v, by_name);
    *out = (struct usage_groups){v, n};
    return true;
}

// ---- ingestion_limit

struct quota_rows {
    CONFIG_STRING period_type;
    CONFIG_INT period_limit_mb;
    CONFIG_INT limit_reset_time;
    CONFIG_BOOL limit_reached;
    CONFIG_NODE sampling;
    CONFIG_NODE usage_groups;
};

struct sampler_rows {
    CONFIG_INT num_requests;
    CONFIG_DURATION period;
};

struct quota_group_rows {
    CONFIG_INT period_limit_mb;
    CONFIG_BOOL limit_reached;
};

#define MIB_MAX "8796093022207"  // the bytes fit 63 bits

static const struct config_row quota_rows[] = {
#define ROW(...) CONFIG_ROW(struct quota_rows, __VA_ARGS__)
    ROW(period_type, STRING, "hour", "", "", true, "")      //
    ROW(period_limit_mb, INT, "0", "0", MIB_MAX, true, "")  //
    ROW(limit_reset_time, INT, "0", "", "", true, "")       //
    ROW(limit_reached, BOOL, "false", "", "", true, "")     //
    ROW(sampling, NODE, "", "", "", true, "")               //
    ROW(usage_groups, NODE, "", "", "", true, "")
#undef ROW
};

static const struct config_row sampler_rows[] = {
#define ROW(...) CONFIG_ROW(struct sampler_rows, __VA_ARGS__)
    ROW(num_requests, INT, "0", "0", "", true, "")  //
    ROW(period, DURATION, "1m", "0", "", true, "")
#undef ROW
};

static const struct config_row quota_group_rows[] = {
#define ROW(...) CONFIG_ROW(struct quota_group_rows, __VA_ARGS__)
    ROW(period_limit_mb, INT, "0", "0", MIB_MAX, true, "")  //
    ROW(limit_reached, BOOL, "false", "", "", true, "")
#undef ROW
};

static const struct config_section quota_section =
    CONFIG_SECTION("ingestion_limit", quota_rows, struct quota_rows);
static const struct config_section sampler_section =
    CONFIG_SECTION("sampling", sampler_rows, struct sampler_rows);
static const struct config_section quota_group_section =
    CONFIG_SECTION("usage_groups", quota_group_rows, struct quota_group_rows);

static bool read_map(const struct config_section *s, const struct yaml_node *map, void *to,
                     struct arena *a, err *e)
{
    if (!config_defaults(s, to, a, e)) return false;
    return !map || config_read(s, map, to, a, e);
}

static bool read_quota_groups(const struct yaml_node *map, struct quota *q, struct arena *a, err *e)
{
    if (!map) return true;
    if (map->kind != YAML_NODE_MAP)
        return yaml_node_fail(map, e, "must be a map of names to limits");
    struct quota_group *v = ARENA_ARRAY(a, struct quota_group, map->count);
    if (!v) return arena_fail(a, e);
    q->groups = v;
    for (const struct yaml_node *t = map->first; t; t = t->next) {
        struct quota_group_rows r = {0};
        if (!read_map(&quota_group_section, t, &r, a, e)) return false;
        v[q->group_count++] = (struct quota_group){t->key, r.period_limit_mb, r.limit_reached};
    }
    assert(q->group_count == map->count);
    return true;
}

static bool read_quota(const struct yaml_node *map, const struct quota **out, struct arena *a,
                       err *e)
{
    *out = NULL;
    if (!map) return true;
    struct quota_rows r = {0};
    struct sampler_rows s = {0};
    struct quota *q = ARENA_NEW(a, struct quota);
    if (!q) return arena_fail(a, e);
    if (!read_map(&quota_section, map, &r, a, e)) return false;
    if (!read_map(&sampler_section, r.sampling, &s, a, e)) return false;
    *q = (struct quota){
        .period_type = r.period_type,
        .period_limit_mb = r.period_limit_mb,
        .limit_reset_s = r.limit_reset_time,
        .limit_reached = r.limit_reached,
        .sampled = s.num_requests,
        .sample_period_ns = s.period,
    };
    *out = q;
    return read_quota_groups(r.usage_groups, q, a, e);
}

// ---- distributor_sampling

struct sampling_rows {
    CONFIG_NODE usage_groups;
};

struct probability_rows {
    CONFIG_FLOAT probability;
};

static const struct config_row sampling_rows[] = {
#define ROW(...) CONFIG_ROW(struct sampling_rows, __VA_ARGS__)
    ROW(usage_groups, NODE, "", "", "", true, "")
#undef ROW
};

static const struct config_row probability_rows[] = {
#define ROW(...) CONFIG_ROW(struct probability_rows, __VA_ARGS__)
    ROW(probability, FLOAT, "0", "0", "1", true, "")
#undef ROW
};

static const struct config_section sampling_section =
    CONFIG_SECTION("distributor_sampling", sampling_rows, struct sampling_rows);
static const struct config_section probability_section =
    CONFIG_SECTION("usage_groups", probability_rows, struct probability_rows);

static bool read_sampling(const struct yaml_node *map, struct sampling *out, struct arena *a,
                          err *e)
{
    struct sampling_rows r = {0};
    *out = (struct sampling){0};
    if (!map) return true;
    if (!read_map(&sampling_section, map, &r, a, e)) return false;
    if (!r.usage_groups) return true;
    if (r.usage_groups->kind != YAML_NODE_MAP)
        return yaml_node_fail(r.usage_groups, e, "must be a map of names to probabilities");
    struct sampling_rule *v = ARENA_ARRAY(a, struct sampling_rule, r.usage_groups->count);
    if (!v) return arena_fail(a, e);
    out->v = v;
    for (const struct yaml_node *t = r.usage_groups->first; t; t = t->next) {
        struct probability_rows p = {0};
        if (!read_map(&probability_section, t, &p, a, e)) return false;
        assert(p.probability >= 0 && p.probability <= 1);
        v[out->n++] = (struct sampling_rule){t->key, p.probability};
    }
    assert(out->n == r.usage_groups->count);
    return true;
}

bool limits_ingest(struct limits *l, struct arena *a, err *e)
{
    return read_groups(l->distributor_usage_groups, &l->usage_groups, a, e) &&
           read_quota(l->ingestion_limit, &l->quota, a, e) &&
           read_sampling(l->distributor_sampling, &l->sampling, a, e);
}
