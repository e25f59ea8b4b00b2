// SPDX-License-Identifier: Apache-2.0
//
// cut.h - a cut: the part of a stream that is closed, flushed and dropped as one unit.
//
// A stream is what one ingester process appends from its start (or from the last write error) on; a
// ULID names it. Its entries are numbered 1, 2, ... (seq) and fall into cuts 1, 2, ... in order. A
// cut closes by size or age of arrival, or when its owner wants it (wal_cut_now), never by profile
// time.
//
//     OPEN --size, age, wish, end of its stream--> CLOSED --older than head_age--> dropped
//
// Ages are counted by the boot clock (sys/clock.h), which no jump of the wall clock changes. For a
// cut that was found at a start, the log derives boot times from the wall times that it has noted.
//
// The log (wal.h) owns the cuts and changes them; rows of the head point to theirs. So a cut is
// freed only after its rows have left the head. `hours` has a lock of its own: a push that
// publishes rows then needs no lock of the log.
#pragma once

#include "base/ulid.h"
#include "sys/lock.h"

#include <stdatomic.h>

#define CUT_HOURS 24

// Hours of profile time of the rows in a cut (model/slot.h). One or two are the rule. Of a cut with
// more than CUT_HOURS only the first and the last are kept, and every hour between counts as there.
struct cut_hours {
    int64_t v[CUT_HOURS];  // ascending while n <= CUT_HOURS
    uint32_t n;            // CUT_HOURS + 1: only first and last are known
    int64_t first;
    int64_t last;
};

#define ROWS_UNKNOWN UINT64_MAX

struct cut {
    id128 stream;
    uint64_t number;
    uint64_t first_seq;  // 0 while it is empty
    uint64_t last_seq;
    uint64_t read_seq;      // the head was given the entries up to this one
    uint64_t bytes;         // of its entries
    uint64_t news_bytes;    // of these, what they bring besides their rows; 0 in one that was found
    uint64_t rows;          // of its entries; at least, until it is read; or ROWS_UNKNOWN (damaged)
    uint64_t lost_entries;  // acknowledged, and not readable any more
    uint64_t lost_rows;     // of these, at least
    int64_t opened_wall_ns;  // arrival of its first entry
    int64_t newest_wall_ns;  // of its last; of a cut that was found open, at least that
    int64_t opened_boot_ns;  // the same two by the boot clock; the first only in an own cut
    int64_t newest_boot_ns;
    int64_t found_wall_ns;  // when a cut of an earlier process was found,
    int64_t found_boot_ns;  // by both clocks; 0: this process made it
    bool closed;
    bool in_doubt;          // a write into it failed, and its log was not read again yet
    uint32_t pins;          // appends between log and head; keep it from being dropped
    void *family;           // the log's handle; of a log in the object store NULL
    uint64_t first_object;  // of a log in the object store: the numbers of its objects,
    uint64_t last_object;
    int64_t until_boot_ns;  // and until when they must stay
    uint32_t adopted;       // which adopted stream it is of (wal.h); 0: of one of this node
    bool picky;             // and an object that cannot be read is a failure: others may read it
    atomic_bool hidden;     // of a log that is being adopted: no reader counts its rows yet
    atomic_bool dropped;    // its rows have left the head, or are leaving: no reader counts them
    struct lock lock;       // of hours
    struct cut_hours hours;
};

// Notes that a row of this profile time is in the cut. Any thread.
void cut_note(struct cut *c, int64_t time_ns);

// The noted hours within [first, last], at most max of them, ascending. Any thread.
size_t cut_hours_within(struct cut *c, int64_t first, int64_t last, int64_t *out, size_t max);
