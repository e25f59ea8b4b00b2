// SPDX-License-Identifier: Apache-2.0
//
// page.c - the page for who is on call: is it behind, by how much, what fails, what is to be done.
#include "compactor/work_int.h"
#include "service/html.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define SHOWN   5          // failures of a tenant, and damages
#define LATE_NS SLOT_HOUR  // work that is due for so long is called behind

static void put_bytes(struct buf *out, uint64_t bytes)
{
    if (bytes < (uint64_t)1 << 20)
        buf_printf(out, "%" PRIu64 " KiB", (bytes + 1023) >> 10);
    else
        buf_printf(out, "%" PRIu64 " MiB", bytes >> 20);
}

// Does the tenant need a person's attention?
static bool is_ill(const struct tenant_work *t, int64_t now_ns)
{
    return t->is_ill || t->failure_count || t->damage_count ||
           tenant_behind_ns(t, now_ns) > LATE_NS;
}

static void put_state(struct buf *out, const struct tenant_work *t, int64_t now_ns)
{
    bool ill = is_ill(t, now_ns);
    const char *before = "";
    buf_printf(out, "<td class=\"%s\">", ill ? "ill" : "well");
    if (t->is_ill) {
        buf_z(out, "cannot be read");
        before = ", ";
    }
    if (t->failure_count) {
        buf_printf(out, "%s%zu job%s fail%s", before, t->failure_count,
                   t->failure_count == 1 ? "" : "s", t->failure_count == 1 ? "s" : "");
        before = ", ";
    }
    if (t->damage_count) {
        buf_printf(out, "%s%zu damaged", before, t->damage_count);
        before = ", ";
    }
    if (tenant_behind_ns(t, now_ns) > LATE_NS) {
        buf_printf(out, "%sbehind by ", before);
        html_age(out, tenant_behind_ns(t, now_ns));
    } else if (!ill) {
        buf_z(out, !t->inspected       ? "not looked at yet"
                   : tenant_backlog(t) ? "at work"
                                       : "up to date");
    }
}

static void put_row(struct buf *out, const struct tenant_work *t, int64_t now_ns)
{
    char text[CLOCK_TEXT];
    buf_z(out, "<tr><td>");
    html_text(out, str_of(t->name));
    put_state(out, t, now_ns);
    buf_printf(out, "<td class=\"n\">%zu<td>", t->segments);
    if (t->segments) buf_z(out, status_hour(text, t->oldest_hour));
    for (size_t k = 0; k < JOB_KINDS; k++) {
        buf_z(out, "<td class=\"n\">");
        if (t->due[k]) {
            buf_printf(out, "%" PRIu32 "<br><small>", t->due[k]);
            html_age(out, MAX(now_ns - t->due_since_ns[k], 0));
            buf_z(out, "</small>");
        }
        if (t->later[k])
            buf_printf(out, "%s<small>%" PRIu32 " later</small>", t->due[k] ? "<br>" : "",
                       t->later[k]);
    }
    buf_z(out, "<td class=\"n\">");
    if (t->due_bytes) put_bytes(out, t->due_bytes);
    buf_z(out, "<td>");
    size_t running = 0;
    const struct held *h = held_longest(t, &running);
    if (h) {
        if (running > 1) buf_printf(out, "%zu, the oldest ", running);
        buf_printf(out, "%s of %s<br><small>for ", job_kind_name(h->task->kind),
                   status_hour(text, h->task->from_hour));
        html_age(out, MAX(now_ns - h->since_ns, 0));
        buf_z(out, "</small>");
    }
    buf_printf(out, "<td class=\"n\">%" PRIu64, t->jobs_done);
    if (t->done_at_ns) {
        buf_z(out, "<br><small>");
        html_age(out, MAX(now_ns - t->done_at_ns, 0));
        buf_z(out, " ago</small>");
    }
    buf_printf(out, "<td class=\"n\">%zu<td class=\"n\">%" PRIu64 "\n", t->blocks, t->version);
}

static void put_tenants(struct buf *out, const struct work *w, int64_t now_ns)
{
    buf_z(out, "<table><tr><th rowspan=\"2\">tenant<th rowspan=\"2\">state<th colspan=\"2\">"
               "segments in no block<th colspan=\"");
    buf_printf(out, "%d\">pending jobs and their age<th rowspan=\"2\">to read", JOB_KINDS);
    buf_z(out, "<th rowspan=\"2\">running<th rowspan=\"2\">jobs done<th rowspan=\"2\">blocks"
               "<th rowspan=\"2\">manifest<tr><th>number<th>oldest");
    for (size_t k = 0; k < JOB_KINDS; k++)
        buf_printf(out, "<th>%s", job_kind_name((enum job_kind)k));
    buf_byte(out, '\n');
    for (int ill = 1; ill >= 0; ill--) {
        for (size_t i = 0; i < w->tenant_count; i++) {
            if (is_ill(w->tenants[i], now_ns) == (ill == 1)) put_row(out, w->tenants[i], now_ns);
        }
    }
    buf_z(out, "</table>\n");
}

// ---- what needs attention

static void put_trouble(struct buf *out, const struct tenant_work *t, const char *what, str fault,
                        str action)
{
    buf_z(out, "<tr><td>");
    html_text(out, str_of(t->name));
    buf_printf(out, "<td>%s<td>", what);
    html_text(out, fault);
    buf_z(out, "<td>");
    html_text(out, action);
    buf_byte(out, '\n');
}

static void put_more(struct buf *out, const struct tenant_work *t, const char *what, size_t n)
{
    char text[64];
    if (n <= SHOWN) return;
    snprintf(text, sizeof text, "%zu more %s", n - SHOWN, what);
    put_trouble(out, t, text, S("see the JSON"), (str){0});
}

static void put_failures(struct buf *out, const struct tenant_work *t)
{
    uint64_t now = clock_mono_ns();
    for (size_t i = 0; i < MIN(t->failure_count, SHOWN); i++) {
        const struct failure *f = &t->failures[i];
        char hour[CLOCK_TEXT];
        char what[160];
        uint64_t left = f->retry_mono_ns > now ? f->retry_mono_ns - now : 0;
        snprintf(what, sizeof what,
                 "%s of %s<br><small>%u tries, the next in %" PRIu64 " s</small>",
                 job_kind_name(f->kind), status_hour(hour, f->from_hour), f->tries,
                 left / (uint64_t)NS_PER_S);
        put_trouble(out, t, what, str_of(f->message), str_of(failure_action(f->code)));
    }
    put_more(out, t, "jobs that fail", t->failure_count);
}

static void put_damages(struct buf *out, const struct tenant_work *t)
{
    uint64_t now = clock_mono_ns();
    for (size_t i = 0; i < MIN(t->damage_count, SHOWN); i++) {
        const struct damage *d = &t->damages[i];
        char name[SEGMENT_TEXT];
        char what[160];
        uint64_t left = d->inspection_mono_ns > now ? d->inspection_mono_ns - now : 0;
        if (d->is_segment)
            segment_name_print(&d->segment, name);
        else
            ulid_print(d->block, name);
        snprintf(what, sizeof what,
                 "damaged %s<br><small>left out; looked at again in %" PRIu64 " s</small>",
                 d->is_segment ? "segment" : "block", left / (uint64_t)NS_PER_S);
        put_trouble(out, t, what, str_of(name),
                    S("restore the object from a copy, or, if it is a segment, delete it to give "
                      "up its profiles"));
    }
    put_more(out, t, "damaged objects", t->damage_count);
}

static void put_troubles(struct buf *out, const struct work *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        n += t->failure_count + t->damage_count + (t->is_ill) + (t->gaps != 0);
    }
    if (n == 0) return;
    buf_z(out,
          "<h2>Needs attention</h2>\n<table><tr><th>tenant<th>problem<th>cause<th>what to do\n");
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        if (t->is_ill) {
            put_trouble(out, t, "cannot be looked at", str_of(tenant_fault(t)),
                        S("look at the store; nothing is lost, it is tried again"));
        }
        put_failures(out, t);
        put_damages(out, t);
        if (t->gaps) {
            put_trouble(out, t, "services without sums",
                        S("sums that do not fit 64 bits; their profiles are read instead, and an "
                          "answer whose sum does not fit leaves them out and says so"),
                        S("the log has their names (compactor.overflow): look at who sends such "
                          "values"));
        }
    }
    buf_z(out, "</table>\n");
}

static void put_health(struct buf *out, size_t tenants, size_t ill)
{
    if (ill > 0) {
        buf_printf(out, ", <strong class=\"ill\">%zu need%s attention</strong>", ill,
                   ill == 1 ? "s" : "");
    } else if (tenants > 0) {
        buf_z(out, tenants == 1 ? ", healthy" : ", all healthy");
    }
}

static void put_held(struct buf *out, const struct work *w, size_t held)
{
    char text[CLOCK_TEXT];
    buf_printf(out, "; %zu raw block%s past %s time, until streams have ended: ", held,
               held == 1 ? " is" : "s are", held == 1 ? "its" : "their");
    char stream[ULID_TEXT];
    ulid_print(w->watch.streams[0], stream);
    buf_printf(out, "stream %s of ", stream);
    html_text(out, hold_node(w, w->watch.streams[0]));
    if (w->watch.count > 1) buf_printf(out, " and %zu more", w->watch.count - 1);
    buf_printf(out, ", since %s", clock_text(text, w->watch.begun_wall_ns));
}

static void put_summary(struct buf *out, const struct work *w, int64_t now_ns)
{
    size_t ill = 0;
    size_t due = 0;
    size_t later = 0;
    size_t held = 0;
    int64_t behind = 0;
    for (size_t i = 0; i < w->tenant_count; i++) {
        ill += is_ill(w->tenants[i], now_ns);
        due += tenant_backlog(w->tenants[i]);
        for (size_t k = 0; k < JOB_RETIRE; k++)
            later += w->tenants[i]->later[k];
        held += w->tenants[i]->held_leaves;
        behind = MAX(behind, tenant_behind_ns(w->tenants[i], now_ns));
    }
    if (!w->manifests) {
        buf_z(out, "<p>There is no object storage: nothing to compact.\n");
        return;
    }
    if (w->worker_count == 0)
        buf_z(out, "<p class=\"ill\">No workers (compactor.workers is 0): this process compacts "
                   "nothing.\n");
    buf_printf(out, "<p>%zu tenant%s", w->tenant_count, w->tenant_count == 1 ? "" : "s");
    put_health(out, w->tenant_count, ill);
    if (due == 0) buf_z(out, ", no pending jobs");
    if (due == 0 && later)
        buf_printf(out, "; %zu wait for their interval, POST /compactor/run does them now", later);
    if (held && w->watch.count) put_held(out, w, held);
    if (due == 0) {
        buf_byte(out, '\n');
        return;
    }
    buf_printf(out, ", %zu pending job%s, the oldest for ", due, due == 1 ? "" : "s");
    html_age(out, behind);
    buf_printf(out,
               "; %zu worker%s. What is not compacted yet is queried all the same, only slower.\n",
               w->worker_count, w->worker_count == 1 ? "" : "s");
}

void work_print_page(struct work *w, struct buf *out)
{
    int64_t now_ns = clock_wall_ns();
    char text[CLOCK_TEXT];
    html_begin(out, "Compactor");
    lock_take(&w->lock);
    put_summary(out, w, now_ns);
    if (w->tenant_count) put_tenants(out, w, now_ns);
    put_troubles(out, w);
    lock_give(&w->lock);
    buf_printf(out,
               "<p>As of %s. <a href=\"compactor/status\">As JSON</a>, <a "
               "href=\"compactor/duties\">duties</a>, <a href=\"metrics\">metrics</a>\n</html>\n",
               clock_text(text, now_ns));
}
