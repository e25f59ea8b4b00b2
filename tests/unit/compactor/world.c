// SPDX-License-Identifier: Apache-2.0
#include "unit/compactor/world.h"

_Atomic int64_t now_ns;

int64_t virtual_now(void)
{
    return now_ns;
}

static const struct plan_settings at_once = {0};

void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){.settings = at_once, .store = memstore_open()};
    fleet_init(&w->fleet, seed);
    snprintf(w->scratch, sizeof w->scratch, "/tmp/flametree-levels-%d", (int)getpid());
    err fault = {0};
    w->manifests = manifests_open(w->store, &w->fleet.memory, virtual_now, &fault);
    assert_non_null(w->manifests);
    arena_init(&w->arena, NULL, 1 << 20);
}

void world_delete(struct world *w, const char *match, int64_t from_ns, int64_t to_ns)
{
    struct req r;
    struct manifest_tombstone t = {.hide = {.from_ns = from_ns, .to_ns = to_ns}};
    t.id.b[0] = 1;
    t.id.b[15] = (uint8_t)w->hide_count;
    assert_ok(selector_parse(&w->arena, str_of(match), &t.hide.selector, e));
    w->hides[w->hide_count++] = t.hide;
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    const struct manifest_change c = {.bury = &t, .bury_count = 1, .begun_ns = now_ns};
    assert_ok(manifest_commit(w->manifests, &r, S(FLEET_TENANT), &c, NULL, e));
    req_release(&r);
}

size_t count_tombstones(struct world *w)
{
    struct req r;
    err fault = {0};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    size_t n = manifest_tombstone_count(m);
    manifest_unref(m);
    req_release(&r);
    return n;
}

void world_release(struct world *w)
{
    manifests_close(w->manifests);
    store_close(w->store);
    fleet_release(&w->fleet);
    arena_release(&w->arena);
    rmdir(w->scratch);
}

static bool leaf_counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

static bool read_tombstones(struct arena *a, const struct snapshot *snap, struct plan_state *state,
                            struct hide **hides, err *e)
{
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    if (!manifest_tombstones(snap->manifest, a, &v, &n, e)) return false;
    *hides = ARENA_ARRAY(a, struct hide, n);
    if (!*hides) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++)
        (*hides)[i] = v[i].hide;
    state->tombstones = v;
    state->tombstone_count = n;
    return true;
}

size_t work_once(struct world *w)
{
    struct req r;
    struct snapshot snap;
    struct plan plan;
    struct mem_budget memory;
    size_t done = 0;
    mem_budget_init(&memory, "compactor", NULL, w->memory);
    req_init(&r, RANK_DUTY, NULL, 256 << 20, 0);
    err none = {0};
    if (!snapshot_take(w->manifests, &r, &r.arena, S(FLEET_TENANT), &snap, &none)) {
        if (!w->may_fail) fail_msg("%s", none.msg);
        req_release(&r);
        w->failed++;
        w->fault = none;
        return 0;
    }
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = leaf_counts,
                               .arg = snap.manifest,
                               .now_ns = now_ns};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    struct hide *hides = NULL;
    if (!read_tombstones(&r.arena, &snap, &state, &hides, &none) ||
        !plan_make(&r.arena, &state, &w->settings, &plan, &none)) {
        if (!w->may_fail) fail_msg("%s", none.msg);
        snapshot_release(&snap);
        req_release(&r);
        w->failed++;
        w->fault = none;
        return 0;
    }
    const struct job_bench bench = {.manifests = w->manifests,
                                    .store = w->store,
                                    .memory = &memory,
                                    .scratch = w->scratch,
                                    .tenant = S(FLEET_TENANT),
                                    .pack_bytes = w->pack_bytes,
                                    .begun_ns = now_ns,
                                    .wall_ns = virtual_now,
                                    .tombstones = state.tombstones,
                                    .hides = hides,
                                    .tombstone_count = state.tombstone_count,
                                    .version = manifest_version(snap.manifest),
                                    .snapshot = snap.manifest};
    for (size_t i = 0; i < plan.n; i++) {
        struct job_report report;
        err fault = {0};
        now_ns += 1000000;
        if (!job_run(&bench, &r, &plan.jobs[i], &report, &fault)) {
            if (fault.code != ERR_ABORTED) {
                if (!w->may_fail) fail_msg("%s", fault.msg);
                w->fault = fault;
            }
            w->failed++;
            continue;
        }
        w->jobs[plan.jobs[i].kind]++;
        w->duplicates += report.duplicates;
        w->files += report.files;
        done++;
    }
    const struct manifest_change over = {.forget = plan.done,
                                         .forget_count = plan.done_count,
                                         .begun_ns = now_ns};
    if (plan.done_count &&
        !manifest_commit(w->manifests, &r, S(FLEET_TENANT), &over, NULL, &none)) {
        if (!w->may_fail) fail_msg("%s", none.msg);
        w->fault = none;
        w->failed++;
    }
    snapshot_release(&snap);
    req_release(&r);
    assert_int_equal(memory.used, 0);
    return done + plan.done_count;
}

void work_until_done(struct world *w)
{
    for (int i = 0; work_once(w); i++)
        assert_true(i < 50);
}

size_t check_all(struct world *w, enum block_kind kind)
{
    struct req r;
    err fault = {0};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    size_t n = 0;
    size_t count = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].kind != kind || (v[i].classes == 0 && !v[i].spared)) continue;
        count++;
        if (v[i].spared) continue;
        bool *within = calloc(w->fleet.n + 1, 1);
        for (size_t k = 0; k < w->fleet.n; k++) {
            const struct fact *x = &w->fleet.facts[k];
            int64_t hour = slot_of(x->time_ns, SLOT_HOUR);
            uint32_t pack = block_pack(str_of(fleet_service(x->service)));
            within[k] = hour >= v[i].from_hour && hour < v[i].from_hour + v[i].hours &&
                        pack >= v[i].pack_lo && pack <= v[i].pack_hi &&
                        fact_part(x, v[i].parts) == v[i].part;
            for (size_t h = 0; h < w->hide_count; h++)
                within[k] = within[k] && !fact_is_hidden(x, &w->hides[h]);
        }
        check_block(&w->fleet, w->store, v[i].name, v[i].bytes, within);
        free(within);
    }
    manifest_unref(m);
    req_release(&r);
    return count;
}

// How many live blocks of a kind have keys of series; or, of hours, nothing, as rows are as small.
static size_t count_which(struct world *w, enum block_kind kind, bool spared)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    size_t count = 0;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++)
        count += v[i].kind == kind && (spared ? v[i].spared : v[i].classes >> BLOCK_SERIES & 1);
    manifest_unref(m);
    req_release(&r);
    return count;
}

size_t count_with_series(struct world *w, enum block_kind kind)
{
    return count_which(w, kind, false);
}

size_t count_spared(struct world *w)
{
    return count_which(w, BLOCK_HOURS, true);
}

void check_each_level(struct world *w)
{
    (void)check_all(w, BLOCK_RAW);
    (void)check_all(w, BLOCK_HOURS);
    (void)check_all(w, BLOCK_DAYS);
}

void world_fill(struct world *w, int64_t days, size_t each)
{
    now_ns = slot_start(HOUR_0 + 24 * 40, SLOT_HOUR);
    for (int64_t day = 0; day < days; day++) {
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 3, each);
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 4, each);
    }
    fleet_flush(&w->fleet, w->store, 0, 5);
}

void world_begin_expired(struct world *w, uint64_t seed, int64_t days, size_t each)
{
    world_init(w, seed);
    w->settings.day_leaf_bytes = 1 << 20;
    world_fill(w, days, each);
    work_until_done(w);
    w->settings.raw_retention = SLOT_DAY;
    work_until_done(w);
    assert_int_equal(check_all(w, BLOCK_RAW), 0);
}
