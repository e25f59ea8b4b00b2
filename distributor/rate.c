// SPDX-License-Identifier: Apache-2.0
//
// rate.c - the buckets by tenant; each is filled when it is asked.
#include "distributor/rate.h"

#include "base/hash.h"
#include "base/mem.h"
#include "sys/clock.h"

// Tenants share a bucket only if their hashes agree in 64 bits. A tenant without a place takes that
// of a tenant whose bucket is full, which loses nothing, because a new bucket is full too.
#define PROBES 8

struct rate_bucket {
    uint64_t tenant;  // hash; 0 = free
    double tokens;
    double burst;
    double rate;
    uint64_t filled_mono_ns;
};

void rates_init(struct rates *r)
{
    lock_init(&r->lock, LOCK_RATES);
    r->buckets = mem_must(RATE_TENANTS_MAX * sizeof *r->buckets);
}

void rates_release(struct rates *r)
{
    if (!r->buckets) return;
    mem_must_free(r->buckets);
    r->buckets = NULL;
    lock_release(&r->lock);
}

static void fill(struct rate_bucket *b, uint64_t mono_ns)
{
    if (mono_ns <= b->filled_mono_ns) return;
    assert(b->rate >= 0);
    double seconds = (double)(mono_ns - b->filled_mono_ns) / (double)NS_PER_S;
    b->tokens += seconds * b->rate;
    if (b->tokens > b->burst) b->tokens = b->burst;
    b->filled_mono_ns = mono_ns;
}

static struct rate_bucket *bucket_of(struct rates *r, str tenant, uint64_t mono_ns)
{
    uint64_t hash = hash_table_str(tenant) | 1;
    struct rate_bucket *place = NULL;
    for (size_t i = 0; i < PROBES; i++) {
        struct rate_bucket *b = &r->buckets[(hash + i) % RATE_TENANTS_MAX];
        if (b->tenant == hash) return b;
        fill(b, mono_ns);
        bool idle = b->tenant == 0 || b->tokens >= b->burst;
        if (!place && idle) place = b;
    }
    // All neighbours are in use: one loses its bucket, and may push a burst too much.
    if (!place) place = &r->buckets[hash % RATE_TENANTS_MAX];
    *place = (struct rate_bucket){.tenant = hash, .filled_mono_ns = mono_ns};
    return place;
}

bool rates_take(struct rates *r, str tenant, double rate, double burst, size_t distributors,
                uint64_t n, uint64_t mono_ns)
{
    if (rate <= 0) return true;
    assert(distributors > 0);
    lock_take(&r->lock);
    struct rate_bucket *b = bucket_of(r, tenant, mono_ns);
    if (b->rate <= 0) b->tokens = burst;  // a new bucket is full
    // Filled at the old rate up to now; from now on the rate that is configured applies.
    fill(b, mono_ns);
    b->rate = rate / (double)distributors;
    b->burst = burst;
    if (b->tokens > burst) b->tokens = burst;
    bool enough = (double)n <= b->tokens;
    if (enough) b->tokens -= (double)n;
    lock_give(&r->lock);
    return enough;
}
