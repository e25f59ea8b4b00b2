// SPDX-License-Identifier: Apache-2.0
//
// Output of perf script becomes the collapsed text that stackcollapse would make.
#include "decode/perf.h"
#include "lib/test.h"

#define HEAD "shop 77 12.5: 1 cycles:\n"

static const struct {
    const char *name;
    const char *text;
    const char *stacks;  // NULL: refused
} cases[] = {
    {"leaf first", HEAD "\t12 work (/a)\n\t13 main (/a)\n", "shop;main;work 1\n"},
    {"equal stacks", HEAD "\t12 f (/a)\n\n" HEAD "\t14 f (/a)\n", "shop;f 2\n"},
    {"offset", HEAD "\t12 f+0x1f (/a)\n", "shop;f 1\n"},
    {"arguments", HEAD "\t12 a::f(int, b) const (/a)\n", "shop;a::f 1\n"},
    {"process", HEAD "\t12 (shop) (/a)\n", "shop 1\n"},
    {"anonymous namespace", HEAD "\t12 a::(anonymous namespace)::f(int) (/a)\n",
     "shop;a::(anonymous namespace)::f 1\n"},
    {"method of Go", HEAD "\t12 net/http.(*Client).Do (/a)\n", "shop;net/http.(*Client).Do 1\n"},
    {"kernel", HEAD "\t12 read ([kernel.kallsyms])\n", "shop;read_[k] 1\n"},
    {"module", HEAD "\t12 read (/lib/vmlinux)\n", "shop;read_[k] 1\n"},
    {"jit", HEAD "\t12 f (/tmp/perf-77.map)\n", "shop;f_[j] 1\n"},
    {"file of unknown", HEAD "\t12 [unknown] (/lib/libc.so)\n", "shop;[libc.so] 1\n"},
    {"unknown", HEAD "\t12 [unknown] ([unknown])\n", "shop;[unknown] 1\n"},
    {"inlined", HEAD "\t12 f->g (/a)\n", "shop;f;g_[i] 1\n"},
    {"java", "java 7 1.5: 1 c:\n\t12 Lx/Y;::f(I)V (/a)\n", "java;x/Y:::f 1\n"},
    {"separators", "a;b 7 1.5: 1 c:\n\t12 f;g (/a)\n", "a:b;f:g 1\n"},
    {"words of the command", "Web Content 7/8 [001] 1.5: 1 c:\n\t12 f (/a)\n", "Web_Content;f 1\n"},
    {"other event", HEAD "\t12 f (/a)\n\nshop 77 12.5: 1 faults:\n\t12 g (/a)\n", "shop;f 1\n"},
    {"no stack", HEAD "\n" HEAD, "shop 2\n"},
    {"one line", "  false 7 1.5: 1 c:  12 f+0x1 (/a)\n", "false;f 1\n"},
    {"empty line within", HEAD "\n\t12 f (/a)\n", "shop;f 1\n"},
    {"no time", "node 7 cpu-clock: \n\t12 f (/a)\n", "node;f 1\n"},
    {"header", "# a\n\n# b\n" HEAD "\t12 f (/a)\n", "shop;f 1\n"},
    // --fields of perf script
    {"no file", HEAD "\t12 f+0x1\n\t13 a::main(int)\n", "shop;a::main;f 1\n"},
    {"addresses alone", HEAD "\t7f12\n\t7f13\n", "shop;[unknown];[unknown] 1\n"},
    {"no address", HEAD "\tf (/a)\n\tadd (/a)\n", "shop;add;f 1\n"},
    {"no symbol", HEAD "\t7f12 (/l/c.so)\n\t7f13 (/l/c.so)\n", "shop;[c.so];[c.so] 1\n"},
    {"no address and no event", "shop 77 12.5:\n\tf (/a)\n", "shop;f 1\n"},
    {"lines of sources", HEAD "\t12 f (/a)\n  a.c:3\n\t13 main (/a)\n  a.c:9\n", "shop;main;f 1\n"},
    {"instructions", HEAD "\t12 f (/a)\n\t12\tinsn: 48 89\n", "shop;f 1\n"},
    {"mode", "shop 77 [001] U 12.5: 1 cycles:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"time of day", "shop 77 2026-11-26 20:28:33.1 12.5: c:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"nanoseconds", "shop 77 12.123456789: 1 c:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"no command", "77 12.5: 1 cycles:\n\t12 f (/a)\n", "77;f 1\n"},
    {"no command, threads", "77/78 [001] 12.5: 1 c:\n\t12 f (/a)\n", "77/78;f 1\n"},
    {"number in a command", "py 3 77/78 [001] 12.5: 1 c:\n\t12 f (/a)\n", "py_3;f 1\n"},
    {"colon in a command", "tmux: server 77 12.5: 1 c:\n\t12 f (/a)\n", "tmux:_server;f 1\n"},
    {"no event, one line", "shop 77 12.5: 12 f (/a)\n", "shop;f 1\n"},
    {"event without period", "shop 77 12.5: cycles:u:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"arguments of a tracepoint",
     "shop 77 12.5: sched:sched_switch: prev_comm=shop prev_pid=77\n\t12 f (/a)\n", "shop;f 1\n"},
    {"record", "shop 77 12.5: PERF_RECORD_COMM: shop:77/77\n" HEAD "\t12 f (/a)\n", "shop;f 1\n"},
    {"lost samples", HEAD "\t12 f (/a)\nshop 77 12.5: PERF_RECORD_LOST lost 12\n", "shop;f 1\n"},
    {"deleted file", HEAD "\t12 f(int) (/x (deleted))\n\t13 [unknown] (/l/y.so (deleted))\n",
     "shop;[y.so];f 1\n"},
    {"kernel that is a guest's", HEAD "\t12 f ([guest.kernel.kallsyms])\n", "shop;f_[k] 1\n"},
    {"jit without a map", HEAD "\t12 f ([JIT] tid 77)\n", "shop;f_[j] 1\n"},
    {"jit of a dump", HEAD "\t12 f (/tmp/.debug/jitted-77-12.so)\n", "shop;f_[j] 1\n"},
    {"inlined in a file", HEAD "\t12 f (inlined)\n\t12 g (/a)\n", "shop;g;f_[i] 1\n"},
    {"offset in a file", HEAD "\t12 [unknown] (/l/c.so+0x1f)\n", "shop;[c.so] 1\n"},
    {"CR LF", "shop 77 12.5: 1 cycles:\r\n\t12 f (/a)\r\n", "shop;f 1\n"},
    {"no frame without event", "\t12 f (/a)\n", NULL},
    {"prose", "hello world\n", NULL},
    {"empty", "", NULL},
};

static void stacks_are_those_of_stackcollapse(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct buf out;
        struct perf_facts facts;
        err e = {0};
        size_t n = strlen(cases[i].text);
        arena_init(&a, NULL, 1 << 20);
        buf_init(&out, NULL, 1 << 20);
        bool ok = perf_collapse(&a, str_make(tail_guard(cases[i].text, n), n), &out, &facts, &e);
        if (ok != (cases[i].stacks != NULL)) fail_msg("%s: %s", cases[i].name, e.msg);
        if (ok && !str_is(buf_view(&out), cases[i].stacks))
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&out)));
        buf_release(&out);
        arena_release(&a);
    }
}

static void a_script_is_told_by_its_first_sample(void **state)
{
    (void)state;
    assert_true(perf_is_script(S("# x\n\n" HEAD "\t12 f (/a)\n")));
    assert_true(perf_is_script(S("  false 7 1.5: 1 c:  12 f (/a)\n")));
    assert_true(perf_is_script(S(HEAD "\t12 f\n")));
    assert_true(perf_is_script(S("77 12.5: 1 cycles:\n\tf (/a)\n")));
    assert_false(perf_is_script(S("main;work 12\n")));
    assert_false(perf_is_script(S("main work 12\nmain 3\n")));
    assert_false(perf_is_script(S(HEAD "main;work 12\n")));
    assert_false(perf_is_script(S("# x\n")));
    assert_false(perf_is_script(S("")));
}

static void samples_of_other_events_are_counted(void **state)
{
    (void)state;
    struct arena a;
    struct buf out;
    struct perf_facts facts;
    str text = S(HEAD "\n" HEAD "\nshop 77 12.5: 1 faults:\n");
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    assert_ok(perf_collapse(&a, text, &out, &facts, e));
    assert_true(str_is(facts.event, "cycles"));
    assert_int_equal(facts.samples, 2);
    assert_int_equal(facts.samples_of_others, 1);
    buf_release(&out);
    arena_release(&a);
}

static void a_long_stack_is_cut_and_marked(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct buf out;
    struct perf_facts facts;
    arena_init(&a, NULL, 16 << 20);
    buf_init(&text, NULL, 16 << 20);
    buf_init(&out, NULL, 16 << 20);
    buf_z(&text, HEAD);
    for (int i = 20000; i > 0; i--)
        buf_printf(&text, "\t12 frame%05d (/a)\n", i);
    assert_ok(perf_collapse(&a, buf_view(&text), &out, &facts, e));
    assert_true(str_starts(buf_view(&out), S("shop;frame00001;frame00002;")));
    assert_true(str_ends(buf_view(&out), S(";[truncated stack] 1\n")));
    assert_true(out.n > 59900 && out.n < 60100);
    buf_release(&out);
    buf_release(&text);
    arena_release(&a);
}

// A copy may end anywhere: what is left is samples or a fault, and never more samples.
static void every_cut_is_samples_or_a_fault(void **state)
{
    (void)state;
    str whole = S("# x\n" HEAD "\t12 f+0x1f (/a)\n\t13 g (inlined)\n\n" HEAD
                  "\t14 [unknown] (/l/c.so (deleted))\n");
    for (size_t n = 0; n < whole.n; n++) {
        struct arena a;
        struct buf out;
        struct perf_facts facts;
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&out, NULL, 1 << 20);
        if (perf_collapse(&a, str_make(tail_guard(whole.p, n), n), &out, &facts, &e))
            assert_true(facts.samples >= 1 && facts.samples <= 2);
        else
            assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        buf_release(&out);
        arena_release(&a);
    }
}

static bool collapse_all(void *arg, err *e)
{
    struct arena a;
    struct buf out;
    struct perf_facts facts;
    str text = S(HEAD "\t12 f (/a)\n\n" HEAD "\t12 g (/a)\n");
    (void)arg;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    bool ok = perf_collapse(&a, text, &out, &facts, e);
    buf_release(&out);
    arena_release(&a);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(collapse_all, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_those_of_stackcollapse),
        cmocka_unit_test(a_script_is_told_by_its_first_sample),
        cmocka_unit_test(samples_of_other_events_are_counted),
        cmocka_unit_test(a_long_stack_is_cut_and_marked),
        cmocka_unit_test(every_cut_is_samples_or_a_fault),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
