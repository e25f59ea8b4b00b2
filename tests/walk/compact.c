// SPDX-License-Identifier: Apache-2.0
#include "walk/compact.h"

#include "lib/job.h"
#include "sys/clock.h"
#include "walk/copies.h"

static bool counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

// ---- a job done wrong

// The change counts as one of a leaf that nobody else can have absorbed.
static bool name_again(const struct job_bench *b, struct req *r, const struct job_result *made,
                       err *e)
{
    struct manifest_change c = {.add_count = made->n,
                                .begun_ns = b->begun_ns,
                                .begun_boot_ns = b->begun_boot_ns};
    struct manifest_block *add = ARENA_ARRAY(&r->arena, struct manifest_block, made->n + 1);
    for (size_t i = 0; i < made->n; i++) {
        add[i] = made->blocks[i];
        add[i].source_count = 0;
    }
    c.add = add;
    return manifest_commit(b->manifests, r, b->tenant, &c, NULL, e);
}

static bool run_wrongly(const struct job_bench *b, struct req *r, const struct task *j,
                        enum job_mistake mistake, err *e)
{
    struct job_result made;
    struct job_result *const all[] = {&made};
    bool ok = job_make(b, r, j, &made, e);
    bool named = ok && job_commit(b, r, all, 1, e);
    bool refused = ok && !named && e->code == ERR_ABORTED;
    bool leaf = j->kind == JOB_LEAF || j->kind == JOB_FOLD;
    if (mistake == JOB_AGAIN && refused && leaf) named = name_again(b, r, &made, e);
    for (size_t i = 0; mistake == JOB_HASTY && ok && !named && i < made.n; i++)
        (void)!store_delete(b->store, r, made.blocks[i].name, &(err){0});
    job_release(&made);
    return named;
}

// ---- jobs that stay taken

static bool is_taken(struct taken_jobs *t, const struct task *j)
{
    bool found = false;
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->n && !found; i++)
        found = t->v[i].kind == (int)j->kind && t->v[i].from_hour == j->from_hour;
    pthread_mutex_unlock(&t->lock);
    return found;
}

static void keep_taken(struct taken_jobs *t, const struct task *j)
{
    pthread_mutex_lock(&t->lock);
    if (t->n < COUNT(t->v)) {
        t->v[t->n].kind = (int)j->kind;
        t->v[t->n++].from_hour = j->from_hour;
    }
    pthread_mutex_unlock(&t->lock);
}

// One of the first four that are free; NULL: there is none.
static const struct task *choose(const struct plan *p, const struct job_way *way, uint64_t random)
{
    const struct task *first[4];
    size_t n = 0;
    for (size_t i = 0; i < p->n && n < COUNT(first); i++) {
        bool taken = way->mistake == JOB_KEPT && is_taken(way->taken, &p->jobs[i]);
        if (!taken) first[n++] = &p->jobs[i];
    }
    return n ? first[random % n] : NULL;
}

enum compact_end walk_job(struct manifests *ms, struct store *s, struct mem_budget *memory,
                          struct req *r, str tenant, const struct job_way *way, uint64_t random,
                          err *e)
{
    const int64_t retention_ns = way->retention_ns;
    struct copies *copies = way->copies;
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
    const struct task *job = ok ? choose(&plan, way, random >> 1) : NULL;
    if (job && way->mistake != JOB_RIGHT)
        ok = run_wrongly(&bench, r, job, way->mistake, e);
    else if (job)
        ok = job_run(&bench, r, job, &report, e);
    if (job && !ok && way->mistake == JOB_KEPT) keep_taken(way->taken, job);
    snapshot_release(&snap);
    return !ok ? COMPACT_FAILED : job ? COMPACT_DONE : COMPACT_NOTHING;
}

// ---- changes that no job may make

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
