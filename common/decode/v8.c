// SPDX-License-Identifier: Apache-2.0
//
// v8.c - the CPU and heap profiles of V8: trees of call frames. CPU profiles list their nodes with
// ids, or, in the old form and in heap profiles, nest them. Chrome's traces have the list in
// pieces, as arguments of events (v8_trace.c).
//
// Nodes are collected first, whatever the order of fields, and become stacks at the end: a node's
// parent may come behind it, and ids may make cycles.
#include "decode/idmap.h"
#include "decode/json_values.h"
#include "decode/plain.h"
#include "decode/stacks.h"
#include "decode/v8_int.h"
#include "model/marks.h"

#include <stdlib.h>

#define NO_PARENT SIZE_MAX
#define NS_PER_US 1000

static bool whole(struct v8 *v, double n, const char *what, int64_t *out, err *e)
{
    if (json_whole(n, out)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: %s %g does not fit 64 bits", v->json.at,
                   what, n);
}

static bool read_whole(struct v8 *v, const char *what, int64_t *out, err *e)
{
    double n = 0;
    return json_want_number(&v->json, "a number", &n, e) && whole(v, n, what, out, e);
}

static bool read_id(struct v8 *v, const char *what, uint64_t *out, err *e)
{
    int64_t id = 0;
    if (!read_whole(v, what, &id, e)) return false;
    if (id < 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: %s %lld is negative", v->json.at, what,
                       (long long)id);
    *out = (uint64_t)id;
    return true;
}

// ---- nodes

static bool add_node(struct v8 *v, size_t parent, size_t *row, err *e)
{
    size_t n = v->node_count + 1;
    if (n > UINT32_MAX) return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u nodes", UINT32_MAX);
    if (!arena_grow(v->a, &v->nodes, &v->node_cap, n, sizeof *v->nodes) ||
        !arena_grow(v->a, &v->ids, &v->id_cap, n, sizeof *v->ids) ||
        !arena_grow(v->a, &v->parents, &v->parent_cap, n, sizeof *v->parents)) {
        return arena_fail(v->a, e);
    }
    *row = v->node_count++;
    v->nodes[*row] = (struct v8_node){.parent = parent};
    return true;
}

static bool add_child(struct v8 *v, size_t parent, uint64_t id, err *e)
{
    if (!arena_grow(v->a, &v->children, &v->child_cap, v->child_count + 1, sizeof *v->children))
        return arena_fail(v->a, e);
    v->children[v->child_count++] = (struct v8_child){parent, id};
    return true;
}

// One field of a call frame, which the old form has in the node itself. False with *known = false
// if it is none of them.
static bool frame_field(struct v8 *v, size_t row, bool *known, err *e)
{
    str key = v->json.text;
    int64_t line = 0;
    *known = true;
    if (str_is(key, "functionName"))
        return json_want_string(&v->json, "a string", &v->nodes[row].name, e);
    if (str_is(key, "url")) return json_want_string(&v->json, "a string", &v->nodes[row].url, e);
    if (str_is(key, "lineNumber")) {
        if (!read_whole(v, "lineNumber", &line, e)) return false;
        // -1 is "unknown", and 0 the first line.
        v->nodes[row].line = line >= 0 && line < INT64_MAX ? line + 1 : 0;
        return true;
    }
    *known = false;
    return false;
}

static bool read_call_frame(struct v8 *v, size_t row, err *e)
{
    if (json_next(&v->json) != JSON_OBJECT) return json_broken(&v->json, "a call frame", e);
    enum json_token t = json_next(&v->json);
    for (; t == JSON_KEY; t = json_next(&v->json)) {
        bool known = false;
        if (!frame_field(v, row, &known, e) && (known || !json_pass(&v->json, e))) return false;
    }
    return t == JSON_OBJECT_END || json_broken(&v->json, "a call frame", e);
}

// A field of a node besides its children.
static bool node_field(struct v8 *v, size_t row, err *e)
{
    str key = v->json.text;
    bool known = false;
    if (str_is(key, "callFrame")) return read_call_frame(v, row, e);
    if (str_is(key, "id")) return read_id(v, "id", &v->ids[row], e);
    if (str_is(key, v->heap ? "selfSize" : "hitCount")) {
        return read_whole(v, "hitCount or selfSize", &v->nodes[row].weight, e);
    }
    if (str_is(key, "parent")) {
        uint64_t id = 0;
        if (!read_id(v, "parent", &id, e)) return false;
        v->parents[row] = id + 1;
        return true;
    }
    return frame_field(v, row, &known, e) || (!known && json_pass(&v->json, e));
}

// Ids within a list of children, up to a token that is none.
static bool read_child_ids(struct v8 *v, size_t parent, enum json_token *t, err *e)
{
    for (*t = json_next(&v->json); *t == JSON_NUMBER; *t = json_next(&v->json)) {
        double id = 0;
        int64_t n = 0;
        if (!json_double(v->json.text, &id)) return json_broken(&v->json, "the id of a child", e);
        if (!whole(v, id, "the id of a child", &n, e)) return false;
        if (!add_child(v, parent, (uint64_t)n, e)) return false;
    }
    return true;
}

// Reads fields of an open node until one of its lists of children begins, or the node ends.
static bool read_fields(struct v8 *v, size_t row, bool *ended, err *e)
{
    enum json_token t = json_next(&v->json);
    for (; t == JSON_KEY; t = json_next(&v->json)) {
        if (str_is(v->json.text, "children")) {
            *ended = false;
            return json_next(&v->json) == JSON_ARRAY ||
                   json_broken(&v->json, "a list of children", e);
        }
        if (!node_field(v, row, e)) return false;
    }
    *ended = true;
    return t == JSON_OBJECT_END || json_broken(&v->json, "a node", e);
}

// The rest of a node, whose brace has been read, and of all nodes below it. The open ones are a
// chain of rows, and their lists of children are open in the JSON.
static bool read_nodes(struct v8 *v, err *e)
{
    size_t row = 0;
    if (!add_node(v, NO_PARENT, &row, e)) return false;
    for (;;) {
        bool ended = false;
        enum json_token t = JSON_END;
        if (!read_fields(v, row, &ended, e)) return false;
        if (ended && v->nodes[row].parent == NO_PARENT) return true;
        if (ended) row = v->nodes[row].parent;
        if (!read_child_ids(v, row, &t, e)) return false;
        if (t == JSON_ARRAY_END) continue;
        if (t != JSON_OBJECT) return json_broken(&v->json, "a child", e);
        if (!add_node(v, row, &row, e)) return false;
    }
}

static bool read_list_of_nodes(struct v8 *v, err *e)
{
    if (json_next(&v->json) != JSON_ARRAY) return json_broken(&v->json, "a list of nodes", e);
    v->has_nodes = true;
    enum json_token t = json_next(&v->json);
    for (; t == JSON_OBJECT; t = json_next(&v->json)) {
        if (!read_nodes(v, e)) return false;
    }
    return t == JSON_ARRAY_END || json_broken(&v->json, "a node", e);
}

// ---- samples

// A list that is in a piece twice, as some writers put timeDeltas both into the profile and beside
// it, counts once. from, n: what was in the piece before, and what there is now.
static bool same_again(const void *all, size_t size, size_t from, size_t before, size_t n,
                       const char *what, err *e)
{
    const char *one = (const char *)all + from * size;
    const char *two = (const char *)all + before * size;
    bool same = n - before == before - from && memcmp(one, two, (n - before) * size) == 0;
    return same || err_set(e, ERR_INVALID_ARGUMENT, "%s is there twice, and differs", what);
}

static bool read_samples(struct v8 *v, err *e)
{
    size_t before = v->sample_count;
    if (json_next(&v->json) != JSON_ARRAY) return json_broken(&v->json, "a list of samples", e);
    enum json_token t = json_next(&v->json);
    for (; t == JSON_NUMBER; t = json_next(&v->json)) {
        double id = 0;
        int64_t n = 0;
        if (!json_double(v->json.text, &id)) return json_broken(&v->json, "a sample", e);
        if (!whole(v, id, "a sample", &n, e)) return false;
        if (!arena_grow(v->a, &v->samples, &v->sample_cap, v->sample_count + 1,
                        sizeof *v->samples)) {
            return arena_fail(v->a, e);
        }
        v->samples[v->sample_count++] = (uint64_t)n;
    }
    if (t != JSON_ARRAY_END) return json_broken(&v->json, "a sample", e);
    size_t now = v->sample_count;
    if (before == v->piece_samples || now == before) return true;
    v->sample_count = before;
    return same_again(v->samples, sizeof *v->samples, v->piece_samples, before, now, "samples", e);
}

static bool read_deltas(struct v8 *v, const char *what, err *e)
{
    size_t before = v->delta_count;
    if (json_next(&v->json) != JSON_ARRAY) return json_broken(&v->json, "a list of times", e);
    enum json_token t = json_next(&v->json);
    for (; t == JSON_NUMBER; t = json_next(&v->json)) {
        double us = 0;
        int64_t n = 0;
        if (!json_double(v->json.text, &us)) return json_broken(&v->json, "a time", e);
        if (!whole(v, us * NS_PER_US, "a time in ns,", &n, e)) return false;
        if (!arena_grow(v->a, &v->deltas, &v->delta_cap, v->delta_count + 1, sizeof *v->deltas))
            return arena_fail(v->a, e);
        v->deltas[v->delta_count++] = n;
    }
    if (t != JSON_ARRAY_END) return json_broken(&v->json, "a time", e);
    size_t now = v->delta_count;
    if (before == v->piece_deltas || now == before) return true;
    v->delta_count = before;
    return same_again(v->deltas, sizeof *v->deltas, v->piece_deltas, before, now, what, e);
}

// ---- objects

void v8_begin_piece(struct v8 *v)
{
    v->piece_nodes = v->node_count;
    v->piece_samples = v->sample_count;
    v->piece_deltas = v->delta_count;
}

static bool read_tree(struct v8 *v, bool list, err *e)
{
    if (v->node_count > v->piece_nodes)
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: the nodes are there twice", v->json.at);
    if (list) return read_list_of_nodes(v, e);
    v->has_nodes = true;
    return json_next(&v->json) == JSON_OBJECT ? read_nodes(v, e)
                                              : json_broken(&v->json, "a node", e);
}

// Times of the old form, or, in both forms, the time since the sample before, which counts more.
static bool read_times(struct v8 *v, bool stamps, err *e)
{
    if (stamps && !v->stamped && v->delta_count) return json_pass(&v->json, e);
    if (!stamps && v->stamped) v->delta_count = v->piece_deltas = 0;
    v->stamped = stamps;
    return read_deltas(v, stamps ? "timestamps" : "timeDeltas", e);
}

bool v8_field(struct v8 *v, err *e)
{
    str key = v->json.text;
    if (str_is(key, "nodes")) return read_tree(v, true, e);
    if (str_is(key, "samples") && !v->heap) return read_samples(v, e);
    if (str_is(key, "timeDeltas")) return read_times(v, false, e);
    if (str_is(key, "timestamps") && !v->heap) return read_times(v, true, e);
    if (str_is(key, "startTime")) {
        v->has_start = true;
        return json_want_number(&v->json, "a number", &v->start_us, e);
    }
    if (str_is(key, "endTime")) {
        v->has_end = true;
        return json_want_number(&v->json, "a number", &v->end_us, e);
    }
    return str_is(key, "head") ? read_tree(v, false, e) : json_pass(&v->json, e);
}

bool v8_fields(struct v8 *v, err *e)
{
    enum json_token t = json_next(&v->json);
    for (; t == JSON_KEY; t = json_next(&v->json)) {
        if (!v8_field(v, e)) return false;
    }
    return t == JSON_OBJECT_END || json_broken(&v->json, "a field", e);
}

// ---- stacks

// Rows for parents that were named by ids. A later node with an id replaces an earlier one, and a
// parent's list of children counts more than what the child says. *unknown is a node that stands
// for those that do not exist: a trace may lack the pieces that had them.
static bool link_nodes(struct v8 *v, struct idmap *rows, size_t *unknown, err *e)
{
    size_t n = v->node_count;
    if (!idmap_build(rows, v->a, v->ids, (uint32_t)n, e) || !add_node(v, NO_PARENT, unknown, e))
        return false;
    v->nodes[*unknown].name = S(STACK_UNKNOWN_NAME);
    for (size_t i = 0; i < n; i++) {
        if (v->parents[i] == 0) continue;
        uint32_t row = idmap_row(rows, v->parents[i] - 1);
        if (row == MAP_NONE) losses_add(&v->losses, LOSS_UNKNOWN_FRAME, 1);
        v->nodes[i].parent = row == MAP_NONE ? *unknown : row;
    }
    for (size_t i = 0; i < v->child_count; i++) {
        uint32_t row = idmap_row(rows, v->children[i].id);
        if (row == MAP_NONE)
            losses_add(&v->losses, LOSS_UNKNOWN_FRAME, 1);
        else
            v->nodes[row].parent = v->children[i].parent;
    }
    return true;
}

// Each node's number of frames; false if a node is its own ancestor. Every node is walked once: a
// walk ends at the first ancestor whose depth is known.
static bool find_depths(struct v8 *v, uint32_t *depths, err *e)
{
    for (size_t i = 0; i < v->node_count; i++) {
        uint32_t steps = 0;
        size_t at = i;
        while (at != NO_PARENT && depths[at] == 0) {
            if (steps++ > v->node_count)
                return err_set(e, ERR_INVALID_ARGUMENT, "node %llu is its own ancestor",
                               (unsigned long long)v->ids[i]);
            at = v->nodes[at].parent;
        }
        uint32_t depth = steps + (at == NO_PARENT ? 0 : depths[at]);
        for (at = i; at != NO_PARENT && depths[at] == 0; at = v->nodes[at].parent)
            depths[at] = depth--;
    }
    return true;
}

struct tally {
    const struct idmap *rows;
    size_t unknown;  // row of the node that stands for missing ones
    int64_t *counts;
    int64_t *ns;
};

// A sample at its time, from the start of the recording.
struct moment {
    int64_t ns;
    size_t number;
    size_t node;
};

static int by_time(const void *one, const void *two)
{
    const struct moment *a = one;
    const struct moment *b = two;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool refuse_times(err *e)
{
    return err_set(e, ERR_OUT_OF_RANGE, "times add up to more than 64 bits");
}

static size_t node_of(struct v8 *v, const struct tally *t, size_t sample)
{
    uint32_t row = sample < v->sample_count ? idmap_row(t->rows, v->samples[sample]) : MAP_NONE;
    return row == MAP_NONE ? t->unknown : row;
}

// All times in order. V8 writes samples of several sources, and not always in order: a delta may be
// negative. A time without a sample is of one that is not known, since it ends the one before.
static bool make_moments(struct v8 *v, const struct tally *t, struct moment **out, err *e)
{
    size_t n = v->delta_count;
    struct moment *all = ARENA_ARRAY(v->a, struct moment, n);
    if (!all) return arena_fail(v->a, e);
    int64_t now = 0;
    int64_t latest = INT64_MIN;
    uint64_t late = 0;
    for (size_t i = 0; i < n; i++) {
        if (v->stamped)
            now = v->deltas[i];
        else if (__builtin_add_overflow(now, v->deltas[i], &now))
            return refuse_times(e);
        all[i] = (struct moment){now, i, node_of(v, t, i)};
        late += now < latest;
        latest = MAX(latest, now);
    }
    losses_add(&v->losses, LOSS_UNORDERED_TIME, late);
    if (n > v->sample_count) losses_add(&v->losses, LOSS_UNKNOWN_STACK, n - v->sample_count);
    if (n < v->sample_count) losses_add(&v->losses, LOSS_NO_TIME, v->sample_count - n);
    if (late) qsort(all, n, sizeof *all, by_time);
    *out = all;
    return true;
}

// Time is from a sample to the next one, and of the last to the end of the recording, if it is said
// and not earlier.
static bool add_times(struct v8 *v, const struct tally *t, err *e)
{
    struct moment *all = NULL;
    size_t n = v->delta_count;
    if (n == 0) {
        losses_add(&v->losses, LOSS_NO_TIME, v->sample_count);
        return true;
    }
    if (!make_moments(v, t, &all, e)) return false;
    double from = v->stamped ? 0 : v->start_us;
    int64_t end = 0;
    bool known = v->has_end && (v->stamped || v->has_start) &&
                 json_whole((v->end_us - from) * NS_PER_US, &end);
    if (!known) end = all[n - 1].ns;
    for (size_t i = 0; i < n; i++) {
        int64_t *sum = &t->ns[all[i].node];
        int64_t next = i + 1 < n ? all[i + 1].ns : MAX(end, all[i].ns);
        int64_t ns = 0;
        if (__builtin_sub_overflow(next, all[i].ns, &ns) || __builtin_add_overflow(*sum, ns, sum))
            return refuse_times(e);
    }
    return true;
}

// Counts are V8's own if it gave any.
static bool add_samples(struct v8 *v, const struct tally *t, err *e)
{
    bool hits = false;
    for (size_t i = 0; i < v->node_count; i++) {
        t->counts[i] = v->nodes[i].weight;
        hits |= v->nodes[i].weight != 0;
    }
    for (size_t i = 0; i < v->sample_count; i++) {
        size_t row = node_of(v, t, i);
        if (row == t->unknown) losses_add(&v->losses, LOSS_UNKNOWN_STACK, 1);
        if (!hits || row == t->unknown) t->counts[row]++;
    }
    return add_times(v, t, e);
}

// The way from a node to the one at the depth STACKS_DEPTH, which ends at the first that is known.
static size_t outer_node(const struct v8 *v, const uint32_t *depths, size_t *outer, size_t row)
{
    size_t at = row;
    while (depths[at] > STACKS_DEPTH && outer[at] == 0)
        at = v->nodes[at].parent;
    size_t found = depths[at] > STACKS_DEPTH ? outer[at] - 1 : at;
    for (at = row; depths[at] > STACKS_DEPTH && outer[at] == 0; at = v->nodes[at].parent)
        outer[at] = found + 1;
    return found;
}

// cut: below the node comes the mark of a stack that is cut.
static bool add_stack(struct v8 *v, struct stacks *s, size_t row, uint32_t depth, bool cut,
                      const int64_t *values, err *e)
{
    uint32_t *leaf = NULL;
    int64_t *to = NULL;
    depth += cut;
    losses_add(&v->losses, LOSS_STACK_DEPTH, cut);
    if (!stacks_sample(s, depth, &leaf, &to, e)) return false;
    memcpy(to, values, s->type_count * sizeof *to);
    if (cut && !stacks_frame(s, S(STACK_CUT_NAME), (str){0}, 0, &leaf[0], e)) return false;
    for (uint32_t i = cut; i < depth; i++, row = v->nodes[row].parent) {
        const struct v8_node *n = &v->nodes[row];
        str name = n->name.n ? n->name : S("(anonymous)");
        if (!stacks_frame(s, name, n->url, n->line, &leaf[i], e)) return false;
    }
    assert(row == NO_PARENT);
    return true;
}

static bool add_stacks(struct v8 *v, struct stacks *s, err *e)
{
    struct idmap *rows = ARENA_NEW(v->a, struct idmap);  // its index is freed with the arena
    size_t n = v->node_count + 1;
    uint32_t *depths = ARENA_ARRAY(v->a, uint32_t, n);
    struct tally t = {.rows = rows,
                      .counts = ARENA_ARRAY(v->a, int64_t, n),
                      .ns = ARENA_ARRAY(v->a, int64_t, n)};
    if (!rows || !depths || !t.counts || !t.ns) return arena_fail(v->a, e);
    if (!link_nodes(v, rows, &t.unknown, e) || !find_depths(v, depths, e) ||
        !add_samples(v, &t, e)) {
        return false;
    }
    assert(n == v->node_count);
    uint64_t frames = 0;
    for (size_t i = 0; i < n; i++)
        frames += t.counts[i] || t.ns[i] ? depths[i] : 0;
    bool deep = stacks_are_deep(s, frames);
    size_t *outer = deep ? ARENA_ARRAY(v->a, size_t, n) : NULL;
    if (deep && !outer) return arena_fail(v->a, e);
    for (size_t i = 0; i < n; i++) {
        const int64_t values[] = {t.counts[i], t.ns[i]};
        if (values[0] == 0 && values[1] == 0) continue;
        bool cut = outer && depths[i] > STACKS_DEPTH;
        size_t row = cut ? outer_node(v, depths, outer, i) : i;
        if (!add_stack(v, s, row, depths[row], cut, values, e)) return false;
    }
    return true;
}

bool v8_finish(struct v8 *v, size_t bytes, const struct decode_options *o, struct profile **out,
               err *e)
{
    static const struct profile_type cpu[] = {{S_INIT("samples"), S_INIT("count")},
                                              {S_INIT("wall"), S_INIT("nanoseconds")}};
    static const struct profile_type heap = {S_INIT("inuse_space"), S_INIT("bytes")};
    if (!v->has_nodes && v->sample_count == 0) return err_set(e, ERR_INVALID_ARGUMENT, "no nodes");
    // V8 writes the time of each sample, so no rate tells more.
    struct decode_options own = *o;
    own.sample_rate = 0;
    struct stacks s;
    bool ok = stacks_begin(&s, v->a, bytes, &own, v->heap ? &heap : cpu, v->heap ? 1 : 2, e) &&
              add_stacks(v, &s, e) && stacks_finish(&s, e);
    stacks_release(&s);
    if (!ok) return false;
    double duration = (v->end_us - v->start_us) * NS_PER_US;
    if (duration > 0 && !json_whole(duration, &s.p->duration_ns)) s.p->duration_ns = 0;
    if (!v->heap) s.p->period_type = cpu[1];
    losses_merge(&s.p->losses, &v->losses);
    // Not the text's size, which names every node's function and file again.
    s.p->encoded_bytes = decode_pprof_size(s.p);
    *out = s.p;
    return true;
}

static bool decode(struct arena *a, str bytes, bool heap, const struct decode_options *o,
                   struct decoded *out, err *e)
{
    struct v8 v = {.a = a, .heap = heap};
    if (!plain_json(a, bytes, &v.losses, &bytes, e)) return false;
    json_reader_init(&v.json, a, bytes);
    if (json_next(&v.json) != JSON_OBJECT) return json_broken(&v.json, "an object", e);
    if (!v8_fields(&v, e)) return false;
    if (json_next(&v.json) != JSON_END) return json_broken(&v.json, "one object", e);
    struct profile *p = NULL;
    if (!v8_finish(&v, bytes.n, o, &p, e)) return false;
    *out = (struct decoded){p, 1};
    return true;
}

bool decode_cpuprofile(struct arena *a, str bytes, const struct decode_options *o,
                       struct decoded *out, err *e)
{
    return decode(a, bytes, false, o, out, e);
}

bool decode_heapprofile(struct arena *a, str bytes, const struct decode_options *o,
                        struct decoded *out, err *e)
{
    return decode(a, bytes, true, o, out, e);
}
