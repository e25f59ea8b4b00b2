// SPDX-License-Identifier: Apache-2.0
//
// A frame of vectors stack by stack: what it says, and what is said of damage.
#include "base/ulid.h"
#include "unit/block/model_read.h"

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
        {"form 3", "030a020102020101010201000000020406", "vectors have a form that is none"},
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

// ---- modelled, as the writer writes them

enum load {
    SPARSE,    // few stacks of many, small values
    DENSE,     // most stacks in each vector, values around a mean of the stack's
    NEGATIVE,  // differences
    BYTES,     // every other vector: the stacks of the one before, values in a ratio of the stack's
    LARGE,     // of all sizes, near to the ends of 64 bits
    LOADS
};

enum {
    VECTORS = 60,
    STACKS = 500
};

static int64_t draw(struct random *r, enum load load, uint32_t stack)
{
    switch (load) {
    case DENSE:
        return 1 + stack * stack % 3000 + random_below(r, 20);
    case NEGATIVE:
        return (int64_t)random_below(r, 40) - 20;
    case LARGE:
        return (int64_t)(random_next(r) >> (12 + random_below(r, 51))) *
               (random_below(r, 2) ? 1 : -1);
    default:
        return 1 + (random_below(r, 4) ? 0 : random_below(r, 8));
    }
}

static str make_vector(struct random *r, enum load load, uint32_t i, int64_t *sums)
{
    struct buf b;
    bool again = load == BYTES && i % 2;
    for (uint32_t k = 0; k < STACKS; k++) {
        bool has = load == DENSE ? random_below(r, 10) > 0 : random_below(r, 12) == 0;
        if (again)
            sums[k] *= 16 * (1 + k % 7);
        else
            sums[k] = has ? draw(r, load, k) : 0;
    }
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode_sums(sums, STACKS, &b);
    str s = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return s;
}

// The only frame of vectors of rows of a block with these, and its contents.
static struct block_frame write_frame(const str *v, size_t n, struct buf *out, str *contents)
{
    struct model_block b = {0};
    struct block_index x = {0};
    struct block_written written;
    struct symbol_table t = {.strings = ARENA_ARRAY(&arena, str, 2),
                             .functions = ARENA_ARRAY(&arena, struct symbol_function, 2),
                             .mappings = ARENA_ARRAY(&arena, struct symbol_mapping, 1),
                             .frames = ARENA_ARRAY(&arena, struct symbol_frame, STACKS),
                             .stacks = ARENA_ARRAY(&arena, struct symbol_stack, STACKS),
                             .string_count = 2,
                             .function_count = 2,
                             .mapping_count = 1,
                             .frame_count = STACKS,
                             .stack_count = STACKS};
    t.strings[1] = S("f");
    t.functions[1].name = 1;
    for (uint32_t i = 1; i < STACKS; i++) {
        t.frames[i] = (struct symbol_frame){.function = 1, .line = i};
        t.stacks[i].frame = i;
    }
    struct block_writer_options o = {.about = {.kind = BLOCK_RAW,
                                               .hours = 1,
                                               .pack_hi = UINT32_MAX},
                                     .sink = model_sink,
                                     .arg = out};
    struct block_writer *w = NULL;
    buf_init(out, NULL, SIZE_MAX);
    assert_ok((w = block_begin(&o, e)) != NULL);
    assert_ok(block_service(w, S("demo"), &t, e));
    for (size_t i = 0; i < n; i++) {
        uint64_t number = 0;
        assert_ok(block_vector(w, v[i], &number, e));
    }
    assert_ok(block_finish(w, &written, e));
    model_open(buf_view(out), &b);
    const struct block_service_ref *s = &b.footer.services[0];
    assert_ok(block_index_parse(&arena, model_section(b.bytes, &s->index), s, &x, e));
    assert_int_equal(x.vectors.n, 1);
    *contents = model_section(b.bytes, &x.vectors.v[0].extent);
    return x.vectors.v[0];
}

// What each of the loads costs; a change of the model that costs more must say so here.
static void modelled_vectors_come_back_and_are_small(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum load load;
        double most;  // bytes of an entry
    } cases[] = {
        {"sparse", SPARSE, 0.88}, {"dense", DENSE, 0.69}, {"negative", NEGATIVE, 1.43},
        {"bytes", BYTES, 0.60},   {"large", LARGE, 6.2},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct random r = {.state = 7};
        int64_t *sums = ARENA_ARRAY(&arena, int64_t, STACKS);
        str v[VECTORS];
        struct buf out;
        str contents = {0};
        struct block_vectors got = {0};
        uint64_t entries = 0;
        for (uint32_t i = 0; i < VECTORS; i++) {
            v[i] = make_vector(&r, cases[c].load, i, sums);
            for (uint32_t k = 0; k < STACKS; k++)
                entries += sums[k] != 0;
        }
        struct block_frame f = write_frame(v, VECTORS, &out, &contents);
        assert_int_equal((uint8_t)contents.p[0], 2);
        assert_ok(block_vectors_parse(&arena, contents, VECTORS, &got, e));
        for (uint32_t i = 0; i < VECTORS; i++) {
            if (!str_eq(block_vector_at(&got, i), v[i]))
                fail_msg("%s: vector %u", cases[c].name, i);
        }
        double each = (double)f.extent.stored / (double)entries;
        if (each > cases[c].most) fail_msg("%s: %.3f bytes of an entry", cases[c].name, each);
        buf_release(&out);
    }
}

// Whatever a byte becomes, and wherever the contents end: refused, or vectors that are well-formed.
static void damage_to_modelled_vectors_is_survived(void **state)
{
    (void)state;
    for (enum load load = 0; load < LOADS; load++) {
        struct random r = {.state = 11};
        int64_t *sums = ARENA_ARRAY(&arena, int64_t, STACKS);
        str v[8];
        struct buf out;
        str contents = {0};
        size_t refused = 0;
        for (uint32_t i = 0; i < COUNT(v); i++)
            v[i] = make_vector(&r, load, i, sums);
        (void)write_frame(v, COUNT(v), &out, &contents);
        char *copy = arena_new(&arena, contents.n);
        for (size_t i = 0; i < 3 * contents.n; i++) {
            struct arena a;
            struct block_vectors got = {0};
            err fault = {0};
            bool cut = i >= 2 * contents.n;
            memcpy(copy, contents.p, contents.n);
            if (!cut) copy[i / 2] = (char)(i % 2 ? ~copy[i / 2] : copy[i / 2] ^ 1 << i / 2 % 8);
            size_t n = cut ? i - 2 * contents.n : contents.n;
            arena_init(&a, NULL, (size_t)64 << 20);
            bool ok =
                block_vectors_parse(&a, str_make(tail_guard(copy, n), n), COUNT(v), &got, &fault);
            if (!ok) assert_int_equal(fault.code, ERR_DATA_LOSS);
            assert_false(ok && cut);
            refused += !ok;
            for (uint32_t k = 0; ok && k < got.n; k++) {
                int64_t total = 0;
                (void)!columns_check(block_vector_at(&got, k), UINT32_MAX, &total, &fault);
            }
            arena_release(&a);
        }
        assert_true(refused > contents.n);  // the cuts, and more
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(stacks_are_put_back_to_vectors),
        ARENA_TEST(what_is_wrong_is_told),
        ARENA_TEST(modelled_vectors_come_back_and_are_small),
        ARENA_TEST(damage_to_modelled_vectors_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
