// SPDX-License-Identifier: Apache-2.0
//
// manifest_int.h - what the files manifest*.c share.
//
//     manifest_wire.c      roots: bytes to checked values and back; checks of blocks
//     manifest_page.c      pages: the same
//     manifest.c           tenants, the newest version, lookups
//     manifest_check.c     what a change may be
//     manifest_imports.c   which imports a version knows
//     manifest_commit.c    changes
//     manifest_draft.c     the pages that a change makes anew
//     manifest_bundle.c    which pages lie in one object, and writing it
//     manifest_sums.c      what no change may take
//     manifest_peek.c      whether anything was listed since
//     manifest_pack.c      manifests that rest, packed
//     manifest_snapshot.c  shared LISTs
//     manifest_sweep.c     cleaning
//     manifest_tenants.c   tenants that have data, the cluster's id
//     manifest_verify.c    a tenant's versions and objects for people, and whether they are right
//
// A page is immutable and counts its references; a version holds the pages that it names, so that
// versions of a tenant share those that did not change. The table of tenants is under one lock,
// which is never held while the store is asked. A tenant's entry is used outside of the lock only
// between tenant_ref and tenant_unref, which keep it from being evicted.
#pragma once

#include "base/map.h"
#include "manifest/manifest.h"
#include "manifest/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"

#include <stdlib.h>

#define ROOT_FORMAT 3  // 1: each page is an object of its own; 2: no deletions that ended
#define PAGE_FORMAT 2  // 1: sources one by one

// A change whose work began longer ago is aborted, unless its caller allows more (age_max_ns). What
// it made are orphans then.
#define JOB_AGE_MAX (3600 * NS_PER_S)

// So much is read of one object at most; a page of a busy day is some hundred KB.
#define MANIFEST_ROOT_MAX ((uint64_t)64 << 20)
#define MANIFEST_PAGE_MAX ((uint64_t)256 << 20)
#define MANIFEST_HOUR_MAX INT64_C(2562046)  // the last one that ends in an int64 of nanoseconds

// Blocks and leaves that the checks of a commit look at. Tests count them instead of time. Only in
// builds with fault points.
#ifdef FT_FAULTS
extern _Thread_local uint64_t manifest_steps;
static inline void manifest_step(void)
{
    manifest_steps++;
}
#else
static inline void manifest_step(void)
{
}
#endif

// A leaf that was removed and that its page must remember: it expired, so it counts on in parents,
// or it has sources that no living leaf names.
struct past_block {
    id128 id;
    bool expired;
    int64_t removed_ns;
    const struct segment_run *sources;
    size_t source_count;
    bool erased;  // it was replaced by nothing: no leaf or parent has rows of these sources
};

// An entry of a page's index of absorbed segments.
struct absorbed {
    const struct segment_run *run;
    uint64_t reach;  // the highest cut of this run and those before it of its hour, stream and part
    uint32_t by;     // the leaf: row of the page's blocks, or block_count + row of its past
};

struct page {
    atomic_uint refs;
    struct arena arena;  // of all that follows
    struct manifest_block *blocks;
    size_t block_count;
    // Past leaves that retention removed and whose sources are forgotten, as most leaves of a
    // tenant are in the end. So they take little room: ids in order, and for each the row of its
    // time in removed_ns (NULL: all have the same).
    id128 *expired;
    uint32_t *expired_when;
    size_t expired_count;
    int64_t *removed_ns;
    struct past_block *past;  // all other past leaves
    size_t past_count;
    struct absorbed *absorbed;  // in order of runs
    size_t absorbed_count;
};

// When the i-th of the expired leaves was removed.
static inline int64_t page_expired_ns(const struct page *p, size_t i)
{
    assert(i < p->expired_count);
    return p->removed_ns[p->expired_when ? p->expired_when[i] : 0];
}

struct page_ref {
    id128 id;  // of its object
    enum block_kind kind;
    int64_t window;
    uint64_t bytes;
    uint64_t hash;
    uint64_t at;            // where in the object it begins
    uint64_t object_bytes;  // of the object
};

// Are these the same page of a kind, wherever it lies? Versions of a page differ in their hash.
static inline bool page_ref_same(const struct page_ref *a, const struct page_ref *b)
{
    return a->kind == b->kind && a->window == b->window && a->bytes == b->bytes &&
           a->hash == b->hash;
}

struct garbage {
    str name;  // behind name_of_tenant
    uint64_t bytes;
    int64_t removed_ns;
};

struct manifest {
    atomic_uint refs;
    struct arena arena;  // of all that follows but the pages
    str tenant;
    uint64_t version;
    uint64_t hash;  // XXH64 of the root's bytes
    uint64_t parent_hash;
    id128 nonce;
    int64_t made_ns;
    struct page_ref *refs_of;  // in order of kind and window
    struct page **pages;       // of those; a reference each
    size_t page_count;
    struct garbage *garbage;
    size_t garbage_count;
    str *tombstones;  // messages as they are
    size_t tombstone_count;
    str *ended;  // the same of deletions that are over, in the order of their ends
    size_t ended_count;
    struct manifest_block *blocks;  // of all pages
    size_t block_count;
    size_t block_room;
    size_t expired_count;
    uint32_t *past_of;  // how many rows there are before each page's past
    struct map ids;     // rows of blocks, then of each page's expired and past
};

struct listed_root {
    uint64_t version;
    uint64_t bytes;
};

// One round of a shared LIST (manifest_snapshot.c). The thread that makes it writes the rest;
// others read that once it is done.
struct listing {
    unsigned refs;  // under the lock
    bool done;
    bool lost;  // the request of the thread that made it ended: others try again
    bool ok;
    err fault;
    struct manifest *manifest;
    struct snapshot_segment *segments;
    size_t segment_count;
    size_t segment_room;
    uint64_t print;  // a hash of the names that were listed
};

// The hash of the names of segments listed so far, with one name more; *newest is the newest
// version among them.
uint64_t listed_print(uint64_t print, str rest, uint64_t *newest);

struct tenant {
    struct tenant *next;   // in its chain
    struct tenant *newer;  // in order of use
    struct tenant *older;
    struct manifest *known;  // the newest version that was read, or NULL
    struct packed *packed;   // in its place while the tenant rests, or NULL
    uint64_t used_mono_ns;
    struct listing *running;  // or NULL
    struct listing *waiting;  // the one that starts next; or NULL
    unsigned users;           // threads between tenant_ref and tenant_unref
    bool noted;               // v1/tenants/<tenant> is known to be there
    int64_t sure_boot_ns;     // before the last LIST that showed the known version as the newest
    uint64_t hash;
    size_t name_n;
    char name[];
};

#define TENANT_CHAINS 1024

struct manifests {
    struct store *store;
    struct manifest_page_keeper keeper;  // without functions: none
    struct mem_budget *memory;           // for manifests in use, and scratch memory
    struct mem_budget kept;         // for manifests that are kept between uses; a child of memory
    _Atomic uint64_t told_mono_ns;  // when the log was last told that there was no room
    int64_t (*wall_ns)(void);
    int64_t (*boot_ns)(void);
    struct lock lock;
    struct cond change;  // of a listing
    struct cond end;     // of the thread that packs
    pthread_t thread;
    bool rests;  // the thread was started
    bool ending;
    uint64_t rest_ns;
    struct tenant *chains[TENANT_CHAINS];
    struct tenant *newest;  // in order of use
    struct tenant *oldest;
    size_t tenant_count;
};

// ---- manifest_wire.c, manifest_page.c

// The values of a page's bytes, checked; returns a reference. data_loss, with the page's name and
// the field, if a value is not as it should be or if kind and window are not those of `ref`.
struct page *page_parse(struct mem_budget *memory, str tenant, const struct page_ref *ref,
                        str bytes, err *e) MUST_CHECK;
struct page *page_hold(struct page *p);
void page_unref(struct page *p);

// The contents of a page to be written, in this order.
struct page_draft {
    enum block_kind kind;
    int64_t window;
    const struct manifest_block **blocks;
    size_t block_count;
    const struct past_block **past;
    size_t past_count;
};
void page_print(const struct page_draft *d, struct buf *out);

// Appends a page that there is, as this program writes it. Uses memory of the arena.
void page_print_again(struct arena *a, const struct page *p, const struct page_ref *ref,
                      struct buf *out);

int past_cmp(const void *a, const void *b);  // of pointers to past blocks, by id

// All past leaves of a page, in order of id; the arena's. NULL without memory.
const struct past_block **page_past(struct arena *a, const struct page *p, size_t *n);

// A version without its pages yet, with a reference; its refs_of etc. are set.
struct manifest *root_parse(struct mem_budget *memory, str tenant, uint64_t version, str bytes,
                            err *e) MUST_CHECK;
void root_print(const struct manifest *m, struct buf *out);

// ---- manifest_tombstones.c

// Are those of the change in the version already? And would it change any?
bool tombstones_are_there(const struct manifest *base, const struct manifest_change *c);
bool tombstones_change(const struct manifest *base, const struct manifest_change *c);

// Those of the next version, in *root; the arena's.
bool tombstones_next(struct arena *a, const struct manifest *base, const struct manifest_change *c,
                     struct manifest *root, err *e) MUST_CHECK;

// Has the caller of the change seen all deletions that there are, and all that ended?
bool tombstones_calm(const struct manifest *base, const struct manifest_change *c);

// failed_precondition: what the change is to delete cannot be deleted. aborted: it expires a leaf
// that has deleted profiles.
bool tombstones_allow(struct arena *a, const struct manifest *base, const struct manifest_change *c,
                      err *e) MUST_CHECK;

// May a version name such a block? data_loss with the field that is wrong; a commit makes it
// invalid_argument.
bool manifest_block_check(const struct manifest_block *b, err *e) MUST_CHECK;
int64_t manifest_window(enum block_kind kind, int64_t hour);
int manifest_block_cmp(const struct manifest_block *a, const struct manifest_block *b);

// "raw/<hour>-<hours>/<pack>-<ulid>" or "page/<ulid>"; *page tells which.
bool name_garbage_parse(str text, struct manifest_block *b, bool *page) MUST_CHECK;

static inline int ids_cmp(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static inline bool ids_have(const id128 *v, size_t n, id128 id)
{
    return n && bsearch(&id, v, n, sizeof *v, ids_cmp);
}

// In order; the arena's. False without memory.
static inline bool ids_sort(struct arena *a, const id128 *v, size_t n, id128 **out)
{
    *out = ARENA_ARRAY(a, id128, n);
    if (!*out) return false;
    if (n) memcpy(*out, v, n * sizeof *v);
    if (n) qsort(*out, n, sizeof *v, ids_cmp);
    return true;
}

// ---- manifest.c

// Makes lookups ready once all pages are there. data_loss if a block is named twice.
bool manifest_finish(struct manifest *m, err *e) MUST_CHECK;

// The tenant's entry, which stays until tenant_unref. NULL with invalid_argument (no tenant can
// have that name) or without memory.
struct tenant *tenant_ref(struct manifests *ms, str name, err *e) MUST_CHECK;
void tenant_unref(struct manifests *ms, struct tenant *t);

// The version that is kept, unpacked if it rested: a reference, or NULL; and its number, 0 if none
// is kept.
struct manifest *tenant_known(struct manifests *ms, struct tenant *t);
uint64_t tenant_version(struct manifests *ms, struct tenant *t);

// Keeps the version, with a reference of its own, unless a newer one is kept or it was counted
// against another budget.
void tenant_learn(struct manifests *ms, struct tenant *t, struct manifest *m);

// A LIST that began then showed the known version as the newest. A tenant that is deleted and
// created anew has the same versions once more (manifest_closed.c): if the last such LIST was long
// ago, the known version counts only for its pages, and its root is read again.
void tenant_saw(struct manifests *ms, struct tenant *t, int64_t boot_ns);
bool tenant_is_sure(struct manifests *ms, struct tenant *t);
void tenant_forget(struct manifests *ms, struct tenant *t);  // all versions

bool tenant_in_use(const struct tenant *t);  // the caller holds the lock

// Forgets the tenant that has not been used for the longest time, if nobody uses it now, with all
// that is kept of it. False if there is none.
bool manifests_shrink(struct manifests *ms);

// Does so while others find little room in the parent of the budget; called after each use, and
// once a second by the thread that packs.
void manifests_relieve(struct manifests *ms);

// A manifest found no room in the budget of what is kept, so it serves one use alone: counts that,
// and tells the log, once a minute at most.
void manifests_not_kept(struct manifests *ms, const struct req *r, str tenant);

struct manifest *manifest_empty(struct manifests *ms, str tenant, err *e) MUST_CHECK;

// Reads a version from the store: its root, and the pages that `base` (or NULL) does not have.
// Returns a reference. not_found if the root or one of its pages is gone, which a sweep may have
// deleted since it was listed.
struct manifest *manifest_load(struct manifests *ms, struct req *r, str tenant,
                               const struct listed_root *root, const struct manifest *base,
                               err *e) MUST_CHECK;

// The highest version listed after `after` (0: all), 0 if there is none.
bool manifest_list(struct manifests *ms, struct req *r, str tenant, uint64_t after,
                   struct listed_root *root, err *e) MUST_CHECK;

// A LIST shows nothing newer than `listed`, and `known` was read before it began. False, with
// unavailable, if that version is there still: something on the way has kept an old list.
bool manifest_list_is_new(struct manifests *ms, struct req *r, str tenant, uint64_t listed,
                          uint64_t known, err *e) MUST_CHECK;

// All versions that are listed, in order; the arena's.
struct versions {
    struct arena *arena;
    size_t prefix;
    uint64_t *v;
    size_t n;
    size_t room;
};
bool versions_list(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                   struct versions *out, err *e) MUST_CHECK;

// The root of a version without its pages, with a reference; NULL and *e set, not_found if it is
// not there.
struct manifest *root_get(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                          uint64_t version, err *e) MUST_CHECK;

// The page of a kind and window; NULL if there is none.
const struct page_ref *manifest_page_ref(const struct manifest *m, enum block_kind kind,
                                         int64_t window);
const struct page *manifest_page(const struct manifest *m, enum block_kind kind, int64_t window);

// Goes through the entries that have a segment in common with the run, one a call: the first if
// `after` is NULL, else the next one after it. NULL: there are no more.
const struct absorbed *page_absorbed(const struct page *p, const struct segment_run *r,
                                     const struct absorbed *after);

// ---- manifest_pack.c

// A manifest in few bytes and back, counted against the same budget; `scratch` is for memory while
// the call lasts. Both return a reference, or NULL and *e.
struct packed *manifest_pack(const struct manifest *m, struct mem_budget *scratch,
                             err *e) MUST_CHECK;
struct manifest *manifest_unpack(const struct packed *p, str tenant, struct mem_budget *scratch,
                                 err *e) MUST_CHECK;
uint64_t packed_version(const struct packed *p);
struct packed *packed_hold(struct packed *p);
void packed_unref(struct packed *p);
void manifests_end_rest(struct manifests *ms);

// ---- manifest_check.c

// Is the change right in itself, whatever the newest version has? invalid_argument. Called once for
// a commit. Uses memory of the arena.
bool manifest_change_check(struct arena *a, const struct manifest_change *c, err *e) MUST_CHECK;

// Of a change with needs_all: are all live leaves of its hours needed? Else aborted. Uses memory of
// the arena.
bool manifest_leaves_check(struct arena *a, const struct manifest *base,
                           const struct manifest_change *c, err *e) MUST_CHECK;

// Are the objects of the change's new blocks in the store, as large as they were written? They are
// asked for together. *gone: one is not there, the one failure that lasts. Uses memory of the
// arena.
bool manifest_objects_check(struct manifests *ms, struct req *r, struct arena *a,
                            const struct manifest_change *c, str tenant, bool *gone,
                            err *e) MUST_CHECK;

// ---- manifest_sums.c

// Would each expired leaf keep the sums that parents have of it, of all windows and classes, if the
// change were applied to this version? If not: false with aborted, naming one; it is counted and
// logged. Uses memory of the arena.
bool manifest_keeps_sums(struct req *r, struct arena *a, const struct manifest *base,
                         const struct manifest_change *c, err *e) MUST_CHECK;

// ---- manifest_commit.c

// What a sweep changes: it drops entries of the garbage list, and from pages what nobody needs any
// more. The change that comes with it adds and removes no block.
struct manifest_cleaning {
    const str *forget;  // names in the garbage list that are dropped
    size_t forget_count;
    // Of a leaf that was committed or removed at since_ns, those of its sources that the page must
    // name still; `v` itself if that is all of them, else the arena's.
    const struct segment_run *(*keep_sources)(void *arg, struct arena *a,
                                              const struct segment_run *v, size_t n,
                                              int64_t since_ns, size_t *kept);
    // Must an expired leaf's id be remembered still?
    bool (*keep_past)(void *arg, const struct past_block *p);
    void *arg;
    const struct page_ref *pages;  // pages to be cleaned
    size_t page_count;
};

// Applies a change, and a cleaning if it is not NULL; manifest_commit says the rest.
bool manifest_apply(struct manifests *ms, struct req *r, str tenant,
                    const struct manifest_change *c, const struct manifest_cleaning *cleaning,
                    struct manifest **now, err *e) MUST_CHECK;

// How the creation of a root, or an attempt at a whole change, ended.
enum outcome {
    LANDED,
    LOST,   // another writer's root has that version
    FAILED  // *e says why; unavailable: it may have landed
};

// Creates the root of that name. Tries again as long as the store does not say how it ended, always
// with the same bytes (manifest_root.c).
enum outcome root_create(struct manifests *ms, struct req *r, str name, str bytes, err *e);

// Sleeps for a random time below 2^attempt ms, 200 ms at most. attempt > 0.
void manifest_pause(int attempt);
