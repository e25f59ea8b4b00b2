// SPDX-License-Identifier: Apache-2.0
//
// cli_upload.c - finds out the format, checks the text, and makes the request for Push or /ingest.
#include "deploy/cli/cli_upload.h"

#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "codec/url.h"
#include "decode/decode.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/perf.h"
#include "decode/tools.h"
#include "deploy/cli/cli_formats.h"
#include "deploy/cli/cli_otlp.h"
#include "distributor/ingest_type.h"
#include "sys/clock.h"

#define INFLATED_MAX  ((size_t)2 << 30)
#define DECODED_MAX   ((size_t)4 << 30)
#define PATH_MAX_     ((size_t)64 << 10)
#define SNIFF_BYTES   ((size_t)64 << 10)
#define GZIP_LEVEL    3
#define PPROF_TIME    9u  // field time_nanos
#define STDIN_SERVICE S("stdin")
#define FOLDED_BYTES  ((size_t)64 << 20)
#define FOLDED_LINES  20  // of which one has a count, if the text is collapsed stacks

#define SPEEDSCOPE_SCHEMA "speedscope.app/file-format-schema.json"

static const struct {
    str name;
} formats[] = {
    [UPLOAD_AUTO] = {S_INIT("auto")},
    [UPLOAD_PPROF] = {S_INIT("pprof")},
    [UPLOAD_FOLDED] = {S_INIT("folded")},
    [UPLOAD_LINES] = {S_INIT("lines")},
    [UPLOAD_PERF] = {S_INIT("perf")},
    [UPLOAD_JFR] = {S_INIT("jfr")},
    [UPLOAD_SPEEDSCOPE] = {S_INIT("speedscope")},
    [UPLOAD_TRIE] = {S_INIT("trie")},
    [UPLOAD_TREE] = {S_INIT("tree")},
    [UPLOAD_OTLP] = {S_INIT("otlp")},
    [UPLOAD_CPUPROFILE] = {S_INIT("cpuprofile")},
    [UPLOAD_HEAPPROFILE] = {S_INIT("heapprofile")},
    [UPLOAD_LEGACY] = {S_INIT("legacy")},
    [UPLOAD_CHROME] = {S_INIT("chrome")},
    [UPLOAD_PERF_DATA] = {S_INIT("perf.data")},
#define TOOL(id, name, decoder) [UPLOAD_##id] = {S_INIT(name)},
#include "decode/tools.def"
};

enum upload_format upload_format_of(str name)
{
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (str_eq(formats[i].name, name)) return (enum upload_format)i;
    }
    return UPLOAD_AUTO;
}

// ---- detecting the format

// Is it "stack count"?
static bool is_folded_line(str line)
{
    size_t space = MIN(str_rfind(line, ' '), line.n);
    size_t tab = str_rfind(line, '\t');
    if (tab < line.n && (space == line.n || tab > space)) space = tab;
    str count = str_slice(line, space + 1, line.n);
    int64_t value = 0;
    return space < line.n && space > 0 &&
           (str_i64(count, &value) || (count.n && json_number_size(count) == count.n));
}

static bool is_printed(str line)
{
    for (size_t i = 0; i < line.n; i++) {
        if ((unsigned char)line.p[i] < ' ' && line.p[i] != '\t') return false;
    }
    return true;
}

// Has one of the first lines a count? A line may be bad, but not all.
static bool is_folded(str bytes)
{
    // Whole lines: one of many frames is long.
    str rest = decode_folded_body(str_slice(bytes, 0, FOLDED_BYTES));
    for (int i = 0; i < FOLDED_LINES && rest.n; i++) {
        str line = str_trim(str_split(rest, '\n', &rest));
        // A line of a binary file may end in digits too, but has a NUL sooner or later.
        if (i == 0 && is_folded_line(line) && str_find(line, '\0') == line.n) return true;
        if (!is_printed(line)) return false;
        if (is_folded_line(line)) return true;
    }
    return false;
}

static bool is_pprof(str bytes)
{
    // The numbers of a profile's fields end at 15, so others are a sign of another message. And
    // since no bytes at all are a valid message, a sample or the type of one must be there.
    struct pb_reader r = pb_reader(bytes);
    bool sample = false;
    while (pb_next(&r)) {
        if (r.field == 0 || r.field > 15) return false;
        sample = sample || (r.field == 1 && r.type == PB_BYTES) || r.field == 2;
    }
    return !r.fault && sample;
}

// A list of objects that are events of a trace. Collapsed stacks may begin with '[', but not so.
static bool is_trace_list(str bytes)
{
    str head = str_trim(str_slice(bytes, 0, SNIFF_BYTES));
    return str_starts(head, S("[")) && str_starts(str_trim(str_slice(head, 1, head.n)), S("{")) &&
           tool_has_key(bytes, S("\"ph\""));
}

// CPU profiles in a trace are worth more than its durations.
static enum upload_format trace_format(str bytes)
{
    // Functions may be called as its events are.
    bool sampled =
        str_contains(bytes, S("\"ProfileChunk\"")) || tool_has_key(bytes, S("\"cpuProfile\"")) ||
        (str_contains(bytes, S("\"Profile\"")) && tool_has_key(bytes, S("\"startTime\"")));
    return sampled ? UPLOAD_CHROME : UPLOAD_TRACE;
}

// Formats in JSON are told apart by names that only they have. Their place in the object is free,
// and some files have it last.
static enum upload_format json_format(str bytes)
{
    if (is_trace_list(bytes)) return trace_format(bytes);
    if (!str_starts(str_trim(str_slice(bytes, 0, SNIFF_BYTES)), S("{"))) return UPLOAD_AUTO;
    if (tool_has_key(bytes, S("\"traceEvents\""))) return trace_format(bytes);
    if (str_contains(bytes, S(SPEEDSCOPE_SCHEMA))) return UPLOAD_SPEEDSCOPE;
    if (str_contains(bytes, S("\"resourceProfiles\""))) return UPLOAD_OTLP;
    if (!str_contains(bytes, S("\"functionName\""))) return UPLOAD_AUTO;
    if (str_contains(bytes, S("\"selfSize\""))) return UPLOAD_HEAPPROFILE;
    bool samples = str_contains(bytes, S("\"hitCount\"")) || str_contains(bytes, S("\"samples\""));
    return samples ? UPLOAD_CPUPROFILE : UPLOAD_AUTO;
}

bool upload_detect(str bytes, enum upload_format *format, err *e)
{
    assert(format);
    enum upload_format json = UPLOAD_AUTO;
    enum tool tool = TOOL_COUNT;
    if (bytes.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "it is empty");
    if (compress_is_gzip(bytes) || compress_is_zstd(bytes))
        return err_set(e, ERR_INVALID_ARGUMENT, "it is compressed twice; uncompress it once");
    if (tool_is_perf_data(bytes))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "it is perf.data, and compressed; uncompress it first");
    if (jfr_is(bytes)) {
        *format = UPLOAD_JFR;
        return true;
    }
    // Formats that are known but cannot be read are refused by their names, which helps more than
    // the list of those that can.
    // Text before pprof: protobuf has no signature, so a text may happen to parse as pprof.
    if ((json = json_format(bytes)) != UPLOAD_AUTO) {
        *format = json;
    } else if ((tool = tool_of(bytes)) != TOOL_COUNT) {
        *format = upload_format_of(tool_rows[tool].name);
    } else if (legacy_is(bytes)) {
        // Before collapsed stacks: "goroutine profile: total 9" ends in a number too.
        *format = UPLOAD_LEGACY;
    } else if (perf_is_script(str_slice(bytes, 0, SNIFF_BYTES))) {
        *format = UPLOAD_PERF;
    } else if (is_folded(bytes)) {
        *format = UPLOAD_FOLDED;
    } else if (cli_otlp_is(bytes)) {
        *format = UPLOAD_OTLP;
    } else if (is_pprof(bytes)) {
        *format = UPLOAD_PPROF;
    } else {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "it is neither pprof nor JFR nor collapsed stacks nor text of perf script "
                       "nor speedscope nor OTLP nor a profile of V8, gperftools or jemalloc nor a "
                       "trace of Chrome nor of another known tool; "
                       "`flametree formats` lists all formats");
    }
    return true;
}

str upload_service(str file)
{
    if (str_is(file, "-")) return STDIN_SERVICE;
    // Up to the first dot and not the last: "api.cpu.pb.gz" is of the service api.
    size_t slash = str_rfind(file, '/');
    str base = slash < file.n ? str_slice(file, slash + 1, file.n) : file;
    str service = str_slice(base, 0, str_find(base, '.'));
    return service.n ? service : base;
}

// ---- pprof

bool upload_set_time(str pprof, int64_t time_ns, struct buf *out, err *e)
{
    assert(out->n == 0);
    struct pb_reader r = pb_reader(pprof);
    const uint8_t *from = r.at;
    while (pb_next(&r)) {
        // Copied as bytes: unknown fields and the order of the others stay.
        if (r.field != PPROF_TIME) buf_put(out, from, (size_t)(r.at - from));
        from = r.at;
    }
    if (!pb_done(&r, e)) return err_wrap(e, "pprof");
    // Last: the order of fields has no meaning in protobuf.
    pb_put_i64_opt(out, PPROF_TIME, time_ns);
    return buf_ok(out, e);
}

static bool guess_name(str bytes, struct arena *a, str *name, err *e)
{
    struct arena scratch;
    struct decode_options o = {.inflated_max = INFLATED_MAX};
    struct decoded d = {0};
    struct ingest_config none = {0};
    arena_init(&scratch, NULL, DECODED_MAX);
    bool ok = decode_pprof(&scratch, bytes, &o, &d, NULL, e);
    if (ok) *name = arena_str(a, ingest_pprof_name(&d.profiles[0], &none));
    // The name was copied before, as the profile goes with this arena.
    arena_release(&scratch);
    if (ok && name->n == 0)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "the profile has no sample type; set one with --name");
    return ok;
}

// The label's value, or empty.
static str given(const struct upload_options *o, const char *name)
{
    return labels_get((labels){o->labels, o->label_count}, str_of(name));
}

static bool make_pprof(struct arena *a, const struct upload_options *o, str service, str bytes,
                       str inflated, struct upload *out, err *e)
{
    str name = o->name;
    if (!name.n && !guess_name(inflated, a, &name, e)) return false;
    assert(out->format == UPLOAD_PPROF && (o->labels || o->label_count == 0));
    struct buf timed;
    struct buf packed;
    buf_init(&timed, NULL, INFLATED_MAX);
    buf_init(&packed, NULL, INFLATED_MAX);
    bool ok = true;
    if (o->time_is_now) {
        ok = upload_set_time(inflated, o->now_ns, &timed, e) &&
             compress_gzip(buf_view(&timed), GZIP_LEVEL, &packed, e);
        bytes = buf_view(&packed);
    }
    buf_init(&out->body, NULL, INFLATED_MAX + PATH_MAX_);
    struct buf *b = &out->body;
    size_t series = pb_begin(b, 1);
    // Without __delta__=false a server may take a heap profile for a sum since the start of the
    // process and store the difference to the one before; a file stands for itself.
    const label first[] = {{S(LABEL_NAME), name},
                           {S("__delta__"), S("false")},
                           {S(LABEL_SERVICE), service}};
    labels_put((labels){first, COUNT(first)}, b, 1);
    for (size_t i = 0; i < o->label_count; i++) {
        // `service` is the value of that label already.
        if (!str_is(o->labels[i].name, LABEL_SERVICE)) labels_put((labels){&o->labels[i], 1}, b, 1);
    }
    size_t sample = pb_begin(b, 2);
    pb_put_bytes(b, 1, bytes);
    pb_end(b, sample);
    pb_end(b, series);
    // The body has a copy of both.
    buf_release(&timed);
    buf_release(&packed);
    out->path = "/push.v1.PusherService/Push";
    out->content_type = "application/proto";
    out->bytes = buf_view(b);
    return ok && buf_ok(b, e);
}

// ---- /ingest

static bool may_be_app(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.' || c == '/' || c == '-';
        if (!fine) return false;
    }
    return s.n > 0;
}

static bool has(str s, const char *any)
{
    for (; *any; any++) {
        if (str_find(s, *any) < s.n) return true;
    }
    return false;
}

// Labels of text travel in the name parameter of /ingest, which cannot express some and loses
// others.
static bool check_for_ingest(str key, str value, err *e)
{
    static const str lost[] = {S_INIT("profile_id"), S_INIT("pyroscope_spy")};
    if (has(value, ",}")) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "label %.*s=%.*s: with text a value cannot have ',' or '}'", STR(key),
                       STR(value));
    }
    if (!str_eq(str_trim(value), value)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "label %.*s='%.*s': with text a value cannot begin or end with a space",
                       STR(key), STR(value));
    }
    if (!str_among(key, lost, COUNT(lost))) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "label %.*s: with text servers do not store it",
                   STR(key));
}

// /ingest takes the profile type from the suffix of the service's name.
static bool check_suffix(struct arena *a, const struct upload_options *o, err *e)
{
    struct ingest_type type;
    err unknown = {0};
    if (!o->name.n) return true;
    str app = arena_printf(a, "x.%.*s", STR(o->name));
    if (!arena_ok(a, e)) return false;
    if (str_find(o->name, '.') < o->name.n || !ingest_type_of_app(app, &type, &unknown)) {
        return err_set(
            e, ERR_INVALID_ARGUMENT,
            "--name %.*s: text may be cpu, wall, alloc_space, alloc_objects, inuse_space, "
            "inuse_objects, goroutines, mutex_count, mutex_duration, block_count or "
            "block_duration",
            STR(o->name));
    }
    bool timed = str_is(type.name, "process_cpu") || str_is(type.name, "wall");
    if (timed || !o->sample_rate_given) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "--sample-rate is for CPU and wall time, not for %.*s",
                   STR(o->name));
}

// name=app.suffix{key=value,...}, whose grammar has no quotes. Without a suffix, the server finds
// the type itself, which a dot in the name would spoil.
static bool put_ingest_name(struct buf *b, const struct upload_options *o, str service, str suffix,
                            err *e)
{
    // The service is the application's name. Where the grammar does not allow that, a stand-in is
    // sent, and a label service_name with the true one, which counts more.
    bool fits = may_be_app(service) && (suffix.n || str_find(service, '.') == service.n);
    buf_str(b, fits ? service : S("upload"));
    if (suffix.n) buf_byte(b, '.');
    buf_str(b, suffix);
    buf_byte(b, '{');
    bool first = true;
    for (size_t i = 0; i <= o->label_count; i++) {
        bool extra = i == o->label_count;  // a service that no application may be called
        if (extra && fits) break;
        str key = extra ? S(LABEL_SERVICE) : o->labels[i].name;
        str value = extra ? service : o->labels[i].value;
        if (!extra && str_is(key, LABEL_SERVICE)) continue;
        if (!check_for_ingest(key, value, e)) return false;
        if (!first) buf_byte(b, ',');
        first = false;
        buf_str(b, key);
        buf_byte(b, '=');
        buf_str(b, value);
    }
    buf_byte(b, '}');
    return buf_ok(b, e);
}

// The type of a speedscope file, which is checked here too: a file of several profiles has none,
// because the server gives each that of its unit.
static bool speedscope_suffix(const struct upload_options *o, str bytes, str *suffix, err *e)
{
    struct arena scratch;
    struct decode_options options = {.inflated_max = INFLATED_MAX};
    struct decoded d = {0};
    arena_init(&scratch, NULL, DECODED_MAX);
    bool ok = decode_speedscope(&scratch, bytes, &options, &d, e);
    if (ok && d.count > 1 && o->name.n) {
        ok = err_set(e, ERR_INVALID_ARGUMENT,
                     "--name %.*s: the file has %zu profiles, whose types are those of their units",
                     STR(o->name), d.count);
    }
    bool in_bytes = ok && d.count == 1 && str_is(d.profiles[0].unit, "bytes");
    if (ok && d.count > 1)
        *suffix = (str){0};
    else if (in_bytes && !o->name.n)
        *suffix = S("bytes");
    arena_release(&scratch);
    return ok;
}

// Formats whose types /ingest does not take from the suffix of a name.
static bool has_types(enum upload_format format)
{
    return format == UPLOAD_JFR || format == UPLOAD_CHROME;
}

// file_rate: Hz that the file states, and a server may not see; 0 for none.
static bool make_ingest(struct arena *a, const struct upload_options *o, str service, str bytes,
                        uint64_t file_rate, struct upload *out, err *e)
{
    assert(out->format != UPLOAD_AUTO && out->format != UPLOAD_PPROF);
    bool typed = !has_types(out->format);
    str suffix = !typed ? (str){0} : o->name.n ? o->name : S("cpu");
    if (out->format == UPLOAD_SPEEDSCOPE && !speedscope_suffix(o, bytes, &suffix, e)) return false;
    struct buf name;
    struct buf path;
    buf_init(&name, NULL, PATH_MAX_);
    buf_init(&path, NULL, PATH_MAX_ * 3);
    bool ok = (!typed || check_suffix(a, o, e)) && put_ingest_name(&name, o, service, suffix, e);
    // Written also if the name failed: a buffer may be filled in vain, and the one check is below.
    buf_z(&path, "/ingest?name=");
    url_encode(&path, buf_view(&name));
    str format = formats[out->format].name;
    buf_printf(&path, "&format=%.*s&spyName=flametree", STR(format));
    buf_printf(&path, "&from=%lld&until=%lld", (long long)o->now_ns, (long long)o->now_ns);
    // Otherwise the file says it, or the server takes its default.
    uint64_t rate = o->sample_rate_given ? o->sample_rate : file_rate;
    if (o->sample_rate_given || file_rate)
        buf_printf(&path, "&sampleRate=%llu", (unsigned long long)rate);
    assert(ok || e->code);
    ok = ok && buf_ok(&path, e);
    out->path = arena_str(a, buf_view(&path)).p;
    out->content_type = "application/octet-stream";
    out->bytes = bytes;
    buf_release(&name);
    buf_release(&path);
    return ok && arena_ok(a, e);
}

// ---- the whole

// The facts of a text that are known before it is sent.
struct upload_text {
    uint64_t rate;  // Hz, if all that it says of its rate is in its head, which may go
    bool timed;     // it says how long its samples are, or they are no time
};

// Whether a profile's samples are counts of which nothing says how long one is.
static bool is_untimed(const struct profile *p)
{
    return p->type_count == 1 && p->period == 0 && str_is(p->types[0].type, "samples") &&
           str_is(p->types[0].unit, "count");
}

// Text is read here too: what a server would refuse is refused before it is sent, and only the text
// tells whether the server must assume a rate.
static bool upload_read_text(enum upload_format format, str plain, struct upload_text *t, err *e)
{
    const struct decode_options o = {.inflated_max = INFLATED_MAX};
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, DECODED_MAX);
    bool ok = true;
    if (format == UPLOAD_FOLDED) ok = decode_folded(&a, plain, &o, &d, e);
    if (format == UPLOAD_PERF) ok = decode_perf(&a, plain, &o, &d, e);
    // Lines, trie and tree say nothing; other formats have times, or counts that are none.
    t->timed = format != UPLOAD_LINES && format != UPLOAD_TRIE && format != UPLOAD_TREE;
    for (size_t i = 0; i < d.count; i++)
        t->timed = t->timed && !is_untimed(&d.profiles[i]);
    if (ok && format == UPLOAD_FOLDED && d.profiles[0].period > 0) {
        uint64_t period = (uint64_t)d.profiles[0].period;
        uint64_t rate = NS_PER_S / period;
        t->rate = rate > 0 && NS_PER_S / rate == period ? rate : 0;
    }
    arena_release(&a);
    return ok;
}

// Whether the values are time, so that the server makes time of counts.
static bool is_timed_name(const struct upload_options *o)
{
    return !o->name.n || str_is(o->name, "cpu") || str_is(o->name, "wall");
}

// Formats that are sent as pprof (cli_upload.h says why).
static bool is_converted(enum upload_format format)
{
    return tool_named(formats[format].name) != TOOL_COUNT || format == UPLOAD_CPUPROFILE ||
           format == UPLOAD_HEAPPROFILE || format == UPLOAD_LEGACY;
}

static bool decode_as(enum upload_format format, struct arena *a, str plain, struct decoded *d,
                      err *e)
{
    const struct decode_options o = {.inflated_max = INFLATED_MAX};
    enum tool tool = tool_named(formats[format].name);
    if (tool != TOOL_COUNT) return tool_decode(tool, a, plain, &o, d, e);
    if (format == UPLOAD_CPUPROFILE) return decode_cpuprofile(a, plain, &o, d, e);
    if (format == UPLOAD_HEAPPROFILE) return decode_heapprofile(a, plain, &o, d, e);
    assert(format == UPLOAD_LEGACY);
    return decode_legacy(a, plain, &o, d, e);
}

static bool convert(enum upload_format format, str plain, struct buf *pprof, struct losses *losses,
                    err *e)
{
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, DECODED_MAX);
    bool ok = decode_as(format, &a, plain, &d, e) && decode_put_pprof(&a, d.profiles, pprof, e);
    if (ok) *losses = d.profiles->losses;
    arena_release(&a);
    return ok;
}

// Formats whose bytes may begin like text in another encoding.
static bool is_binary(enum upload_format format)
{
    return format == UPLOAD_PPROF || format == UPLOAD_JFR || format == UPLOAD_TRIE ||
           format == UPLOAD_TREE;
}

// Text in UTF-8 instead of *plain; of UTF-16 it is in *inflated, in which a gzipped file is too.
static bool make_plain(struct buf *inflated, str *plain, err *e)
{
    struct arena a;
    struct buf utf8;
    str text = {0};
    arena_init(&a, NULL, DECODED_MAX);
    buf_init(&utf8, NULL, INFLATED_MAX);
    bool ok = decode_plain(&a, *plain, &text, e);
    bool moved = ok && text.n && (text.p < plain->p || text.p > plain->p + plain->n);
    if (moved) {
        buf_str(&utf8, text);
        ok = buf_ok(&utf8, e);
        buf_release(inflated);
        *inflated = buf_take(&utf8);
        text = buf_view(inflated);
    }
    if (ok) *plain = text;
    buf_release(&utf8);
    arena_release(&a);
    return ok;
}

// The content of a file, in `inflated` if it was compressed or in another encoding, and its format.
static bool upload_unpack(struct upload *out, str bytes, struct buf *inflated, str *plain, err *e)
{
    *plain = bytes;
    if (compress_is_gzip(bytes)) {
        if (!compress_gunzip(bytes, inflated, e)) return false;
        *plain = buf_view(inflated);
    }
    if (!is_binary(out->format) && !make_plain(inflated, plain, e)) return false;
    if (out->format == UPLOAD_PERF_DATA)
        return err_set(e, ERR_INVALID_ARGUMENT, "it is not perf.data");
    return out->format != UPLOAD_AUTO || upload_detect(*plain, &out->format, e);
}

bool upload_make(struct arena *a, const struct upload_options *o, str file, str bytes,
                 struct upload *out, err *e)
{
    *out = (struct upload){.format = o->format};
    struct buf inflated;
    struct buf pprof;
    buf_init(&inflated, NULL, INFLATED_MAX);
    buf_init(&pprof, NULL, INFLATED_MAX);
    str plain = {0};
    bool ok = upload_unpack(out, bytes, &inflated, &plain, e);
    struct upload_text text = {0};
    if (ok) ok = upload_read_text(out->format, plain, &text, e);
    // Servers of other makes would take the head for stacks. If it states a rate that is no whole
    // number, only the head can tell it.
    if (ok && out->format == UPLOAD_FOLDED && (text.rate || !text.timed))
        plain = decode_folded_body(plain);
    if (ok && is_converted(out->format)) {
        ok = convert(out->format, plain, &pprof, &out->losses, e);
        out->format = UPLOAD_PPROF;
        bytes = plain = buf_view(&pprof);
    }
    if (ok && has_types(out->format) && o->name.n) {
        ok = err_set(e, ERR_INVALID_ARGUMENT, "--name %.*s: %s has types of its own", STR(o->name),
                     out->format == UPLOAD_JFR ? "a JFR recording" : "a trace of Chrome");
    }
    out->rate_assumed = !text.timed && !o->sample_rate_given && is_timed_name(o);
    str service = given(o, LABEL_SERVICE);
    if (!service.n) service = upload_service(file);
    if (ok && out->format == UPLOAD_PPROF) {
        ok = make_pprof(a, o, service, bytes, plain, out, e);
    } else if (ok && out->format == UPLOAD_OTLP) {
        ok = cli_otlp_make(a, o, plain, out, e);
    } else if (ok) {
        ok = make_ingest(a, o, service, plain, text.rate, out, e);
        if (inflated.n) {
            // The request is sent from this memory after we return, so the upload keeps it.
            size_t head = inflated.n - plain.n;
            out->body = buf_take(&inflated);
            out->bytes = str_slice(buf_view(&out->body), head, out->body.n);
        }
    }
    // Empty if it was taken. A pprof is sent as it came, compressed: the inflated text was only
    // read.
    buf_release(&inflated);
    buf_release(&pprof);
    assert(!ok || (out->path && out->content_type && out->format != UPLOAD_AUTO));
    return ok;
}

void upload_release(struct upload *u)
{
    buf_release(&u->body);
    *u = (struct upload){0};
}
