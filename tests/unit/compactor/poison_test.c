// SPDX-License-Identifier: Apache-2.0
//
// A service with very many stacks in many segments: merges stay within their memory, whatever they
// are given. FLAMETREE_NIGHTLY=1 does it at full size (1 M stacks, 512 MB).
#include "block/order.h"
#include "block/source.h"
#include "block/writer.h"
#include "compactor/job.h"
#include "lib/dir.h"
#include "store/local.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <time.h>

#define TENANT S("poison")

struct poison {
    struct store *store;
    uint32_t stacks;
    size_t segments;
    size_t rows;  // of a segment
    size_t memory;
    int64_t hour;
    struct job_report report;
    size_t files;
};

static size_t status_bytes(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    size_t kb = 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) kb = strtoul(line + strlen(key) + 1, NULL, 10);
    }
    fclose(f);
    return kb << 10;
}

static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    assert_non_null(f);
    fputs("5", f);
    fclose(f);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

// Stack i hangs below stack i / 3; each segment has three quarters of them.
static void add_stacks(const struct poison *p, size_t segment, struct symbols *s, uint32_t *rows)
{
    err e = {0};
    for (uint32_t i = 1; i < p->stacks; i++) {
        char name[96];
        if (mix(i * 64 + segment) % 4 == 0 && i >= p->stacks / 3) continue;
        snprintf(name, sizeof name, "github.com/company/product/module%u.(*Type).Function%u",
                 i % 211, i % 50000);
        uint32_t text = symbols_string(s, str_of(name), &e);
        uint32_t function = symbols_function(s, (struct symbol_function){.name = text}, &e);
        uint32_t frame =
            symbols_frame(s, (struct symbol_frame){.function = function, .line = i % 1000}, &e);
        rows[i] = symbols_stack(s, rows[i / 3], frame, &e);
        assert_int_not_equal(rows[i], MAP_NONE);
    }
}

static bool to_upload(void *arg, str bytes, err *e)
{
    return store_write(arg, bytes, e);
}

static void write_rows(const struct poison *p, size_t segment, struct block_writer *w,
                       const uint32_t *rows, const uint32_t *map)
{
    struct vector_entry *v = malloc(p->stacks * sizeof *v);
    struct buf columns;
    buf_init(&columns, NULL, SIZE_MAX);
    label ls[] = {{S(LABEL_PROFILE_TYPE), S("cpu:ns")}, {S(LABEL_SERVICE), S("poison")}};
    assert_ok(block_key(w, BLOCK_SERIES, S("cpu:ns"), (labels){ls, COUNT(ls)}, e));
    for (size_t i = 0; i < p->rows; i++) {
        struct block_row row = {.factor = 1};
        size_t n = 0;
        for (uint32_t k = 1; k < p->stacks; k++) {
            if (rows[k] == 0 || mix(k + i * 7919) % p->rows) continue;
            v[n++] = (struct vector_entry){map[rows[k]], 1 + k % 9};
            row.total += 1 + k % 9;
        }
        assert_ok(vector_normalise(v, &n, e));
        buf_clear(&columns);
        columns_encode(v, n, &columns);
        assert_ok(block_vector(w, buf_view(&columns), &row.vector, e));
        row.time_ns =
            slot_start(p->hour, SLOT_HOUR) + 1 +
            (int64_t)((i * p->segments + segment) * (size_t)SLOT_HOUR / (p->rows * p->segments));
        row.id = uuid_profile((uint64_t)(row.time_ns / 1000000), mix(segment), mix(i) << 40);
        assert_ok(block_row(w, &row, e));
    }
    free(v);
    buf_release(&columns);
}

static void write_segment(const struct poison *p, size_t segment)
{
    struct symbols s;
    struct symbol_table ordered;
    struct arena a;
    struct req r;
    err fault = {0};
    arena_init(&a, NULL, SIZE_MAX);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    uint32_t *rows = calloc(p->stacks, sizeof *rows);
    assert_ok(symbols_init(&s, NULL, e));
    add_stacks(p, segment, &s, rows);
    uint32_t *map = ARENA_ARRAY(&a, uint32_t, s.t.stack_count);
    assert_ok(block_order(&a, &s.t, NULL, &ordered, map, e));
    struct segment_name name = {.hour = p->hour, .cut = segment};
    struct store_upload *u = store_begin(p->store, &r, name_segment(&a, TENANT, &name), 0, &fault);
    assert_non_null(u);
    const struct block_writer_options o = {.about = {.kind = BLOCK_SEGMENT,
                                                     .tenant = TENANT,
                                                     .from_hour = p->hour,
                                                     .hours = 1,
                                                     .pack_hi = UINT32_MAX,
                                                     .classes = 1u << BLOCK_SERIES},
                                           .sink = to_upload,
                                           .arg = u};
    struct block_writer *w = block_begin(&o, &fault);
    struct block_written written;
    bool existed = false;
    assert_ok(block_service(w, S("poison"), &ordered, e));
    write_rows(p, segment, w, rows, map);
    assert_ok(block_finish(w, &written, e));
    assert_ok(store_commit(u, &existed, e));
    symbols_release(&s);
    free(rows);
    req_release(&r);
    arena_release(&a);
}

static bool counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

// One plan; all of its jobs.
static void compact(struct poison *p, struct manifests *ms, const char *scratch)
{
    struct req r;
    struct snapshot snap;
    struct plan plan;
    struct mem_budget memory;
    const struct plan_settings at_once = {0};
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    mem_budget_init(&memory, "worker", NULL, p->memory);
    assert_ok(snapshot_take(ms, &r, &r.arena, TENANT, &snap, e));
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = counts,
                               .arg = snap.manifest,
                               .now_ns = clock_wall_ns()};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    assert_ok(plan_make(&r.arena, &state, &at_once, &plan, e));
    const struct job_bench bench = {.manifests = ms,
                                    .store = p->store,
                                    .memory = &memory,
                                    .scratch = scratch,
                                    .tenant = TENANT,
                                    .begun_ns = clock_wall_ns(),
                                    .wall_ns = clock_wall_ns};
    assert_int_equal(plan.n, 1);
    forget_peak();
    size_t before = status_bytes("VmRSS:");
    struct timespec begun;
    struct timespec end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    assert_ok(job_run(&bench, &r, &plan.jobs[0], &p->report, e));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    size_t peak = status_bytes("VmHWM:") - before;
    p->files += p->report.files;
    print_message("%s: %zu MB of %zu MB (counted %zu), %zu files, %" PRIu64 " -> %" PRIu64
                  " MB, %.1f s\n",
                  job_kind_name(plan.jobs[0].kind), peak >> 20, p->memory >> 20, memory.peak >> 20,
                  p->report.files, p->report.bytes_in >> 20, p->report.bytes_out >> 20,
                  (double)(end.tv_sec - begun.tv_sec) +
                      1e-9 * (double)(end.tv_nsec - begun.tv_nsec));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // What compression and the allocator take besides does not shrink with the budget.
    size_t fixed = p->memory < (size_t)512 << 20 ? (size_t)16 << 20 : 0;
    assert_true(peak <= p->memory + p->memory / 10 + fixed);
#endif
    assert_int_equal(memory.used, 0);
    snapshot_release(&snap);
    req_release(&r);
}

static void a_merge_of_very_many_stacks_stays_within_its_memory(void **state)
{
    (void)state;
    const char *nightly = getenv("FLAMETREE_NIGHTLY");
    bool full = nightly && *nightly == '1';
    struct poison p = {.stacks = full ? 1000000 : 60000,
                       .segments = full ? 16 : 24,
                       .rows = 20,
                       .memory = (size_t)(full ? 512 : 30) << 20,
                       .hour = 480000};
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    char scratch[DIR_PATH_MAX];
    err fault = {0};
    dir_new(dir);
    dir_path(scratch, dir, "scratch");
    const struct store_local_options o = {.dir = dir_path(path, dir, "store"), .no_uring = true};
    p.store = store_open_local(&o, &fault);
    assert_non_null(p.store);
    for (size_t i = 0; i < p.segments; i++)
        write_segment(&p, i);
    struct manifests *ms = manifests_open(p.store, NULL, NULL, &fault);
    assert_non_null(ms);
    compact(&p, ms, scratch);
    assert_int_equal(p.report.rows, p.segments * p.rows);
    assert_true(full || p.files > 0);  // not all at once
    compact(&p, ms, scratch);          // hour nodes
    manifests_close(ms);
    store_close(p.store);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_of_very_many_stacks_stays_within_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
