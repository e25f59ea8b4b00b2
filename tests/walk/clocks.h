// SPDX-License-Identifier: Apache-2.0
//
// clocks.h - compactors and sweepers whose clocks are days apart, and roots that land although the
// store says otherwise and cannot be asked.
#pragma once

#include "walk/world.h"

void clocks_open(struct world *w);
void clocks_close(struct world *w);

// The calling thread is one of the world's compactors from now on, with its clock.
void clocks_choose(struct world *w, struct dice *d);

// Sweepers are ahead, others right: for one that is behind nothing is due yet.
void clocks_choose_ahead(const struct world *w, bool sweeper);

// What is seen by the one process that sweeps; two sweeps are never under way at once.
bool clocks_sweep(struct world *w, struct manifests *ms, struct req *r, struct manifest_sweep *s,
                  err *e);

// Under ULID_ALONE no commit sees that a block is gone: sizes of blocks are those that they had.
void clocks_made(const struct memstore_event *ev);
bool clocks_size(str name, uint64_t *size);

// The fault of an operation of a seat, by number: after a root was created in vain, as it seems, it
// cannot be read for a moment.
enum memstore_fault clocks_doubt(struct seat *s, const struct memstore_event *ev, unsigned number);
