// SPDX-License-Identifier: Apache-2.0
//
// A frame of vectors stack by stack: what it says, and what is said of damage.
#include "base/ulid.h"
#include "block/reader.h"
#include "lib/arena.h"

// Vectors {1: 1, 3: 3} and {1: 2}.
static const char whole[] = "010a02010202010101020100000002"
                            "0406";

static void stacks_are_put_back_to_vectors(void **state)
{
    (void)state;
    uint8_t bytes[32];
    struct block_vectors v = {0};
    size_t n = strlen(whole) / 2;
    assert_true(hex_parse(str_of(whole), bytes, n));
    assert_ok(block_vectors_parse(&arena, str_make(bytes, n), 2, &v, e));
    assert_true(str_eq(block_vector_at(&v, 0), S("\x02\x01\x01\x02\x02\x06")));
    assert_true(str_eq(block_vector_at(&v, 1), S("\x01\x01\x01\x04")));
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *hex;
        const char *fault;
    } cases[] = {
        {"form 2", "020a020102020101010201000000020406", "vectors have a form that is none"},
        {"too small a size", "0109020102020101010201000000020406", "larger than they say"},
        {"too large a size", "010b020102020101010201000000020406", "smaller than they say"},
        {"a size of far more", "01ff7f020102020101010201000000020406", "larger than they can be"},
        {"stacks that do not ascend", "010a020100020101010201000000020406", "do not ascend"},
        {"a stack of no vector", "010a020102020101010003000000020406", "in no vector or in too"},
        {"a stack of three", "010a020102020101010300000000020406", "in no vector or in too many"},
        {"more entries", "010a020102020101010202000000020406", "other entries than vectors"},
        {"fewer entries", "010a020102020101010101000000020406", "other entries than vectors"},
        {"a vector beyond", "010a020102020101010201010000020406", "vectors of a stack do not"},
        {"a far gap", "010a020102020101010201007f00020406", "vectors of a stack do not ascend"},
        {"one too many", "010a020102020101010201000001020406", "more entries than it says"},
        {"one in another", "010a020102010201010201000000020406", "other entries than it says"},
        {"no values", "010a020102020101010201000000", "cut off"},
        {"no last value", "010a0201020201010102010000000204", "cut off"},
        {"a byte more", "010a02010202010101020100000002040600", "smaller than they say"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[32];
        struct block_vectors v = {0};
        err fault = {0};
        size_t n = strlen(cases[i].hex) / 2;
        assert_true(hex_parse(str_of(cases[i].hex), bytes, n));
        bool ok = block_vectors_parse(&arena, str_make(bytes, n), 2, &v, &fault);
        if (ok || fault.code != ERR_DATA_LOSS || !strstr(fault.msg, cases[i].fault)) {
            fail_msg("%s: %s", cases[i].name, fault.msg);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(stacks_are_put_back_to_vectors),
        ARENA_TEST(what_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
