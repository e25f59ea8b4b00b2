// SPDX-License-Identifier: Apache-2.0
//
// manifest.h - which blocks of a tenant are live.
//
// One chain of versions per tenant. A version is a root, which names pages; a page lists the blocks
// of one kind and window (raw and h: a day; d: floor(Unix day / 28)). Pages are immutable, so a
// commit writes the pages that change and then root v + 1, which only one writer can create: that
// is the one moment at which anything becomes visible. Messages Root, Page and BlockRef of
// proto/flametree/v1/internal.proto; docs/formats/manifest.md has the protocol.
//
//     newest     the highest version that a LIST shows; never guessed by probing
//     commit     change applied to the newest; lost the race: applied again to what won, if what it
//                was made from still lives (else aborted: make it anew)
//     time-out   root v + 1 may be ours: the writer's nonce in it tells
//     garbage    what a commit removes stands in the root with the time; sweep deletes it once
//                readers of older versions are gone
//     orphans    objects that no version ever named: by the time in their ULID after 48 h, and 26 h
//                after the process that sweeps first saw them unnamed
//
// A segment is absorbed when a leaf names it among its sources: for ever in the leaf's footer, 7
// days in the page (longer if its object is still there then). It is not counted from then on,
// listed or not. It is absorbed once: two live leaves may both name it only if their packs or
// parts are apart, and all that hold rows of it come in one commit. A leaf that is replaced hands
// its sources on; those that its successors do not name stay absorbed all the same.
//
// A parent (h, d) names for each of its child windows the leaves that it sums (cover). Its nodes
// there count only if all of them are live or expired; live leaves that it does not name are
// counted beside it. Expired means removed by retention: the page keeps their ids.
//
// A manifest is an immutable value with references; readers share it. Times are wall clock ns
// given by the caller.
#pragma once

#include "block/block.h"
#include "manifest/names.h"
#include "manifest/runs.h"
#include "store/store.h"
#include "sys/clock.h"

struct manifests;
struct manifest;

// For each child window of a parent: hours [hour, hour + hours) and the leaves summed.
struct manifest_cover {
    int64_t hour;
    uint32_t hours;
    uint32_t leaf_count;
    const id128 *leaves;  // ascending
};

struct manifest_block {
    id128 id;
    enum block_kind kind;  // RAW, HOURS, DAYS
    uint32_t format;
    int64_t from_hour;
    uint32_t hours;
    uint32_t pack_lo;
    uint32_t pack_hi;
    uint32_t part;     // of the series of its packs those whose block_part() of `parts` it is
    uint32_t parts;    // 0 and 1: all
    uint32_t classes;  // 0: a gap, a parent without sums: the leaves in it serve themselves
    bool spared;       // HOURS, a gap: as its sums would be no fewer bytes than rows
    uint64_t bytes;
    uint64_t rows;
    int64_t first_ns;  // of its profiles
    int64_t last_ns;
    int64_t made_ns;                      // wall clock of the commit
    const struct manifest_cover *covers;  // HOURS, DAYS
    const struct segment_run *sources;    // RAW: a set (runs.h), for 7 days
    uint32_t cover_count;
    uint32_t source_count;
    str name;  // of its object
};

// Can they have series in common?
static inline bool manifest_blocks_meet(const struct manifest_block *a,
                                        const struct manifest_block *b)
{
    uint64_t m = MAX(a->parts, 1u);
    uint64_t n = MAX(b->parts, 1u);
    return a->pack_lo <= b->pack_hi && b->pack_lo <= a->pack_hi &&
           a->part * n < (b->part + 1) * m && b->part * m < (a->part + 1) * n;
}

// ---- reading
// memory: budget for what is kept; pages are kept by id as long as they fit. wall_ns NULL: the
// clocks; else it is the clock on the wall and, unless set, the one since boot.
struct manifests *manifests_open(struct store *s, struct mem_budget *memory,
                                 int64_t (*wall_ns)(void), err *e) MUST_CHECK;

// What is kept between uses takes at most so much, and of a limited parent it leaves a quarter to
// others; what was used longest ago goes first, what is in use never. A manifest that finds no room
// is read for one use alone, from the budget given at open. At first there is no limit. The
// budget's name is `name`.
void manifests_limit(struct manifests *ms, const char *name, size_t bytes);
struct mem_budget *manifests_budget(struct manifests *ms);

// Manifests that nobody has used for so long are packed to a fraction of their size; the next use
// unpacks them. manifests_rest_after lets a thread see to it from now on; manifests_rest does so
// once: how many it packed.
#define MANIFESTS_REST ((uint64_t)60 * NS_PER_S)
bool manifests_rest_after(struct manifests *ms, uint64_t idle_ns, err *e) MUST_CHECK;
size_t manifests_rest(struct manifests *ms, uint64_t idle_ns);
void manifests_set_boot(struct manifests *ms, int64_t (*boot_ns)(void));  // for tests
void manifests_close(struct manifests *ms);  // nobody holds a version of it any more

// The newest version (with a LIST), with a reference; version 0, without blocks, if there is none.
struct manifest *manifest_newest(struct manifests *ms, struct req *r, str tenant,
                                 err *e) MUST_CHECK;

// What was newest when somebody last asked, with a reference, or NULL: for prefetch only.
struct manifest *manifest_known(struct manifests *ms, str tenant);
struct manifest *manifest_hold(struct manifest *m);  // one more reference
void manifest_unref(struct manifest *m);

uint64_t manifest_version(const struct manifest *m);
str manifest_tenant(const struct manifest *m);
// Live blocks in order of kind, from_hour, pack_lo, id.
const struct manifest_block *manifest_blocks(const struct manifest *m, size_t *n);
const struct manifest_block *manifest_find(const struct manifest *m, id128 id);
bool manifest_counts(const struct manifest *m, id128 leaf);  // live, or expired by retention
bool manifest_names(const struct manifest *m, id128 block);  // that, or removed and not yet deleted
bool manifest_absorbed(const struct manifest *m, const struct segment_name *segment);
// Absorbed by a leaf that retention removed: its rows count, in parents only.
bool manifest_absorbed_expired(const struct manifest *m, const struct segment_name *segment);

// ---- the tenant's listed segments and newest manifest, in that order, as exact answers need them.
// LISTs are shared: who asks joins the next one that starts.
struct snapshot_segment {
    struct segment_name name;
    uint64_t bytes;
};
struct snapshot {
    struct manifest *manifest;          // a reference of its own
    struct snapshot_segment *segments;  // in order, absorbed ones left out; the arena's
    size_t segment_count;
    uint64_t print;  // a hash of the names that were listed, absorbed segments included
};
bool snapshot_take(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                   struct snapshot *out, err *e) MUST_CHECK;
void snapshot_release(struct snapshot *s);

// Whether there is anything new of a tenant, with one LIST and no memory: *print is that of a
// snapshot that would be taken now. Equal prints: the same segments, the same newest version.
bool snapshot_peek(struct manifests *ms, struct req *r, str tenant, uint64_t *print,
                   err *e) MUST_CHECK;

// Gives back what is kept of a tenant that will not be asked for soon.
void manifests_forget(struct manifests *ms, str tenant);

// ---- changing
struct manifest_change {
    const struct manifest_block *add;  // id, bytes ... as written; name and made_ns are set here
    size_t add_count;
    const id128 *remove;  // replaced: become garbage; must be live, or the commit is aborted
    size_t remove_count;
    const id128 *expire;  // removed by retention: become garbage, their ids keep counting
    size_t expire_count;
    const id128 *needs;  // must be live or expired
    size_t need_count;
    int64_t begun_ns;       // wall clock at which its making began
    int64_t begun_boot_ns;  // the same by the clock that nobody sets; 0: it is not known
    int64_t age_max_ns;     // it began so long ago at most, or it is aborted; 0: an hour
};
// False with aborted: what it was made from is gone, its segments were absorbed by another leaf, or
// a block that it adds is not in the store any more. Then no version names its blocks or ever will.
// invalid_argument: a block is not as it should be. Whatever else: it may have landed after all, so
// its blocks must not be deleted (the sweep does that); the same change, committed again, lands
// once. *now, if not NULL, is the version that has it, with a reference.
bool manifest_commit(struct manifests *ms, struct req *r, str tenant,
                     const struct manifest_change *c, struct manifest **now, err *e) MUST_CHECK;

// The name of a block's object, the arena's; and what its part behind v1/<hh>/<tenant>/ says: kind,
// from_hour, hours, pack_lo and id.
str manifest_block_name(struct arena *a, str tenant, const struct manifest_block *b);
bool manifest_block_name_parse(str text, struct manifest_block *b) MUST_CHECK;

// ---- cleaning
// What a process saw of a tenant's objects, sweep after sweep. Times in names and versions come
// from clocks of other machines, which may be days off, so an object goes only once its time has
// passed by our clock on the wall and once more since this process first saw that it may go, by the
// clock that nobody sets. One sweep at a time; lost with the process, which then waits anew.
struct seen_object {
    uint64_t hash;  // of its name
    int64_t boot_ns;
};
struct sweep_seen {
    struct mem_budget *memory;
    struct seen_object *v;  // in order
    size_t n;
    size_t cap;
    bool swept;  // at least once; the last time
    int64_t boot_ns;
    uint64_t version;  // was the newest then,
    int64_t apart_ns;  // and clocks were so far apart
};
void sweep_seen_init(struct sweep_seen *s, struct mem_budget *memory);
void sweep_seen_release(struct sweep_seen *s);

struct manifest_sweep {
    struct sweep_seen *seen;   // of this tenant in this process
    int64_t segment_grace_ns;  // after absorption, 2 h
    int64_t garbage_grace_ns;  // after removal, 2 h
    int64_t version_age_ns;    // versions stay at least so long, 24 h,
    uint32_t versions;         // and at least so many, 64
    int64_t orphan_age_ns;  // 48 h; 0: orphans are not looked for, which costs LISTs of all blocks
    // told
    int64_t apart_ns;  // the newest version's clock is so far ahead of ours (or behind: negative);
                       // not 0: orphans stay
    uint64_t waiting;  // objects that are old enough, but not for long in our sight
    // counted
    uint64_t segments_deleted;
    uint64_t blocks_deleted;
    uint64_t pages_deleted;
    uint64_t roots_deleted;
    uint64_t orphans_deleted;
};
bool manifest_sweep(struct manifests *ms, struct req *r, str tenant, struct manifest_sweep *s,
                    err *e) MUST_CHECK;

// ---- for people and tests (flametree manifest)
struct manifest_about {
    uint64_t version;
    int64_t made_ns;
    uint64_t hash;  // XXH64 of the root's bytes
    uint64_t parent_hash;
    size_t pages;
    uint64_t page_bytes;
    size_t blocks;   // 0 where the pages were not read, as for
    size_t expired;  // leaves
    size_t tombstones;
    size_t garbage;
    uint64_t garbage_bytes;
    int64_t garbage_since_ns;  // of the oldest; 0: there is none
};
void manifest_tell(const struct manifest *m, struct manifest_about *out);

struct manifest_page {
    id128 id;
    enum block_kind kind;
    int64_t window;
    uint64_t bytes;
    size_t blocks;
};
bool manifest_page_at(const struct manifest *m, size_t i, struct manifest_page *out);

struct manifest_garbage {
    str name;  // behind v1/<hh>/<tenant>/
    uint64_t bytes;
    int64_t removed_ns;
};
bool manifest_garbage_at(const struct manifest *m, size_t i, struct manifest_garbage *out);

// Reads the root of each version that is listed, in order, and calls fn.
typedef bool manifest_visit(void *arg, const struct manifest_about *a, err *e);
bool manifest_versions(struct manifests *ms, struct req *r, str tenant, manifest_visit *fn,
                       void *arg, err *e) MUST_CHECK;

// Is the tenant's manifest what it says? Roots are read and chained by their hashes, pages have
// theirs, named objects exist and have their sizes, no segment counts twice. What nobody names and
// what is named for nothing is told, too, but is no fault.
struct manifest_verify {
    void (*report)(void *arg, bool is_fault, const char *text);
    void *arg;
    // counted
    uint64_t faults;
    uint64_t versions;
    uint64_t pages;
    uint64_t blocks;
    uint64_t segments;
    uint64_t orphans;
};
// False and *e only if the store could not be looked at to the end.
bool manifest_verify(struct manifests *ms, struct req *r, str tenant, struct manifest_verify *v,
                     err *e) MUST_CHECK;

// ---- tenants and the cluster
// Notes that a tenant has data; remembered, so that it costs one request a process and tenant.
bool tenants_note(struct manifests *ms, struct req *r, str tenant, err *e) MUST_CHECK;
bool tenants_list(struct manifests *ms, struct req *r, struct arena *a, str **tenants, size_t *n,
                  err *e) MUST_CHECK;

// Creates or reads v1/cluster, when a process starts; refuses a format that is not known
// (failed_precondition). With `known` the store must be that cluster's: another one and an empty
// one, which an unmounted directory is, are not_found, and nothing is created.
bool cluster_claim(struct store *s, struct req *r, const id128 *known, id128 *cluster,
                   err *e) MUST_CHECK;
