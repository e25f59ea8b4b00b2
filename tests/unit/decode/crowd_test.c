// SPDX-License-Identifier: Apache-2.0
//
// Text and ids that collide under a hash without a key do not crowd the tables of decoders.
#include "base/buf.h"
#include "codec/pb.h"
#include "decode/decode.h"
#include "decode/idmap.h"
#include "lib/crowd.h"
#include "lib/test.h"

#include <stdio.h>

static const struct decode_options no_options;

static void names_of_collapsed_text_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    arena_init(&a, NULL, 64 << 20);
    buf_init(&text, NULL, 1 << 20);
    char name[16];
    unsigned rows = 0;
    for (unsigned i = 0; rows < CROWD; i++) {
        snprintf(name, sizeof name, "f%u", i);
        if (!crowd_has(hash_str(str_of(name)))) continue;
        buf_printf(&text, "%s 1\n", name);
        rows++;
    }
    struct decoded d = {0};
    map_looked = 0;
    assert_ok(decode_folded(&a, buf_view(&text), &no_options, &d, e));
    assert_int_equal(d.profiles->function_count, CROWD);
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    buf_release(&text);
    arena_release(&a);
}

static void stacks_of_a_script_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&text, NULL, 4 << 20);
    char stack[32];
    unsigned rows = 0;
    for (unsigned i = 0; rows < CROWD; i++) {
        snprintf(stack, sizeof stack, "shop;f%u", i);
        if (!crowd_has(hash_str(str_of(stack)))) continue;
        buf_printf(&text, "shop 77 12.5: 1 cycles:\n\t12 f%u (/a)\n\n", i);
        rows++;
    }
    map_looked = 0;
    assert_ok(decode_perf(&a, buf_view(&text), &no_options, &d, e));
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    buf_release(&text);
    arena_release(&a);
}

// The names of commands differ, their stacks do not.
static void commands_of_a_script_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    struct buf text;
    struct decoded d = {0};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&text, NULL, 4 << 20);
    for (unsigned i = 0; i < CROWD; i++) {
        buf_byte(&text, 'x');
        for (unsigned bit = 0; bit < 20; bit++)
            buf_z(&text, i >> bit & 1 ? " y" : "_y");
        buf_z(&text, " 77 12.5: 1 cycles:\n\t12 f (/a)\n\n");
    }
    map_looked = 0;
    assert_ok(decode_perf(&a, buf_view(&text), &no_options, &d, e));
    assert_int_equal(d.profiles->sample_count, CROWD);
    assert_int_equal(d.profiles->function_count, 2);
    // Two tables: of samples, and of frames, which each sample asks for two.
    if (map_looked > 3 * CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    buf_release(&text);
    arena_release(&a);
}

// ---- ids of pprof
//
// A hash that the ids themselves seed protects nothing: XXH64 can be undone word by word, so the
// last id makes the hash of all ids what it was said to be when the others were chosen.

#define IDS   8193u  // one more than a multiple of 4: the last id is a word of its own
#define GUESS UINT64_C(0x123456789abcdef0)

static const uint64_t xxh1 = 0x9e3779b185ebca87u;
static const uint64_t xxh2 = 0xc2b2ae3d27d4eb4fu;
static const uint64_t xxh3 = 0x165667b19e3779f9u;
static const uint64_t xxh4 = 0x85ebca77c2b2ae63u;

static uint64_t turn(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

// The number that times v is 1; v is odd.
static uint64_t inverse(uint64_t v)
{
    uint64_t x = v;
    for (int i = 0; i < 6; i++)
        x *= 2 - v * x;
    return x;
}

static uint64_t undo_shift(uint64_t v, unsigned bits)
{
    uint64_t x = v;
    for (unsigned done = bits; done < 64; done += bits)
        x = v ^ x >> bits;
    return x;
}

// The state before the last word was mixed in and the end was reached, with that word's part in it.
static uint64_t undo_end(uint64_t hash)
{
    uint64_t h = undo_shift(hash, 32) * inverse(xxh3);
    h = undo_shift(h, 29) * inverse(xxh2);
    h = undo_shift(h, 33);
    return turn((h - xxh4) * inverse(xxh1), 37);
}

// The last word that makes the hash of n words `wanted`.
static uint64_t last_word(uint64_t *words, size_t n, uint64_t wanted)
{
    words[n - 1] = 0;
    uint64_t part = undo_end(hash_bytes(words, n * sizeof *words)) ^ undo_end(wanted);
    return turn(part * inverse(xxh1), 33) * inverse(xxh2);
}

// An id whose hash with the seed GUESS has `upper` as its upper half.
static uint64_t id_with(uint32_t upper, uint32_t lower)
{
    uint64_t h = (uint64_t)upper << 32 | lower;
    for (int i = 0; i < 2; i++)
        h = undo_shift(h, 32) * inverse(0x9e3779b97f4a7c15u) ^ GUESS;
    return h;
}

static uint64_t *hostile_ids(struct arena *a)
{
    uint64_t *ids = ARENA_ARRAY(a, uint64_t, IDS);
    assert_non_null(ids);
    for (uint32_t i = 0; i < IDS - 1; i++)
        ids[i] = id_with(i % CROWD_WINDOW, i);
    ids[IDS - 1] = last_word(ids, IDS, GUESS);
    assert_true(hash_bytes(ids, IDS * sizeof *ids) == GUESS);
    return ids;
}

static void ids_that_seed_their_own_hash_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    struct idmap m;
    arena_init(&a, NULL, 64 << 20);
    uint64_t *ids = hostile_ids(&a);
    map_looked = 0;
    assert_ok(idmap_build(&m, &a, ids, IDS, e));
    for (uint32_t i = 0; i < IDS; i++)
        assert_int_equal(idmap_row(&m, ids[i]), i);
    if (map_looked > CROWD_MOST(IDS)) fail_msg("%llu", (unsigned long long)map_looked);
    arena_release(&a);
}

static void put_function(struct buf *out, uint64_t id)
{
    size_t mark = pb_begin(out, 5);
    pb_put_u64_opt(out, 1, id);
    pb_put_u64_opt(out, 2, 1);
    pb_end(out, mark);
}

static void put_location(struct buf *out, uint64_t id, uint64_t function)
{
    size_t mark = pb_begin(out, 4);
    pb_put_u64_opt(out, 1, id);
    size_t line = pb_begin(out, 4);
    pb_put_u64_opt(out, 1, function);
    pb_end(out, line);
    pb_end(out, mark);
}

static void put_sample(struct buf *out, uint64_t location)
{
    size_t mark = pb_begin(out, 2);
    pb_put_u64_opt(out, 1, location);
    pb_put_u64_opt(out, 2, 1);
    pb_end(out, mark);
}

static void a_pprof_of_hostile_ids_costs_as_much_as_its_size(void **state)
{
    (void)state;
    struct arena a;
    struct buf out;
    arena_init(&a, NULL, 64 << 20);
    buf_init(&out, NULL, 8 << 20);
    uint64_t *ids = hostile_ids(&a);
    size_t type = pb_begin(&out, 1);
    pb_put_u64_opt(&out, 1, 1);
    pb_put_u64_opt(&out, 2, 1);
    pb_end(&out, type);
    for (uint32_t i = 0; i < IDS; i++) {
        put_function(&out, ids[i]);
        put_location(&out, ids[i], ids[i]);
        put_sample(&out, ids[i]);
    }
    pb_put_bytes(&out, 6, S(""));
    pb_put_bytes(&out, 6, S("f"));
    struct decoded d = {0};
    map_looked = 0;
    assert_ok(decode_pprof(&a, buf_view(&out), &no_options, &d, NULL, e));
    assert_int_equal(d.profiles->sample_count, IDS);
    if (map_looked > out.n) fail_msg("%llu", (unsigned long long)map_looked);
    buf_release(&out);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_collapsed_text_do_not_crowd),
        cmocka_unit_test(stacks_of_a_script_do_not_crowd),
        cmocka_unit_test(commands_of_a_script_do_not_crowd),
        cmocka_unit_test(ids_that_seed_their_own_hash_do_not_crowd),
        cmocka_unit_test(a_pprof_of_hostile_ids_costs_as_much_as_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
