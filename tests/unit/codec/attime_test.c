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
    {"", NOW},
    {"now", NOW},
    {"tuesday", NOW},
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
    {"whatever-1h", NOW - 3600 * S_NS},
    {"-1h", NOW - 3600 * S_NS},
    {"now-5", NOW},
    {"now-5parsecs", NOW},
    {"now-", NOW},
    {"now - 1 h", NOW - 3600 * S_NS},
    {"now-99999999999999999y", NOW - INT64_MAX},
};

static void attime_reads_every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t got = attime_parse(str_of(cases[i].text), NOW);
        if (got != cases[i].ns) fail_msg("%s: %lld", cases[i].text, (long long)got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attime_reads_every_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
