// SPDX-License-Identifier: Apache-2.0
#include "unit/manifest/bench.h"

_Atomic int64_t bench_now;
_Atomic int64_t bench_slept;  // how much more went by on the clock that nobody sets

int64_t bench_wall(void)
{
    return atomic_load(&bench_now);
}

int64_t bench_boot(void)
{
    return bench_wall() + atomic_load(&bench_slept);
}

void bench_begin(struct bench *b)
{
    *b = (struct bench){.store = memstore_open()};
    atomic_store(&bench_now, BENCH_START);
    atomic_store(&bench_slept, 0);
    sweep_seen_init(&b->seen, &b->budget);
    mem_budget_init(&b->budget, "test", NULL, 0);
    arena_init(&b->arena, NULL, (size_t)1 << 30);
    req_init(&b->r, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    err e = {0};
    b->ms = manifests_open(b->store, &b->budget, bench_wall, &e);
    assert_non_null(b->ms);
    manifests_set_boot(b->ms, bench_boot);
}

void bench_end(struct bench *b)
{
    sweep_seen_release(&b->seen);
    manifests_close(b->ms);
    arena_release(&b->arena);
    req_release(&b->r);
    assert_int_equal(b->budget.used, 0);
    store_close(b->store);
}

id128 bench_id(uint32_t nr)
{
    uint8_t random[10] = {0};
    memcpy(random, &nr, sizeof nr);
    return ulid_make((uint64_t)(bench_wall() / NS_PER_MS), random);
}

struct segment_name bench_segment(int64_t hour, uint64_t cut, uint32_t part)
{
    return (struct segment_name){.hour = hour, .stream = {{7}}, .cut = cut, .part = part};
}

struct manifest_block bench_block(enum block_kind kind, int64_t hour, uint32_t hours, id128 id)
{
    return (struct manifest_block){
        .id = id,
        .kind = kind,
        .from_hour = hour,
        .hours = hours,
        .pack_hi = UINT32_MAX,
        .classes = 1u << BLOCK_ALL,
        .bytes = 1000,
        .rows = 10,
        .first_ns = hour * BENCH_HOURS + 1,
        .last_ns = (hour + hours) * BENCH_HOURS,
        .format = 1,
    };
}

// Room that nobody gives back.
static struct segment_run *bench_runs(size_t n)
{
    static struct segment_run room[1 << 17];
    static atomic_size_t used;
    size_t at = atomic_fetch_add(&used, n);
    assert_in_range(at + n, 0, COUNT(room));
    return room + at;
}

struct manifest_block bench_leaf(int64_t hour, id128 id, const struct segment_name *sources,
                                 size_t n)
{
    struct manifest_block b = bench_block(BLOCK_RAW, hour, 1, id);
    struct segment_run *runs = bench_runs(n);
    for (size_t i = 0; i < n; i++)
        runs[i] = segment_run_of(&sources[i]);
    b.sources = runs;
    b.source_count = (uint32_t)segment_runs_join(runs, n);
    return b;
}

void bench_write_block(struct bench *b, const struct manifest_block *block)
{
    static char zeros[1000];
    err e = {0};
    bool existed = false;
    str name = manifest_block_name(&b->arena, TENANT, block);
    assert_true(store_put(b->store, &b->r, name, str_make(zeros, sizeof zeros), &existed, &e));
    assert_false(existed);
}

void bench_write_segment(struct bench *b, const struct segment_name *s)
{
    err e = {0};
    bool existed = false;
    str name = name_segment(&b->arena, TENANT, s);
    assert_true(store_put(b->store, &b->r, name, S("rows"), &existed, &e));
    assert_false(existed);
}

bool bench_commit(struct bench *b, const struct manifest_change *c, err *e)
{
    struct manifest_change copy = *c;
    for (size_t i = 0; i < c->add_count; i++) {
        if (c->add[i].bytes != 1000 || c->add[i].from_hour < 0) continue;
        if (!memstore_has(b->store, manifest_block_name(&b->arena, TENANT, &c->add[i]).p))
            bench_write_block(b, &c->add[i]);
    }
    if (!copy.begun_ns) copy.begun_ns = bench_wall();
    return manifest_commit(b->ms, &b->r, TENANT, &copy, NULL, e);
}

bool bench_add(struct bench *b, const struct manifest_block *v, size_t n, err *e)
{
    return bench_commit(b, &(struct manifest_change){.add = v, .add_count = n}, e);
}

bool bench_sweep(struct bench *b, struct manifest_sweep *s, err *e)
{
    s->seen = &b->seen;
    for (int i = 0; i < 2; i++) {
        if (!manifest_sweep(b->ms, &b->r, TENANT, s, e)) return false;
        atomic_fetch_add(&bench_slept, 30 * 24 * BENCH_HOURS);
    }
    return manifest_sweep(b->ms, &b->r, TENANT, s, e);
}

struct manifest *bench_newest(struct bench *b)
{
    err e = {0};
    struct manifest *m = manifest_newest(b->ms, &b->r, TENANT, &e);
    if (!m) fail_msg("%s: %s", err_name(e.code), e.msg);
    return m;
}
