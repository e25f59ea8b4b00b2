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
// Rows go under their service's lock, for which readers and pushes wait. So an id is added in a few
// steps, however many there are: past_room, which is called before the lock is taken, gets and
// gives back memory, and a table that grows is not copied at once. Its keys move to the larger one
// a few with each key that is added; until then a look-up looks into both:
//
//     slots  | a |   | c |   |   |   |   |   |    the larger table: what moved, and what is new
//     from   | a | c | b | d |                    the smaller one: b and d are still to be moved
//              moved --^
//
// Before the log lets a cut go, what left the head since the last time goes into a file of its own
// (past_file.c), and the next start reads the files again; docs/formats/log.md has the bytes. So
// each id is in the log or in a file, whenever the process ends.
//
// One thread at a time adds, saves and loads; any may ask. A lock of its own, which is taken last.
#pragma once

#include "base/buf.h"
#include "model/loose.h"

#include <pthread.h>

#define PAST_NS ((uint64_t)1800 * 1000000000)

struct past_ids {
    struct past_slot *slots;  // a power of two of them
    size_t size;
    size_t n;
    uint64_t since_ns;       // monotonic
    struct past_slot *from;  // a smaller table whose keys are on their way into `slots`, or NULL
    size_t from_size;
    size_t moved;  // slots of it that were looked at
};

struct past {
    pthread_rwlock_t lock;
    struct mem_budget *budget;
    struct past_ids young;
    struct past_ids old;
    bool fresh;  // some are in no file yet
    _Atomic size_t longest;
};

void past_init(struct past *p, struct mem_budget *budget);
void past_release(struct past *p);

// Makes room for up to n rows more and forgets what is due. most: bytes that one generation may
// take. How many there is room for: at least 1, unless there is no memory.
size_t past_room(struct past *p, size_t n, size_t most);

// Remembers a row, in a few steps and without asking for memory: without room it is forgotten.
void past_add(struct past *p, str tenant, struct loose_key key);
bool past_has(struct past *p, str tenant, struct loose_key key);

// The most slots that were looked at or moved while the lock was held for writing, since the start.
size_t past_longest(const struct past *p);

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
void past_fresh(struct past *p, struct buf *out);            // appends those in no file yet
void past_note_saved(struct past *p, str keys, bool saved);  // what became of these
void past_add_saved(struct past *p, str keys, size_t most);
