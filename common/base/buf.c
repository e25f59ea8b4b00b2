// SPDX-License-Identifier: Apache-2.0
//
// buf.c - room that grows up to the cap, and putting bytes, numbers, formats and paragraphs there.
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

void buf_init(struct buf *b, struct mem_budget *budget, size_t cap)
{
    *b = (struct buf){.cap = cap, .budget = budget};
}

void buf_release(struct buf *b)
{
    // Without room the bytes are lent, or there are none.
    if (b->room) mem_free(b->budget, b->p, b->room);
    buf_init(b, b->budget, b->cap);
}

void buf_lend(struct buf *b, str bytes)
{
    buf_init(b, NULL, bytes.n);
    memcpy(&b->p, &bytes.p,
           sizeof b->p);  // casts const away: without room nothing is written there
    b->n = bytes.n;
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = false;
    b->starved = false;
}

static char *refuse(struct buf *b)
{
    b->failed = true;
    return NULL;
}

void buf_starve(struct buf *b)
{
    b->starved = true;
    refuse(b);
}

char *buf_reserve(struct buf *b, size_t n)
{
    assert(b->n <= b->cap);
    if (b->failed || n > b->cap - b->n) return refuse(b);
    if (n <= b->room - b->n) return b->p ? b->p + b->n : NULL;  // nothing fits into no memory
    assert(b->room > 0 || b->n == 0);                           // lent bytes have no cap left
    size_t room = MAX(b->room * 2, (size_t)64);  // doubles, so that n puts copy O(n) bytes in all
    if (room < b->n + n) room = b->n + n;
    if (room > b->cap) room = b->cap;
    err e = {0};
    char *p = mem_resize_bare(b->budget, b->p, b->room, room, &e);
    b->starved = !p;
    if (!p) return refuse(b);
    assert(room >= b->n + n && room <= b->cap);
    b->p = p;
    b->room = room;
    return b->p + b->n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    if (n == 0) return;
    char *at = buf_reserve(b, n);
    if (!at) return;
    memcpy(at, p, n);
    b->n += n;
}

void buf_str(struct buf *b, str s)
{
    buf_put(b, s.p, s.n);
}

void buf_z(struct buf *b, const char *z)
{
    buf_put(b, z, strlen(z));
}

void buf_byte(struct buf *b, unsigned char c)
{
    buf_put(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *at =
        n >= 0 ? buf_reserve(b, (size_t)n + 1) : refuse(b);  // vsnprintf needs room for a NUL
    if (!at) return;
    va_start(ap, fmt);
    vsnprintf(at, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

void buf_u64(struct buf *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    buf_put(b, digits + at, sizeof digits - at);
}

void buf_i64(struct buf *b, int64_t v)
{
    if (v < 0) buf_byte(b, '-');
    buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);  // unsigned: -INT64_MIN would overflow
}

// The length of the first word. A span of code is part of a word, with its spaces.
static size_t word_length(str s)
{
    bool code = false;
    size_t n = 0;
    for (; n < s.n && (code || s.p[n] != ' '); n++)
        code ^= s.p[n] == '`';
    return n;
}

// Would it be read as the beginning of a list item, heading, table or quotation?
static bool is_marker(str word)
{
    size_t digits = 0;
    while (digits < word.n && word.p[digits] >= '0' && word.p[digits] <= '9')
        digits++;
    if (digits) return digits + 1 == word.n && (word.p[digits] == '.' || word.p[digits] == ')');
    return word.n == 1 && strchr("-+*>|#=", word.p[0]);
}

static size_t characters(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

void buf_paragraph(struct buf *b, const char *text)
{
    size_t at = 0;
    for (str rest = str_of(text); rest.n;) {
        str word = str_slice(rest, 0, word_length(rest));
        // A marker stays on the line of the word before it, so the two are one.
        for (;;) {
            str behind = str_slice(rest, word.n + 1, rest.n);
            str next = str_slice(behind, 0, word_length(behind));
            if (!next.n || !is_marker(next)) break;
            word.n += 1 + next.n;
        }
        size_t width = characters(word);
        bool breaks = at && at + 1 + width > BUF_PAGE_COLUMNS;
        if (at) buf_byte(b, breaks ? '\n' : ' ');
        buf_str(b, word);
        at = at && !breaks ? at + 1 + width : width;
        rest = str_slice(rest, word.n + 1, rest.n);
    }
    buf_byte(b, '\n');
}

str buf_view(const struct buf *b)
{
    return (str){b->p, b->n};
}

bool buf_ok(const struct buf *b, err *e)
{
    if (!b->failed) return true;
    if (b->starved) return mem_no_room(b->budget, "more output", b->n, e);
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "output needs more than its %zu bytes (%zu written)",
                   b->cap, b->n);
}

struct buf buf_take(struct buf *b)
{
    struct buf out = *b;
    // The bytes stay counted in the same budget, and the new owner gives them back.
    buf_init(b, b->budget, b->cap);
    return out;
}
