// SPDX-License-Identifier: Apache-2.0
//
// Bytes as a pushed profile, through all steps to batches: what is taken encodes and decodes, and
// holds the sum of the samples that normalisation keeps, for every sample type.
#include "fuzz/bound.h"
#include "intake/normalise.h"
#include "intake/pipeline.h"

#include <stdlib.h>

#define NOW INT64_C(1700000000000000000)

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

static const struct limits limits = {
    .max_label_name_length = 100,
    .max_label_value_length = 100,
    .max_label_names_per_series = 30,
    .disable_label_sanitization = true,
    .max_profile_size_bytes = 1 << 20,
    .max_profile_symbol_value_length = 20,
};

// Totals of all types of one profile, added up modulo 2^64 as a plain reading gives them.
static uint64_t plain_total(struct arena *a, str bytes)
{
    struct decode_options o = {.inflated_max = 1 << 20};
    struct decoded d = {0};
    err e = {0};
    if (!decode_pprof(a, bytes, &o, &d, NULL, &e)) return 0;
    struct profile *p = d.profiles;
    uint64_t total = 0;
    CHECK(normalise_profile(a, p));
    for (size_t i = 0; i < (size_t)p->sample_count * p->type_count; i++)
        total += (uint64_t)p->values[i];
    return total;
}

static uint64_t total_of_batches(struct arena *a, struct send_buffer *o)
{
    uint64_t total = 0;
    for (size_t i = 0; i < o->batch_count; i++) {
        struct buf out;
        struct batch b;
        err e = {0};
        buf_init(&out, NULL, SIZE_MAX / 2);
        CHECK(batch_encode(&o->batches[i]->batch, a, &out, &e));
        CHECK(batch_decode(a, buf_view(&out), &b, &e));
        CHECK(b.record_count == o->batches[i]->batch.record_count);
        for (uint32_t k = 0; k < b.record_count; k++)
            total += (uint64_t)b.records[k].total;
        buf_release(&out);
    }
    return total;
}

// Whether normalisation takes a sample for its value and not for its stack: it may not see the
// stack of one that was merged.
static bool is_taken_by_value(struct arena *a, str bytes)
{
    struct decode_options o = {.inflated_max = 1 << 20};
    struct decoded d = {0};
    err e = {0};
    bool ok = decode_pprof(a, bytes, &o, &d, NULL, &e);
    if (!ok) return false;
    const struct profile *p = d.profiles;
    for (size_t i = 0; i < (size_t)p->sample_count * p->type_count; i++)
        ok &= p->values[i] >= 0;
    for (uint32_t i = 0; i < p->location_count; i++)
        ok &= p->locations[i].line_count > 0 || p->locations[i].address != 0;
    return ok;
}

static void run(str bytes, const struct limits *l, bool mends)
{
    struct arena a;
    arena_init(&a, NULL, (size_t)256 << 20);
    struct pipeline in;
    pipeline_init(&in, &a, l, NOW, bytes.n);
    const label ls[] = {{S("__name__"), S("cpu")}, {S("service_name"), S("s")}, {S("k"), S("")}};
    pipeline_pprof(&in, &(struct pipeline_item){bytes, S("id"), ls, COUNT(ls)});
    CHECK(in.received == 1);
    CHECK(!in.failed || in.first.code != ERR_OK);
    if (!in.exhausted && !in.failed && (!mends || is_taken_by_value(&a, bytes))) {
        send_buffer_seal(&in.out);
        CHECK(total_of_batches(&a, &in.out) == plain_total(&a, bytes));
    }
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Types, labels and groups, each of which is a record of its own.
FUZZ_BOUND_MS(1000);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct limits tight = limits;
    tight.max_profile_stacktrace_samples = 2;
    tight.max_profile_stacktrace_sample_labels = 1;
    run(str_make(data, size), &limits, false);
    run(str_make(data, size), &tight, true);
    return 0;
}
