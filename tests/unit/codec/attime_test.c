// SPDX-License-Identifier: Apache-2.0
//
// Times of URLs in every form, by a table.
#include "codec/attime.h"
#include "lib/test.h"

#define S_NS INT64_C(1000000000)
#define NOW  (INT64_C(1700000000) * S_NS)
#define DAY  (INT64_C(86400) * S_NS)

static const struct {
    const char *text;
    int64_t ns;
} cases[] = {
    {"now", NOW},
    {"0", 0},
    {"1699999999", INT64_C(1699999999) * S_NS},
    {"1699999999123", INT64_C(1699999999123) * 1000000},
    {"1699999999123456", INT64_C(1699999999123456) * 1000},
    {"1699999999123456789", INT64_C(1699999999123456789)},
    {"1_699_999_999", INT64_C(1699999999) * S_NS},
    {"1,699,999,999", INT64_C(1699999999) * S_NS},
    {" 169 9999999 ", INT64_C(1699999999) * S_NS},
    {"20240229", INT64_C(1709164800) * S_NS},
    {"19700101", 0},
    {"20230229", INT64_C(20230229) * S_NS},  // no date: seconds
    {"18991231", INT64_C(18991231) * S_NS},
    {"20241301", INT64_C(20241301) * S_NS},
    {"99999999999999999999", INT64_MAX},
    {"now-1h", NOW - 3600 * S_NS},
    {"now-1h30m", NOW - 5400 * S_NS},
    {"now-3m", NOW - 180 * S_NS},
    {"now-90min", NOW - 5400 * S_NS},
    {"now-90minutes", NOW - 5400 * S_NS},
    {"now+60s", NOW + 60 * S_NS},
    {"now-2d", NOW - 2 * DAY},
    {"now-1w", NOW - 7 * DAY},
    {"now-1mon", NOW - 30 * DAY},
    {"now-1M", NOW - 30 * DAY},
    {"now-1y", NOW - 365 * DAY},
    {"-1h", NOW - 3600 * S_NS},
    {"now-250ms", NOW - S_NS / 4},
    {"now-5us7ns", NOW - 5007},
    {"+1h", NOW + 3600 * S_NS},
    {"now 1h", NOW + 3600 * S_NS},  // a '+' that nobody escaped
    {"now - 1 h", NOW - 3600 * S_NS},
    {"now-99999999999999999y", NOW - INT64_MAX},
    {"1699999999.25", INT64_C(1699999999) * S_NS + S_NS / 4},
    {"1699999999123.5", INT64_C(1699999999123) * 1000000 + 500000},
    {"1699999999.00000000099", INT64_C(1699999999) * S_NS},
    {"2023-11-14T22:13:20Z", NOW},
    {"2023-11-14T22:13:20.123456789Z", NOW + 123456789},
    {"2023-11-14T23:13:20+01:00", NOW},
    {"2023-11-14T23:13:20 01:00", NOW},
    {"2023-11-14T17:43:20-04:30", NOW},
    {"2023-11-14 22:13:20", NOW},
    {"2023-11-14T22:13", NOW - 20 * S_NS},
    {"2023-11-14", NOW - 80000 * S_NS},
    {"2024-02-29T00:00:00Z", INT64_C(1709164800) * S_NS},
    {"1969-12-31T23:59:59Z", -S_NS},
    {"2261-12-31T23:59:59Z", INT64_C(9214646399) * S_NS},
    {"1678-01-01", INT64_C(-9214560000) * S_NS},
};

static const char *const refused[] = {
    "",
    "abc",
    "tuesday",
    "-5",
    "-1700000000",
    "+",
    "-",
    "now-",
    "now-5",
    "now-5parsecs",
    "now-1h-",
    "whatever-1h",
    "1h",
    "now/d",
    "nowish",
    "1e9",
    "1.7e+09",
    "1700000000.",
    ".5",
    "1.2.3",
    "0x10",
    "\xff",
    "2023-02-29T00:00:00Z",
    "2023-13-01",
    "2023-11-14T24:00:00Z",
    "2023-11-14T22:13:20+1",
    "2023-11-14T22:13:20Zx",
    "2023-11-14T22:13:20.Zx",
    "23-11-14T22:13:20Z",
    "9999-01-01",
    "1111111111111111111111111111111111111111111111111111111111111111111111111",
};

static void attime_reads_every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t got = 1;
        size_t n = strlen(cases[i].text);
        assert_ok(attime_parse(str_make(tail_guard(cases[i].text, n), n), NOW, &got, e));
        if (got != cases[i].ns) fail_msg("%s: %lld", cases[i].text, (long long)got);
    }
}

static void other_texts_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        int64_t got = 1;
        err e = {0};
        size_t n = strlen(refused[i]);
        if (attime_parse(str_make(tail_guard(refused[i], n), n), NOW, &got, &e))
            fail_msg("%s: %lld", refused[i], (long long)got);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(e.msg, "' is not a time; examples: now-1h30m"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attime_reads_every_form),
        cmocka_unit_test(other_texts_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
