// SPDX-License-Identifier: Apache-2.0
//
// Checking an idle tenant: one LIST; nothing is read or kept. The print covers absorbed segments as
// well, which a plan does not need: to leave them out would take the manifest. So a tenant of which
// a sweep deletes segments looks changed once.
#include "base/hash.h"
#include "manifest/manifest_int.h"

// Of the versions only the newest counts, at the end: roots that a sweep deletes change nothing.
uint64_t listed_print(uint64_t print, str rest, uint64_t *newest)
{
    uint64_t version = 0;
    if (str_starts(rest, S("m/")) && name_root_version(str_slice(rest, 2, rest.n), &version)) {
        *newest = MAX(*newest, version);
        return print;
    }
    return hash_table_and(print, hash_table_str(rest));
}

struct peeking {
    size_t prefix;
    uint64_t print;
    uint64_t newest;
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct peeking *p = arg;
    (void)size;
    (void)e;
    p->print = listed_print(p->print, str_slice(name, p->prefix, name.n), &p->newest);
    return true;
}

bool snapshot_peek(struct manifests *ms, struct req *r, str tenant, uint64_t *print, err *e)
{
    str prefix = name_live(&r->arena, tenant);
    struct peeking p = {.prefix = prefix.n};
    metric_add(&manifest_lists, 1);
    if (!arena_ok(&r->arena, e) || !store_list(ms->store, r, prefix, (str){0}, see, &p, e))
        return err_wrap(e, "segments of tenant %.*s", STR(tenant));
    *print = hash_table_and(p.print, p.newest);
    return true;
}

void manifests_forget(struct manifests *ms, str tenant)
{
    err ignored = {0};
    struct tenant *t = tenant_ref(ms, tenant, &ignored);
    if (!t) return;
    lock_take(&ms->lock);
    struct manifest *old = t->known;
    t->known = NULL;
    lock_give(&ms->lock);
    manifest_unref(old);
    tenant_unref(ms, t);
}
