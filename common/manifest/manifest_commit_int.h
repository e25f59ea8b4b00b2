// SPDX-License-Identifier: Apache-2.0
//
// manifest_commit_int.h - one change while it is applied; shared by manifest_commit.c,
// manifest_draft.c and manifest_bundle.c.
#pragma once

#include "manifest/manifest_int.h"

// A page that was made for this change, or moved to another object by it.
struct written {
    struct page_ref ref;  // object_bytes is 0 until its object is created (bundle_flush)
    struct page *page;    // of a moved one NULL: the base has it
    bool moved;
    uint64_t from_hash;   // of the page that it replaces,
    uint64_t from_bytes;  // and its size; 0: it replaces none
    bool empty;           // nothing is left: the version has no such page
};

struct work {
    struct manifests *ms;
    struct req *r;
    str tenant;
    const struct manifest_change *change;
    const struct manifest_cleaning *cleaning;  // or NULL
    struct mem_budget *memory;                 // of the version that it makes
    id128 nonce;
    struct arena arena;  // of the whole change
    id128 *gone;         // all blocks that leave, removed and expired ones, in order
    size_t gone_count;
    id128 *removed;           // the removed ones alone, in order
    id128 *expired;           // the expired ones alone, in order
    str *forget;              // names that the cleaning drops from the garbage list, in order
    struct written *written;  // pages of this attempt and earlier ones
    size_t made_count;
    size_t made_room;
    struct buf bundle;        // bytes of those whose object is not created yet:
    size_t bundle_first;      // from this row on,
    id128 bundle_id;          // under this name
    bool refused;             // by our own verdict (manifest_commit.c)
    bool unknown;             // a root was sent, and nobody knows whether it landed
    bool checked;             // the change's blocks were found in the store,
    int64_t checked_boot_ns;  // at this time since boot
    // of this attempt
    const struct manifest *base;
    int64_t now_ns;
};

// ---- manifest_draft.c

// Writes the pages that change (step 3 of a commit), and puts the references of all pages of the
// next version into *root, in order; the arena's.
bool draft_pages(struct work *w, struct manifest *root, err *e) MUST_CHECK;

// The page that a reference of the next version means: the base's, or one that was written.
struct page *draft_page_of(const struct work *w, const struct page_ref *ref);

// ---- manifest_bundle.c

// Which of the n pages, all of which stay as they are, are written again together with `fresh`
// bytes of new pages: sets moves[i], and leaves all false if fresh is 0. References of one object
// need not be neighbours. False without memory of the arena.
bool bundle_choose(struct arena *a, const struct page_ref *refs, size_t n, uint64_t fresh,
                   bool *moves) MUST_CHECK;

// Appends the page to the object that is created next. Sets m->ref but for object_bytes, and
// m->page, which is parsed from the bytes: a page that could not be read is never written. The
// caller makes it row w->made_count of w->written before it adds another one. What would become too
// large for one object is created before.
bool bundle_add(struct work *w, const struct page_draft *d, struct written *m, err *e) MUST_CHECK;

// The same with a page that stays as it is. It is not *moved if this program would write it with
// other bytes, as one of an older or newer program.
bool bundle_move(struct work *w, const struct page_ref *from, const struct page *page,
                 struct page_ref *to, bool *moved, err *e) MUST_CHECK;

// Creates the object of what was added, under its new id.
bool bundle_flush(struct work *w, err *e) MUST_CHECK;
