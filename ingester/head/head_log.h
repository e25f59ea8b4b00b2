// SPDX-License-Identifier: Apache-2.0
//
// head_log.h - from staged rows to the bytes of the log (message LogRows); private to head*.c.
//
// An entry of the log is written from the staged rows, not from the batch that was pushed: vectors
// have stack ids of the service's own table, and series are numbers in its index. The rows of these
// tables (strings, functions, mappings, frames, stacks, label sets) are in the log once per service
// and cut: an entry *brings* those that its own rows need and no earlier entry of the cut brought,
// each under its number.
//
//     entry 1    rows of profile A     brings strings 1-9, frames 1-7, stacks 1-7, series 0 1
//     entry 2    rows of profile B     brings string 10, frame 8, stack 8
//     entry 3    rows of profile C     brings nothing
//
// Numbers are valid as long as the tables. A service that is made anew, or replaced by a compacted
// copy, has a new table number (service.table), which its entries name.
//
// Two pushes may reach the log in another order than they were staged. So the rows that an entry
// brings are chosen when its place in the log is known: the log calls head_log_news in the order of
// entries. Two bits for each row of a table decide: the cut has it (`had`); this entry brings it
// (`brings`). Staging notes only which rows are not marked yet, so an entry that brings nothing
// needs no lock and no walk. Marks are valid for one *run* of the log (wal.h); the next run begins
// with nothing marked.
//
// A read-back (head_restore.c) gives each row that an entry brings its number in the new tables. A
// row of an unreadable entry gets none. Entries that refer to it are refused; nothing is ever taken
// for something else.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum log_table {
    LOG_STRINGS,
    LOG_FUNCTIONS,
    LOG_MAPPINGS,
    LOG_FRAMES,
    LOG_STACKS,
    LOG_SERIES,
    LOG_TABLES
};

// Fields of message LogRows.
enum {
    LOG_SERVICE = 1,
    LOG_TABLE = 2,
    LOG_RECORD = 4,  // as in Batch
    LOG_BRINGS = 5,  // + enum log_table
    LOG_PLACING = LOG_BRINGS + LOG_TABLES,
};

struct service_head;

// Two bits for each row of each table, in one allocation.
struct marks {
    uint64_t run;  // that they are of
    uint64_t *bits;
    size_t words;  // of bits
    struct {
        uint32_t at;     // where its words begin in bits: first `had`, then as many of `brings`
        uint32_t words;  // of each
    } t[LOG_TABLES];
};

// Room for all rows that the service has now. With its lock for writing.
bool marks_room(struct service_head *s, err *e) MUST_CHECK;
void marks_release(struct service_head *s);

static inline bool marks_have(const struct marks *m, enum log_table table, uint32_t row)
{
    return row / 64 < m->t[table].words && m->bits[m->t[table].at + row / 64] >> (row % 64) & 1;
}

// The news of one entry: rows are added, then written, after which they are marked as had. From
// news_begin to news_write no other thread uses the marks.
struct news {
    struct service_head *service;
    uint32_t low[LOG_TABLES];  // words with bits of `brings`: [low, high)
    uint32_t high[LOG_TABLES];
};
void news_begin(struct news *n, struct service_head *s, uint64_t run);
void news_stack(struct news *n, uint32_t stack);  // with its ancestors and what they refer to
void news_series(struct news *n, uint32_t series);
void news_write(struct news *n, struct buf *out);

// ---- from the log (head_stage.c)

// Which row of the service's table a number of the log stands for: row + 1; 0, or behind the end:
// the log does not have it.
struct numbers {
    uint32_t *v[LOG_TABLES];
    size_t cap[LOG_TABLES];
};

static inline uint32_t numbers_get(const struct numbers *n, enum log_table table, uint64_t row)
{
    return row < n->cap[table] ? n->v[table][row] : 0;
}
