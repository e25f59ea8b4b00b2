// SPDX-License-Identifier: Apache-2.0
#include "unit/compactor/slow.h"

#define SLOW_ROWS 2  // of a segment

void slow_fill(struct world *w, size_t segments)
{
    for (size_t i = 0; i < segments; i++) {
        size_t which[SLOW_ROWS];
        int64_t hour = HOUR_0 + (int64_t)(i % 24);
        for (size_t k = 0; k < SLOW_ROWS; k++) {
            int64_t at = 1 + (int64_t)fleet_random(&w->fleet, (uint64_t)SLOT_HOUR);
            which[k] = w->fleet.n;
            fleet_add(&w->fleet, slot_start(hour, SLOT_HOUR) + at);
        }
        fleet_segment(&w->fleet, w->store, which, SLOW_ROWS, false);
    }
    now_ns = slot_start(HOUR_0 + 48, SLOT_HOUR);
}

uint64_t slow_sweep(struct world *w)
{
    struct req r;
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    struct manifest_sweep s = {.seen = &seen, .version_age_ns = SLOT_DAY, .versions = 64};
    req_init(&r, RANK_DUTY, NULL, 256 << 20, 0);
    assert_ok(manifest_sweep(w->manifests, &r, S(FLEET_TENANT), &s, e));
    req_release(&r);
    sweep_seen_release(&seen);
    return s.segments_deleted;
}
