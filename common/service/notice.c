// SPDX-License-Identifier: Apache-2.0
//
// notice.c - the table of notices, and when each is logged.
#include "service/notice.h"

#include "service/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <stdarg.h>
#include <stdio.h>

#define ABOUT_MAX     300
#define TEXT_MAX      600
#define TELL_AGAIN_NS ((uint64_t)(600 * NS_PER_S))

struct notice {
    const char *event;
    char about[ABOUT_MAX];
    char text[TEXT_MAX];
    uint64_t until;  // mono; NOTICE_FOREVER: until it is ended
    uint64_t told;   // mono, when the log had it last
};

struct notices {
    struct lock lock;
    size_t n;
    struct notice v[NOTICES_MAX];
};

static void tell(const struct notice *t)
{
    char about[LOG_QUOTE_MAX];
    char why[LOG_QUOTE_MAX];
    log_warn(NULL, t->event, "about=%s why=%s", log_quote(about, str_of(t->about)),
             log_quote(why, str_of(t->text)));
}

static void tell_over(const struct notice *t)
{
    char about[LOG_QUOTE_MAX];
    log_info(NULL, "notice.over", "of=%s about=%s", t->event, log_quote(about, str_of(t->about)));
}

// With the lock.
static void set_gauge(const struct notices *n, const char *event)
{
    int64_t count = 0;
    assert(lock_is_mine(&n->lock));
    for (size_t i = 0; i < n->n; i++)
        count += strcmp(n->v[i].event, event) == 0;
    metric_set_to(&service_notices, str_of(event), count);
}

// With the lock.
static void take_out(struct notices *n, size_t i)
{
    assert(i < n->n && n->n <= NOTICES_MAX);
    const char *event = n->v[i].event;
    tell_over(&n->v[i]);
    memmove(n->v + i, n->v + i + 1, (n->n - i - 1) * sizeof *n->v);
    n->n--;
    set_gauge(n, event);
}

// With the lock.
static void expire(struct notices *n)
{
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&n->lock));
    // From the end, because take_out moves those behind.
    for (size_t i = n->n; i-- > 0;) {
        if (n->v[i].until <= now) take_out(n, i);
    }
}

static void on_print(void *arg)
{
    struct notices *n = arg;
    lock_take(&n->lock);
    expire(n);
    lock_give(&n->lock);
}

struct notices *notices_new(void)
{
    struct notices *n = mem_must(sizeof *n);
    lock_init(&n->lock, LOCK_NOTICES);
    metric_on_print(on_print, n);
    return n;
}

void notices_free(struct notices *n)
{
    if (!n) return;
    metric_off_print(on_print, n);
    lock_release(&n->lock);
    mem_must_free(n);
}

// With the lock.
static struct notice *find(struct notices *n, const char *event, str about)
{
    about = str_slice(about, 0, ABOUT_MAX - 1);
    assert(lock_is_mine(&n->lock));
    for (size_t i = 0; i < n->n; i++) {
        struct notice *t = &n->v[i];
        if (strcmp(t->event, event) == 0 && str_is(about, t->about)) return t;
    }
    return NULL;
}

void notice_raise(struct notices *n, const char *event, str about, uint64_t for_ns, const char *fmt,
                  ...)
{
    if (!n) return;
    assert(event[0] && for_ns > 0);
    struct notice fresh = {.event = event};
    snprintf(fresh.about, sizeof fresh.about, "%.*s", STR(about));
    va_list args;
    va_start(args, fmt);
    vsnprintf(fresh.text, sizeof fresh.text, fmt, args);
    va_end(args);
    uint64_t now = clock_mono_ns();
    fresh.until = for_ns == NOTICE_FOREVER ? NOTICE_FOREVER : now + for_ns;
    fresh.told = now;
    lock_take(&n->lock);
    expire(n);
    struct notice *t = find(n, event, about);
    bool again = t && now - t->told < TELL_AGAIN_NS;
    if (again) fresh.told = t->told;
    if (!t && n->n < NOTICES_MAX) t = &n->v[n->n++];
    if (t) *t = fresh;
    assert(n->n <= NOTICES_MAX);
    set_gauge(n, event);
    lock_give(&n->lock);
    if (!again) tell(&fresh);  // outside the lock: the log may block
}

void notice_end(struct notices *n, const char *event, str about)
{
    if (!n) return;
    lock_take(&n->lock);
    const struct notice *t = find(n, event, about);
    if (t) take_out(n, (size_t)(t - n->v));
    lock_give(&n->lock);
}

void notices_print(struct notices *n, struct buf *out)
{
    if (!n) return;
    lock_take(&n->lock);
    expire(n);
    for (size_t i = 0; i < n->n; i++)
        buf_printf(out, "%s %s: %s\n", n->v[i].event, n->v[i].about, n->v[i].text);
    lock_give(&n->lock);
}
