// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <pthread.h>

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
