// SPDX-License-Identifier: Apache-2.0
//
// rate.c - see rate.h.
#include "decode/rate.h"

#include "codec/json.h"
#include "decode/json_values.h"

#define NS_OF_SECOND 1e9
#define PERIOD_MOST  (3600 * NS_OF_SECOND)  // a longer one is no interval of samples
#define NS_PER_US    1000

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Whether s begins with this word, in letters of any size.
static bool begins(str s, str word)
{
    return str_ieq(str_slice(s, 0, word.n), word) && (s.n == word.n || !is_letter(s.p[word.n]));
}

static bool ends(str s, str word)
{
    return s.n >= word.n && str_ieq(str_slice(s, s.n - word.n, s.n), word);
}

// The number behind a word and signs like ':' and '='; what follows it is left in *s.
static bool take_number(str *s, double *v)
{
    size_t n = 0;
    while (n < s->n && (s->p[n] == ' ' || s->p[n] == '\t' || s->p[n] == ':' || s->p[n] == '='))
        n++;
    str rest = str_slice(*s, n, s->n);
    size_t size = json_number_size(rest);
    if (n == 0 || size == 0 || !json_double(str_slice(rest, 0, size), v)) return false;
    rest = str_slice(rest, size, rest.n);
    // "1,000" and "1_000" are not 1.
    if (rest.n > 1 && str_find(S(",_'"), rest.p[0]) < 3 && rest.p[1] >= '0' && rest.p[1] <= '9')
        return false;
    *s = str_trim(rest);
    return *v > 0;
}

// "5ms": ns; 0 without a unit.
static double period_of(double v, str unit)
{
    static const struct {
        str name;
        double ns;
    } units[] = {{S_INIT("ns"), 1},          {S_INIT("us"), 1e3},
                 {S_INIT("\xc2\xb5s"), 1e3}, {S_INIT("ms"), 1e6},
                 {S_INIT("\xce\xbcs"), 1e3}, {S_INIT("s"), 1e9},
                 {S_INIT("usec"), 1e3},      {S_INIT("microseconds"), 1e3},
                 {S_INIT("nanoseconds"), 1}, {S_INIT("milliseconds"), 1e6},
                 {S_INIT("seconds"), 1e9}};
    for (size_t i = 0; i < COUNT(units); i++) {
        if (begins(unit, units[i].name)) return v * units[i].ns;
    }
    return 0;
}

// The word before an ambiguous one must be nothing, "sample", "sampling", or "--".
static bool is_of_samples(str before)
{
    while (before.n && str_find(S(" \t_-"), before.p[before.n - 1]) < 4 &&
           !str_ends(before, S("--")))
        before.n--;
    return before.n == 0 || ends(before, S("sample")) || ends(before, S("sampling")) ||
           str_ends(before, S("--")) || str_ends(before, S(","));
}

static double period_at(str before, str at)
{
    static const str hertz[] = {S_INIT("rate"), S_INIT("samplerate"), S_INIT("frequency"),
                                S_INIT("freq"), S_INIT("hz")};
    static const str times[] = {S_INIT("interval"), S_INIT("period")};
    double v = 0;
    for (size_t i = 0; i < COUNT(hertz); i++) {
        str rest = str_slice(at, hertz[i].n, at.n);
        if (!begins(at, hertz[i]) || !take_number(&rest, &v)) continue;
        bool sure = i > 0 || is_of_samples(before);
        return sure && (rest.n == 0 || !is_letter(rest.p[0]) || begins(rest, S("hz")))
                   ? NS_OF_SECOND / v
                   : 0;
    }
    for (size_t i = 0; i < COUNT(times); i++) {
        str rest = str_slice(at, times[i].n, at.n);
        if (!begins(at, times[i]) || !take_number(&rest, &v)) continue;
        return i == 0 || is_of_samples(before) ? period_of(v, rest) : 0;
    }
    return 0;
}

void rate_read(struct rate *r, str line)
{
    while (str_starts(line, S("#")) || str_starts(line, S(" ")))
        line = str_slice(line, 1, line.n);
    str text = str_trim(line);
    if (begins(text, S("austin"))) r->is_austin = true;
    if (r->is_austin) {
        double ignored = 0;
        str mode = str_slice(text, 4, text.n);
        // Its counts are times already, so its interval says nothing more.
        bool timed = begins(text, S("mode")) && !take_number(&mode, &ignored) &&
                     (str_contains(mode, S("wall")) || str_contains(mode, S("cpu")));
        if (timed) r->period_ns = NS_PER_US;
        return;
    }
    for (size_t i = 0; i < text.n && r->period_ns == 0; i++) {
        if (!is_letter(text.p[i]) || (i > 0 && is_letter(text.p[i - 1]))) continue;
        double period = period_at(str_slice(text, 0, i), str_slice(text, i, text.n));
        if (period >= 1 && period <= PERIOD_MOST) r->period_ns = (int64_t)period;
    }
}
