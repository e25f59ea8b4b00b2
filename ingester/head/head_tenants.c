// SPDX-License-Identifier: Apache-2.0
//
// head_tenants.c - the services of each tenant, so that a question of a tiny tenant does not look
// at those of all others.
//
// The services of a tenant are a ring through the services themselves; the table has one of each
// ring. All of it under the lock of the table of services.
#include "base/hash.h"
#include "ingester/head/head_int.h"

struct tenant_key {
    const struct head *head;
    str tenant;
};

static bool same_tenant(const void *ctx, uint32_t row)
{
    const struct tenant_key *k = ctx;
    return str_eq(k->head->tenants[row]->tenant, k->tenant);
}

static uint32_t find(const struct head *h, str tenant)
{
    struct tenant_key key = {h, tenant};
    return map_find(&h->by_tenant, hash_table_str(tenant), same_tenant, &key);
}

struct service_head *tenant_services(const struct head *h, str tenant)
{
    uint32_t row = find(h, tenant);
    return row == MAP_NONE ? NULL : h->tenants[row];
}

bool tenant_add(struct head *h, struct service_head *s, err *e)
{
    struct service_head *first = tenant_services(h, s->tenant);
    if (first) {
        s->next_of_tenant = first->next_of_tenant;
        s->last_of_tenant = first;
        s->next_of_tenant->last_of_tenant = s;
        first->next_of_tenant = s;
        return true;
    }
    if (!mem_grow(&h->budget, &h->tenants, &h->tenant_cap, (size_t)h->tenant_count + 1,
                  sizeof(struct service_head *), e) ||
        !map_put(&h->by_tenant, hash_table_str(s->tenant), h->tenant_count, e)) {
        return false;
    }
    s->next_of_tenant = s;
    s->last_of_tenant = s;
    h->tenants[h->tenant_count++] = s;
    return true;
}

// The last tenant of the table takes the place of one that goes.
static void forget(struct head *h, uint32_t place)
{
    uint32_t last = h->tenant_count - 1;
    map_remove(&h->by_tenant, hash_table_str(h->tenants[place]->tenant), place);
    if (place != last) {
        map_renumber(&h->by_tenant, hash_table_str(h->tenants[last]->tenant), last, place);
        h->tenants[place] = h->tenants[last];
    }
    h->tenant_count--;
}

void tenant_remove(struct head *h, struct service_head *s)
{
    uint32_t row = find(h, s->tenant);
    assert(row != MAP_NONE);
    if (s->next_of_tenant == s) {
        forget(h, row);
    } else if (h->tenants[row] == s) {
        h->tenants[row] = s->next_of_tenant;
    }
    s->last_of_tenant->next_of_tenant = s->next_of_tenant;
    s->next_of_tenant->last_of_tenant = s->last_of_tenant;
}

void tenant_replace(struct head *h, struct service_head *from, struct service_head *to)
{
    uint32_t row = find(h, from->tenant);
    bool alone = from->next_of_tenant == from;
    assert(row != MAP_NONE);
    to->next_of_tenant = alone ? to : from->next_of_tenant;
    to->last_of_tenant = alone ? to : from->last_of_tenant;
    to->next_of_tenant->last_of_tenant = to;
    to->last_of_tenant->next_of_tenant = to;
    if (h->tenants[row] == from) h->tenants[row] = to;
}

void tenants_release(struct head *h)
{
    map_release(&h->by_tenant);
    mem_free(&h->budget, h->tenants, h->tenant_cap * sizeof(struct service_head *));
}
