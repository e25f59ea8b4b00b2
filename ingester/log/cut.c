// SPDX-License-Identifier: Apache-2.0
//
// cut.c - the hours of which a cut has entries, kept sorted.
#include "ingester/log/cut.h"

#include "model/slot.h"

static void insert(struct cut_hours *h, int64_t hour)
{
    uint32_t at = 0;
    assert(h->n <= CUT_HOURS);
    while (at < h->n && h->v[at] < hour)
        at++;
    if (at < h->n && h->v[at] == hour) return;
    if (h->n == CUT_HOURS) {
        // n above CUT_HOURS stands for "too many": then only first and last are known.
        h->n++;
        return;
    }
    memmove(&h->v[at + 1], &h->v[at], (h->n - at) * sizeof h->v[0]);
    h->v[at] = hour;
    h->n++;
}

void cut_note(struct cut *c, int64_t time_ns)
{
    struct cut_hours *h = &c->hours;
    int64_t hour = slot_of(time_ns, SLOT_HOUR);
    lock_take(&c->lock);
    if (h->n == 0 || hour < h->first) h->first = hour;
    if (h->n == 0 || hour > h->last) h->last = hour;
    if (h->n <= CUT_HOURS) insert(h, hour);
    lock_give(&c->lock);
}

size_t cut_hours_within(struct cut *c, int64_t first, int64_t last, int64_t *out, size_t max)
{
    const struct cut_hours *h = &c->hours;
    size_t n = 0;
    assert(max > 0);
    lock_take(&c->lock);
    if (h->n > CUT_HOURS) {
        for (int64_t hour = MAX(first, h->first); hour <= MIN(last, h->last) && n < max; hour++)
            out[n++] = hour;
    } else {
        for (uint32_t i = 0; i < h->n && n < max; i++) {
            if (h->v[i] >= first && h->v[i] <= last) out[n++] = h->v[i];
        }
    }
    lock_give(&c->lock);
    return n;
}
