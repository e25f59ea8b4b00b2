// SPDX-License-Identifier: Apache-2.0
//
// attime.c - digits, dates and offsets. Arithmetic saturates: a time beyond 64 bits is the last or
// the first one.
#include "codec/attime.h"

#define DAY_S     86400
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return product;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t number(const char *p, size_t n)
{
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        assert(is_digit(p[i]));
        v = add(times(v, 10), p[i] - '0');
    }
    return v;
}

// Days from 1970-01-01 to a date of the Gregorian calendar ("days from civil": years begin in
// March, so that the leap day is the last).
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    assert(year > 0 && month >= 1 && month <= 12);
    year -= month <= 2;
    int64_t era = year / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static bool date(const char *p, int64_t *ns)
{
    int64_t year = number(p, 4);
    int64_t month = number(p + 4, 2);
    int64_t day = number(p + 6, 2);
    // Digits that are no date are seconds (from_digits).
    if (year <= 1900 || month < 1 || month > 12 || day < 1) return false;
    int64_t next = month < 12 ? days_of(year, month + 1, 1) : days_of(year + 1, 1, 1);
    int64_t at = days_of(year, month, day);
    if (at >= next) return false;
    // The day is valid if the next month has not begun: so lengths of months need no table.
    *ns = times(at, DAY_S * NS_PER_S);
    return true;
}

static int64_t from_digits(const char *p, size_t n)
{
    int64_t ns = 0;
    if (n == 8 && date(p, &ns)) return ns;
    assert(n > 0);
    // By their number: digits of milliseconds, microseconds, nanoseconds; any other are seconds.
    int64_t v = number(p, n);
    switch (n) {
    case 13:
        return times(v, NS_PER_MS);
    case 16:
        return times(v, 1000);
    case 19:
        return v;
    default:
        return times(v, NS_PER_S);
    }
}

static int64_t unit_seconds(str unit)
{
    static const struct {
        str prefix;
        int64_t seconds;
    } units[] = {
        {S_INIT("s"), 1},
        {S_INIT("mon"), INT64_C(30) * DAY_S},
        {S_INIT("M"), INT64_C(30) * DAY_S},
        {S_INIT("m"), 60},
        {S_INIT("h"), 3600},
        {S_INIT("d"), DAY_S},
        {S_INIT("w"), INT64_C(7) * DAY_S},
        {S_INIT("y"), INT64_C(365) * DAY_S},
    };
    for (size_t i = 0; i < COUNT(units); i++) {
        if (str_starts(unit, units[i].prefix)) return units[i].seconds;
    }
    return 0;
}

static int64_t offset_ns(const char *p, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n;) {
        size_t digits = i;
        while (digits < n && is_digit(p[digits])) {
            digits++;
        }
        size_t letters = digits;
        while (letters < n && !is_digit(p[letters])) {
            letters++;
        }
        // A unit that is unknown counts as 0 seconds, as Pyroscope has it.
        int64_t seconds = unit_seconds(str_make(p + digits, letters - digits));
        sum = add(sum, times(number(p + i, digits - i), times(seconds, NS_PER_S)));
        i = letters;
    }
    return sum;
}

int64_t attime_parse(str text, int64_t now_ns)
{
    char p[64];  // longer texts mean nothing, so their end is cut off
    size_t n = 0;
    size_t digits = 0;
    for (size_t i = 0; i < text.n && n < sizeof p; i++) {
        char c = text.p[i];
        if (c == ' ' || c == '_' || c == ',') continue;
        digits += is_digit(c);
        p[n++] = c;
    }
    if (n > 0 && digits == n) return from_digits(p, n);
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '+' && p[i] != '-') continue;
        // The text before the sign is passed over: it can only be "now".
        int64_t offset = offset_ns(p + i + 1, n - i - 1);
        return add(now_ns, p[i] == '-' ? -offset : offset);
    }
    return now_ns;
}
