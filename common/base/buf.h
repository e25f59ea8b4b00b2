// SPDX-License-Identifier: Apache-2.0
//
// buf.h - bytes that grow, up to a cap fixed at birth.
//
// Failure is sticky: after a put that did not fit, or for which there was no memory, the buf stays
// `failed` and takes nothing more, so a writer builds straight through and asks buf_ok() once.
// Counted against a budget if it has one. Owned by one thread at a time. The zero value is an empty
// buf with cap 0; buf_release is idempotent.
#pragma once

#include "base/mem.h"
#include "base/str.h"

struct buf {
    char *p;
    size_t n;     // bytes in use
    size_t room;  // bytes allocated; 0 while n > 0: the bytes are lent (buf_lend)
    size_t cap;   // n never exceeds this
    struct mem_budget *budget;
    bool failed;
    bool starved;  // failed because memory was short, not because of the cap
};

void buf_init(struct buf *b, struct mem_budget *budget, size_t cap);
void buf_release(struct buf *b);

// An uncounted buf with these bytes, to which nothing can be added. Borrows them until released.
void buf_lend(struct buf *b, str bytes);
void buf_clear(struct buf *b);  // empty, not failed, memory kept

// n writable bytes at the end, to be committed by adding to b->n; NULL when they do not fit
// (and for n == 0 while there is no memory yet, which is no failure).
char *buf_reserve(struct buf *b, size_t n);

void buf_put(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, str s);
void buf_z(struct buf *b, const char *z);
void buf_byte(struct buf *b, unsigned char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_u64(struct buf *b, uint64_t v);  // decimal
void buf_i64(struct buf *b, int64_t v);

// A paragraph of a page in Markdown, as lines of at most BUF_PAGE_COLUMNS characters. It is broken
// at spaces, but not inside `code`, and not before a word that would begin a list or a heading.
#define BUF_PAGE_COLUMNS 100
void buf_paragraph(struct buf *b, const char *text);

// The written bytes; borrows until the next change.
str buf_view(const struct buf *b);

// True unless a put failed; otherwise resource_exhausted with the cap.
bool buf_ok(const struct buf *b, err *e) MUST_CHECK;

// Marks it as failed because memory was short: for a caller that could not make the content.
void buf_starve(struct buf *b);

// Moves the bytes out; the source becomes empty.
struct buf buf_take(struct buf *b);
