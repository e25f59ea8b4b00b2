// SPDX-License-Identifier: Apache-2.0
//
// head_log.h - between the head and the bytes of the log (message LogRows); private to head*.c.
//
// An entry of the log is written from what was staged, not from the batch that came: vectors have
// the stack ids of the service's own table, series their numbers in its index. What these mean,
// names, frames, stacks, label sets, is in the log once per service and cut: an entry brings those
// rows of the tables that its own rows need and that no earlier entry of the cut brought, each
// under its number.
//
//     entry 1    rows of profile A     brings strings 1-9, frames 1-7, stacks 1-7, series 0 1
//     entry 2    rows of profile B     brings string 10, frame 8, stack 8
//     entry 3    rows of profile C     brings nothing
//
// Numbers hold as long as the tables: a service that is made anew, or whose tables are compacted,
// has another table number (service.table), which its entries name.
//
// Two pushes may reach the log in the other order than they were staged. So what an entry brings is
// decided when its place in the log is known (head_log_news, called by the log in the order of
// entries), by two bits for each row of a table: the cut has it; the entry at hand brings it.
// Staging only notes which rows are not marked yet, so that an entry that brings nothing needs
// neither lock nor walk. Marks are of one *run* of the log (wal.h); in the next nothing is marked.
//
// Reading back (head_restore.c) gives every row that an entry brings its number in the service's
// tables of now. What an entry that cannot be read would have brought has no number, so that
// whatever refers to it is refused, and never taken for something else.
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
};

struct service_head;

// A bit for each row of a table, twice, in one piece: the cut has it, the entry at hand brings it.
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

// What one entry brings: rows are added, then written, after which they are marked as had. Between
// the two nobody else uses the marks.
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

// Which rows of the service's tables an entry means: number + 1 by row of the entry; 0 or behind
// the end: the log does not have it.
struct numbers {
    uint32_t *v[LOG_TABLES];
    size_t cap[LOG_TABLES];
};

static inline uint32_t numbers_get(const struct numbers *n, enum log_table table, uint64_t row)
{
    return row < n->cap[table] ? n->v[table][row] : 0;
}
