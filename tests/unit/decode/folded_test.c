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
    const char *stacks;  // NULL: refused
} folded[] = {
    {"two lines", "a;b 1\na;c 2\n", "a;b=1 a;c=2 "},
    {"no final line end", "a;b 1\na;c 2", "a;b=1 a;c=2 "},
    {"CR LF", "a;b 1\r\na;c 2\r\n", "a;b=1 a;c=2 "},
    {"empty text", "", ""},
    {"blank lines", "\n\na 1\n\n", "a=1 "},
    {"line without a space", "nospace\na 1\n", "a=1 "},
    {"spaces in frames", "operator new (x);b c 3\n", "operator new (x);b c=3 "},
    {"leading space", " a;b 1\n", " a;b=1 "},
    {"empty frames", ";;x 2\n", ";;x=2 "},
    {"empty stack", " 7\n", "=7 "},
    {"same stack twice", "a 1\na 1\n", "a=1 a=1 "},
    {"recursion", "a;a;a 2\n", "a;a;a=2 "},
    {"zero", "a 0\n", "a=0 "},
    {"negative", "a -5\n", "a=-5 "},
    {"plus", "a +5\n", "a=5 "},
    {"largest", "a 9223372036854775807\n", "a=9223372036854775807 "},
    {"too large", "a 9223372036854775808\n", NULL},
    {"no number", "a b\n", NULL},
    {"fraction", "a;b 1.5\n", NULL},
    {"trailing space", "a;b 1 \n", NULL},
    {"hexadecimal", "a 0x10\n", NULL},
    {"a head of comments", "# command: x -d 5\n#\r\n# py-spy 0.3.14\na;b 3\n", "a;b=3 "},
    {"nothing but a head", "# samples: 12", ""},
    {"a frame with a number sign", "#1;b 3\n", "#1;b=3 "},
    {"a number sign behind stacks", "a 1\n# x 2\n", "a=1 # x=2 "},
    {"a fault behind a head", "# x\na b\n", NULL},
    {"bytes that are no UTF-8", "\xff\xfe 4\n", "\xff\xfe=4 "},
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
        bool cut = true;
        bool ok = decode_folded(&a, text, &no_options, &d, &cut, &e);
        if (ok != (folded[i].stacks != NULL) || cut) fail_msg("%s: %s", folded[i].name, e.msg);
        if (ok && strcmp(stacks_of(d.profiles), folded[i].stacks) != 0) {
            fail_msg("%s: %s", folded[i].name, stacks_of(d.profiles));
        }
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
}

static void folded_shares_functions_of_equal_name(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct decoded d = {0};
    assert_ok(decode_folded(&a, S("a;b 1\nb;a 2\na;c 3\n"), &no_options, &d, NULL, e));
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

static void folded_ends_at_a_line_of_64_kib(void **state)
{
    (void)state;
    const struct {
        size_t n;
        bool last;
        uint32_t samples;
    } cases[] = {{65535, false, 3}, {65536, false, 1}, {65535, true, 2}, {65536, true, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        str text = with_long_line(&b, cases[i].n, cases[i].last);
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct decoded d = {0};
        bool cut = false;
        assert_ok(decode_folded(&a, text, &no_options, &d, &cut, e));
        assert_int_equal(d.profiles->sample_count, cases[i].samples);
        assert_int_equal(cut, cases[i].n > 65535);
        err e = {0};
        bool ok = decode_lines(&a, text, &no_options, &d, &e);
        assert_int_equal(ok, cases[i].n <= 65535);
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
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
    buf_z(&b, " 1");
    struct arena a;
    arena_init(&a, NULL, 4 << 20);
    struct decoded d = {0};
    assert_ok(decode_folded(&a, buf_view(&b), &no_options, &d, NULL, e));
    assert_int_equal(d.profiles->samples[0].location_count, 65534);
    assert_int_equal(d.profiles->function_count, 1);
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
    assert_ok(decode_folded(&a, S("a;b 1"), &o, &d, NULL, e));
    err e = {0};
    assert_false(decode_folded(&a, S("a;b 12"), &o, &d, NULL, &e));
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
    bool ok = decode_folded(&a, S("a;b 1\nc;d;e 2\nf 3\n"), &no_options, &d, NULL, e);
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
        cmocka_unit_test(folded_ends_at_a_line_of_64_kib),
        cmocka_unit_test(folded_reads_a_stack_of_a_whole_line),
        cmocka_unit_test(lines_are_a_sample_each),
        cmocka_unit_test(folded_keeps_to_the_size_given),
        cmocka_unit_test(folded_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
