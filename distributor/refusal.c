// SPDX-License-Identifier: Apache-2.0
//
// refusal.c - the table of tenants and reasons that were logged in the last interval.
#include "distributor/refusal.h"

#include "base/hash.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define INTERVAL_NS ((uint64_t)REFUSAL_INTERVAL_S * (uint64_t)NS_PER_S)

void refusals_init(struct refusals *r)
{
    *r = (struct refusals){0};
    lock_init(&r->lock, LOCK_REFUSALS);
}

void refusals_release(struct refusals *r)
{
    lock_release(&r->lock);
}

// The row of a key: its own; or one that is free, or whose interval is over, preferably one without
// a count that is still to be logged, and the oldest of these. A count that is lost with the row
// becomes unlisted. NULL: all rows are within their intervals.
static struct refusal_row *row_of(struct refusals *r, uint64_t key, uint64_t mono_ns)
{
    assert(lock_is_mine(&r->lock) && key);
    struct refusal_row *place = NULL;
    for (size_t i = 0; i < REFUSAL_ROWS; i++) {
        struct refusal_row *row = &r->rows[i];
        if (row->key == key) return row;
        bool over = row->key == 0 || mono_ns - row->begun_mono_ns >= INTERVAL_NS;
        if (!over) continue;
        bool better =
            !place || (row->again == 0 && place->again > 0) ||
            ((row->again == 0) == (place->again == 0) && row->begun_mono_ns < place->begun_mono_ns);
        if (better) place = row;
    }
    if (!place) return NULL;
    r->unlisted += place->again;
    *place = (struct refusal_row){.key = key};
    return place;
}

static struct log_site *admit(struct refusals *r, struct refusal *x, uint64_t mono_ns)
{
    uint64_t key = hash_table_and(hash_table_str(x->tenant), hash_table_str(x->reason));
    key = hash_table_and(key, x->stored) | 1;
    struct refusal_row *row = row_of(r, key, mono_ns);
    if (!row) {
        r->unlisted++;
        return NULL;
    }
    // Without a row nothing is logged, or many tenants would fill the log in turns.
    assert(row->key == key);
    bool fresh = row->begun_mono_ns == 0;
    if (!fresh && mono_ns - row->begun_mono_ns < INTERVAL_NS) {
        row->again++;
        return NULL;
    }
    x->again = row->again;
    x->unlisted = r->unlisted;
    r->unlisted = row->again = 0;
    row->begun_mono_ns = mono_ns;
    return &row->site;
}

struct log_site *refusals_admit(struct refusals *r, struct refusal *x, uint64_t mono_ns)
{
    assert(x->reason.n > 0);
    lock_take(&r->lock);
    struct log_site *site = admit(r, x, mono_ns);
    lock_give(&r->lock);
    return site;
}

// " name=N", or nothing where there is nothing to tell.
static const char *counted(char text[32], const char *name, uint64_t n)
{
    text[0] = '\0';
    if (n) snprintf(text, 32, " %s=%" PRIu64, name, n);
    return text;
}

void refusals_log_loss(struct refusals *r, const struct log_fields *f, enum loss why, uint64_t n,
                       const char *protocol, str service)
{
    struct refusal x = {.tenant = f->tenant, .reason = str_of(loss_name(why)), .stored = true};
    struct log_site *site = refusals_admit(r, &x, clock_mono_ns());
    if (!site) return;
    char again[32];
    char unlisted[32];
    char name[LOG_QUOTE_MAX];
    char text[LOG_QUOTE_MAX];
    log_write(site, f, LOG_WARN, "push.mended",
              "reason=%.*s parts=%" PRIu64 " stored=%s protocol=%s service=%s text=%s%s%s",
              STR(x.reason), n, loss_is_stored(why) ? "true" : "false", protocol,
              log_quote(name, service), log_quote(text, str_of(loss_text(why))),
              counted(again, "again", x.again), counted(unlisted, "unlisted", x.unlisted));
}

void refusals_log(struct refusals *r, const struct log_fields *f, str reason, const char *protocol,
                  str service, const err *e)
{
    struct refusal x = {.tenant = f->tenant, .reason = reason};
    if (x.reason.n == 0) x.reason = str_of(err_name(e->code));
    struct log_site *site = refusals_admit(r, &x, clock_mono_ns());
    if (!site) return;
    char again[32];
    char unlisted[32];
    char name[LOG_QUOTE_MAX];
    char why[LOG_QUOTE_MAX];
    log_write(site, f, LOG_WARN, "push.refused",
              "reason=%.*s code=%s protocol=%s service=%s why=%s%s%s", STR(x.reason),
              err_name(e->code), protocol, log_quote(name, service), log_quote(why, str_of(e->msg)),
              counted(again, "again", x.again), counted(unlisted, "unlisted", x.unlisted));
}
