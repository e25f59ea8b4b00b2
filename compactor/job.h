// SPDX-License-Identifier: Apache-2.0
//
// job.h - does a job of a plan: reads its sources, creates blocks, changes the manifest.
//
//     1. job_make     opens the sources, cuts their services into packs, merges and creates a block
//                     for each pack, and compares the numbers of rows
//     2. job_commit   one change of the manifest names the blocks of one or several jobs
//     3. job_release
//
// It may end at each step, by a fault or a kill, and nothing is lost: until the commit nothing
// names the new objects, so the sweep finds them; and sources are deleted only by the sweep.
//
// A service with a sum that does not fit 64 bits gets no nodes in this job's blocks. A gap stands
// for it, an empty block without classes, and the blocks below it answer for what it covers.
//
// A block made of rows must have them all. So before it is named, the rows of the sources, as their
// writers counted them, must be as many as the rows of the new blocks and the copies left out. If
// they are not, the job fails and its sources live on. (The writer checks that a row's total is
// that of its vector.)
#pragma once

#include "compactor/block_merge.h"

// What the jobs of a tenant work with; all borrowed.
struct job_bench {
    struct manifests *manifests;
    struct store *store;
    struct mem_budget *memory;  // of this worker
    const char *scratch;        // folder for intermediate files
    str tenant;
    uint64_t pack_bytes;    // about so large are objects at most
    int64_t begun_ns;       // wall clock before the snapshot was taken
    int64_t begun_boot_ns;  // the same by the clock since boot
    int64_t age_ns;         // a job must be committed within so long after it; 0: an hour
    int64_t (*wall_ns)(void);
    // The deletions of the snapshot, and its version (docs/decisions/0017-deletion.md). NULL: none.
    const struct manifest_tombstone *tombstones;
    const struct hide *hides;  // the same
    size_t tombstone_count;
    uint64_t version;
    const struct manifest *snapshot;  // the version itself; needed where there are deletions
};

struct job_report {
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t rows;
    uint64_t profiles;  // of these rows those that are not sampled
    uint64_t duplicates;
    uint64_t sampled_duplicates;
    uint64_t hidden;  // rows that deletions hide; of them
    uint64_t sampled_hidden;
    bool too_large;   // it failed because the store takes no block of that size
    bool miscounted;  // it failed because rows in are not rows out, duplicates and hidden ones
    size_t blocks;
    size_t files;                                    // intermediate ones
    size_t overflows;                                // services that got no sums: they do not fit
    struct block_merge_overflow overflow;            // the last of them
    const struct snapshot_segment *damaged_segment;  // the source that is damaged or not there
    const struct manifest_block *damaged_block;
};

// Blocks that are created and not yet named by a manifest.
struct job_result {
    struct arena arena;
    const struct task *task;
    struct manifest_block *blocks;
    size_t n;
    struct job_report report;
};

// Reads, merges and creates. If one of these fails, it deletes what it made; data_loss names the
// object, and the report says which source that is. job_release in any case.
bool job_make(const struct job_bench *b, struct req *r, const struct task *j,
              struct job_result *out, err *e) MUST_CHECK;
void job_release(struct job_result *m);

// Names the blocks of n jobs of one plan, all or none. Fails with aborted if a source of one of
// them was replaced meanwhile: then nothing names their blocks, and they must be planned again.
bool job_commit(const struct job_bench *b, struct req *r, struct job_result *const *v, size_t n,
                err *e) MUST_CHECK;

// Deletes the blocks of n jobs whose commit was refused (aborted), unless the newest version names
// one of them or cannot be read: then they stay for the sweep. Must not be called after any other
// failure of a commit, which may have landed, or land later.
void job_discard(const struct job_bench *b, struct req *r, struct job_result *const *v, size_t n);
