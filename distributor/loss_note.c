// SPDX-License-Identifier: Apache-2.0
//
// loss_note.c - the counts of a request as a header, as a sentence, as metrics and as log lines.
#include "distributor/loss_note.h"

#include "distributor/metrics.h"

#include <stdio.h>

#define LOSS_NOTE_MAX 2048

struct metric *loss_note_metric(enum loss why)
{
    return loss_is_stored(why) ? &distributor_mended_parts : &distributor_discarded_parts;
}

// The reasons one behind the other, in the request's arena. Empty if there is nothing to tell, or
// the arena has no room: what is stored must not be refused for want of a note.
static str loss_note_join(const struct request *q, const char *between, bool in_words)
{
    char text[LOSS_NOTE_MAX];
    size_t n = 0;
    for (int i = 0; i < LOSS_COUNT && n < sizeof text; i++) {
        enum loss why = (enum loss)i;
        unsigned long long count = q->in.losses.count[i];
        const char *lead = n ? between : "";
        if (count == 0) continue;
        const char *how = loss_is_stored(why) ? "stored, but mended" : "not stored";
        int put = in_words ? snprintf(text + n, sizeof text - n, "%s%s (%s): %llu %s", lead,
                                      loss_name(why), how, count, loss_text(why))
                           : snprintf(text + n, sizeof text - n, "%s%s=%llu", lead, loss_name(why),
                                      count);
        n += (size_t)MAX(put, 0);
    }
    return n ? arena_str(&q->req->arena, str_make(text, MIN(n, sizeof text - 1))) : (str){0};
}

void loss_note_header(const struct request *q, struct http_exchange *x)
{
    str text = loss_note_join(q, ", ", false);
    if (text.n) route_header(x, "flametree-discarded", text);
}

str loss_note_text(const struct request *q)
{
    return loss_note_join(q, "; ", true);
}

void loss_note_end(struct request *q)
{
    const struct pipeline *in = &q->in;
    if (!q->sent) return;
    for (int i = 0; i < LOSS_COUNT; i++) {
        enum loss why = (enum loss)i;
        uint64_t n = in->losses.count[i];
        if (n == 0) continue;
        str values[] = {str_of(loss_name(why)), q->req->tenant};
        metric_add_set(loss_note_metric(why), values, n);
        refusals_log_loss(&q->self->refusals, &q->req->log, why, n, q->protocol,
                          in->losses_service);
    }
}
