// SPDX-License-Identifier: Apache-2.0
//
// directories.h - the data directories that ingesters answered with, where no store remembers them.
//
// Without a store the profiles that an ingester acknowledged are in its data directory and nowhere
// else. If it answers with another directory than before (its disk is not mounted, its path is
// mistyped), its answers lack the profiles of the former one, and only the processes that asked it
// before can tell. So each process notes the directory of every probe's answer and of every reply
// to a query:
//
//     another than before    notice node.replaced, until the first one is back
//     a query                its answer is marked, if its range begins before the other directory
//                            was replaced: also when the first one is back, because the other one
//                            may have taken profiles meanwhile
//
// All is forgotten at the end of the process. Any thread; NULL is fine for all functions, as there
// is no such table where there is a store (ingester/streams.h).
#pragma once

#include "base/str.h"
#include "base/ulid.h"
#include "service/notice.h"

struct directories;

struct directories *directories_new(struct notices *n);  // NULL: no notices
void directories_free(struct directories *d);

void directories_saw(struct directories *d, str node, id128 directory);

// Whether a node that answers with this directory lacks profiles of a time after from_ns; then text
// says so. The caller takes off from_ns how far profiles may be ahead of the clock.
#define DIRECTORIES_TEXT 320
bool directories_lack(struct directories *d, str node, id128 directory, int64_t from_ns,
                      char text[DIRECTORIES_TEXT]);
