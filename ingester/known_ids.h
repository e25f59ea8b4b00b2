// SPDX-License-Identifier: Apache-2.0
//
// known_ids.h - whether this ingester knows the ids of all profiles that it took lately.
//
// A push that comes again within half an hour (RECENT_IDS_NS) is recognised by its ids. Those are
// in the head while the log has the rows, and in head/recent_ids.h and its files afterwards. An
// earlier process of this node may have taken profiles whose ids are in neither:
//
//     the data directory is a new one       ids went with the former one
//     another node took a stream over       it flushed rows that this process never had
//     the log is damaged                    what cannot be read may have been flushed before
//     a file of ids is not there, or bad    a disk was full, or lost it
//
// Then the home of a record cannot tell whether it has taken it before, and for half an hour it
// takes records that may be repeated as loose (model/loose.h): those with a client's id, if their
// time is not later than any that the earlier process can have taken.
//
// The file <data>/ingester/past/known says since when all ids are known, for the next process. In a
// store that is empty there is nothing to be repeated, so the first start of a cluster knows all.
//
// Any thread may ask known_ids_may_repeat; the others take turns by a lock.
#pragma once

#include "base/err.h"
#include "base/ulid.h"
#include "store/store.h"
#include "sys/lock.h"

struct node_identity;
struct registered;

struct known_ids {
    struct lock lock;  // of the next three, and of the file
    char *path;
    bool read;
    bool decided;
    _Atomic int64_t since_wall_ns;   // ids of rows that were taken later are known
    _Atomic uint64_t until_mono_ns;  // so long others may be repeated
};

// Until it is decided, every record may be repeated.
void known_ids_init(struct known_ids *k, const char *data_dir);
void known_ids_release(struct known_ids *k);

// There is no store that could have rows of an earlier process.
void known_ids_need_none(struct known_ids *k);

// Reads the file, once the log and the files of ids were read. `why` is NULL if they had all that
// the earlier process left in this directory; else it says what is missing.
void known_ids_read(struct known_ids *k, const char *why);

// If there was no file: an empty store decides, else ids are known from now on. `list` is a list of
// streams that this process took. False: the store failed; call again.
bool known_ids_settle(struct known_ids *k, struct store *s, struct req *r,
                      const struct registered *list, const struct node_identity *me,
                      err *e) MUST_CHECK;

// Ids that left the head could not be written, or all of them were after such a failure.
void known_ids_note_unsaved(struct known_ids *k);
void known_ids_note_saved(struct known_ids *k);

// For how long back ids are known; at most RECENT_IDS_NS.
uint64_t known_ids_ns(const struct known_ids *k);

// Whether a row of this time may have been taken before, and its id not be known. ahead_ns: how far
// ahead of this node's clock times of profiles may be; INT64_MAX: no limit.
bool known_ids_may_repeat(const struct known_ids *k, int64_t time_ns, int64_t ahead_ns);
