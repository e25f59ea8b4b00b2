// SPDX-License-Identifier: Apache-2.0
//
// Metrics with several labels: a hash table of combinations of values, which only grows.
#include "base/hash.h"
#include "base/mem.h"
#include "sys/metric_int.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#define VALUE_MAX 150  // a tenant's name
#define FALLBACKS 256  // combinations of a first value and "other"
#define SLOTS     4096
#define FULL      (METRIC_SETS + FALLBACKS)

static_assert(FULL + 1 < SLOTS * 3 / 4, "a look-up ends at a free slot");

// One combination. Never freed; only sum and shown change.
struct metric_set {
    uint64_t hash;
    const char *values[METRIC_LABELS];  // in text
    _Atomic int64_t sum;                // or the bits of a double
    _Atomic bool shown;
    char text[METRIC_LABELS * (VALUE_MAX + 1)];
};

// A slot is stored (release) under the lock; a thread that loads it (acquire) sees the whole set.
struct metric_sets {
    _Atomic(struct metric_set *) slots[SLOTS];
    _Atomic uint32_t count;  // changes under the lock
};

bool metric_has_sets(const struct metric *m)
{
    return m->kind == METRIC_REAL || strchr(m->label, ',') != NULL;
}

static size_t label_count(const struct metric *m)
{
    size_t n = m->label[0] ? 1 : 0;
    for (const char *p = m->label; *p; p++)
        n += *p == ',';
    assert(n <= METRIC_LABELS);
    return n;
}

// NULL without memory: then nothing is counted.
static struct metric_sets *sets_of(struct metric *m)
{
    err e = {0};
    struct metric_sets *s = atomic_load_explicit(&m->sets, memory_order_acquire);
    if (s) return s;
    struct metric_sets *made = mem_alloc(NULL, sizeof *made, &e);
    if (!made) return NULL;
    if (atomic_compare_exchange_strong_explicit(&m->sets, &s, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    mem_free(NULL, made, sizeof *made);
    return s;
}

static bool has_nul(str s)
{
    return str_find(s, '\0') < s.n;
}

static uint64_t hash_of(const str *values, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = hash_table_and(h, hash_table_str(values[i]));
    return h;
}

static bool is(const struct metric_set *s, uint64_t hash, const str *values, size_t n)
{
    if (s->hash != hash) return false;
    for (size_t i = 0; i < n; i++) {
        if (!str_is(values[i], s->values[i])) return false;
    }
    return true;
}

// The set; or NULL, and *slot is the free slot for it. Ends, as there is always a free slot.
static struct metric_set *find(struct metric_sets *sets, uint64_t hash, const str *values, size_t n,
                               size_t *slot)
{
    assert(sets);
    for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        struct metric_set *s = atomic_load_explicit(&sets->slots[i], memory_order_acquire);
        *slot = i;
        if (!s || is(s, hash, values, n)) return s;
    }
}

static struct metric_set *make(uint64_t hash, const str *values, size_t n)
{
    err e = {0};
    struct metric_set *s = mem_alloc(NULL, sizeof *s, &e);
    if (!s) return NULL;
    assert(n <= METRIC_LABELS);
    char *at = s->text;
    s->hash = hash;
    for (size_t i = 0; i < n; i++) {
        s->values[i] = at;
        if (values[i].n) memcpy(at, values[i].p, values[i].n);
        at += values[i].n + 1;
    }
    return s;
}

static bool metric_sets_have_room(struct metric_sets *sets, uint32_t room)
{
    return atomic_load_explicit(&sets->count, memory_order_relaxed) < room;
}

// The set of these values if it exists or may be made: `room` combinations may exist then.
static struct metric_set *take(struct metric_sets *sets, const str *values, size_t n, uint32_t room)
{
    size_t slot = 0;
    uint64_t hash = hash_of(values, n);
    struct metric_set *s = find(sets, hash, values, n, &slot);
    if (s || !metric_sets_have_room(sets, room)) return s;
    lock_take(&metric_lock);
    // Again under the lock: another thread may have made it since.
    s = find(sets, hash, values, n, &slot);
    if (!s && metric_sets_have_room(sets, room)) {
        s = make(hash, values, n);
        if (s) atomic_fetch_add_explicit(&sets->count, 1, memory_order_relaxed);
        atomic_store_explicit(&sets->slots[slot], s, memory_order_release);
    }
    lock_give(&metric_lock);
    return s;
}

// The values as they are kept; v has room for METRIC_LABELS.
static void fit_values(const str *values, size_t n, str *v)
{
    for (size_t i = 0; i < n; i++) {
        bool fits = values[i].n <= VALUE_MAX && str_utf8(values[i]) && !has_nul(values[i]);
        v[i] = fits ? values[i] : S("other");
    }
}

// NULL without memory.
static struct metric_set *set_of(struct metric *m, const str *values)
{
    assert(metric_has_sets(m));
    struct metric_sets *sets = sets_of(m);
    if (!sets) return NULL;
    size_t n = label_count(m);
    str v[METRIC_LABELS] = {{0}};
    fit_values(values, n, v);
    struct metric_set *s = take(sets, v, n, METRIC_SETS);
    if (s) return s;
    for (size_t i = 1; i < n; i++)
        v[i] = S("other");
    s = take(sets, v, n, FULL);
    if (s) return s;
    v[0] = S("other");
    return take(sets, v, n, FULL + 1);
}

void metric_add_set(struct metric *m, const str *values, uint64_t n)
{
    assert(m->kind == METRIC_COUNTER || m->kind == METRIC_GAUGE);
    struct metric_set *s = set_of(m, values);
    if (!s) return;
    atomic_fetch_add_explicit(&s->sum, (int64_t)n, memory_order_relaxed);
    atomic_store_explicit(&s->shown, true, memory_order_release);
}

static struct metric_set *take_expected(struct metric *m, const str *values, uint32_t room)
{
    assert(m->kind == METRIC_COUNTER && metric_has_sets(m));
    struct metric_sets *sets = sets_of(m);
    if (!sets) return NULL;
    size_t n = label_count(m);
    str v[METRIC_LABELS] = {{0}};
    fit_values(values, n, v);
    return take(sets, v, n, room);
}

bool metric_has_set(struct metric *m, const str *values)
{
    return take_expected(m, values, 0) != NULL;
}

bool metric_expect_set(struct metric *m, const str *values)
{
    struct metric_set *s = take_expected(m, values, METRIC_SETS / 2);
    if (!s) return false;
    atomic_store_explicit(&s->shown, true, memory_order_release);
    return true;
}

// A set never goes away and the room never comes back: without a set and without room all went to
// "other".
bool metric_read_set(struct metric *m, const str *values, uint64_t *n)
{
    struct metric_set *s = take_expected(m, values, 0);
    *n = s ? (uint64_t)atomic_load_explicit(&s->sum, memory_order_relaxed) : 0;
    if (s) return true;
    struct metric_sets *sets = atomic_load_explicit(&m->sets, memory_order_acquire);
    return !sets || metric_sets_have_room(sets, METRIC_SETS);
}

void metric_set_real(struct metric *m, const str *values, double v)
{
    assert(m->kind == METRIC_REAL);
    struct metric_set *s = set_of(m, values);
    if (!s) return;
    int64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    atomic_store_explicit(&s->sum, bits, memory_order_relaxed);
    atomic_store_explicit(&s->shown, true, memory_order_release);
}

void metric_forget_sets(struct metric *m)
{
    struct metric_sets *sets = atomic_load_explicit(&m->sets, memory_order_acquire);
    for (size_t i = 0; sets && i < SLOTS; i++) {
        struct metric_set *s = atomic_load_explicit(&sets->slots[i], memory_order_acquire);
        if (s) atomic_store_explicit(&s->shown, false, memory_order_relaxed);
    }
}

// ---- printing

static void print_set(struct buf *out, const struct metric *m, struct metric_set *s)
{
    buf_z(out, m->name);
    str rest = str_of(m->label);
    for (size_t i = 0; rest.n > 0; i++) {
        str label = str_split(rest, ',', &rest);
        buf_printf(out, "%s%.*s=\"", i ? "," : "{", STR(label));
        metric_print_escaped(out, s->values[i], true);
        buf_byte(out, '"');
    }
    buf_z(out, m->label[0] ? "} " : " ");
    int64_t v = atomic_load_explicit(&s->sum, memory_order_relaxed);
    double real = 0;
    memcpy(&real, &v, sizeof real);
    if (m->kind == METRIC_REAL)
        buf_printf(out, "%.15g\n", real);
    else
        buf_printf(out, "%" PRIi64 "\n", v);
}

// An empty value sorts before all others; sets of one metric have the same number of values.
static int by_values(const void *a, const void *b)
{
    const struct metric_set *const *x = a;
    const struct metric_set *const *y = b;
    for (size_t i = 0; i < METRIC_LABELS && (*x)->values[i]; i++) {
        int order = strcmp((*x)->values[i], (*y)->values[i]);
        if (order) return order;
    }
    return 0;
}

void metric_print_sets(struct buf *out, const struct metric *m)
{
    struct metric_sets *sets = atomic_load_explicit(&m->sets, memory_order_acquire);
    if (!sets) return;
    err e = {0};
    const size_t bytes = (FULL + 1) * sizeof(struct metric_set *);
    struct metric_set **all = mem_alloc(NULL, bytes, &e);
    if (!all) {
        buf_starve(out);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < SLOTS && n <= FULL; i++) {
        struct metric_set *s = atomic_load_explicit(&sets->slots[i], memory_order_acquire);
        if (s && atomic_load_explicit(&s->shown, memory_order_acquire)) all[n++] = s;
    }
    qsort((void *)all, n, sizeof(struct metric_set *), by_values);
    for (size_t i = 0; i < n; i++)
        print_set(out, m, all[i]);
    mem_free(NULL, (void *)all, bytes);
}
