// SPDX-License-Identifier: Apache-2.0
//
// trace_samples.c - reads the samples of a trace. Each thread makes a node of a frame once, so the
// work is that of the frames that a thread has; files in which many threads share one long stack
// are bounded by steps.
#include "decode/trace_samples.h"

#include "base/hash.h"
#include "decode/json_values.h"
#include "model/marks.h"

#define STEPS_MIN ((size_t)1 << 19)  // a step may make a node of the graft: some 30 MB
#define STEPS_OF  ((size_t)4)        // for each byte of the input

void trace_samples_init(struct trace_samples *s, struct arena *a, size_t bytes)
{
    *s = (struct trace_samples){.a = a, .steps = STEPS_MIN + STEPS_OF * bytes};
    map_init(&s->frame_rows, a->budget);
}

void trace_samples_release(struct trace_samples *s)
{
    map_release(&s->frame_rows);
}

// ---- reading

static bool trace_sample_weight(str text, int64_t *weight)
{
    double v = 0;
    *weight = 1;
    if (text.n == 0 || str_i64(text, weight)) return true;
    return json_number_size(text) == text.n && json_double(text, &v) && json_whole(v, weight);
}

static bool trace_sample_one(struct trace_samples *s, struct json_reader *r, err *e)
{
    struct trace_sample one = {.weight = 1};
    str weight = {0};
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        bool ok = str_is(r->text, "pid")      ? json_want_text(r, &one.pid, e)
                  : str_is(r->text, "tid")    ? json_want_text(r, &one.tid, e)
                  : str_is(r->text, "sf")     ? json_want_text(r, &one.frame, e)
                  : str_is(r->text, "weight") ? json_want_text(r, &weight, e)
                                              : json_pass(r, e);
        if (!ok) return false;
    }
    if (token != JSON_OBJECT_END) return json_broken(r, "a field of a sample", e);
    if (!trace_sample_weight(weight, &one.weight)) {
        s->bad++;
        return true;
    }
    if (!arena_grow(s->a, &s->samples, &s->cap, s->count + 1, sizeof *s->samples))
        return arena_fail(s->a, e);
    s->samples[s->count++] = one;
    return true;
}

bool trace_samples_read(struct trace_samples *s, struct json_reader *r, err *e)
{
    bool in = false;
    if (!json_enter(r, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    for (;;) {
        enum json_token token = json_next(r);
        if (token == JSON_ARRAY_END) return true;
        if (token != JSON_OBJECT) return json_broken(r, "a sample", e);
        if (!trace_sample_one(s, r, e)) return false;
    }
}

struct trace_frame_probe {
    const struct trace_samples *s;
    str id;
};

static bool trace_frame_same(const void *ctx, uint32_t row)
{
    const struct trace_frame_probe *want = ctx;
    return str_eq(want->s->frames[row].id, want->id);
}

static uint32_t trace_frame_row(const struct trace_samples *s, str id)
{
    const struct trace_frame_probe want = {s, id};
    return map_find(&s->frame_rows, hash_table_str(id), trace_frame_same, &want);
}

static bool trace_frame_one(struct trace_samples *s, struct json_reader *r, str id, err *e)
{
    struct trace_frame one = {.id = id};
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        bool ok = str_is(r->text, "name")     ? json_want_text(r, &one.name, e)
                  : str_is(r->text, "parent") ? json_want_text(r, &one.parent, e)
                                              : json_pass(r, e);
        if (!ok) return false;
    }
    if (token != JSON_OBJECT_END) return json_broken(r, "a field of a frame", e);
    // The first one of a number counts.
    if (trace_frame_row(s, id) != MAP_NONE) return true;
    if (s->frame_count == MAP_NONE)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u frames", MAP_NONE);
    if (!arena_grow(s->a, &s->frames, &s->frame_cap, s->frame_count + 1, sizeof *s->frames))
        return arena_fail(s->a, e);
    s->frames[s->frame_count] = one;
    return map_put(&s->frame_rows, hash_table_str(id), (uint32_t)s->frame_count++, e);
}

bool trace_samples_read_frames(struct trace_samples *s, struct json_reader *r, err *e)
{
    bool in = false;
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        str id = r->text;
        bool in_frame = false;
        if (!json_enter(r, JSON_OBJECT, &in_frame, e)) return false;
        if (in_frame && !trace_frame_one(s, r, id, e)) return false;
    }
    return token == JSON_OBJECT_END || json_broken(r, "a frame", e);
}

// ---- making stacks

// The frames from this one outwards, up to one whose node is known, or to the outermost: `node` is
// the one below which they belong. Frames in a circle have no callers.
static bool trace_samples_way(struct trace_samples *s, struct graft *g, uint32_t row,
                              uint32_t *node, size_t *n, err *e)
{
    *n = 0;
    while (s->frames[row].stamp != s->stamp) {
        struct trace_frame *f = &s->frames[row];
        if (s->steps-- == 0)
            return err_set(e, ERR_RESOURCE_EXHAUSTED, "stacks of samples have too many frames");
        if (!arena_grow(s->a, &s->way, &s->way_cap, *n + 1, sizeof *s->way))
            return arena_fail(s->a, e);
        s->way[(*n)++] = row;
        // A circle of callers leads to this frame again, finds it marked and ends at the root.
        f->stamp = s->stamp;
        f->node = *node;
        if (f->parent.n == 0) return true;
        row = trace_frame_row(s, f->parent);
        if (row == MAP_NONE) {
            graft_lose(g, LOSS_UNKNOWN_FRAME, 1);
            return true;
        }
    }
    *node = s->frames[row].node;
    return true;
}

static bool trace_samples_node(struct trace_samples *s, struct graft *g, str id, uint32_t *node,
                               err *e)
{
    size_t n = 0;
    if (id.n == 0) return true;
    uint32_t row = trace_frame_row(s, id);
    if (row == MAP_NONE) {
        graft_lose(g, LOSS_UNKNOWN_STACK, 1);
        return true;
    }
    if (!trace_samples_way(s, g, row, node, &n, e)) return false;
    while (n > 0) {
        struct trace_frame *f = &s->frames[s->way[--n]];
        str name = f->name.n ? f->name : S(STACK_UNKNOWN_NAME);
        if (!graft_named(g, *node, name, node, e)) return false;
        f->node = *node;
    }
    return true;
}

bool trace_samples_put(struct trace_samples *s, struct graft *g, uint32_t root, uint32_t type,
                       size_t from, size_t to, err *e)
{
    s->stamp++;
    for (size_t i = from; i < to; i++) {
        uint32_t node = root;
        if (!trace_samples_node(s, g, s->samples[i].frame, &node, e) ||
            !graft_add(g, node, type, s->samples[i].weight, e))
            return false;
    }
    return true;
}
