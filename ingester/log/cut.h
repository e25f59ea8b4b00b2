// SPDX-License-Identifier: Apache-2.0
//
// cut.h - a cut: the part of a stream that is closed, flushed and dropped as a whole.
//
// A stream is what one ingester process appends from its start (or from the last write error) on; a
// ULID names it. Its entries are numbered 1, 2, ... (seq) and fall into cuts 1, 2, ... in order. A
// cut closes by size or age of arrival, never by profile time.
//
//     OPEN --size, age, end of its stream--> CLOSED --older than head_age--> dropped
//
// Ages are counted by the boot clock (sys/clock.h), which no jump of the wall clock changes. For a
// cut that was found at a start the log makes of its wall times what the boot clock would have
// been.
//
// The log (wal.h) owns the cuts and changes them; rows of the head point to theirs. A cut goes away
// only after its rows did. `hours` has a lock of its own, so that who publishes rows needs no
// other.
#pragma once

#include "base/ulid.h"
#include "sys/lock.h"

#include <stdatomic.h>

#define CUT_HOURS 24

// Hours of profile time that occur in a cut (model/slot.h). The rule is one or two; beyond
// CUT_HOURS of them the span from first to last stands for all.
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
    uint64_t read_seq;    // up to here the head was given them
    uint64_t bytes;       // of its entries
    uint64_t news_bytes;  // of these, what they bring besides their rows; 0 in one that was found
    uint64_t rows;        // the same, or ROWS_UNKNOWN: a log that is damaged or of an older program
    uint64_t lost_entries;   // acknowledged, and not readable any more
    uint64_t lost_rows;      // at least
    int64_t opened_wall_ns;  // arrival of its first entry
    int64_t newest_wall_ns;  // of its last; for a cut found open at a start: not before it
    int64_t opened_boot_ns;  // these two by the boot clock; of the first only of an own cut
    int64_t newest_boot_ns;
    int64_t found_wall_ns;  // when a cut of an earlier process was found,
    int64_t found_boot_ns;  // by both clocks; 0: it is of this one
    bool closed;
    bool in_doubt;        // a write into it failed: what it holds is known when it was read again
    uint32_t pins;        // appends between log and head; keep it from being dropped
    void *family;         // the log's handle
    atomic_bool dropped;  // the head has let its rows go
    struct lock lock;     // of hours
    struct cut_hours hours;
};

// Notes that a row of this profile time is in the cut. Any thread.
void cut_note(struct cut *c, int64_t time_ns);

// The noted hours within [first, last], at most max of them, ascending. Any thread.
size_t cut_hours_within(struct cut *c, int64_t first, int64_t last, int64_t *out, size_t max);
