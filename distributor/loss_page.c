// SPDX-License-Identifier: Apache-2.0
//
// loss_page.c - counters of a tenant as JSON.
#include "distributor/loss_page.h"

#include "codec/json.h"
#include "distributor/loss_note.h"
#include "distributor/metrics.h"
#include "distributor/state.h"
#include "intake/text.h"
#include "sys/clock.h"

#define LOSS_PAGE_MAX ((size_t)64 << 10)
#define LOSS_PAGE_NOTE \
    "Some counts may be missing: there are more tenants than this process counts apart."

struct loss_page {
    str tenants;  // joined by '|'
    struct buf *out;
    bool complete;
    size_t rows;
};

// The count of a reason, added up over the tenants that are asked for. It wraps as counters do.
static uint64_t loss_page_count(struct loss_page *p, struct metric *m, const char *reason)
{
    uint64_t sum = 0;
    for (str rest = p->tenants; rest.n > 0;) {
        uint64_t n = 0;
        str tenant = str_split(rest, '|', &rest);
        bool whole = metric_read_set(m, (str[]){str_of(reason), tenant}, &n);
        p->complete = p->complete && whole;
        sum += n;
    }
    return sum;
}

static void loss_page_row(struct loss_page *p, const char *reason, const char *kind,
                          const char *text)
{
    buf_z(p->out, p->rows++ ? ",{\"reason\":" : "{\"reason\":");
    json_put_string(p->out, str_of(reason));
    buf_printf(p->out, ",\"kind\":\"%s\",\"text\":", kind);
    json_put_string(p->out, str_of(text));
}

static void loss_page_number(struct loss_page *p, const char *key, uint64_t n)
{
    buf_printf(p->out, ",\"%s\":", key);
    buf_u64(p->out, n);
}

static void loss_page_refused(struct loss_page *p)
{
    for (int i = 0; i < DISCARD_REASON_COUNT; i++) {
        const char *reason = discard_name((enum discard_reason)i);
        uint64_t profiles = loss_page_count(p, &distributor_discarded_samples, reason);
        uint64_t bytes = loss_page_count(p, &distributor_discarded_bytes, reason);
        if (profiles == 0 && bytes == 0) continue;
        loss_page_row(p, reason, "refused", discard_text((enum discard_reason)i));
        loss_page_number(p, "profiles", profiles);
        loss_page_number(p, "bytes", bytes);
        buf_byte(p->out, '}');
    }
}

static void loss_page_parts(struct loss_page *p, bool stored)
{
    for (int i = 0; i < LOSS_COUNT; i++) {
        enum loss why = (enum loss)i;
        if (loss_is_stored(why) != stored) continue;
        uint64_t parts = loss_page_count(p, loss_note_metric(why), loss_name(why));
        if (parts == 0) continue;
        loss_page_row(p, loss_name(why), stored ? "mended" : "left_out", loss_text(why));
        loss_page_number(p, "parts", parts);
        buf_byte(p->out, '}');
    }
}

bool loss_page_get(void *self, struct http_exchange *x, err *e)
{
    const struct distributor_state *d = self;
    char since[TEXT_MAX];
    struct loss_page p = {.tenants = x->req.tenant, .out = &x->out, .complete = true};
    x->status = 200;
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, LOSS_PAGE_MAX);
    route_header(x, "content-type", S("application/json"));
    buf_z(&x->out, "{\"distributor\":");
    json_put_string(&x->out, str_of(d->process->id));
    buf_printf(&x->out, ",\"since\":\"%s\",\"losses\":[",
               text_rfc3339(since, d->begun_wall_ns / NS_PER_S));
    loss_page_refused(&p);
    loss_page_parts(&p, false);
    loss_page_parts(&p, true);
    buf_printf(&x->out, "],\"complete\":%s}\n",
               p.complete ? "true" : "false,\"note\":\"" LOSS_PAGE_NOTE "\"");
    return buf_ok(&x->out, e);
}
