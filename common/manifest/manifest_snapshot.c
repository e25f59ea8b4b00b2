// SPDX-License-Identifier: Apache-2.0
//
// Snapshots, by shared LISTs. Of each tenant at most one LIST is under way and at most one listing
// waits to start. A LIST that runs already is too old for a caller that comes now: it may have
// passed a name before that was created.
//
//     no LIST runs       the caller makes one
//     a LIST runs        the caller joins the waiting listing (and enters it, if there is none).
//                        When the running one is done, one of those who wait makes it for all
//     the maker's request ended (deadline, canceled)
//                        the others begin again, as if they had just called
//
// A LIST shows segments, then versions, oldest first; a tenant that changes all the time has
// thousands of versions. Where a page of the LIST ends among versions older than the known one, the
// LIST goes on at the known one.
#include "base/fault.h"
#include "base/hash.h"
#include "manifest/manifest_int.h"

#include <stdlib.h>

#define TRIES      4     // to make one, while a sweep deletes versions between LIST and read
#define PAGE_NAMES 1000  // of a LIST; a wrong number would cost requests, nothing else

// A waiting thread looks so often whether its request was canceled, which wakes nobody here.
#define CANCEL_TICK ((uint64_t)100 * NS_PER_MS)

// ---- listings: counted under the lock

static struct listing *listing_new(struct manifests *ms, err *e)
{
    struct listing *l = mem_alloc(ms->memory, sizeof *l, e);
    while (!l && manifests_shrink(ms))
        l = mem_alloc(ms->memory, sizeof *l, e);
    return l;
}

static void listing_free(struct manifests *ms, struct listing *l)
{
    if (!l) return;
    manifest_unref(l->manifest);
    mem_free(ms->memory, l->segments, l->segment_room * sizeof *l->segments);
    mem_free(ms->memory, l, sizeof *l);
}

static void listing_unref(struct manifests *ms, struct listing *l)
{
    lock_take(&ms->lock);
    assert(l->refs > 0 && l->done);
    bool last = --l->refs == 0;
    lock_give(&ms->lock);
    if (last) listing_free(ms, l);
}

// ---- making one

struct seeing {
    struct manifests *ms;
    struct listing *to;
    size_t prefix;  // bytes of name_live
    uint64_t newest;
    struct listed_root root;
    uint64_t known;  // version; 0: none is
    size_t names;    // shown so far
    bool jumps;      // it goes on at `known`
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct seeing *s = arg;
    struct listing *l = s->to;
    str rest = str_slice(name, s->prefix, name.n);
    str what = str_slice(rest, 2, rest.n);
    struct snapshot_segment segment = {.bytes = size};
    uint64_t version = 0;
    l->print = listed_print(l->print, rest, &s->newest);  // as snapshot_peek computes it
    if (str_starts(rest, S("a/")) && segment_name_parse(what, &segment.name)) {
        if (!mem_grow(s->ms->memory, &l->segments, &l->segment_room, l->segment_count + 1,
                      sizeof segment, e))
            return false;
        l->segments[l->segment_count++] = segment;
    } else if (str_starts(rest, S("m/")) && name_root_version(what, &version)) {
        if (version > s->root.version) s->root = (struct listed_root){version, size};
        // False ends the LIST without an error of its own: list() goes on at the known version.
        s->jumps = ++s->names % PAGE_NAMES == 0 && version + 1 < s->known;
        return !s->jumps;
    } else {
        metric_add(&manifest_foreign, 1);
    }
    s->names++;
    return true;
}

static bool list(struct seeing *s, struct req *r, str tenant, str prefix, err *e)
{
    struct manifests *ms = s->ms;
    err fault = {0};
    metric_add(&manifest_lists, 1);
    if (store_list(ms->store, r, prefix, (str){0}, see, s, &fault)) return true;
    if (!s->jumps) {
        *e = fault;
        return false;
    }
    // Names after that of the version before the known one, so the known one is shown too. If
    // nothing is shown, the known one is gone (the store was put back), and the LIST goes on where
    // it was left. `known` is cleared, so that it does not jump again.
    assert(s->known > 1);
    str from = name_root(&r->arena, tenant, s->known - 1);
    uint64_t below = s->root.version;
    s->known = 0;
    if (!arena_ok(&r->arena, e)) return false;
    if (!store_list(ms->store, r, prefix, from, see, s, e)) return false;
    if (s->root.version > below) return true;
    return store_list(ms->store, r, prefix, name_root(&r->arena, tenant, below), see, s, e);
}

static void leave_out_absorbed(struct listing *l)
{
    assert(l->manifest && !l->done);  // nobody else reads the listing yet
    size_t kept = 0;
    for (size_t i = 0; i < l->segment_count; i++)
        if (!manifest_absorbed(l->manifest, &l->segments[i].name))
            l->segments[kept++] = l->segments[i];
    l->segment_count = kept;
}

// One LIST and the newest version that it showed. The names came in order of their bytes, which is
// the order of segment_name_cmp: the segments need not be sorted.
static bool make_once(struct manifests *ms, struct req *r, struct tenant *t, str tenant,
                      struct listing *l, err *e)
{
    str prefix = name_live(&r->arena, tenant);
    struct seeing s = {.ms = ms, .to = l, .prefix = prefix.n, .known = tenant_version(ms, t)};
    int64_t began_ns = ms->boot_ns();
    uint64_t before = s.known;
    assert(!l->manifest);  // an attempt that failed left none
    l->segment_count = 0;
    l->print = 0;
    if (!arena_ok(&r->arena, e) || !list(&s, r, tenant, prefix, e)) return false;
    l->print = hash_table_and(l->print, s.newest);
    FAULT("manifest.listed");
    if (!manifest_list_is_new(ms, r, tenant, s.root.version, before, e)) return false;
    // Asked for again: another thread may have read a newer one since the LIST began.
    struct manifest *known = tenant_known(ms, t);
    bool sure = tenant_is_sure(ms, t) && s.root.version >= before;
    if (known && known->version == s.root.version && sure)
        l->manifest = manifest_hold(known);
    else if (s.root.version)
        l->manifest = manifest_load(ms, r, tenant, &s.root, known, e);
    else
        l->manifest = manifest_empty(ms, tenant, e);
    manifest_unref(known);
    if (!l->manifest) return false;
    if (!sure) tenant_forget(ms, t);  // also one that is gone: the tenant was deleted
    if (s.root.version) {
        tenant_learn(ms, t, l->manifest);
        tenant_saw(ms, t, began_ns);
    }
    leave_out_absorbed(l);
    return true;
}

static bool make(struct manifests *ms, struct req *r, struct tenant *t, str tenant,
                 struct listing *l, err *e)
{
    bool ok = make_once(ms, r, t, tenant, l, e);
    for (int i = 1; !ok && e->code == ERR_NOT_FOUND && i < TRIES; i++)
        ok = make_once(ms, r, t, tenant, l, e);
    if (!ok && e->code == ERR_NOT_FOUND) e->code = ERR_DATA_LOSS;
    return ok;
}

// ---- sharing one

static void run_listing(struct manifests *ms, struct req *r, struct tenant *t, str tenant,
                        struct listing *l)
{
    err fault = {0};
    err ignored = {0};
    bool ok = make(ms, r, t, tenant, l, &fault);
    // The maker's request ended, which is no reason for those who wait: they begin again (share).
    bool lost = !ok && !req_alive(r, &ignored);
    lock_take(&ms->lock);
    assert(t->running == l && !l->done);
    l->ok = ok;
    l->lost = lost;
    l->fault = fault;
    l->done = true;
    t->running = NULL;
    cond_wake_all(&ms->change);
    lock_give(&ms->lock);
}

// Enters the listing that starts next, which becomes *spare if nobody waits yet. Returns when the
// caller has to make it (*mine), or when it is done, with a reference of the caller's. NULL and *e:
// the caller's request ended.
static struct listing *join(struct manifests *ms, struct req *r, struct tenant *t,
                            struct listing **spare, bool *mine, err *e)
{
    bool ok = true;
    lock_take(&ms->lock);
    if (!t->waiting) {
        t->waiting = *spare;
        *spare = NULL;
    }
    struct listing *l = t->waiting;
    assert(l && !l->done);
    l->refs++;
    while (ok && t->waiting == l && t->running) {
        uint64_t left = req_left_ns(r);
        (void)cond_wait_until(&ms->change, &ms->lock, clock_mono_ns() + MIN(left, CANCEL_TICK));
        ok = req_alive(r, e);
    }
    *mine = ok && t->waiting == l;
    if (*mine) {
        assert(!t->running);
        t->running = l;
        t->waiting = NULL;
    }
    while (ok && !*mine && !l->done) {
        uint64_t left = req_left_ns(r);
        (void)cond_wait_until(&ms->change, &ms->lock, clock_mono_ns() + MIN(left, CANCEL_TICK));
        ok = l->done || req_alive(r, e);
    }
    bool last = false;
    if (!ok) {
        // The last one that leaves takes the waiting listing with it. Before that one of the others
        // makes it.
        assert(l->refs > 0);
        last = --l->refs == 0;
        if (last && t->waiting == l) t->waiting = NULL;
    }
    lock_give(&ms->lock);
    if (last) listing_free(ms, l);
    return ok ? l : NULL;
}

static struct listing *share(struct manifests *ms, struct req *r, struct tenant *t, str tenant,
                             err *e)
{
    for (;;) {
        bool mine = false;
        struct listing *spare = listing_new(ms, e);
        if (!spare) return NULL;
        struct listing *l = join(ms, r, t, &spare, &mine, e);
        listing_free(ms, spare);
        if (!l) return NULL;
        if (mine)
            run_listing(ms, r, t, tenant, l);
        else
            metric_add(&manifest_joins, 1);
        if (l->ok) return l;
        bool again = !mine && l->lost;
        *e = l->fault;
        listing_unref(ms, l);
        if (!again) return NULL;
    }
}

bool snapshot_take(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                   struct snapshot *out, err *e)
{
    *out = (struct snapshot){0};
    if (!req_alive(r, e)) return false;
    struct tenant *t = tenant_ref(ms, tenant, e);
    if (!t) return false;
    struct listing *l = share(ms, r, t, tenant, e);
    tenant_unref(ms, t);
    if (!l) return err_wrap(e, "segments of tenant %.*s", STR(tenant));
    out->segments = ARENA_ARRAY(a, struct snapshot_segment, l->segment_count);
    bool ok = out->segments || arena_fail(a, e);
    if (ok) {
        if (l->segment_count)
            memcpy(out->segments, l->segments, l->segment_count * sizeof *l->segments);
        out->segment_count = l->segment_count;
        out->manifest = manifest_hold(l->manifest);
        out->print = l->print;
    }
    listing_unref(ms, l);
    return ok;
}

void snapshot_release(struct snapshot *s)
{
    manifest_unref(s->manifest);
    *s = (struct snapshot){0};
}
