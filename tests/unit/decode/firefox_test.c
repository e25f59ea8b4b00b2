// SPDX-License-Identifier: Apache-2.0
//
// Profiles of the Firefox Profiler, of both formats: stacks, weights, times and threads.
#include "lib/tool.h"

#define META "\"meta\":{\"interval\":2,\"sampleUnits\":{\"threadCPUDelta\":\"\xc2\xb5s\"}}"

// ---- processed: main (frame 0), work (1), 0x40 of libc (2), no name (3)
#define STACKS "\"stackTable\":{\"length\":4,\"frame\":[0,1,2,3],\"prefix\":[null,0,0,1]}"
#define FRAMES "\"frameTable\":{\"length\":4,\"func\":[0,1,2,3],\"address\":[-1,-1,64,80]}"
#define FUNCS                                                                         \
    "\"funcTable\":{\"length\":4,\"name\":[0,1,2,4],\"fileName\":[3,null,null,null]," \
    "\"lineNumber\":[7,null,null,null],\"resource\":[-1,-1,0,0]}"
#define RESOURCES             "\"resourceTable\":{\"length\":1,\"lib\":[0],\"name\":[5],\"host\":[null]}"
#define STRINGS               "[\"main\",\"work\",\"0x40\",\"m.c\",\"\",\"libx\"]"
#define TABLES                STACKS "," FRAMES "," FUNCS "," RESOURCES
#define LIBS                  "\"libs\":[{\"name\":\"libc.so.6\",\"debugName\":\"d\"}]"
#define SAMPLES(stacks, more) "\"samples\":{\"length\":9,\"stack\":[" stacks "]" more "}"
#define THREAD(name, samples, tables) \
    "{\"name\":\"" name "\",\"pid\":\"7\",\"tid\":8," samples "," tables "}"
#define OWN TABLES ",\"stringArray\":" STRINGS

// ---- Gecko's
#define GECKO_TABLES                                                                           \
    "\"stackTable\":{\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[[null,0],[0,1],[1,2]]},"  \
    "\"frameTable\":{\"data\":[[0,false,[]],[1],[2]],\"schema\":{\"location\":0,\"line\":5}}," \
    "\"stringTable\":[\"main\",\"f (http://x/a.js:12:3)\",\"0x1010\"]"
#define GECKO_SAMPLES                                                                     \
    "\"samples\":{\"schema\":{\"stack\":0,\"time\":1,\"threadCPUDelta\":2},\"data\":[[1," \
    "1.5,null],[2,2.5,3],[1,3.5]]}"
#define GECKO_THREAD "{\"name\":\"GeckoMain\",\"pid\":3," GECKO_SAMPLES "," GECKO_TABLES "}"
#define GECKO_LIBS                                                                                \
    "\"libs\":[{\"name\":\"libz\",\"start\":8192,\"end\":9000},{\"name\":\"xul\",\"start\":4096," \
    "\"end\":8192}]"

static const struct tool_case cases[] = {
    // Old ones have other processes as texts, among the threads or the processes; some are none.
    {"{\"meta\":{\"interval\":2}," GECKO_LIBS ",\"threads\":[" GECKO_THREAD
     ",\"{\\\"meta\\\":{\\\"interval\\\":1},\\\"threads\\\":[{\\\"name\\\":\\\"Content\\\","
     "\\\"samples\\\":"
     "{\\\"schema\\\":{\\\"stack\\\":0},\\\"data\\\":[[0],[0]]},\\\"stackTable\\\":{\\\"schema\\\":"
     "{\\\"prefix\\\":0,\\\"frame\\\":1},\\\"data\\\":[[null,0]]},\\\"frameTable\\\":{"
     "\\\"schema\\\":"
     "{\\\"location\\\":0},\\\"data\\\":[[0]]},\\\"stringTable\\\":[\\\"g\\\"]}]}\"],"
     "\"processes\":[null,\"not asked\"]}",
     "samples/count,wall/nanoseconds: [thread=GeckoMain pid=3] main;f=2,4000000 "
     "[thread=GeckoMain pid=3] main;f;xul!0x10=1,2000000 [thread=Content] g=2,2000000"},
    {"{\"threads\":[" GECKO_THREAD ",\"{\\\"threads\\\":7\"]}", "!profile 0 that is a text"},
    {"{\"threads\":[" GECKO_THREAD "],\"threads\":[" GECKO_THREAD "]}",
     "!the threads are there twice"},
    {"{" META "," LIBS ",\"threads\":[" THREAD("a", SAMPLES("1,2,1", ""), OWN) "]}",
     "samples/count,wall/nanoseconds: [thread=a pid=7] main;work=2,4000000 [thread=a pid=7] "
     "main;libc.so.6!0x40=1,2000000"},
    // Tables that threads share, behind the threads.
    {"{\"threads\":[" THREAD("a", SAMPLES("1", ""), "\"x\":0") "," THREAD(
         "b", SAMPLES("2,1", ""), "\"x\":0") "],\"shared\":{" TABLES ",\"stringArray\":" STRINGS
                                             "}," LIBS "," META "}",
     "samples/count,wall/nanoseconds: [thread=a pid=7] main;work=1,2000000 [thread=b pid=7] "
     "main;libc.so.6!0x40=1,2000000 [thread=b pid=7] main;work=1,2000000"},
    // Strings are shared and tables are not.
    {"{\"threads\":[" THREAD("a", SAMPLES("1", ""), TABLES) "," THREAD(
         "b", SAMPLES("1", ""), TABLES) "],\"shared\":{\"stringArray\":" STRINGS "}}",
     "samples/count: [thread=a pid=7] main;work=1 [thread=b pid=7] main;work=1"},
    // Weights and the time of a processor.
    {"{" META ",\"threads\":[" THREAD(
         "a",
         SAMPLES("1,0", ",\"weight\":[3,2],\"weightType\":\"samples\",\"threadCPUDelta\":[null,5]"),
         OWN) "]}",
     "samples/count,cpu/nanoseconds,wall/nanoseconds: [thread=a pid=7] main=2,5000,4000000 "
     "[thread=a pid=7] main;work=3,0,6000000"},
    {"{" META ",\"threads\":[" THREAD(
         "a", SAMPLES("1,0", ",\"weight\":[0.5,2],\"weightType\":\"tracing-ms\""), OWN) "]}",
     "wall/nanoseconds: [thread=a pid=7] main=2000000 [thread=a pid=7] main;work=500000"},
    {"{" META ",\"threads\":[" THREAD("a",
                                      SAMPLES("1,0", ",\"weight\":[64,-2],\"weightType\":"
                                                     "\"bytes\""),
                                      OWN) "," THREAD("b", SAMPLES("0", ""), OWN) "]}",
     "samples/count,wall/nanoseconds,space/bytes: [thread=a pid=7] main=0,0,-2 [thread=a pid=7] "
     "main;work=0,0,64 [thread=b pid=7] main=1,2000000,0"},
    // Frames without a name have their address; a library that is not listed is the resource's.
    {"{\"threads\":[" THREAD("a", SAMPLES("3,2", ""), OWN) "]}",
     "samples/count: [thread=a pid=7] main;work;libx!0x50=1 [thread=a pid=7] main;libx!0x40=1"},
    // Stacks, prefixes and frames that are not there.
    {"{\"threads\":[" THREAD("a", SAMPLES("null,9,1", ""), OWN) "]}",
     "samples/count: [thread=a pid=7] [unknown]=2 [thread=a pid=7] main;work=1 | "
     "unknown_stack=2"},
    {"{\"threads\":[{\"name\":\"a\"," SAMPLES(
         "0,1,2", "") ",\"stackTable\":{\"frame\":[0,9,null],\"prefix\":[7,null,null]},"
                      "\"frameTable\":{\"func\":[1]}," FUNCS ",\"stringTable\":" STRINGS "}]}",
     "samples/count: [thread=a] [unknown]=2 [thread=a] [unknown];work=1 | unknown_frame=3"},
    // Gecko's: rows, the schema behind them; addresses of libraries; other processes.
    {"{" META "," GECKO_LIBS ",\"threads\":[" GECKO_THREAD "]}",
     "samples/count,cpu/nanoseconds,wall/nanoseconds: [thread=GeckoMain pid=3] main;f=2,0,4000000 "
     "[thread=GeckoMain pid=3] main;f;xul!0x10=1,3000,2000000"},
    {"{" META
     ",\"threads\":[],\"processes\":[null,{\"meta\":{\"interval\":1},\"processes\":[\"x\",{"
     "\"threads\":[" GECKO_THREAD "]}]}]}",
     "samples/count,cpu/nanoseconds,wall/nanoseconds: [thread=GeckoMain pid=3] main;f=2,0,2000000 "
     "[thread=GeckoMain pid=3] main;f;0x1010=1,3000,1000000"},
    // As the developer tools of older Firefox save it.
    {"{\"label\":null,\"profile\":{" META ",\"threads\":[" GECKO_THREAD
     "],\"processes\":[{\"threads\":[" GECKO_THREAD "]}]},\"fileType\":\"Recorded\",\"version\":2}",
     "samples/count,cpu/nanoseconds,wall/nanoseconds: [thread=GeckoMain pid=3] main;f=2,0,4000000 "
     "[thread=GeckoMain pid=3] main;f;0x1010=1,3000,2000000 [thread=GeckoMain pid=3] "
     "main;f=2,0,4000000 "
     "[thread=GeckoMain pid=3] main;f;0x1010=1,3000,2000000"},
    {"{\"threads\":[{" SAMPLES("1,0", "") ",\"stackTable\":{\"frame\":[0,0],\"prefix\":[1,0]}}]}",
     "!thread 0: sample 0: stack 1 is its own ancestor"},
    {"{\"threads\":[" THREAD("a", SAMPLES("1,1", ",\"weight\":[9e18,9e18]"), OWN) "]}",
     "!more than 64 bits"},
    {"{\"threads\":[" THREAD("a", SAMPLES("1", ",\"weight\":[1e30]"), OWN) "]}",
     "!does not fit 64 bits"},
    {"{\"meta\":{\"interval\":-1}}", "!meta.interval is no time"},
    {"{\"threads\":[" THREAD("a", SAMPLES("", ""), OWN) "]}", "!there is no sample"},
    {"{\"threads\":[" THREAD("a", SAMPLES("1", ",\"weight\":[0]"), OWN) "]}",
     "!there is no sample"},
    {"{}", "!there is no sample"},
    {"{\"threads\":[1]}", "!a thread"},
    {"{\"threads\":[{\"samples\":{\"schema\":{\"stack\":0},\"data\":[1]}}]}", "!a row of a table"},
    {"{\"threads\":[{\"stackTable\":{\"frame\":[\"x\"]}}]}", "!frame"},
    {"{\"processes\":[{]}", "!JSON"},
    {"{\"profile\":{}", "!JSON"},
    {"{\"profile\":{\"profile\":{\"threads\":[1]}}}", "!there is no sample"},
    {"{\"processes\":[{}", "!JSON"},
    {"{\"processes\":[4]}", "!the profile of a process"},
    {"[]", "!an object"},
    {"", "!JSON"},
};

static void samples_become_stacks(void **state)
{
    (void)state;
    tool_check_cases(decode_firefox, cases, COUNT(cases));
}

static void bytes_tell_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < 11; i++)
        assert_int_equal(tool_of(str_of(cases[i].text)), TOOL_FIREFOX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_become_stacks),
        cmocka_unit_test(bytes_tell_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
