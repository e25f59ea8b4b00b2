// SPDX-License-Identifier: Apache-2.0
//
// import_int.h - a request of an import, shared by import.c (route, commit), import_take.c (from
// the body to records), import_cut.c (hours, their order and streams), import_check.c (what is
// there, and what was deleted), import_leaf.c (leaves).
#pragma once

#include "compactor/block_merge.h"
#include "compactor/import.h"
#include "compactor/scratch.h"
#include "intake/pipeline.h"

#define IMPORT_FAULTS_MAX 100

// A profile that was not taken.
struct import_fault {
    uint64_t number;  // of the profile in the request, from 0
    err fault;
};

// A row: a record of a batch, with its place in the order of a block.
struct import_row {
    int64_t hour;
    uint32_t layer;    // of the batches of its service its batch is this one
    uint32_t service;  // row of `services`
    uint32_t batch;
    uint32_t series;  // rank of its series in the batch: by type, then labels
    uint32_t record;
    int64_t time_ns;
    id128 id;
};

// The rows v[0 .. n) of an hour.
struct import_hour {
    int64_t hour;
    const struct import_row *v;
    size_t n;
    struct segment_name name;
    // of one attempt
    bool there;                     // the manifest has it
    const struct import_row *rows;  // that may be new; the others are there
    size_t row_count;
};

struct importing {
    struct req *req;
    struct store *store;
    struct manifests *manifests;
    struct mem_budget *memory;
    const char *scratch;
    str tenant;
    bool dry;    // nothing is written
    bool again;  // also hours whose rows of an earlier import have expired
    int64_t days_retention;
    int64_t deletion_stay;

    struct arena arena;  // of the whole request
    struct pipeline in;
    struct import_fault *faults;
    size_t fault_count;
    str *services;  // names, in order
    size_t service_count;
    uint32_t *layers;  // of each batch
    uint32_t *service_of;
    uint32_t **ranks;  // of each batch: of its series
    struct import_hour *hours;
    size_t hour_count;

    // the leaves of one attempt
    struct arena attempt;
    struct snapshot snapshot;
    struct manifest_tombstone *standing;  // deletions: those that hide,
    size_t standing_count;
    struct manifest_tombstone *ended;  // and those that did
    size_t ended_count;
    struct manifest_block *leaves;
    size_t leaf_count;
    id128 *needs;
    size_t need_count;
    size_t need_cap;

    // counted
    uint64_t profiles;    // that were offered
    uint64_t refused;     // of them those that were not taken
    uint64_t bytes;       // of the profiles, uncompressed
    uint64_t rows;        // that were added
    uint64_t rows_there;  // that were there already
    uint64_t hours_there;
    uint64_t leaf_bytes;
};

bool import_take(struct importing *m, str body, const struct limits *l, err *e) MUST_CHECK;
bool import_cut(struct importing *m, err *e) MUST_CHECK;

// Which rows of an hour may be new, and under which name. Fails with failed_precondition if a
// deletion hides some of them, and if nobody can know.
bool import_check(struct importing *m, struct import_hour *h, err *e) MUST_CHECK;

// Makes the leaf of an hour, if there is anything new in it.
bool import_leaf(struct importing *m, struct import_hour *h, err *e) MUST_CHECK;
