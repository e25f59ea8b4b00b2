// SPDX-License-Identifier: Apache-2.0
//
// log.c - a line is made in one buffer and written at once, so that lines do not mix.
#include "sys/log.h"

#include "sys/clock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096
#define SITE_LINES     10
#define SITE_WINDOW_NS ((uint64_t)(10 * NS_PER_S))

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

static _Atomic int threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, level, memory_order_relaxed);
}

bool log_level_of(str name, enum log_level *level)
{
    for (size_t i = 0; i < COUNT(level_names); i++) {
        if (!str_is(name, level_names[i])) continue;
        *level = (enum log_level)i;
        return true;
    }
    return false;
}

// May this call site print now? *suppressed: lines that it swallowed in the window that ended.
// Threads that race at the border of a window may print a line more or less; nothing depends on it,
// so relaxed order is enough.
static bool site_admits(struct log_site *s, uint32_t *suppressed)
{
    *suppressed = 0;
    uint64_t window = clock_mono_ns() / SITE_WINDOW_NS + 1;
    uint64_t was = atomic_load_explicit(&s->window, memory_order_relaxed);
    if (was != window &&
        atomic_compare_exchange_strong_explicit(&s->window, &was, window, memory_order_relaxed,
                                                memory_order_relaxed)) {
        uint32_t n = atomic_exchange_explicit(&s->count, 0, memory_order_relaxed);
        if (n > SITE_LINES) *suppressed = n - SITE_LINES;
    }
    return atomic_fetch_add_explicit(&s->count, 1, memory_order_relaxed) < SITE_LINES;
}

struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
};

static void line_vprintf(struct line *l, const char *fmt, va_list ap)
{
    size_t room = sizeof l->text - 1 - l->n;  // one byte stays for the line end
    assert(l->n < sizeof l->text);
    int n = vsnprintf(l->text + l->n, room, fmt, ap);
    if (n > 0) l->n += MIN((size_t)n, room - 1);
}

PRINTF(2, 3) static void line_printf(struct line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_vprintf(l, fmt, ap);
    va_end(ap);
}

static void line_time(struct line *l)
{
    int64_t ns = clock_wall_ns();
    time_t s = (time_t)(ns / NS_PER_S);
    struct tm t;
    // UTC, so that lines of all machines sort together.
    gmtime_r(&s, &t);
    line_printf(l, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", t.tm_year + 1900, t.tm_mon + 1,
                t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (int)(ns % NS_PER_S / NS_PER_MS));
}

void log_write(struct log_site *site, const struct log_fields *f, enum log_level level,
               const char *event, const char *fmt, ...)
{
    uint32_t suppressed = 0;
    if ((int)level < atomic_load_explicit(&threshold, memory_order_relaxed)) return;
    if (!site_admits(site, &suppressed)) return;

    assert(site && event[0] && level <= LOG_ERROR);
    struct line l = {.n = 0};
    char quoted[LOG_QUOTE_MAX];
    line_time(&l);
    line_printf(&l, " level=%s event=%s", level_names[level], event);
    if (f && f->tenant.n) line_printf(&l, " tenant=%s", log_quote(quoted, f->tenant));
    if (f && f->request_id.n) line_printf(&l, " req=%s", log_quote(quoted, f->request_id));
    if (suppressed) line_printf(&l, " suppressed=%u", suppressed);
    if (fmt[0]) line_printf(&l, " ");
    va_list ap;
    va_start(ap, fmt);
    line_vprintf(&l, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < l.n; i++) {
        if ((unsigned char)l.text[i] < 0x20) l.text[i] = ' ';  // one event must be one line
    }
    while (l.text[l.n - 1] == ' ')  // an event without values
        l.n--;
    l.text[l.n++] = '\n';
    assert(l.n <= sizeof l.text);
    // One write for each line, so that lines of several threads do not mix.
    ssize_t ignored = write(STDERR_FILENO, l.text, l.n);  // a failure cannot be logged
    (void)ignored;
}

static bool plain(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return false;
    }
    return s.n > 0 && str_utf8(s);
}

// One character of a quoted value; returns its length in `to`, which has room for 4 bytes.
static size_t escape(char *to, unsigned char c, bool utf8)
{
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
        to[0] = '\\';
        to[1] = (char)c;
        return 2;
    }
    if (c == '\n') {
        to[0] = '\\';
        to[1] = 'n';
        return 2;
    }
    if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
        to[0] = '\\';
        to[1] = 'x';
        to[2] = hex[c >> 4];
        to[3] = hex[c & 15];
        return 4;
    }
    to[0] = (char)c;
    return 1;
}

const char *log_quote(char text[LOG_QUOTE_MAX], str s)
{
    if (plain(s) && s.n < LOG_QUOTE_MAX) {
        memcpy(text, s.p, s.n);
        text[s.n] = '\0';
        return text;
    }
    bool utf8 = str_utf8(s);
    size_t n = 0;
    text[n++] = '"';
    size_t i = 0;
    for (; i < s.n && n + 4 + sizeof "...\"" <= LOG_QUOTE_MAX; i++)
        n += escape(text + n, (unsigned char)s.p[i], utf8);
    if (i < s.n) {
        while (n > 1 &&
               ((unsigned char)text[n - 1] & 0x80)) {  // removes a half character at the cut
            if ((unsigned char)text[--n] >= 0xc0) break;
        }
        memcpy(text + n, "...", 3);
        n += 3;
    }
    text[n++] = '"';
    assert(n < LOG_QUOTE_MAX);
    text[n] = '\0';
    return text;
}
