// SPDX-License-Identifier: Apache-2.0
//
// Decoders while their allocations fail one by one.
#include "codec/compress.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/otlp.h"
#include "decode/tools.h"
#include "lib/jfr.h"
#include "lib/otlp.h"
#include "lib/pprof.h"
#include "lib/torture.h"

static const struct decode_options options = {.inflated_max = 1 << 20,
                                              .symbol_max = 12,
                                              .repair_zero_function_ids = true};

// All rows of a profile as text.
static void print(const struct decoded *d, struct buf *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct profile *p = &d->profiles[i];
        for (uint32_t s = 0; s < p->sample_count; s++) {
            const struct profile_sample *x = &p->samples[s];
            for (uint32_t k = 0; k < x->location_count; k++) {
                const struct profile_location *l =
                    &p->locations[p->stack_locations[x->first_location + k]];
                buf_printf(out, "%llx", (unsigned long long)l->address);
                for (uint32_t n = 0; n < l->line_count; n++) {
                    const struct profile_line *line = &p->lines[l->first_line + n];
                    const struct profile_function *f = &p->functions[line->function];
                    buf_printf(out, " %.*s:%lld", STR(f->name), (long long)line->line);
                }
                buf_z(out, l->mapping == PROFILE_NONE ? ";" : " mapped;");
            }
            for (uint32_t k = 0; k < x->label_count; k++)
                buf_printf(out, " %.*s=%.*s", STR(p->labels[x->first_label + k].key),
                           STR(p->labels[x->first_label + k].text));
            for (uint32_t k = 0; k < p->type_count; k++)
                buf_printf(out, " %lld", (long long)p->values[s * p->type_count + k]);
            buf_byte(out, '\n');
        }
        buf_printf(out, "%lld %.*s\n", (long long)p->time_ns, STR(p->language_hint));
    }
}

// Ids that need a hash index, functions in order, labels, inlined lines, a mapping.
static void build(struct buf *b)
{
    static const char *const strings[] = {
        "",     "cpu",  "nanoseconds", "main.go", "work and a long name",
        "hash", "user", "ann",         "bin",     "build"};
    pp_type(b, 1, 2);
    pp_type(b, 5, 2);
    pp_type_field(b, 11, 1, 2);
    pp_mapping(b, 1, 8, 9);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t id = i * 0x123456789ab + 77;
        pp_function(b, id, 3 + i % 3, 3);
        struct pp_line lines[] = {{id, (int64_t)i}, {77, 1}};
        pp_location(b, id, i % 2, i, lines, 1 + i % 2);
    }
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t ids[] = {(i * 7 % 300) * 0x123456789ab + 77, (i % 300) * 0x123456789ab + 77, 77};
        int64_t values[] = {(int64_t)i, 1};
        pp_sample(b, ids, COUNT(ids), values, 2);
    }
    for (size_t i = 0; i < COUNT(strings); i++)
        pp_string(b, strings[i]);
    pb_put_u64(b, 9, 1700000000000000000);
}

static bool read_pprof(struct torture_bench *b, void *arg, err *e)
{
    struct decoded d = {0};
    bool over = false;
    if (!decode_pprof(&b->arena, *(str *)arg, &options, &d, &over, e)) {
        assert_false(over);
        return false;
    }
    print(&d, &b->out);
    return true;
}

static bool read_labelled(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct buf in;
    static const struct pp_label pairs[] = {{3, 4, 0}, {3, 0, 5}};
    torture_spare(true);
    buf_init(&in, NULL, 1 << 16);
    pp_type(&in, 1, 2);
    pp_function(&in, 1, 1, 0);
    pp_place(&in, 1, 1);
    for (int i = 0; i < 40; i++)
        pp_labelled(&in, &(uint64_t){1}, 1, i + 1, pairs, COUNT(pairs));
    pp_string(&in, "");
    pp_string(&in, "cpu");
    pp_string(&in, "ns");
    pp_string(&in, "user");
    pp_string(&in, "ann");
    torture_spare(false);
    str bytes = buf_view(&in);
    bool ok = read_pprof(b, &bytes, e);
    buf_release(&in);
    return ok;
}

static const str folded = S_INIT("main;run;step 5\nmain;run 1\n\nbad\nmain;idle;wait;poll;x 7\n"
                                 "a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p;q;r;s;t 9\n");

static bool read_folded(struct torture_bench *b, void *arg, err *e)
{
    struct decoded d = {0};
    if (!decode_folded(&b->arena, *(str *)arg, &options, &d, e)) return false;
    print(&d, &b->out);
    return true;
}

static bool read_lines(struct torture_bench *b, void *arg, err *e)
{
    struct decoded d = {0};
    if (!decode_lines(&b->arena, *(str *)arg, &options, &d, e)) return false;
    print(&d, &b->out);
    return true;
}

typedef bool decoder(struct arena *a, str bytes, const struct decode_options *o,
                     struct decoded *out, err *e);

struct document {
    decoder *decode;
    str bytes;
};

static bool read_document(struct torture_bench *b, void *arg, err *e)
{
    const struct document *doc = arg;
    struct decoded d = {0};
    if (!doc->decode(&b->arena, doc->bytes, &options, &d, e)) return false;
    print(&d, &b->out);
    return true;
}

#define SPEEDSCOPE                                                                                 \
    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"profiles\":[{\"type\":" \
    "\"sampled\",\"unit\":\"none\",\"samples\":[[0,1],[1]],\"weights\":[1,2]},{\"type\":"          \
    "\"evented\",\"unit\":\"none\",\"events\":[{\"type\":\"O\",\"at\":1,\"frame\":0},{\"type\":"   \
    "\"C\",\"at\":3,\"frame\":0}]}],\"shared\":{\"frames\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}"
#define CPUPROFILE                                                                              \
    "{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"r\"},\"children\":[2]},{\"id\":2," \
    "\"callFrame\":{\"functionName\":\"\"}}],\"samples\":[2,1],\"timeDeltas\":[1,2]}"

#define TRACE                                                                                    \
    "[{\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"\\u0041\"}},{\"name\":" \
    "\"Profile\",\"pid\":1,\"tid\":2,\"id\":3},{\"name\":\"ProfileChunk\",\"pid\":1,\"id\":3,"   \
    "\"args\":{"                                                                                 \
    "\"data\":{\"cpuProfile\":{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"r\"}}],"   \
    "\"samples\":[1]"                                                                            \
    "},\"timeDeltas\":[1]}}}]"

#define LEGACY                                                                                    \
    "heap profile: 1: 8 [1: 8] @ growthz\n1: 8 [1: 8] @ 0x10 0x20\n#\t0xf\tmain.f+0x1\t/m.go:3\n" \
    "--- Memory map: ---\nsource=/home\n00000000-00001000: $source/shop\n"

static struct document documents[] = {
    {decode_trie, S_INIT("\0\0\1\5main;\0\2\4work\3\0\1a\1\0")},
    {decode_tree, S_INIT("\0\0\1\4main\0\2\4work\3\0\1a\1\0")},
    {decode_speedscope, S_INIT(SPEEDSCOPE)},
    {decode_cpuprofile, S_INIT(CPUPROFILE)},
    {decode_chrome, S_INIT(TRACE)},
    {decode_legacy, S_INIT(LEGACY)},
    {decode_perf,
     S_INIT("a 7 1.5: 9 cpu-clock:\n\t12 f (/a)\nb 8 1.5: 3 faults:\n\t12 \xff (/a)\n")},
    {decode_folded, S_INIT("\xff\xfe"
                           "a\0;\0b\0 \0"
                           "1\0\n\0")},
    {decode_folded, S_INIT("a;\xff 1\n")},
    {decode_cpuprofile, S_INIT("\xef\xbb\xbf{\"\xff\":1,\"samples\":[2,1],\"timeDeltas\":[5,-2]}")},
};

#define FLAMEBEARER                                                                         \
    "{\"flamebearer\":{\"names\":[\"total\",\"\\u0041\"],\"levels\":[[0,5,1,0],[1,4,4,1]]," \
    "\"numTicks\":9},\"metadata\":{\"units\":\"samples\",\"sampleRate\":100,\"name\":\"cpu\"}}"
#define FIREFOX                                                                                    \
    "{\"meta\":{\"interval\":1,\"sampleUnits\":{\"threadCPUDelta\":\"ns\"}},\"libs\":[{\"name\":"  \
    "\"libc\"}],\"threads\":[{\"name\":\"a\",\"samples\":{\"stack\":[1,null,7],\"weight\":[1,2,3]" \
    ","                                                                                            \
    "\"threadCPUDelta\":[1,2,3]},\"stackTable\":{\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[" \
    "["                                                                                            \
    "null,0],[0,1]]},\"frameTable\":{\"func\":[0,1],\"address\":[1,2]},\"funcTable\":{\"name\":["  \
    "0,"                                                                                           \
    "9],\"resource\":[0,0]},\"resourceTable\":{\"lib\":[0]},\"stringTable\":[\"main\"]}],"         \
    "\"processes\":[{\"threads\":[]}]}"
#define DURATIONS                                                                                 \
    "[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"args\":{\"name\":\"\\u0041\"}},{\"ph\":" \
    "\"B\",\"name\":\"a\",\"pid\":1,\"ts\":1},{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"ts\":2,"   \
    "\"dur\":3},{\"ph\":\"E\",\"name\":\"a\",\"pid\":1,\"ts\":9}]"
#define CALLGRIND                                                                                  \
    "events: Ir Dr\nob=(1) /lib/l.so\nfl=(1) a.c\nfn=(1) 0x0010\n1 5 6\ncfn=(2) \xff\ncalls=1 1\n" \
    "1 9 9\nfn=(2)\n1 9 9\nfn=(7)\n1 1\ntotals: 20 20\n"
#define STACKPROF                                                                                 \
    "{\"mode\":\"wall\",\"interval\":1000,\"samples\":4,\"raw\":[2,70,80,3],\"frames\":{\"70\":{" \
    "\"name\":\"a\",\"edges\":{\"80\":1}},\"80\":{\"samples\":3}}}"
#define SAMPLE                                                                                     \
    "Analysis of sampling a (pid 1) every 1 millisecond\nCall graph:\n  9 Thread_1\n    9 a\xff\n" \
    "      5 ???  (in l)  [0x5]\n"

// In the order of decode/tools.def.
static struct document tools[TOOL_COUNT] = {
    [TOOL_FLAMEBEARER] = {decode_flamebearer, S_INIT(FLAMEBEARER)},
    [TOOL_FIREFOX] = {decode_firefox, S_INIT(FIREFOX)},
    [TOOL_TRACE] = {decode_trace, S_INIT(DURATIONS)},
    [TOOL_CALLGRIND] = {decode_callgrind, S_INIT(CALLGRIND)},
    [TOOL_STACKPROF] = {decode_stackprof, S_INIT(STACKPROF)},
    [TOOL_SAMPLE] = {decode_sample, S_INIT(SAMPLE)},
};

struct recording {
    str bytes;
    str labels;
};

static bool read_jfr(struct torture_bench *b, void *arg, err *e)
{
    const struct recording *in = arg;
    const struct decode_options o = {.inflated_max = 1 << 20,
                                     .sample_rate = 100,
                                     .symbol_max = options.symbol_max};
    struct jfr_recording r = {0};
    bool over = false;
    if (!decode_jfr(&b->arena, in->bytes, in->labels, &o, &r, &over, e)) {
        assert_false(over);
        return false;
    }
    for (size_t i = 0; i < r.profiles.count; i++)
        buf_printf(&b->out, "%.*s ", STR(r.names[i]));
    buf_printf(&b->out, "%.*s\n", STR(r.event));
    print(&r.profiles, &b->out);
    return true;
}

// Two chunks of both encodings, with an event of each kind that the writer has.
static void build_jfr(struct buf *b)
{
    struct jw w;
    jw_init(&w, true);
    for (int i = 0; i < 2; i++, w.compressed = false) {
        jw_begin(&w);
        jw_setting(&w, 1, JW_RECORDING, "event", "wall");
        jw_sample(&w, &(struct jw_hit){.stack = 99, .state = 1});
        for (uint64_t k = 0; k < 100; k++) {
            uint64_t context = k % 3 ? k : 5;
            jw_sample(&w, &(struct jw_hit){1 + k % 2, 1, context, k % 5, k % 7 ? 0 : 2, 0});
        }
        jw_event(&w, JW_ENTER);
        jw_long(&w, 1000);
        jw_long(&w, 40);
        jw_long(&w, 1);
        jw_close(&w);
        jw_app(&w);
        jw_metadata(&w, jw_classes, JW_CLASSES);
        jw_end(&w);
    }
    buf_str(b, buf_view(&w.out));
    jw_release(&w);
}

// The context 5 is {key: text}, strings 1 and 2.
static const str jfr_labels = S_INIT("\x0a\x0a\x08\x05\x12\x06\x0a\x04\x08\x01\x10\x02"
                                     "\x12\x07\x08\x01\x12\x03key\x12\x08\x08\x02\x12\x04text");

struct export
{
    str bytes;
    bool json;
};

static bool read_otlp(struct torture_bench *b, void *arg, err *e)
{
    const struct export *in = arg;
    const struct decode_options o = {.symbol_max = options.symbol_max};
    struct otlp *d = NULL;
    bool ok = in->json ? otlp_open_json(&b->arena, in->bytes, &o, &d, e)
                       : otlp_open(&b->arena, in->bytes, &o, &d, e);
    while (ok) {
        struct otlp_profile p = {0};
        enum otlp_step step = otlp_next(d, &b->arena, &p, e);
        if (step == OTLP_END) return true;
        ok = step == OTLP_PROFILE;
        struct decoded one = {&p.profile, 1};
        if (ok) print(&one, &b->out);
    }
    return false;
}

// Two services, a link, attributes, and frames with and without names.
static void build_otlp(struct ow *w, enum otlp_layout layout)
{
    ow_init(w, layout);
    uint64_t mapping = ow_mapping(w, "/bin/app", 0);
    uint64_t function = ow_function(w, "main and more", "main.go");
    uint64_t locations[] = {ow_location(w, mapping, 7, 0, 0),
                            ow_location(w, mapping, 0, function, 3)};
    uint64_t stack = ow_stack(w, locations, COUNT(locations));
    uint64_t link = ow_link(w, "0123456789abcdef", "spanspan");
    uint64_t attributes[] = {ow_attribute(w, "thread.name", "t"),
                             ow_attribute(w, "service.name", "other")};
    for (uint64_t i = 0; i < 40; i++) {
        ow_sample(w, &(struct ow_sample){stack, i % 3 ? 0 : link, attributes, 1 + i % 2, &i, 1, 0});
    }
    ow_profile(w, &(struct ow_profile){.type = "samples",
                                       .unit = "count",
                                       .period_type = "cpu",
                                       .period_unit = "nanoseconds",
                                       .period = 10});
    ow_label(w, "process.executable.name", "app");
    ow_resource(w);
}

#define OTLP_JSON                                                                                \
    "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{},"              \
    "\"samples\":[{\"linkIndex\":1,\"values\":[\"4\"]}]}]}]}],\"dictionary\":{\"stringTable\":[" \
    "\"\\u0041\"],\"stackTable\":[{}],\"linkTable\":[{},{\"traceId\":\"MDEyMzQ1Njc4OWFiY2RlZg==" \
    "\"}"                                                                                        \
    "]}}"

static void decoders_survive(void **state)
{
    (void)state;
    struct buf plain;
    struct buf packed;
    buf_init(&plain, NULL, 1 << 20);
    buf_init(&packed, NULL, 1 << 20);
    build(&plain);
    assert_ok(compress_gzip(buf_view(&plain), 6, &packed, e));
    str raw = buf_view(&plain);
    str gzip = buf_view(&packed);
    str text = folded;
    struct buf chunks;
    struct buf chunks_packed;
    buf_init(&chunks, NULL, 1 << 20);
    buf_init(&chunks_packed, NULL, 1 << 20);
    build_jfr(&chunks);
    assert_ok(compress_gzip(buf_view(&chunks), 6, &chunks_packed, e));
    struct recording jfr = {buf_view(&chunks), jfr_labels};
    struct recording jfr_gzip = {buf_view(&chunks_packed), jfr_labels};
    struct ow new;
    struct ow old;
    build_otlp(&new, OTLP_1_10);
    build_otlp(&old, OTLP_1_7);
    struct export otlp = {ow_end(&new), false};
    struct export otlp_old = {ow_end(&old), false};
    struct export otlp_json = {S(OTLP_JSON), true};
    const struct torture_maker makers[] = {
        {.name = "decode.otlp", .make = read_otlp, .arg = &otlp},
        {.name = "decode.otlp_old", .make = read_otlp, .arg = &otlp_old},
        {.name = "decode.otlp_json", .make = read_otlp, .arg = &otlp_json},
        {.name = "decode.pprof", .make = read_pprof, .arg = &raw},
        {.name = "decode.pprof_gzip", .make = read_pprof, .arg = &gzip},
        {.name = "decode.pprof_labels", .make = read_labelled},
        {.name = "decode.trie", .make = read_document, .arg = &documents[0]},
        {.name = "decode.tree", .make = read_document, .arg = &documents[1]},
        {.name = "decode.speedscope", .make = read_document, .arg = &documents[2]},
        {.name = "decode.cpuprofile", .make = read_document, .arg = &documents[3]},
        {.name = "decode.chrome", .make = read_document, .arg = &documents[4]},
        {.name = "decode.legacy", .make = read_document, .arg = &documents[5]},
        {.name = "decode.perf", .make = read_document, .arg = &documents[6]},
        {.name = "decode.utf16", .make = read_document, .arg = &documents[7]},
        {.name = "decode.mended", .make = read_document, .arg = &documents[8]},
        {.name = "decode.mended_json", .make = read_document, .arg = &documents[9]},
        {.name = "decode.jfr", .make = read_jfr, .arg = &jfr},
        {.name = "decode.jfr_gzip", .make = read_jfr, .arg = &jfr_gzip},
        {.name = "decode.folded", .make = read_folded, .arg = &text},
        {.name = "decode.lines", .make = read_lines, .arg = &text},
    };
    torture_make_all(makers, COUNT(makers));
    struct torture_maker more[TOOL_COUNT];
    for (size_t i = 0; i < TOOL_COUNT; i++)
        more[i] = (struct torture_maker){.name = tool_rows[i].name.p,
                                         .make = read_document,
                                         .arg = &tools[i]};
    torture_make_all(more, TOOL_COUNT);
    ow_release(&new);
    ow_release(&old);
    buf_release(&plain);
    buf_release(&packed);
    buf_release(&chunks);
    buf_release(&chunks_packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
