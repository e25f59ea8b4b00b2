// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static_assert(sizeof(struct hash_state) >= sizeof(XXH64_state_t), "xxhash grew its state");

uint64_t hash_bytes(const void *p, size_t n)
{
    return XXH64(n ? p : "", n, 0);
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

// ---- SipHash-1-3

static uint64_t turn_left(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn_left(v[1], 13) ^ v[0];
    v[3] = turn_left(v[3], 16) ^ v[2];
    v[0] = turn_left(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = turn_left(v[1], 17) ^ v[2];
    v[3] = turn_left(v[3], 21) ^ v[0];
    v[2] = turn_left(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t hash_keyed(struct hash_key key, const void *p, size_t n)
{
    uint64_t v[4] = {key.k[0] ^ 0x736f6d6570736575u, key.k[1] ^ 0x646f72616e646f6du,
                     key.k[0] ^ 0x6c7967656e657261u, key.k[1] ^ 0x7465646279746573u};
    const unsigned char *at = p;
    uint64_t word = 0;
    uint64_t length = (uint64_t)n << 56;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sip_word(v, le64toh(word));
    }
    word = 0;
    if (n) memcpy(&word, at, n);
    sip_word(v, le64toh(word) | length);
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// ---- CRC32C

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

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
