// SPDX-License-Identifier: Apache-2.0
//
// hash.h - XXH64 (seed 0) for formats and placement, a keyed hash for tables that clients fill, and
// CRC32C for storage.
//
// Tables use hash_table_*, which the process keys at its start. XXH64 and hash_mix are for hashes
// that are stored, sent or decide a place: all nodes must come to the same number, so anyone can
// make texts that collide. Files that use them are listed with the reason in common/HASHES, which
// tests/lint checks.
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
// the keys of an attacker make chains no longer than ordinary names do. To do better he would have
// to learn of collisions. But hashes leave the process in no form: no row number, no order and no
// message depends on them, keys are drawn anew by each process (sys/rand.h), and a chain that is
// one step longer costs nanoseconds within a request of a millisecond. Unlike in similar hashes no
// operand is a public constant, so no input can make a factor 0 and cancel the words before it.
// XXH64 and hash_mix protect nothing, seeded or not.
//
// Why not SipHash-1-3: it also protects tables whose hashes or order an attacker can see, which
// this hash is not known to do. Here they are not visible, and pushes would pay for it. Measured in
// instructions (callgrind, the same code with either hash): a string of 24 bytes takes 159 instead
// of 51, a row of two words 121 instead of 30, one word 84 instead of 12; all that the distributor
// does with a push (bench.decode) takes 9 % to 19 % more, and 8 % to 14 % more with a lexicon that
// knows its stacks. A table whose hashes or order leave the process must have SipHash.
struct hash_key {
    uint64_t k[4];
};
// A public key, for processes that do not call hash_seed.
#define HASH_KEY_PUBLIC_INIT                                                                   \
    {                                                                                          \
        {                                                                                      \
            0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u \
        }                                                                                      \
    }
#define HASH_KEY_PUBLIC ((struct hash_key)HASH_KEY_PUBLIC_INIT)

uint64_t hash_keyed(const struct hash_key *key, const void *p, size_t n);

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// The hash of one word; and of an even number of words, the same number for all rows of a table.
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

// ---- tables

// The key of the process: HASH_KEY_PUBLIC until hash_seed, which a program calls first thing,
// before it has a table or a second thread. Tests and fuzz targets may leave it or set another one.
extern struct hash_key hash_table_key;
void hash_seed(struct hash_key key);

static inline uint64_t hash_table_bytes(const void *p, size_t n)
{
    return hash_keyed(&hash_table_key, p, n);
}
static inline uint64_t hash_table_str(str s)
{
    return hash_keyed(&hash_table_key, s.p, s.n);
}
static inline uint64_t hash_table_word(uint64_t word)
{
    return hash_word(&hash_table_key, word);
}

// Extends hash h by a further part, which is a hash or any other word.
static inline uint64_t hash_table_and(uint64_t h, uint64_t part)
{
    const struct hash_key *key = &hash_table_key;
    return hash_fold(hash_fold(part ^ key->k[0], h ^ key->k[1]) ^ key->k[2], key->k[3]);
}

// Mixes a further word into a hash, unkeyed.
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
