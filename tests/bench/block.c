// SPDX-License-Identifier: Apache-2.0
//
// bench.block [--level N] SERIES ROWS STACKS OF FILE... - how large a block of an hour is and what
// its parts cost, and how fast vectors are added, on one core.
//
// SERIES series push ROWS profiles each, of STACKS stacks out of a service's OF, which are drawn
// from those of the files (pprof), hot ones more often and with more samples; two types that share
// their vectors, samples and nanoseconds. Tab-separated: a line per part (name, stored bytes, raw
// bytes, stored per row, stored per stack and value), then name, entries per second of reading
// and adding vectors, and bytes per second of writing it all.
#include "base/hash.h"
#include "block/order.h"
#include "block/reader.h"
#include "block/writer.h"
#include "codec/compress.h"
#include "codec/varint.h"
#include "intake/pipeline.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BYTES_MAX ((size_t)1 << 30)
#define PERIOD    10000000
#define HOUR      INT64_C(488000)

static struct arena arena;
static uint64_t seed = 88172645463325252u;

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1du;
}

static double random_unit(void)
{
    return (double)(random_next() >> 11) / 9007199254740992.0;
}

static void must(bool ok, const err *e)
{
    if (ok) return;
    fprintf(stderr, "bench.block: %s\n", e->msg);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

// ---- what is measured
struct shape {
    uint32_t series;
    uint32_t rows;
    uint32_t stacks;
    uint32_t of;
};

struct fleet {
    struct symbol_table symbols;
    uint32_t *stacks;  // of the service, hottest first
    uint32_t count;
};

static void load_file(const char *path, struct symbols *table, bool **leaf, size_t *cap)
{
    struct buf raw;
    struct buf plain;
    struct decode_options o = {0};
    struct decoded d = {0};
    struct stack_rows rows;
    err e = {0};
    buf_init(&raw, NULL, BYTES_MAX);
    buf_init(&plain, NULL, BYTES_MAX);
    must(file_read(path, &raw, &e), &e);
    str bytes = buf_view(&raw);
    if (compress_is_gzip(bytes)) {
        must(compress_gunzip(bytes, &plain, &e), &e);
        bytes = buf_view(&plain);
    }
    must(decode_pprof(&arena, bytes, &o, &d, NULL, &e), &e);
    must(stack_rows_init(&rows, &arena, d.profiles, table, NULL, &e), &e);
    for (uint32_t i = 0; i < d.profiles->sample_count; i++) {
        uint32_t row = stack_rows_row(&rows, i, &e);
        must(row != MAP_NONE && mem_grow(NULL, leaf, cap, (size_t)row + 1, 1, &e), &e);
        (*leaf)[row] = row != 0;
    }
    buf_release(&raw);
    buf_release(&plain);
}

static void load(struct fleet *f, const struct shape *shape, char **files, int n)
{
    struct symbols table;
    bool *leaf = NULL;
    size_t cap = 0;
    err e = {0};
    must(symbols_init(&table, NULL, &e), &e);
    for (int i = 0; i < n; i++)
        load_file(files[i], &table, &leaf, &cap);
    uint32_t *all = ARENA_ARRAY(&arena, uint32_t, table.t.stack_count);
    uint32_t count = 0;
    for (uint32_t i = 1; i < cap && i < table.t.stack_count; i++) {
        if (leaf[i]) all[count++] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)(random_next() % i);
        uint32_t other = all[k];
        all[k] = all[i - 1];
        all[i - 1] = other;
    }
    f->symbols = table.t;
    f->stacks = all;
    f->count = MIN(count, shape->of);
}

// A profile: distinct stacks, hot ones more often and with more samples.
static size_t pick(const struct fleet *f, uint32_t count, struct vector_entry *v)
{
    static bool taken[1 << 20];
    count = MIN(count, f->count);
    uint32_t *places = ARENA_ARRAY(&arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        double u = random_unit();
        uint32_t at = (uint32_t)(u * u * u * f->count);
        while (taken[at])
            at = (at + 1) % f->count;
        taken[at] = true;
        places[i] = at;
        double heat = 1 - (double)at / f->count;
        double samples = -log(1 - random_unit()) * 6 * heat * heat;
        v[i] = (struct vector_entry){f->stacks[at], 1 + (int64_t)samples};
    }
    for (uint32_t i = 0; i < count; i++)
        taken[places[i]] = false;
    return count;
}

// ---- writing it
struct hour {
    struct fleet fleet;
    struct shape shape;
    struct symbol_table table;
    uint32_t *map;
    struct vector_entry **rows;  // by series, time: numbers of the table
    size_t *sizes;
    int64_t *totals;
    int64_t *times;
};

static int entry_order(const void *a, const void *b)
{
    const struct vector_entry *x = a;
    const struct vector_entry *y = b;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void make(struct hour *h)
{
    err e = {0};
    size_t n = (size_t)h->shape.series * h->shape.rows;
    bool *used = ARENA_ARRAY(&arena, bool, h->fleet.symbols.stack_count);
    h->rows = ARENA_ARRAY(&arena, struct vector_entry *, n);
    h->sizes = ARENA_ARRAY(&arena, size_t, n);
    h->totals = ARENA_ARRAY(&arena, int64_t, n);
    h->times = ARENA_ARRAY(&arena, int64_t, n);
    for (size_t i = 0; i < n; i++) {
        size_t series = i / h->shape.rows;
        int64_t step = SLOT_HOUR / h->shape.rows;
        h->rows[i] = ARENA_ARRAY(&arena, struct vector_entry, h->shape.stacks);
        h->sizes[i] = pick(&h->fleet, h->shape.stacks, h->rows[i]);
        h->times[i] = HOUR * SLOT_HOUR + (int64_t)(i % h->shape.rows) * step +
                      (int64_t)(1 + series * 7919 % (size_t)(step / 1000000 - 1)) * 1000000;
        for (size_t k = 0; k < h->sizes[i]; k++)
            used[h->rows[i][k].stack] = true;
    }
    h->map = ARENA_ARRAY(&arena, uint32_t, h->fleet.symbols.stack_count);
    must(block_order(&arena, &h->fleet.symbols, used, &h->table, h->map, &e), &e);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < h->sizes[i]; k++) {
            h->rows[i][k].stack = h->map[h->rows[i][k].stack];
            h->totals[i] += h->rows[i][k].value;
        }
        qsort(h->rows[i], h->sizes[i], sizeof *h->rows[i], entry_order);
    }
}

static bool take(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

// The sum of all rows in (from, to].
static void put_node(struct block_writer *w, const struct hour *h, int64_t slot, int64_t factor)
{
    err e = {0};
    struct buf b;
    int64_t *sums = calloc(h->table.stack_count, sizeof *sums);
    struct block_node node = {.slot = slot, .width = SLOT_FIVE, .first_ns = INT64_MAX};
    buf_init(&b, NULL, BYTES_MAX);
    for (size_t i = 0; i < (size_t)h->shape.series * h->shape.rows; i++) {
        if (slot_of(h->times[i], SLOT_FIVE) != slot) continue;
        for (size_t k = 0; k < h->sizes[i]; k++)
            sums[h->rows[i][k].stack] += h->rows[i][k].value * factor;
        node.profiles++;
        node.total += h->totals[i] * factor;
        node.first_ns = MIN(node.first_ns, h->times[i]);
        node.last_ns = MAX(node.last_ns, h->times[i]);
    }
    columns_encode_sums(sums, h->table.stack_count, &b);
    if (node.profiles) must(block_node(w, &node, buf_view(&b), &e), &e);
    buf_release(&b);
    free(sums);
}

static uint64_t id_random(uint64_t profile, uint64_t part)
{
    uint64_t words[] = {profile, part};
    return hash_bytes(words, sizeof words);
}

static void put_series(struct block_writer *w, const struct hour *h, str type, uint32_t series,
                       int64_t factor)
{
    err e = {0};
    label ls[] = {{S(LABEL_PROFILE_TYPE), type},
                  {S("namespace"), S("ns-0")},
                  {S("node"), arena_printf(&arena, "node-%04u", series)},
                  {S("pod"), arena_printf(&arena, "demo-%08x-%u", series * 2654435761u, series)},
                  {S("service_name"), S("demo")},
                  {S("version"), S("v1.42.0")},
                  {S("zone"), arena_printf(&arena, "zone-%u", series % 3)}};
    must(block_key(w, BLOCK_SERIES, type, (labels){ls, COUNT(ls)}, &e), &e);
    uint64_t type_bits = hash_str(type);  // siblings' ids differ by what depends on the type alone
    for (uint32_t r = 0; r < h->shape.rows; r++) {
        size_t i = (size_t)series * h->shape.rows + r;
        uint64_t ms = (uint64_t)(h->times[i] / 1000000);
        struct block_row row = {.time_ns = h->times[i],
                                .id = uuid_profile(ms, id_random(i, 1) ^ type_bits,
                                                   id_random(i, 2) ^ type_bits),
                                .total = h->totals[i] * factor,
                                .vector = i,
                                .factor = factor,
                                .duration_ns = SLOT_HOUR / h->shape.rows,
                                .period = PERIOD};
        must(block_row(w, &row, &e), &e);
    }
}

static void write_all(const struct hour *h, int level, struct buf *out)
{
    static const struct {
        const char *name;
        int64_t factor;
    } types[] = {{"process_cpu:cpu:nanoseconds:cpu:nanoseconds", PERIOD},
                 {"process_cpu:samples:count:cpu:nanoseconds", 1}};
    err e = {0};
    struct block_writer_options o = {
        .about = {.kind = BLOCK_RAW, .from_hour = HOUR, .hours = 1, .pack_hi = UINT32_MAX},
        .sink = take,
        .arg = out,
        .zstd_level = level};
    struct block_writer *w = block_begin(&o, &e);
    must(w && block_service(w, S("demo"), &h->table, &e), &e);
    for (size_t i = 0; i < (size_t)h->shape.series * h->shape.rows; i++) {
        struct buf b;
        uint64_t number = 0;
        buf_init(&b, NULL, BYTES_MAX);
        columns_encode(h->rows[i], h->sizes[i], &b);
        must(block_vector(w, buf_view(&b), &number, &e), &e);
        buf_release(&b);
    }
    for (size_t t = 0; t < COUNT(types); t++) {
        must(block_key(w, BLOCK_ALL, str_of(types[t].name), (labels){0}, &e), &e);
        for (int64_t slot = HOUR * 12; slot < HOUR * 12 + 12; slot++)
            put_node(w, h, slot, types[t].factor);
        for (uint32_t s = 0; s < h->shape.series; s++)
            put_series(w, h, str_of(types[t].name), s, types[t].factor);
    }
    struct block_written written = {0};
    must(block_finish(w, &written, &e), &e);
}

// ---- what it costs
struct cost {
    const struct shape *shape;
    uint64_t stored;
    uint64_t raw;
};

static void print_cost(struct cost *all, const char *name, uint64_t stored, uint64_t raw)
{
    double rows = 2.0 * all->shape->series * all->shape->rows;
    printf("%s\t%llu\t%llu\t%.2f\t%.3f\n", name, (unsigned long long)stored,
           (unsigned long long)raw, (double)stored / rows,
           (double)stored / (rows * all->shape->stacks));
    all->stored += stored;
    all->raw += raw;
}

static void print_frames(struct cost *all, const char *name, const struct block_frames *f)
{
    uint64_t stored = 0;
    uint64_t raw = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        stored += f->v[i].extent.stored;
        raw += f->v[i].extent.raw;
    }
    print_cost(all, name, stored, raw);
}

static str section(const struct buf *b, const struct block_extent *x)
{
    err e = {0};
    str contents = {0};
    must(block_section(&arena, x, str_slice(buf_view(b), x->at, x->at + x->stored), "section",
                       &contents, &e),
         &e);
    return contents;
}

// Entries per second of adding all vectors of frames again and again.
static void print_speed(const char *name, const struct buf *b, const struct block_frames *f,
                        uint32_t stacks)
{
    err e = {0};
    int64_t *sums = ARENA_ARRAY(&arena, int64_t, stacks);
    struct block_vectors *v = ARENA_ARRAY(&arena, struct block_vectors, f->n);
    uint64_t entries = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        must(block_vectors_parse(&arena, section(b, &f->v[i].extent), f->v[i].count, &v[i], &e),
             &e);
    }
    uint64_t began = cpu_ns();
    while (cpu_ns() - began < NS_PER_S) {
        for (uint32_t i = 0; i < f->n; i++) {
            for (uint32_t k = 0; k < v[i].n; k++) {
                uint64_t n = 0;
                str one = block_vector_at(&v[i], k);
                const uint8_t *at = (const uint8_t *)one.p;
                must(varint_get(&at, at + one.n, &n) && columns_add(one, 1, sums, stacks, &e), &e);
                entries += n;
            }
        }
        memset(sums, 0, stacks * sizeof *sums);
    }
    printf("%s\t%.0f\n", name, (double)entries * 1e9 / (double)(cpu_ns() - began));
}

// Entries per second of inflating frames and putting their vectors back to columns.
static void print_reading(const char *name, const struct buf *b, const struct block_frames *f,
                          uint64_t entries)
{
    err e = {0};
    uint64_t began = cpu_ns();
    uint64_t rounds = 0;
    for (; cpu_ns() - began < NS_PER_S / 2; rounds++) {
        struct arena a;
        arena_init(&a, NULL, BYTES_MAX);
        for (uint32_t i = 0; i < f->n; i++) {
            const struct block_extent *x = &f->v[i].extent;
            struct block_vectors v = {0};
            str contents = {0};
            must(block_section(&a, x, str_slice(buf_view(b), x->at, x->at + x->stored), "vectors",
                               &contents, &e) &&
                     block_vectors_parse(&a, contents, f->v[i].count, &v, &e),
                 &e);
        }
        arena_release(&a);
    }
    printf("%s\t%.0f\n", name, (double)(entries * rounds) * 1e9 / (double)(cpu_ns() - began));
}

// Stacks per second of inflating and parsing symbols.
static void print_symbols(const struct buf *b, const struct block_extent *x, uint32_t stacks)
{
    err e = {0};
    uint64_t began = cpu_ns();
    uint64_t rounds = 0;
    for (; cpu_ns() - began < NS_PER_S / 2; rounds++) {
        struct arena a;
        struct symbol_table t = {0};
        str contents = {0};
        arena_init(&a, NULL, BYTES_MAX);
        must(block_section(&a, x, str_slice(buf_view(b), x->at, x->at + x->stored), "symbols",
                           &contents, &e) &&
                 block_symbols_parse(&a, contents, &t, &e),
             &e);
        arena_release(&a);
    }
    printf("reading stacks\t%.0f\n", (double)(stacks * rounds) * 1e9 / (double)(cpu_ns() - began));
}

static void measure(const struct hour *h, const struct buf *b)
{
    err e = {0};
    struct block_extent x = {0};
    struct block_footer f = {0};
    struct block_index index = {0};
    struct cost all = {.shape = &h->shape};
    must(block_trailer(buf_view(b), b->n, &x, &e), &e);
    must(block_footer_parse(&arena, section(b, &x), b->n, &f, &e), &e);
    const struct block_service_ref *s = &f.services[0];
    must(block_index_parse(&arena, section(b, &s->index), s, &index, &e), &e);
    print_frames(&all, "vectors of rows", &index.vectors);
    print_frames(&all, "heads", &index.heads);
    print_frames(&all, "details", &index.details);
    print_frames(&all, "vectors of nodes", &index.nodes_at);
    print_cost(&all, "index", s->index.stored, s->index.raw);
    print_cost(&all, "symbols", s->symbols.stored, s->symbols.raw);
    print_cost(&all, "footer", x.stored + BLOCK_TRAILER, x.raw + BLOCK_TRAILER);
    print_cost(&all, "all", all.stored, all.raw);
    printf("# %u stacks, %u frames, %u functions, %u strings\n", h->table.stack_count,
           h->table.frame_count, h->table.function_count, h->table.string_count);
    print_symbols(b, &s->symbols, h->table.stack_count);
    uint64_t entries = 0;
    for (size_t i = 0; i < (size_t)h->shape.series * h->shape.rows; i++)
        entries += h->sizes[i];
    print_reading("reading vectors of rows", b, &index.vectors, entries);
    print_speed("adding vectors of rows", b, &index.vectors, h->table.stack_count);
    print_speed("adding vectors of nodes", b, &index.nodes_at, h->table.stack_count);
}

int main(int argc, char **argv)
{
    process_tune_malloc();  // as in the program
    uint64_t numbers[5] = {0};
    int at = 1;
    bool ok = true;
    if (argc > 3 && strcmp(argv[1], "--level") == 0) {
        ok = str_u64(str_of(argv[2]), &numbers[4]);
        at = 3;
    }
    for (int i = 0; i < 4; i++)
        ok = ok && at < argc && str_u64(str_of(argv[at++]), &numbers[i]);
    if (!ok || at >= argc) {
        fprintf(stderr, "usage: bench.block [--level N] SERIES ROWS STACKS OF FILE...\n");
        return 2;
    }
    struct hour h = {.shape = {(uint32_t)numbers[0], (uint32_t)numbers[1], (uint32_t)numbers[2],
                               (uint32_t)numbers[3]}};
    struct buf out;
    arena_init(&arena, NULL, (size_t)8 << 30);
    buf_init(&out, NULL, BYTES_MAX);
    load(&h.fleet, &h.shape, argv + at, argc - at);
    make(&h);
    uint64_t began = cpu_ns();
    write_all(&h, (int)numbers[4], &out);
    uint64_t took = cpu_ns() - began;
    measure(&h, &out);
    printf("writing\t%.0f\n", (double)out.n * 1e9 / (double)took);
    buf_release(&out);
    arena_release(&arena);
    return 0;
}
