// SPDX-License-Identifier: Apache-2.0
//
// closing.h - deletion of a tenant with all that it has, on request
// (docs/decisions/0020-deletion-of-tenants.md).
//
//     POST /compactor/delete-tenant?tenant=T
//
//     noted     v1/closed/<tenant> is there. Each process that has a registered stream is asked to
//               read that; from its answer on it acknowledges nothing of the tenant (confirm.h)
//     closed    a version of the manifest hides all. This is the moment of the deletion: only now
//               the request is answered
//     waiting   until jobs, readers and late writers of earlier versions are over, and every data
//               directory of an ingester says that it has flushed what it held
//     erased    all objects are deleted, and v1/tenants/<tenant>
//     over      after the same time without any object v1/closed/<tenant> goes. The tenant's name
//               may be used again
//
// The state is in the store alone. Whatever process lists tenants next goes on with it. Of several
// processes that do, all do the same, and each waits for itself.
#pragma once

#include "manifest/manifest.h"

struct closing;
struct work;
struct worker;
struct tenant_work;

// Answers once the tenant is closed. unavailable: an ingester has not confirmed, and its stream has
// not ended; pushes are refused already by those that have, and it is tried again, by compactors
// and by whoever calls this again.
bool closing_begin(struct work *w, struct req *r, str tenant, struct manifest_tombstone *out,
                   err *e) MUST_CHECK;

// Notes which tenants are being deleted, by a LIST; returns how many there was no memory for. Under
// the lock.
size_t closing_note(struct work *w, const str *closed, size_t n);

// Takes the next step, in place of a turn (work_int.h), if it is time for it.
bool closing_step(struct worker *me, struct tenant_work *t, const struct req *asker,
                  err *e) MUST_CHECK;

void closing_free(struct work *w, struct closing *c);  // NULL is fine

// Progress, with the streams that are waited for, as an element of the list of deletions; nothing
// if the tenant is not being deleted.
bool closing_print(struct work *w, struct req *r, str tenant, struct buf *out, err *e) MUST_CHECK;
