// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_name_time.h"

#include <time.h>

#define NS INT64_C(1000000000)

struct parts {
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second;
    int ms;
    bool has_stamp;
    int64_t stamp_ns;
};

bool name_time_check(str pattern, err *e)
{
    bool has[256] = {0};
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.p[i] != '%') continue;
        unsigned char c = i + 1 < pattern.n ? (unsigned char)pattern.p[++i] : 0;
        if (!c || !strchr("YmdHMSLs%", c)) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "the pattern '%.*s' has an unknown %%%c; known are %%Y %%m %%d %%H %%M "
                           "%%S %%L %%s",
                           STR(pattern), c ? c : ' ');
        }
        has[c] = true;
    }
    if (has['s'] || (has['Y'] && has['m'] && has['d'])) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the pattern '%.*s' has no whole time: it needs %%Y, %%m and %%d, or %%s",
                   STR(pattern));
}

static size_t digits_of(str s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return n;
}

static bool number(str *s, size_t n, int *out)
{
    if (digits_of(*s) < n) return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = *out * 10 + (s->p[i] - '0');
    *s = str_slice(*s, n, s->n);
    return true;
}

static bool stamp(str *s, struct parts *p)
{
    size_t n = digits_of(*s);
    uint64_t v = 0;
    if (n < 9 || n > 19 || !str_u64(str_slice(*s, 0, n), &v)) return false;
    int64_t unit = n <= 11 ? NS : n <= 13 ? NS / 1000 : n <= 16 ? 1000 : 1;
    if (v > INT64_MAX || __builtin_mul_overflow((int64_t)v, unit, &p->stamp_ns)) return false;
    p->has_stamp = true;
    *s = str_slice(*s, n, s->n);
    return true;
}

static bool field(char c, str *s, struct parts *p)
{
    switch (c) {
    case 'Y':
        return number(s, 4, &p->year);
    case 'm':
        return number(s, 2, &p->month);
    case 'd':
        return number(s, 2, &p->day);
    case 'H':
        return number(s, 2, &p->hour);
    case 'M':
        return number(s, 2, &p->minute);
    case 'S':
        return number(s, 2, &p->second);
    case 'L':
        return number(s, 3, &p->ms);
    case 's':
        return stamp(s, p);
    default:
        if (s->n == 0 || s->p[0] != c) return false;
        *s = str_slice(*s, 1, s->n);
        return true;
    }
}

// Does the name begin with the pattern? After a mismatch the last '*' takes one character more: no
// recursion, and each is tried once.
static bool match(str pattern, str name, struct parts *out)
{
    str star_pattern = {0};
    str star_name = {0};
    struct parts star = {0};
    struct parts p = {.month = 1, .day = 1};
    bool has_star = false;
    while (pattern.n) {
        bool is_field = pattern.p[0] == '%' && pattern.n > 1;
        size_t step = is_field ? 2 : 1;
        if (pattern.p[0] == '*') {
            pattern = star_pattern = str_slice(pattern, 1, pattern.n);
            star_name = name;
            star = p;
            has_star = true;
            continue;
        }
        char c = pattern.p[step - 1];
        bool ok = is_field && c != '%' ? field(c, &name, &p) : name.n > 0 && name.p[0] == c;
        if (ok) {
            if (!is_field || c == '%') name = str_slice(name, 1, name.n);
            pattern = str_slice(pattern, step, pattern.n);
        } else if (has_star && star_name.n) {
            name = star_name = str_slice(star_name, 1, star_name.n);
            pattern = star_pattern;
            p = star;
        } else {
            return false;
        }
    }
    *out = p;
    return true;
}

static bool time_of(const struct parts *p, int64_t *ns)
{
    if (p->has_stamp) {
        *ns = p->stamp_ns;
        return true;
    }
    struct tm tm = {.tm_year = p->year - 1900,
                    .tm_mon = p->month - 1,
                    .tm_mday = p->day,
                    .tm_hour = p->hour,
                    .tm_min = p->minute,
                    .tm_sec = p->second};
    if (p->year < 1970 || p->year > 2261 || p->month < 1 || p->month > 12 || p->day < 1 ||
        p->hour > 23 || p->minute > 59 || p->second > 60) {
        return false;
    }
    int64_t seconds = timegm(&tm);
    if (tm.tm_mday != p->day) return false;  // a 31st of February moves on
    *ns = seconds * NS + p->ms * (NS / 1000);
    return true;
}

bool name_time(str pattern, str name, int64_t *ns, err *e)
{
    struct parts p;
    for (size_t i = 0; i <= name.n; i++) {
        if (match(pattern, str_slice(name, i, name.n), &p) && time_of(&p, ns)) return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "its name has no time like '%.*s'", STR(pattern));
}
