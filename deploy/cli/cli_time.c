// SPDX-License-Identifier: Apache-2.0
//
// cli_time.c - prints times of a day and ranges.
#include "deploy/cli/cli_time.h"

#include "sys/clock.h"

#include <time.h>

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
