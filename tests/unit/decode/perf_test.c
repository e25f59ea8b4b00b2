// SPDX-License-Identifier: Apache-2.0
//
// The text of perf script becomes a profile with the stacks that stackcollapse would make, and the
// command and the process of each sample.
#include "decode/decode.h"
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
    {"java", "java 7 1.5: 1 cycles:\n\t12 Lx/Y;::f(I)V (/a)\n", "java;x/Y:::f 1\n"},
    {"separators", "a;b 7 1.5: 1 cycles:\n\t12 f;g (/a)\n", "a:b;f:g 1\n"},
    {"words of the command", "Web Content 7/8 [001] 1.5: 1 cycles:\n\t12 f (/a)\n",
     "Web_Content;f 1\n"},
    // Without a head of its own
    {"frames alone", "\t  7f0012 f+0x1\n\t  7f0013 main\n\n\t  7f0012 f\n\t  7f0013 main\n",
     "main;f 2\n"},
    {"frames alone, at small addresses",
     "\t            1000 f\n\t    7f0013 main\n\n\t            12 g\n\t            1010 main\n",
     "main;f 1\nmain;g 1\n"},
    {"frames alone, with files", "  7f0012 f (/a)\n  7f0013 main (/a)\n\n\n", "main;f 1\n"},
    {"addresses without stacks", "     7f0012 f\n     7f0013 g\n     7f0012 f\n", "f 2\ng 1\n"},
    {"command alone", "shop \n\t7f0012 f\n\n\nWeb Content \n\t7f0012 f\n",
     "shop;f 1\nWeb_Content;f 1\n"},
    {"command and pid", "shop 77 \n\t7f0012 f\n\nshop 77 \n\t7f0012 f\n", "shop;f 2\n"},
    {"command, pid and thread", "shop 77/78 [001] \n\t7f0012 f\n", "shop;f 1\n"},
    {"pid alone", "   77 \n\t7f0012 f\n", "77;f 1\n"},
    {"time alone", " 12.500000: \n\t7f0012 f\n", "f 1\n"},
    {"event alone", "cycles:u: \n\t7f0012 f\n\ncycles:u: \n\t7f0012 f\n", "f 2\n"},
    {"marks of joined files",
     "\xef\xbb\xbf" HEAD "\t12 f (/a)\n\n\xef\xbb\xbf" HEAD "\t12 f (/a)\n", "shop;f 2\n"},
    {"byte order mark", "\xef\xbb\xbf" HEAD "\t12 f (/a)\n", "shop;f 1\n"},
    {"name that is no UTF-8", HEAD "\t12 \xff (/a)\n", "shop;\xef\xbf\xbd 1\n"},
    {"no stack", HEAD "\n" HEAD, "shop 2\n"},
    {"one line", "  false 7 1.5: 1 cycles:  12 f+0x1 (/a)\n", "false;f 1\n"},
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
    {"time of day", "shop 77 2026-11-26 20:28:33.1 12.5: cycles:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"nanoseconds", "shop 77 12.123456789: 1 cycles:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"no command", "77 12.5: 1 cycles:\n\t12 f (/a)\n", "77;f 1\n"},
    {"no command, threads", "77/78 [001] 12.5: 1 cycles:\n\t12 f (/a)\n", "77/78;f 1\n"},
    {"number in a command", "py 3 77/78 [001] 12.5: 1 cycles:\n\t12 f (/a)\n", "py_3;f 1\n"},
    {"colon in a command", "tmux: server 77 12.5: 1 cycles:\n\t12 f (/a)\n", "tmux:_server;f 1\n"},
    {"no event, one line", "shop 77 12.5: 12 f (/a)\n", "shop;f 1\n"},
    {"event without period", "shop 77 12.5: cycles:u:\n\t12 f (/a)\n", "shop;f 1\n"},
    {"arguments of a tracepoint",
     "shop 77 12.5: cpu-cycles: prev_comm=shop prev_pid=77\n\t12 f (/a)\n", "shop;f 1\n"},
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
    {"no small address without a tab or an event", "  12 f (/a)\n", NULL},
    {"prose", "hello world\n", NULL},
    {"empty", "", NULL},
};

static const struct decode_options no_options;

static void put_stack(struct buf *out, const struct profile *p, const struct profile_sample *s)
{
    for (uint32_t n = s->location_count; n-- > 0;) {
        const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + n]];
        buf_str(out, p->functions[p->lines[l->first_line].function].name);
        if (n) buf_byte(out, ';');
    }
}

// Collapsed; with labels as "{comm=x,pid=7} stack count".
static void put(struct buf *out, const struct profile *p, bool with_labels)
{
    assert_true(str_is(p->types[0].unit, "count"));
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        for (uint32_t k = 0; with_labels && k < s->label_count; k++) {
            const struct profile_label *l = &p->labels[s->first_label + k];
            buf_printf(out, "%s%.*s=%.*s", k ? "," : "{", STR(l->key), STR(l->text));
        }
        if (with_labels) buf_z(out, "} ");
        put_stack(out, p, s);
        buf_printf(out, " %lld\n", (long long)p->values[(size_t)i * p->type_count]);
    }
}

static bool decode(struct arena *a, str text, struct decoded *d, err *e)
{
    text = str_make(tail_guard(text.p, text.n), text.n);
    return decode_perf(a, text, &no_options, d, e);
}

static void check(const char *name, const char *text, const char *expected, bool with_labels)
{
    struct arena a;
    struct buf out;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    bool ok = decode(&a, str_of(text), &d, &e);
    if (ok != (expected != NULL)) fail_msg("%s: %s", name, e.msg);
    if (ok) put(&out, d.profiles, with_labels);
    if (ok && !str_is(buf_view(&out), expected)) fail_msg("%s: %.*s", name, STR(buf_view(&out)));
    buf_release(&out);
    arena_release(&a);
}

static void stacks_are_those_of_stackcollapse(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check(cases[i].name, cases[i].text, cases[i].stacks, false);
}

#define FRAME "\t12 f (/a)\n"

static const struct {
    const char *name;
    const char *text;
    const char *samples;
} origins[] = {
    {"command and process", HEAD FRAME, "{comm=shop,pid=77} shop;f 1\n"},
    {"process of a thread", "shop 77/78 12.5: 1 cycles:\n" FRAME, "{comm=shop,pid=77} shop;f 1\n"},
    {"threads are one process", "a 7/8 1.5: 1 cycles:\n" FRAME "a 7/9 1.6: 1 cycles:\n" FRAME,
     "{comm=a,pid=7} a;f 2\n"},
    {"processes stay apart", "a 7 1.5: 1 cycles:\n" FRAME "a 8 1.6: 1 cycles:\n" FRAME,
     "{comm=a,pid=7} a;f 1\n{comm=a,pid=8} a;f 1\n"},
    {"commands stay apart", "a b 7 1.5: 1 cycles:\n" FRAME "a_b 7 1.6: 1 cycles:\n" FRAME,
     "{comm=a b,pid=7} a_b;f 1\n{comm=a_b,pid=7} a_b;f 1\n"},
    {"no command", "77/78 [001] 12.5: 1 cycles:\n" FRAME, "{pid=77} 77/78;f 1\n"},
    {"command that is its pid", "77 77 12.5: 1 cycles:\n" FRAME, "{comm=77,pid=77} 77;f 1\n"},
    {"number in a command", "py 3 77/78 [001] 12.5: 1 cycles:\n" FRAME,
     "{comm=py 3,pid=77} py_3;f 1\n"},
    {"no time", "node 7 cpu-clock: \n" FRAME, "{comm=node,pid=7} node;f 1\n"},
    {"no time, with a period", "node 7 250 cpu-clock: \n" FRAME, "{comm=node,pid=7} node;f 1\n"},
    {"indented", "      node 7 [000] 1.5: 1 cycles:\n" FRAME, "{comm=node,pid=7} node;f 1\n"},
    {"long pid", "a 123456789012345678901234567890 1.5: 1 cycles:\n" FRAME,
     "{comm=a,pid=123456789012345678901234567890} a;f 1\n"},
};

static void samples_have_their_command_and_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(origins); i++)
        check(origins[i].name, origins[i].text, origins[i].samples, true);
}

static void a_script_is_told_by_its_first_sample(void **state)
{
    (void)state;
    assert_true(perf_is_script(S("# x\n\n" HEAD "\t12 f (/a)\n")));
    assert_true(perf_is_script(S("  false 7 1.5: 1 cycles:  12 f (/a)\n")));
    assert_true(perf_is_script(S(HEAD "\t12 f\n")));
    assert_true(perf_is_script(S("77 12.5: 1 cycles:\n\tf (/a)\n")));
    assert_true(perf_is_script(S("\t  7f0012 f\n\t  7f0013 main\n")));
    assert_true(perf_is_script(S("\t12 f\n\t13 main\n")));
    assert_true(perf_is_script(S("shop \n\t  7f0012 f\n")));
    assert_true(perf_is_script(
        S("shop 77 [001] 12.5: sched:sched_switch: prev_pid=1 ==> next_pid=0\n\t12 f (/a)\n")));
    assert_true(perf_is_script(S("shop 77 12.5: cycles:u: \n\nshop 77 12.6: cycles:u: \n")));
    assert_true(perf_is_script(S("shop 77 12.5: cycles:u: \n")));
    assert_false(perf_is_script(S("shop \nmain;work 12\n")));
    assert_false(perf_is_script(S("  12 apples\n")));
    assert_false(perf_is_script(S("main;work 12\n")));
    assert_false(perf_is_script(S("main work 12\nmain 3\n")));
    assert_false(perf_is_script(S(HEAD "main;work 12\n")));
    assert_false(perf_is_script(S("# x\n")));
    assert_false(perf_is_script(S("")));
}

#define CLOCK "shop 77 12.5: 5025125 cpu-clock:u:\n"

static const struct {
    const char *name;
    const char *text;
    const char *profiles;  // "event type/unit,..@period stack=value,value ..; " of each
} events[] = {
    {"a clock has its time", CLOCK FRAME "\n" CLOCK FRAME,
     " samples/count cpu/nanoseconds @5025125: shop;f=2,10050250 ; "},
    {"each sample its own", CLOCK FRAME "\nshop 77 12.6: 7 cpu-clock:u:\n" FRAME,
     " samples/count cpu/nanoseconds @7: shop;f=2,5025132 ; "},
    {"a period that is missing is that before", CLOCK FRAME "\nshop 77 12.6: cpu-clock:u:\n" FRAME,
     " samples/count cpu/nanoseconds @5025125: shop;f=2,10050250 ; "},
    {"task-clock", "shop 77 12.5: 9 task-clock:ppp:\n" FRAME,
     " samples/count cpu/nanoseconds @9: shop;f=1,9 ; "},
    {"a clock without periods", "shop 77 cpu-clock: \n" FRAME, " samples/count @0: shop;f=1 ; "},
    {"cycles are no time", "shop 77 12.5: 250000 cycles:P:\n" FRAME,
     " samples/count @0: shop;f=1 ; "},
    {"the rate of the head",
     "# event : name = cycles:P, , id = { 1 }, { sample_period, sample_freq } = 199, freq = 1\n"
     "shop 77 12.5: 250000 cycles:P:\n" FRAME,
     " samples/count @5025125: shop;f=1 ; "},
    {"the rate of the head, with another modifier",
     "# event : name = cycles:ppp, { sample_period, sample_freq } = 1000, freq = 1, x\n"
     "shop 77 12.5: 250000 cycles:\n" FRAME,
     " samples/count @1000000: shop;f=1 ; "},
    {"a period in the head is no rate",
     "# event : name = cycles, { sample_period, sample_freq } = 4000000, sample_type = IP\n"
     "shop 77 12.5: 4000000 cycles:\n" FRAME,
     " samples/count @0: shop;f=1 ; "},
    {"the rate of the command",
     "# cmdline : /usr/bin/perf record -F 200 -g ./x\nshop 77 12.5: 3 cycles:\n" FRAME,
     " samples/count @5000000: shop;f=1 ; "},
    {"the rate of the command, in one word",
     "# cmdline : perf record --freq=500 -g\nshop 77 12.5: 3 cycles:\n" FRAME,
     " samples/count @2000000: shop;f=1 ; "},
    {"the rate of the command, among other options",
     "# cmdline : perf record -e cycles --call-graph dwarf -p 5 -agF 500 -o x\n"
     "shop 77 12.5: 3 cycles:\n" FRAME,
     " samples/count @2000000: shop;f=1 ; "},
    {"an option of the program is no rate",
     "# cmdline : perf record -e cycles -c 4000 -g ./x -F 500\nshop 77 12.5: 3 cycles:\n" FRAME,
     " samples/count @0: shop;f=1 ; "},
    {"an option of the program behind two dashes",
     "# cmdline : perf record -e cycles -- ./x -F 500\nshop 77 12.5: 3 cycles:\n" FRAME,
     " samples/count @0: shop;f=1 ; "},
    // --fields comm,period,event,ip and period,event,ip
    {"a period without a pid",
     "shop     5025125 cpu-clock:u: \n" FRAME "\nshop          7 cpu-clock:u: \n" FRAME,
     " samples/count cpu/nanoseconds @7: shop;f=2,5025132 ; "},
    {"a period without a command",
     "   5025125 cpu-clock:u: \n" FRAME "\n         7 cpu-clock:u: \n" FRAME,
     " samples/count cpu/nanoseconds @7: f=2,5025132 ; "},
    {"faults are counted", "shop 77 12.5: 3 page-faults:u:\n" FRAME,
     " page_faults_u/count @0: shop;f=3 ; "},
    {"a tracepoint", "shop 77 12.5: sched:sched_switch: prev_pid=77\n" FRAME,
     " sched_sched_switch/count @0: shop;f=1 ; "},
    {"every event is kept",
     CLOCK FRAME "\nshop 77 12.5: 3 page-faults:\n" FRAME "\n" CLOCK FRAME
                 "\nshop 77 12.5: 4 page-faults:\n" FRAME,
     "cpu-clock:u samples/count cpu/nanoseconds @5025125: shop;f=2,10050250 ; "
     "page-faults page_faults/count @0: shop;f=7 ; "},
    {"modifiers are events", HEAD FRAME "shop 77 12.5: 1 cycles:u:\n" FRAME,
     "cycles samples/count @0: shop;f=1 ; cycles:u samples/count @0: shop;f=1 ; "},
};

static void put_profiles(struct buf *b, const struct decoded *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct profile *p = &d->profiles[i];
        buf_str(b, p->name);
        for (uint32_t k = 0; k < p->type_count; k++)
            buf_printf(b, " %.*s/%.*s", STR(p->types[k].type), STR(p->types[k].unit));
        buf_printf(b, " @%lld: ", (long long)p->period);
        for (uint32_t k = 0; k < p->sample_count; k++) {
            put_stack(b, p, &p->samples[k]);
            for (uint32_t n = 0; n < p->type_count; n++)
                buf_printf(b, "%s%lld", n ? "," : "=", (long long)p->values[k * p->type_count + n]);
            buf_byte(b, ' ');
        }
        buf_z(b, "; ");
    }
}

static void each_event_has_its_profile_and_its_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(events); i++) {
        struct arena a;
        struct buf got;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&got, NULL, 1 << 16);
        bool ok = decode(&a, str_of(events[i].text), &d, &e);
        if (ok) put_profiles(&got, &d);
        if (!ok || !str_is(buf_view(&got), events[i].profiles))
            fail_msg("%s: %.*s%s", events[i].name, STR(buf_view(&got)), e.msg);
        buf_release(&got);
        arena_release(&a);
    }
}

static void a_rate_that_is_asked_for_counts_more_than_the_text(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    struct decode_options o = {.sample_rate = 100};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(decode_perf(&a, S(CLOCK FRAME "\n" CLOCK FRAME), &o, &d, e));
    assert_int_equal(d.profiles->period, 10000000);
    assert_int_equal(d.profiles->values[1], 20000000);
    arena_release(&a);
}

// A line that may have been the head of a sample is counted; other lines that perf prints are not.
static void lines_that_are_no_part_of_a_sample_are_counted(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(decode(&a,
                     S(CLOCK FRAME "  a.c:3\n|3 f();\nshop 7\x01 12.5 cpu\n" FRAME
                                   "shop 77 12.5: PERF_RECORD_LOST lost 12\n# x\ngarbage\n"),
                     &d, e));
    assert_int_equal(d.profiles->losses.count[LOSS_BAD_LINE], 2);
    assert_int_equal(d.profiles->values[0], 1);
    arena_release(&a);
}

static void a_period_beyond_64_bits_is_refused(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_false(decode(&a, S("shop 77 12.5: 9223372036854775808 cpu-clock:\n" FRAME), &d, &e));
    assert_string_equal(e.msg, "period 9223372036854775808 of a sample, limit 2^63-1");
    arena_release(&a);
}

static void a_text_without_samples_is_refused_with_its_first_odd_line(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_false(decode(&a, S("# x\n\nhello world\nmore\n"), &d, &e));
    assert_non_null(
        strstr(e.msg, "line 3 is neither the head nor a frame of one: \"hello world\""));
    arena_release(&a);
}

static void more_events_than_perf_has_are_refused(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 8 << 20);
    buf_init(&text, NULL, 1 << 20);
    for (int i = 0; i < 201; i++)
        buf_printf(&text, "shop 77 12.5: 1 event%d:\n" FRAME, i);
    assert_false(decode(&a, buf_view(&text), &d, &e));
    assert_non_null(strstr(e.msg, "more than 200 events"));
    buf_release(&text);
    arena_release(&a);
}

static void a_long_stack_is_cut_and_marked(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct buf out;
    struct decoded d = {0};
    arena_init(&a, NULL, 16 << 20);
    buf_init(&text, NULL, 16 << 20);
    buf_init(&out, NULL, 16 << 20);
    buf_z(&text, HEAD);
    for (int i = 20000; i > 0; i--)
        buf_printf(&text, "\t12 frame%05d (/a)\n", i);
    assert_ok(decode(&a, buf_view(&text), &d, e));
    put(&out, d.profiles, false);
    assert_true(str_starts(buf_view(&out), S("shop;frame00001;frame00002;")));
    assert_true(str_ends(buf_view(&out), S(";[truncated stack] 1\n")));
    assert_true(out.n > 59900 && out.n < 60100);
    buf_release(&out);
    buf_release(&text);
    arena_release(&a);
}

// What counts against limits is about the profile, not its text.
static void the_size_is_that_of_the_profile(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    arena_init(&a, NULL, 16 << 20);
    buf_init(&text, NULL, 16 << 20);
    for (int i = 0; i < 1000; i++)
        buf_z(&text, HEAD FRAME "\n");
    assert_ok(decode(&a, buf_view(&text), &d, e));
    assert_int_equal(d.profiles->values[0], 1000);
    assert_true(d.profiles->encoded_bytes > 0 && d.profiles->encoded_bytes < 200);
    struct decode_options small = {.inflated_max = text.n - 1};
    err e = {0};
    assert_false(decode_perf(&a, buf_view(&text), &small, &d, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
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
        struct decoded d = {0};
        err e = {0};
        int64_t samples = 0;
        arena_init(&a, NULL, 1 << 20);
        if (decode(&a, str_slice(whole, 0, n), &d, &e)) {
            for (uint32_t i = 0; i < d.profiles->sample_count; i++)
                samples += d.profiles->values[i];
            assert_true(samples >= 1 && samples <= 2);
        } else {
            assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        }
        arena_release(&a);
    }
}

static bool decode_all(void *arg, err *e)
{
    struct arena a;
    struct decoded d = {0};
    (void)arg;
    arena_init(&a, NULL, 1 << 20);
    bool ok = decode_perf(&a, S(HEAD FRAME "\n" HEAD "\t12 g (/a)\n"), &no_options, &d, e);
    arena_release(&a);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(torture(decode_all, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_those_of_stackcollapse),
        cmocka_unit_test(samples_have_their_command_and_process),
        cmocka_unit_test(a_script_is_told_by_its_first_sample),
        cmocka_unit_test(each_event_has_its_profile_and_its_values),
        cmocka_unit_test(a_rate_that_is_asked_for_counts_more_than_the_text),
        cmocka_unit_test(lines_that_are_no_part_of_a_sample_are_counted),
        cmocka_unit_test(a_period_beyond_64_bits_is_refused),
        cmocka_unit_test(a_text_without_samples_is_refused_with_its_first_odd_line),
        cmocka_unit_test(more_events_than_perf_has_are_refused),
        cmocka_unit_test(a_long_stack_is_cut_and_marked),
        cmocka_unit_test(the_size_is_that_of_the_profile),
        cmocka_unit_test(every_cut_is_samples_or_a_fault),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
