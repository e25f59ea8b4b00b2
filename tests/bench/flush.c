// SPDX-License-Identifier: Apache-2.0
//
// bench.flush TENANTS SERVICES [TIMES] - what it costs to make segments of one cut of many small
// services, without a store: on one core, nothing else going on.
//
// Each service has one profile of two types that share their vector, with 5 of the service's 10
// stacks, which are drawn from a made-up program of 6,000 functions. Tab-separated: segments, rows,
// CPU microseconds and bytes for each service. TIMES over again, for a profiler.
#include "base/hash.h"
#include "codec/varint.h"
#include "ingester/head/head.h"
#include "ingester/head/head_segment.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FUNCTIONS     6000
#define STACKS        10
#define STACKS_PUSHED 5
#define HOUR          INT64_C(488000)
#define CALLEES       6
#define LINES         3

static struct head *head;
static struct cut cut;
static uint64_t flushed_bytes;
static uint64_t seed = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed * 0x2545f4914f6cdd1du >> 33) % n;
}

static void must(bool ok, const err *e)
{
    if (ok) return;
    fprintf(stderr, "bench.flush: %s\n", e->msg);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

// A frame of the program; its row in the table.
static uint32_t frame_of(struct symbols *s, uint64_t function, uint64_t line)
{
    char name[96];
    char file[64];
    err e = {0};
    snprintf(name, sizeof name, "example.org/shop/pkg%03u.(*Cursor%u).WriteIndex%u",
             (unsigned)(function / 50), (unsigned)(function % 13), (unsigned)function);
    snprintf(file, sizeof file, "/src/shop/pkg%03u/file%u.go", (unsigned)(function / 50),
             (unsigned)(function % 16));
    uint32_t n = symbols_string(s, str_of(name), &e);
    struct symbol_function f = {n, n, symbols_string(s, str_of(file), &e), 10};
    struct symbol_mapping m = {.start = 0x400000,
                               .limit = 0x900000,
                               .filename = symbols_string(s, S("/app/server"), &e)};
    struct symbol_frame one = {.address = 0x400000 + 32 * (LINES * function + line),
                               .line = (int64_t)(10 + 7 * line),
                               .function = symbols_function_at(s, &f, &e),
                               .mapping = symbols_mapping_at(s, &m, &e)};
    uint32_t row = symbols_frame_at(s, &one, &e);
    must(row != MAP_NONE, &e);
    return row;
}

// A stack of 6 to 50 frames: callees of a function are few, so stacks meet again.
static uint32_t draw_stack(struct symbols *s)
{
    uint32_t stack = 0;
    uint64_t function = random_below(8);
    err e = {0};
    for (int depth = 0; depth < 50 && (depth < 6 || random_below(1000) >= 45); depth++) {
        stack = symbols_stack(s, stack, frame_of(s, function, (uint64_t)depth % LINES), &e);
        must(stack != MAP_NONE, &e);
        uint64_t word[2] = {function, random_below(CALLEES)};
        function = hash_table_bytes(word, sizeof word) % FUNCTIONS;
    }
    return stack;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

// The vector of some of the stacks; *total is their sum.
static size_t put_vector(uint32_t *stacks, uint8_t *out, int64_t *total)
{
    uint8_t *at = out;
    uint32_t last = 0;
    size_t n = 0;
    qsort(stacks, STACKS_PUSHED, sizeof *stacks, by_number);
    for (size_t i = 0; i < STACKS_PUSHED; i++)
        n += i == 0 || stacks[i] != stacks[i - 1];
    at += varint_put(at, n);
    at += varint_put(at, 1);
    *total = 0;
    for (size_t i = 0; i < STACKS_PUSHED; i++) {
        if (i > 0 && stacks[i] == last) continue;
        at += varint_put(at, stacks[i] - last);
        at += varint_put(at, zigzag((int64_t)(i + 1)));
        last = stacks[i];
        *total += (int64_t)(i + 1);
    }
    return (size_t)(at - out);
}

static void push(unsigned tenant, unsigned service)
{
    char t[32];
    char name[32];
    char pod[32];
    uint8_t vector[256];
    uint32_t stacks[STACKS];
    struct symbols s;
    struct arena a;
    struct staged *staged = NULL;
    err e = {0};
    snprintf(t, sizeof t, "tenant-%u", tenant);
    snprintf(name, sizeof name, "service-%u-%u", tenant, service);
    snprintf(pod, sizeof pod, "%s-%08x-0", name, tenant * 7919 + service);
    must(symbols_init(&s, NULL, &e), &e);
    for (size_t i = 0; i < STACKS; i++)
        stacks[i] = draw_stack(&s);
    label one[] = {{S(LABEL_PROFILE_TYPE), S("process_cpu:cpu:nanoseconds:cpu:nanoseconds")},
                   {S("namespace"), str_of(t)},
                   {S("node"), S("node-3")},
                   {S("pod"), str_of(pod)},
                   {S("service_name"), str_of(name)},
                   {S("version"), S("v1.42.0")},
                   {S("zone"), S("zone-a")}};
    label two[COUNT(one)];
    memcpy(two, one, sizeof one);
    two[0].value = S("process_cpu:samples:count:cpu:nanoseconds");
    labels series[] = {{one, COUNT(one)}, {two, COUNT(two)}};
    uint64_t fingerprints[] = {labels_fingerprint(series[0]), labels_fingerprint(series[1])};
    struct record v[2] = {0};
    int64_t total = 0;
    size_t n = put_vector(stacks, vector, &total);
    for (uint32_t i = 0; i < 2; i++) {
        v[i] = (struct record){.series = i,
                               .time_ns = slot_start(HOUR, SLOT_HOUR) + 1 +
                                          (int64_t)random_below(3000) * NS_PER_S,
                               .duration_ns = 10 * NS_PER_S,
                               .period = 10000000,
                               .sibling = i ? 0 : RECORD_NO_SIBLING,
                               .factor = i ? 10000000 : 1,
                               .total = total * (i ? 10000000 : 1),
                               .vector = i ? (str){0} : str_make((char *)vector, n)};
        uint64_t id[2] = {random_below(UINT64_MAX >> 32), random_below(UINT64_MAX >> 32)};
        memcpy(v[i].id.b, id, sizeof id);
        v[i].id.b[6] = (uint8_t)(0x80 | (v[i].id.b[6] & 0xf));
        v[i].id.b[8] = (uint8_t)(0x80 | (v[i].id.b[8] & 0x3f));
    }
    struct batch b = {.service = str_of(name),
                      .series = series,
                      .fingerprints = fingerprints,
                      .records = v,
                      .series_count = 2,
                      .record_count = 2,
                      .symbols = s.t};
    arena_init(&a, NULL, SIZE_MAX);
    must(head_stage(head, &a, str_of(t), &b, NULL, &staged, &e), &e);
    head_publish(staged, &cut);
    arena_release(&a);
    symbols_release(&s);
}

static bool forget(void *arg, str bytes, err *e)
{
    (void)arg;
    (void)e;
    flushed_bytes += bytes.n;
    return true;
}

// Makes all segments of the cut, which stays.
static void flush(uint64_t *segments, uint64_t *rows)
{
    struct head_piece *pieces = NULL;
    struct arena a;
    size_t n = 0;
    err e = {0};
    arena_init(&a, NULL, SIZE_MAX);
    must(head_pieces(head, &cut, &a, &pieces, &n, &e), &e);
    for (size_t i = 0; i < n; i++) {
        struct req r;
        struct block_written written;
        struct head_segment ask = {.cut = &cut, .piece = pieces[i], .sink = forget};
        req_init(&r, RANK_DUTY, NULL, SIZE_MAX, 0);
        must(head_segment(head, &r, &ask, &written, &e), &e);
        *rows += written.rows;
        req_release(&r);
    }
    *segments += n;
    arena_release(&a);
}

int main(int argc, char **argv)
{
    unsigned tenants = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    unsigned services = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
    unsigned times = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    head = head_new(NULL, 0);
    cut.number = 1;
    lock_init(&cut.lock, LOCK_CUT);
    for (unsigned t = 0; t < tenants; t++)
        for (unsigned s = 0; s < services; s++)
            push(t, s);
    uint64_t segments = 0;
    uint64_t rows = 0;
    uint64_t began = cpu_ns();
    for (unsigned i = 0; i < times; i++)
        flush(&segments, &rows);
    double per = (double)tenants * services * times;
    printf("%llu\t%llu\t%.2f\t%.0f\n", (unsigned long long)segments, (unsigned long long)rows,
           (double)(cpu_ns() - began) / 1e3 / per, (double)flushed_bytes / per);
    head_free(head);
    lock_release(&cut.lock);
    return 0;
}
