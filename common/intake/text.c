// SPDX-License-Identifier: Apache-2.0
//
// text.c - the formats of Go's libraries (humanize, time) that Pyroscope's messages have.
#include "intake/text.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

// A message (err) has room for about 1500 bytes, and what is wrong comes behind the label set, so
// the set must leave room for it.
#define LABELS_SHOWN 900
#define VALUE_SHOWN  100

static const char *scaled(char text[TEXT_MAX], uint64_t n, uint64_t base, const char *const *units)
{
    if (n < 10) {
        snprintf(text, TEXT_MAX, "%" PRIu64 " B", n);
        return text;
    }
    assert(base > 1);
    double v = (double)n;
    size_t unit = 0;
    for (; v >= (double)base && unit < 6; unit++) {
        v /= (double)base;
    }
    double rounded = (double)(int64_t)(v * 10 + 0.5) / 10;
    snprintf(text, TEXT_MAX, rounded < 10 ? "%.1f %s" : "%.0f %s", rounded, units[unit]);
    return text;
}

const char *text_bytes(char text[TEXT_MAX], uint64_t n)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    return scaled(text, n, 1000, units);
}

const char *text_ibytes(char text[TEXT_MAX], uint64_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled(text, n, 1024, units);
}

const char *text_time(char text[TEXT_MAX], int64_t unix_ms)
{
    int64_t ms = unix_ms % 1000;
    if (ms < 0) ms += 1000;
    time_t s = (time_t)((unix_ms - ms) / 1000);
    struct tm tm = {0};
    if (!gmtime_r(&s, &tm)) {
        snprintf(text, TEXT_MAX, "%" PRId64 " ms", unix_ms);
        return text;
    }
    size_t n = strftime(text, TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
    if (ms) {
        n += (size_t)snprintf(text + n, TEXT_MAX - n, ".%03d", (int)ms);
        while (text[n - 1] == '0') {
            n--;
        }
    }
    assert(n < TEXT_MAX);
    snprintf(text + n, TEXT_MAX - n, " +0000 UTC");
    return text;
}

const char *text_rfc3339(char text[TEXT_MAX], int64_t unix_s)
{
    time_t s = (time_t)unix_s;
    struct tm tm = {0};
    if (!gmtime_r(&s, &tm) || strftime(text, TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(text, TEXT_MAX, "%" PRId64 " s", unix_s);
    return text;
}

static str cut(struct arena *a, str s)
{
    // The message must stay UTF-8.
    return s.n <= VALUE_SHOWN ? s : arena_printf(a, "%.*s...", STR(utf8_head(s, VALUE_SHOWN)));
}

const char *text_labels(struct arena *a, labels ls)
{
    label *shown = ARENA_ARRAY(a, label, ls.n);
    if (!shown) return "{...}";
    size_t n = 0;
    for (size_t room = LABELS_SHOWN; n < ls.n; n++) {
        shown[n] = (label){cut(a, ls.v[n].name), cut(a, ls.v[n].value)};
        size_t size = shown[n].name.n + shown[n].value.n + 5;
        if (size > room) break;
        room -= size;
    }
    struct buf b;
    buf_init(&b, a->budget, (size_t)LABELS_SHOWN * 8);  // quoting makes at most 4 of 1
    labels_print((labels){shown, n}, &b);
    if (n < ls.n && b.n) {
        b.n--;  // the brace
        buf_z(&b, ", ...}");
    }
    str s = arena_str(a, buf_view(&b));
    buf_release(&b);
    return s.p ? s.p : "{...}";
}
