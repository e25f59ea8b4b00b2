// SPDX-License-Identifier: Apache-2.0
//
// Deletion of a tenant with all that it has (manifest.h, "deletion of a tenant").
//
// While objects go, a reader may come at any time: it finds the closed version, which has nothing,
// or no version, which is nothing as well. So the closed version is deleted after all earlier
// ones: of those that are there the highest counts.
#include "base/fault.h"
#include "manifest/manifest_int.h"
#include "sys/rand.h"

#include <stdio.h>

#define ERASED_AT_ONCE 256

bool tenants_note_closed(struct manifests *ms, struct req *r, str tenant, err *e)
{
    bool existed = false;
    str name = name_closed(&r->arena, tenant);
    return arena_ok(&r->arena, e) && store_put(ms->store, r, name, (str){0}, &existed, e);
}

static bool is_there(struct manifests *ms, struct req *r, str name, bool *has, err *e)
{
    uint64_t size = 0;
    err fault = {0};
    if (!arena_ok(&r->arena, e)) return false;
    *has = store_size(ms->store, r, name, &size, &fault);
    if (*has || fault.code == ERR_NOT_FOUND) return true;
    *e = fault;
    return false;
}

bool tenants_is_closed(struct manifests *ms, struct req *r, str tenant, bool *has, err *e)
{
    return is_there(ms, r, name_closed(&r->arena, tenant), has, e);
}

// ---- what a process knows

void tenant_saw(struct manifests *ms, struct tenant *t, int64_t boot_ns)
{
    lock_take(&ms->lock);
    t->sure_boot_ns = MAX(t->sure_boot_ns, boot_ns);
    lock_give(&ms->lock);
}

bool tenant_is_sure(struct manifests *ms, struct tenant *t)
{
    lock_take(&ms->lock);
    bool sure = ms->boot_ns() - t->sure_boot_ns < CLOSED_LEAST / 2;
    lock_give(&ms->lock);
    return sure;
}

// ---- the closed version

static bool find_closing(struct req *r, const struct manifest *m, struct manifest_tombstone *out,
                         err *e)
{
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    if (!manifest_tombstones(m, &r->arena, &v, &n, e)) return false;
    assert(n == 1);  // the closed version has no other
    *out = v[0];
    return true;
}

bool manifest_close(struct manifests *ms, struct req *r, str tenant, struct manifest_tombstone *out,
                    err *e)
{
    uint8_t random[10];
    struct manifest *m = manifest_newest(ms, r, tenant, e);
    if (!m) return false;
    rand_bytes(random, sizeof random);
    const struct manifest_tombstone t = {
        .id = ulid_make((uint64_t)(MAX(ms->wall_ns(), 0) / NS_PER_MS), random),
        .hide = {.from_ns = -1, .to_ns = INT64_MAX}};
    const struct manifest_change c = {.bury = &t,
                                      .bury_count = 1,
                                      .close = true,
                                      .begun_ns = ms->wall_ns()};
    bool ok = true;
    if (!manifest_is_closed(m)) {
        err why = {0};
        manifest_unref(m);
        m = NULL;
        ok = manifest_commit(ms, r, tenant, &c, &m, &why);
        // Another process was quicker: then its version is the closed one.
        if (!ok && why.code == ERR_FAILED_PRECONDITION) {
            m = manifest_newest(ms, r, tenant, e);
            if (!m) return false;
            ok = manifest_is_closed(m);
        }
        if (!ok) *e = why;
    }
    ok = ok && find_closing(r, m, out, e);
    manifest_unref(m);
    return ok;
}

// ---- erasing

// Names of one LIST that are to go, as many as go at once.
struct erasing {
    struct arena arena;
    str names[ERASED_AT_ONCE];
    size_t n;
    str but;  // names that begin with this stay; empty: none
    bool full;
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct erasing *x = arg;
    (void)size;
    if (x->but.n && str_starts(name, x->but)) return true;
    x->full = x->n == ERASED_AT_ONCE;
    if (x->full) return false;  // ends the LIST without an error of its own
    x->names[x->n++] = arena_str(&x->arena, name);
    return arena_ok(&x->arena, e);
}

static bool erase_these(struct manifests *ms, struct req *r, const str *names, size_t n,
                        uint64_t *deleted, err *e)
{
    struct store_removal v[ERASED_AT_ONCE];
    assert(n <= ERASED_AT_ONCE);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct store_removal){.name = names[i]};
    if (n) store_delete_many(ms->store, r, v, n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].ok) ++*deleted;
        if (!v[i].ok && e->code == ERR_OK) *e = v[i].fault;
    }
    return e->code == ERR_OK;
}

// Deletes what a LIST of the prefix shows, but for names that begin with `but`, and for the last
// one if `keep_last`. Repeated until a LIST shows no more: a deletion that only was said to have
// happened would let an open version come to light again when the closed one goes.
static bool erase_below(struct manifests *ms, struct req *r, str prefix, str but, bool keep_last,
                        uint64_t *deleted, err *e)
{
    char first[STORE_NAME_MAX + 1] = "";  // of the names that went before
    for (;;) {
        struct erasing x = {.but = but};
        err fault = {0};
        arena_init(&x.arena, ms->memory, SIZE_MAX / 4);
        bool ok = store_list(ms->store, r, prefix, (str){0}, see, &x, &fault) || x.full;
        size_t n = x.n - (x.n > 0 && keep_last && !x.full);
        bool over = ok && n == 0;
        if (!ok) *e = fault;
        if (ok && n && str_is(x.names[0], first))
            ok = err_set(e, ERR_UNAVAILABLE, "object %.*s is listed after it was deleted",
                         STR(x.names[0]));
        ok = ok && req_alive(r, e) && erase_these(ms, r, x.names, n, deleted, e);
        if (ok && n) snprintf(first, sizeof first, "%.*s", STR(x.names[0]));
        arena_release(&x.arena);
        if (!ok || over) return ok;
    }
}

bool manifest_erase(struct manifests *ms, struct req *r, str tenant, uint64_t *deleted, err *e)
{
    str all = name_of_tenant(&r->arena, tenant);
    str roots = arena_printf(&r->arena, "%.*slive/m/", STR(all));
    str name = name_tenant(&r->arena, tenant);
    if (!arena_ok(&r->arena, e)) return false;
    if (!erase_below(ms, r, all, roots, false, deleted, e)) return false;
    FAULT("closed.erase.roots");
    if (!erase_below(ms, r, roots, (str){0}, true, deleted, e)) return false;
    FAULT("closed.erase.last");
    if (!erase_below(ms, r, all, (str){0}, false, deleted, e)) return false;
    FAULT("closed.erase.tenant");
    if (!store_delete(ms->store, r, name, e)) return false;
    tenants_renote(ms, tenant);
    manifests_forget(ms, tenant);
    return true;
}

static bool count(void *arg, str name, uint64_t size, err *e)
{
    uint64_t *n = arg;
    (void)name;
    (void)size;
    (void)e;
    ++*n;
    return true;
}

bool manifest_rest(struct manifests *ms, struct req *r, str tenant, struct manifest_rest *out,
                   err *e)
{
    str all = name_of_tenant(&r->arena, tenant);
    *out = (struct manifest_rest){0};
    return is_there(ms, r, name_tenant(&r->arena, tenant), &out->listed, e) &&
           store_list(ms->store, r, all, (str){0}, count, &out->objects, e);
}

bool tenants_reopen(struct manifests *ms, struct req *r, str tenant, err *e)
{
    str name = name_closed(&r->arena, tenant);
    return arena_ok(&r->arena, e) && store_delete(ms->store, r, name, e);
}
