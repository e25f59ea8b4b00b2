// SPDX-License-Identifier: Apache-2.0
//
// ingest.c - one upload: parameters, format, labels, then the pipeline, and the answer that SDKs
// know.
//
// The status of an error depends on where it was met. A bad name, and text that is refused after it
// was parsed, answer with the status of the error's code. A fault in a body, and every fault of
// pprof, is 422 "unknown", unless the tenant is at a limit (429). SDKs only check for 200.
#include "distributor/ingest.h"

#include "codec/attime.h"
#include "codec/multipart.h"
#include "codec/url.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/tools.h"
#include "distributor/ingest_name.h"
#include "distributor/ingest_type.h"
#include "distributor/loss_note.h"
#include "distributor/metrics.h"
#include "distributor/state.h"
#include "intake/text.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define STATUS_OK            200
#define STATUS_TOO_LARGE     413
#define STATUS_UNPROCESSABLE 422
#define STATUS_TOO_MANY      429
#define DEFAULT_SAMPLE_RATE  100
#define NS_OF_1971           (INT64_C(365) * 86400 * 1000000000)
#define UPLOAD_PERIOD_MAX_S  60  // agents upload every 10 or 15 s
#define LABELS_ADDED         6
#define MIB                  ((double)(1 << 20))

enum format {
    FORMAT_FOLDED,
    FORMAT_LINES,
    FORMAT_PPROF,
    FORMAT_PPROF_MULTIPART,
    FORMAT_TRIE,
    FORMAT_TREE,
    FORMAT_JFR,
    FORMAT_SPEEDSCOPE,
    FORMAT_PERF,
    FORMAT_LEGACY,
    FORMAT_CPUPROFILE,
    FORMAT_HEAPPROFILE,
    FORMAT_CHROME,
    FORMAT_TOOL  // a row of decode/tools.def
};

struct upload {
    struct request q;
    struct http_exchange *x;
    struct arena *a;
    struct arena scratch;  // of the profile
    struct ingest_name name;
    str spy;
    int64_t from_ns;
    int64_t until_ns;
    int64_t sample_rate;  // DEFAULT_SAMPLE_RATE if the request has none
    bool rate_given;
    str event;  // of a recording: what was sampled
    enum format format;
    enum tool tool;  // of FORMAT_TOOL
    err refused;     // the error in an answer that was made here
};

// ---- answers

static void count_malformed(struct upload *u, const err *why)
{
    assert(why->code != ERR_OK);
    pipeline_refuse_unread(&u->q.in, DISCARD_MALFORMED_PROFILE, u->x->body.n, why);
}

// Answers a failure in reading or storing the body. True: the exchange has its answer.
static bool unprocessable(struct upload *u, const char *where, const err *why)
{
    err e = *why;
    assert(why->code != ERR_OK && u->refused.code == ERR_OK);  // one answer for each request
    err_wrap(&e, "%s", where);
    u->refused = e;
    bool limit = why->code == ERR_RESOURCE_EXHAUSTED;
    if (u->q.too_large) {
        route_error(u->x, STATUS_TOO_LARGE, e.code, e.msg);
        return true;
    }
    route_error(u->x, limit ? STATUS_TOO_MANY : STATUS_UNPROCESSABLE,
                limit ? ERR_RESOURCE_EXHAUSTED : ERR_UNKNOWN, e.msg);
    return true;
}

static bool accepted(struct upload *u)
{
    u->x->status = STATUS_OK;
    return true;
}

// ---- parameters

static str parameter(struct upload *u, const char *key)
{
    str value = {0};
    return url_query(u->a, u->x->query, key, &value) ? value : (str){0};
}

static enum format format_of(struct upload *u)
{
    static const struct {
        str name;
        enum format format;
    } formats[] = {
        {S_INIT("lines"), FORMAT_LINES},
        {S_INIT("jfr"), FORMAT_JFR},
        {S_INIT("pprof"), FORMAT_PPROF},
        {S_INIT("speedscope"), FORMAT_SPEEDSCOPE},
        {S_INIT("perf"), FORMAT_PERF},
        {S_INIT("legacy"), FORMAT_LEGACY},
        {S_INIT("cpuprofile"), FORMAT_CPUPROFILE},
        {S_INIT("heapprofile"), FORMAT_HEAPPROFILE},
        {S_INIT("chrome"), FORMAT_CHROME},
    };
    str format = parameter(u, "format");
    str type = http_headers_get(&u->x->headers, "content-type");
    // In Pyroscope's order: the trie and tree of old SDKs may be named by the content type alone,
    // and they win over `format`. What is left, and is no form, is collapsed text.
    if (str_is(format, "trie") || str_is(type, "binary/octet-stream+trie")) return FORMAT_TRIE;
    if (str_is(format, "tree") || str_is(type, "binary/octet-stream+tree")) return FORMAT_TREE;
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (str_eq(format, formats[i].name)) return formats[i].format;
    }
    u->tool = tool_named(format);
    if (u->tool != TOOL_COUNT) return FORMAT_TOOL;
    return str_contains(type, S("multipart/form-data")) ? FORMAT_PPROF_MULTIPART : FORMAT_FOLDED;
}

// Absent, empty and 0 mean now.
static bool ingest_read_time(struct upload *u, const char *key, int64_t *ns, err *e)
{
    str text = parameter(u, key);
    *ns = u->q.in.now_ns;
    if (text.n == 0) return true;
    if (!attime_parse(text, u->q.in.now_ns, ns, e)) return err_wrap(e, "%s", key);
    if (*ns == 0) *ns = u->q.in.now_ns;
    return *ns > 0 || err_set(e, ERR_INVALID_ARGUMENT, "%s: '%.*s' is before 1970", key,
                              STR(text_shown(text)));
}

// Whether `until` is the begin of the period in which the upload began: agents in Go cut the end of
// their last upload to a multiple of the period in which they upload, and not its begin.
static bool ends_in_its_period(const struct upload *u)
{
    return u->until_ns % NS_PER_S == 0 && u->from_ns % NS_PER_S != 0 &&
           u->from_ns - u->until_ns < UPLOAD_PERIOD_MAX_S * NS_PER_S;
}

// A range that ends before it begins has no right reading: which of the two is wrong?
static bool ingest_read_range(struct upload *u, err *e)
{
    str from = parameter(u, "from");
    str until = parameter(u, "until");
    if (!ingest_read_time(u, "from", &u->from_ns, e) ||
        !ingest_read_time(u, "until", &u->until_ns, e))
        return false;
    // Only times that were sent can contradict each other: `from` alone may be of a clock that is a
    // little ahead.
    if (u->from_ns <= u->until_ns || from.n == 0 || until.n == 0) return true;
    if (ends_in_its_period(u)) {
        u->until_ns = u->from_ns;
        return true;
    }
    int64_t ahead = 0;
    int64_t newest = u->q.limits->reject_newer_than;
    bool outside = newest > 0 && !__builtin_sub_overflow(u->from_ns, u->q.in.now_ns, &ahead) &&
                   ahead >= newest;
    return err_set(e, ERR_INVALID_ARGUMENT, "from: '%.*s' is after until '%.*s'%s",
                   STR(text_shown(from)), STR(text_shown(until)),
                   outside ? ", and outside of ingestion window" : "");
}

static bool read_parameters(struct upload *u, err *e)
{
    if (!ingest_name_parse(u->a, parameter(u, "name"), &u->name, e)) {
        (void)!err_wrap(e, "name");
        pipeline_refuse_unread(&u->q.in, DISCARD_INVALID_LABELS, u->x->body.n, e);
        return false;
    }
    // Later errors are logged with the service, so it is set as soon as the name is known.
    str service = ingest_name_get(&u->name, LABEL_SERVICE);
    u->q.in.service = service.n ? service : u->name.app;
    if (!ingest_read_range(u, e)) {
        count_malformed(u, e);
        return false;
    }
    u->spy = parameter(u, "spyName");
    if (u->spy.n == 0) u->spy = S("unknown");
    int64_t rate = 0;
    u->rate_given = str_i64(parameter(u, "sampleRate"), &rate) && rate >= 0 && rate <= UINT32_MAX;
    u->sample_rate = u->rate_given ? rate : DEFAULT_SAMPLE_RATE;
    u->format = format_of(u);
    return arena_ok(u->a, e);
}

// ---- labels

struct label_list {
    label *v;
    size_t n;
};

// Adds a label unless there is one with this name.
static void put(struct label_list *l, str name, str value)
{
    // The first one wins. The labels above those of the client are put first, so it cannot replace
    // them.
    if (!labels_has((labels){l->v, l->n}, name)) l->v[l->n++] = (label){name, value};
}

// `app` becomes service_name. If the client gave a service_name, even an empty one, `app` becomes
// app_name if keep_app. part is the name of one of several profiles in a body, or empty.
static bool make_labels(struct upload *u, str profile_name, str app, str part, bool keep_app,
                        struct pipeline_item *item, err *e)
{
    struct label_list l = {.v = ARENA_ARRAY(u->a, label, u->name.count + LABELS_ADDED)};
    if (!l.v) return arena_fail(u->a, e);
    put(&l, S(LABEL_NAME), profile_name);
    put(&l, S("__delta__"), S("false"));
    put(&l, S("pyroscope_spy"), u->spy);
    if (part.n) put(&l, S("profile_name"), part);
    if (u->event.n) put(&l, S("jfr_event"), u->event);
    for (size_t i = 0; i < u->name.count; i++) {
        label one = u->name.labels[i];
        // Names with two underscores are storage's own, so a client may not set them; only the
        // session is sent that way.
        bool is_private = str_starts(one.name, S("__")) && !str_is(one.name, "__session_id__");
        if (!is_private) put(&l, one.name, one.value);
    }
    bool named = labels_has((labels){l.v, l.n}, S(LABEL_SERVICE));
    if (!named) put(&l, S(LABEL_SERVICE), app);
    if (named && keep_app) put(&l, S("app_name"), app);
    assert(l.n <= u->name.count + LABELS_ADDED);
    item->labels = l.v;
    item->label_count = l.n;
    return true;
}

// How long an upload says that it took; 0 if it names one time only.
static int64_t stated_duration(struct upload *u)
{
    bool both = parameter(u, "from").n && parameter(u, "until").n;
    return both ? MAX(u->until_ns - u->from_ns, 0) : 0;
}

// ---- text, and other formats without types of their own

static bool decode_text(struct upload *u, struct decoded *d, err *e)
{
    struct decode_options o = {
        .symbol_max = (uint32_t)MIN(u->q.limits->max_profile_symbol_value_length, INT32_MAX)};
    str body = buf_view(&u->x->body);
    switch (u->format) {
    case FORMAT_LINES:
        return decode_lines(&u->scratch, body, &o, d, e);
    case FORMAT_TRIE:
        return decode_trie(&u->scratch, body, &o, d, e);
    case FORMAT_TREE:
        // Else names are cut, and samples are counted, as of any other format.
        if (u->q.limits->refuses_faulty) {
            o.node_name_max = o.symbol_max;
            o.node_children_max = (uint64_t)MAX(u->q.limits->max_profile_stacktrace_samples, 0);
        }
        return decode_tree(&u->scratch, body, &o, d, e);
    case FORMAT_SPEEDSCOPE:
        return decode_speedscope(&u->scratch, body, &o, d, e);
    case FORMAT_PERF:
        return decode_perf(&u->scratch, body, &o, d, e);
    default:
        return decode_folded(&u->scratch, body, &o, d, e);
    }
}

// The type that a speedscope profile's unit means, where the application's name says only that it
// is time: bytes are no time, and a number without a unit is none unless a rate is given.
static bool type_of_unit(struct upload *u, const struct profile *p, bool several,
                         struct ingest_type *type, err *e)
{
    bool counted = str_is(p->unit, "none") && u->rate_given && u->sample_rate > 0;
    bool no_time = (str_is(p->unit, "none") && !counted) || str_is(p->unit, "bytes");
    if (!several && (!no_time || !ingest_type_is_time(type))) return true;
    str app = several ? u->name.app : type->app;
    str suffix = counted ? S("cpu") : p->unit;
    str typed = arena_printf(u->a, "%.*s.%.*s", STR(app), STR(suffix));
    return arena_ok(u->a, e) && ingest_type_of_app(typed, type, e);
}

// Of several events of perf, and where the name says only that it is time, one that is no time is a
// type of its own.
static void ingest_type_of_event(const struct profile *p, bool several, struct ingest_type *type)
{
    if (str_is(p->types[0].type, "samples") || (!several && !ingest_type_is_time(type))) return;
    type->name = S("perf");
    type->sample_type = p->types[0].type;
    type->sample_unit = p->types[0].unit;
}

// What was measured, by the suffix of the application's name. Of several profiles in a body each
// has its unit as the suffix.
static bool type_text(struct upload *u, struct profile *p, bool several, struct ingest_type *type,
                      err *e)
{
    int64_t rate = u->rate_given ? u->sample_rate : INGEST_RATE_OF_FILE;
    bool scoped = u->format == FORMAT_SPEEDSCOPE;
    if ((!scoped || !several) && !ingest_type_of_app(u->name.app, type, e)) return false;
    if (scoped && !type_of_unit(u, p, several, type, e)) return false;
    if (u->format == FORMAT_PERF) ingest_type_of_event(p, several, type);
    ingest_type_column(type, rate, p);
    return ingest_text_sums(&u->scratch, p, e) && ingest_type_apply(type, rate, p, e);
}

// All types before the first profile is pushed: what is refused is refused as a whole.
static bool push_text(struct upload *u, const struct decoded *d, err *e)
{
    struct ingest_type *types = ARENA_ARRAY(u->a, struct ingest_type, d->count);
    if (!types) return arena_fail(u->a, e);
    for (size_t i = 0; i < d->count; i++) {
        if (type_text(u, &d->profiles[i], d->count > 1, &types[i], e)) continue;
        count_malformed(u, e);
        return false;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct profile *p = &d->profiles[i];
        struct pipeline_item item = {.bytes = i ? (str){0} : buf_view(&u->x->body)};
        if (!make_labels(u, types[i].name, types[i].app, p->name, true, &item, e)) return false;
        p->time_ns = u->from_ns;
        if (p->duration_ns <= 0) p->duration_ns = stated_duration(u);
        assert(p->type_count == 1);  // text has one kind of value
        pipeline_profile(&u->q.in, &u->scratch, p, true, &item);
    }
    if (!request_send(&u->q, e)) return false;
    if (u->q.in.failed) *e = u->q.in.first;
    return !u->q.in.failed;
}

static bool run_text(struct upload *u, err *e)
{
    static const char *const parsing[] = {
        [FORMAT_FOLDED] = "parsing collapsed text failed",
        [FORMAT_LINES] = "parsing collapsed text failed",
        [FORMAT_TRIE] = "parsing IngestInput-trie failed",
        [FORMAT_TREE] = "parsing IngestInput-tree failed",
        [FORMAT_SPEEDSCOPE] = "parsing IngestInput-speedscope failed",
        [FORMAT_PERF] = "parsing IngestInput-perf failed",
    };
    struct decoded d = {0};
    err why = {0};
    if (!decode_text(u, &d, &why)) {
        count_malformed(u, &why);
        return unprocessable(u, parsing[u->format], &why);
    }
    // A name with a profile_id was once the profile of one span: accepted, and not stored.
    if (ingest_name_get(&u->name, "profile_id").n) return accepted(u);
    if (push_text(u, &d, e)) return accepted(u);
    if (u->q.too_large) return unprocessable(u, "pushing failed", e);
    return u->format == FORMAT_SPEEDSCOPE && unprocessable(u, parsing[u->format], e);
}

// ---- pprof

struct parts {
    str profile;
    str previous;
    str config;
};

struct part_name {
    str name;
    str *to;
};

// Only parts of a form that are files, with a file name, are looked at; of several the first, as in
// Pyroscope. Senders that do not know it would lose a profile in silence, so the others are told.
static void take_parts(struct upload *u, const struct multipart_part *parts, size_t n,
                       const struct part_name *names, size_t name_count)
{
    for (size_t i = 0; i < n; i++) {
        bool taken = false;
        for (size_t k = 0; k < name_count && parts[i].filename.n; k++) {
            if (!str_eq(parts[i].name, names[k].name) || names[k].to->p) continue;
            *names[k].to = parts[i].bytes;
            taken = true;
        }
        losses_add(&u->q.in.losses, LOSS_IGNORED_PART, !taken);
    }
    u->q.in.losses_service = u->q.in.service;
}

static bool find_parts(struct upload *u, struct parts *out, err *e)
{
    if (u->format == FORMAT_PPROF) {
        out->profile = buf_view(&u->x->body);
        return true;
    }
    struct multipart_part *parts = NULL;
    size_t n = 0;
    str type = http_headers_get(&u->x->headers, "content-type");
    if (!multipart_parse(u->a, type, buf_view(&u->x->body), &parts, &n, e)) return false;
    const struct part_name names[] = {{S("profile"), &out->profile},
                                      {S("prev_profile"), &out->previous},
                                      {S("sample_type_config"), &out->config}};
    take_parts(u, parts, n, names, COUNT(names));
    return true;
}

static bool decode_part(struct upload *u, str bytes, bool dotnet, struct decoded *d, err *e)
{
    struct pipeline *in = &u->q.in;
    struct decode_options o = {
        .inflated_max = pipeline_size_max(in),
        .symbol_max = (uint32_t)MIN(u->q.limits->max_profile_symbol_value_length, INT32_MAX),
        .repair_zero_function_ids = dotnet,
    };
    bool over_cap = false;
    if (decode_pprof(&u->scratch, bytes, &o, d, &over_cap, e)) return true;
    if (over_cap) {
        err_set(e, ERR_INVALID_ARGUMENT,
                "decompressed size exceeds maximum allowed size of %zu bytes", o.inflated_max);
    }
    pipeline_refuse_unread(in, over_cap ? DISCARD_PROFILE_SIZE_LIMIT : DISCARD_MALFORMED_PROFILE,
                           over_cap ? o.inflated_max : bytes.n, e);
    return false;
}

// Adapts profiles of agents that use pprof in ways of their own.
static bool adapt(struct upload *u, struct profile *p, bool dotnet, err *e)
{
    if (p->time_ns >= 0 && p->time_ns < NS_OF_1971) p->time_ns = u->from_ns;
    // Agents without a clock of their own send 0 or times since their start.
    bool python = str_is(u->spy, "pyspy");
    bool scripts = python || str_is(u->spy, "rbspy") || str_is(u->spy, "scripting");
    bool ok = (!scripts || ingest_pprof_scripts(&u->scratch, p, python)) &&
              (!dotnet || ingest_pprof_dashes(&u->scratch, p));
    // False from these functions always means that the arena is exhausted.
    assert(ok || u->scratch.exhausted);
    return arena_ok(&u->scratch, e) && ok;
}

static bool parse_pprof(struct upload *u, const struct parts *parts, struct pipeline_item *item,
                        struct profile **out, err *e)
{
    struct ingest_config config;
    struct decoded d = {0};
    if (parts->previous.n) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "unsupported client version. Please update "
                       "github.com/grafana/pyroscope-go to the latest version");
    }
    if (!ingest_config_parse(u->a, parts->config, &config, e)) return false;
    bool dotnet = str_is(u->spy, "dotnetspy") ||
                  (str_is(u->spy, "unknown") && ingest_config_has(&config, "inuse-space"));
    if (!decode_part(u, parts->profile, dotnet, &d, e)) return false;
    assert(d.profiles);
    if (!adapt(u, d.profiles, dotnet, e)) return false;
    *out = d.profiles;
    item->bytes = parts->profile;
    return make_labels(u, ingest_pprof_name(d.profiles, &config), u->name.app, (str){0}, false,
                       item, e);
}

static bool run_pprof(struct upload *u)
{
    struct parts parts = {0};
    struct pipeline_item item = {0};
    struct profile *p = NULL;
    err why = {0};
    const char *parsing = "parsing IngestInput-pprof failed";
    if (!find_parts(u, &parts, &why)) {
        count_malformed(u, &why);
        return unprocessable(u, parsing, &why);
    }
    if (parts.profile.n == 0) {  // a form without a profile: nothing to store, but parts to tell
        return request_send(&u->q, &why) ? accepted(u) : unprocessable(u, parsing, &why);
    }
    if (!parse_pprof(u, &parts, &item, &p, &why)) {
        // decode_part has counted its failures with a reason of their own.
        if (!u->q.in.failed) count_malformed(u, &why);
        return unprocessable(u, parsing, &why);
    }
    pipeline_profile(&u->q.in, &u->scratch, p, false, &item);
    bool sent = request_send(&u->q, &why);
    if (sent && !u->q.in.failed) return accepted(u);
    if (sent) why = u->q.in.first;
    // Pyroscope's words; its "id" is that of a series, which an upload does not have.
    char where[128];
    snprintf(where, sizeof where,
             "pushing IngestInput-pprof failed push series with index 0 and id  failed: %s",
             err_name(why.code));
    return unprocessable(u, where, &why);
}

// ---- JFR

struct recording_parts {
    str jfr;
    str labels;
    bool raw;  // no form: then only the limit of bodies holds, as in Pyroscope
};

static bool find_recording(struct upload *u, struct recording_parts *out, err *e)
{
    str type = http_headers_get(&u->x->headers, "content-type");
    if (!str_contains(type, S("multipart/form-data"))) {
        out->jfr = buf_view(&u->x->body);
        out->raw = jfr_is(out->jfr);
        return true;
    }
    struct multipart_part *parts = NULL;
    size_t n = 0;
    if (!multipart_parse(u->a, type, buf_view(&u->x->body), &parts, &n, e)) return false;
    const struct part_name names[] = {{S("jfr"), &out->jfr}, {S("labels"), &out->labels}};
    take_parts(u, parts, n, names, COUNT(names));
    return out->jfr.p || err_set(e, ERR_INVALID_ARGUMENT, "jfr field is required");
}

static bool parse_recording(struct upload *u, const struct recording_parts *parts,
                            struct jfr_recording *r, err *e)
{
    struct pipeline *in = &u->q.in;
    // Agents name 100 Hz whatever they sample with, so the recording's own settings count more. Our
    // client names a rate only if its user does.
    bool overrides = u->rate_given && str_is(u->spy, "flametree");
    struct decode_options o = {
        .inflated_max = parts->raw ? 0 : pipeline_size_max(in),
        .sample_rate = overrides ? u->sample_rate : 0,
        .sample_rate_else = u->rate_given ? u->sample_rate : 0,
        .allocation_class =
            u->q.limits->jfr_allocation_class || str_is(parameter(u, "allocationClass"), "true"),
        .symbol_max = (uint32_t)MIN(u->q.limits->max_profile_symbol_value_length, INT32_MAX),
    };
    bool over_cap = false;
    if (decode_jfr(&u->scratch, parts->jfr, parts->labels, &o, r, &over_cap, e)) return true;
    if (over_cap) {
        err_set(e, ERR_INVALID_ARGUMENT,
                "decompressed size exceeds maximum allowed size of %zu bytes", o.inflated_max);
    }
    pipeline_refuse_unread(in, over_cap ? DISCARD_PROFILE_SIZE_LIMIT : DISCARD_MALFORMED_PROFILE,
                           over_cap ? o.inflated_max : parts->jfr.n, e);
    return false;
}

static bool add_recording(struct upload *u, const struct recording_parts *parts,
                          const struct jfr_recording *r, err *e)
{
    u->event = r->event;
    for (size_t i = 0; i < r->profiles.count; i++) {
        struct profile *p = &r->profiles.profiles[i];
        struct pipeline_item item = {.bytes = parts->jfr};
        if (!make_labels(u, r->names[i], u->name.app, (str){0}, true, &item, e)) return false;
        p->time_ns = u->from_ns;
        p->duration_ns = stated_duration(u);
        pipeline_profile(&u->q.in, &u->scratch, p, true, &item);
    }
    return request_send(&u->q, e);
}

static bool run_recording(struct upload *u)
{
    struct recording_parts parts = {0};
    struct jfr_recording r = {0};
    err why = {0};
    const char *parsing = "parsing IngestInput-pprof failed";
    if (!find_recording(u, &parts, &why)) {
        count_malformed(u, &why);
        return unprocessable(u, parsing, &why);
    }
    if (parts.jfr.n == 0 && u->x->body.n == 0) return accepted(u);
    // Its failures are counted with reasons of their own.
    if (!parse_recording(u, &parts, &r, &why)) return unprocessable(u, parsing, &why);
    bool sent = add_recording(u, &parts, &r, &why);
    if (sent && !u->q.in.failed) return accepted(u);
    if (sent) why = u->q.in.first;
    char where[128];
    snprintf(where, sizeof where, "pushing IngestInput-pprof failed %s", err_name(why.code));
    return unprocessable(u, where, &why);
}

// ---- files of other tools, which have types of their own

static const struct tool_row older_tools[] = {
    [FORMAT_LEGACY] = {S_INIT("legacy"), decode_legacy},
    [FORMAT_CPUPROFILE] = {S_INIT("cpuprofile"), decode_cpuprofile},
    [FORMAT_HEAPPROFILE] = {S_INIT("heapprofile"), decode_heapprofile},
    [FORMAT_CHROME] = {S_INIT("chrome"), decode_chrome},
};

// "parsing" or "pushing"
static bool tool_failed(struct upload *u, const char *step, str name, const err *why)
{
    char where[64];
    snprintf(where, sizeof where, "%s IngestInput-%.*s failed", step, STR(name));
    return unprocessable(u, where, why);
}

// Named as a pprof of the same types is.
static bool add_profiles(struct upload *u, const struct decoded *d, err *e)
{
    static const struct ingest_config no_config;
    for (size_t i = 0; i < d->count; i++) {
        struct profile *p = &d->profiles[i];
        struct pipeline_item item = {.bytes = i ? (str){0} : buf_view(&u->x->body)};
        str name = ingest_pprof_name(p, &no_config);
        if (!make_labels(u, name, u->name.app, p->name, false, &item, e)) return false;
        p->time_ns = u->from_ns;
        if (p->duration_ns <= 0) p->duration_ns = stated_duration(u);
        pipeline_profile(&u->q.in, &u->scratch, p, true, &item);
    }
    return request_send(&u->q, e);
}

static bool run_tool(struct upload *u)
{
    struct decode_options o = {
        .symbol_max = (uint32_t)MIN(u->q.limits->max_profile_symbol_value_length, INT32_MAX)};
    struct decoded d = {0};
    err why = {0};
    str body = buf_view(&u->x->body);
    bool older = u->format != FORMAT_TOOL;
    const struct tool_row *tool = older ? &older_tools[u->format] : &tool_rows[u->tool];
    assert(tool->decode);
    if (!(older ? tool->decode(&u->scratch, body, &o, &d, &why)
                : tool_decode(u->tool, &u->scratch, body, &o, &d, &why))) {
        count_malformed(u, &why);
        return tool_failed(u, "parsing", tool->name, &why);
    }
    bool sent = add_profiles(u, &d, &why);
    if (sent && !u->q.in.failed) return accepted(u);
    if (sent) why = u->q.in.first;
    return tool_failed(u, "pushing", tool->name, &why);
}

// ---- the request

// Answers with u->refused; always false.
static bool too_large(struct upload *u, size_t bytes)
{
    assert(u->refused.code != ERR_OK);
    discard_add(&u->q.in.discards, DISCARD_BODY_SIZE_LIMIT, bytes);
    pipeline_fail(&u->q.in, DISCARD_BODY_SIZE_LIMIT, &u->refused);
    route_error(u->x, STATUS_TOO_LARGE, u->refused.code, u->refused.msg);
    return false;
}

static bool body_fits(struct upload *u)
{
    double limit = u->q.limits->ingestion_body_limit_mb * MIB;
    size_t n = u->x->body.n;
    if (limit <= 0 || (double)n <= limit) return true;
    err_set(&u->refused, ERR_INVALID_ARGUMENT,
            "request body too large: error reading request body bytes_read %zu: "
            "http: request body too large",
            (size_t)limit);
    return too_large(u, n);
}

// A pprof body with Content-Encoding gzip is the gzipped profile itself: the decoder inflates it,
// up to the limit of a profile. Files of text may be compressed too, as samply's are.
static bool inflate(struct upload *u, err *e)
{
    str how = http_headers_get(&u->x->headers, "content-encoding");
    if (u->format == FORMAT_PPROF && str_ieq(how, S("gzip"))) return true;
    // Others are text, which never begins as gzip or zstd does; old agents' trees and tries may.
    bool text = u->format != FORMAT_PPROF && u->format != FORMAT_PPROF_MULTIPART &&
                u->format != FORMAT_JFR && u->format != FORMAT_TRIE && u->format != FORMAT_TREE;
    if (route_body(u->x, u->x->body_max, e) && (!text || route_unpack(u->x, u->x->body_max, e)))
        return true;
    if (e->code != ERR_OUT_OF_RANGE) {
        if (err_http_status(e->code) < 500 || e->code == ERR_UNIMPLEMENTED) count_malformed(u, e);
        return false;
    }
    err_set(&u->refused, ERR_INVALID_ARGUMENT, "request body too large: %s", e->msg);
    return too_large(u, u->x->body_max);
}

// Only perf reads perf.data, and a server runs nothing that others sent.
static bool is_perf_data(struct upload *u)
{
    bool any = u->format == FORMAT_TRIE || u->format == FORMAT_TREE;  // any bytes may be these
    return str_is(parameter(u, "format"), "perf.data") ||
           (!any && tool_is_perf_data(buf_view(&u->x->body)));
}

static bool refuse_perf_data(struct upload *u)
{
    err why = {0};
    (void)err_set(&why, ERR_INVALID_ARGUMENT, "servers cannot read perf.data; %s",
                  TOOL_PERF_DATA_ADVICE);
    count_malformed(u, &why);
    return tool_failed(u, "parsing", S("perf.data"), &why);
}

static bool run_upload(struct upload *u, err *e)
{
    if (!read_parameters(u, e)) return false;
    if (!body_fits(u)) return true;
    // Both too_large cases have their answer, which is "true" for the router.
    if (!inflate(u, e)) return u->x->status == STATUS_TOO_LARGE;
    if (is_perf_data(u)) return refuse_perf_data(u);
    switch (u->format) {
    case FORMAT_FOLDED:
    case FORMAT_LINES:
    case FORMAT_TRIE:
    case FORMAT_TREE:
    case FORMAT_SPEEDSCOPE:
    case FORMAT_PERF:
        return run_text(u, e);
    case FORMAT_PPROF:
    case FORMAT_PPROF_MULTIPART:
        return run_pprof(u);
    case FORMAT_JFR:
        return run_recording(u);
    case FORMAT_LEGACY:
    case FORMAT_CPUPROFILE:
    case FORMAT_HEAPPROFILE:
    case FORMAT_CHROME:
    case FORMAT_TOOL:
        return run_tool(u);
    }
    abort();  // read_parameters knows no other format
}

void ingest_refused(void *self, const struct http_exchange *x, const err *e)
{
    request_refused(self, x, "ingest", e);
}

bool ingest_run(void *self, struct http_exchange *x, err *e)
{
    struct upload u = {.x = x, .a = &x->req.arena};
    // The scratch is as large as the request may be, but a separate arena: it holds one profile,
    // and what the request keeps is not freed with it.
    arena_init(&u.scratch, u.a->budget, u.a->cap);
    bool ok = request_begin(&u.q, self, &x->req, "ingest", e) && run_upload(&u, e);
    if (ok && x->status < 300) {
        loss_note_header(&u.q, x);
        request_delay(&u.q, x);
    }
    // Also where request_begin failed: the refusal is logged and counted (state.h).
    request_end(&u.q, !ok ? e : u.refused.code ? &u.refused : NULL, u.refused.code != ERR_OK);
    arena_release(&u.scratch);
    return ok;
}
