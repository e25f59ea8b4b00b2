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
//     newest     the highest version that a LIST shows; names are never guessed
//     commit     a change is applied to the newest version. If another writer was first, it is
//                applied to that writer's version, provided that the blocks which it replaces are
//                live there; else it is aborted, and must be planned anew
//     time-out   root v + 1 may be ours all the same: the writer's nonce in it tells
//     garbage    blocks and pages that a commit takes out stand in the root with the time of that;
//                a sweep deletes them once readers of older versions have had time to end
//     orphans    objects that no version ever named. A sweep deletes them 48 h after the time in
//                their ULID, and 26 h after the sweeping process first saw them unnamed
//
// A leaf absorbs a segment by naming it among its sources: for ever in the leaf's footer, for 7
// days in the page (longer if the segment's object is still there then). From then on the leaf's
// rows count and the segment does not, whether a LIST still shows it or not. A segment is absorbed
// once: two live leaves may both name it only if their packs or parts are apart, and all leaves
// that hold rows of it come in one commit. A leaf that is replaced hands its sources on to its
// successors; those that no successor names stay absorbed all the same. The streams that imported
// rows come under (names.h) are sources too, and stay in the page for 400 days.
//
// A parent (h, d) names for each of its child windows the leaves that it sums (its cover). Its
// nodes of a window count only if all these leaves are live or expired; live leaves that it does
// not name are counted beside it. Expired means removed by retention: the page keeps their ids.
//
// A manifest is an immutable value that counts its references; readers share it. All functions may
// be called by any thread, and those with a struct req may block on the store. Times are wall clock
// ns.
#pragma once

#include "block/block.h"
#include "manifest/names.h"
#include "manifest/runs.h"
#include "model/hide.h"
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
    uint32_t part;     // it has those series of its packs whose block_part() of `parts` is this
    uint32_t parts;    // 0 and 1: it has all series
    uint32_t classes;  // 0: a gap, a parent without sums: the leaves below it answer
    bool spared;       // HOURS, a gap: its sums would take no fewer bytes than the rows do
    uint64_t bytes;
    uint64_t rows;
    uint64_t as_of;    // version whose tombstones its writer obeyed; 0: of none
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
// The manifests of one store, for all tenants. memory: the budget of all that is read and kept. It
// and the store must outlive the manifests. wall_ns NULL: the machine's clocks; else (tests) it is
// the clock on the wall, and the one since boot as well until manifests_set_boot.
struct manifests *manifests_open(struct store *s, struct mem_budget *memory,
                                 int64_t (*wall_ns)(void), err *e) MUST_CHECK;

// Manifests that are kept between uses take `bytes` at most; where the parent budget has a limit
// too, they leave a quarter of it to others. Those that were used longest ago go first, those in
// use never. A manifest that finds no room is read for one use alone, on the budget given at open.
// Without this call there is no limit. `name` is the setting that messages name; it must live on.
void manifests_limit(struct manifests *ms, const char *name, size_t bytes);
struct mem_budget *manifests_budget(struct manifests *ms);

// A manifest that nobody has used for idle_ns is packed to a fraction of its size; the next use
// unpacks it. manifests_rest_after starts a thread that does so until manifests_close (once at
// most), and that gives up manifests nobody uses while others find little memory. manifests_rest
// packs now and returns how many it packed.
#define MANIFESTS_REST ((uint64_t)60 * NS_PER_S)
bool manifests_rest_after(struct manifests *ms, uint64_t idle_ns, err *e) MUST_CHECK;
size_t manifests_rest(struct manifests *ms, uint64_t idle_ns);
void manifests_set_boot(struct manifests *ms, int64_t (*boot_ns)(void));  // for tests
void manifests_close(struct manifests *ms);  // after the last manifest_unref; NULL: nothing

// Bytes of pages on this machine, for a store that is reached over a network. `get` may find the n
// bytes of a page, which begins at `at` in the object, or not; `put` may keep them or not. Both may
// be called by any thread at any time until manifests_close. A page that `get` finds counts only if
// it has the hash that the root says.
struct manifest_page_keeper {
    bool (*get)(void *arg, str name, uint64_t at, size_t n, char *to);
    void (*put)(void *arg, str name, uint64_t at, str bytes);
    void *arg;
};
void manifests_keep_pages(struct manifests *ms, const struct manifest_page_keeper *keeper);

// The newest version (with a LIST), with a reference; version 0, without blocks, if there is none.
struct manifest *manifest_newest(struct manifests *ms, struct req *r, str tenant,
                                 err *e) MUST_CHECK;

// The version that this process read last, with a reference, or NULL. It may be old, so it serves
// to prefetch, never to answer.
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

// ---- tombstones: profiles that are deleted (docs/decisions/0017-deletion.md)
struct manifest_tombstone {
    id128 id;
    struct hide hide;
    int64_t made_ns;
    uint64_t version;        // which has it first
    uint64_t ended_version;  // which does not have it any more; 0: it stands
    int64_t ended_ns;
};
size_t manifest_tombstone_count(const struct manifest *m);
// All of a version, the arena's.
bool manifest_tombstones(const struct manifest *m, struct arena *a, struct manifest_tombstone **out,
                         size_t *n, err *e) MUST_CHECK;

// Deletions that are over, the arena's, in the order of their ends: those of the last 400 days of
// hours that have rows of imports, the last 256. An import that is made again goes by them.
bool manifest_ended(const struct manifest *m, struct arena *a, struct manifest_tombstone **out,
                    size_t *n, err *e) MUST_CHECK;

// May the block have profiles that the tombstone hides? A border of a tombstone that is within a
// millisecond of a parent's lies on it, as that of a range does (querier/plan/levels.c).
bool manifest_is_hiding(const struct manifest_tombstone *t, const struct manifest_block *b);

// ---- imports (names.h)
// Which leaves absorbed a stream of an import in an hour: none, such that were replaced by nothing
// (all of its rows were deleted), or one that is live or expired. *generation: the highest of it.
enum import_state {
    IMPORT_NEVER,
    IMPORT_ERASED,
    IMPORT_HELD
};
enum import_state manifest_import_of(const struct manifest *m, int64_t hour, id128 stream,
                                     uint64_t *generation);

// Are there rows of an import in this hour that no live leaf has any more? Whether another import
// repeats some of them cannot be known, unless they were deleted since: after the highest
// *generation of those.
bool manifest_import_expired(const struct manifest *m, int64_t hour, uint64_t *generation);

// Has the tombstone all of these hours, or anything of them, with the same leave?
bool manifest_hides_all(const struct hide *h, int64_t hour, int64_t hours);
bool manifest_hides_some(const struct hide *h, int64_t hour, int64_t hours);

// ---- the tenant's segments and then its newest manifest, by one LIST. The order matters: a
// segment that the LIST does not show was absorbed by a leaf that the manifest has. LISTs are
// shared: a call waits for the next one that starts, never for one that is under way.
struct snapshot_segment {
    struct segment_name name;
    uint64_t bytes;
};
struct snapshot {
    struct manifest *manifest;          // a reference of its own
    struct snapshot_segment *segments;  // in order, absorbed ones left out; the arena's
    size_t segment_count;
    uint64_t print;  // a hash of all names listed, those of absorbed segments included
};
bool snapshot_take(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                   struct snapshot *out, err *e) MUST_CHECK;
void snapshot_release(struct snapshot *s);

// The print that a snapshot taken now would have: by one LIST, nothing is read or kept. Equal
// prints mean the same segments and the same newest version.
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
    // Tombstones that are added (id and hide; failed_precondition if a selector cannot be taken out
    // of what is left of the range), and those that are done.
    const struct manifest_tombstone *bury;
    size_t bury_count;
    const id128 *forget;
    size_t forget_count;
    bool close;        // with one tombstone, that of manifest_close: nothing else stays
    bool needs_all;    // the change is aborted if a live leaf that overlaps an added one is not
                       // among `needs`: another writer made it meanwhile,
    uint64_t calm;     // or this version or a later one has a new deletion, or one that ended in
                       // it; 0: no matter
    int64_t begun_ns;  // when the work on it began, by the clock on the wall
    int64_t begun_boot_ns;  // the same by the clock since boot, which nobody sets; 0: not known
    int64_t age_max_ns;     // the change is aborted if its work began longer ago; 0: an hour
};
// Makes one version of the tenant that has the whole change. *now, if not NULL, becomes the version
// that has it, with a reference. False with
//
//     aborted             the change is in no version and never will be, so its blocks may be
//                         deleted: a block that it replaces or needs is gone, another leaf absorbed
//                         its segments, one of its own blocks is not in the store any more, it is
//                         too old, or too many other writers were first
//     invalid_argument    the change is wrong in itself
//     any other code      it may have landed, so its blocks must not be deleted: the sweep does
//                         that, if no version names them. The same change, committed again, lands
//                         once
bool manifest_commit(struct manifests *ms, struct req *r, str tenant,
                     const struct manifest_change *c, struct manifest **now, err *e) MUST_CHECK;

// The name of a block's object, the arena's. And back, from the part behind v1/<hh>/<tenant>/,
// which tells kind, from_hour, hours, pack_lo and id.
str manifest_block_name(struct arena *a, str tenant, const struct manifest_block *b);
bool manifest_block_name_parse(str text, struct manifest_block *b) MUST_CHECK;

// ---- cleaning

// The objects of a tenant that sweeps of this process found unneeded, and since when. Times in
// names and versions come from clocks of other machines, which may be days off. So each grace must
// pass twice: by our clock on the wall, and by our clock since boot from the moment at which this
// process first found the object unneeded. One sweep of a tenant at a time. A process that starts
// anew begins to wait anew.
struct seen_object {
    uint64_t hash;  // of its name
    int64_t boot_ns;
};
struct sweep_seen {
    struct mem_budget *memory;
    struct seen_object *v;  // in order
    size_t n;
    size_t cap;
    bool swept;        // at least once. The last sweep:
    int64_t boot_ns;   // when it was,
    uint64_t version;  // the newest version then,
    int64_t apart_ns;  // how far clocks were apart
};
void sweep_seen_init(struct sweep_seen *s, struct mem_budget *memory);
void sweep_seen_release(struct sweep_seen *s);

struct manifest_sweep {
    struct sweep_seen *seen;   // of this tenant in this process
    int64_t segment_grace_ns;  // after absorption, 2 h
    int64_t garbage_grace_ns;  // after removal, 2 h
    int64_t version_age_ns;    // versions stay at least so long, 24 h,
    uint32_t versions;         // and at least so many, 64
    int64_t orphan_age_ns;     // 48 h; 0: orphans are not sought, which takes LISTs of all blocks
    // set by the sweep
    int64_t apart_ns;  // how far the clock of the newest version's writer is ahead of ours
                       // (negative: behind), if it is far; not 0: orphans stay
    uint64_t waiting;  // objects that are old enough, but not yet for long enough in our sight
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
    id128 id;  // of its object, in which other pages may be
    enum block_kind kind;
    int64_t window;
    uint64_t bytes;
    uint64_t at;  // where in the object it begins
    uint64_t object_bytes;
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

// Checks a tenant's manifest: roots can be read and form a chain by their hashes, pages have the
// hashes that the root says, named objects exist with their sizes, no segment counts twice. Objects
// that no version names, and parents that name replaced leaves, are reported but are no faults.
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
// False and *e only if the check could not be made to the end; faults are counted and reported.
bool manifest_verify(struct manifests *ms, struct req *r, str tenant, struct manifest_verify *v,
                     err *e) MUST_CHECK;

// ---- deletion of a tenant (docs/decisions/0020-deletion-of-tenants.md)
//
//     v1/closed/<tenant>   from the call until nothing of the tenant is left; meanwhile its pushes
//                          are refused
//     closed version       the last one: all times of all series are hidden, and it has no blocks.
//                          No commit follows it
//     erased               when jobs and readers of earlier versions are over, all objects go: the
//                          closed version after everything that it hides, then v1/tenants/<tenant>
//
// A tenant of that name which is created later begins at version 1 again. So no process may trust
// what it knows of a tenant for as long as the last two steps take: CLOSED_LEAST each at least.
#define CLOSED_LEAST (3600 * NS_PER_S)

bool tenants_note_closed(struct manifests *ms, struct req *r, str tenant, err *e) MUST_CHECK;
bool tenants_closed(struct manifests *ms, struct req *r, struct arena *a, str **tenants, size_t *n,
                    err *e) MUST_CHECK;
bool tenants_is_closed(struct manifests *ms, struct req *r, str tenant, bool *has,
                       err *e) MUST_CHECK;

// Makes the closed version, if the newest is none; *out is its tombstone either way.
bool manifest_close(struct manifests *ms, struct req *r, str tenant, struct manifest_tombstone *out,
                    err *e) MUST_CHECK;
bool manifest_is_closed(const struct manifest *m);

// Deletes all objects of a closed tenant, in an order in which none becomes visible again; *deleted
// counts them. It may be called again after a failure at any point.
bool manifest_erase(struct manifests *ms, struct req *r, str tenant, uint64_t *deleted,
                    err *e) MUST_CHECK;

// Is v1/tenants/<tenant> there, which goes last, and how many objects below the tenant's prefix?
struct manifest_rest {
    bool listed;
    uint64_t objects;
};
bool manifest_rest(struct manifests *ms, struct req *r, str tenant, struct manifest_rest *out,
                   err *e) MUST_CHECK;
bool tenants_reopen(struct manifests *ms, struct req *r, str tenant, err *e) MUST_CHECK;

// ---- tenants and the cluster

// Notes in the store that a tenant has data. Remembered: a process asks the store once for a
// tenant, as long as it keeps the tenant's entry.
bool tenants_note(struct manifests *ms, struct req *r, str tenant, err *e) MUST_CHECK;
void tenants_renote(struct manifests *ms, str tenant);  // it may be gone: asked once more
bool tenants_list(struct manifests *ms, struct req *r, struct arena *a, str **tenants, size_t *n,
                  err *e) MUST_CHECK;

// Reads v1/cluster when a process starts, or creates it. failed_precondition: the store has a
// format that this program does not know. With `known` the store must be that cluster's, and
// nothing is created: another cluster's store, or an empty one (a directory that is not mounted),
// is not_found.
bool cluster_claim(struct store *s, struct req *r, const id128 *known, id128 *cluster,
                   err *e) MUST_CHECK;
