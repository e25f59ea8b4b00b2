// SPDX-License-Identifier: Apache-2.0
//
// attime.c - digits, dates, offsets and RFC 3339. Arithmetic of digits and offsets saturates: a
// time beyond 64 bits is the last or the first one.
#include "codec/attime.h"

#define DAY_S     INT64_C(86400)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define SHOWN_MAX 80  // bytes of a text in a message

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

static bool is_date(int64_t year, int64_t month, int64_t day)
{
    if (month < 1 || month > 12 || day < 1) return false;
    // The day is valid if the next month has not begun: so lengths of months need no table.
    int64_t next = month < 12 ? days_of(year, month + 1, 1) : days_of(year + 1, 1, 1);
    return days_of(year, month, day) < next;
}

static bool date(const char *p, int64_t *ns)
{
    int64_t year = number(p, 4);
    int64_t month = number(p + 4, 2);
    int64_t day = number(p + 6, 2);
    // Digits that are no date are seconds (from_digits).
    if (year <= 1900 || !is_date(year, month, day)) return false;
    *ns = times(days_of(year, month, day), DAY_S * NS_PER_S);
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

// The unit of an offset in nanoseconds; 0: there is no such unit. Whole words, because a prefix
// would read 5ms as five minutes.
static int64_t unit_ns(str unit)
{
    static const struct {
        const char *names;  // between blanks
        int64_t ns;
    } units[] = {
        {" ns ", 1},
        {" us ", 1000},
        {" ms ", NS_PER_MS},
        {" s sec secs second seconds ", NS_PER_S},
        {" m min mins minute minutes ", 60 * NS_PER_S},
        {" h hr hrs hour hours ", 3600 * NS_PER_S},
        {" d day days ", DAY_S * NS_PER_S},
        {" w week weeks ", 7 * DAY_S * NS_PER_S},
        {" M mon month months ", 30 * DAY_S * NS_PER_S},
        {" y yr year years ", 365 * DAY_S * NS_PER_S},
    };
    char word[16];
    if (unit.n == 0 || unit.n > sizeof word - 3) return 0;
    word[0] = ' ';
    memcpy(word + 1, unit.p, unit.n);
    word[unit.n + 1] = ' ';
    word[unit.n + 2] = '\0';
    for (size_t i = 0; i < COUNT(units); i++) {
        if (strstr(units[i].names, word)) return units[i].ns;
    }
    return 0;
}

// "1h30m": numbers, each with its unit.
static bool read_offset(str s, int64_t *ns)
{
    int64_t sum = 0;
    if (s.n == 0) return false;
    while (s.n > 0) {
        size_t digits = 0;
        while (digits < s.n && is_digit(s.p[digits]))
            digits++;
        size_t end = digits;
        while (end < s.n && !is_digit(s.p[end]))
            end++;
        int64_t unit = unit_ns(str_slice(s, digits, end));
        if (digits == 0 || unit == 0) return false;
        sum = add(sum, times(number(s.p, digits), unit));
        s = str_slice(s, end, s.n);
    }
    *ns = sum;
    return true;
}

// "now", "now-1h30m", "-1h30m". A '+' that nobody escaped is a space in a URL, and spaces are left
// out: so "now1h" is "now+1h".
static bool read_relative(str s, int64_t now_ns, int64_t *ns)
{
    int64_t offset = 0;
    bool named = str_starts(s, S("now"));
    str rest = str_slice(s, named ? 3 : 0, s.n);
    if (named && rest.n == 0) {
        *ns = now_ns;
        return true;
    }
    bool sign = rest.n > 0 && (rest.p[0] == '-' || rest.p[0] == '+');
    if (!named && !sign) return false;
    if (!read_offset(str_slice(rest, sign, rest.n), &offset)) return false;
    *ns = add(now_ns, sign && rest.p[0] == '-' ? -offset : offset);
    return true;
}

// "1700000000.25": the number of digits before the point tells the unit, as from_digits does.
static bool read_number(str s, int64_t *ns)
{
    size_t whole = 0;
    while (whole < s.n && is_digit(s.p[whole]))
        whole++;
    if (whole == 0) return false;
    if (whole == s.n) {
        *ns = from_digits(s.p, s.n);
        return true;
    }
    int64_t unit = whole == 13 ? NS_PER_MS : whole == 16 ? 1000 : whole == 19 ? 1 : NS_PER_S;
    int64_t sum = times(number(s.p, whole), unit);
    if (s.p[whole] != '.' || whole + 1 == s.n) return false;
    for (size_t i = whole + 1; i < s.n; i++) {
        if (!is_digit(s.p[i])) return false;
        unit /= 10;
        sum = add(sum, unit * (s.p[i] - '0'));
    }
    *ns = sum;
    return true;
}

// ---- RFC 3339

// n digits at the start of *s, within bounds.
static bool take_number(str *s, size_t n, int64_t low, int64_t high, int64_t *v)
{
    assert(n > 0 && n < 10 && low <= high);
    if (s->n < n) return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s->p[i])) return false;
    }
    *v = number(s->p, n);
    *s = str_slice(*s, n, s->n);
    return *v >= low && *v <= high;
}

static bool take(str *s, const char *any)
{
    if (s->n == 0 || !s->p[0] || !strchr(any, s->p[0])) return false;
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

// "Z", "+01:00", or nothing. The '+' may have become a space (read_relative).
static bool take_zone(str *s, int64_t *seconds)
{
    *seconds = 0;
    if (s->n == 0 || take(s, "Zz")) return true;
    // The sign is checked below: anything but '+', ' ' and '-' is refused.
    int64_t sign = s->p[0] == '-' ? -1 : 1;
    int64_t hours = 0;
    int64_t minutes = 0;
    if (!take(s, "+- ") || !take_number(s, 2, 0, 23, &hours)) return false;
    if (!take(s, ":") || !take_number(s, 2, 0, 59, &minutes)) return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool read_rfc3339(str s, int64_t *ns)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    int64_t hour = 0;
    int64_t minute = 0;
    int64_t second = 0;
    int64_t fraction = 0;
    int64_t zone = 0;
    // Years whose nanoseconds fit int64.
    if (!take_number(&s, 4, 1678, 2261, &year) || !take(&s, "-")) return false;
    if (!take_number(&s, 2, 1, 12, &month) || !take(&s, "-")) return false;
    if (!take_number(&s, 2, 1, 31, &day) || !is_date(year, month, day)) return false;
    if (s.n) {
        if (!take(&s, "Tt ") || !take_number(&s, 2, 0, 23, &hour) || !take(&s, ":") ||
            !take_number(&s, 2, 0, 59, &minute))
            return false;
        if (take(&s, ":") && !take_number(&s, 2, 0, 59, &second)) return false;
        if (take(&s, ".")) fraction = take_fraction(&s);
        if (!take_zone(&s, &zone)) return false;
    }
    if (s.n) return false;
    int64_t seconds = days_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
    *ns = (seconds - zone) * NS_PER_S + fraction;
    return true;
}

// ---- all forms

static bool read_time(str text, int64_t now_ns, int64_t *ns)
{
    char p[64];  // no time is longer
    size_t n = 0;
    if (read_rfc3339(text, ns)) return true;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == ' ' || c == '_' || c == ',') continue;
        if (n == sizeof p) return false;
        p[n++] = c;
    }
    str s = str_make(p, n);
    return n > 0 && (read_number(s, ns) || read_relative(s, now_ns, ns));
}

bool attime_parse(str text, int64_t now_ns, int64_t *ns, err *e)
{
    assert(ns);
    str s = str_trim(text);
    if (read_time(s, now_ns, ns)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "'%.*s' is not a time; examples: now-1h30m, 1700000000, 20240131, "
                   "2024-01-31T09:30:00Z",
                   STR(str_slice(s, 0, SHOWN_MAX)));
}
