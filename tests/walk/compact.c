// SPDX-License-Identifier: Apache-2.0
#include "walk/compact.h"

#include "compactor/job.h"
#include "sys/clock.h"

static bool counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

enum compact_end walk_job(struct manifests *ms, struct store *s, struct mem_budget *memory,
                          struct req *r, str tenant, int64_t retention_ns, uint64_t random, err *e)
{
    const struct plan_settings often = {.fold_interval = SLOT_HOUR,
                                        .pack_interval = 6 * SLOT_HOUR,
                                        .window_interval = SLOT_DAY,
                                        .day_leaf_bytes = random & 4 ? (uint64_t)1 << 29 : 0,
                                        .leaf_stay = retention_ns / 2,
                                        .raw_retention = retention_ns,
                                        .hours_retention = 4 * retention_ns};
    struct snapshot snap;
    struct plan plan = {0};
    struct job_report report = {0};
    int64_t begun = clock_wall_ns();
    if (!snapshot_take(ms, r, &r->arena, tenant, &snap, e)) return COMPACT_FAILED;
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = counts,
                               .arg = snap.manifest,
                               .now_ns = begun};
    struct job_bench bench = {.manifests = ms,
                              .store = s,
                              .memory = memory,
                              .scratch = "/tmp",
                              .tenant = tenant,
                              .pack_bytes = random & 1 ? (uint64_t)1 << 29 : 4096,
                              .begun_ns = begun,
                              .wall_ns = clock_wall_ns};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    bool ok = plan_make(&r->arena, &state, &often, &plan, e);
    if (ok && plan.n)
        ok = job_run(&bench, r, &plan.jobs[(random >> 1) % MIN(plan.n, 4u)], &report, e);
    snapshot_release(&snap);
    return !ok ? COMPACT_FAILED : plan.n ? COMPACT_DONE : COMPACT_NOTHING;
}
