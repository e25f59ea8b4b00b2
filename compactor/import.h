// SPDX-License-Identifier: Apache-2.0
//
// import.h - profiles with times of their own become leaves, without going through an ingester.
//
//     POST /compactor/import?tenant=NAME    body: message PushRequest (push.v1)
//
//     1. import_take    each profile goes the way of a push (common/intake), but there is no rate,
//                       no quota and no window of time; a bad one is named in the answer
//     2. import_cut     the records are put in order and cut into hours; each hour's rows get the
//                       stream of the hash of their ids (manifest/names.h)
//     3. import_leaf    an hour that the manifest has absorbed under this stream is there already.
//                       The rows of others are written as a block without a name, and merged into a
//                       delta leaf; rows that the hour's leaves have are left out
//     4. import_run     one change of the manifest names the leaves of all hours. If a leaf of
//     these
//                       hours came or went meanwhile it is refused, and 3 is done again
//
// The id of a row is made of its series, its time and the id that the client gave its profile (else
// of its bytes), never of the request. So the same import makes the same rows, however it is cut
// into requests, and a repeated row is recognised by the leaf that has it. Once the rows of an
// hour have expired this is not possible any more: then an hour of which rows were imported is
// known by its stream, or refused (docs/decisions/0018-imports-make-leaves.md).
//
// Nothing counts before the answer is made; after an error either all leaves of the request count
// or none, and the same request made again ends the doubt. One request at a time; others are told
// to come again.
#pragma once

#include "compactor/work.h"
#include "net/server.h"

struct importer;

// Borrows work, whose manifests it uses.
struct importer *importer_new(const struct process *process, struct work *w);
void importer_free(struct importer *m);  // NULL is fine

// The handler of the route.
bool importer_post(struct importer *m, struct http_exchange *x, err *e) MUST_CHECK;
