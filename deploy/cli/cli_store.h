// SPDX-License-Identifier: Apache-2.0
//
// cli_store.h - the store that an operand names, for commands that read and copy stores.
//
// An operand is the directory of a local store, the data directory of a server, s3://BUCKET/PREFIX
// or azure://CONTAINER/PREFIX. The service, the region and the keys come from the environment
// (s3/s3.h, azure/azure.h), so two buckets of one command are of one service.
#pragma once

#include "deploy/cli/cli.h"
#include "store/store.h"

// To be read only: a server may use it. Fails with not_found and permission_denied; whether a
// bucket can be reached tells the first request. Returns owned.
struct store *cli_store_open(struct cli *c, const char *given, err *e) MUST_CHECK;

// To be written; a directory that is not there is made, and is the store itself. A bucket must be
// there.
struct store *cli_store_make(struct cli *c, const char *given, err *e) MUST_CHECK;

// Fails with invalid_argument if both operands name one store: a copy deletes in its target what it
// has not copied.
bool cli_store_differs(struct cli *c, const char *a, const char *b, err *e) MUST_CHECK;
