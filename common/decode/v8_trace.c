// SPDX-License-Identifier: Apache-2.0
//
// v8_trace.c - the CPU profiles in a trace of Chrome.
//
//     {"name":"Profile",      "pid":1, "tid":2, "id":"0x1", "ts":5,
//     "args":{"data":{"startTime":5}}}
//     {"name":"ProfileChunk", "pid":1, "tid":3, "id":"0x1", "ts":9, "args":{"data":{
//         "cpuProfile":{"nodes":[..], "samples":[..]}, "timeDeltas":[..]}}}
//     {"name":"CpuProfile",   "pid":1, "tid":2, "ts":9, "args":{"data":{"cpuProfile":{..}}}}
//     {"name":"thread_name",  "pid":1, "tid":2, "args":{"name":"CrRendererMain"}}
//
// Fields have any order, and so have events, because threads write theirs in blocks. So a first
// pass finds the events above and keeps the text of their arguments; all others are only skipped.
// Then the pieces are read in the order of their times.
#include "base/hash.h"
#include "base/map.h"
#include "decode/json_values.h"
#include "decode/plain.h"
#include "decode/v8_int.h"

#include <stdlib.h>

#define PID_DIGITS 20

// Values as they are in the text, strings with their quotes.
struct event {
    str name;
    str pid;
    str tid;
    str id;
    str ts;
    str args;
};

struct recording {
    struct v8 v8;
    str pid;
    str tid;  // the thread that was sampled; empty: only its pieces are there
    str id;
    size_t bytes;  // of its pieces
};

struct piece {
    size_t recording;  // row
    double ts;
    size_t number;
    str args;
};

struct thread {
    str pid;
    str tid;
    str name;
};

struct trace {
    struct json_reader json;
    struct arena *a;
    struct map known;  // rows of recordings
    struct recording **recordings;
    size_t recording_count;
    size_t recording_cap;
    struct piece *pieces;
    size_t piece_count;
    size_t piece_cap;
    struct map thread_rows;
    struct thread *threads;
    size_t thread_count;
    size_t thread_cap;
    struct losses losses;  // of the text; told with the first profile
};

static str unquoted(str s)
{
    bool quoted = s.n >= 2 && s.p[0] == '"';
    return quoted ? str_slice(s, 1, s.n - 1) : s;
}

// ---- what is kept of events

static uint64_t hash_of(str one, str two)
{
    return hash_table_and(hash_table_str(one), hash_table_str(two));
}

struct probe {
    const struct trace *t;
    str pid;
    str other;  // id or tid
};

static bool same_recording(const void *ctx, uint32_t row)
{
    const struct probe *want = ctx;
    const struct recording *r = want->t->recordings[row];
    return str_eq(r->pid, want->pid) && str_eq(r->id, want->other);
}

static bool same_thread(const void *ctx, uint32_t row)
{
    const struct probe *want = ctx;
    const struct thread *one = &want->t->threads[row];
    return str_eq(one->pid, want->pid) && str_eq(one->tid, want->other);
}

static bool add_recording(struct trace *t, const struct event *v, size_t *row, err *e)
{
    if (t->recording_count == UINT32_MAX)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u profiles", UINT32_MAX);
    struct recording *r = ARENA_NEW(t->a, struct recording);
    if (!r || !arena_grow(t->a, &t->recordings, &t->recording_cap, t->recording_count + 1,
                          sizeof *t->recordings)) {
        return arena_fail(t->a, e);
    }
    *r = (struct recording){.v8 = {.a = t->a}, .pid = v->pid, .id = v->id};
    *row = t->recording_count;
    t->recordings[t->recording_count++] = r;
    return true;
}

// The recording with the event's process and id, which is new at its first event.
static bool find_recording(struct trace *t, const struct event *v, size_t *row, err *e)
{
    uint64_t hash = hash_of(v->pid, v->id);
    uint32_t known = map_find(&t->known, hash, same_recording, &(struct probe){t, v->pid, v->id});
    *row = known;
    return known != MAP_NONE ||
           (add_recording(t, v, row, e) && map_put(&t->known, hash, (uint32_t)*row, e));
}

static bool add_piece(struct trace *t, const struct event *v, size_t row, err *e)
{
    size_t n = t->piece_count + 1;
    struct piece piece = {.recording = row, .number = t->piece_count, .args = v->args};
    if (v->ts.n && !json_double(unquoted(v->ts), &piece.ts)) piece.ts = 0;
    if (!arena_grow(t->a, &t->pieces, &t->piece_cap, n, sizeof *t->pieces))
        return arena_fail(t->a, e);
    t->pieces[t->piece_count++] = piece;
    t->recordings[row]->bytes += v->args.n;
    return true;
}

// Of {"name": "CrRendererMain"}; empty if it has none.
static str name_of_thread(struct trace *t, str args)
{
    struct json_reader r;
    json_reader_init(&r, t->a, args);
    if (json_next(&r) != JSON_OBJECT) return (str){0};
    while (json_next(&r) == JSON_KEY) {
        if (str_is(r.text, "name")) return json_next(&r) == JSON_STRING ? r.text : (str){0};
        if (!json_skip(&r)) break;
    }
    return (str){0};
}

static bool add_thread(struct trace *t, const struct event *v, err *e)
{
    uint64_t hash = hash_of(v->pid, v->tid);
    struct probe want = {t, v->pid, v->tid};
    if (map_find(&t->thread_rows, hash, same_thread, &want) != MAP_NONE) return true;
    if (t->thread_count == UINT32_MAX)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u threads", UINT32_MAX);
    if (!arena_grow(t->a, &t->threads, &t->thread_cap, t->thread_count + 1, sizeof *t->threads))
        return arena_fail(t->a, e);
    t->threads[t->thread_count] = (struct thread){v->pid, v->tid, name_of_thread(t, v->args)};
    return map_put(&t->thread_rows, hash, (uint32_t)t->thread_count++, e);
}

static bool keep_event(struct trace *t, const struct event *v, err *e)
{
    size_t row = 0;
    bool chunk = str_is(v->name, "\"ProfileChunk\"");
    if (str_is(v->name, "\"thread_name\"")) return add_thread(t, v, e);
    if (chunk || str_is(v->name, "\"Profile\"")) {
        if (!find_recording(t, v, &row, e)) return false;
    } else if (str_is(v->name, "\"CpuProfile\"")) {
        // The whole profile, which no other event adds to.
        if (!add_recording(t, v, &row, e)) return false;
    } else {
        return true;
    }
    // Pieces are written by the thread that samples.
    if (!chunk) t->recordings[row]->tid = v->tid;
    return add_piece(t, v, row, e);
}

// ---- the first pass

// The text of the next value.
static bool take(struct trace *t, str *out, err *e)
{
    size_t from = t->json.at;
    if (!json_pass(&t->json, e)) return false;
    *out = str_trim(str_slice(t->json.all, from, t->json.at));
    return true;
}

// An event, whose brace has been read.
static bool read_event(struct trace *t, err *e)
{
    struct event v = {0};
    str id2 = {0};
    const struct {
        str key;
        str *value;
    } fields[] = {{S("name"), &v.name}, {S("pid"), &v.pid}, {S("tid"), &v.tid},  {S("id"), &v.id},
                  {S("id2"), &id2},     {S("ts"), &v.ts},   {S("args"), &v.args}};
    enum json_token token = json_next(&t->json);
    for (; token == JSON_KEY; token = json_next(&t->json)) {
        str other = {0};
        str *value = &other;
        for (size_t i = 0; i < COUNT(fields); i++) {
            if (str_eq(t->json.text, fields[i].key)) value = fields[i].value;
        }
        if (!take(t, value, e)) return false;
    }
    if (token != JSON_OBJECT_END) return json_broken(&t->json, "an event", e);
    // {"local": ..} or {"global": ..}, of newer versions.
    if (!v.id.n) v.id = id2;
    return keep_event(t, &v, e);
}

static size_t behind_spaces(str s, size_t at)
{
    while (at < s.n && (s.p[at] == ' ' || s.p[at] == '\t' || s.p[at] == '\r' || s.p[at] == '\n'))
        at++;
    return at;
}

// Whether only the end of a list is missing. Looks no further than the next event, because it is
// asked at each.
static bool is_cut(const struct trace *t)
{
    size_t at = behind_spaces(t->json.all, t->json.at);
    if (at < t->json.all.n && t->json.all.p[at] == ',') at = behind_spaces(t->json.all, at + 1);
    return at == t->json.all.n;
}

// A list of events, whose bracket has been read. may_end: its end may be missing.
static bool read_events(struct trace *t, bool may_end, bool *cut, err *e)
{
    for (;;) {
        if (may_end && is_cut(t)) {
            *cut = true;
            return true;
        }
        enum json_token token = json_next(&t->json);
        if (token == JSON_ARRAY_END) return true;
        if (token != JSON_OBJECT) return json_broken(&t->json, "an event", e);
        if (!read_event(t, e)) return false;
    }
}

static bool read_object(struct trace *t, err *e)
{
    bool cut = false;
    enum json_token token = json_next(&t->json);
    for (; token == JSON_KEY; token = json_next(&t->json)) {
        bool ok = true;
        if (!str_is(t->json.text, "traceEvents"))
            ok = json_pass(&t->json, e);
        else if (json_next(&t->json) == JSON_ARRAY)
            ok = read_events(t, false, &cut, e);
        else
            ok = json_broken(&t->json, "a list of events", e);
        if (!ok) return false;
    }
    return token == JSON_OBJECT_END || json_broken(&t->json, "a field", e);
}

static bool read_trace(struct trace *t, err *e)
{
    bool cut = false;
    enum json_token first = json_next(&t->json);
    if (first == JSON_ARRAY) {
        if (!read_events(t, true, &cut, e)) return false;
    } else if (first == JSON_OBJECT) {
        if (!read_object(t, e)) return false;
    } else {
        return json_broken(&t->json, "a list of events, or an object", e);
    }
    return cut || json_next(&t->json) == JSON_END || json_broken(&t->json, "one trace", e);
}

// ---- the pieces

// Goes into the object that is the next value; another value is skipped, and *none is true.
static bool enter(struct json_reader *r, bool *none, err *e)
{
    struct json_reader ahead = *r;
    *none = json_next(&ahead) != JSON_OBJECT;
    if (*none) return json_pass(r, e);
    *r = ahead;
    return true;
}

// {"data": {"cpuProfile": {profile}, fields of a profile}}
static bool read_data(struct v8 *v, err *e)
{
    enum json_token token = json_next(&v->json);
    for (; token == JSON_KEY; token = json_next(&v->json)) {
        bool none = true;
        bool inner = str_is(v->json.text, "cpuProfile");
        if (inner && !enter(&v->json, &none, e)) return false;
        if (inner ? !none && !v8_fields(v, e) : !v8_field(v, e)) return false;
    }
    return token == JSON_OBJECT_END || json_broken(&v->json, "a field", e);
}

static bool read_piece(struct trace *t, const struct piece *piece, err *e)
{
    struct v8 *v = &t->recordings[piece->recording]->v8;
    bool none = true;
    if (piece->args.n == 0) return true;
    json_reader_init(&v->json, t->a, piece->args);
    v8_begin_piece(v);
    if (!enter(&v->json, &none, e)) return false;
    if (none) return true;
    enum json_token token = json_next(&v->json);
    for (; token == JSON_KEY; token = json_next(&v->json)) {
        none = true;
        if (str_is(v->json.text, "data") ? !enter(&v->json, &none, e) : !json_pass(&v->json, e))
            return false;
        if (!none && !read_data(v, e)) return false;
    }
    return token == JSON_OBJECT_END || json_broken(&v->json, "arguments", e);
}

static int by_time(const void *one, const void *two)
{
    const struct piece *a = one;
    const struct piece *b = two;
    if (a->ts != b->ts) return a->ts < b->ts ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool read_pieces(struct trace *t, err *e)
{
    if (t->piece_count) qsort(t->pieces, t->piece_count, sizeof *t->pieces, by_time);
    for (size_t i = 0; i < t->piece_count; i++) {
        const struct piece *piece = &t->pieces[i];
        if (read_piece(t, piece, e)) continue;
        return err_wrap(e, "arguments at byte %zu", (size_t)(piece->args.p - t->json.all.p));
    }
    return true;
}

// ---- the profiles

static str name_of(const struct trace *t, const struct recording *r)
{
    struct probe want = {t, r->pid, r->tid};
    uint32_t row = map_find(&t->thread_rows, hash_of(r->pid, r->tid), same_thread, &want);
    if (row != MAP_NONE && t->threads[row].name.n) return t->threads[row].name;
    // A number or a text, but not an object {"local": ..} or a text with escapes.
    str id = unquoted(r->id);
    bool odd = str_find(id, '{') < id.n || str_find(id, '\\') < id.n;
    return odd ? (str){0} : id;
}

// All samples of a profile have the process as a label, because several processes may have threads
// of one name.
static bool add_pid(struct trace *t, const struct recording *r, struct profile *p, err *e)
{
    str pid = unquoted(r->pid);
    int64_t number = 0;
    if (pid.n > PID_DIGITS || !str_i64(pid, &number)) return true;
    p->labels = ARENA_ARRAY(t->a, struct profile_label, p->sample_count);
    if (!p->labels) return arena_fail(t->a, e);
    p->label_count = p->sample_count;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        p->labels[i] = (struct profile_label){.key = S("pid"), .text = pid};
        p->samples[i].first_label = i;
        p->samples[i].label_count = 1;
    }
    return true;
}

static bool make_profiles(struct trace *t, const struct decode_options *o, struct decoded *out,
                          err *e)
{
    struct profile *all = ARENA_ARRAY(t->a, struct profile, t->recording_count);
    size_t n = 0;
    size_t empty = 0;
    if (!all) return arena_fail(t->a, e);
    for (size_t i = 0; i < t->recording_count; i++) {
        struct recording *r = t->recordings[i];
        struct profile *p = NULL;
        // Begun, and without a piece: nothing was sampled, or the trace was cut.
        if (!r->v8.has_nodes && r->v8.sample_count == 0) {
            empty++;
            continue;
        }
        if (!v8_finish(&r->v8, r->bytes, o, &p, e) || !add_pid(t, r, p, e))
            return err_wrap(e, "profile %.*s of process %.*s", STR(str_slice(r->id, 0, 64)),
                            STR(str_slice(r->pid, 0, 64)));
        p->name = name_of(t, r);
        p->encoded_bytes = decode_pprof_size(p);
        all[n++] = *p;
    }
    if (n == 0 && empty) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "there is no CPU profile in this trace: %zu begin, and their pieces "
                       "(ProfileChunk) are missing",
                       empty);
    }
    if (n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "there is no CPU profile in this trace");
    losses_merge(&all[0].losses, &t->losses);
    *out = (struct decoded){all, n};
    return arena_ok(t->a, e);
}

bool decode_chrome(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e)
{
    struct trace t = {.a = a};
    if (o->inflated_max && bytes.n > o->inflated_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "trace of %zu bytes, limit %zu", bytes.n,
                       o->inflated_max);
    }
    if (!plain_json(a, bytes, &t.losses, &bytes, e)) return false;
    map_init(&t.known, a->budget);
    map_init(&t.thread_rows, a->budget);
    json_reader_init(&t.json, a, bytes);
    bool ok = read_trace(&t, e) && read_pieces(&t, e) && make_profiles(&t, o, out, e);
    map_release(&t.known);
    map_release(&t.thread_rows);
    return ok;
}
