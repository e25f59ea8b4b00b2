// SPDX-License-Identifier: Apache-2.0
//
// V8's profiles: lists of nodes and nested ones, counts and times, and faults. What is written as
// pprof is read as the same stacks.
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
    {false, "{\"samples\":[3]," TREE "}", "r;b=1,0 "},
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
    {false, "{" TREE ",\"samples\":[4]}", "!sample 0: node 4 does not exist"},
    {false, "{" TREE ",\"samples\":[-1]}", "!does not exist"},
    {false, "{" TREE ",\"samples\":[1e30]}", "!does not fit 64 bits"},
    {false, "{" TREE ",\"samples\":[1],\"timeDeltas\":[]}", "r=1,0 "},
    {false, "{" TREE ",\"samples\":[1],\"timeDeltas\":[1,2]}", "!1 samples and 2 timeDeltas"},
    {false, "{" TREE ",\"samples\":[1,1],\"timeDeltas\":[1,9e18]}", "!more than 64 bits"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"children\":[2]") "]}", "!child 2 does not exist"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"parent\":2") "]}", "!parent 2 does not exist"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"children\":[1]") "]}", "!its own ancestor"},
    {false,
     "{\"nodes\":[" NODE("1", "r", ",\"children\":[2]") "," NODE("2", "s",
                                                                 ",\"children\":[1]") "]}",
     "!its own ancestor"},
    {false, "{\"nodes\":[" NODE("1", "r", ",\"hitCount\":-1") "]}", "!negative hitCount"},
    {false, "{\"nodes\":[" NODE("-1", "r", "") "]}", "!id -1 is negative"},
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
    if (!str_is(buf_view(got), expected)) return false;
    buf_init(&pprof, NULL, 1 << 16);
    buf_clear(got);
    assert_ok(decode_put_pprof(a, p, &pprof, e));
    assert_ok(decode_pprof(a, buf_view(&pprof), &any, &d, NULL, e));
    put(got, d.profiles);
    bool same = str_is(buf_view(got), expected) && d.profiles->function_count == p->function_count;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_become_stacks),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(types_and_lines_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
