// SPDX-License-Identifier: Apache-2.0
//
// trace.c - durations of a trace of Chrome's format, which many tracers write: events B (begin), E
// (end) and X (complete, with a duration), of threads of processes, in microseconds.
//
//     {"traceEvents": [{"ph":"X","name":"f","pid":1,"tid":2,"ts":10.5,"dur":3}, ..]}
//
// The time of a thread belongs to the innermost event that is open. So the values of a thread add
// up to the time in which any event was open, however odd the events are:
//
//     a begin without an end     ends with the last event of its thread
//     an end of another name     ends the innermost open one with this name, or else the innermost
//     an end without a begin     has no time, and is counted
//     an event that outlives the one around it     keeps that one open
//
// Each thread's begins and ends are one list, sorted by time, its complete events another, and the
// two are merged. Every step looks at the innermost events only, so the work is that of sorting.
//
// Samples that a trace has beside its events (trace_samples.h) are a second type.
#include "base/hash.h"
#include "decode/graft.h"
#include "decode/json_lists.h"
#include "decode/tools.h"
#include "decode/trace_samples.h"
#include "model/marks.h"

#include <stdlib.h>

#define NS_PER_US 1000
#define NO_END    INT64_MAX

enum {
    TYPE_WALL,
    TYPE_SAMPLES
};

struct tr_event {
    int64_t at_ns;
    int64_t dur_ns;  // of X
    uint32_t thread;
    uint32_t name;  // row of a frame
    uint32_t number;
    char kind;   // B, E or X
    bool named;  // an E may have no name
};

struct tr_thread {
    str pid;
    str tid;
    str name;
};

struct tr_open {
    int64_t end_ns;  // of X; or NO_END
    uint32_t node;
    uint32_t name;
    uint32_t same;   // number + 1 of the next outer begin that is open and has the same name
    uint32_t outer;  // number + 1 of the next outer begin
    bool ended;      // a begin whose end was met, but within it another event is open
};

struct tr {
    struct arena *a;
    struct json_reader json;
    struct graft g;
    struct tr_event *events;
    size_t event_count;
    size_t event_cap;
    struct tr_thread *threads;
    size_t thread_count;
    size_t thread_cap;
    struct map thread_rows;
    struct trace_samples samples;
    // of the thread that is made
    struct tr_open *open;
    size_t depth;
    size_t open_cap;
    uint32_t *by_name;  // number + 1 of the innermost begin with this name
    uint32_t begin;     // number + 1 of the innermost begin
    uint32_t root;
    int64_t last_ns;
};

// ---- reading

struct tr_probe {
    const struct tr *t;
    str pid;
    str tid;
};

static bool tr_same_thread(const void *ctx, uint32_t row)
{
    const struct tr_probe *want = ctx;
    const struct tr_thread *t = &want->t->threads[row];
    return str_eq(t->pid, want->pid) && str_eq(t->tid, want->tid);
}

static bool tr_thread_row(struct tr *t, str pid, str tid, uint32_t *row, err *e)
{
    const struct tr_probe want = {t, pid, tid};
    uint64_t hash = hash_table_and(hash_table_str(pid), hash_table_str(tid));
    *row = map_find(&t->thread_rows, hash, tr_same_thread, &want);
    if (*row != MAP_NONE) return true;
    if (!arena_grow(t->a, &t->threads, &t->thread_cap, t->thread_count + 1, sizeof *t->threads))
        return arena_fail(t->a, e);
    *row = (uint32_t)t->thread_count;
    t->threads[t->thread_count++] = (struct tr_thread){.pid = pid, .tid = tid};
    return map_put(&t->thread_rows, hash, *row, e);
}

// Microseconds as nanoseconds, exact as far as they are written without an exponent: a time since
// 1970 has more digits than a double.
static bool tr_ns(str text, int64_t *ns)
{
    size_t dot = str_find(text, '.');
    int64_t us = 0;
    int64_t part = 0;
    double v = 0;
    if (text.n == 0 || json_number_size(text) != text.n) return false;
    str digits = str_slice(text, MIN(dot + 1, text.n), text.n);
    if (text.p[0] == '-' || !str_i64(str_slice(text, 0, dot), &us) ||
        (digits.n && !str_i64(str_slice(digits, 0, 4), &part))) {
        return json_double(text, &v) && json_whole(v * NS_PER_US, ns);
    }
    for (size_t i = digits.n; i < 4; i++)
        part *= 10;
    return !__builtin_mul_overflow(us, (int64_t)NS_PER_US, &us) &&
           !__builtin_add_overflow(us, (part + 5) / 10, ns);
}

struct tr_fields {
    str ph;
    str name;
    str pid;
    str tid;
    str ts;
    str dur;
    str tdur;  // as the clock of the thread has it
    str arg;   // args.name
    bool named;
};

static bool tr_args(struct tr *t, str *name, err *e)
{
    struct json_reader *r = &t->json;
    bool in = false;
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        bool ok = str_is(r->text, "name") ? json_want_text(r, name, e) : json_pass(r, e);
        if (!ok) return false;
    }
    return token == JSON_OBJECT_END || json_broken(r, "args", e);
}

static bool tr_fields(struct tr *t, struct tr_fields *f, err *e)
{
    struct json_reader *r = &t->json;
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        f->named |= str_is(r->text, "name");
        bool ok = str_is(r->text, "name")   ? json_want_text(r, &f->name, e)
                  : str_is(r->text, "ph")   ? json_want_text(r, &f->ph, e)
                  : str_is(r->text, "pid")  ? json_want_text(r, &f->pid, e)
                  : str_is(r->text, "tid")  ? json_want_text(r, &f->tid, e)
                  : str_is(r->text, "ts")   ? json_want_text(r, &f->ts, e)
                  : str_is(r->text, "dur")  ? json_want_text(r, &f->dur, e)
                  : str_is(r->text, "tdur") ? json_want_text(r, &f->tdur, e)
                  : str_is(r->text, "args") ? tr_args(t, &f->arg, e)
                                            : json_pass(r, e);
        if (!ok) return false;
    }
    return token == JSON_OBJECT_END || json_broken(r, "a field of an event", e);
}

static bool tr_add(struct tr *t, const struct tr_fields *f, err *e)
{
    struct tr_event v = {.kind = f->ph.p[0], .named = f->named};
    bool good = tr_ns(f->ts, &v.at_ns);
    if (v.kind == 'X') {
        int64_t end = 0;
        good = good && tr_ns(f->dur.n ? f->dur : f->tdur, &v.dur_ns) && v.dur_ns >= 0 &&
               !__builtin_add_overflow(v.at_ns, v.dur_ns, &end) && end != NO_END;
    }
    if (!good) {
        graft_lose(&t->g, LOSS_BAD_SAMPLE, 1);
        return true;
    }
    if (t->event_count == UINT32_MAX)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u events", UINT32_MAX);
    if (!arena_grow(t->a, &t->events, &t->event_cap, t->event_count + 1, sizeof *t->events))
        return arena_fail(t->a, e);
    str name = f->name.n ? f->name : S(STACK_UNKNOWN_NAME);
    v.number = (uint32_t)t->event_count;
    if (!tr_thread_row(t, f->pid, f->tid, &v.thread, e) ||
        !stacks_frame(&t->g.s, name, (str){0}, 0, &v.name, e))
        return false;
    t->events[t->event_count++] = v;
    return true;
}

static bool tr_event(struct tr *t, err *e)
{
    struct tr_fields f = {0};
    uint32_t row = 0;
    if (!tr_fields(t, &f, e)) return false;
    if (str_is(f.ph, "M") && str_is(f.name, "thread_name")) {
        if (!tr_thread_row(t, f.pid, f.tid, &row, e)) return false;
        t->threads[row].name = f.arg;
        return true;
    }
    // All others have no duration of their own: moments, counters, flows, asynchronous events.
    bool wanted = str_is(f.ph, "B") || str_is(f.ph, "E") || str_is(f.ph, "X");
    return !wanted || tr_add(t, &f, e);
}

// Is the rest nothing but a comma? A program that was stopped writes no end of the list.
static bool tr_is_cut(const struct tr *t)
{
    str all = t->json.all;  // without spaces at its end
    size_t at = t->json.at;
    while (at < all.n && (all.p[at] == ' ' || all.p[at] == '\n' || all.p[at] == '\r'))
        at++;
    return at == all.n || (all.p[at] == ',' && at + 1 == all.n);
}

static bool tr_events(struct tr *t, bool may_end, bool *cut, err *e)
{
    for (;;) {
        if (may_end && tr_is_cut(t)) {
            *cut = true;
            return true;
        }
        enum json_token token = json_next(&t->json);
        if (token == JSON_ARRAY_END) return true;
        if (token != JSON_OBJECT) return json_broken(&t->json, "an event", e);
        if (!tr_event(t, e)) return false;
    }
}

static bool tr_field(struct tr *t, err *e)
{
    struct json_reader *r = &t->json;
    bool in = false;
    bool cut = false;
    if (str_is(r->text, "samples")) return trace_samples_read(&t->samples, r, e);
    if (str_is(r->text, "stackFrames")) return trace_samples_read_frames(&t->samples, r, e);
    if (!str_is(r->text, "traceEvents")) return json_pass(r, e);
    return json_enter(r, JSON_ARRAY, &in, e) && (!in || tr_events(t, false, &cut, e));
}

static bool tr_read(struct tr *t, err *e)
{
    struct json_reader *r = &t->json;
    bool cut = false;
    enum json_token first = json_next(r);
    if (first == JSON_ARRAY) {
        if (!tr_events(t, true, &cut, e)) return false;
        return cut || json_next(r) == JSON_END || json_broken(r, "one trace", e);
    }
    if (first != JSON_OBJECT) return json_broken(r, "a list of events, or an object", e);
    enum json_token token = json_next(r);
    for (; token == JSON_KEY; token = json_next(r)) {
        if (!tr_field(t, e)) return false;
    }
    if (token != JSON_OBJECT_END) return json_broken(r, "a field", e);
    return json_next(r) == JSON_END || json_broken(r, "one trace", e);
}

// ---- one thread

// The time up to now belongs to the innermost event.
static bool tr_advance(struct tr *t, int64_t to_ns, err *e)
{
    if (to_ns <= t->last_ns) return true;
    int64_t passed = 0;
    if (t->depth) {
        if (__builtin_sub_overflow(to_ns, t->last_ns, &passed))
            return err_set(e, ERR_OUT_OF_RANGE, "a time does not fit 64 bits of ns");
        if (!graft_add(&t->g, t->open[t->depth - 1].node, 0, passed, e)) return false;
    }
    t->last_ns = to_ns;
    return true;
}

static void tr_pop(struct tr *t)
{
    const struct tr_open *o = &t->open[--t->depth];
    uint32_t number = (uint32_t)t->depth + 1;
    if (t->by_name[o->name] == number) t->by_name[o->name] = o->same;
    if (t->begin == number) t->begin = o->outer;
}

// Ends the innermost events that are over at this time, also those that waited for others.
static bool tr_end_until(struct tr *t, int64_t at_ns, err *e)
{
    while (t->depth) {
        const struct tr_open *o = &t->open[t->depth - 1];
        if (!o->ended && (o->end_ns == NO_END || o->end_ns > at_ns)) return true;
        if (!o->ended) {
            if (o->end_ns < t->last_ns) graft_lose(&t->g, LOSS_OVERLAPPING_FRAME, 1);
            if (!tr_advance(t, o->end_ns, e)) return false;
        }
        tr_pop(t);
    }
    return true;
}

static bool tr_begin(struct tr *t, const struct tr_event *v, err *e)
{
    bool complete = v->kind == 'X';
    if (!arena_grow(t->a, &t->open, &t->open_cap, t->depth + 1, sizeof *t->open))
        return arena_fail(t->a, e);
    uint32_t parent = t->depth ? t->open[t->depth - 1].node : t->root;
    struct tr_open *o = &t->open[t->depth];
    *o = (struct tr_open){.end_ns = complete ? v->at_ns + v->dur_ns : NO_END, .name = v->name};
    if (!graft_child(&t->g, parent, v->name, &o->node, e)) return false;
    t->depth++;
    if (complete) return true;
    o->same = t->by_name[v->name];
    o->outer = t->begin;
    t->by_name[v->name] = t->begin = (uint32_t)t->depth;
    return true;
}

static bool tr_end(struct tr *t, const struct tr_event *v, err *e)
{
    // Begins that have ended, and wait, are passed once.
    while (t->begin && t->open[t->begin - 1].ended)
        t->begin = t->open[t->begin - 1].outer;
    uint32_t number = v->named ? t->by_name[v->name] : t->begin;
    if (number == 0) {
        number = t->begin;
        graft_lose(&t->g, number ? LOSS_UNKNOWN_FRAME : LOSS_BAD_SAMPLE, 1);
        if (number == 0) return true;
    }
    struct tr_open *o = &t->open[number - 1];
    o->ended = true;
    // It is the innermost one with its name.
    t->by_name[o->name] = o->same;
    if (t->begin == number) t->begin = o->outer;
    if (number < t->depth) graft_lose(&t->g, LOSS_OVERLAPPING_FRAME, 1);
    return tr_end_until(t, v->at_ns, e);
}

static bool tr_step(struct tr *t, const struct tr_event *v, err *e)
{
    return tr_end_until(t, v->at_ns, e) && tr_advance(t, v->at_ns, e) &&
           (v->kind == 'E' ? tr_end(t, v, e) : tr_begin(t, v, e));
}

static bool tr_finish(struct tr *t, int64_t end_ns, err *e)
{
    while (t->depth) {
        const struct tr_open *o = &t->open[t->depth - 1];
        bool unclosed = !o->ended && o->end_ns == NO_END;
        if (unclosed) graft_lose(&t->g, LOSS_UNCLOSED_FRAME, 1);
        if (!unclosed && !o->ended && o->end_ns < t->last_ns)
            graft_lose(&t->g, LOSS_OVERLAPPING_FRAME, 1);
        if (!o->ended && !tr_advance(t, unclosed ? end_ns : o->end_ns, e)) return false;
        tr_pop(t);
    }
    return true;
}

// ---- all threads

// By thread; begins and ends before complete events; by time. Of complete events that begin
// together the longest is the outermost. Others keep the order of the file.
static int tr_by_time(const void *one, const void *two)
{
    const struct tr_event *a = one;
    const struct tr_event *b = two;
    bool complete = a->kind == 'X';
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (complete != (b->kind == 'X')) return complete ? 1 : -1;
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns ? -1 : 1;
    if (a->dur_ns != b->dur_ns) return a->dur_ns > b->dur_ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

// Begins and ends are written when they happen, complete events when they end.
static void tr_count_unordered(struct tr *t, int64_t *latest)
{
    for (size_t i = 0; i < t->thread_count; i++)
        latest[i] = INT64_MIN;
    for (size_t i = 0; i < t->event_count; i++) {
        const struct tr_event *v = &t->events[i];
        if (v->kind == 'X') continue;
        if (v->at_ns < latest[v->thread])
            graft_lose(&t->g, LOSS_UNORDERED_TIME, 1);
        else
            latest[v->thread] = v->at_ns;
    }
}

// Should the begin or end come first, and not the complete event? An end at the time at which
// another event begins comes before it.
static bool tr_is_first(const struct tr_event *mark, const struct tr_event *complete)
{
    if (mark->at_ns != complete->at_ns) return mark->at_ns < complete->at_ns;
    return mark->kind == 'E' || mark->number < complete->number;
}

static bool tr_begin_thread(struct tr *t, uint32_t row, err *e)
{
    const struct tr_thread *thread = &t->threads[row];
    const struct profile_label labels[] = {{.key = S("thread"),
                                            .text = thread->name.n ? thread->name : thread->tid},
                                           {.key = S("pid"), .text = thread->pid}};
    return graft_root(&t->g, labels, COUNT(labels), &t->root, e);
}

static bool tr_make_thread(struct tr *t, size_t from, size_t to, err *e)
{
    size_t middle = from;
    int64_t end_ns = INT64_MIN;
    while (middle < to && t->events[middle].kind != 'X')
        middle++;
    for (size_t i = from; i < to; i++)
        end_ns = MAX(end_ns, t->events[i].at_ns + t->events[i].dur_ns);
    t->last_ns = INT64_MIN;
    t->begin = 0;
    if (!tr_begin_thread(t, t->events[from].thread, e)) return false;
    size_t mark = from;
    size_t complete = middle;
    while (mark < middle || complete < to) {
        bool first = complete == to ||
                     (mark < middle && tr_is_first(&t->events[mark], &t->events[complete]));
        if (!tr_step(t, &t->events[first ? mark++ : complete++], e)) return false;
    }
    return tr_finish(t, end_ns, e);
}

static bool tr_make(struct tr *t, err *e)
{
    int64_t *latest = ARENA_ARRAY(t->a, int64_t, t->thread_count);
    t->by_name = ARENA_ARRAY(t->a, uint32_t, t->g.s.p->function_count);
    if (!latest || !t->by_name) return arena_fail(t->a, e);
    tr_count_unordered(t, latest);
    if (t->event_count) qsort(t->events, t->event_count, sizeof *t->events, tr_by_time);
    for (size_t from = 0, to = 0; from < t->event_count; from = to) {
        while (to < t->event_count && t->events[to].thread == t->events[from].thread)
            to++;
        if (!tr_make_thread(t, from, to, e)) return false;
    }
    return true;
}

static int tr_by_thread(const void *one, const void *two)
{
    const struct trace_sample *a = one;
    const struct trace_sample *b = two;
    return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static bool tr_make_samples(struct tr *t, err *e)
{
    struct trace_samples *s = &t->samples;
    graft_lose(&t->g, LOSS_BAD_SAMPLE, s->bad);
    for (size_t i = 0; i < s->count; i++) {
        struct trace_sample *one = &s->samples[i];
        if (!tr_thread_row(t, one->pid, one->tid, &one->thread, e)) return false;
    }
    if (s->count) qsort(s->samples, s->count, sizeof *s->samples, tr_by_thread);
    for (size_t from = 0, to = 0; from < s->count; from = to) {
        while (to < s->count && s->samples[to].thread == s->samples[from].thread)
            to++;
        if (!tr_begin_thread(t, s->samples[from].thread, e) ||
            !trace_samples_put(s, &t->g, t->root, TYPE_SAMPLES, from, to, e))
            return false;
    }
    return true;
}

// Only the type that is wanted stays.
static void tr_keep_type(struct profile *p, uint32_t type)
{
    for (uint32_t i = 0; i < p->sample_count; i++)
        p->values[i] = p->values[i * p->type_count + type];
    p->types[0] = p->types[type];
    p->type_count = 1;
}

static bool tr_whole(struct tr *t, struct profile **p, err *e)
{
    if (!tr_read(t, e)) return false;
    uint64_t bad = t->g.s.p->losses.count[LOSS_BAD_SAMPLE] + t->samples.bad;
    if (t->event_count == 0 && t->samples.count == 0 && bad) {
        return err_set(
            e, ERR_INVALID_ARGUMENT,
            "of this trace's %llu events B, E or X and samples, none has a ts, and an X a "
            "dur that is not negative, or a weight, that can be read",
            (unsigned long long)bad);
    }
    if (t->event_count == 0 && t->samples.count == 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "there is no event B, E or X in this trace, and no sample");
    }
    if (!tr_make(t, e) || !tr_make_samples(t, e) || !graft_finish(&t->g, p, e)) return false;
    if ((*p)->type_count > 1 && t->samples.count == 0) tr_keep_type(*p, TYPE_WALL);
    if ((*p)->type_count > 1 && t->event_count == 0) tr_keep_type(*p, TYPE_SAMPLES);
    return true;
}

bool decode_trace(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e)
{
    static const struct profile_type types[] = {[TYPE_WALL] = {S_INIT("wall"),
                                                               S_INIT("nanoseconds")},
                                                [TYPE_SAMPLES] = {S_INIT("samples"),
                                                                  S_INIT("count")}};
    struct tr t = {.a = a};
    struct profile *p = NULL;
    uint32_t type_count = tool_has_key(bytes, S("\"samples\"")) ? COUNT(types) : 1;
    map_init(&t.thread_rows, a->budget);
    trace_samples_init(&t.samples, a, bytes.n);
    json_reader_init(&t.json, a, str_trim(bytes));
    bool ok = graft_begin(&t.g, a, bytes.n, o, types, type_count, e) && tr_whole(&t, &p, e);
    graft_release(&t.g);
    trace_samples_release(&t.samples);
    map_release(&t.thread_rows);
    if (ok) *out = (struct decoded){p, 1};
    return ok;
}
