// SPDX-License-Identifier: Apache-2.0
//
// hash.h - XXH64 (seed 0), the one hash of wire and placement formats, SipHash of tables that
// strangers fill, and CRC32C of storage.
//
// XXH64 as https://github.com/Cyan4973/xxHash specifies it; CRC32C is the Castagnoli polynomial
// 0x1EDC6F41 reflected, as in RFC 3720 appendix B.4.
#pragma once

#include "base/str.h"

uint64_t hash_bytes(const void *p, size_t n);
uint64_t hash_str(str s);

// SipHash-1-3 (Aumasson, Bernstein): whoever does not know the key cannot make keys of a table that
// collide. For tables inside one process only. Neither XXH64 nor hash_mix can do that, seeded or
// not.
struct hash_key {
    uint64_t k[2];
};
uint64_t hash_keyed(struct hash_key key, const void *p, size_t n);

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
