// SPDX-License-Identifier: Apache-2.0
//
// head_tenants.c - what belongs to each tenant: its services, so that a question of a tiny tenant
// does not look at those of all others; its memory; the number of its active series.
//
// The services of a tenant are a ring through the services themselves; the tenant has one of them.
// It is in the table of tenants as long as it has a ring, and lives as long as any of its services,
// those that were replaced and are still read included. Table and rings are under the lock of the
// table of services; the counts are atomic.
#include "base/hash.h"
#include "ingester/head/head_int.h"

#include <inttypes.h>
#include <stdlib.h>

struct tenant_key {
    const struct head *head;
    str tenant;
};

static bool same_tenant(const void *ctx, uint32_t row)
{
    const struct tenant_key *k = ctx;
    return str_eq(k->head->tenants[row]->name, k->tenant);
}

static uint32_t find(const struct head *h, str tenant)
{
    struct tenant_key key = {h, tenant};
    return map_find(&h->by_tenant, hash_table_str(tenant), same_tenant, &key);
}

struct service_head *tenant_services(const struct head *h, str tenant)
{
    uint32_t row = find(h, tenant);
    return row == MAP_NONE ? NULL : h->tenants[row]->services;
}

// ---- life

static struct tenant_head *tenant_new(struct head *h, str name, err *e)
{
    struct tenant_head *t = mem_alloc(&h->budget, sizeof *t + name.n, e);
    if (!t) return NULL;
    memcpy(t->text, name.p, name.n);
    t->name = (str){t->text, name.n};
    t->head = h;
    mem_budget_init(&t->budget, "ingester.head_memory of a tenant", &h->budget, 0);
    atomic_init(&t->refs, 1);
    return t;
}

struct tenant_head *tenant_head_ref(struct head *h, str tenant, err *e)
{
    uint32_t row = find(h, tenant);
    if (row == MAP_NONE) return tenant_new(h, tenant, e);
    atomic_fetch_add_explicit(&h->tenants[row]->refs, 1, memory_order_relaxed);
    return h->tenants[row];
}

// The last reference goes after all use: release orders that before the free, acquire sees it.
void tenant_head_unref(struct tenant_head *t)
{
    assert(atomic_load_explicit(&t->refs, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1) return;
    assert(atomic_load(&t->budget.used) == 0);
    mem_free(&t->head->budget, t, sizeof *t + t->name.n);
}

// ---- its services

bool tenant_add(struct head *h, struct service_head *s, err *e)
{
    struct tenant_head *t = s->owner;
    struct service_head *first = t->services;
    if (!first && (!mem_grow(&h->budget, &h->tenants, &h->tenant_cap, (size_t)h->tenant_count + 1,
                             sizeof(struct tenant_head *), e) ||
                   !map_put(&h->by_tenant, hash_table_str(t->name), h->tenant_count, e))) {
        return false;
    }
    t->service_count++;
    if (first) {
        s->next_of_tenant = first->next_of_tenant;
        s->last_of_tenant = first;
        s->next_of_tenant->last_of_tenant = s;
        first->next_of_tenant = s;
        return true;
    }
    s->next_of_tenant = s;
    s->last_of_tenant = s;
    t->services = s;
    h->tenants[h->tenant_count++] = t;
    return true;
}

// The last tenant of the table takes the place of one that goes.
static void forget(struct head *h, const struct tenant_head *t)
{
    uint32_t place = find(h, t->name);
    uint32_t last = h->tenant_count - 1;
    assert(place != MAP_NONE && h->tenants[place] == t);
    map_remove(&h->by_tenant, hash_table_str(t->name), place);
    if (place != last) {
        map_renumber(&h->by_tenant, hash_table_str(h->tenants[last]->name), last, place);
        h->tenants[place] = h->tenants[last];
    }
    h->tenant_count--;
}

void tenant_remove(struct head *h, struct service_head *s)
{
    struct tenant_head *t = s->owner;
    bool alone = s->next_of_tenant == s;
    assert(t->services && t->service_count > 0);
    if (t->services == s) t->services = alone ? NULL : s->next_of_tenant;
    if (alone) forget(h, t);
    t->service_count--;
    s->last_of_tenant->next_of_tenant = s->next_of_tenant;
    s->next_of_tenant->last_of_tenant = s->last_of_tenant;
}

void tenant_replace(struct service_head *from, struct service_head *to)
{
    struct tenant_head *t = from->owner;
    bool alone = from->next_of_tenant == from;
    assert(to->owner == t && t->services);
    to->next_of_tenant = alone ? to : from->next_of_tenant;
    to->last_of_tenant = alone ? to : from->last_of_tenant;
    to->next_of_tenant->last_of_tenant = to;
    to->last_of_tenant->next_of_tenant = to;
    if (t->services == from) t->services = to;
}

void tenants_release(struct head *h)
{
    map_release(&h->by_tenant);
    mem_free(&h->budget, h->tenants, h->tenant_cap * sizeof(struct tenant_head *));
}

// ---- its share

void tenant_lend(struct tenant_head *t, double share)
{
    size_t limit = atomic_load_explicit(&t->head->budget.limit, memory_order_relaxed);
    bool shares = limit > 0 && share > 0 && share < 1;
    atomic_store_explicit(&t->budget.share, shares ? (size_t)((double)limit * share) : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&t->budget.leaves, shares ? limit / HEAD_LEAVES : 0,
                          memory_order_relaxed);
}

void tenants_lend_all(struct head *h)
{
    pthread_rwlock_rdlock(&h->lock);
    for (uint32_t i = 0; i < h->tenant_count; i++)
        tenant_lend(h->tenants[i], 0);
    pthread_rwlock_unlock(&h->lock);
}

bool tenant_blame_share(struct head *h, str tenant, err *e)
{
    size_t used = 0;
    size_t share = 0;
    bool lends = false;
    pthread_rwlock_rdlock(&h->lock);
    uint32_t row = find(h, tenant);
    if (row != MAP_NONE) {
        const struct mem_budget *b = &h->tenants[row]->budget;
        used = atomic_load_explicit(&b->used, memory_order_relaxed);
        share = atomic_load_explicit(&b->share, memory_order_relaxed);
        lends = atomic_load_explicit(&b->leaves, memory_order_relaxed) > 0;
    }
    pthread_rwlock_unlock(&h->lock);
    if (!lends || used <= share) return false;
    (void)err_wrap(e,
                   "tenant %.*s has %zu bytes, more than its share of %zu "
                   "(limits.ingester_head_share), and others need the rest",
                   STR(tenant), used, share);
    return true;
}

// ---- its active series

uint64_t tenant_active(const struct tenant_head *t)
{
    return atomic_load_explicit(&t->active, memory_order_relaxed);
}

bool tenant_refuse_series(const struct tenant_head *t, uint64_t n, uint64_t most, err *e)
{
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "Maximum active series limit exceeded (%" PRIu64 "/%" PRIu64
                   ") of tenant %.*s in this ingester: reduce labels or their values, or raise "
                   "limits.max_local_series_per_tenant",
                   n, most, STR(t->name));
}

// Added first and taken back if it was too much, as bytes are (mem.c): pushes of several services
// count at the same time.
bool tenant_wake(struct tenant_head *t, uint64_t n, uint64_t most, err *e)
{
    uint64_t before = atomic_fetch_add_explicit(&t->active, n, memory_order_relaxed);
    if (n > 0 && most > 0 && before + n > most) {
        atomic_fetch_sub_explicit(&t->active, n, memory_order_relaxed);
        return tenant_refuse_series(t, before + n, most, e);
    }
    atomic_fetch_add_explicit(&t->head->active, n, memory_order_relaxed);
    return true;
}

void tenant_sleep(struct tenant_head *t, uint64_t n)
{
    uint64_t before = atomic_fetch_sub_explicit(&t->active, n, memory_order_relaxed);
    assert(before >= n);
    (void)before;
    atomic_fetch_sub_explicit(&t->head->active, n, memory_order_relaxed);
}

// ---- for people

static int larger_first(const void *a, const void *b)
{
    const struct head_tenant *x = a;
    const struct head_tenant *y = b;
    int order = (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return order ? order : str_cmp(x->name, y->name);
}

static struct head_tenant told(const struct tenant_head *t, str name)
{
    return (struct head_tenant){
        .name = name,
        .bytes = atomic_load_explicit(&t->budget.used, memory_order_relaxed),
        .services = t->service_count,
        .series = tenant_active(t),
    };
}

// All of them are told and sorted; names are copied, because a tenant may go afterwards.
bool head_tenants(struct head *h, struct arena *a, struct head_tenant **out, size_t *n, err *e)
{
    *n = 0;
    pthread_rwlock_rdlock(&h->lock);
    *out = ARENA_ARRAY(a, struct head_tenant, h->tenant_count);
    for (uint32_t i = 0; *out && i < h->tenant_count; i++)
        (*out)[(*n)++] = told(h->tenants[i], arena_str(a, h->tenants[i]->name));
    pthread_rwlock_unlock(&h->lock);
    if (!arena_ok(a, e)) return false;
    if (*n) qsort(*out, *n, sizeof **out, larger_first);
    return true;
}
