// SPDX-License-Identifier: Apache-2.0
//
// Reports of macOS' `sample`, and trees that Instruments copied.
#include "lib/tool.h"

#define HEAD  "Analysis of sampling shop (pid 7) every 1 millisecond\nProcess:  shop [7]\n\n"
#define GRAPH HEAD "Call graph:\n"
#define SW    "samples/count,wall/nanoseconds: "
#define MAIN  "[thread=com.apple.main-thread pid=7] "

static const struct tool_case cases[] = {
    {GRAPH "    9 Thread_12   DispatchQueue_1: com.apple.main-thread  (serial)\n"
           "    + 9 start  (in dyld) + 1  [0x7fff1]\n"
           "    +   5 main  (in shop) + 8,20,...  [0x2,0x3]  main.c:7\n"
           "    +   ! 3 work  (in shop) + 8  [0x2]\n"
           "    +   | 1 work  (in shop) + 9  [0x2]\n"
           "    +   3 idle  (in shop) + 9  [0x2]\n"
           "    2 Thread_13: worker\n"
           "      2 ???  (in libx.dylib)  load address 0x1000 + 0x234  [0x1234]\n"
           "\nTotal number in stack (recursive counted multiple, when >=5):\n        5       x\n"
           "\nSort by top of stack, same collapsed (when >= 5):\n        idle  (in shop)   3\n",
     SW MAIN "start=1,1000000 " MAIN "start;main=1,1000000 " MAIN "start;main;work=4,4000000 " MAIN
             "start;idle=3,3000000 [thread=worker pid=7] libx.dylib!0x234=2,2000000"},
    // Threads without a name, frames of no thread, and without a library; another interval.
    {"Analysis of sampling shop (pid 7) every 10 milliseconds\r\nCall graph:\r\n"
     "    1 Thread_99\r\n      1 ???  [0x44]\r\n    2 start\r\n\r\n",
     SW "[thread=Thread_99 pid=7] 0x44=1,10000000 [pid=7] start=2,20000000"},
    {"Call graph:\n  1 a\n    1 ???\n", "samples/count: a;[unknown]=1"},
    // A thread that has no frames; lines that are none.
    {"Call graph:\n  3 Thread_1\n    what\n    1 a\n 5x y\n",
     "samples/count: [thread=Thread_1] a=1 [thread=Thread_1] [unknown]=2 | bad_line=2"},
    {"Call graph:\n  1 a\xff\n", "samples/count: a\xef\xbf\xbd=1 | bad_text=1"},
    {"Call graph:\n  1 a\n    2 b\n", "!a line of 1 has lines of 2 below it"},
    {"Call graph:\n  1 a\n    9223372036854775807 b\n    1 c\n", "!more than 64 bits"},
    {"Call graph:\n  9223372036854775808 a\n", "!there is no sample"},
    {"Analysis of sampling a (pid 1) every 9e9 seconds\nCall graph:\n  9 a\n",
     "!do not fit 64 bits"},
    {"Call graph:\n", "!there is no sample"},
    {"hello\n", "!neither a report"},
    {"", "!neither a report"},
    // Instruments.
    {"Running Time\tSelf (ms)\t\tSymbol Name\n9.0ms  100.0%\t4.0\t \tstart\n5.0ms   55.5%\t5,0\t "
     "\t main\n5.0ms   55.5%\t5.0\t \t  work\n",
     "cpu/nanoseconds: start=4000000 start;main;work=5000000"},
    {"Weight\tSelf Weight\t\tSymbol Name\n1.50 s  100.0%\t0 s\t \tshop (7)\n1.50 s 100.0%\t500.00 "
     "ms\t \t main\n1.00 s  66.6%\t1.00 s\t \t  work\n\n2.00 \xc2\xb5s  0.0%\t2.00 \xce\xbcs\t "
     "\tx\n",
     "cpu/nanoseconds: shop (7);main=500000000 shop (7);main;work=1000000000 x=2000"},
    {"Bytes Used\tCount\t\tSymbol Name\n2.00 KB 100.0%\t9\t \tmain\n  24 Bytes 1.0%\t1\t \t "
     "work\n1 s 1%\t1\t \tbad\n",
     "space/bytes: main=2024 main;work=24 | bad_line=1"},
    {"Weight\tSelf Weight\t\tSymbol Name\n2.00 Kc 100.0%\t2.00 Kc\t \tmain\n",
     "cycles/count: main=2000"},
    // "-" is 0; rows that were folded up have all of their value.
    {"Weight\tSelf Weight\t\tSymbol Name\n9.00 Gc 100.0%\t-\t \tmain\n8.00 Gc  88.8%\t1.00 Gc\t "
     "\t a\n6.90 Gc  76.6%\t6.90 Gc\t \t  b\n100.00 Mc 1.1%\t-\t \t  c\n900.00 Mc 10.0%\t1.00 "
     "Mc\t \t d\n",
     "cycles/count: main;a=1000000000 main;a;b=6900000000 main;a;c=100000000 main;d=900000000"},
    // Values that were rounded may be more below.
    {"Weight\t\tSymbol Name\n1.0 s 100.0%\t \tmain\n1.1 s\t \t work\n",
     "cpu/nanoseconds: main;work=1100000000"},
    {"Weight\t\tSymbol Name\nx\t \tmain\n", "!there is no value in this tree"},
    {"Weight\t\tSymbol Name\n", "!there is no value in this tree"},
};

static void lines_become_stacks(void **state)
{
    (void)state;
    tool_check_cases(decode_sample, cases, COUNT(cases));
}

static void bytes_tell_the_format(void **state)
{
    (void)state;
    static const size_t told[] = {0, 1, 12, 13, 14, 15, 16};
    for (size_t i = 0; i < COUNT(told); i++)
        assert_int_equal(tool_of(str_of(cases[told[i]].text)), TOOL_SAMPLE);
    // One that was cut off in its head is no list of stacks either.
    assert_int_equal(tool_of(S(HEAD)), TOOL_SAMPLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_stacks),
        cmocka_unit_test(bytes_tell_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
