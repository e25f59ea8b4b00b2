// SPDX-License-Identifier: Apache-2.0
//
// Durations in traces: whatever the events are, the values of a thread add up to the time in which
// one is open.
#include "lib/tool.h"

#define AT                    "\"pid\":1,\"tid\":2,\"ts\":"
#define B(name, at)           "{\"ph\":\"B\",\"name\":\"" name "\"," AT at "}"
#define E(name, at)           "{\"ph\":\"E\",\"name\":\"" name "\"," AT at "}"
#define X(name, at, dur)      "{\"ph\":\"X\",\"name\":\"" name "\",\"dur\":" dur "," AT at "}"
#define SAMPLE(frame, weight) "{\"pid\":1,\"tid\":2,\"sf\":\"" frame "\",\"weight\":" weight "}"
#define FRAMES                "\"stackFrames\":{\"7\":{\"name\":\"work\",\"parent\":6},\"6\":{\"name\":\"main\"}}"
#define T                     "[thread=2 pid=1] "
#define W                     "wall/nanoseconds: "

static const struct tool_case cases[] = {
    {"[" B("a", "1") "," B("b", "3") "," E("b", "7") "," E("a", "11") "]",
     W T "a=6000 " T "a;b=4000"},
    // Written when they end, so the outer one comes last. The longest of those that begin together
    // is the outermost.
    {"[" X("c", "0", "2") "," X("b", "0", "5") "," X("a", "0", "10") "]",
     W T "a=5000 " T "a;b=3000 " T "a;b;c=2000"},
    {"{\"traceEvents\":[" B("a", "0") "," X("x", "1", "2") "," E("a", "5") "," X(
         "y", "5", "1") "],\"displayTimeUnit\":\"ns\"}",
     W T "a=3000 " T "a;x=2000 " T "y=1000"},
    // Fractions, as text too; times since 1970 are exact.
    {"[" X("a", "1700000000000000.125", "0.0625") "," X("b", "\"9\"", "\"1.5\"") "]",
     W T "b=1500 " T "a=63"},
    // Threads and processes.
    {"[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"main\"}}," X(
         "a", "1",
         "1") ",{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"name\":\"a\",\"pid\":\"q\",\"tid\":9}]",
     W "[thread=main pid=1] a=1000 [thread=9 pid=q] a=2000"},
    // The end of the list may be missing.
    {"[" X("a", "1", "1") ",\n", W T "a=1000"},
    {"[" X("a", "1", "1") "\n", W T "a=1000"},
    // Never closed: until the thread's last event.
    {"[" B("a", "1") "," B("b", "2") "," X("x", "3", "4") "]",
     W T "a=1000 " T "a;b=1000 " T "a;b;x=4000 | unclosed_frame=2"},
    {"[" X("x", "0", "10") "," B("a", "2") "," B("b", "3") "]",
     W T "x=2000 " T "x;a=1000 " T "x;a;b=7000 | unclosed_frame=2"},
    // Never opened; of another name; without a name.
    {"[" E("a", "1") "," X("x", "3", "4") "," E("b", "4") "]", W T "x=4000 | bad_sample=2"},
    {"[" B("a", "1") "," B("b", "2") "," E("c", "4") "," E("a", "5") "]",
     W T "a=2000 " T "a;b=2000 | unknown_frame=1"},
    {"[" B("a", "1") ",{\"ph\":\"E\"," AT "4}]", W T "a=3000"},
    // Ends in the wrong order, and complete events that outlive the one around them.
    {"[" B("a", "0") "," B("b", "2") "," E("a", "4") "," B("c", "5") "," E("c", "6") "," E("b",
                                                                                           "7") "]",
     W T "a=2000 " T "a;b=4000 " T "a;b;c=1000 | overlapping_frame=1"},
    {"[" X("a", "0", "10") "," X("b", "5", "10") "]",
     W T "a=5000 " T "a;b=10000 | overlapping_frame=1"},
    {"[" B("a", "0") "," B("a", "1") "," B("b", "2") "," E("a", "3") "," E("a", "4") ",{\"ph\":"
                                                                                     "\"E\"," AT
                                                                                     "9}]",
     W T "a=1000 " T "a;a=1000 " T "a;a;b=7000 | overlapping_frame=2"},
    // Sorted by time.
    {"[" E("a", "11") "," B("a", "1") "]", W T "a=10000 | unordered_time=1"},
    // No time that can be read.
    {"[" X("a", "1", "1") ",{\"ph\":\"X\",\"name\":\"b\"," AT "1}," X("c", "1", "-1") "," B(
         "d", "\"x\"") "," X("e", "9e18", "9e18") "," X("f", "9223372036854775", "9") "]",
     W T "a=1000 | bad_sample=5"},
    // The clock of the thread where there is no other.
    {"[{\"ph\":\"X\",\"name\":\"a\",\"tdur\":3," AT "1},{\"ph\":\"X\",\"name\":\"b\",\"tdur\":3,"
     "\"dur\":5," AT "4}]",
     W T "a=3000 " T "b=5000"},
    // Samples beside the events, of threads that may have none; frames behind them.
    {"{\"samples\":[" SAMPLE("7", "3") "," SAMPLE("6", "\"2\"") "," SAMPLE(
         "7", "1.0") ",{\"sf\":6,\"tid\":9}]," FRAMES ",\"traceEvents\":[" X("a", "1", "1") "]}",
     "wall/nanoseconds,samples/count: [thread=2 pid=1] a=1000,0 [thread=2 pid=1] main=0,2 "
     "[thread=2 pid=1] main;work=0,4 [thread=9] main=0,1"},
    {"{" FRAMES ",\"samples\":[" SAMPLE("7", "3") "]}", "samples/count: " T "main;work=3"},
    // Stacks, callers and weights that are not there; a frame that calls itself, and a circle.
    {"{\"samples\":[{},{\"sf\":9},{\"sf\":8},{\"sf\":3},{\"sf\":3},{\"sf\":2},{\"sf\":1},{"
     "\"weight\":\"x\"}]"
     ",\"stackFrames\":{\"8\":{\"parent\":4},\"3\":{\"name\":\"c\",\"parent\":3},\"2\":{\"name\":"
     "\"b\",\"parent\":1}"
     ",\"1\":{\"name\":\"a\",\"parent\":2},\"1\":{\"name\":\"z\"},\"0\":4}}",
     "samples/count: [unknown]=3 c=2 a=1 a;b=1 | bad_sample=1 unknown_stack=1 unknown_frame=1"},
    {"{\"samples\":[4],\"stackFrames\":{}}", "!a sample"},
    {"{\"samples\":4,\"stackFrames\":[]}", "!there is no event"},
    {"{\"samples\":[{\"sf\":1},{\"sf\":1,\"weight\":9223372036854775807}]}", "!more than 64 bits"},
    {"{\"samples\":[{\"sf\":1}", "!JSON"},
    {"{\"stackFrames\":{\"1\":{\"name\":[1]}}}", "!"},
    // A trace whose events alone are worth something has one type.
    {"{\"samples\":[],\"traceEvents\":[" X("a", "1", "1") "]}", W T "a=1000"},
    // Moments, counters and asynchronous events have no duration.
    {"[" X("a", "1", "1") ",{\"ph\":\"i\"," AT "1},{\"ph\":\"b\",\"id\":1," AT "1},{\"ph\":\"C\"}"
                          ",{}]",
     W T "a=1000"},
    {"[{\"ph\":\"X\",\"dur\":2," AT "1}]", W T "[unknown]=2000"},
    {"[" B("a", "-9e15") "," E("a", "9e15") "]", "!does not fit 64 bits of ns"},
    {"[{\"ph\":\"i\"," AT "1}]", "!there is no event B, E or X"},
    {"[" X("a", "1", "-1") "," B("b", "\"x\"") "]", "!of this trace's 2 events B, E or X"},
    {"{\"samples\":[{\"sf\":1,\"weight\":\"x\"}]}", "!of this trace's 1 events"},
    {"[" X("a", "1", "0") "]", "!there is no sample"},
    {"[]", "!there is no event"},
    {"{}", "!there is no event"},
    {"[1]", "!an event"},
    {"[" X("a", "1", "1") ",{", "!JSON"},
    {"{\"traceEvents\":[" X("a", "1", "1") ",", "!JSON"},
    {"[]x", "!JSON"},
    {"1", "!a list of events, or an object"},
    {"", "!JSON"},
};

static void durations_become_stacks(void **state)
{
    (void)state;
    tool_check_cases(decode_trace, cases, COUNT(cases));
}

// Thousands of begins within each other, and ends of which half have no begin.
static void no_time_of_odd_events_is_lost(void **state)
{
    (void)state;
    struct buf b;
    struct arena a;
    struct decoded d = {0};
    static const struct decode_options any;
    enum {
        N = 2000
    };
    buf_init(&b, NULL, 64 << 20);
    arena_init(&a, NULL, (size_t)1 << 30);
    buf_byte(&b, '[');
    // One name that stays open below all others, which end from the outermost on.
    for (int i = 0; i < N; i++)
        buf_printf(&b, "{\"ph\":\"B\",\"name\":\"f%d\",\"ts\":0},", i % 300);
    for (int i = 0; i < N; i++)
        buf_printf(&b, "{\"ph\":\"E\",\"name\":\"%c%d\",\"ts\":%d},", i % 2 ? 'f' : 'g', i % 300,
                   i);
    assert_ok(decode_trace(&a, buf_view(&b), &any, &d, e));
    int64_t sum = 0;
    for (uint32_t i = 0; i < d.profiles->sample_count; i++)
        sum += d.profiles->values[i];
    assert_int_equal(sum, (int64_t)(N - 1) * 1000);
    arena_release(&a);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_become_stacks),
        cmocka_unit_test(no_time_of_odd_events_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
