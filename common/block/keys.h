// SPDX-License-Identifier: Apache-2.0
//
// keys.h - the label sets of the keys of a service's block, and which keys a selector means.
//
// Names and values are stored once, sorted. Each name has a column that says which value each key
// has, as runs where neighbouring keys have the same (keys_int.h has the bytes, and why there is no
// set for each value). A regex runs once for each distinct value of its label. The bytes are part
// of the index section (docs/formats/block.md). Labels are UTF-8; those of a key are in order,
// names unique.
#pragma once

#include "block/block.h"

struct block_postings;

// A set of keys, one bit each.
struct block_set {
    uint64_t *words;
    size_t n;
};
static inline bool block_set_has(const struct block_set *s, uint32_t key)
{
    assert(key / 64 < (s->n + 63) / 64);
    return s->words[key / 64] >> (key % 64) & 1;
}

// Label sets of n keys -> bytes.
bool block_postings_encode(struct arena *scratch, const labels *keys, uint32_t n, struct buf *out,
                           err *e) MUST_CHECK;

// Bytes -> postings and the label set of each of the n keys (strings borrow from the bytes).
bool block_postings_parse(struct arena *a, str bytes, uint32_t n, const struct block_postings **out,
                          labels **keys, err *e) MUST_CHECK;

// The keys for which all matchers hold. A label that a key does not have is the empty value.
bool block_select(const struct block_postings *p, struct arena *a, const struct selector *sel,
                  struct block_set *out, err *e) MUST_CHECK;
