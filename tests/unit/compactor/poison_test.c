// SPDX-License-Identifier: Apache-2.0
//
// A service with very many stacks in many segments: merges stay within their memory, whatever they
// are given. FLAMETREE_NIGHTLY=1 does it at full size (1 M stacks, 512 MB).
#include "block/order.h"
#include "block/source.h"
#include "block/writer.h"
#include "lib/dir.h"
#include "lib/job.h"
#include "store/local.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <malloc.h>
#include <time.h>

#define TENANT S("poison")

struct poison {
    struct store *store;
    uint32_t stacks;
    size_t segments;
    size_t rows;  // of a segment
    size_t memory;
    int64_t hour;
    uint64_t cut;  // of the next segment
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
        row.time_ns = slot_start(p->hour, SLOT_HOUR) + 1 +
                      (int64_t)((i * p->segments + segment % p->segments) * (size_t)SLOT_HOUR /
                                (p->rows * p->segments));
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

// What a kind of job took at most. (A leaf of a day is a fold; it stands apart.)
#define KINDS (JOB_KINDS + 1)
struct taken {
    size_t jobs;
    size_t peak;
    size_t files;
    uint64_t bytes_in;
    double seconds;
};

static const char *kind_name(int kind)
{
    return kind == JOB_KINDS ? "day leaf" : job_kind_name((enum job_kind)kind);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_job(struct poison *p, const struct job_bench *bench, struct req *r,
                    const struct task *j, struct taken *all)
{
    struct mem_budget *memory = bench->memory;
    struct taken *to = &all[j->kind == JOB_FOLD && j->hours > 1 ? JOB_KINDS : (int)j->kind];
    struct job_report report;
    malloc_trim(0);  // what others freed would hide what this one takes
    forget_peak();
    size_t before = status_bytes("VmRSS:");
    double begun = cpu_seconds();
    assert_ok(job_run(bench, r, j, &report, e));
    size_t peak = status_bytes("VmHWM:") - before;
    to->jobs++;
    to->peak = MAX(to->peak, peak);
    to->files += report.files;
    to->bytes_in = MAX(to->bytes_in, report.bytes_in);
    to->seconds = MAX(to->seconds, cpu_seconds() - begun);
    p->report = report;
    p->files += report.files;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // What compression and the allocator take besides does not shrink with the budget.
    size_t fixed = p->memory < (size_t)512 << 20 ? (size_t)32 << 20 : 0;
    if (peak > p->memory + p->memory / 10 + fixed)
        fail_msg("%s took %zu MB of %zu MB", kind_name((int)(to - all)), peak >> 20,
                 p->memory >> 20);
#endif
    assert_int_equal(memory->used, 0);
}

// Plans and jobs until nothing is due.
static void compact(struct poison *p, struct manifests *ms, const char *scratch,
                    const struct plan_settings *settings, struct taken *all)
{
    for (bool more = true; more;) {
        struct req r;
        struct snapshot snap;
        struct plan plan;
        struct mem_budget memory;
        req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
        mem_budget_init(&memory, "worker", NULL, p->memory);
        assert_ok(snapshot_take(ms, &r, &r.arena, TENANT, &snap, e));
        struct plan_state state = {.segments = snap.segments,
                                   .segment_count = snap.segment_count,
                                   .counts = counts,
                                   .arg = snap.manifest,
                                   .now_ns = clock_wall_ns()};
        state.blocks = manifest_blocks(snap.manifest, &state.block_count);
        assert_ok(plan_make(&r.arena, &state, settings, &plan, e));
        const struct job_bench bench = {.manifests = ms,
                                        .store = p->store,
                                        .memory = &memory,
                                        .scratch = scratch,
                                        .tenant = TENANT,
                                        .begun_ns = clock_wall_ns(),
                                        .wall_ns = clock_wall_ns};
        // The first of each plan: what it makes may be what the others are made from.
        if (plan.n) run_job(p, &bench, &r, &plan.jobs[0], all);
        more = plan.n > 0;
        snapshot_release(&snap);
        req_release(&r);
    }
}

static void add_segments(struct poison *p, int64_t hour, size_t n)
{
    p->hour = hour;
    for (size_t i = 0; i < n; i++)
        write_segment(p, p->cut++);
}

// Hours, late rows of one of them, a second day; in the end leaves of days.
static void every_kind_of_job(struct poison *p, struct manifests *ms, const char *scratch,
                              struct taken *all)
{
    struct plan_settings settings = {0};
    int64_t day = p->hour;
    add_segments(p, day, p->segments);
    compact(p, ms, scratch, &settings, all);
    assert_int_equal(all[JOB_LEAF].jobs, 1);
    add_segments(p, day, 1);
    compact(p, ms, scratch, &settings, all);
    add_segments(p, day + 5, 2);
    compact(p, ms, scratch, &settings, all);
    add_segments(p, day + 24, 1);
    compact(p, ms, scratch, &settings, all);
    settings.day_leaf_bytes = UINT64_MAX;
    compact(p, ms, scratch, &settings, all);
    for (int k = 0; k < KINDS; k++) {
        if (k == JOB_RETIRE) continue;
        print_message("%s: %zu jobs, at most %zu MB of %zu MB, %zu files, %" PRIu64
                      " MB in, %.1f s\n",
                      kind_name(k), all[k].jobs, all[k].peak >> 20, p->memory >> 20, all[k].files,
                      all[k].bytes_in >> 20, all[k].seconds);
        assert_true(all[k].jobs > 0);
    }
}

static void jobs_of_very_many_stacks_stay_within_their_memory(void **state)
{
    (void)state;
    const char *nightly = getenv("FLAMETREE_NIGHTLY");
    bool full = nightly && *nightly == '1';
    struct poison p = {.stacks = full ? 1000000 : 40000,
                       .segments = full ? 16 : 24,
                       .rows = 20,
                       .memory = (size_t)(full ? 512 : 24) << 20,
                       .hour = INT64_C(28) * 24 * 714};
    struct taken all[KINDS] = {0};
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    char scratch[DIR_PATH_MAX];
    err fault = {0};
    dir_new(dir);
    dir_path(scratch, dir, "scratch");
    const struct store_local_options o = {.dir = dir_path(path, dir, "store"), .no_uring = true};
    p.store = store_open_local(&o, &fault);
    assert_non_null(p.store);
    struct manifests *ms = manifests_open(p.store, NULL, NULL, &fault);
    assert_non_null(ms);
    every_kind_of_job(&p, ms, scratch, all);
    assert_true(full || p.files > 0);  // not all at once
    manifests_close(ms);
    store_close(p.store);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_of_very_many_stacks_stay_within_their_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
