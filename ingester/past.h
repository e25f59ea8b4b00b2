// SPDX-License-Identifier: Apache-2.0
//
// past.h - ids of profiles that went to the object store a short while ago.
//
// A client that did not see the answer to its push sends it again. What the head has it knows by
// its ids; what was flushed meanwhile would count twice until compaction finds it. So ids stay for
// PAST_NS after their rows went, in two generations: new ones go to the young one; when that is
// PAST_NS old, or has its share of the memory, it becomes the old one and what that had is
// forgotten.
//
// Before the log lets a cut go, what left the head since the last time goes into a file of its own
// (past_file.c), and the next start reads the files again; docs/formats/log.md has the bytes. So
// each id is in the log or in a file, whenever the process ends.
//
// From any thread, files from one at a time; a lock of its own, which is taken last.
#pragma once

#include "base/buf.h"
#include "model/loose.h"

#include <pthread.h>

#define PAST_NS ((uint64_t)1800 * 1000000000)

struct past_ids {
    struct past_slot *slots;  // a power of two of them
    size_t size;
    size_t n;
    uint64_t since_ns;  // monotonic
};

struct past {
    pthread_rwlock_t lock;
    struct mem_budget *budget;
    struct past_ids young;
    struct past_ids old;
    bool fresh;  // some are in no file yet
};

void past_init(struct past *p, struct mem_budget *budget);
void past_release(struct past *p);

// Remembers a row; what there is no memory for is forgotten. most: bytes that one generation may
// take.
void past_add(struct past *p, str tenant, struct loose_key key, size_t most);
bool past_has(struct past *p, str tenant, struct loose_key key);

// ---- over an end of the process

// Writes what is in no file yet into a new one below `dir`, which is made if need be, durably, and
// removes files whose ids are forgotten. memory: for the file's bytes. On failure the ids are
// written by the next one.
bool past_save(struct past *p, const char *dir, struct mem_budget *memory, err *e) MUST_CHECK;

// Reads all files that are young enough. Fails if one could not be read; the others were.
bool past_load(struct past *p, const char *dir, size_t most, struct mem_budget *memory,
               err *e) MUST_CHECK;

// For past_file.c: keys as bytes, tenant and series as one number (8, little-endian) and id (16).
#define PAST_KEY 24
void past_fresh(struct past *p, struct buf *out);            // appends them
void past_note_saved(struct past *p, str keys, bool saved);  // what became of these
void past_add_saved(struct past *p, str keys, size_t most);
