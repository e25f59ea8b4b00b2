// SPDX-License-Identifier: Apache-2.0
//
// speedscope.c - speedscope's JSON. The frames may come behind the profiles, and a profile's unit
// and type behind its events, so the text is read twice, and a profile's numbers are kept until it
// ends.
//
// Values with a wrong reference are kept: frames that do not exist are "[unknown]",
// weights without a sample are of a stack that is not known, frames that stay open end with the
// profile. Each of them is counted (profile.losses).
#include "decode/json_values.h"
#include "decode/plain.h"
#include "decode/stacks.h"
#include "model/marks.h"

#include <math.h>

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

struct event {
    double at;
    double frame;
    bool open;
};

struct frame {
    str name;
    size_t profile;  // number + 1 of the last profile with it, in which
    uint32_t row;    // it has this row
};

struct reader {
    struct json_reader json;
    struct arena *a;
    const struct decode_options *o;
    struct frame *frames;
    size_t frame_count;
    size_t frame_cap;
    struct profile *profiles;
    size_t profile_count;
    size_t profile_cap;
    str schema;
    size_t bytes;
    uint64_t frames_made;  // of stacks of events, which are not in the text
    struct losses bad;     // of the text; told with the first profile
};

// One profile as written. Frames of events are not checked yet.
struct raw {
    str type;
    str name;
    str unit;
    double end;
    bool has_weights;
    struct event *events;
    size_t event_count;
    size_t event_cap;
    uint32_t *frames;  // of all samples, one behind the other
    size_t frame_count;
    size_t frame_cap;
    uint64_t unknown;  // samples with a frame that does not exist
    size_t *ends;      // of each sample, in frames
    size_t end_count;
    size_t end_cap;
    double *weights;
    size_t weight_count;
    size_t weight_cap;
};

// ---- frames

static bool add_frame(struct reader *r, str name, err *e)
{
    if (!arena_grow(r->a, &r->frames, &r->frame_cap, r->frame_count + 1, sizeof *r->frames))
        return arena_fail(r->a, e);
    r->frames[r->frame_count++] = (struct frame){.name = name};
    return true;
}

static bool read_frame(struct reader *r, err *e)
{
    str name = {0};
    enum json_token t = json_next(&r->json);
    for (; t == JSON_KEY; t = json_next(&r->json)) {
        bool ok = str_is(r->json.text, "name")
                      ? json_want_string(&r->json, "the name of a frame", &name, e)
                      : json_pass(&r->json, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(&r->json, "a frame", e);
    return add_frame(r, name, e);
}

static bool read_shared(struct reader *r, err *e)
{
    if (json_next(&r->json) != JSON_OBJECT) return json_broken(&r->json, "an object in shared", e);
    enum json_token t = json_next(&r->json);
    for (; t == JSON_KEY; t = json_next(&r->json)) {
        if (!str_is(r->json.text, "frames")) {
            if (!json_pass(&r->json, e)) return false;
            continue;
        }
        if (json_next(&r->json) != JSON_ARRAY)
            return json_broken(&r->json, "a list in shared.frames", e);
        t = json_next(&r->json);
        for (; t == JSON_OBJECT; t = json_next(&r->json)) {
            if (!read_frame(r, e)) return false;
        }
        if (t != JSON_ARRAY_END) return json_broken(&r->json, "a frame in shared.frames", e);
    }
    return t == JSON_OBJECT_END || json_broken(&r->json, "shared", e);
}

// The row of a frame; of one that does not exist the last, which stands for all of them.
static uint32_t frame_index(const struct reader *r, double frame)
{
    uint32_t unknown = (uint32_t)r->frame_count - 1;
    bool exists = frame >= 0 && frame < (double)unknown && frame == (double)(uint32_t)frame;
    return exists ? (uint32_t)frame : unknown;
}

static bool is_unknown(const struct reader *r, uint32_t frame)
{
    return frame + 1 == r->frame_count;
}

// ---- a profile as written

static bool read_event(struct reader *r, struct raw *p, err *e)
{
    struct event event = {.frame = -1};
    str type = {0};
    enum json_token t = json_next(&r->json);
    for (; t == JSON_KEY; t = json_next(&r->json)) {
        str key = r->json.text;
        bool ok = str_is(key, "type") ? json_want_string(&r->json, "the type of an event", &type, e)
                  : str_is(key, "at")
                      ? json_want_number(&r->json, "the time of an event", &event.at, e)
                  : str_is(key, "frame")
                      ? json_want_number(&r->json, "the frame of an event", &event.frame, e)
                      : json_pass(&r->json, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(&r->json, "an event", e);
    event.open = str_is(type, "O");
    if (!event.open && !str_is(type, "C")) {
        return err_set(e, ERR_INVALID_ARGUMENT, "event %zu: type \"%.*s\" is neither O nor C",
                       p->event_count, STR(str_slice(type, 0, 64)));
    }
    if (!arena_grow(r->a, &p->events, &p->event_cap, p->event_count + 1, sizeof *p->events))
        return arena_fail(r->a, e);
    p->events[p->event_count++] = event;
    return true;
}

static bool read_events(struct reader *r, struct raw *p, err *e)
{
    if (json_next(&r->json) != JSON_ARRAY) return json_broken(&r->json, "a list of events", e);
    enum json_token t = json_next(&r->json);
    for (; t == JSON_OBJECT; t = json_next(&r->json)) {
        if (!read_event(r, p, e)) return false;
    }
    return t == JSON_ARRAY_END || json_broken(&r->json, "an event", e);
}

static bool read_weights(struct reader *r, struct raw *p, err *e)
{
    if (json_next(&r->json) != JSON_ARRAY) return json_broken(&r->json, "a list of weights", e);
    p->has_weights = true;
    enum json_token t = json_next(&r->json);
    for (; t == JSON_NUMBER; t = json_next(&r->json)) {
        if (!arena_grow(r->a, &p->weights, &p->weight_cap, p->weight_count + 1, sizeof *p->weights))
            return arena_fail(r->a, e);
        if (!json_double(r->json.text, &p->weights[p->weight_count++]))
            return json_broken(&r->json, "a finite number", e);
    }
    return t == JSON_ARRAY_END || json_broken(&r->json, "a number", e);
}

// The frames of a sample, whose bracket has been read. There are many, so they are kept small.
static bool read_stack(struct reader *r, struct raw *p, err *e)
{
    bool unknown = false;
    enum json_token t = json_next(&r->json);
    for (; t == JSON_NUMBER; t = json_next(&r->json)) {
        double frame = 0;
        if (!arena_grow(r->a, &p->frames, &p->frame_cap, p->frame_count + 1, sizeof *p->frames))
            return arena_fail(r->a, e);
        if (!json_double(r->json.text, &frame)) return json_broken(&r->json, "a finite number", e);
        uint32_t row = frame_index(r, frame);
        p->frames[p->frame_count++] = row;
        unknown = unknown || is_unknown(r, row);
    }
    p->unknown += unknown;
    return t == JSON_ARRAY_END || json_broken(&r->json, "a number", e);
}

static bool read_samples(struct reader *r, struct raw *p, err *e)
{
    if (json_next(&r->json) != JSON_ARRAY) return json_broken(&r->json, "a list of samples", e);
    enum json_token t = json_next(&r->json);
    for (; t == JSON_ARRAY; t = json_next(&r->json)) {
        if (!read_stack(r, p, e)) return false;
        if (!arena_grow(r->a, &p->ends, &p->end_cap, p->end_count + 1, sizeof *p->ends))
            return arena_fail(r->a, e);
        p->ends[p->end_count++] = p->frame_count;
    }
    return t == JSON_ARRAY_END || json_broken(&r->json, "a sample", e);
}

static bool read_field(struct reader *r, struct raw *p, err *e)
{
    str key = r->json.text;
    if (str_is(key, "type"))
        return json_want_string(&r->json, "the type of a profile", &p->type, e);
    if (str_is(key, "name"))
        return json_want_string(&r->json, "the name of a profile", &p->name, e);
    if (str_is(key, "unit"))
        return json_want_string(&r->json, "the unit of a profile", &p->unit, e);
    if (str_is(key, "endValue")) return json_want_number(&r->json, "endValue", &p->end, e);
    if (str_is(key, "events")) return read_events(r, p, e);
    if (str_is(key, "samples")) return read_samples(r, p, e);
    if (str_is(key, "weights")) return read_weights(r, p, e);
    return json_pass(&r->json, e);
}

// ---- its stacks

struct unit {
    str name;
    double scale;  // to the unit that is stored
    str stored;
};

static const struct unit *unit_of(str name)
{
    static const struct unit units[] = {
        {S_INIT("none"), 1, S_INIT("count")},
        {S_INIT("nanoseconds"), 1, S_INIT("nanoseconds")},
        {S_INIT("microseconds"), 1e3, S_INIT("nanoseconds")},
        {S_INIT("milliseconds"), 1e6, S_INIT("nanoseconds")},
        {S_INIT("seconds"), 1e9, S_INIT("nanoseconds")},
        {S_INIT("bytes"), 1, S_INIT("bytes")},
    };
    for (size_t i = 0; i < COUNT(units); i++) {
        if (str_eq(units[i].name, name)) return &units[i];
    }
    return NULL;
}

// The row of a frame that exists; it is looked up once for each profile.
static bool frame_row(struct reader *r, struct stacks *s, uint32_t frame, uint32_t *row, err *e)
{
    struct frame *f = &r->frames[frame];
    if (f->profile != r->profile_count + 1) {
        if (!stacks_frame(s, f->name, (str){0}, 0, &f->row, e)) return false;
        f->profile = r->profile_count + 1;
    }
    *row = f->row;
    return true;
}

// stack: rows, root first. cut: all stacks together have too many frames, so deep ones are cut.
static bool add(struct stacks *s, const uint32_t *stack, size_t depth, double weight, bool cut,
                err *e)
{
    uint32_t *leaf = NULL;
    int64_t *values = NULL;
    int64_t value = 0;
    if (!json_whole(weight, &value))
        return err_set(e, ERR_OUT_OF_RANGE, "weight %g does not fit 64 bits", weight);
    if (value == 0) return true;
    size_t kept = cut ? MIN(depth, STACKS_DEPTH) : depth;
    size_t mark = kept < depth;
    losses_add(&s->p->losses, LOSS_STACK_DEPTH, mark);
    if (!stacks_sample(s, kept + mark, &leaf, &values, e)) return false;
    *values = value;
    for (size_t i = 0; i < kept; i++)
        leaf[mark + i] = stack[kept - 1 - i];
    return !mark || stacks_frame(s, S(STACK_CUT_NAME), (str){0}, 0, &leaf[0], e);
}

// At most how many samples the events make, and how many frames these have.
static uint64_t count_frames(const struct raw *p, size_t *samples)
{
    uint64_t frames = 0;
    size_t depth = 0;
    *samples = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        bool passed = depth && i && p->events[i].at > p->events[i - 1].at;
        frames += passed ? depth : 0;
        *samples += passed;
        if (p->events[i].open)
            depth++;
        else if (depth)
            depth--;
    }
    *samples += depth > 0;
    return frames + depth;
}

// Between two events passes time of the stack that is open. It is rounded at both ends and not as
// a difference, so that fractions do not add up. Frames that stay open end with the profile: a
// program that was stopped closes none.
static bool add_events(struct reader *r, struct stacks *s, const struct raw *p, double scale,
                       err *e)
{
    uint32_t *stack = ARENA_ARRAY(r->a, uint32_t, p->event_count);
    uint32_t *open = ARENA_ARRAY(r->a, uint32_t, p->event_count);
    if (!stack || !open) return arena_fail(r->a, e);
    size_t depth = 0;
    size_t samples = 0;
    uint64_t frames = count_frames(p, &samples);
    // The file is as large as all of its profiles.
    bool cut = stacks_are_deep(s, r->frames_made + frames);
    r->frames_made += cut ? 0 : frames;
    if (!cut && !stacks_expect(s, samples, frames, e)) return false;
    double last = p->event_count ? p->events[0].at : 0;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct event *event = &p->events[i];
        uint32_t frame = frame_index(r, event->frame);
        if (event->at < last) {
            return err_set(e, ERR_INVALID_ARGUMENT, "event %zu: events out of order, %g < %g", i,
                           event->at, last);
        }
        double weight = nearbyint(event->at * scale) - nearbyint(last * scale);
        if (depth && !add(s, stack, depth, weight, cut, e)) return false;
        last = event->at;
        if (event->open) {
            if (is_unknown(r, frame)) losses_add(&s->p->losses, LOSS_UNKNOWN_FRAME, 1);
            open[depth] = frame;
            if (!frame_row(r, s, frame, &stack[depth++], e)) return false;
        } else if (depth == 0 || open[--depth] != frame) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "event %zu: frame %g is closed and not the innermost one open", i,
                           event->frame);
        }
    }
    losses_add(&s->p->losses, LOSS_UNCLOSED_FRAME, depth);
    double rest = nearbyint(p->end * scale) - nearbyint(last * scale);
    return depth == 0 || rest <= 0 || add(s, stack, depth, rest, cut, e);
}

// The value of a weight. What rounding leaves over goes to the next weight, so that the sum is that
// of the file.
static double take_weight(double weight, double scale, double *carried)
{
    double exact = weight * scale;
    double whole = nearbyint(exact + *carried);
    *carried += exact - whole;
    return whole;
}

// Without weights each sample counts 1, if that is what the unit says.
static bool check_weights(const struct raw *p, struct stacks *s, err *e)
{
    if (!p->has_weights && p->end_count && !str_is(p->unit, "none"))
        return err_set(e, ERR_INVALID_ARGUMENT, "samples in %.*s without weights", STR(p->unit));
    if (p->has_weights && p->end_count > p->weight_count)
        losses_add(&s->p->losses, LOSS_BAD_SAMPLE, p->end_count - p->weight_count);
    losses_add(&s->p->losses, LOSS_UNKNOWN_FRAME, p->unknown);
    return true;
}

// Frames become the rows that they have among the functions.
static bool add_samples(struct reader *r, struct stacks *s, struct raw *p, double scale, err *e)
{
    double carried = 0;
    size_t n = p->has_weights ? MIN(p->end_count, p->weight_count) : p->end_count;
    if (!check_weights(p, s, e) || !stacks_expect(s, p->end_count, p->frame_count, e)) return false;
    for (size_t i = 0, from = 0; i < n; from = p->ends[i++]) {
        for (size_t k = from; k < p->ends[i]; k++) {
            if (!frame_row(r, s, p->frames[k], &p->frames[k], e)) return false;
        }
        double weight = take_weight(p->has_weights ? p->weights[i] : 1, scale, &carried);
        if (!add(s, &p->frames[from], p->ends[i] - from, weight, false, e)) return false;
    }
    for (size_t i = n; i < p->weight_count; i++) {
        uint32_t unknown = 0;
        double weight = take_weight(p->weights[i], scale, &carried);
        losses_add(&s->p->losses, LOSS_UNKNOWN_STACK, 1);
        if (!frame_row(r, s, (uint32_t)r->frame_count - 1, &unknown, e) ||
            !add(s, &unknown, 1, weight, false, e)) {
            return false;
        }
    }
    return true;
}

static bool make(struct reader *r, struct raw *p, err *e)
{
    const struct unit *unit = unit_of(p->unit);
    if (!unit)
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown unit \"%.*s\"",
                       STR(str_slice(p->unit, 0, 64)));
    bool evented = str_is(p->type, "evented");
    if (!evented && !str_is(p->type, "sampled"))
        return err_set(e, ERR_INVALID_ARGUMENT, "profile type \"%.*s\" is not supported",
                       STR(str_slice(p->type, 0, 64)));
    struct stacks s;
    struct profile_type type = {S("samples"), unit->stored};
    bool ok =
        stacks_begin(&s, r->a, r->bytes, r->o, &type, 1, e) &&
        (evented ? add_events(r, &s, p, unit->scale, e) : add_samples(r, &s, p, unit->scale, e)) &&
        stacks_finish(&s, e);
    stacks_release(&s);
    if (!ok) return false;
    s.p->name = p->name;
    s.p->unit = p->unit;
    if (r->profile_count == 0) losses_merge(&s.p->losses, &r->bad);
    if (r->profile_count) s.p->encoded_bytes = 0;  // of the file, so it counts once
    if (!arena_grow(r->a, &r->profiles, &r->profile_cap, r->profile_count + 1,
                    sizeof *r->profiles)) {
        return arena_fail(r->a, e);
    }
    r->profiles[r->profile_count++] = *s.p;
    return true;
}

// ---- the file

static bool read_profiles(struct reader *r, err *e)
{
    if (json_next(&r->json) != JSON_ARRAY) return json_broken(&r->json, "a list of profiles", e);
    enum json_token t = json_next(&r->json);
    for (; t == JSON_OBJECT; t = json_next(&r->json)) {
        struct raw p = {0};
        for (t = json_next(&r->json); t == JSON_KEY; t = json_next(&r->json)) {
            if (!read_field(r, &p, e)) return err_wrap(e, "profile %zu", r->profile_count);
        }
        if (t != JSON_OBJECT_END) return json_broken(&r->json, "a profile", e);
        if (!make(r, &p, e)) return err_wrap(e, "profile %zu", r->profile_count);
    }
    return t == JSON_ARRAY_END || json_broken(&r->json, "a profile", e);
}

// Reads the values of one pass and skips those of the other. The first pass ends early if schema
// and frames come before the profiles, as most programs write them.
static bool pass(struct reader *r, str bytes, bool profiles, err *e)
{
    json_reader_init(&r->json, r->a, bytes);
    if (json_next(&r->json) != JSON_OBJECT) return json_broken(&r->json, "an object", e);
    enum json_token t = json_next(&r->json);
    for (; t == JSON_KEY; t = json_next(&r->json)) {
        str key = r->json.text;
        if (!profiles && r->schema.n && r->frame_count && str_is(key, "profiles")) return true;
        bool ok = !profiles && str_is(key, "$schema")
                      ? json_want_string(&r->json, "$schema", &r->schema, e)
                  : !profiles && str_is(key, "shared")  ? read_shared(r, e)
                  : profiles && str_is(key, "profiles") ? read_profiles(r, e)
                                                        : json_pass(&r->json, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END || json_next(&r->json) != JSON_END)
        return json_broken(&r->json, "one object", e);
    return true;
}

bool decode_speedscope(struct arena *a, str bytes, const struct decode_options *o,
                       struct decoded *out, err *e)
{
    struct reader r = {.a = a, .o = o, .bytes = bytes.n};
    if (!plain_json(a, bytes, &r.bad, &bytes, e)) return false;
    if (!pass(&r, bytes, false, e)) return false;
    if (!str_is(r.schema, SCHEMA))
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown $schema \"%.*s\"",
                       STR(str_slice(r.schema, 0, 128)));
    if (!add_frame(&r, S(STACK_UNKNOWN_NAME), e) || !pass(&r, bytes, true, e)) return false;
    *out = (struct decoded){r.profiles, r.profile_count};
    return true;
}
