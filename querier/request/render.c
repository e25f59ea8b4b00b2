// SPDX-License-Identifier: Apache-2.0
//
// render.c - /pyroscope/render and render-diff, the routes of Pyroscope before its RPCs: one or two
// questions (struct side), whose trees become a flame graph in JSON or a call graph, and whose
// totals a timeline.
#include "querier/request/render.h"

#include "codec/json.h"
#include "codec/url.h"
#include "model/dot.h"
#include "model/flamegraph.h"
#include "model/vector.h"
#include "querier/answer/settle.h"
#include "querier/answer/shown.h"
#include "querier/request/render_json.h"
#include "querier/request/render_query.h"
#include "querier/request/stack_sums.h"
#include "querier/request/timeline.h"
#include "rpc/route.h"

#include <stdlib.h>

#define DOT_NODES 100  // when none are asked for

// One question and its result.
struct side {
    struct query q;
    struct stack_sums stacks;
    struct merged *merged;  // NULL if nobody was asked: the range is empty
    struct timeline timeline;
    bool average;
};

static bool read_side(struct answer *a, struct side *s, int64_t start_ms, int64_t end_ms, err *e)
{
    a->counts_profiles = true;
    s->stacks.arena = a->arena;
    s->q.tree.wanted = true;
    if (!query_range(a->limits, a->now_wall_ns, start_ms, end_ms, &s->stacks.range, e)) {
        return false;
    }
    if (s->stacks.range.empty) return true;
    query_set_range(&s->q, &s->stacks.range);
    uint64_t profiles = a->profiles;
    if (!answer_read(a, &s->q, &s->merged, e)) return false;
    assert(s->merged);
    a->profiles = profiles + s->merged->profiles;  // totals count the same ones again
    s->stacks.symbols = &s->merged->stacks.symbols.t;
    s->stacks.sums = s->merged->stacks.sums;
    s->stacks.arena = &s->merged->arena;
    return true;
}

// ---- samples over time

struct group {
    str key;
    int64_t *samples;
    bool clipped;
};

static int by_key(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;
    return str_cmp(x->key, y->key);
}

static int64_t *no_samples(const struct side *s, err *e)
{
    int64_t *v = ARENA_ARRAY(s->stacks.arena, int64_t, s->timeline.slots + 1);
    if (!v) (void)arena_fail(s->stacks.arena, e);
    return v;
}

// The nearest number that clients can read; *clipped is set if that is another one.
static int64_t add_samples(int64_t to, int64_t v, bool *clipped)
{
    int64_t sum = 0;
    if (!__builtin_add_overflow(to, v, &sum)) return sum;
    *clipped = true;
    return v < 0 ? INT64_MIN : INT64_MAX;
}

// The mean is cut to a whole number, as samples are.
static int64_t slot_mean(int64_t sum, uint64_t count)
{
    return count ? sum / (int64_t)count : sum;
}

// Adds a total to its slot. Totals below zero count as well, so that samples add up to the flame
// graph, though Pyroscope has no sign for them.
static void add_total(const struct side *s, struct group *g, const struct cell *t)
{
    int64_t v = s->average ? slot_mean(t->sum, t->count) : t->sum;
    assert(t->point >= 0 && (uint64_t)t->point <= s->timeline.slots);
    int64_t *to = &g->samples[t->point];
    *to = add_samples(*to, v, &g->clipped);
}

// Totals (by group, then point) as one group for each, by key. Two keys can be equal: a label may
// have the value that stands for its absence.
static bool make_groups(const struct side *s, struct group **groups, size_t *count, err *e)
{
    const struct cells *c = s->merged ? &s->merged->totals : NULL;
    struct arena *arena = s->stacks.arena;
    *count = 0;
    *groups = ARENA_ARRAY(arena, struct group, c ? c->group_count : 0);
    if (!*groups) return arena_fail(arena, e);
    for (size_t i = 0; c && i < c->n; i++) {
        const struct cell *t = &c->v[i];
        if (i == 0 || t->group != t[-1].group) {
            assert(t->group < c->group_count && *count < c->group_count);
            labels ls = c->groups[t->group];
            struct group *g = &(*groups)[(*count)++];
            *g = (struct group){.key = ls.n ? ls.v[0].value : S("*"), .samples = no_samples(s, e)};
            if (!g->samples) return false;
        }
        add_total(s, &(*groups)[*count - 1], t);
    }
    if (*count) qsort(*groups, *count, sizeof **groups, by_key);
    return true;
}

static void add_group(const struct side *s, const struct group *from, struct group *to)
{
    for (size_t k = 0; k <= s->timeline.slots; k++)
        to->samples[k] = add_samples(to->samples[k], from->samples[k], &to->clipped);
    to->clipped = to->clipped || from->clipped;
}

static void put_groups(const struct side *s, struct group *v, size_t n, struct buf *out)
{
    buf_byte(out, '{');
    for (size_t i = 0; i < n && !out->failed; i++) {
        // Groups are in order of keys: equal ones are added up into the last of them.
        for (; i + 1 < n && str_eq(v[i].key, v[i + 1].key); i++)
            add_group(s, &v[i], &v[i + 1]);
        assert(out->n > 0);
        if (out->p[out->n - 1] != '{') buf_byte(out, ',');
        json_put_string(out, v[i].key);
        buf_byte(out, ':');
        timeline_print(&s->timeline, v[i].samples, out);
    }
    buf_byte(out, '}');
}

// The timeline of all groups. Means are of all their profiles.
static bool make_timeline(const struct side *s, struct group *all, err *e)
{
    const struct cells *c = s->merged ? &s->merged->totals : NULL;
    uint64_t *counts = ARENA_ARRAY(s->stacks.arena, uint64_t, s->timeline.slots + 1);
    all->samples = no_samples(s, e);
    if (!all->samples) return false;
    if (!counts) return arena_fail(s->stacks.arena, e);
    for (size_t i = 0; c && i < c->n; i++) {
        const struct cell *t = &c->v[i];
        assert(t->point >= 0 && (uint64_t)t->point <= s->timeline.slots);
        all->samples[t->point] = add_samples(all->samples[t->point], t->sum, &all->clipped);
        counts[t->point] += t->count;
    }
    for (size_t k = 0; s->average && k <= s->timeline.slots; k++)
        all->samples[k] = slot_mean(all->samples[k], counts[k]);
    return true;
}

// Pyroscope's "timeline" has nothing if there are several groups. Here it is that of the flame
// graph beside it, however it is grouped.
static bool put_samples(struct answer *a, const struct side *s, struct buf *out, err *e)
{
    struct group *groups;
    size_t n = 0;
    struct group all = {0};
    if (!make_timeline(s, &all, e) || !make_groups(s, &groups, &n, e)) return false;
    bool clipped = all.clipped;
    buf_z(out, ",\"timeline\":");
    timeline_print(&s->timeline, all.samples, out);
    buf_z(out, ",\"groups\":");
    if (s->q.totals.group_by_count)
        put_groups(s, groups, n, out);
    else
        buf_z(out, "null");
    for (size_t i = 0; i < n; i++)
        clipped = clipped || groups[i].clipped;
    return !clipped || settle_mark_total(a, (labels){0}, e);
}

// ---- answers

static bool put_begin(struct answer *a, str graph, const char *format, const struct ptype *type,
                      struct render_ticks *ticks, struct buf *out, err *e)
{
    route_header(a->x, "content-type", S("application/json"));
    buf_z(out, "{\"version\":1,\"flamebearer\":");
    if (!render_flamebearer(graph, ticks, out, e)) return false;
    buf_z(out, ",\"metadata\":");
    render_metadata(format, type, out);
    return true;
}

static void put_end(const struct render_ticks *ticks, struct buf *out)
{
    buf_z(out, ",\"heatmap\":null");
    if (ticks->left) buf_printf(out, ",\"leftTicks\":%lld", (long long)ticks->left);
    if (ticks->right) buf_printf(out, ",\"rightTicks\":%lld", (long long)ticks->right);
    buf_z(out, "}\n");
}

static bool put_json(struct answer *a, const struct side *s, int64_t max_nodes, struct buf *out,
                     err *e)
{
    struct tree whole;
    struct tree cut;
    struct render_ticks ticks = {0};
    struct buf graph;
    if (!stack_sums_tree(&s->stacks, &whole, e)) return false;
    shown_cut(a, &whole);
    if (!tree_truncate(s->stacks.arena, &whole, max_nodes, &cut, e)) {
        return stack_sums_failed(&s->stacks, e);
    }
    if (!shown_tree(a, &whole, &cut, e)) return false;
    // The flame graph is made as a message and read back: one writer of its levels for all formats.
    buf_init(&graph, a->querier->memory, out->cap);
    bool ok = tree_flamegraph(s->stacks.arena, &cut, &graph, e) &&
              put_begin(a, buf_view(&graph), "single", &s->stacks.type, &ticks, out, e) &&
              put_samples(a, s, out, e);
    buf_release(&graph);
    put_end(&ticks, out);
    return ok || stack_sums_failed(&s->stacks, e);
}

static bool put_dot(struct answer *a, const struct side *s, int64_t max_nodes, struct buf *out,
                    err *e)
{
    struct tree tree;
    struct tree_shown shown = {0};
    const struct dot_options o = {s->stacks.type.sample_type, s->stacks.type.sample_unit, max_nodes,
                                  &shown};
    route_header(a->x, "content-type", S("text/plain; charset=utf-8"));
    if (!stack_sums_tree(&s->stacks, &tree, e)) return false;
    shown_cut(a, &tree);
    if (!dot_print(s->stacks.arena, &tree, &o, out, e)) return stack_sums_failed(&s->stacks, e);
    return shown_frames(a, &shown, e);
}

static bool ask_for_samples(struct answer *a, str in, struct side *s, int64_t start_ms,
                            int64_t end_ms, err *e)
{
    s->timeline = timeline_of(start_ms, end_ms);
    s->average = str_is(render_parameter(a, in, "aggregation"), "avg");
    bool spread = answer_asks_spread(a) || str_is(render_parameter(a, in, "spread"), "duration");
    s->q.totals = (struct totals_want){.wanted = true,
                                       .first_ns = timeline_first_ns(&s->timeline),
                                       .step_ns = timeline_step_ns(&s->timeline),
                                       .points = (int64_t)s->timeline.slots + 1,
                                       .spread = spread && !s->average};
    a->over_time = true;
    a->spread = s->q.totals.spread;
    str group = {0};
    if (!url_query(a->arena, in, "groupBy", &group)) return true;
    str *names = ARENA_NEW(a->arena, str);  // one: a group's key is its first value
    if (!names) return arena_fail(a->arena, e);
    names[0] = group;
    s->q.totals.group_by = names;
    s->q.totals.group_by_count = 1;
    return true;
}

bool render_run(struct answer *a, str in, struct buf *out, err *e)
{
    struct side s = {0};
    bool dot = str_is(render_parameter(a, in, "format"), "dot");
    int64_t start_ms = 0;
    int64_t end_ms = 0;
    int64_t asked = render_max_nodes(a, in);
    int64_t max_nodes = 0;
    if (asked == 0 && dot) asked = DOT_NODES;
    if (!render_time(a, in, "from", &start_ms, e) || !render_time(a, in, "until", &end_ms, e) ||
        !render_selector(a, render_parameter(a, in, "query"), "query", &s.q, &s.stacks.type, e) ||
        !query_max_nodes(a->limits, asked, &max_nodes, e)) {
        return false;
    }
    // A call graph has no timeline, so its question is for the tree alone.
    if (!dot && !ask_for_samples(a, in, &s, start_ms, end_ms, e)) return false;
    if (!read_side(a, &s, start_ms, end_ms, e)) return false;
    return dot ? put_dot(a, &s, max_nodes, out, e) : put_json(a, &s, max_nodes, out, e);
}

// ---- diff

static bool same_type(const struct ptype *a, const struct ptype *b)
{
    return str_eq(a->name, b->name) && str_eq(a->sample_type, b->sample_type) &&
           str_eq(a->sample_unit, b->sample_unit) && str_eq(a->period_type, b->period_type) &&
           str_eq(a->period_unit, b->period_unit);
}

static bool put_diff(struct answer *a, const struct side *left, const struct side *right,
                     int64_t max_nodes, struct buf *out, err *e)
{
    const struct stack_sums *room = left->stacks.symbols ? &left->stacks : &right->stacks;
    struct tree trees[2];
    struct tree_shown shown = {0};
    struct render_ticks ticks = {0};
    struct buf graph;
    if (!stack_sums_tree(&left->stacks, &trees[0], e) ||
        !stack_sums_tree(&right->stacks, &trees[1], e)) {
        return false;
    }
    shown_cut(a, &trees[0]);
    shown_cut(a, &trees[1]);
    buf_init(&graph, a->querier->memory, out->cap);
    bool ok =
        tree_flamegraph_diff(room->arena, &trees[0], &trees[1], max_nodes, &shown, &graph, e) &&
        put_begin(a, buf_view(&graph), "double", &left->stacks.type, &ticks, out, e);
    buf_release(&graph);
    if (!ok) return stack_sums_failed(room, e);
    if (!shown_frames(a, &shown, e)) return false;
    buf_z(out, ",\"timeline\":null,\"groups\":null");
    put_end(&ticks, out);
    return true;
}

// Reads the side whose parameters of time have these names.
static bool read_diff_side(struct answer *a, str in, const char *from, const char *until,
                           struct side *s, err *e)
{
    int64_t start_ms = 0;
    int64_t end_ms = 0;
    return render_time(a, in, from, &start_ms, e) && render_time(a, in, until, &end_ms, e) &&
           read_side(a, s, start_ms, end_ms, e);
}

bool render_diff(struct answer *a, str in, struct buf *out, err *e)
{
    struct side left = {0};
    struct side right = {0};
    int64_t max_nodes = 0;
    if (!render_selector(a, render_parameter(a, in, "leftQuery"), "leftQuery", &left.q,
                         &left.stacks.type, e) ||
        !render_selector(a, render_parameter(a, in, "rightQuery"), "rightQuery", &right.q,
                         &right.stacks.type, e)) {
        return false;
    }
    if (!same_type(&left.stacks.type, &right.stacks.type)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "profile types must match");
    }
    if (!query_max_nodes(a->limits, render_max_nodes(a, in), &max_nodes, e)) return false;
    size_t known = 0;
    do {  // again, if a side left out what the other one has
        known = a->left_out_count;
        a->profiles = 0;
        if (!read_diff_side(a, in, "leftFrom", "leftUntil", &left, e) ||
            !read_diff_side(a, in, "rightFrom", "rightUntil", &right, e)) {
            return false;
        }
    } while (a->left_out_count > known);
    return put_diff(a, &left, &right, max_nodes, out, e);
}
