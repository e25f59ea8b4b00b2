// SPDX-License-Identifier: Apache-2.0
//
// The JSON of stackprof: stacks of `raw`, or what each frame has itself.
#include "lib/tool.h"

#define FRAMES                                                                          \
    "\"frames\":{\"70\":{\"name\":\"<main>\",\"file\":\"/a.rb\",\"line\":null,"         \
    "\"total_samples\":9,\"samples\":2,\"edges\":{\"80\":7,\"5\":1}},\"80\":{\"name\":" \
    "\"Object#f\",\"file\":\"/"                                                         \
    "a.rb\",\"line\":3,\"total_samples\":7,\"samples\":7,\"lines\":{\"3\":[7,"          \
    "7]}}}"
#define RAW "\"raw\":[2,70,80,4,1,70,2,2,70,80,3]"

static const struct tool_case cases[] = {
    {"{\"version\":1.2,\"mode\":\"wall\",\"interval\":1000,\"samples\":9," RAW "," FRAMES "}",
     "samples/count,wall/nanoseconds: <main>=2,2000000 <main>;Object#f=7,7000000"},
    {"{\"mode\":\"cpu\",\"interval\":10," FRAMES "," RAW "}",
     "samples/count,cpu/nanoseconds: <main>=2,20000 <main>;Object#f=7,70000"},
    {"{\"mode\":\"object\",\"interval\":5," FRAMES "," RAW "}",
     "alloc_objects/count: <main>=10 <main>;Object#f=35"},
    {"{\"mode\":\"custom\",\"interval\":5," FRAMES "," RAW "}",
     "samples/count: <main>=2 <main>;Object#f=7"},
    // An interval with a fraction, and of less than a microsecond.
    {"{\"mode\":\"wall\",\"interval\":1000.5," FRAMES "," RAW "}",
     "samples/count,wall/nanoseconds: <main>=2,2001000 <main>;Object#f=7,7003500"},
    {"{\"mode\":\"wall\",\"interval\":\"0.25\"," FRAMES "," RAW "}",
     "samples/count,wall/nanoseconds: <main>=2,500 <main>;Object#f=7,1750"},
    {"{\"interval\":\"x\"," FRAMES "}", "!is no interval"},
    // Without raw.
    {"{\"mode\":\"wall\",\"interval\":1000,\"raw\":null," FRAMES "}",
     "samples/count,wall/nanoseconds: <main>=2,2000000 <main>;Object#f=7,7000000"},
    // Frames that are not there; more samples than stacks.
    {"{\"samples\":4,\"raw\":[2,70,99,1,0,2],\"frames\":{\"70\":{}}}",
     "samples/count: [unknown]=3 [unknown];[unknown]=1 | unknown_stack=1 unknown_frame=1"},
    {"{\"raw\":[2,70,80]," FRAMES "}", "!raw ends within a stack of 2 frames, at 0"},
    {"{\"raw\":[-1,70,80]," FRAMES "}", "!raw ends within a stack of -1 frames"},
    {"{\"raw\":[1,70,-3]," FRAMES "}", "!was seen -3 times"},
    {"{\"raw\":[1,70,1,9]," FRAMES "}", "!raw ends within"},
    {"{\"mode\":\"wall\",\"interval\":1000,\"raw\":[1,70,9223372036854775807]," FRAMES "}",
     "!do not fit 64 bits"},
    {"{\"mode\":\"wall\",\"interval\":9223372036854775807," FRAMES "}", "!does not fit 64 bits"},
    {"{\"frames\":{\"1\":{\"samples\":-1}}}", "!frame 1 has -1 samples"},
    {"{\"frames\":{\"1\":{\"samples\":\"x\"}}}", "!is no number of 64 bits"},
    {"{\"frames\":{\"x\":{}}}", "!the id of a frame"},
    {"{\"frames\":{\"1\":{\"edges\":{\"x\":1}}}}", "!the id of a frame"},
    {"{\"frames\":{\"1\":1}}", "!a frame"},
    {"{\"frames\":{}}", "!there is no sample"},
    {"{\"raw\":[]}", "!there are no frames"},
    {"\x04\x08{\x0d:\x0c", "!dump of Ruby's Marshal"},
    {"", "!JSON"},
};

static void samples_become_stacks(void **state)
{
    (void)state;
    tool_check_cases(decode_stackprof, cases, COUNT(cases));
}

static void the_period_is_the_interval(void **state)
{
    (void)state;
    static const struct decode_options any;
    static const struct {
        const char *interval;
        int64_t ns;
    } rows[] = {{"1000", 1000000}, {"1000.5", 1000500}, {"\"0.25\"", 250}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena a;
        struct decoded d = {0};
        char text[512];
        int n = snprintf(text, sizeof text, "{\"mode\":\"wall\",\"interval\":%s," FRAMES "}",
                         rows[i].interval);
        arena_init(&a, NULL, 1 << 20);
        assert_ok(decode_stackprof(&a, str_make(text, (size_t)n), &any, &d, e));
        if (d.profiles->period != rows[i].ns)
            fail_msg("%s: %lld", rows[i].interval, (long long)d.profiles->period);
        assert_true(str_is(d.profiles->period_type.type, "wall"));
        assert_true(str_is(d.profiles->period_type.unit, "nanoseconds"));
        arena_release(&a);
    }
}

static void bytes_tell_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(tool_of(str_of(cases[i].text)), TOOL_STACKPROF);
    assert_int_equal(tool_of(S("\x04\x08{\x0d:\x0c")), TOOL_STACKPROF);
    // A writer that leaves out the sums of frames.
    assert_int_equal(tool_of(S("{\"mode\":\"wall\",\"interval\":1,\"samples\":2,\"raw\":[1,7,2],"
                               "\"frames\":{\"7\":{\"name\":\"f\"}}}")),
                     TOOL_STACKPROF);
    assert_int_equal(tool_of(S("{\"interval\":1,\"samples\":2,\"frames\":{}}")), TOOL_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_become_stacks),
        cmocka_unit_test(the_period_is_the_interval),
        cmocka_unit_test(bytes_tell_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
