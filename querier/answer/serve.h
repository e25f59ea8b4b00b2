// SPDX-License-Identifier: Apache-2.0
//
// serve.h - adds up what the objects of reconciled snapshots contribute: plan, read, plan again.
//
// The plan goes around an object that cannot be read: children take the place of a parent, parents
// the place of a leaf. If nothing can take its place, the object is missing. An object that is gone
// means that the snapshot is old: heads and snapshot must be reconciled anew.
#pragma once

#include "querier/answer/reconcile.h"
#include "querier/plan/levels.h"

// The planner's input for a question, as far as it does not depend on the tenant's snapshot.
bool serve_ask(const struct query *q, struct level_ask *ask, err *e) MUST_CHECK;

// Adds to *m, which must be empty and may be made anew (merged_init). *stale: an object is gone,
// and *m is empty; not with `last`, where such objects are named as missing in a->fetched. False
// only if the question cannot go on.
struct serving {
    struct answer *a;
    const struct query *q;
    struct reconciled *tenants;
    size_t n;
    bool last;
};
bool serve(const struct serving *s, struct merged *m, bool *stale, err *e) MUST_CHECK;
