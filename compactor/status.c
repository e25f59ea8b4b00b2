// SPDX-License-Identifier: Apache-2.0
//
// status.c - what the compactor has done and has to do, for people and tests.
#include "codec/json.h"
#include "compactor/work_int.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <time.h>

#define TIME_TEXT 32

static const char *time_print(char text[TIME_TEXT], int64_t ns)
{
    struct tm tm = {0};
    time_t s = (time_t)(ns / NS_PER_S);
    if (!gmtime_r(&s, &tm) || !strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm)) text[0] = '\0';
    return text;
}

static const char *hour_print(char text[TIME_TEXT], int64_t hour)
{
    return time_print(text, slot_start(hour, SLOT_HOUR));
}

// ---- JSON

static void put_time(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

static void put_failures(struct buf *out, const struct tenant_work *t)
{
    uint64_t now = clock_mono_ns();
    char text[TIME_TEXT];
    buf_z(out, ",\"failures\":[");
    for (size_t i = 0; i < t->failure_count; i++) {
        const struct failure *f = &t->failures[i];
        uint64_t left = f->retry_mono_ns > now ? f->retry_mono_ns - now : 0;
        buf_printf(out, "%s{\"job\":\"%s\"", i ? "," : "", job_kind_name(f->kind));
        put_time(out, "hour", hour_print(text, f->from_hour));
        put_time(out, "at", time_print(text, f->at_wall_ns));
        buf_printf(out, ",\"tries\":%u,\"retry_in_seconds\":%" PRIu64 ",\"fault\":", f->tries,
                   left / (uint64_t)NS_PER_S);
        json_put_string(out, str_of(f->message));
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

static void put_damages(struct buf *out, const struct tenant_work *t)
{
    buf_z(out, ",\"damaged\":[");
    for (size_t i = 0; i < t->damage_count; i++) {
        const struct damage *d = &t->damages[i];
        char text[SEGMENT_TEXT];
        if (d->is_segment)
            segment_name_print(&d->segment, text);
        else
            ulid_print(d->block, text);
        buf_printf(out, "%s{\"%s\":\"%s\"}", i ? "," : "", d->is_segment ? "segment" : "block",
                   text);
    }
    buf_byte(out, ']');
}

static void put_tenant(struct buf *out, const struct tenant_work *t)
{
    char text[TIME_TEXT];
    buf_z(out, "{\"tenant\":");
    json_put_string(out, str_of(t->name));
    buf_printf(out,
               ",\"looked\":%s,\"manifest_version\":%" PRIu64
               ",\"blocks\":%zu,\"segments_waiting\":%zu",
               t->looked ? "true" : "false", t->version, t->blocks, t->segments);
    if (t->segments) {
        put_time(out, "oldest_segment", hour_print(text, t->oldest_hour));
        put_time(out, "newest_segment", hour_print(text, t->newest_hour));
    }
    buf_printf(out, ",\"jobs_done\":%" PRIu64 ",\"backlog\":%zu,\"due\":{", t->jobs_done,
               tenant_backlog(t));
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "%s\"%s\":%zu", k ? "," : "", job_kind_name((enum job_kind)k), t->due[k]);
    buf_byte(out, '}');
    if (t->running) {
        buf_printf(out, ",\"running\":{\"job\":\"%s\"", job_kind_name(t->running_kind));
        put_time(out, "hour", hour_print(text, t->running_hour));
        put_time(out, "since", time_print(text, t->running_since_ns));
        buf_byte(out, '}');
    }
    put_failures(out, t);
    put_damages(out, t);
    if (t->fault[0]) {
        buf_z(out, ",\"fault\":");
        json_put_string(out, str_of(t->fault));
    }
    buf_byte(out, '}');
}

static uint64_t backlog(const struct work *w, bool *looked)
{
    uint64_t n = 0;
    *looked = w->listed;
    for (size_t i = 0; i < w->tenant_count; i++) {
        n += tenant_backlog(w->tenants[i]);
        *looked = *looked && w->tenants[i]->looked;
    }
    return n;
}

void work_print_json(struct work *w, struct buf *out)
{
    bool looked = false;
    lock_take(&w->lock);
    uint64_t n = backlog(w, &looked);
    buf_printf(out,
               "{\"backlog\":%" PRIu64 ",\"settled\":%s,\"storage\":%s,\"workers\":%zu,"
               "\"tenants\":[",
               n, n == 0 && looked ? "true" : "false", w->manifests ? "true" : "false",
               w->worker_count);
    for (size_t i = 0; i < w->tenant_count; i++) {
        if (i) buf_byte(out, ',');
        put_tenant(out, w->tenants[i]);
    }
    lock_give(&w->lock);
    buf_z(out, "]}\n");
}

// ---- the page

static void put_html(struct buf *out, str s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '<':
            buf_z(out, "&lt;");
            break;
        case '>':
            buf_z(out, "&gt;");
            break;
        case '&':
            buf_z(out, "&amp;");
            break;
        case '"':
            buf_z(out, "&quot;");
            break;
        default:
            buf_byte(out, (unsigned char)s.p[i]);
        }
    }
}

static void put_row(struct buf *out, const struct tenant_work *t)
{
    char oldest[TIME_TEXT] = "";
    char running[TIME_TEXT] = "";
    if (t->segments) hour_print(oldest, t->oldest_hour);
    buf_z(out, "<tr><td>");
    put_html(out, str_of(t->name));
    buf_printf(out, "<td>%zu<td>%s<td>%zu<td>%" PRIu64, t->segments, oldest, t->blocks, t->version);
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "<td>%zu", t->due[k]);
    buf_z(out, "<td>");
    if (t->running) {
        hour_print(running, t->running_hour);
        buf_printf(out, "%s %s", job_kind_name(t->running_kind), running);
    }
    buf_printf(out, "<td>%" PRIu64 "<td>", t->jobs_done);
    put_html(out, str_of(t->fault));
    for (size_t i = 0; i < t->failure_count; i++) {
        hour_print(running, t->failures[i].from_hour);
        buf_printf(out, "%s%s %s, %u tries: ", i || t->fault[0] ? "<br>" : "",
                   job_kind_name(t->failures[i].kind), running, t->failures[i].tries);
        put_html(out, str_of(t->failures[i].message));
    }
    if (t->damage_count) buf_printf(out, "<br>%zu damaged objects are left out", t->damage_count);
    buf_z(out, "\n");
}

void work_print_page(struct work *w, struct buf *out)
{
    buf_z(out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Flametree "
               "compactor</title>\n<h1>Compactor</h1>\n");
    lock_take(&w->lock);
    if (!w->manifests)
        buf_z(out, "<p>There is no object storage: nothing to compact.\n");
    else if (w->worker_count == 0)
        buf_z(out, "<p>No workers (compactor.workers is 0): this process compacts nothing.\n");
    buf_z(out, "<table border=\"1\"><tr><th rowspan=\"2\">tenant<th rowspan=\"2\">segments "
               "waiting<th rowspan=\"2\">oldest<th rowspan=\"2\">blocks<th "
               "rowspan=\"2\">version");
    buf_printf(out,
               "<th colspan=\"%d\">jobs due<th rowspan=\"2\">running<th rowspan=\"2\">done<th "
               "rowspan=\"2\">failures\n<tr>",
               JOB_KINDS);
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "<th>%s", job_kind_name((enum job_kind)k));
    buf_z(out, "\n");
    for (size_t i = 0; i < w->tenant_count; i++)
        put_row(out, w->tenants[i]);
    lock_give(&w->lock);
    buf_z(out,
          "</table>\n<p><a href=\"/compactor/status\">as JSON</a>, <a "
          "href=\"/compactor/duties\">duties</a>, <a href=\"/metrics\">metrics</a>\n</html>\n");
}
