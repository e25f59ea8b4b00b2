// SPDX-License-Identifier: Apache-2.0
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

// Values of Python's siphash13 (PYTHONHASHSEED=0, key zero), and of its authors' key 0, 1, 2 ...
static void siphash_has_the_values_of_others(void **state)
{
    (void)state;
    static const struct {
        struct hash_key key;
        const char *text;
        uint64_t want;
    } cases[] = {
        {{{0}}, "a", 0x407448d2b89b1813u},
        {{{0}}, "1234567", 0xa33d651594fdae81u},
        {{{0}}, "12345678", 0x3489982430560a87u},
        {{{0}}, "123456789", 0x0fbc0f0007965fcfu},
        {{{0}}, "flametree flametree flametree 42", 0x91ce499b6f7022ccu},
        {{{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}}, "", 0xabac0158050fc4dcu},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *text = cases[i].text;
        uint64_t got = hash_keyed(cases[i].key, text, strlen(text));
        if (got != cases[i].want) fail_msg("\"%s\" 0x%llx", text, (unsigned long long)got);
    }
    assert_true(hash_keyed(cases[0].key, NULL, 0) == hash_keyed(cases[0].key, "", 0));
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
        cmocka_unit_test(siphash_has_the_values_of_others),
        cmocka_unit_test(crc32c_has_the_values_of_rfc_3720),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
