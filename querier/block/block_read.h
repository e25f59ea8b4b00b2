// SPDX-License-Identifier: Apache-2.0
//
// block_read.h - adds up what pieces of blocks contribute to an answer.
//
// Each function reads the pieces of a plan for one tenant and adds what matches the query to *m, as
// merged_add does for a head's partial answer. Of each object only the services and profile types
// are read that the selector can mean. Key classes: ALL if the query matches and groups by nothing
// but service and type; else PROJECTION if projections have every label that it uses; else SERIES.
// The plan was made for that class (block_read_ask).
//
// An object that cannot be read or is damaged does not end the question: *out notes its name and
// the reason. The caller plans again without it, into a new struct merged, as something of the
// object may be in this one; or it names the object as missing. False is returned only if the
// question cannot go on: its memory, its time, a sum that does not fit.
#pragma once

#include "model/loose.h"
#include "model/placings.h"
#include "querier/block/blocks.h"
#include "querier/merge/merged.h"
#include "querier/plan/levels.h"
#include "querier/plan/query.h"

struct block_fault {
    const struct level_object *object;
    err why;
};

struct block_reads {
    struct block_fault *faults;  // the request arena's
    size_t fault_count;
    size_t fault_cap;
    uint64_t objects;
    uint64_t nodes;
    uint64_t rows;
    uint64_t reads;
    uint64_t bytes;
};

// Before a plan: how fine the objects have to be for this question, and which key classes they
// need. Sets use, classes, packs and steps of *ask from the question alone; the caller sets the
// range.
bool block_read_ask(const struct query *q, struct level_ask *ask, err *e) MUST_CHECK;

// Whether the projections in these pieces keep all labels that the question needs. If not, the
// caller plans again for SERIES.
bool block_read_survives(struct blocks *b, struct req *r, const struct query *q,
                         const struct level_plan *p, bool *survives, struct block_reads *out,
                         err *e) MUST_CHECK;

// Calls fn for each row of segments and leaves within the pieces that the question means and that
// has attempt > 0 or is in `wanted`; sampled ones too. Footers say where there is none to look for.
// With `identified` also for each row of a segment that has a placing (model/placings.h). Those of
// leaves are `wanted` if there is a copy of them: leaves have none of each other's rows.
//
// Adds the placings of the objects to *placings. If they differ then, and neither `identified` nor
// `anyway` is set, no row is read.
typedef bool block_loose_fn(void *arg, const struct level_object *o, struct loose_key key, err *e);
struct block_loose {
    const struct loose_set *wanted;
    struct placings *placings;  // NULL: none are asked for
    bool identified;
    bool anyway;
    block_loose_fn *fn;
    void *arg;
};
bool block_read_loose(struct blocks *b, struct req *r, const struct query *q,
                      const struct level_plan *p, const struct block_loose *want,
                      struct block_reads *out, err *e) MUST_CHECK;

// All wants of the question: tree, totals, heat, labels, stats. Trees and totals of nodes need
// plans of their own: a question for both is answered by rows.
struct block_task {
    const struct query *q;
    const struct level_plan *plan;
    // Rows that do not count here, as a head or another object counts them (model/loose.h), or
    // NULL.
    const struct loose_set *skip;

    // Trees only: subtracts the rows of its services and types that the other matchers leave out.
    // Added to a question without those matchers, that gives the question itself; a caller may
    // combine the two only if both answer the same range with nothing missing. Fails with
    // out_of_range if the sum of all does not fit, though that of the question might.
    bool excluded;
};
bool block_read(struct blocks *b, struct req *r, const struct block_task *t, struct merged *m,
                struct block_reads *out, err *e) MUST_CHECK;

// Prefetch: reads what the first wave of the question needs into the cache and adds nothing up.
// Footers, indexes and, for trees of whole services, names and vectors of nodes. Faults are noted
// in *out and have no other effect.
bool block_read_into_cache(struct blocks *b, struct req *r, const struct block_task *t,
                           struct block_reads *out, err *e) MUST_CHECK;

// The cost of a tree, of totals or of a heat map of these pieces: adds the bytes of the vectors,
// totals and rows that it needs, stored and inflated, to *bytes. Reads footers and indexes only;
// rows are counted by their share of a frame.
bool block_read_weigh(struct blocks *b, struct req *r, const struct block_task *t, uint64_t *bytes,
                      struct block_reads *out, err *e) MUST_CHECK;
