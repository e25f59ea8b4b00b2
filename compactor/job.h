// SPDX-License-Identifier: Apache-2.0
//
// job.h - a job of a plan, done: sources are read, blocks are created, the manifest is changed.
//
// A service with a sum that does not fit 64 bits gets no nodes in this job's blocks: a gap stands
// there, an empty block without classes, and what it covers is served by what lies below.
//
// What was made of rows has to have them all: before it is named, the rows of the sources, as their
// writers counted them, have to be those of the new blocks and the copies that were left out. If
// not, the job fails and its sources live on. (That a row's total is that of its vector is what the
// writer checks.)
//
// At each step it may end, by a fault or a kill, and nothing is lost: until the commit nothing
// names the new objects (the sweep finds them), and sources are only ever deleted by the sweep.
#pragma once

#include "compactor/block_merge.h"

// What jobs of a tenant work with. Borrowed.
struct job_bench {
    struct manifests *manifests;
    struct store *store;
    struct mem_budget *memory;  // of this worker
    const char *scratch;        // folder for intermediate files
    str tenant;
    uint64_t pack_bytes;    // about so large are objects at most
    int64_t begun_ns;       // wall clock before the snapshot was taken
    int64_t begun_boot_ns;  // the same by the clock that nobody sets
    int64_t age_ns;         // so long after it a job may be committed; 0: an hour
    int64_t (*wall_ns)(void);
};

struct job_report {
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t rows;
    uint64_t profiles;  // of the rows those that are not sampled
    uint64_t duplicates;
    uint64_t sampled_duplicates;
    bool miscounted;  // it failed because rows in are not rows out and duplicates
    size_t blocks;
    size_t files;                                    // intermediate ones
    size_t overflows;                                // services that got no sums: they do not fit
    struct block_merge_overflow overflow;            // the last of them
    const struct snapshot_segment *damaged_segment;  // damaged, or not there: go round it
    const struct manifest_block *damaged_block;
};

// Blocks that are created and not yet named by a manifest.
struct job_made {
    struct arena arena;
    const struct task *task;
    struct manifest_block *blocks;
    size_t n;
    struct job_report report;
};

// Reads, merges and creates. Fails with what reading, merging or creating failed with, and deletes
// what it made; data_loss names the object, and the report says which source that is. Release it
// whatever came.
bool job_make(const struct job_bench *b, struct req *r, const struct task *j, struct job_made *out,
              err *e) MUST_CHECK;
void job_release(struct job_made *m);

// Names what n jobs of one plan made, all of it or nothing. Fails with aborted if something that
// one of them was made from was replaced meanwhile: plan again. Then nothing names their objects.
bool job_commit(const struct job_bench *b, struct req *r, struct job_made *const *v, size_t n,
                err *e) MUST_CHECK;

// Deletes what a commit refused (aborted), unless the newest version names something of it, or
// cannot be read. What stays is an orphan, which the sweep finds. Not after any other failure of a
// commit: it may have landed, or land later.
void job_discard(const struct job_bench *b, struct req *r, struct job_made *m);
