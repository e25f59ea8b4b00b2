// SPDX-License-Identifier: Apache-2.0
#include "intake/text.h"
#include "lib/test.h"

static const struct {
    uint64_t n;
    const char *si;
    const char *binary;
} sizes[] = {
    {0, "0 B", "0 B"},
    {9, "9 B", "9 B"},
    {999, "999 B", "999 B"},
    {1000, "1.0 kB", "1000 B"},
    {1024, "1.0 kB", "1.0 KiB"},
    {20971, "21 kB", "20 KiB"},
    {262144, "262 kB", "256 KiB"},
    {1048576, "1.0 MB", "1.0 MiB"},
    {4194304, "4.2 MB", "4.0 MiB"},
    {134217728, "134 MB", "128 MiB"},
    {UINT64_MAX, "18 EB", "16 EiB"},
};

static void text_prints_sizes_as_humanize_does(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_string_equal(text_bytes(text, sizes[i].n), sizes[i].si);
        assert_string_equal(text_ibytes(text, sizes[i].n), sizes[i].binary);
    }
}

static const struct {
    int64_t ms;
    const char *text;
} times[] = {
    {0, "1970-01-01 00:00:00 +0000 UTC"},
    {1676639594000, "2023-02-17 13:13:14 +0000 UTC"},
    {1676639594500, "2023-02-17 13:13:14.5 +0000 UTC"},
    {1676639594050, "2023-02-17 13:13:14.05 +0000 UTC"},
    {1676639594123, "2023-02-17 13:13:14.123 +0000 UTC"},
    {-1, "1969-12-31 23:59:59.999 +0000 UTC"},
};

static void text_prints_times_as_go_does(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    for (size_t i = 0; i < COUNT(times); i++)
        assert_string_equal(text_time(text, times[i].ms), times[i].text);
}

static void text_shows_large_label_sets_in_part(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    assert_string_equal(text_labels(&a, (labels){0}), "{}");
    label small[] = {{S("a"), S("b\"")}, {S("c"), S("d")}};
    assert_string_equal(text_labels(&a, (labels){small, 2}), "{a=\"b\\\"\", c=\"d\"}");
    char big[5000];
    memset(big, 'v', sizeof big);
    label many[100];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = (label){S("name"), str_make(big, i == 0 ? sizeof big : 40)};
    const char *text = text_labels(&a, (labels){many, COUNT(many)});
    assert_true(strlen(text) < 1100);
    assert_non_null(strstr(text, "vvv...\", name="));
    assert_non_null(strstr(text, ", ...}"));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_prints_sizes_as_humanize_does),
        cmocka_unit_test(text_prints_times_as_go_does),
        cmocka_unit_test(text_shows_large_label_sets_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
