// SPDX-License-Identifier: Apache-2.0
//
// cli_store.h - the store that an operand names, for commands that copy stores.
#pragma once

#include "deploy/cli/cli.h"
#include "store/store.h"

// The directory of a local store, or the data directory of a server. To be read only: a server may
// use it. Returns owned.
struct store *cli_store_open(struct cli *c, const char *given, err *e) MUST_CHECK;

// To be written; a directory that is not there is made, and is the store itself.
struct store *cli_store_make(struct cli *c, const char *given, err *e) MUST_CHECK;
