// SPDX-License-Identifier: Apache-2.0
//
// Flamebearer JSON: bars become stacks with the same values, and the metadata their type.
#include "lib/tool.h"

#define GRAPH(levels, ticks)                                                                      \
    "\"flamebearer\":{\"names\":[\"total\",\"main\",\"work\",\"other\"],\"levels\":[" levels "]," \
    "\"numTicks\":" ticks ",\"maxSelf\":7}"
#define TREE "[0,12,0,0],[0,12,0,1],[0,2,2,3,0,10,3,2],[5,7,7,1]"
#define META(name, units, rate)                                                               \
    "\"metadata\":{\"format\":\"single\",\"spyName\":\"\",\"sampleRate\":" rate ",\"units\":" \
    "\"" units "\",\"name\":\"" name "\"}"
#define FILE_OF(graph, meta) "{\"version\":1," graph "," meta "}"

static const struct tool_case cases[] = {
    // Nodes called "other" are frames like all others.
    {FILE_OF(GRAPH(TREE, "12"), META("samples", "objects", "100")),
     "samples/count: main;other=2 main;work=3 main;work;main=7"},
    {FILE_OF(META("inuse_space", "bytes", "100"), GRAPH(TREE, "12")),
     "inuse_space/bytes: main;other=2 main;work=3 main;work;main=7"},
    {FILE_OF(GRAPH(TREE, "12"), META("wall", "nanoseconds", "100")),
     "wall/nanoseconds: main;other=2 main;work=3 main;work;main=7"},
    // A rate of 1e9 says that samples are nanoseconds; another one says how long a sample is.
    {FILE_OF(GRAPH(TREE, "12"), META("cpu", "samples", "1000000000")),
     "cpu/nanoseconds: main;other=2 main;work=3 main;work;main=7"},
    {FILE_OF(GRAPH(TREE, "12"), META("cpu", "samples", "200")),
     "samples/count,cpu/nanoseconds: main;other=2,10000000 main;work=3,15000000 "
     "main;work;main=7,35000000"},
    {FILE_OF(GRAPH(TREE, "12"), META("shop.wall{region=eu}", "samples", "100")),
     "samples/count,wall/nanoseconds: main;other=2,20000000 main;work=3,30000000 "
     "main;work;main=7,70000000"},
    {FILE_OF(GRAPH(TREE, "12"), META("cpu", "samples", "0")),
     "cpu/count: main;other=2 main;work=3 main;work;main=7"},
    {FILE_OF(GRAPH(TREE, "12"), META("mutex", "lock_nanoseconds", "100")),
     "mutex/nanoseconds: main;other=2 main;work=3 main;work;main=7"},
    // Without metadata, and without a type in it.
    {"{" GRAPH(TREE, "12") "}", "samples/count: main;other=2 main;work=3 main;work;main=7"},
    // More digits than a double has.
    {"{" GRAPH("[0,9007199254740993,0,0],[0,9007199254740993,9007199254740993,1]", "0") "}",
     "samples/count: main=9007199254740993"},
    // The API's answer.
    {"{\"flamegraph\":{\"names\":[\"total\",\"main\"],\"levels\":[{\"values\":[\"0\",\"5\",\"0\","
     "\"0\"]},{\"values\":[\"0\",\"5\",\"5\",\"1\"]}],\"total\":\"5\",\"maxSelf\":\"5\"}}",
     "samples/count: main=5"},
    // Value of the root, of bars under no bar, and more of it than bars.
    {"{" GRAPH("[0,5,2,0],[2,3,3,1]", "5") "}", "samples/count: [unknown]=2 main=3"},
    {"{" GRAPH("[0,5,0,0],[0,2,2,1],[3,1,1,2]", "3") "}",
     "samples/count: main=2 work=1 | unknown_stack=1"},
    {"{" GRAPH("[0,5,0,0],[0,5,3,1]", "5") "}",
     "samples/count: main=3 [unknown]=2 | unknown_stack=1"},
    {"{" GRAPH("[0,0,0,0],[0,0,0,1]", "0") "}", "!there is no sample"},
    {"{" GRAPH("", "0") "}", "!there is no sample"},
    {"{\"version\":2," GRAPH(TREE, "12") "}", "!version 2"},
    {"{" GRAPH(TREE, "12") ",\"metadata\":{\"format\":\"double\"}}", "!difference of two profiles"},
    {"{" GRAPH("[0,1,1,0,2,2,0],[0,1,1,0,2,2,1]", "3") ",\"metadata\":{\"format\":\"double\"}}",
     "!difference of two profiles"},
    {"{" GRAPH(TREE, "12") ",\"metadata\":{\"format\":\"x\"}}", "!unknown format \"x\""},
    {"{" GRAPH("[0,1,1]", "1") "}", "!level 0 has 3 numbers; a bar has 4"},
    {"{" GRAPH("[0,1,1,4]", "1") "}", "!name 4 does not exist; there are 4"},
    {"{" GRAPH("[0,1,1,-1]", "1") "}", "!name -1 does not exist"},
    {"{" GRAPH("[-1,1,1,0]", "1") "}", "!level 0, bar 0: a bar is negative"},
    {"{" GRAPH("[0,1,0,0],[0,-1,1,1]", "1") "}", "!level 1, bar 0: a bar is negative"},
    // Bars of negative values have no width, and lie at the end of the one above.
    {"{" GRAPH("[0,3,0,0],[0,1,0,1,0,2,0,2,0,0,-4,3],[0,1,3,2,0,0,-2,3,0,2,5,1,0,0,-3,3]",
               "-1") "}",
     "samples/count: other=-4 main;work=3 main;other=-2 work;main=5 work;other=-3"},
    {"{" GRAPH("[0,0,0,0],[0,0,-1,1]", "-1") "}", "samples/count: main=-1"},
    {"{" GRAPH("[9223372036854775807,1,0,0]", "1") "}", "!does not fit 64 bits"},
    {"{" GRAPH("[0,9,9223372036854775807,0],[0,9,1,0]", "1") "}", "!more than 64 bits"},
    {"{" GRAPH("[0,1,1,0]", "\"x\"") "}", "!numTicks is no number"},
    {"{" GRAPH("[0,1,1e30,0]", "1") "}", "!a number of 64 bits"},
    {"{" GRAPH("[0,9000000000000,9000000000000,0]", "1") "," META("cpu", "samples", "1") "}",
     "!do not fit 64 bits of ns"},
    {"{}", "!there is no flamebearer"},
    {"[]", "!an object"},
    {"", "!JSON"},
    {"{\"flamebearer\":1}", "!an object in flamebearer"},
    {"{\"flamebearer\":{\"levels\":1}}", "!a list of levels"},
};

static void bars_become_stacks(void **state)
{
    (void)state;
    tool_check_cases(decode_flamebearer, cases, COUNT(cases));
}

static void bytes_tell_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(tool_of(str_of(cases[i].text)), TOOL_FLAMEBEARER);
    assert_int_equal(tool_of(S("{\"flamebearer\":1}")), TOOL_COUNT);
    assert_int_equal(tool_of(S("flamebearer")), TOOL_COUNT);
    assert_int_equal(tool_of(S("")), TOOL_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_become_stacks),
        cmocka_unit_test(bytes_tell_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
