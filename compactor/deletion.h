// SPDX-License-Identifier: Apache-2.0
//
// deletion.h - requests to delete profiles (docs/operations.md, Deletion).
//
//     POST /compactor/delete?tenant=T&match={...}&start=MS&end=MS&id=ULID
//     GET  /compactor/deletions?tenant=T
//
// Without tenant: anonymous. match is a selector; {} is everything, and must be said. start and end
// are Unix times in ms, both inclusive; without start from the beginning, without end until now;
// what is later than now is not deleted. id makes a repeated request count once.
#pragma once

#include "manifest/manifest.h"
#include "net/server.h"

// Fail with invalid_argument.
bool deletion_tenant(struct http_exchange *x, str *tenant, err *e) MUST_CHECK;
bool deletion_read(struct http_exchange *x, int64_t now_ns, struct manifest_tombstone *out,
                   err *e) MUST_CHECK;

// As JSON: {"id":"...","version":7}
void deletion_print(const struct manifest_tombstone *t, struct buf *out);

// A selector as people write it.
void deletion_put_match(const struct selector *s, struct buf *out);

// A hide as fields of a JSON object, with a comma before each.
void deletion_put(const struct hide *h, struct buf *out);
