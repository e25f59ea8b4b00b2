// SPDX-License-Identifier: Apache-2.0
//
// recent_ids.h - ids of profiles that went to the object store a short while ago.
//
// A client that did not see the answer to its push sends it again. If the head still has the rows,
// it knows their ids. Rows that were flushed meanwhile would count twice until compaction finds
// them. So their ids stay known for RECENT_IDS_NS after they went, in two generations. New ids go
// to the young one. When that is RECENT_IDS_NS old, or has its share of the memory, it becomes the
// old one, and the former old one goes.
//
// If it goes before its time, because its share was full, a filter of its ids stays in its place: a
// *faint* generation, of two bytes an id instead of 43 to 85. A filter may take an id for one that
// it has (about one in a thousand), never the other way round. So a row that may be in one is not
// dropped, but taken as a loose one (model/loose.h): queries and the compactor compare it with the
// rows that are there. Faint generations have a share as well. Beyond it the oldest is *let go*:
// then some ids are not known any more, and whoever takes rows is told of which time they may be.
//
//     young --full or old--> old --in time--> forgotten
//                             '--too early--> faint --in time--> forgotten
//                                               '--too early--> let go
//
// Whoever has most ids pays for it. Tenants are told apart by a hash, as one of RECENT_GROUPS. When
// a generation goes too early, the groups with the fewest ids, as far as half a generation holds
// all of theirs, keep them: these go on to the new young generation. Only ids of the others become
// faint. Faint generations and what is let go have their groups noted, so that rows of other
// tenants are not taken for repeated ones.
//
// Rows are removed under their service's lock, which readers and pushes wait for. So adding an id
// takes a few steps, however many ids there are. Memory is asked for and freed in recent_ids_room,
// which is called before that lock is taken. A table that grows is not copied at once: with each id
// that is added, a few keys move to the larger table, and until all have, a look-up looks into
// both:
//
//     slots  | a |   | c |   |   |   |   |   |    the larger table: what moved, and what is new
//     from   | a | c | b | d |                    the smaller one: b and d are still to be moved
//              moved --^
//
// Before the log drops a cut, the ids that were added since the last time are written to a new file
// (recent_ids_file.c), and the next start reads the files; docs/formats/log.md has the bytes. So
// each id is in the log or in a file at every moment.
//
// Threads: one at a time may add, save and load (the head does so under head.removing); any may
// call recent_ids_has. The lock here is taken last of all.
#pragma once

#include "base/buf.h"
#include "model/loose.h"

#include <pthread.h>

#define RECENT_IDS_NS ((uint64_t)1800 * 1000000000)

// By both clocks: nobody knows how far the wall clock will jump.
struct recent_moment {
    uint64_t mono_ns;
    int64_t wall_ns;
};

#define RECENT_GROUPS 1024

// A set of groups. The last one has the ids whose tenant nobody knows, from files of format 1.
struct recent_groups {
    bool has[RECENT_GROUPS + 1];
};

struct recent_generation {
    struct recent_slot *slots;  // a power of two of them
    size_t size;
    size_t n;
    uint64_t since_ns;           // monotonic
    struct recent_moment until;  // of an old one: when it became that
    struct recent_slot *from;  // a smaller table whose keys are on their way into `slots`, or NULL
    size_t from_size;
    size_t moved;  // of its slots, those that were visited
};

struct recent_faint {
    uint32_t *words;  // blocks of RECENT_BLOCK
    size_t blocks;
    struct recent_moment until;  // its newest id is not newer
    struct recent_groups groups;
};
#define RECENT_BLOCK     8
#define RECENT_FAINT_MAX 64

struct recent_ids {
    pthread_rwlock_t lock;
    struct mem_budget *budget;
    struct recent_generation young;
    struct recent_generation old;
    struct recent_faint faint[RECENT_FAINT_MAX];  // oldest first
    size_t faint_count;
    // Of each group: ids that were added later are known; zeros: all are.
    struct recent_moment let_go[RECENT_GROUPS + 1];
    uint64_t losses;  // how often ids became faint or were let go
    bool fresh;       // some ids are in no file yet
    _Atomic size_t longest;
};

void recent_ids_init(struct recent_ids *p, struct mem_budget *budget);
void recent_ids_release(struct recent_ids *p);

// Makes room for up to n more ids and forgets those that are due. most: bytes that one generation
// may take. Returns for how many there is room: at least 1, unless there is no memory.
size_t recent_ids_room(struct recent_ids *p, size_t n, size_t most);

// Remembers the id of a row, in a few steps and without allocating; without room it is let go.
void recent_ids_add(struct recent_ids *p, str tenant, struct loose_key key);
bool recent_ids_has(struct recent_ids *p, str tenant, struct loose_key key);

// Whether a faint generation may have it.
bool recent_ids_may_have(struct recent_ids *p, str tenant, struct loose_key key);

// Whether ids of the tenant were let go that still matter: of rows that left the head until *when,
// and came before that. any: of any tenant.
bool recent_ids_lack(struct recent_ids *p, str tenant, struct recent_moment *when);
bool recent_ids_lack_any(struct recent_ids *p, struct recent_moment *when);

// Changes when what these three say changes, but for new ids. Who asks them one after the other
// asks again if it did meanwhile.
uint64_t recent_ids_losses(struct recent_ids *p);

// The most slots that were moved under one hold of the lock while no id was added, since the start.
size_t recent_ids_longest(const struct recent_ids *p);

// ---- over an end of the process

// Writes the ids that are in no file yet into a new file below `dir` (made if need be), durably,
// and removes files that are too old. memory: for the file's bytes. After a failure the next call
// writes the ids.
bool recent_ids_save(struct recent_ids *p, const char *dir, struct mem_budget *memory,
                     err *e) MUST_CHECK;

// Reads all files that are young enough. Fails if one could not be read; the others were.
bool recent_ids_load(struct recent_ids *p, const char *dir, size_t most, struct mem_budget *memory,
                     err *e) MUST_CHECK;

// For recent_ids_file.c: keys as bytes, tenant and series as one number (8, little-endian), id (16)
// and the tenant's group (2, little-endian), which keys of format 1 do not have.
#define RECENT_IDS_KEY   26
#define RECENT_IDS_KEY_1 24
void recent_ids_fresh(struct recent_ids *p, struct buf *out);  // appends those in no file yet
void recent_ids_note_saved(struct recent_ids *p, str keys,
                           bool saved);  // whether these were written
void recent_ids_add_saved(struct recent_ids *p, str keys, size_t key_bytes, size_t most);
