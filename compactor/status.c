// SPDX-License-Identifier: Apache-2.0
//
// status.c - what the compactor has done and has to do, as JSON, for people, tests and the page.
#include "codec/json.h"
#include "compactor/work_int.h"
#include "manifest/registry.h"
#include "sys/clock.h"

#include <inttypes.h>

const char *status_hour(char text[CLOCK_TEXT], int64_t hour)
{
    return clock_text(text, slot_start(hour, SLOT_HOUR));
}

int64_t tenant_behind_ns(const struct tenant_work *t, int64_t now_ns)
{
    int64_t since = INT64_MAX;
    for (size_t k = 0; k < JOB_KINDS; k++) {
        if (t->due[k]) since = MIN(since, t->due_since_ns[k]);
    }
    return since < now_ns ? now_ns - since : 0;
}

const char *tenant_fault(const struct tenant_work *t)
{
    return t->fault ? t->fault : "resource_exhausted: there was no memory to note it";
}

const struct held *held_longest(const struct tenant_work *t, size_t *n)
{
    const struct held *first = NULL;
    *n = 0;
    for (const struct held *h = t->held; h; h = h->next) {
        if (!first || h->since_ns < first->since_ns) first = h;
        ++*n;
    }
    return first;
}

const char *failure_action(enum err_code code)
{
    switch (code) {
    case ERR_RESOURCE_EXHAUSTED:
        return "raise compactor.worker_memory";
    case ERR_OUT_OF_RANGE:
        return "values of very many services do not add up within 64 bits; queries read their "
               "profiles: look at who sends such values";
    case ERR_DATA_LOSS:
        return "run flametree manifest verify, and restore the object that is named from a copy";
    case ERR_INTERNAL:
        return "report this line: the job is refused, what it is made from stays and is queried";
    default:
        return "look at the store; what it is made from stays and is queried";
    }
}

// ---- JSON

static void put_time(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

static void put_failures(struct buf *out, const struct tenant_work *t)
{
    uint64_t now = clock_mono_ns();
    char text[CLOCK_TEXT];
    buf_z(out, ",\"failures\":[");
    for (size_t i = 0; i < t->failure_count; i++) {
        const struct failure *f = &t->failures[i];
        uint64_t left = f->retry_mono_ns > now ? f->retry_mono_ns - now : 0;
        buf_printf(out, "%s{\"job\":\"%s\"", i ? "," : "", job_kind_name(f->kind));
        put_time(out, "hour", status_hour(text, f->from_hour));
        put_time(out, "at", clock_text(text, f->at_wall_ns));
        buf_printf(out, ",\"tries\":%u,\"retry_in_seconds\":%" PRIu64 ",\"fault\":", f->tries,
                   left / (uint64_t)NS_PER_S);
        json_put_string(out, str_of(f->message));
        buf_z(out, ",\"action\":");
        json_put_string(out, str_of(failure_action(f->code)));
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

// What it has, and how many hours that stays; 0: for ever.
static void put_bytes(struct buf *out, const struct tenant_work *t)
{
    static const char *const names[KEEP_KINDS] = {"segment", "raw", "h", "d"};
    for (size_t i = 0; i < KEEP_KINDS; i++)
        buf_printf(out, "%s\"%s\":%" PRIu64, i ? "," : ",\"bytes\":{", names[i], t->bytes.v[i]);
    buf_z(out, "}");
    for (size_t i = 0; i < COUNT(t->keep_hours); i++)
        buf_printf(out, "%s\"%s\":%" PRIu32, i ? "," : ",\"keep_hours\":{", names[i + 1],
                   t->keep_hours[i]);
    buf_printf(out, "},\"kept_by_size\":%s", t->by_size ? "true" : "false");
}

static void put_tenant(struct buf *out, const struct tenant_work *t)
{
    char text[CLOCK_TEXT];
    buf_z(out, "{\"tenant\":");
    json_put_string(out, str_of(t->name));
    buf_printf(out,
               ",\"looked\":%s,\"manifest_version\":%" PRIu64
               ",\"blocks\":%zu,\"gaps\":%zu,\"segments_waiting\":%zu",
               t->inspected ? "true" : "false", t->version, t->blocks, t->gaps, t->segments);
    put_bytes(out, t);
    if (t->segments) {
        put_time(out, "oldest_segment", status_hour(text, t->oldest_hour));
        put_time(out, "newest_segment", status_hour(text, t->newest_hour));
    }
    if (t->open_segments) {
        buf_printf(out, ",\"open_segments\":%zu", t->open_segments);
        put_time(out, "open_until", clock_text(text, t->open_until_ns));
    }
    buf_printf(out, ",\"jobs_done\":%" PRIu64 ",\"backlog\":%zu,\"due\":{", t->jobs_done,
               tenant_backlog(t));
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "%s\"%s\":%" PRIu32, k ? "," : "", job_kind_name((enum job_kind)k),
                   t->due[k]);
    buf_z(out, "},\"later\":{");
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "%s\"%s\":%" PRIu32, k ? "," : "", job_kind_name((enum job_kind)k),
                   t->later[k]);
    buf_printf(out, "},\"behind_seconds\":%" PRId64 ",\"due_bytes\":%" PRIu64,
               tenant_behind_ns(t, clock_wall_ns()) / NS_PER_S, t->due_bytes);
    if (t->done_at_ns) put_time(out, "last_done", clock_text(text, t->done_at_ns));
    size_t running = 0;
    const struct held *h = held_longest(t, &running);
    buf_printf(out, ",\"workers\":%u,\"jobs_running\":%zu", t->workers, running);
    if (h) {
        buf_printf(out, ",\"running\":{\"job\":\"%s\"", job_kind_name(h->task->kind));
        put_time(out, "hour", status_hour(text, h->task->from_hour));
        put_time(out, "since", clock_text(text, h->since_ns));
        buf_byte(out, '}');
    }
    if (t->held_leaves) buf_printf(out, ",\"held_raw_blocks\":%zu", t->held_leaves);
    put_failures(out, t);
    put_damages(out, t);
    if (t->is_ill) {
        buf_z(out, ",\"fault\":");
        json_put_string(out, str_of(tenant_fault(t)));
    }
    buf_byte(out, '}');
}

static uint64_t backlog(const struct work *w, bool *inspected)
{
    uint64_t n = 0;
    *inspected = w->listed;
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        n += tenant_backlog(t);
        // After a job a new plan may find more.
        *inspected = *inspected && t->inspected && !(t->agenda && t->agenda->changed);
    }
    return n;
}

// Streams of ingesters that hold retirement back.
static void put_waits(struct buf *out, const struct work *w)
{
    char text[CLOCK_TEXT];
    if (w->watch.count == 0) return;
    buf_z(out, "\"awaited_streams\":[");
    for (size_t i = 0; i < w->watch.count; i++) {
        char stream[ULID_TEXT];
        ulid_print(w->watch.streams[i], stream);
        buf_printf(out, "%s{\"stream\":\"%s\",\"node\":", i ? "," : "", stream);
        json_put_string(out, hold_node(w, w->watch.streams[i]));
        put_time(out, "since", clock_text(text, w->watch.begun_wall_ns));
        buf_byte(out, '}');
    }
    buf_z(out, "],");
}

void work_print_done(const struct work_done *d, struct buf *out)
{
    char text[CLOCK_TEXT];
    buf_printf(out,
               "{\"settled\":%s,\"jobs\":%" PRIu64 ",\"backlog\":%" PRIu64
               ",\"open_segments\":%" PRIu64,
               d->settled ? "true" : "false", d->jobs, d->backlog, d->open_segments);
    if (d->open_segments) put_time(out, "open_until", clock_text(text, d->open_until_ns));
    buf_z(out, "}\n");
}

void work_print_json(struct work *w, struct buf *out)
{
    bool inspected = false;
    lock_take(&w->lock);
    uint64_t n = backlog(w, &inspected);
    buf_printf(out, "{\"backlog\":%" PRIu64 ",\"settled\":%s,\"storage\":%s,\"workers\":%zu,", n,
               n == 0 && inspected ? "true" : "false", w->manifests ? "true" : "false",
               w->worker_count);
    if (w->registry) buf_z(out, "\"registrations\":");
    if (w->registry) registry_print(w->registry, out);
    if (w->registry) buf_byte(out, ',');
    put_waits(out, w);
    buf_z(out, "\"tenants\":[");
    for (size_t i = 0; i < w->tenant_count; i++) {
        if (i) buf_byte(out, ',');
        put_tenant(out, w->tenants[i]);
    }
    lock_give(&w->lock);
    buf_z(out, "]}\n");
}
