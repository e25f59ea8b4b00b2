// SPDX-License-Identifier: Apache-2.0
//
// ULIDs and UUIDs are printed and read as their specifications say.
#include "base/ulid.h"
#include "lib/test.h"

static void ulids_print_as_the_specification_says(void **state)
{
    (void)state;
    static const uint8_t none[10] = {0};
    static const uint8_t all[10] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    char text[ULID_TEXT];
    ulid_print(ulid_make(1469918176385, none), text);
    assert_string_equal(text, "01ARYZ6S410000000000000000");
    ulid_print(ulid_make((1ull << 48) - 1, all), text);
    assert_string_equal(text, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

static void ulids_parse_back_and_sort_by_time(void **state)
{
    (void)state;
    char before[ULID_TEXT] = "";
    for (uint64_t ms = 1; ms < 1ull << 48; ms = ms * 5 + 3) {
        uint8_t random[10];
        for (size_t i = 0; i < sizeof random; i++)
            random[i] = (uint8_t)(ms >> i);
        id128 id = ulid_make(ms, random);
        char text[ULID_TEXT];
        ulid_print(id, text);
        assert_true(strcmp(before, text) < 0);
        memcpy(before, text, sizeof text);
        id128 back = {0};
        assert_ok(ulid_parse(str_of(text), &back, e));
        assert_true(id128_eq(id, back));
        for (char *c = text; *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        assert_ok(ulid_parse(str_of(text), &back, e));
        assert_true(id128_eq(id, back));
    }
}

static void malformed_ulids_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "01ARYZ6S41",
        "01ARYZ6S4100000000000000000",
        "81ARYZ6S410000000000000000",
        "01ARYZ6S41000000000000000U",
        "01ARYZ6S41000000-000000000",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        id128 id;
        err e = {0};
        if (ulid_parse(str_of(cases[i]), &id, &e)) fail_msg("%s", cases[i]);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
    err e = {0};
    id128 id;
    assert_false(ulid_parse(str_make("01ARYZ6S41\0"
                                     "000000000000000",
                                     26),
                            &id, &e));
}

static void profile_ids_carry_time_version_and_hash(void **state)
{
    (void)state;
    id128 id = uuid_profile(1700000000123, 0x0123456789abcdefu, 0xffc0000000000000u);
    char text[UUID_TEXT];
    uuid_print(id, text);
    assert_string_equal(text, "018bcfe5-687b-8ffc-8123-456789abcdef");
    assert_true(uuid_ms(id) == 1700000000123);
    id128 other = uuid_profile(1700000000123, 0x0123456789abcdefu, 0);
    assert_false(id128_eq(id, other));
}

static void uuids_parse_in_all_spellings(void **state)
{
    (void)state;
    static const char *const good[] = {
        "018bcfe5-687b-8ffc-8123-456789abcdef",
        "018BCFE5-687B-8FFC-8123-456789ABCDEF",
        "018bcfe5687b8ffc8123456789abcdef",
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        id128 id;
        assert_ok(uuid_parse(str_of(good[i]), &id, e));
        char text[UUID_TEXT];
        uuid_print(id, text);
        assert_string_equal(text, good[0]);
    }
    static const char *const bad[] = {
        "",
        "018bcfe5",
        "018bcfe5-687b-8ffc-8123-456789abcdeg",
        "018bcfe5--687b8ffc-8123-456789abcdef",
        "018bcfe5687b8ffc8123456789abcdef0",
        "{018bcfe5-687b-8ffc-8123-456789abcdef}",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        id128 id;
        err e = {0};
        if (uuid_parse(str_of(bad[i]), &id, &e)) fail_msg("%s", bad[i]);
    }
}

static void an_id_is_found_among_others(void **state)
{
    const id128 v[] = {{{1}}, {{2}}, {{3}}};
    (void)state;
    assert_true(id128_among(v[0], v, COUNT(v)) && id128_among(v[2], v, COUNT(v)));
    assert_false(id128_among(v[2], v, 2));
    assert_false(id128_among(v[0], NULL, 0));
}

static void hex_goes_there_and_back(void **state)
{
    (void)state;
    uint8_t bytes[3] = {0x00, 0xa5, 0xff};
    char hex[7];
    hex_print(bytes, 3, hex);
    assert_string_equal(hex, "00a5ff");
    uint8_t back[3];
    assert_true(hex_parse(S("00A5fF"), back, 3));
    assert_memory_equal(back, bytes, 3);
    assert_false(hex_parse(S("00a5f"), back, 3));
    assert_false(hex_parse(S("00a5fx"), back, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulids_print_as_the_specification_says),
        cmocka_unit_test(ulids_parse_back_and_sort_by_time),
        cmocka_unit_test(malformed_ulids_are_refused),
        cmocka_unit_test(profile_ids_carry_time_version_and_hash),
        cmocka_unit_test(uuids_parse_in_all_spellings),
        cmocka_unit_test(an_id_is_found_among_others),
        cmocka_unit_test(hex_goes_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
