// SPDX-License-Identifier: Apache-2.0
//
// serve.h - what the objects of reconciled snapshots contribute: plan, read, plan again.
//
// An object that cannot be read is planned around: children serve for a parent, parents for a leaf.
// What nothing can serve for is missing. An object that is gone means that the snapshot is old:
// heads and snapshot have to be reconciled anew.
#pragma once

#include "querier/answer/reconcile.h"
#include "querier/plan/levels.h"

// What is asked of the levels for a question; without what is known of the reconciled tenant.
bool serve_ask(const struct query *q, struct level_ask *ask, err *e) MUST_CHECK;

// Adds to *m, which is empty before and may be made anew. *stale: reconcile again, unless `last`;
// then objects that are gone are missing.
struct serving {
    struct answer *a;
    const struct query *q;
    struct reconciled *tenants;
    size_t n;
    bool last;
};
bool serve(const struct serving *s, struct merged *m, bool *stale, err *e) MUST_CHECK;
