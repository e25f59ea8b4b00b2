// SPDX-License-Identifier: Apache-2.0
//
// XXH64 and CRC32C have their published values; the keyed hash reads every bit and spreads.
#include "base/hash.h"
#include "lib/test.h"

static void xxh64_has_its_published_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {
        {"", 0xef46db3751d8e999u},
        {"a", 0xd24ec4f1a98c6e5bu},
        {"abc", 0x44bc2cf5ad770999u},
        {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1u},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (hash_str(str_of(cases[i].text)) != cases[i].want) fail_msg("\"%s\"", cases[i].text);
    }
    assert_true(hash_str((str){0}) == cases[0].want);
}

static void parts_hash_as_their_concatenation(void **state)
{
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31);
    for (size_t cut = 0; cut <= sizeof text; cut++) {
        struct hash_state h;
        hash_begin(&h);
        hash_add(&h, text, cut);
        hash_add(&h, NULL, 0);
        hash_add(&h, text + cut, sizeof text - cut);
        assert_true(hash_end(&h) == hash_bytes(text, sizeof text));
    }
}

static const struct hash_key keys[] = {
    HASH_KEY_PUBLIC,
    {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u, 0x1716151413121110u, 0x1f1e1d1c1b1a1918u}},
};

static int popcount(uint64_t v)
{
    return __builtin_popcountll(v);
}

// Every byte, the length and the key reach about half of the upper bits, which tables use.
static void the_keyed_hash_depends_on_every_bit(void **state)
{
    (void)state;
    unsigned char text[100];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 31);
    assert_true(hash_keyed(&keys[0], NULL, 0) == hash_keyed(&keys[0], "", 0));
    for (size_t n = 1; n <= sizeof text; n++) {
        uint64_t all = hash_keyed(&keys[0], text, n);
        assert_true(popcount(all ^ hash_keyed(&keys[0], text, n - 1)) > 8);
        assert_true(popcount(all ^ hash_keyed(&keys[1], text, n)) > 8);
        int sum = 0;
        for (size_t bit = 0; bit < 8 * n; bit++) {
            text[bit / 8] ^= (unsigned char)(1 << bit % 8);
            int changed = popcount((all ^ hash_keyed(&keys[0], text, n)) >> 32);
            text[bit / 8] ^= (unsigned char)(1 << bit % 8);
            if (changed < 3) fail_msg("%zu bytes, bit %zu: %d", n, bit, changed);
            sum += changed;
        }
        double mean = sum / (8.0 * (double)n);
        if (mean < 14 || mean > 18) fail_msg("%zu bytes: %f", n, mean);
    }
}

static void the_keyed_hash_reads_the_same_bytes_wherever_they_are(void **state)
{
    (void)state;
    static const char text[] = "net/http.(*conn).serve.func1.deferwrap2.inlined";
    char room[sizeof text + 8];
    for (size_t n = 0; n < sizeof text; n++) {
        uint64_t want = hash_keyed(&keys[1], text, n);
        for (size_t at = 0; at < 8; at++) {
            memset(room, (int)at, sizeof room);
            memcpy(room + at, text, n);
            assert_true(hash_keyed(&keys[1], room + at, n) == want);
        }
    }
}

enum {
    ROWS = 1 << 12,
    SLOTS = 2 * ROWS
};

static uint64_t hash_shifted(const struct hash_key *key, int kind, uint64_t v)
{
    const uint64_t words[] = {kind == 1 ? v : 0, kind == 1 ? 0 : v, 7, 0};
    return kind == 0 ? hash_word(key, v) : hash_words(key, words, COUNT(words));
}

// Rows that find their slot taken.
static unsigned count_met(const struct hash_key *key, int kind, unsigned shift)
{
    static bool taken[SLOTS];
    unsigned met = 0;
    memset(taken, 0, sizeof taken);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t v = i << shift | i >> 1 >> (63 - shift);
        bool *slot = &taken[hash_shifted(key, kind, v) >> 32 & (SLOTS - 1)];
        met += *slot;
        *slot = true;
    }
    return met;
}

// Small numbers, which rows are made of, must not crowd a table: of n rows in 2n slots about a
// fifth share one with a row before them.
static void words_that_differ_little_spread(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(keys); k++) {
        for (unsigned shift = 0; shift < 64 * 3; shift += 4) {
            unsigned met = count_met(&keys[k], (int)(shift / 64), shift % 64);
            if (met > ROWS / 3) fail_msg("key %zu shift %u: %u", k, shift, met);
        }
    }
}

static void crc32c_has_the_values_of_rfc_3720(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0};
    unsigned char ones[32];
    unsigned char up[32];
    memset(ones, 0xff, sizeof ones);
    for (size_t i = 0; i < sizeof up; i++)
        up[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aau);
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43u);
    assert_int_equal(crc32c(0, up, 32), 0x46dd794eu);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(0, "", 0), 0);
    for (size_t cut = 0; cut <= 32; cut++) {
        assert_int_equal(crc32c(crc32c(0, up, cut), up + cut, 32 - cut), 0x46dd794eu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xxh64_has_its_published_values),
        cmocka_unit_test(parts_hash_as_their_concatenation),
        cmocka_unit_test(the_keyed_hash_depends_on_every_bit),
        cmocka_unit_test(the_keyed_hash_reads_the_same_bytes_wherever_they_are),
        cmocka_unit_test(words_that_differ_little_spread),
        cmocka_unit_test(crc32c_has_the_values_of_rfc_3720),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
