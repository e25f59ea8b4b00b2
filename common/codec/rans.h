// SPDX-License-Identifier: Apache-2.0
//
// rans.h - packs numbers to nearly their entropy, using facts that the reader knows before it reads
// a number.
//
// These facts make the number's *context*: for example, how large the last numbers were. Each
// context has a table with the frequencies of its numbers. A number costs -log2 of its frequency,
// even a fraction of a bit, which Huffman codes (zstd's literals) cannot reach. Similar contexts
// share a table: the writer joins neighbours of one kind if that costs less.
//
//     number  -> token and bits   below 8: the number; else power of two and the bit below it, and
//                                 the lower bits as they are
//     tokens  -> words            range asymmetric numeral systems (J. Duda, arXiv:1311.2540), two
//                                 states that take turns, frequencies of 10 bits
//
// docs/formats/block.md has the bytes. Damaged bytes never do harm: the reader returns some numbers
// and sets `bad`, at the latest in rans_done. The caller must limit how many numbers it asks for,
// because a number may cost no bytes.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "codec/varint.h"

#define RANS_CONTEXTS_MAX 80
#define RANS_BITS         10
#define RANS_DIRECT       8  // tokens that are the number
#define RANS_TOKENS       (RANS_DIRECT + 2 * 61)

struct rans_writer {
    uint16_t *tokens;  // context and token, in the order of rans_put
    size_t n;
    size_t most;
    struct buf bits;
    uint64_t held;  // bits that are no whole byte yet
    unsigned held_bits;
};

// At most so many numbers; the tokens are the arena's. To be released.
bool rans_begin(struct rans_writer *x, struct arena *a, struct mem_budget *memory, size_t most,
                err *e) MUST_CHECK;
void rans_put(struct rans_writer *x, unsigned context, uint64_t v);
// Appends all to *out. kinds[context]: only contexts of one kind may share a table.
bool rans_end(struct rans_writer *x, struct arena *a, const uint8_t *kinds, unsigned contexts,
              struct buf *out, err *e) MUST_CHECK;
void rans_release(struct rans_writer *x);

struct rans_reader {
    const uint32_t *tables[RANS_CONTEXTS_MAX];  // by slot: token, frequency, addend
    uint32_t states[2];
    const uint8_t *words;  // may pass the end, which is bad
    const uint8_t *words_last;
    const uint8_t *bits;
    const uint8_t *bits_end;
    uint64_t held;
    unsigned held_bits;
    bool bad;
};

// Were more words or bits asked for than there are, or were the tables damaged?
static inline bool rans_is_bad(const struct rans_reader *r)
{
    return r->bad || r->words > r->words_last + 2;
}

// The tables are the arena's: 4 KiB each, one for a context at most. False only if they do not fit;
// damaged bytes set `bad`.
bool rans_open(struct rans_reader *r, struct arena *a, str bytes, unsigned contexts) MUST_CHECK;
uint64_t rans_bits_slow(struct rans_reader *r, unsigned n);  // when fewer than n are held
bool rans_done(const struct rans_reader *r) MUST_CHECK;      // all was read, and nothing was bad

// The next n bits, at most 32.
static inline uint64_t rans_bits(struct rans_reader *r, unsigned n)
{
    if (r->held_bits < n) return rans_bits_slow(r, n);
    uint64_t v = r->held & ((UINT64_C(1) << n) - 1);
    r->held >>= n;
    r->held_bits -= n;
    return v;
}

static inline uint64_t rans_get(struct rans_reader *r, unsigned context)
{
    uint32_t x = r->states[0];
    uint32_t slot = r->tables[context][x & ((1u << RANS_BITS) - 1)];
    x = (slot >> 8 & 0x7ff) * (x >> RANS_BITS) + (slot >> 19);
    // Whether a word is needed is unpredictable, so no branch depends on it. Beyond the end the
    // last word is read again, and rans_is_bad.
    uint32_t needs = x < 1u << 16;
    const uint8_t *w = r->words < r->words_last ? r->words : r->words_last;
    uint32_t more = x << 16 | (uint32_t)w[0] | (uint32_t)w[1] << 8;
    x = needs ? more : x;
    r->words += (size_t)needs * 2;
    r->states[0] = r->states[1];
    r->states[1] = x;
    unsigned token = slot & 0xff;
    if (token < RANS_DIRECT) return token;
    unsigned bits = (token - RANS_DIRECT) / 2 + 2;
    uint64_t top = (UINT64_C(2) | (token & 1)) << bits;
    if (bits <= 32) return top | rans_bits(r, bits);
    uint64_t low = rans_bits(r, 32);
    return top | low | rans_bits(r, bits - 32) << 32;
}
