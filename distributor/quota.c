// SPDX-License-Identifier: Apache-2.0
//
// quota.c - a window of time for each tenant or group, and the chance of the next profile.
#include "distributor/quota.h"

#include "base/hash.h"
#include "base/mem.h"

// Two keys share a window only if their hashes agree in 64 bits. A key without a place takes the
// oldest of PROBES windows, whose tenant may then pass a few profiles more than it should.
#define PROBES 8

struct quota_window {
    uint64_t key;  // 0 = free
    uint64_t begin_mono_ns;
    int64_t passed;
};

void quota_init(struct quota_samplers *s)
{
    lock_init(&s->lock, LOCK_RATES);
    s->windows = mem_must(QUOTA_WINDOWS * sizeof *s->windows);
}

void quota_release(struct quota_samplers *s)
{
    if (!s->windows) return;
    mem_must_free(s->windows);
    s->windows = NULL;
    lock_release(&s->lock);
}

static struct quota_window *window_of(struct quota_samplers *s, uint64_t key)
{
    struct quota_window *place = NULL;
    assert(lock_is_mine(&s->lock) && key);
    for (size_t i = 0; i < PROBES; i++) {
        struct quota_window *w = &s->windows[(key + i) % QUOTA_WINDOWS];
        if (w->key == key) return w;
        if (!place || w->begin_mono_ns < place->begin_mono_ns) place = w;
    }
    *place = (struct quota_window){.key = key};
    return place;
}

bool quota_sample(struct quota_samplers *s, str tenant, str group, const struct quota *q,
                  size_t distributors, double chance, uint64_t mono_ns)
{
    assert(chance >= 0 && chance < 1);
    if (q->sampled <= 0 || q->sample_period_ns <= 0) return false;
    if (chance >= (double)q->sampled / (double)MAX(distributors, (size_t)1)) return false;
    // By chance first: distributors do not know of each other's windows, so each lets its share
    // pass.
    uint64_t key = hash_table_and(hash_table_str(tenant), hash_table_str(group)) | 1;
    lock_take(&s->lock);
    struct quota_window *w = window_of(s, key);
    if (w->begin_mono_ns == 0 || mono_ns - w->begin_mono_ns >= (uint64_t)q->sample_period_ns) {
        w->begin_mono_ns = mono_ns;
        w->passed = 0;
    }
    bool pass = w->passed < q->sampled;
    if (pass) w->passed++;
    lock_give(&s->lock);
    return pass;
}
