// SPDX-License-Identifier: Apache-2.0
//
// The text of callgrind: what each function used itself is kept, on stacks of its callers.
#include "lib/tool.h"

#define HEAD \
    "# callgrind format\nversion: 1\ncreator: callgrind-3.19\npositions: line\nevents: Ir\n"
#define IR "instructions/count: "

static const struct tool_case cases[] = {
    // Numbers for names, positions that refer to the one before, a file that is inlined from.
    {HEAD "ob=(1) /bin/shop\nfl=(1) shop.c\nfn=(1) main\n16 20\n+2 5\nfi=(2) x.h\n* 5\nfe=(1)\n"
          "cfn=(2) work\ncalls=3 50\n-2 400\n\nfn=(2)\n50 400\nsummary: 430\n",
     IR "main=30 main;work=400"},
    // Two callers: in proportion to what was used for each.
    {HEAD "fn=a\n1 1\ncfn=w\ncalls=1 9\n1 75\nfn=b\n2 2\ncfn=w\ncalls=1 9\n2 25\nfn=w\n9 100\n",
     IR "a=1 a;w=75 b=2 b;w=25"},
    {HEAD "fn=a\n1 1\ncfn=w\ncalls=1 9\n1 1\nfn=b\n2 2\ncfn=w\ncalls=1 9\n2 2\nfn=w\n9 3\ncfn=z\n"
          "calls=1 9\n9 10\nfn=z\n3 10\n",
     IR "a=1 w=2 b=2 b;w=1 w;z=7 a;w;z=1 b;w;z=2"},
    // The line cfi= names the file of the next call only.
    {HEAD "fl=a.c\nfn=a\n1 1\ncfl=b.c\ncfn=b\ncalls=1 9\n1 5\ncfn=c\ncalls=1 3\n1 7\nfn=c\n3 7\n"
          "fl=b.c\nfn=b\n9 5\n",
     IR "a=1 a;b=5 a;c=7"},
    // Recursion, of one function and of two.
    {HEAD
     "fn=a\n1 4\ncfn=a\ncalls=2 1\n1 9\ncfn=b\ncalls=1 1\n1 6\nfn=b\n1 6\ncfn=a\ncalls=1 1\n1 2\n",
     IR "a=3 b=1 b;a=1 a;b=5"},
    // Other events; what a line lacks is 0; the same names in other files are other functions.
    {"events: Ir Dr Bc+x 9 9\npositions: instr line\nfl=a.c\nfn=f\n0x40 1 5 6 7\n+0x3 * "
     "5\nfl=b.c\nfn=f\n"
     "0x50 2 0x10\n",
     "instructions/count,dr/count,bcx/count,event_4/count,event_5/count: f=10,6,7,0,0 "
     "f=16,0,0,0,0"},
    // Xdebug's have units; their memory may shrink, and their summary is no sum.
    {"version: 1\ncreator: xdebug 3.2 (PHP 8.2)\nevents: Time_(10ns) Memory_(bytes)\n\nfl=(1) "
     "php:internal\n"
     "fn=(1) php::strlen\n5 3 -16\n\nfl=(2) /i.php\nfn=(2) {main}\n\nsummary: 90 4000\n\n1 7 "
     "32\ncfl=(1)\n"
     "cfn=(1)\ncalls=1 0 0\n5 3 -16\n",
     "wall/nanoseconds,space/bytes: {main}=70,32 {main};php::strlen=30,0 php::strlen=0,-16"},
    // Addresses are of their object.
    {HEAD "ob=/lib/libc.so.6\nfl=???\nfn=0x0000000000001100\n0 7\n", IR "libc.so.6!0x1100=7"},
    // Names and functions that are not there, lines that are none, more in the sum.
    {HEAD "1 4\nfn=(9)\n1 5\nsummary: 9\n", IR "[unknown]=9 | unknown_frame=2"},
    {HEAD "fn=f\n1 4\n1 x\n1 2 3\nGARBAGE\n1 5\ntotals: 11\nsummary: 90\n",
     IR "f=9 [unknown]=2 | bad_line=3 unknown_stack=1"},
    {HEAD "fn=\xff\n1 4\n", IR "\xef\xbf\xbd=4 | bad_text=1"},
    // Parts, with sums of their own, and jumps.
    {HEAD "fn=f\n1 4\njump=3 9\n1\nsummary: 4\npart: 2\nevents: Ir\nfn=f\n1 5\nsummary: 5\n",
     IR "f=9"},
    {HEAD "fn=f\n1 4\r\n", IR "f=4"},
    // Tabs between names of events, and a call of nobody, whose line is not of the caller itself.
    {"events:\tIr\tDr\nfn=f\n1 4\t5\n", "instructions/count,dr/count: f=4,5"},
    {HEAD "fn=f\n1 4\ncalls=1 9\n1 7\nfn=w\n9 7\n", IR "f=4 w=7 | unknown_frame=1"},
    {HEAD "fn=f\n1 4\nevents: Dr\n", "!line 8: its parts have different events"},
    {HEAD "fn=f\n1 9223372036854775807\n1 1\n", "!line 8: the values of a function"},
    {HEAD "fn=f\n1 -9223372036854775808\n", "!does not fit 64 bits"},
    {HEAD "fn=f\n1 0\n", "!there is no sample"},
    {HEAD, "!there is no sample"},
    {"events:\n", "!line 1: it names no event"},
    {"fn=f\nevents: Ir\n", "!line 1: names before `events:`"},
    {"1 2\n", "!line 1: values before `events:`"},
    {"# callgrind format\n", "!it has no line `events:`"},
    {"hello world\n", "!line 1: it is no text of callgrind"},
    {"positions: a b c\n", "!more than 2 positions"},
    {"", "!it has no line `events:`"},
};

static void values_of_functions_are_kept(void **state)
{
    (void)state;
    tool_check_cases(decode_callgrind, cases, COUNT(cases));
}

static void bytes_tell_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(tool_of(str_of(cases[i].text)),
                         str_contains(str_of(cases[i].text), S("fn=")) ? TOOL_CALLGRIND
                                                                       : TOOL_COUNT);
    assert_int_equal(tool_of(S("main;fn=x 3\n")), TOOL_COUNT);
}

// Layers of functions that all call each other have more stacks than can be: few are made, and
// their values add up.
static void graphs_with_many_ways_are_bounded(void **state)
{
    (void)state;
    enum {
        LAYERS = 40,
        WIDTH = 12
    };
    static const struct decode_options any;
    struct buf b;
    struct arena a;
    struct decoded d = {0};
    buf_init(&b, NULL, 8 << 20);
    arena_init(&a, NULL, (size_t)256 << 20);
    buf_z(&b, "events: Ir\n");
    for (int i = 0; i < LAYERS * WIDTH; i++) {
        buf_printf(&b, "fn=f%d\n1 1000000\n", i);
        for (int k = 0; i / WIDTH + 1 < LAYERS && k < WIDTH; k++)
            buf_printf(&b, "cfn=f%d\ncalls=1 1\n1 %d\n", (i / WIDTH + 1) * WIDTH + k,
                       (LAYERS - i / WIDTH) * 1000000 / WIDTH);
    }
    assert_ok(decode_callgrind(&a, buf_view(&b), &any, &d, e));
    int64_t sum = 0;
    for (uint32_t i = 0; i < d.profiles->sample_count; i++)
        sum += d.profiles->values[i];
    assert_int_equal(sum, (int64_t)LAYERS * WIDTH * 1000000);
    assert_true(d.profiles->sample_count <= 16384 + LAYERS * WIDTH);
    arena_release(&a);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_functions_are_kept),
        cmocka_unit_test(bytes_tell_the_format),
        cmocka_unit_test(graphs_with_many_ways_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
