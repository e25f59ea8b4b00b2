// SPDX-License-Identifier: Apache-2.0
#include "walk/compact.h"

#include "lib/job.h"
#include "sys/clock.h"
#include "walk/copies.h"

static bool counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

static bool run_hastily(const struct job_bench *b, struct req *r, const struct task *j, err *e)
{
    struct job_result made;
    struct job_result *const all[] = {&made};
    bool ok = job_make(b, r, j, &made, e);
    bool named = ok && job_commit(b, r, all, 1, e);
    for (size_t i = 0; ok && !named && i < made.n; i++)
        (void)!store_delete(b->store, r, made.blocks[i].name, &(err){0});
    job_release(&made);
    return named;
}

enum compact_end walk_job(struct manifests *ms, struct store *s, struct mem_budget *memory,
                          struct req *r, str tenant, int64_t retention_ns, uint64_t random,
                          bool hasty, struct copies *copies, err *e)
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
    int64_t begun_boot = clock_boot_ns();
    struct copies_view view = {0};
    if (copies && !copies_look(copies, s, r, &view, e)) return COMPACT_FAILED;
    if (!snapshot_take(ms, r, &r->arena, tenant, &snap, e)) return COMPACT_FAILED;
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = counts,
                               .arg = snap.manifest,
                               .may_go = copies ? copies_may_go : NULL,
                               .go_arg = &view,
                               .now_ns = begun};
    struct job_bench bench = {.manifests = ms,
                              .store = s,
                              .memory = memory,
                              .scratch = "/tmp",
                              .tenant = tenant,
                              .pack_bytes = random & 1 ? (uint64_t)1 << 29 : 4096,
                              .begun_ns = begun,
                              .begun_boot_ns = begun_boot,
                              .wall_ns = clock_wall_ns};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    bool ok = plan_make(&r->arena, &state, &often, &plan, e);
    if (ok && copies) copies_wish(&view, plan.held, plan.held_count);
    const struct task *job = ok && plan.n ? &plan.jobs[(random >> 1) % MIN(plan.n, 4u)] : NULL;
    if (job) ok = hasty ? run_hastily(&bench, r, job, e) : job_run(&bench, r, job, &report, e);
    snapshot_release(&snap);
    return !ok ? COMPACT_FAILED : plan.n ? COMPACT_DONE : COMPACT_NOTHING;
}

// ---- mistakes

static bool names(const struct manifest_block *b, id128 leaf)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        for (size_t k = 0; k < c->leaf_count; k++)
            if (id128_eq(c->leaves[k], leaf)) return true;
    }
    return false;
}

// Any expired leaf that a block names; zeros: there is none.
static id128 find_expired(const struct manifest *m, const struct manifest_block *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < v[i].cover_count; k++) {
            const struct manifest_cover *c = &v[i].covers[k];
            for (size_t l = 0; l < c->leaf_count; l++)
                if (manifest_counts(m, c->leaves[l]) && !manifest_find(m, c->leaves[l]))
                    return c->leaves[l];
        }
    }
    return (id128){{0}};
}

bool walk_wrong_change(struct manifests *ms, struct req *r, str tenant, int64_t retention_ns,
                       bool dropped)
{
    size_t n = 0;
    err e = {0};
    struct manifest *m = manifest_newest(ms, r, tenant, &e);
    if (!m) return false;
    const struct manifest_block *v = manifest_blocks(m, &n);
    id128 *ids = ARENA_ARRAY(&r->arena, id128, n + 1);
    id128 leaf = find_expired(m, v, n);
    struct manifest_change c = {.expire = ids, .begun_ns = clock_wall_ns()};
    for (size_t i = 0; i < n; i++) {
        bool old = v[i].kind == BLOCK_RAW &&
                   slot_start(v[i].from_hour, SLOT_HOUR) + retention_ns < clock_wall_ns();
        bool wrong = dropped ? names(&v[i], leaf) : old && c.expire_count == 0;
        if (wrong) ids[c.expire_count++] = v[i].id;
    }
    bool ok = c.expire_count && manifest_commit(ms, r, tenant, &c, NULL, &e);
    manifest_unref(m);
    return ok;
}
