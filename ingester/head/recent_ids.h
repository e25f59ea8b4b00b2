// SPDX-License-Identifier: Apache-2.0
//
// recent_ids.h - ids of profiles that went to the object store a short while ago.
//
// A client that did not see the answer to its push sends it again. What the head has it knows by
// its ids; what was flushed meanwhile would count twice until compaction finds it. So ids stay for
// RECENT_IDS_NS after their rows went, in two generations: new ones go to the young one; when that
// is RECENT_IDS_NS old, or has its share of the memory, it becomes the old one and what that had is
// forgotten.
//
// Rows go under their service's lock, for which readers and pushes wait. So an id is added in a few
// steps, however many there are: recent_ids_room, which is called before the lock is taken, gets
// and gives back memory, and a table that grows is not copied at once. Its keys move to the larger
// one a few with each key that is added; until then a look-up looks into both:
//
//     slots  | a |   | c |   |   |   |   |   |    the larger table: what moved, and what is new
//     from   | a | c | b | d |                    the smaller one: b and d are still to be moved
//              moved --^
//
// Before the log lets a cut go, what left the head since the last time goes into a file of its own
// (recent_ids_file.c), and the next start reads the files again; docs/formats/log.md has the bytes.
// So each id is in the log or in a file, whenever the process ends.
//
// One thread at a time adds, saves and loads; any may ask. A lock of its own, which is taken last.
#pragma once

#include "base/buf.h"
#include "model/loose.h"

#include <pthread.h>

#define RECENT_IDS_NS ((uint64_t)1800 * 1000000000)

struct recent_generation {
    struct recent_slot *slots;  // a power of two of them
    size_t size;
    size_t n;
    uint64_t since_ns;         // monotonic
    struct recent_slot *from;  // a smaller table whose keys are on their way into `slots`, or NULL
    size_t from_size;
    size_t moved;  // slots of it that were looked at
};

struct recent_ids {
    pthread_rwlock_t lock;
    struct mem_budget *budget;
    struct recent_generation young;
    struct recent_generation old;
    bool fresh;  // some are in no file yet
    _Atomic size_t longest;
};

void recent_ids_init(struct recent_ids *p, struct mem_budget *budget);
void recent_ids_release(struct recent_ids *p);

// Makes room for up to n rows more and forgets what is due. most: bytes that one generation may
// take. How many there is room for: at least 1, unless there is no memory.
size_t recent_ids_room(struct recent_ids *p, size_t n, size_t most);

// Remembers a row, in a few steps and without asking for memory: without room it is forgotten.
void recent_ids_add(struct recent_ids *p, str tenant, struct loose_key key);
bool recent_ids_has(struct recent_ids *p, str tenant, struct loose_key key);

// The most slots that were looked at or moved while the lock was held for writing, since the start.
size_t recent_ids_longest(const struct recent_ids *p);

// ---- over an end of the process

// Writes what is in no file yet into a new one below `dir`, which is made if need be, durably, and
// removes files whose ids are forgotten. memory: for the file's bytes. On failure the ids are
// written by the next one.
bool recent_ids_save(struct recent_ids *p, const char *dir, struct mem_budget *memory,
                     err *e) MUST_CHECK;

// Reads all files that are young enough. Fails if one could not be read; the others were.
bool recent_ids_load(struct recent_ids *p, const char *dir, size_t most, struct mem_budget *memory,
                     err *e) MUST_CHECK;

// For recent_ids_file.c: keys as bytes, tenant and series as one number (8, little-endian) and id
// (16).
#define RECENT_IDS_KEY 24
void recent_ids_fresh(struct recent_ids *p, struct buf *out);  // appends those in no file yet
void recent_ids_note_saved(struct recent_ids *p, str keys, bool saved);  // what became of these
void recent_ids_add_saved(struct recent_ids *p, str keys, size_t most);
