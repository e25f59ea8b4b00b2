// SPDX-License-Identifier: Apache-2.0
//
// cli_time.c - RFC 3339 and the times of the API, read strictly.
#include "deploy/cli/cli_time.h"

#include "codec/attime.h"
#include "sys/clock.h"

#include <time.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// ---- RFC 3339

// n digits at the start of *s, within bounds.
static bool take_number(str *s, size_t n, int low, int high, int *v)
{
    assert(n > 0 && n < 10 && low <= high);  // fits an int
    if (s->n < n) return false;
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s->p[i])) return false;
        *v = *v * 10 + (s->p[i] - '0');
    }
    *s = str_slice(*s, n, s->n);
    return *v >= low && *v <= high;
}

static bool take(str *s, const char *any)
{
    if (s->n == 0 || !strchr(any, s->p[0])) return false;
    *s = str_slice(*s, 1, s->n);
    return true;
}

static int64_t take_fraction(str *s)
{
    int64_t ns = 0;
    int64_t unit = NS_PER_S / 10;
    // Digits behind the ninth are worth 0: `unit` is 0 by then.
    for (; s->n && is_digit(s->p[0]); *s = str_slice(*s, 1, s->n), unit /= 10)
        ns += (s->p[0] - '0') * unit;
    return ns;
}

// "Z", "+01:00", or nothing.
static bool take_zone(str *s, int64_t *seconds)
{
    *seconds = 0;
    if (s->n == 0 || take(s, "Zz")) return true;
    // The sign is checked below: anything but '+' and '-' is refused.
    int sign = s->p[0] == '-' ? -1 : 1;
    int hours = 0;
    int minutes = 0;
    if (!take(s, "+-") || !take_number(s, 2, 0, 23, &hours)) return false;
    if (!take(s, ":") || !take_number(s, 2, 0, 59, &minutes)) return false;
    *seconds = sign * (hours * INT64_C(3600) + minutes * INT64_C(60));
    return true;
}

static bool rfc3339(str s, int64_t *ns)
{
    struct tm tm = {0};
    int year = 0;
    int month = 0;
    int64_t fraction = 0;
    int64_t zone = 0;
    // Years whose nanoseconds fit int64.
    if (!take_number(&s, 4, 1678, 2261, &year) || !take(&s, "-")) return false;
    if (!take_number(&s, 2, 1, 12, &month) || !take(&s, "-")) return false;
    if (!take_number(&s, 2, 1, 31, &tm.tm_mday)) return false;
    if (s.n) {
        if (!take(&s, "Tt ") || !take_number(&s, 2, 0, 23, &tm.tm_hour) || !take(&s, ":") ||
            !take_number(&s, 2, 0, 59, &tm.tm_min))
            return false;
        if (take(&s, ":") && !take_number(&s, 2, 0, 59, &tm.tm_sec)) return false;
        if (take(&s, ".")) fraction = take_fraction(&s);
        if (!take_zone(&s, &zone)) return false;
    }
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    int day = tm.tm_mday;
    // timegm() mends dates that do not exist instead of refusing them, and changes tm then.
    int64_t seconds = timegm(&tm);
    if (s.n || tm.tm_mday != day) return false;  // a 31st of February moves on
    *ns = (seconds - zone) * NS_PER_S + fraction;
    return true;
}

// ---- attime, strictly: texts that it ignores are errors here

static bool is_offset(str s)
{
    static const char *const units[] = {"s", "m", "min", "h", "d", "w", "M", "mon", "y"};
    if (s.n == 0) return false;
    while (s.n) {
        size_t digits = 0;
        while (digits < s.n && is_digit(s.p[digits]))
            digits++;
        size_t end = digits;
        while (end < s.n && !is_digit(s.p[end]))
            end++;
        str unit = str_slice(s, digits, end);
        bool known = false;
        for (size_t i = 0; i < COUNT(units); i++)
            known = known || str_is(unit, units[i]);
        if (!known || digits == 0) return false;
        s = str_slice(s, end, s.n);
    }
    return true;
}

static bool is_attime(str s)
{
    size_t digits = 0;
    while (digits < s.n && is_digit(s.p[digits]))
        digits++;
    // A number is a time in seconds or more, or a date.
    if (digits == s.n) return s.n > 0;
    if (str_is(s, "now")) return true;
    if (!str_starts(s, S("now-")) && !str_starts(s, S("now+"))) return false;
    return is_offset(str_slice(s, 4, s.n));
}

bool cli_time_parse(str text, int64_t now_ns, int64_t *ns, err *e)
{
    assert(ns);
    str s = str_trim(text);
    if (is_attime(s)) {
        *ns = attime_parse(s, now_ns);
        return true;
    }
    if (rfc3339(s, ns)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "'%.*s' is not a time; examples: now-1h30m, 1700000000, 20240131, "
                   "2024-01-31T09:30:00Z",
                   STR(text));
}

// ---- printing

static void broken_down(int64_t ns, struct tm *tm)
{
    // C divides towards 0, and times before 1970 must be rounded down too.
    int64_t s = ns / NS_PER_S - (ns % NS_PER_S < 0);
    time_t t = (time_t)s;
    gmtime_r(&t, tm);
}

static void put(struct buf *b, const char *format, const struct tm *tm)
{
    char text[64];
    size_t n = strftime(text, sizeof text, format, tm);
    assert(n > 0 && n < sizeof text);
    buf_put(b, text, n);
}

void cli_time_put(struct buf *b, int64_t ns)
{
    struct tm tm;
    broken_down(ns, &tm);
    put(b, "%Y-%m-%d %H:%M:%S", &tm);
}

void cli_time_put_range(struct buf *b, int64_t from_ns, int64_t until_ns)
{
    struct tm from;
    struct tm until;
    broken_down(from_ns, &from);
    broken_down(until_ns, &until);
    bool same_day = from.tm_year == until.tm_year && from.tm_yday == until.tm_yday;
    put(b, "%Y-%m-%d %H:%M:%S", &from);
    buf_z(b, " – ");
    put(b, same_day ? "%H:%M:%S UTC" : "%Y-%m-%d %H:%M:%S UTC", &until);
}
