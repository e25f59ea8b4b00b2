// SPDX-License-Identifier: Apache-2.0
//
// label_sets.h - distinct label sets, or distinct names, of the series of an answer.
//
// Sets are added series by series and from other answers. A set that is there is found by hash, so
// memory grows with the answer, not with the series that were read. A name is a set of one label
// without value. The array and copies are the arena's, the index counts against the budget. One
// thread.
#pragma once

#include "base/map.h"
#include "model/label.h"

struct label_sets {
    struct arena *arena;
    labels *v;
    size_t cap;
    uint32_t n;
    bool finished;
    struct map seen;
};

void label_sets_init(struct label_sets *s, struct arena *a, struct mem_budget *budget);
void label_sets_release(struct label_sets *s);  // the index; idempotent

// Adds a copy unless it is there.
bool label_sets_add(struct label_sets *s, labels ls, err *e) MUST_CHECK;
bool label_sets_add_name(struct label_sets *s, str name, err *e) MUST_CHECK;

// The same for a message Labels, and for a name; strings borrow from the bytes.
bool label_sets_merge_bytes(struct label_sets *s, str bytes, err *e) MUST_CHECK;
bool label_sets_merge_name(struct label_sets *s, str name, err *e) MUST_CHECK;

// Sorts the sets and removes equal ones. To be called after the last one was added, and again if
// the owner has changed some of them since.
void label_sets_finish(struct label_sets *s);

static inline str label_sets_name(const struct label_sets *s, size_t i)
{
    return s->v[i].v[0].name;
}

// Messages Labels in `field`; or names as strings.
void label_sets_encode(const struct label_sets *s, struct buf *out, uint32_t field);
void label_sets_encode_names(const struct label_sets *s, struct buf *out, uint32_t field);
