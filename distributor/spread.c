// SPDX-License-Identifier: Apache-2.0
//
// spread.c - the averages by key; each decays when it is used next.
#include "distributor/spread.h"

#include "base/hash.h"
#include "base/mem.h"
#include "distributor/metrics.h"
#include "sys/clock.h"

#define PROBES  8
#define HALF_NS (UINT64_C(40) * NS_PER_S)  // a byte counts half after this time
#define LN_2    0.6931471805599453
#define MOST    1000000

struct spread_entry {
    uint64_t key;  // 0 = free
    double bytes;  // decaying
    uint64_t at_mono_ns;
    uint64_t low_mono_ns;  // since then fewer would do; 0: they would not
    uint32_t low;          // how many, at the most of that time
    uint32_t n;
};

void spread_init(struct spread *s)
{
    *s = (struct spread){0};
    lock_init(&s->lock, LOCK_SPREAD);
    s->entries = mem_must((SPREAD_KEYS + 1) * sizeof *s->entries);
}

void spread_release(struct spread *s)
{
    if (!s->entries) return;
    mem_must_free(s->entries);
    s->entries = NULL;
    lock_release(&s->lock);
}

uint64_t spread_key(str tenant, str service)
{
    // | 1: key 0 marks a free entry.
    return hash_table_and(hash_table_str(tenant), service.n ? hash_table_str(service) : 0) | 1;
}

uint64_t spread_series_key(uint64_t service_key, uint64_t labels_hash)
{
    return hash_table_and(service_key, labels_hash) | 1;
}

uint64_t spread_even_key(uint64_t key)
{
    return hash_table_and(key, SPREAD_PIECES) | 1;
}

uint64_t spread_turn(struct spread *s)
{
    lock_take(&s->lock);
    uint64_t turn = s->turns++;
    lock_give(&s->lock);
    return turn;
}

// 2^-x: whole halvings, then the series of e^-y up to y = ln 2, which is right to a thousandth.
static void decay(struct spread_entry *x, uint64_t mono_ns)
{
    if (mono_ns <= x->at_mono_ns) return;
    uint64_t passed = mono_ns - x->at_mono_ns;
    for (int i = 0; passed >= HALF_NS && i < 64; i++) {
        x->bytes /= 2;
        passed -= HALF_NS;
    }
    double y = LN_2 * (double)MIN(passed, HALF_NS) / (double)HALF_NS;
    x->bytes *= 1 - y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4)));
    x->at_mono_ns = mono_ns;
}

// A steady rate r decays to a sum of r * half-life / ln 2.
static double rate_of(const struct spread_entry *x)
{
    return x->bytes * LN_2 / ((double)HALF_NS / (double)NS_PER_S);
}

static uint32_t needed(double rate, uint64_t per)
{
    double n = 1 + rate / (double)MAX(per, UINT64_C(1));
    assert(rate >= 0);
    return n < MOST ? (uint32_t)n : MOST;
}

static void set(struct spread *s, struct spread_entry *x, uint32_t n)
{
    assert(n >= 1 && x->n >= 1);
    s->wide += (n > 1) - (x->n > 1);
    s->changes++;
    x->n = n;
    metric_add(&distributor_spread_changes, 1);
    metric_set(&distributor_spread_wide, (int64_t)s->wide);
}

static void weigh(struct spread *s, struct spread_entry *x, uint64_t per, uint64_t mono_ns)
{
    assert(lock_is_mine(&s->lock) && x->key);
    decay(x, mono_ns);
    double rate = rate_of(x);
    uint32_t now = needed(rate, per);
    uint32_t calm = needed(rate * 1.5, per);
    if (now > x->n) set(s, x, now);
    // Half as much again, so that a rate at the border between two numbers does not move it.
    if (calm >= x->n) {
        x->low_mono_ns = 0;
        return;
    }
    // Fewer would do. That has to last, and the most that was needed meanwhile is what remains.
    x->low = x->low_mono_ns ? MAX(x->low, calm) : calm;
    if (!x->low_mono_ns) x->low_mono_ns = MAX(mono_ns, UINT64_C(1));
    if (mono_ns - x->low_mono_ns < SPREAD_CALM_NS) return;
    set(s, x, x->low);
    x->low_mono_ns = 0;
}

static struct spread_entry *entry_of(struct spread *s, uint64_t key, size_t i)
{
    // / 2: the lowest bit of a key is always 1 (spread_key).
    return &s->entries[(key / 2 + i) % SPREAD_KEYS];
}

static struct spread_entry *find(struct spread *s, uint64_t key)
{
    assert(key);  // 0 would find a free place
    for (size_t i = 0; i < PROBES; i++) {
        struct spread_entry *x = entry_of(s, key, i);
        if (x->key == key) return x;
    }
    return NULL;
}

// NULL: keys that need more than one have all its places. These are weighed here, because a key
// under which nothing is pushed any more would keep its place for ever.
static struct spread_entry *make(struct spread *s, uint64_t key, uint64_t per, uint64_t mono_ns)
{
    struct spread_entry *least = NULL;
    for (size_t i = 0; i < PROBES; i++) {
        struct spread_entry *x = entry_of(s, key, i);
        if (x->key) weigh(s, x, per, mono_ns);
        // Of the others the one with fewest bytes, and of equal ones a free place.
        if (x->key && x->n > 1) continue;
        if (!least || x->bytes < least->bytes || (x->bytes <= least->bytes && !x->key)) least = x;
    }
    if (least) *least = (struct spread_entry){.key = key, .at_mono_ns = mono_ns, .n = 1};
    return least;
}

static struct spread_entry *all_of(const struct spread *s)
{
    return &s->entries[SPREAD_KEYS];
}

void spread_note_all(struct spread *s, uint64_t bytes, uint64_t mono_ns)
{
    lock_take(&s->lock);
    decay(all_of(s), mono_ns);
    all_of(s)->bytes += (double)bytes;
    lock_give(&s->lock);
}

uint64_t spread_all(struct spread *s, uint64_t mono_ns)
{
    lock_take(&s->lock);
    decay(all_of(s), mono_ns);
    double rate = rate_of(all_of(s));
    lock_give(&s->lock);
    return rate < 1e18 ? (uint64_t)rate : UINT64_C(1000000000000000000);
}

uint64_t spread_even(struct spread *s, size_t ingesters, uint64_t per, uint64_t mono_ns)
{
    uint64_t piece = spread_all(s, mono_ns) / MAX(ingesters, (size_t)1) / SPREAD_PIECES;
    return MAX(MIN(piece, per), MAX(per / SPREAD_FINEST, UINT64_C(1)));
}

void spread_note(struct spread *s, uint64_t key, uint64_t bytes, uint64_t per, uint64_t mono_ns)
{
    lock_take(&s->lock);
    struct spread_entry *x = find(s, key);
    if (!x) x = make(s, key, per, mono_ns);
    if (x) {
        decay(x, mono_ns);
        x->bytes += (double)bytes;
        weigh(s, x, per, mono_ns);
    }
    lock_give(&s->lock);
}

uint32_t spread_need(struct spread *s, uint64_t key, uint64_t per, uint64_t mono_ns)
{
    lock_take(&s->lock);
    struct spread_entry *x = find(s, key);
    if (x) weigh(s, x, per, mono_ns);
    uint32_t n = x ? x->n : 1;
    lock_give(&s->lock);
    return n;
}
