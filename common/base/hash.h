// SPDX-License-Identifier: Apache-2.0
//
// hash.h - XXH64 (seed 0), the one hash of wire and placement formats, a keyed hash for tables that
// strangers fill, and CRC32C of storage.
//
// XXH64 as https://github.com/Cyan4973/xxHash specifies it; CRC32C is the Castagnoli polynomial
// 0x1EDC6F41 reflected, as in RFC 3720 appendix B.4.
#pragma once

#include "base/str.h"

uint64_t hash_bytes(const void *p, size_t n);
uint64_t hash_str(str s);

// The keyed hash, for tables inside one process only: words are added to secret random ones and
// multiplied, and both halves of the 128-bit product folded into the next pair.
//
// Why that protects a table: for keys chosen without knowledge of the secret, two of them collide
// with about the probability of chance (multiplication by a random factor is near-universal), so
// whatever a sender prepares makes chains no longer than ordinary names do. To do better he would
// have to learn of collisions, but hashes leave the process in no form: no row number, no order and
// no message depends on them, keys are drawn anew for each table (sys/rand.h), and a chain that is
// one step longer is nanoseconds within a request of a millisecond. Unlike the hashes that this is
// akin to, no operand is a public constant, so no input makes a factor 0 and cancels what came
// before. XXH64 and hash_mix protect nothing, seeded or not.
struct hash_key {
    uint64_t k[4];
};
#define HASH_KEY_PUBLIC                                                                \
    ((struct hash_key){{0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, \
                        0x082efa98ec4e6c89u}}) /* for tables that nobody seeds */

uint64_t hash_keyed(const struct hash_key *key, const void *p, size_t n);

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// One word, or an even number of them, of which there are always as many in a table.
static inline uint64_t hash_word(const struct hash_key *key, uint64_t word)
{
    return hash_fold(hash_fold(word ^ key->k[0], key->k[1]) ^ key->k[2], key->k[3]);
}
static inline uint64_t hash_words(const struct hash_key *key, const uint64_t *words, size_t n)
{
    uint64_t h = key->k[1];
    for (size_t i = 0; i < n; i += 2)
        h = hash_fold(words[i] ^ key->k[0], words[i + 1] ^ h);
    return hash_fold(h ^ key->k[2], key->k[3]);
}

// Mixes a further word into a hash; for keys made of several parts inside one process only.
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

// A running XXH64 over parts; the value equals hash_bytes of their concatenation.
struct hash_state {
    _Alignas(16) unsigned char opaque[128];
};
void hash_begin(struct hash_state *h);
void hash_add(struct hash_state *h, const void *p, size_t n);
uint64_t hash_end(const struct hash_state *h);

// CRC32C of n bytes, continuing from crc (0 to begin).
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
