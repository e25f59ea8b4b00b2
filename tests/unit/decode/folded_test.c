// SPDX-License-Identifier: Apache-2.0
//
// Collapsed text becomes samples, line by line.
#include "base/buf.h"
#include "decode/decode.h"
#include "lib/test.h"

#include <stdio.h>

static const struct decode_options no_options;

// "a;b=5 " for each sample, root first.
static const char *stacks_of(const struct profile *p)
{
    static char text[4096];
    size_t n = 0;
    assert_int_equal(p->type_count, 1);
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        for (uint32_t k = s->location_count; k-- > 0;) {
            uint32_t location = p->stack_locations[s->first_location + k];
            assert_true(location < p->location_count);
            const struct profile_location *l = &p->locations[location];
            assert_int_equal(l->line_count, 1);
            assert_int_equal(l->mapping, PROFILE_NONE);
            str name = p->functions[p->lines[l->first_line].function].name;
            n += (size_t)snprintf(text + n, sizeof text - n, "%.*s%s", STR(name), k ? ";" : "");
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "=%lld ", (long long)p->values[i]);
    }
    text[n] = '\0';
    return text;
}

static const struct {
    const char *name;
    const char *text;
    const char *stacks;  // or the refusal, behind a '!'
    uint64_t bad_lines;
} folded[] = {
    {"two lines", "a;b 1\na;c 2\n", "a;b=1 a;c=2 ", 0},
    {"no final line end", "a;b 1\na;c 2", "a;b=1 a;c=2 ", 0},
    {"CR LF", "a;b 1\r\na;c 2\r\n", "a;b=1 a;c=2 ", 0},
    {"empty text", "", "", 0},
    {"blank lines", "\n\na 1\n \r\n\n", "a=1 ", 0},
    {"line without a space", "nospace\na 1\n", "a=1 ", 1},
    {"spaces in frames", "operator new (x);b c 3\n", "operator new (x);b c=3 ", 0},
    {"leading space", " a;b 1\n", " a;b=1 ", 0},
    {"empty frames", ";;x 2\na;;b 3\n", "[unknown];[unknown];x=2 a;[unknown];b=3 ", 0},
    {"a separator at the end", "a;b; 5\na;b;; 2\n", "a;b=5 a;b;[unknown]=2 ", 0},
    {"nothing but a separator", "; 5\n", "[unknown]=5 ", 0},
    {"empty stack", " 7\n", "[unknown]=7 ", 0},
    {"same stack twice", "a 1\na 1\n", "a=1 a=1 ", 0},
    {"recursion", "a;a;a 2\n", "a;a;a=2 ", 0},
    {"zero", "a 0\n", "a=0 ", 0},
    {"negative", "a -5\n", "a=-5 ", 0},
    {"plus", "a +5\n", "a=5 ", 0},
    {"largest", "a 9223372036854775807\n", "a=9223372036854775807 ", 0},
    {"too large", "b 1\na 9223372036854775808\n", "b=1 ", 1},
    {"too large alone", "a 9223372036854775808\n", "!line 1: bad count", 0},
    {"no number", "x 1\na b\nc 2\n", "x=1 c=2 ", 1},
    {"no number anywhere", "\na b\nc d\n", "!line 2: bad count: \"a b\"", 0},
    {"no count anywhere", "nospace\n", "!line 1: no count behind a space: \"nospace\"", 0},
    // 1.5 + 2.25 + 0.25 = 4
    {"fractions", "a;b 1.5\nc 2.25\nd 0.25\n", "a;b=2 c=2 d=0 ", 0},
    // 0.3 of each is owed to the next ones, until it is a half of one.
    {"small fractions", "a 0.3\nb 0.3\nc 0.3\nd 0.3\n", "a=0 b=1 c=0 d=0 ", 0},
    {"exponent", "a;b 1.2e3\n", "a;b=1200 ", 0},
    {"negative fractions", "a -1.5\nb -1.5\n", "a=-2 b=-1 ", 0},
    {"fraction too large", "a 1\nb 1e300\n", "a=1 ", 1},
    {"trailing space", "a;b 1 \t\r\n", "a;b=1 ", 0},
    {"tab", "a;b\t1\n", "a;b=1 ", 0},
    {"tab and space", "a;b \t1\n", "a;b =1 ", 0},
    {"hexadecimal", "b 1\na 0x10\n", "b=1 ", 1},
    {"a head of comments", "# command: x -d 5\n#\r\n# py-spy 0.3.14\na;b 3\n", "a;b=3 ", 0},
    {"nothing but a head", "# samples: 12", "", 0},
    {"a frame with a number sign", "#1;b 3\n", "#1;b=3 ", 0},
    {"a comment behind stacks", "a 1\n# x 2\nb 3\n", "a=1 b=3 ", 1},
    {"a fault behind a head", "# x\na b\n", "!line 2: bad count: \"a b\"", 0},
    {"bytes that are no UTF-8", "a\xff\xfe 4\n", "a\xef\xbf\xbd\xef\xbf\xbd=4 ", 0},
    {"marks of joined files", "\xef\xbb\xbfm;a 5\n\xef\xbb\xbfm;a 7\n", "m;a=5 m;a=7 ", 0},
    {"byte order mark", "\xef\xbb\xbfm;a 5\nm;b 7\n", "m;a=5 m;b=7 ", 0},
};

static void folded_reads_the_count_behind_the_last_space(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(folded); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        size_t n = strlen(folded[i].text);
        str text = str_make(tail_guard(folded[i].text, n), n);
        struct decoded d = {0};
        err e = {0};
        bool refused = folded[i].stacks[0] == '!';
        bool ok = decode_folded(&a, text, &no_options, &d, &e);
        if (ok == refused || (refused && !strstr(e.msg, folded[i].stacks + 1)))
            fail_msg("%s: %s", folded[i].name, e.msg);
        if (ok && (strcmp(stacks_of(d.profiles), folded[i].stacks) != 0 ||
                   d.profiles->losses.count[LOSS_BAD_LINE] != folded[i].bad_lines)) {
            fail_msg("%s: %s", folded[i].name, stacks_of(d.profiles));
        }
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
}

// Files of difffolded.pl, and stacks whose names end in a number.
static void a_first_of_two_counts_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t told;
        const char *refusal;
    } pairs[] = {
        {"a;b 10 20\n", 1, NULL},
        {"# x\na;b 10 20\n\na;c\t7\t5\r\nd 0 3", 3, NULL},
        {"a;b 10 20\na;c 5 0\n", 0, "line 2 has two counts: it is a difference of two profiles"},
        {"worker 0 5\nworker 1 0\n", 0, NULL},
        {"thread 1;f 4 5\nthread 2;g 4 5\n", 0, NULL},
        {"a;b 10 20\na;c 5\n", 0, NULL},
        {"a;b 10 20\na;b 10 20\n", 0, NULL},
        {"std::array<int, 3> 10\n", 0, NULL},
        {" 10 20\n", 0, NULL},
        {"a;b 10\n", 0, NULL},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct arena a;
        struct decoded d = {0};
        err e = {0};
        size_t n = strlen(pairs[i].text);
        arena_init(&a, NULL, 1 << 20);
        bool ok = decode_folded(&a, str_make(tail_guard(pairs[i].text, n), n), &no_options, &d, &e);
        if (ok == (pairs[i].refusal != NULL) || (!ok && !strstr(e.msg, pairs[i].refusal)))
            fail_msg("%s: %s", pairs[i].text, e.msg);
        if (ok && d.profiles->losses.count[LOSS_TWO_COUNTS] != pairs[i].told)
            fail_msg("%s: told otherwise", pairs[i].text);
        arena_release(&a);
    }
}

static void names_that_are_mended_are_counted(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(decode_folded(&a, S("m;\xff 1\nm;\xc3\xa4;\x80 2\n 3\n"), &no_options, &d, e));
    assert_int_equal(d.profiles->losses.count[LOSS_BAD_TEXT], 2);
    assert_int_equal(d.profiles->losses.count[LOSS_UNKNOWN_STACK], 1);
    arena_release(&a);
}

#define WIDE                   \
    "m\0;\0a\0 \0"             \
    "5\0\n\0\x3d\xd8\0\xde \0" \
    "2\0\n\0"

static const struct {
    const char *name;
    str text;
    const char *stacks;  // or the refusal, behind a '!'
} wide[] = {
    {"little endian", S_INIT("\xff\xfe" WIDE), "m;a=5 \xf0\x9f\x98\x80=2 "},
    {"big endian",
     S_INIT("\xfe\xff\0m\0;\0a\0 \0"
            "5"),
     "m;a=5 "},
    {"half of a pair",
     S_INIT("\xfe\xff\xd8\x3d\0 \0"
            "5"),
     "\xef\xbf\xbd=5 "},
    {"half a unit",
     S_INIT("\xfe\xff\0m\0 \0"
            "5\0\n\0"),
     "!line 2"},
    {"nothing", S_INIT("\xff\xfe"), ""},
    {"UTF-32", S_INIT("\xff\xfe\0\0m\0\0\0"), "!text in UTF-32"},
    {"UTF-32, big endian", S_INIT("\0\0\xfe\xff\0\0\0m"), "!text in UTF-32"},
};

static void text_in_utf16_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(wide); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        str text = str_make(tail_guard(wide[i].text.p, wide[i].text.n), wide[i].text.n);
        struct decoded d = {0};
        err e = {0};
        const char *want = wide[i].stacks;
        bool ok = decode_folded(&a, text, &no_options, &d, &e);
        bool half = ok && d.profiles->losses.count[LOSS_BAD_LINE] == 1;
        bool good = want[0] == '!' ? half || (!ok && strstr(e.msg, want + 1))
                                   : ok && strcmp(stacks_of(d.profiles), want) == 0;
        if (!good) fail_msg("%s: %s", wide[i].name, ok ? stacks_of(d.profiles) : e.msg);
        arena_release(&a);
    }
}

static const struct {
    const char *head;
    int64_t period;
} rates[] = {
    {"# interval 5ms\n", 5000000},
    {"# interval: 5 ms\n", 5000000},
    {"# INTERVAL=250us\r\n", 250000},
    {"# Interval: 100\n", 0},  // of what?
    {"# async-profiler 4.1 event=cpu,interval=1000000ns\n", 1000000},
    {"# command: py-spy record --rate 200 --pid 7\n", 5000000},
    {"# sample rate: 199\n", 5025125},
    {"# sample_rate=1000 Hz\n", 1000000},
    {"# sample rate: 1,000 Hz\n", 0},
    {"# interval: 10_000us, 10ms\n", 0},
    {"# interval: 10ms, 5 threads\n", 10000000},
    {"# sampling-rate 50Hz\n", 20000000},
    {"# frequency: 99\n", 10101010},
    {"# error rate: 7\n", 0},
    {"# rate: 7 MB\n", 0},
    {"# rate: 0\n", 0},
    {"# rate: 1e300\n", 0},
    {"# period: 10ms\n# rate 50\n", 10000000},
    {"# retention period: 10ms\n", 0},
    {"# pirate 7\n", 0},
    {"# austin: 3.6.0\n# interval: 100\n# mode: wall\n", 1000},
    {"# austin: 3.6.0\n# interval: 100\n# mode: memory\n", 0},
    {"", 0},
};

static void a_head_states_the_rate(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rates); i++) {
        struct arena a;
        struct decoded d = {0};
        arena_init(&a, NULL, 1 << 20);
        str text = arena_printf(&a, "%sa;b 7\n# interval 3ms\n", rates[i].head);
        assert_ok(decode_folded(&a, text, &no_options, &d, e));
        if (d.profiles->period != rates[i].period)
            fail_msg("%s: %lld", rates[i].head, (long long)d.profiles->period);
        assert_int_equal(d.profiles->period_type.type.n != 0, rates[i].period != 0);
        assert_int_equal(d.profiles->values[0], 7);
        // A rate that the request gives overrides the file's.
        struct decode_options o = {.sample_rate = 10};
        assert_ok(decode_folded(&a, text, &o, &d, e));
        assert_int_equal(d.profiles->period, 100000000);
        arena_release(&a);
    }
}

static void folded_shares_functions_of_equal_name(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct decoded d = {0};
    assert_ok(decode_folded(&a, S("a;b 1\nb;a 2\na;c 3\n"), &no_options, &d, e));
    assert_int_equal(d.profiles->function_count, 3);
    assert_int_equal(d.profiles->location_count, 3);
    assert_true(str_is(d.profiles->types[0].type, "samples"));
    assert_true(str_is(d.profiles->types[0].unit, "count"));
    assert_int_equal(d.profiles->encoded_bytes, 18);
    arena_release(&a);
}

// "a;b 1\n", then one line of `n` bytes with or without a line end, then "c 2\n".
static str with_long_line(struct buf *b, size_t n, bool last)
{
    buf_init(b, NULL, 1 << 20);
    buf_z(b, "a;b 1\n");
    for (size_t i = 0; i + 2 < n; i++) {
        buf_byte(b, 'x');
    }
    buf_z(b, " 9");
    if (!last) buf_z(b, "\nc 2\n");
    return buf_view(b);
}

static void long_lines_are_read_as_others(void **state)
{
    (void)state;
    static const size_t sizes[] = {65535, 65536, 65537, 200000};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        struct buf b;
        bool last = i % 2;
        str text = with_long_line(&b, sizes[i / 2], last);
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct decoded d = {0};
        assert_ok(decode_folded(&a, text, &no_options, &d, e));
        assert_int_equal(d.profiles->sample_count, last ? 2 : 3);
        assert_int_equal(d.profiles->values[1], 9);
        assert_ok(decode_lines(&a, text, &no_options, &d, e));
        assert_int_equal(d.profiles->sample_count, last ? 2 : 3);
        arena_release(&a);
        buf_release(&b);
    }
}

static void folded_reads_a_stack_of_a_whole_line(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    for (int i = 0; i < 65533; i++) {
        buf_byte(&b, ';');
    }
    buf_byte(&b, 'x');
    buf_z(&b, " 1");
    struct arena a;
    arena_init(&a, NULL, 4 << 20);
    struct decoded d = {0};
    assert_ok(decode_folded(&a, buf_view(&b), &no_options, &d, e));
    assert_int_equal(d.profiles->samples[0].location_count, 65534);
    assert_int_equal(d.profiles->function_count, 2);
    arena_release(&a);
    buf_release(&b);
}

static void lines_are_a_sample_each(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct decoded d = {0};
    assert_ok(decode_lines(&a, S("a;b\r\n\nx;y 7\na;b"), &no_options, &d, e));
    assert_string_equal(stacks_of(d.profiles), "a;b=1 x;y 7=1 a;b=1 ");
    assert_ok(decode_lines(&a, S(""), &no_options, &d, e));
    assert_string_equal(stacks_of(d.profiles), "");
    arena_release(&a);
}

static void folded_keeps_to_the_size_given(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct decoded d = {0};
    struct decode_options o = {.inflated_max = 5};
    assert_ok(decode_folded(&a, S("a;b 1"), &o, &d, e));
    err e = {0};
    assert_false(decode_folded(&a, S("a;b 12"), &o, &d, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
}

static bool decode_some(void *arg, err *e)
{
    (void)arg;
    struct mem_budget budget;
    mem_budget_init(&budget, "test", NULL, 0);
    struct arena a;
    arena_init(&a, &budget, 1 << 20);
    struct decoded d = {0};
    bool ok = decode_folded(&a, S("a;b 1\nc;d;e 2\nf 3\n"), &no_options, &d, e);
    arena_release(&a);
    assert_int_equal(budget.used, 0);
    return ok;
}

static void folded_fails_cleanly_without_memory(void **state)
{
    (void)state;
    assert_true(torture(decode_some, NULL) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_reads_the_count_behind_the_last_space),
        cmocka_unit_test(folded_shares_functions_of_equal_name),
        cmocka_unit_test(long_lines_are_read_as_others),
        cmocka_unit_test(a_first_of_two_counts_is_told),
        cmocka_unit_test(names_that_are_mended_are_counted),
        cmocka_unit_test(text_in_utf16_is_read),
        cmocka_unit_test(a_head_states_the_rate),
        cmocka_unit_test(folded_reads_a_stack_of_a_whole_line),
        cmocka_unit_test(lines_are_a_sample_each),
        cmocka_unit_test(folded_keeps_to_the_size_given),
        cmocka_unit_test(folded_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
