// SPDX-License-Identifier: Apache-2.0
//
// V8's profiles: lists of nodes and nested ones, counts and times, and faults; the same in pieces,
// in traces of Chrome. What is written as pprof is read as the same stacks.
#include "base/buf.h"
#include "decode/decode.h"
#include "lib/test.h"

#define FRAME(name)          "\"callFrame\":{\"functionName\":\"" name "\",\"url\":\"u\",\"lineNumber\":4}"
#define NODE(id, name, more) "{\"id\":" id "," FRAME(name) more "}"
#define TREE                                                                                     \
    "\"nodes\":[" NODE("1", "r", ",\"children\":[2,3]") "," NODE("2", "", "") "," NODE("3", "b", \
                                                                                       "") "]"

static const struct decode_options any;

static const struct {
    bool heap;
    const char *text;
    const char *expected;  // "a;b=5,7 "; or the fault, after a '!'
} cases[] = {
    {false, "{" TREE ",\"samples\":[2,3,2],\"timeDeltas\":[1,2,3]}",
     "r;(anonymous)=2,2000 r;b=1,3000 "},
    {false, "{\"samples\":[3]," TREE "}", "r;b=1,0 no_time=1 "},
    // V8's own counts, which samples need not equal.
    {false,
     "{\"nodes\":[" NODE("9", "b", ",\"parent\":7,\"hitCount\":5") "," NODE(
         "7", "r", "") "],"
                       "\"samples\":[9],\"timeDeltas\":[8]}",
     "r;b=5,0 "},
    {false,
     "{\"head\":{\"functionName\":\"r\",\"id\":1,\"hitCount\":2,\"children\":[{\"functionName\":"
     "\"x\",\"children\":[],\"id\":2,\"hitCount\":1}]}}",
     "r=2,0 r;x=1,0 "},
    {true,
     "{\"head\":{\"selfSize\":3,\"id\":1,\"children\":[{" FRAME(
         "x") ",\"children\":[],\"selfSize\""
              ":64,\"id\":2},{" FRAME("y") ",\"children\":[],\"selfSize\":8,\"id\":3}]," FRAME(
                  "r") "},"
                       "\"samples\":[{\"size\":1}]}",
     "r=3 r;x=64 r;y=8 "},
    {false, "{}", "!no nodes"},
    {false, "[]", "!an object"},
    {false, "{" TREE "", "!JSON"},
    // Samples out of order: at 0, 100, 50 and 300 µs; the last ends with the recording, at 400.
    {false,
     "{" TREE ",\"samples\":[2,3,2,3],\"timeDeltas\":[0,100,-50,250],\"startTime\":1000,"
     "\"endTime\":1400}",
     "r;(anonymous)=2,100000 r;b=2,300000 unordered_time=1 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[5,-3]}",
     "r;(anonymous)=1,0 r;b=1,3000 unordered_time=1 "},
    {false, "{" TREE ",\"samples\":[2,3,2],\"timeDeltas\":[5,3,-8]}",
     "r;(anonymous)=2,8000 r;b=1,0 unordered_time=1 "},
    {false, "{" TREE ",\"samples\":[2,3,1],\"timeDeltas\":[0,0,0],\"startTime\":1,\"endTime\":8}",
     "r=1,7000 r;(anonymous)=1,0 r;b=1,0 "},
    // An end that is earlier than the last sample, and times before the start
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[-9,4],\"startTime\":100,\"endTime\":90}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[1,0.5]}", "r;(anonymous)=1,500 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timestamps\":[1000,1004],\"startTime\":0.001}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[4,2]}",
     "r;(anonymous)=1,0 [unknown]=1,0 unknown_stack=1 no_time=2 "},
    {false, "{" TREE ",\"samples\":[-1]}", "[unknown]=1,0 unknown_stack=1 no_time=1 "},
    {false, "{\"samples\":[1],\"timeDeltas\":[1]}", "[unknown]=1,0 unknown_stack=1 "},
    {false, "{" TREE ",\"samples\":[1e30]}", "!does not fit 64 bits"},
    {false, "{" TREE ",\"samples\":[1],\"timeDeltas\":[]}", "r=1,0 no_time=1 "},
    // Times without samples, and samples without times
    {false, "{" TREE ",\"samples\":[1],\"timeDeltas\":[1,2,3]}",
     "r=1,2000 [unknown]=0,3000 unknown_stack=2 "},
    {false, "{" TREE ",\"samples\":[1,1,3],\"timeDeltas\":[1,2]}", "r=2,2000 r;b=1,0 no_time=1 "},
    {false, "{" TREE ",\"samples\":[1,1],\"timeDeltas\":[1,9e18]}", "!does not fit 64 bits"},
    {false, "{" TREE ",\"samples\":[1,1],\"timeDeltas\":[9e15,9e15]}", "!more than 64 bits"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"children\":[2],\"hitCount\":3") "]}",
     "r=3,0 unknown_frame=1 "},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"parent\":2,\"hitCount\":3") "]}",
     "[unknown];r=3,0 unknown_frame=1 "},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"children\":[1]") "]}", "!its own ancestor"},
    {false,
     "{\"nodes\":[" NODE("1", "r", ",\"children\":[2]") "," NODE("2", "s",
                                                                 ",\"children\":[1]") "]}",
     "!its own ancestor"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"hitCount\":-1") "]}", "r=-1,0 "},
    {true, "{\"head\":{" FRAME("r") ",\"id\":1,\"selfSize\":-8}}", "r=-8 "},
    {false, "\xef\xbb\xbf{" TREE ",\"samples\":[3]}", "r;b=1,0 no_time=1 "},
    {false, "{\"nodes\":[" NODE("-1", "r", "") "]}", "!id -1 is negative"},
    // Both forms of times: the time since the sample before counts more
    {false, "{" TREE ",\"samples\":[2,3],\"timestamps\":[9,14],\"timeDeltas\":[9,4]}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[9,4],\"timestamps\":[9,14]}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    // A list that is there twice counts once
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[9,4],\"timeDeltas\":[9,4]}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"samples\":[2,3],\"timeDeltas\":[9,4]}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[],\"timeDeltas\":[9,4]}",
     "r;(anonymous)=1,4000 r;b=1,0 "},
    {false, "{" TREE ",\"samples\":[2,3],\"timeDeltas\":[9,4],\"timeDeltas\":[9,5]}",
     "!timeDeltas is there twice, and differs"},
    {false, "{" TREE ",\"samples\":[2],\"samples\":[2,3]}", "!samples is there twice, and differs"},
    {false, "{" TREE "," TREE "}", "!the nodes are there twice"},
};

static void put(struct buf *b, const struct profile *p)
{
    for (uint32_t k = 0; k < p->sample_count; k++) {
        const struct profile_sample *s = &p->samples[k];
        for (uint32_t n = s->location_count; n-- > 0;) {
            const struct profile_location *l =
                &p->locations[p->stack_locations[s->first_location + n]];
            const struct profile_function *f = &p->functions[p->lines[l->first_line].function];
            buf_printf(b, "%.*s%s", STR(f->name), n ? ";" : "=");
        }
        for (uint32_t n = 0; n < p->type_count; n++)
            buf_printf(b, "%s%lld", n ? "," : "", (long long)p->values[k * p->type_count + n]);
        buf_byte(b, ' ');
    }
}

// As the decoder made it, and again through pprof.
static bool check(struct arena *a, struct profile *p, const char *expected, struct buf *got)
{
    struct buf pprof;
    struct decoded d = {0};
    put(got, p);
    str stacks = arena_str(a, buf_view(got));
    for (int k = 0; k < LOSS_COUNT; k++) {
        unsigned long long n = p->losses.count[k];
        if (n) buf_printf(got, "%s=%llu ", loss_name((enum loss)k), n);
    }
    if (!str_is(buf_view(got), expected)) return false;
    buf_init(&pprof, NULL, 1 << 16);
    buf_clear(got);
    assert_ok(decode_put_pprof(a, p, &pprof, e));
    assert_ok(decode_pprof(a, buf_view(&pprof), &any, &d, NULL, e));
    put(got, d.profiles);
    bool same = str_eq(buf_view(got), stacks) && d.profiles->function_count == p->function_count;
    buf_release(&pprof);
    return same;
}

static bool decode(struct arena *a, bool heap, str text, struct decoded *d, err *e)
{
    text = str_make(tail_guard(text.p, text.n), text.n);
    return heap ? decode_heapprofile(a, text, &any, d, e) : decode_cpuprofile(a, text, &any, d, e);
}

static void nodes_become_stacks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct buf got;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&got, NULL, 1 << 16);
        const char *want = cases[i].expected;
        bool ok = decode(&a, cases[i].heap, str_of(cases[i].text), &d, &e);
        bool good = want[0] == '!' ? !ok && strstr(e.msg, want + 1)
                                   : ok && check(&a, d.profiles, want, &got);
        if (!good) fail_msg("%s: %.*s%s", cases[i].text, STR(buf_view(&got)), e.msg);
        buf_release(&got);
        arena_release(&a);
    }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    str whole = S("{" TREE ",\"samples\":[2,3,2],\"timeDeltas\":[1,2,3]}");
    for (size_t n = 0; n < whole.n; n++) {
        struct arena a;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        assert_false(decode(&a, false, str_slice(whole, 0, n), &d, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
}

static void types_and_lines_are_kept(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(
        decode(&a, false, S("{" TREE ",\"samples\":[3],\"startTime\":5,\"endTime\":8}"), &d, e));
    const struct profile *p = d.profiles;
    assert_int_equal(p->type_count, 2);
    assert_true(str_is(p->types[1].type, "wall") && str_is(p->types[1].unit, "nanoseconds"));
    assert_int_equal(p->duration_ns, 3000);
    assert_int_equal(p->lines[0].line, 5);  // V8 counts from 0
    assert_true(str_is(p->functions[0].filename, "u"));
    arena_release(&a);
}

// ---- traces

#define EVENT(name, more, data) \
    "{\"args\":{\"data\":" data "},\"cat\":\"c\",\"name\":\"" name "\",\"ph\":\"P\"," more "}"
#define BEGIN(more)         EVENT("Profile", more, "{\"startTime\":5}")
#define CHUNK(more, fields) EVENT("ProfileChunk", more, "{\"cpuProfile\":{" fields "}")
#define ROOT                "\"nodes\":[" NODE("1", "r", "") "]"
#define WORK                "\"nodes\":[" NODE("2", "w", ",\"parent\":1") "]"
#define AT(ts)              "\"pid\":7,\"tid\":8,\"id\":\"0x1\",\"ts\":" ts
#define FIRST               CHUNK(AT("10"), ROOT ",\"samples\":[1]},\"timeDeltas\":[1]")
#define SECOND              CHUNK(AT("20"), WORK ",\"samples\":[2,1]},\"timeDeltas\":[2,3]")
#define THREAD(pid, tid, name)                                            \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":" pid ",\"tid\":" tid \
    ",\"args\":{\"name\":\"" name "\"}}"
#define OTHER                                                                              \
    "{\"name\":\"RunTask\",\"ph\":\"X\",\"pid\":7,\"tid\":8,\"ts\":1,\"dur\":2,\"args\":{" \
    "\"data\":[{\"a\":"                                                                    \
    "\"\\\"}]\"}]}}"
#define WHOLE \
    EVENT("CpuProfile", "\"pid\":9,\"tid\":3", "{\"cpuProfile\":{" TREE ",\"samples\":[3]}}")

static const struct {
    const char *name;
    const char *text;
    const char *expected;  // for each profile "name@pid: stacks", or the fault, after a '!'
} traces[] = {
    {"list", "[" BEGIN(AT("9")) "," FIRST "," OTHER "," SECOND "]", "0x1@7: r=2,2000 r;w=1,3000 "},
    {"object", "{\"metadata\":{\"a\":[]},\"traceEvents\":[" FIRST "," SECOND "],\"x\":1}",
     "0x1@7: r=2,2000 r;w=1,3000 "},
    {"pieces by their times", "[" SECOND "," FIRST "]", "0x1@7: r=2,2000 r;w=1,3000 "},
    {"times as text",
     "[" CHUNK(AT("\"20\""), WORK ",\"samples\":[2]},\"timeDeltas\":[2]") "," CHUNK(
         AT("\"3\""), ROOT ",\"samples\":[1]},\"timeDeltas\":[1]") "]",
     "0x1@7: r=1,2000 r;w=1,0 "},
    {"no end", "[" FIRST, "0x1@7: r=1,0 "},
    {"no end, a comma", " [ " FIRST " ,\n", "0x1@7: r=1,0 "},
    {"thread", "[" THREAD("7", "8", "Main") "," BEGIN(AT("9")) "," FIRST "]", "Main@7: r=1,0 "},
    {"thread, told last", "[" FIRST "," BEGIN(AT("9")) "," THREAD("7", "8", "Main") "]",
     "Main@7: r=1,0 "},
    {"thread of another process", "[" BEGIN(AT("9")) "," FIRST "," THREAD("6", "8", "Main") "]",
     "0x1@7: r=1,0 "},
    {"several",
     "[" FIRST "," WHOLE "," CHUNK("\"pid\":8,\"id\":\"0x1\"", ROOT ",\"samples\":[1]}") "]",
     "0x1@7: r=1,0 @9: r;b=1,0 0x1@8: r=1,0 "},
    {"whole ones stay apart", "[" WHOLE "," WHOLE "]", "@9: r;b=1,0 @9: r;b=1,0 "},
    {"id2", "[" CHUNK("\"pid\":7,\"id2\":{\"local\":\"0x2\"}", ROOT ",\"samples\":[1]}") "]",
     "@7: r=1,0 "},
    {"no process", "[" CHUNK("\"id\":3", ROOT ",\"samples\":[1]}") "]", "3@: r=1,0 "},
    {"process that is none", "[" CHUNK("\"pid\":[7]", ROOT ",\"samples\":[1]}") "]", "@: r=1,0 "},
    {"begun, and no piece", "[" BEGIN("\"pid\":1,\"id\":5") "," FIRST "]", "0x1@7: r=1,0 "},
    {"no data",
     "[{\"name\":\"ProfileChunk\",\"args\":3},{\"name\":\"ProfileChunk\",\"args\":{"
     "\"data\":[]}},"
     "{\"name\":\"ProfileChunk\"},{\"name\":7}," FIRST "]",
     "0x1@7: r=1,0 "},
    {"no profile", "[" OTHER "]", "!no CPU profile in this trace"},
    {"no piece", "[" BEGIN(AT("9")) "]",
     "!no CPU profile in this trace: 1 begin, and their pieces (ProfileChunk) are missing"},
    {"no nodes", "[" CHUNK(AT("9"), "\"samples\":[4,4]}") "]", "0x1@7: [unknown]=2,0 "},
    {"no event", "[", "!no CPU profile in this trace"},
    {"no events", "{}", "!no CPU profile in this trace"},
    {"object without its end", "{\"traceEvents\":[" FIRST, "!JSON"},
    {"event without its end", "[" FIRST ",{\"name\":", "!JSON"},
    {"more behind it", "[" FIRST "] 1", "!JSON"},
    {"no object", "[1]", "!expected an event"},
    {"no list", "{\"traceEvents\":1}", "!expected a list of events"},
    {"text", "\"x\"", "!expected a list of events, or an object"},
    {"node that is missing", "[" SECOND "]", "0x1@7: [unknown];w=1,3000 [unknown]=1,0 "},
    {"bad piece", "[" CHUNK(AT("1"), "\"nodes\":[3]}") "]", "!arguments at byte 9: byte"},
    {"huge id", "[" CHUNK(AT("1"), "\"nodes\":[{\"id\":1e300}]}") "]", "!does not fit 64 bits"},
    {"huge time", "[" CHUNK(AT("1e400"), ROOT ",\"samples\":[1]}") "]", "0x1@7: r=1,0 "},
    {"times that do not fit",
     "[" FIRST "," CHUNK(AT("20"), WORK ",\"samples\":[2]},\"timeDeltas\":[9e18]") "]",
     "!does not fit 64 bits"},
    {"times in the profile and beside it",
     "[" CHUNK(AT("1"),
               ROOT ",\"samples\":[1,1],\"timeDeltas\":[3,4]},\"timeDeltas\":[3,"
                    "4]") "," CHUNK(AT("2"), WORK
                                    ",\"samples\":[2],\"timeDeltas\":[5]},\"timeDeltas\":[5]") "]",
     "0x1@7: r=2,9000 r;w=1,0 "},
    {"samples without times", "[" FIRST "," CHUNK(AT("20"), WORK ",\"samples\":[2]}") "]",
     "0x1@7: r=1,0 r;w=1,0 "},
};

// All samples have the same label.
static str pid_of(const struct profile *p)
{
    for (uint32_t i = 0; i < p->sample_count && p->label_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        assert_int_equal(s->label_count, 1);
        assert_true(str_is(p->labels[s->first_label].key, "pid"));
        assert_true(str_eq(p->labels[s->first_label].text, p->labels[0].text));
    }
    return p->label_count ? p->labels[0].text : (str){0};
}

static bool read_trace(struct arena *a, str text, struct decoded *d, err *e)
{
    return decode_chrome(a, str_make(tail_guard(text.p, text.n), text.n), &any, d, e);
}

static void a_trace_has_the_profiles_of_its_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(traces); i++) {
        struct arena a;
        struct buf got;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&got, NULL, 1 << 16);
        const char *want = traces[i].expected;
        bool ok = read_trace(&a, str_of(traces[i].text), &d, &e);
        for (size_t k = 0; ok && k < d.count; k++) {
            const struct profile *p = &d.profiles[k];
            buf_printf(&got, "%.*s@%.*s: ", STR(p->name), STR(pid_of(p)));
            put(&got, p);
        }
        bool good =
            want[0] == '!' ? !ok && strstr(e.msg, want + 1) : ok && str_is(buf_view(&got), want);
        if (!good) fail_msg("%s: %.*s%s", traces[i].name, STR(buf_view(&got)), e.msg);
        buf_release(&got);
        arena_release(&a);
    }
}

// Of a list the end may be missing, and behind each event it may be cut: nothing else.
static void every_cut_of_a_trace_is_whole_events_or_refused(void **state)
{
    (void)state;
    str whole = S("[" THREAD("7", "8", "Main") ",\n" BEGIN(AT("9")) ",\n" FIRST ",\n" SECOND "]");
    unsigned accepted = 0;
    for (size_t n = 0; n <= whole.n; n++) {
        struct arena a;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        bool ok = read_trace(&a, str_slice(whole, 0, n), &d, &e);
        accepted += ok;
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
    // Behind FIRST, its comma and the line's end; behind SECOND and the end.
    assert_int_equal(accepted, 5);
}

// As many events as there are spaces at the end: a look for the end at each must not read them all.
static void spaces_at_the_end_cost_nothing(void **state)
{
    (void)state;
    enum {
        EVENTS = 50000,
        SPACES = 5000000
    };
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    arena_init(&a, NULL, 256 << 20);
    buf_init(&text, NULL, 64 << 20);
    buf_z(&text, "[" FIRST);
    for (int i = 0; i < EVENTS; i++)
        buf_z(&text, ",{}");
    for (int i = 0; i < SPACES; i++)
        buf_byte(&text, ' ');
    assert_ok(decode_chrome(&a, buf_view(&text), &any, &d, e));
    assert_int_equal(d.count, 1);
    buf_release(&text);
    arena_release(&a);
}

static void a_trace_may_be_nested_as_deep_as_json(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, NULL, 1 << 20);
    for (int depth = 1000; depth < 1050; depth += 49) {
        struct arena a;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_clear(&text);
        buf_z(&text, "[" FIRST ",{\"args\":");
        for (int i = 0; i < depth; i++)
            buf_byte(&text, '[');
        for (int i = 0; i < depth; i++)
            buf_byte(&text, ']');
        buf_z(&text, "}]");
        assert_int_equal(read_trace(&a, buf_view(&text), &d, &e), depth == 1000);
        arena_release(&a);
    }
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_become_stacks),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(types_and_lines_are_kept),
        cmocka_unit_test(a_trace_has_the_profiles_of_its_events),
        cmocka_unit_test(every_cut_of_a_trace_is_whole_events_or_refused),
        cmocka_unit_test(spaces_at_the_end_cost_nothing),
        cmocka_unit_test(a_trace_may_be_nested_as_deep_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
