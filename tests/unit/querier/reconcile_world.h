// SPDX-License-Identifier: Apache-2.0
//
// reconcile_world.h - one question while the world moves: rows arrive, cuts are flushed and
// dropped, segments become leaves, leaves get a parent, absorbed segments are deleted; all of that
// may happen before every answer of a head and every operation of the store. The store, manifests,
// blocks and all of the querier are real; heads are rows in an array that keep the contract of
// HeadRead. What was there when the question was asked counts once, what came later at most once.
#pragma once

#include "block/order.h"
#include "block/writer.h"
#include "lib/memstore.h"
#include "manifest/manifest.h"
#include "model/columns.h"
#include "querier/answer/reconcile.h"
#include "querier/block/blocks.h"
#include "unit/querier/ask.h"

#include <stdlib.h>

#define HEADS     3
#define ROWS      24
#define CUTS      8  // of a head
#define HOURS     2
#define BASE_HOUR (INT64_C(735) * 672)
#define BASE_NS   (BASE_HOUR * SLOT_HOUR)
#define LEAVES    32
#define NEVER     99u

struct copy {
    uint32_t since;  // moment at which the head has it
    uint32_t attempt;
    uint64_t placing;  // of one at a home; 0: without a client's id
    uint32_t cut;      // set when it arrived
    bool here;
    bool was;  // it was dropped
};

struct leaf {
    id128 id;
    int64_t hour;
    bool rows[ROWS];
};

struct world {
    struct arena arena;
    struct store *store;          // of those who move
    struct manifests *manifests;  // the same
    struct store *asked_store;
    struct manifests *asked_manifests;
    struct blocks *blocks;
    struct mem_budget memory;
    struct req req;
    head_ask *ask;          // NULL: ask_world
    struct lane *prefetch;  // NULL: no prefetch
    uint64_t awaited_reads;
    uint64_t dice;
    uint32_t moment;
    bool asked;  // the question is under way
    bool still;  // nothing moves
    bool knows;  // heads check coverage when they are told to
    struct copy copies[ROWS][HEADS];
    uint32_t open_cut[HEADS];
    bool flushed[HEADS][CUTS];
    bool dropped[HEADS][CUTS];
    bool segment_rows[HEADS][CUTS][HOURS][ROWS];
    struct placings placings[HEADS][CUTS];  // of segments
    struct leaf leaves[LEAVES];
    size_t leaf_count;
    unsigned rounds;
    unsigned ids;
};

uint32_t roll(struct world *w, uint32_t n);

// ---- rows

int64_t point_of(uint32_t row);

// ---- moves

// A head's open cut is closed and written, hour by hour.
void flush(struct world *w, uint32_t head);
void drop(struct world *w, uint32_t head, uint32_t cut);

// The segments of an hour that no leaf has become one, without what leaves have already.
void absorb(struct world *w, int64_t hour);

// A parent of all leaves there are; those before it go.
void sum_up(struct world *w);
void move(struct world *w);
void arrive(struct world *w, uint32_t head);

// ---- heads

bool ask_world(const void *transport, struct req *r, str tenant, str message,
               struct head_replies *out, err *e);

// ---- a walk

void open_world(struct world *w, uint64_t seed, uint32_t copies);
void close_world(struct world *w);

// Two distributors have different lists for ever: each row has a placing, and some rows have a
// second home.
void differ(struct world *w);
bool was_there(const struct world *w, uint32_t row, uint32_t moment);
