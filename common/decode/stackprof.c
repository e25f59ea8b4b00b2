// SPDX-License-Identifier: Apache-2.0
//
// stackprof.c - the JSON of Ruby's stackprof, as `stackprof --json` writes it.
//
//     {"mode":"wall", "interval":1000, "samples":9,
//      "frames":{"70":{"name":"Object#f", "file":"/a.rb", "line":3, "total_samples":9, "samples":4,
//                      "edges":{"80":5}}, ..},
//      "raw":[2, 70, 80, 3, ..]}
//
// raw has stacks: a number of frames, their ids from the root on, and how often they were seen in a
// row. Without it there are only the samples of each frame itself, and its calls (callgraph.h). A
// sample stands for `interval`: microseconds of wall or CPU time, or allocated objects.
#include "base/hash.h"
#include "decode/callgraph.h"
#include "decode/json_lists.h"
#include "decode/json_values.h"
#include "model/marks.h"

#define NS_PER_US 1000

struct sp_frame {
    int64_t id;
    str name;
    str file;
    int64_t line;
    int64_t self;
    uint32_t row;
};

struct sp_call {
    uint32_t caller;
    int64_t callee;  // id
    int64_t count;
};

struct sp {
    struct arena *a;
    struct json_reader json;
    struct sp_frame *frames;
    size_t frame_count;
    size_t frame_cap;
    struct sp_call *calls;
    size_t call_count;
    size_t call_cap;
    struct map rows;  // frames by id
    struct json_ints raw;
    str mode;
    int64_t interval;
    int64_t interval_ns;  // of an interval that is no whole number of microseconds; or 0
    int64_t samples;
    bool has_frames;
    // value of one sample in each type
    struct profile_type types[2];
    int64_t scale[2];
    uint32_t type_count;
};

// ---- reading

// {"id": number of samples, ..}
static bool sp_edges(struct sp *s, err *e)
{
    struct json_reader *r = &s->json;
    bool in = false;
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        struct sp_call call = {.caller = (uint32_t)s->frame_count - 1};
        if (!str_i64(r->text, &call.callee)) return json_broken(r, "the id of a frame", e);
        if (!json_want_int(r, "a number of samples", &call.count, e)) return false;
        if (!arena_grow(s->a, &s->calls, &s->call_cap, s->call_count + 1, sizeof *s->calls))
            return arena_fail(s->a, e);
        s->calls[s->call_count++] = call;
    }
    return t == JSON_OBJECT_END || json_broken(r, "an edge", e);
}

static bool sp_number(struct json_reader *r, int64_t *out, err *e)
{
    str text = {0};
    if (!json_want_text(r, &text, e)) return false;
    if (text.n == 0 || json_int(text, out)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: \"%.*s\" is no number of 64 bits", r->at,
                   STR(str_slice(text, 0, 64)));
}

static bool sp_interval(struct sp *s, err *e)
{
    str text = {0};
    double us = 0;
    if (!json_want_text(&s->json, &text, e)) return false;
    bool whole = text.n == 0 || str_i64(text, &s->interval);
    if (whole || (json_int(text, &s->interval) && json_double(text, &us) &&
                  json_whole(us * NS_PER_US, &s->interval_ns)))
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "\"%.*s\" is no interval", STR(str_slice(text, 0, 64)));
}

static bool sp_frame(struct sp *s, err *e)
{
    struct json_reader *r = &s->json;
    int64_t id = 0;
    if (!str_i64(r->text, &id)) return json_broken(r, "the id of a frame", e);
    if (s->frame_count == UINT32_MAX - 1 ||
        !arena_grow(s->a, &s->frames, &s->frame_cap, s->frame_count + 1, sizeof *s->frames))
        return arena_fail(s->a, e);
    struct sp_frame *f = &s->frames[s->frame_count++];
    *f = (struct sp_frame){.id = id};
    if (json_next(r) != JSON_OBJECT) return json_broken(r, "a frame", e);
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "name")      ? json_want_text(r, &f->name, e)
                  : str_is(r->text, "file")    ? json_want_text(r, &f->file, e)
                  : str_is(r->text, "line")    ? sp_number(r, &f->line, e)
                  : str_is(r->text, "samples") ? sp_number(r, &f->self, e)
                  : str_is(r->text, "edges")   ? sp_edges(s, e)
                                               : json_pass(r, e);
        if (!ok) return false;
    }
    return t == JSON_OBJECT_END || json_broken(r, "a frame", e);
}

static bool sp_frames(struct sp *s, err *e)
{
    struct json_reader *r = &s->json;
    if (json_next(r) != JSON_OBJECT) return json_broken(r, "an object in frames", e);
    s->has_frames = true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        if (!sp_frame(s, e)) return false;
    }
    return t == JSON_OBJECT_END || json_broken(r, "a frame", e);
}

static bool sp_read(struct sp *s, err *e)
{
    struct json_reader *r = &s->json;
    if (json_next(r) != JSON_OBJECT) return json_broken(r, "an object", e);
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "mode")       ? json_want_text(r, &s->mode, e)
                  : str_is(r->text, "interval") ? sp_interval(s, e)
                  : str_is(r->text, "samples")  ? sp_number(r, &s->samples, e)
                  : str_is(r->text, "frames")   ? sp_frames(s, e)
                  : str_is(r->text, "raw")      ? json_read_ints(r, "raw", &s->raw, e)
                                                : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END || json_next(r) != JSON_END) return json_broken(r, "one object", e);
    return s->has_frames || err_set(e, ERR_INVALID_ARGUMENT, "there are no frames");
}

// ---- frames

struct sp_probe {
    const struct sp *s;
    int64_t id;
};

static bool sp_same_id(const void *ctx, uint32_t row)
{
    const struct sp_probe *want = ctx;
    return want->s->frames[row].id == want->id;
}

static uint32_t sp_find(const struct sp *s, int64_t id)
{
    const struct sp_probe want = {s, id};
    return map_find(&s->rows, hash_table_word((uint64_t)id), sp_same_id, &want);
}

static bool sp_index(struct sp *s, struct graft *g, err *e)
{
    for (size_t i = 0; i < s->frame_count; i++) {
        struct sp_frame *f = &s->frames[i];
        str name = f->name.n ? f->name : S(STACK_UNKNOWN_NAME);
        if (!stacks_frame(&g->s, name, f->file, MAX(f->line, 0), &f->row, e)) return false;
        if (sp_find(s, f->id) == MAP_NONE &&
            !map_put(&s->rows, hash_table_word((uint64_t)f->id), (uint32_t)i, e))
            return false;
    }
    return true;
}

// ---- values

static bool sp_add(struct sp *s, struct graft *g, uint32_t node, int64_t count, err *e)
{
    for (uint32_t i = 0; i < s->type_count; i++) {
        int64_t value = 0;
        if (__builtin_mul_overflow(count, s->scale[i], &value))
            return err_set(e, ERR_OUT_OF_RANGE, "%lld samples do not fit 64 bits of their unit",
                           (long long)count);
        if (!graft_add(g, node, i, value, e)) return false;
    }
    return true;
}

// A stack of raw, which begins at *at.
static bool sp_stack(struct sp *s, struct graft *g, uint32_t root, size_t *at, int64_t *sum, err *e)
{
    const struct json_ints *raw = &s->raw;
    uint32_t node = root;
    bool unknown = false;
    int64_t depth = raw->v[*at];
    size_t left = raw->n - *at - 1;
    if (depth < 0 || (uint64_t)depth >= left)
        return err_set(e, ERR_INVALID_ARGUMENT, "raw ends within a stack of %lld frames, at %zu",
                       (long long)depth, *at);
    for (size_t i = 1; i <= (uint64_t)depth; i++) {
        uint32_t row = sp_find(s, raw->v[*at + i]);
        unknown |= row == MAP_NONE;
        if (!(row == MAP_NONE ? graft_named(g, node, S(STACK_UNKNOWN_NAME), &node, e)
                              : graft_child(g, node, s->frames[row].row, &node, e)))
            return false;
    }
    int64_t count = raw->v[*at + (size_t)depth + 1];
    *at += (size_t)depth + 2;
    if (count < 0 || __builtin_add_overflow(*sum, count, sum))
        return err_set(e, ERR_INVALID_ARGUMENT, "a stack of raw was seen %lld times",
                       (long long)count);
    if (unknown) graft_lose(g, LOSS_UNKNOWN_FRAME, 1);
    return sp_add(s, g, node, count, e);
}

static bool sp_stacks(struct sp *s, struct graft *g, uint32_t root, int64_t *sum, err *e)
{
    for (size_t at = 0; at < s->raw.n;) {
        if (!sp_stack(s, g, root, &at, sum, e)) return false;
    }
    return true;
}

// Only what each frame has itself.
static bool sp_graph(struct sp *s, struct callgraph *c, struct graft *g, uint32_t root,
                     int64_t *sum, err *e)
{
    for (size_t i = 0; i < s->frame_count; i++) {
        const struct sp_frame *f = &s->frames[i];
        uint32_t function = 0;
        if (f->self < 0 || __builtin_add_overflow(*sum, f->self, sum))
            return err_set(e, ERR_INVALID_ARGUMENT, "frame %lld has %lld samples", (long long)f->id,
                           (long long)f->self);
        if (!callgraph_function(c, f->row, &function, e)) return false;
        for (uint32_t k = 0; k < s->type_count; k++) {
            int64_t value = 0;
            if (__builtin_mul_overflow(f->self, s->scale[k], &value))
                return err_set(e, ERR_OUT_OF_RANGE, "%lld samples do not fit 64 bits",
                               (long long)f->self);
            if (!callgraph_self(c, function, k, value, e)) return false;
        }
    }
    for (size_t i = 0; i < s->call_count; i++) {
        const struct sp_call *call = &s->calls[i];
        uint32_t row = sp_find(s, call->callee);
        uint32_t caller = 0;
        uint32_t callee = 0;
        uint32_t edge = 0;
        if (row == MAP_NONE) continue;  // it takes nothing with it
        if (!callgraph_function(c, s->frames[call->caller].row, &caller, e) ||
            !callgraph_function(c, s->frames[row].row, &callee, e) ||
            !callgraph_call(c, caller, callee, &edge, e))
            return false;
        for (uint32_t k = 0; k < s->type_count; k++) {
            int64_t value = 0;
            if (__builtin_mul_overflow(call->count, s->scale[k], &value)) value = INT64_MAX;
            callgraph_weight(c, edge, k, value);
        }
    }
    return callgraph_put(c, g, root, s->json.all.n, e);
}

// ---- the whole

static bool sp_types(struct sp *s, err *e)
{
    bool cpu = str_is(s->mode, "cpu");
    int64_t interval = MAX(s->interval, 0);
    s->scale[0] = 1;
    s->types[0] = (struct profile_type){S("samples"), S("count")};
    s->type_count = 1;
    if (str_is(s->mode, "object")) {
        s->types[0] = (struct profile_type){S("alloc_objects"), S("count")};
        s->scale[0] = MAX(interval, 1);
    } else if ((interval || s->interval_ns > 0) && (cpu || str_is(s->mode, "wall"))) {
        s->types[1] = (struct profile_type){cpu ? S("cpu") : S("wall"), S("nanoseconds")};
        if (__builtin_mul_overflow(interval, (int64_t)NS_PER_US, &s->scale[1]))
            return err_set(e, ERR_OUT_OF_RANGE, "an interval of %lld us does not fit 64 bits of ns",
                           (long long)interval);
        if (s->interval_ns > 0) s->scale[1] = s->interval_ns;
        s->type_count = 2;
    }
    return true;
}

static bool sp_make(struct sp *s, struct callgraph *c, struct graft *g, err *e)
{
    uint32_t root = 0;
    int64_t sum = 0;
    if (!sp_index(s, g, e) || !graft_root(g, NULL, 0, &root, e)) return false;
    if (!(s->raw.n ? sp_stacks(s, g, root, &sum, e) : sp_graph(s, c, g, root, &sum, e)))
        return false;
    if (s->samples <= sum) return true;
    // The file says that there are more.
    graft_lose(g, LOSS_UNKNOWN_STACK, (uint64_t)(s->samples - sum));
    return sp_add(s, g, root, s->samples - sum, e);
}

bool decode_stackprof(struct arena *a, str bytes, const struct decode_options *o,
                      struct decoded *out, err *e)
{
    struct sp s = {.a = a};
    struct graft g = {0};
    struct callgraph c = {0};
    struct profile *p = NULL;
    if (str_starts(bytes, S("\x04\x08"))) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "it is a dump of Ruby's Marshal, which only Ruby reads; write JSON with "
                       "`stackprof --json FILE`");
    }
    json_reader_init(&s.json, a, bytes);
    if (!sp_read(&s, e) || !sp_types(&s, e)) return false;
    map_init(&s.rows, a->budget);
    callgraph_init(&c, a, s.type_count);
    bool ok = graft_begin(&g, a, bytes.n, o, s.types, s.type_count, e) && sp_make(&s, &c, &g, e) &&
              graft_finish(&g, &p, e);
    graft_release(&g);
    callgraph_release(&c);
    map_release(&s.rows);
    if (!ok) return false;
    if (s.type_count == 2) {
        p->period_type = s.types[1];
        p->period = s.scale[1];
    }
    *out = (struct decoded){p, 1};
    return true;
}
