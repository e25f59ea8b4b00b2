// SPDX-License-Identifier: Apache-2.0
//
// speedscope's JSON: both types of profiles, units, order of fields, and faults.
#include "base/buf.h"
#include "decode/decode.h"
#include "decode/stacks.h"
#include "lib/test.h"

#define HEAD "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"profiles\":["
#define TAIL \
    "],\"shared\":{\"frames\":[{\"name\":\"a\"},{\"name\":\"b\",\"line\":7},{\"name\":\"c\"}]}}"
#define SAMPLED(unit, samples, weights)                                                  \
    "{\"samples\":" samples ",\"weights\":" weights ",\"name\":\"one\",\"unit\":\"" unit \
    "\",\"type\":\"sampled\",\"startValue\":0,\"endValue\":9}"
#define EVENTED(unit, events)                                    \
    "{\"events\":[" events "],\"name\":\"two\",\"unit\":\"" unit \
    "\",\"type\":\"evented\",\"startValue\":0,\"endValue\":9}"
#define EVENT(type, at, frame) "{\"type\":\"" type "\",\"at\":" at ",\"frame\":" frame "}"

static const struct {
    const char *profiles;
    const char *expected;  // "name unit: a;b=5 " for each; or the fault, after a '!'
} cases[] = {
    {"", ""},
    {SAMPLED("none", "[[0,1],[0],[]]", "[1,2,3]"), "one count: a;b=1 a=2 =3 "},
    {SAMPLED("bytes", "[[0]]", "[7]"), "one bytes: a=7 "},
    {SAMPLED("nanoseconds", "[[0]]", "[7]"), "one nanoseconds: a=7 "},
    {SAMPLED("microseconds", "[[0]]", "[7]"), "one nanoseconds: a=7000 "},
    {SAMPLED("milliseconds", "[[0]]", "[0.25]"), "one nanoseconds: a=250000 "},
    {SAMPLED("seconds", "[[0]]", "[1e-9]"), "one nanoseconds: a=1 "},
    {SAMPLED("seconds", "[[0]]", "[0]"), "one nanoseconds: "},
    {EVENTED("none",
             EVENT("O", "1", "0") "," EVENT("O", "3", "1") "," EVENT("C", "4",
                                                                     "1") "," EVENT("C", "9", "0")),
     "two count: a=2 a;b=1 a=5 "},
    // Frames that stay open end with the profile, at 9.
    {EVENTED("none", EVENT("O", "1", "0") "," EVENT("O", "3", "1")),
     "two count: a=2 a;b=6 unclosed_frame=2 "},
    {EVENTED("milliseconds", EVENT("O", "0", "0") "," EVENT("O", "1.5", "1")),
     "two nanoseconds: a=1500000 a;b=7500000 unclosed_frame=2 "},
    {EVENTED("none", EVENT("O", "1", "0") "," EVENT("C", "20", "0") "," EVENT("O", "21", "1")),
     "two count: a=19 unclosed_frame=1 "},
    {EVENTED("none", EVENT("O", "-5", "0") "," EVENT("C", "-1", "0")), "two count: a=4 "},
    {EVENTED("none", EVENT("O", "1", "7") "," EVENT("C", "3", "7")),
     "two count: [unknown]=2 unknown_frame=1 "},
    // Rounded at both ends: the parts add up to 2 and not to 4 or 0.
    {EVENTED("nanoseconds", EVENT("O", "0", "0") "," EVENT("O", "0.5", "1") "," EVENT(
                                "C", "1.5", "1") "," EVENT("C", "2", "0")),
     "two nanoseconds: a;b=2 "},
    {SAMPLED("none", "[[0]]", "[1]") "," SAMPLED("bytes", "[[1]]", "[2]"),
     "one count: a=1 one bytes: b=2 "},
    {SAMPLED("parsecs", "[[0]]", "[1]"), "!unknown unit \"parsecs\""},
    {SAMPLED("none", "[[0],[0]]", "[-1,3]"), "one count: a=-1 a=3 "},
    {SAMPLED("none", "[[0]]", "[1,2]"), "one count: a=1 [unknown]=2 unknown_stack=1 "},
    {SAMPLED("none", "[[0],[1],[1]]", "[1]"), "one count: a=1 bad_sample=2 "},
    {SAMPLED("none", "[[0,3],[1]]", "[1,2]"), "one count: a;[unknown]=1 b=2 unknown_frame=1 "},
    {SAMPLED("none", "[[-1]]", "[1]"), "one count: [unknown]=1 unknown_frame=1 "},
    {SAMPLED("none", "[[0.5,0.5]]", "[1]"), "one count: [unknown];[unknown]=1 unknown_frame=1 "},
    {SAMPLED("none", "[[4294967296]]", "[1]"), "one count: [unknown]=1 unknown_frame=1 "},
    {"{\"type\":\"sampled\",\"unit\":\"none\",\"samples\":[[0],[0,1]]}", " count: a=1 a;b=1 "},
    {"{\"type\":\"sampled\",\"unit\":\"seconds\",\"samples\":[[0]]}",
     "!samples in seconds without weights"},
    {"{\"type\":\"sampled\",\"unit\":\"seconds\",\"samples\":[]}", " nanoseconds: "},
    // The sum is that of the file: 4 * 0.4 ns.
    {SAMPLED("nanoseconds", "[[0],[0],[1],[1]]", "[0.4,0.4,0.4,0.4]"), "one nanoseconds: a=1 b=1 "},
    {SAMPLED("seconds", "[[0]]", "[1e300]"), "!does not fit 64 bits"},
    {SAMPLED("none", "[[0]]", "[1e999]"), "!finite number"},
    {SAMPLED("none", "[[0]]", "[\"1\"]"), "!a number"},
    {SAMPLED("none", "[0]", "[1]"), "!a sample"},
    {EVENTED("none", EVENT("O", "2", "0") "," EVENT("C", "1", "0")), "!out of order"},
    {EVENTED("none", EVENT("C", "1", "0")), "!not the innermost one open"},
    {EVENTED("none", EVENT("O", "1", "0") "," EVENT("C", "1", "1")), "!not the innermost one open"},
    {EVENTED("none", EVENT("X", "1", "0")), "!neither O nor C"},
    {"{\"type\":\"other\",\"unit\":\"none\"}", "!profile type \"other\""},
    {"7", "!a profile"},
};

static bool decode(struct arena *a, struct buf *text, struct decoded *d, err *e)
{
    static const struct decode_options any;
    str s = buf_view(text);
    return decode_speedscope(a, str_make(tail_guard(s.p, s.n), s.n), &any, d, e);
}

static void put(struct buf *b, const struct decoded *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct profile *p = &d->profiles[i];
        buf_printf(b, "%.*s %.*s: ", STR(p->name), STR(p->types[0].unit));
        for (uint32_t k = 0; k < p->sample_count; k++) {
            const struct profile_sample *s = &p->samples[k];
            for (uint32_t n = s->location_count; n-- > 0;) {
                uint32_t row = p->stack_locations[s->first_location + n];
                buf_printf(b, "%.*s%s", STR(p->functions[row].name), n ? ";" : "");
            }
            buf_printf(b, "=%lld ", (long long)p->values[k]);
        }
        for (int k = 0; k < LOSS_COUNT; k++) {
            unsigned long long n = p->losses.count[k];
            if (n) buf_printf(b, "%s=%llu ", loss_name((enum loss)k), n);
        }
    }
}

static void profiles_become_stacks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct buf text;
        struct buf got;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&text, NULL, 1 << 16);
        buf_init(&got, NULL, 1 << 16);
        buf_printf(&text, "%s%s%s", HEAD, cases[i].profiles, TAIL);
        bool refused = cases[i].expected[0] == '!';
        bool ok = decode(&a, &text, &d, &e);
        if (ok) put(&got, &d);
        if (ok == refused || (refused && !strstr(e.msg, cases[i].expected + 1)) ||
            (ok && !str_is(buf_view(&got), cases[i].expected)))
            fail_msg("%s: %.*s%s", cases[i].profiles, STR(buf_view(&got)), e.msg);
        buf_release(&got);
        buf_release(&text);
        arena_release(&a);
    }
}

static void text_is_read_in_other_encodings(void **state)
{
    (void)state;
    const char *text = HEAD SAMPLED("none", "[[0]]", "[5]") TAIL;
    struct arena a;
    struct buf marked;
    struct buf wide;
    struct buf bad;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&marked, NULL, 1 << 16);
    buf_init(&wide, NULL, 1 << 16);
    buf_init(&bad, NULL, 1 << 16);
    buf_printf(&marked, "\xef\xbb\xbf%s", text);
    buf_z(&wide, "\xfe\xff");
    for (const char *c = text; *c; c++) {
        buf_byte(&wide, 0);
        buf_byte(&wide, (unsigned char)*c);
    }
    buf_printf(&bad, "%s%s],\"shared\":{\"frames\":[{\"name\":\"\xff\"}]}}", HEAD,
               SAMPLED("none", "[[0]]", "[5]"));
    struct buf *all[] = {&marked, &wide, &bad};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_ok(decode(&a, all[i], &d, e));
        assert_int_equal(d.profiles->values[0], 5);
        assert_int_equal(d.profiles->losses.count[LOSS_BAD_TEXT], i == 2);
        buf_release(all[i]);
    }
    assert_true(str_is(d.profiles->functions[0].name, "\xef\xbf\xbd"));
    arena_release(&a);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    const char *whole = HEAD EVENTED("none", EVENT("O", "1", "0") "," EVENT("C", "3", "0")) TAIL;
    for (size_t n = 0; n < strlen(whole); n++) {
        struct arena a;
        struct buf text;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&text, NULL, 1 << 16);
        buf_put(&text, whole, n);
        assert_false(decode(&a, &text, &d, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        buf_release(&text);
        arena_release(&a);
    }
}

static void another_schema_is_refused(void **state)
{
    (void)state;
    static const struct decode_options any;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_false(decode_speedscope(&a, S("{\"$schema\":\"x\"}"), &any, &d, &e));
    assert_non_null(strstr(e.msg, "unknown $schema \"x\""));
    arena_release(&a);
}

// Frames that are opened and never closed make stacks of n * n / 2 frames.
static void deep_stacks_end_at_the_cap(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 8 << 20);
    buf_init(&text, NULL, 2 << 20);
    buf_printf(&text, "%s{\"type\":\"evented\",\"unit\":\"none\",\"events\":[", HEAD);
    for (int i = 0; i < 10000; i++)
        buf_printf(&text, "%s{\"type\":\"O\",\"at\":%d,\"frame\":0}", i ? "," : "", i);
    buf_printf(&text, "]}%s", TAIL);
    assert_false(decode(&a, &text, &d, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&text);
    arena_release(&a);
}

// Each profile has the text of all, so their frames are counted together.
static void deep_stacks_of_several_profiles_are_cut_together(void **state)
{
    (void)state;
    enum {
        PROFILES = 3,
        EVENTS = 3000
    };
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    uint64_t frames = 0;
    int64_t sum = 0;
    arena_init(&a, NULL, 256 << 20);
    buf_init(&text, NULL, 2 << 20);
    buf_z(&text, HEAD);
    for (int k = 0; k < PROFILES; k++) {
        buf_printf(&text, "%s{\"type\":\"evented\",\"unit\":\"none\",\"events\":[", k ? "," : "");
        for (int i = 0; i < EVENTS; i++)
            buf_printf(&text, "%s{\"type\":\"O\",\"at\":%d,\"frame\":0}", i ? "," : "", i);
        buf_z(&text, "]}");
    }
    buf_z(&text, TAIL);
    assert_ok(decode(&a, &text, &d, e));
    assert_int_equal(d.count, PROFILES);
    for (size_t k = 0; k < d.count; k++) {
        const struct profile *p = &d.profiles[k];
        frames += p->stack_location_count;
        for (uint32_t i = 0; i < p->sample_count; i++)
            sum += p->values[i];
    }
    // As decode/stacks.c says; all would have 13.5 million.
    uint64_t cut = (uint64_t)PROFILES * EVENTS * (STACKS_DEPTH + 1);
    assert_true(frames <= ((uint64_t)4 << 20) + 16 * (uint64_t)text.n + cut);
    assert_int_equal(sum, PROFILES * (EVENTS - 1));
    buf_release(&text);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_become_stacks),
        cmocka_unit_test(text_is_read_in_other_encodings),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(another_schema_is_refused),
        cmocka_unit_test(deep_stacks_end_at_the_cap),
        cmocka_unit_test(deep_stacks_of_several_profiles_are_cut_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
