// SPDX-License-Identifier: Apache-2.0
//
// The tenants that have data, and the cluster that a store belongs to.
#include "base/fault.h"
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/manifest_int.h"
#include "sys/rand.h"

#include <errno.h>
#include <inttypes.h>

#define CLUSTER_FORMAT 1
#define CLUSTER_MAX    ((size_t)4096)

// ---- tenants that have data

bool tenants_note(struct manifests *ms, struct req *r, str tenant, err *e)
{
    struct tenant *t = tenant_ref(ms, tenant, e);
    if (!t) return false;
    lock_take(&ms->lock);
    bool noted = t->noted;
    lock_give(&ms->lock);
    // Two threads may both create the object: it is empty, and the second creation finds the first.
    bool existed = false;
    str name = name_tenant(&r->arena, tenant);
    if (!noted)
        noted = arena_ok(&r->arena, e) && store_put(ms->store, r, name, (str){0}, &existed, e);
    lock_take(&ms->lock);
    t->noted |= noted;
    lock_give(&ms->lock);
    tenant_unref(ms, t);
    return noted;
}

void tenants_renote(struct manifests *ms, str tenant)
{
    err ignored = {0};
    struct tenant *t = tenant_ref(ms, tenant, &ignored);
    if (!t) return;  // then nothing is remembered either
    lock_take(&ms->lock);
    t->noted = false;
    lock_give(&ms->lock);
    tenant_unref(ms, t);
}

struct tenant_names {
    struct arena *arena;
    size_t prefix;
    str *v;
    size_t n;
    size_t room;
};

static bool see_tenant(void *arg, str name, uint64_t size, err *e)
{
    struct tenant_names *l = arg;
    str tenant = str_slice(name, l->prefix, name.n);
    (void)size;
    if (!name_tenant_ok(tenant)) {
        metric_add(&manifest_foreign, 1);
        return true;
    }
    if (!arena_grow(l->arena, &l->v, &l->room, l->n + 1, sizeof *l->v))
        return arena_fail(l->arena, e);
    l->v[l->n++] = arena_str(l->arena, tenant);
    return arena_ok(l->arena, e);
}

static bool list_names(struct manifests *ms, struct req *r, struct arena *a, str folder, str **v,
                       size_t *n, err *e)
{
    struct tenant_names l = {.arena = a, .prefix = folder.n};
    if (!store_list(ms->store, r, folder, (str){0}, see_tenant, &l, e)) return false;
    *v = l.v;
    *n = l.n;
    return true;
}

bool tenants_list(struct manifests *ms, struct req *r, struct arena *a, str **tenants, size_t *n,
                  err *e)
{
    return list_names(ms, r, a, name_tenants(), tenants, n, e) || err_wrap(e, "list of tenants");
}

bool tenants_closed(struct manifests *ms, struct req *r, struct arena *a, str **tenants, size_t *n,
                    err *e)
{
    return list_names(ms, r, a, name_all_closed(), tenants, n, e) ||
           err_wrap(e, "list of tenants that are being deleted");
}

// ---- the cluster

static bool read_cluster(struct store *s, struct req *r, id128 *cluster, err *e)
{
    struct buf bytes;
    buf_init(&bytes, NULL, CLUSTER_MAX);
    const Flametree__V1__Cluster *m = NULL;
    if (store_get(s, r, name_cluster(), &bytes, e)) {
        m = (const Flametree__V1__Cluster *)pb_unpack(&r->arena,
                                                      &flametree__v1__cluster__descriptor,
                                                      buf_view(&bytes), e);
        if (!m && e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    }
    buf_release(&bytes);
    if (!m) return false;
    if (m->format != CLUSTER_FORMAT) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the store has format %" PRIu32 ", this program knows %d", m->format,
                       CLUSTER_FORMAT);
    }
    if (m->id.len != sizeof cluster->b)
        return err_set(e, ERR_DATA_LOSS, "id has %zu bytes, not 16", m->id.len);
    memcpy(cluster->b, m->id.data, sizeof cluster->b);
    return true;
}

static bool create_cluster(struct store *s, struct req *r, err *e)
{
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    id128 id = ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random);
    struct buf bytes;
    bool existed = false;
    buf_init(&bytes, NULL, CLUSTER_MAX);
    pb_put_u64(&bytes, 1, CLUSTER_FORMAT);
    pb_put_bytes(&bytes, 2, str_make(id.b, sizeof id.b));
    bool ok = buf_ok(&bytes, e) && store_put(s, r, name_cluster(), buf_view(&bytes), &existed, e);
    buf_release(&bytes);
    return ok;
}

// Several processes may start at once on an empty store. The first creation decides, so the object
// is read after it in any case.
bool cluster_claim(struct store *s, struct req *r, const id128 *known, id128 *cluster, err *e)
{
    char want[ULID_TEXT];
    char is[ULID_TEXT];
    if (FAULT_ERRNO("manifest.claim"))
        return err_set(e, ERR_UNAVAILABLE, "%.*s: %s", STR(name_cluster()), strerror(errno));
    bool ok = read_cluster(s, r, cluster, e);
    if (!ok && e->code == ERR_NOT_FOUND && !known)
        ok = create_cluster(s, r, e) && read_cluster(s, r, cluster, e);
    if (ok && known && !id128_eq(*known, *cluster)) {
        ulid_print(*known, want);
        ulid_print(*cluster, is);
        ok = err_set(e, ERR_NOT_FOUND, "it is cluster %s, not %s", is, want);
    }
    return ok || err_wrap(e, "%.*s", STR(name_cluster()));
}
