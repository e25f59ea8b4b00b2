// SPDX-License-Identifier: Apache-2.0
//
// hash.c - XXH64 by its library, the keyed hash of tables, and CRC32C by the processor or by a
// table.
#include "base/hash.h"

#include <pthread.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static_assert(sizeof(struct hash_state) >= sizeof(XXH64_state_t), "xxhash grew its state");

uint64_t hash_bytes(const void *p, size_t n)
{
    return XXH64(n ? p : "", n, 0);  // p may be NULL then, which XXH64 does not promise to take
}

uint64_t hash_str(str s)
{
    return hash_bytes(s.p, s.n);
}

void hash_begin(struct hash_state *h)
{
    XXH64_reset((XXH64_state_t *)h->opaque, 0);
}

void hash_add(struct hash_state *h, const void *p, size_t n)
{
    if (n) XXH64_update((XXH64_state_t *)h->opaque, p, n);
}

uint64_t hash_end(const struct hash_state *h)
{
    return XXH64_digest((const XXH64_state_t *)h->opaque);
}

// ---- the keyed hash

struct hash_key hash_table_key = HASH_KEY_PUBLIC_INIT;

void hash_seed(struct hash_key key)
{
    // Before any table is made: hashes of two keys do not fit together.
    hash_table_key = key;
}

static uint64_t word_at(const unsigned char *p)
{
    uint64_t word = 0;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint64_t half_at(const unsigned char *p)
{
    uint32_t half = 0;
    memcpy(&half, p, sizeof half);
    return half;
}

uint64_t hash_keyed(const struct hash_key *key, const void *p, size_t n)
{
    const unsigned char *at = p;
    uint64_t h = key->k[1];
    uint64_t a = 0;
    uint64_t b = 0;
    size_t left = n;
    for (; left > 16; left -= 16, at += 16)
        h = hash_fold(word_at(at) ^ key->k[0], word_at(at + 8) ^ h);
    if (n > 16) {  // the last two words overlap words that the loop has read
        a = word_at(at + left - 16);
        b = word_at(at + left - 8);
        // Two words that overlap, so that all lengths from 8 to 16 take the same way.
    } else if (n >= 8) {
        a = word_at(at);
        b = word_at(at + n - 8);
    } else if (n >= 4) {
        a = half_at(at);
        b = half_at(at + n - 4);
    } else {
        for (size_t i = 0; i < n; i++)
            a = a << 8 | at[i];
    }
    return hash_fold(hash_fold(a ^ key->k[2], b ^ h) ^ key->k[3], key->k[1] ^ n);
}

// ---- CRC32C

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        // 0x82f63b78: the polynomial of Castagnoli, its bits in reverse order.
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

// For processors without the CRC32 instruction of SSE 4.2.
static uint32_t crc_by_table(uint32_t c, const unsigned char *p, size_t n)
{
    pthread_once(&table_once, table_fill);
    while (n--)
        c = table[(c ^ *p++) & 0xff] ^ c >> 8;
    return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_cpu(uint32_t c, const unsigned char *p,
                                                             size_t n)
{
    uint64_t wide = c;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word = 0;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    c = (uint32_t)wide;
    while (n--)
        c = __builtin_ia32_crc32qi(c, *p++);
    return c;
}
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc_by_cpu(~crc, p, n);
#endif
    return ~crc_by_table(~crc, p, n);
}
