// SPDX-License-Identifier: Apache-2.0
//
// Blocks are opened and their sections read in few reads; damage, a store that fails and lack of
// memory are told with the name of the block.
#include "block/source.h"
#include "lib/memstore.h"
#include "store/origin.h"
#include "unit/block/random_block.h"

static struct store *store;
static struct req req;
static str bytes;

static int set_up(void **state)
{
    arena_set_up(state);
    store = memstore_open();
    req_init(&req, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    return 0;
}

static int tear_down(void **state)
{
    req_release(&req);
    store_close(store);
    return arena_tear_down(state);
}

static void write_block(enum block_kind kind, uint32_t services)
{
    struct random_block f;
    random_block_make(&f, 3, kind);
    assert_ok(random_block_write(&f, services, &bytes, e));
    memstore_set(store, "live/a/block", bytes);
}

static bool open_block(uint64_t size, struct block_source *src, err *e)
{
    return block_source_open(&arena, store_origin(store, &req), S("live/a/block"), size, src, e);
}

static void a_footer_near_the_end_costs_one_read(void **state)
{
    (void)state;
    struct block_source src;
    write_block(BLOCK_RAW, 3);
    memstore_reset_totals(store);
    assert_ok(open_block(bytes.n, &src, e));
    assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], 1);
    assert_true(memstore_totals(store).read_bytes <= 65536);
    assert_int_equal(src.footer.about.kind, BLOCK_RAW);
    assert_int_equal(src.footer.service_count, 3);
    assert_true(str_is(src.footer.services[2].name, "service00002"));
}

static void a_longer_footer_costs_two(void **state)
{
    (void)state;
    struct block_source src;
    struct random_block f;
    random_block_make(&f, 3, BLOCK_RAW);
    str *sources = ARENA_ARRAY(&arena, str, 5000);
    f.about.sources = sources;
    f.about.source_count = 5000;
    for (size_t i = 0; i < f.about.source_count; i++) {
        unsigned long long random = random_next(&f.random);
        sources[i] = arena_printf(&arena, "%016llx.%016llx", random, random * random);
    }
    assert_ok(random_block_write(&f, 1, &bytes, e));
    memstore_set(store, "live/a/block", bytes);
    memstore_reset_totals(store);
    assert_ok(open_block(bytes.n, &src, e));
    assert_true(src.footer_at.stored > 65536);
    assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], 2);
    assert_int_equal(src.footer.about.source_count, 5000);
    assert_true(str_eq(src.footer.about.sources[4999], sources[4999]));
}

static void a_service_is_read_at_once(void **state)
{
    (void)state;
    struct block_source src;
    struct symbol_table symbols;
    struct block_index index;
    write_block(BLOCK_HOURS, 4);
    assert_ok(open_block(bytes.n, &src, e));
    const struct block_service_ref *s = block_find_service(&src.footer, S("service00002"));
    assert_non_null(s);
    memstore_reset_totals(store);
    assert_ok(block_source_service(&arena, &src, s, &symbols, &index, e));
    assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], 2);
    assert_int_equal(symbols.stack_count, index.stack_count);
    assert_int_equal(index.type_count, RANDOM_BLOCK_TYPES);
    assert_true(labels_has(index.keys[index.key_count - 1].ls, S("pod")));
}

static void sections_come_in_their_order(void **state)
{
    (void)state;
    struct block_source src;
    write_block(BLOCK_DAYS, 1);
    assert_ok(open_block(bytes.n, &src, e));
    const struct block_service_ref *s = &src.footer.services[0];
    const struct block_extent x[] = {s->all, {0}, s->index, s->symbols, s->index};
    str contents[COUNT(x)];
    assert_ok(block_source_sections(&arena, &src, x, COUNT(x), contents, e));
    for (size_t i = 0; i < COUNT(x); i++)
        assert_int_equal(contents[i].n, x[i].raw);
    assert_true(str_eq(contents[2], contents[4]));
    assert_ok(block_source_sections(&arena, &src, x, 0, contents, e));
}

#define MANY 150

static void many_are_opened_together(void **state)
{
    (void)state;
    struct block_object v[MANY];
    struct block_source src[MANY];
    struct block_source alone;
    struct block_objects many = {.v = v, .n = MANY, .out = src};
    for (size_t i = 0; i < MANY; i++) {
        write_block(BLOCK_RAW, 1 + (uint32_t)(i % 4));
        v[i] = (struct block_object){arena_printf(&arena, "live/a/block%zu", i), bytes.n};
        memstore_set(store, v[i].name.p, bytes);
    }
    const uint64_t keeps[] = {0, v[1].size, UINT64_MAX};
    for (size_t k = 0; k < COUNT(keeps); k++) {
        size_t whole = 0;
        memstore_reset_totals(store);
        many.keep = keeps[k];
        assert_ok(block_source_open_many(&arena, store_origin(store, &req), &many, e));
        assert_int_equal(many.failed, MANY);
        assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], MANY);
        assert_in_range(memstore_totals(store).turns, 1, MANY / 16 + 3);
        for (size_t i = 0; i < MANY; i++) {
            str there = {0};
            str same = {0};
            assert_ok(block_source_open(&arena, store_origin(store, &req), v[i].name, v[i].size,
                                        &alone, e));
            assert_int_equal(src[i].footer.service_count, 1 + i % 4);
            whole += src[i].whole.n > 0;
            const struct block_service_ref *ref = &src[i].footer.services[i % 4];
            memstore_reset_totals(store);
            assert_ok(block_source_sections(&arena, &src[i], &ref->index, 1, &there, e));
            assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], src[i].whole.n == 0);
            assert_ok(block_source_sections(&arena, &alone, &ref->index, 1, &same, e));
            assert_true(str_eq(there, same));
        }
        assert_int_equal(whole, k == 0 ? 0 : k == 2 ? MANY : whole);
        assert_true(k != 1 || (whole > 0 && whole < MANY));
    }
    // The one that fails is told, with its name, wherever it lies.
    err e = {0};
    many.keep = 0;
    memstore_flip(store, "live/a/block77", v[77].size - 30, 1);
    assert_false(block_source_open_many(&arena, store_origin(store, &req), &many, &e));
    assert_int_equal(many.failed, 77);
    assert_int_equal(e.code, ERR_DATA_LOSS);
    assert_non_null(strstr(e.msg, "live/a/block77"));
    memstore_drop(store, "live/a/block64");
    assert_false(block_source_open_many(&arena, store_origin(store, &req), &many, &e));
    assert_int_equal(many.failed, 64);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    v[3].size = 2;
    assert_false(block_source_open_many(&arena, store_origin(store, &req), &many, &e));
    assert_int_equal(many.failed, 3);
    assert_int_equal(e.code, ERR_DATA_LOSS);
}

static void damage_is_told_with_the_name(void **state)
{
    (void)state;
    struct block_source src;
    err e = {0};
    write_block(BLOCK_RAW, 2);
    static const uint64_t sizes[] = {0, 1, 31, 32, 33};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memstore_set(store, "live/a/block", str_slice(bytes, bytes.n - sizes[i], bytes.n));
        assert_false(open_block(sizes[i], &src, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
        assert_non_null(strstr(e.msg, "live/a/block"));
    }
    memstore_set(store, "live/a/block", bytes);
    memstore_cut(store, "live/a/block", bytes.n - 1);
    assert_false(open_block(bytes.n, &src, &e));  // shorter than was listed
    assert_int_equal(e.code, ERR_DATA_LOSS);
    assert_non_null(strstr(e.msg, "live/a/block"));
    assert_false(open_block(bytes.n - 1, &src, &e));  // no trailer at its end
    assert_int_equal(e.code, ERR_DATA_LOSS);
    memstore_drop(store, "live/a/block");
    assert_false(open_block(bytes.n, &src, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "live/a/block"));
}

static bool read_service(struct arena *a, const struct block_source *src, err *e)
{
    struct symbol_table symbols;
    struct block_index index;
    return block_source_service(a, src, &src->footer.services[1], &symbols, &index, e);
}

static void a_store_that_fails_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum memstore_fault fault;
        enum err_code code;
    } cases[] = {
        {"away", MEMSTORE_FAILS, ERR_UNAVAILABLE},
        {"cut off", MEMSTORE_SHORT, ERR_DATA_LOSS},
        {"wrong bytes", MEMSTORE_FLIPS, ERR_DATA_LOSS},
    };
    struct block_source src;
    write_block(BLOCK_RAW, 2);
    assert_ok(open_block(bytes.n, &src, e));
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        err fault = {0};
        memstore_fail(store, MEMSTORE_READ, cases[i / 2].fault, 1 + i % 2, UINT64_MAX);
        bool ok = read_service(&arena, &src, &fault);
        if (ok || fault.code != cases[i / 2].code || !strstr(fault.msg, "live/a/block")) {
            fail_msg("%s: %s: %s", cases[i / 2].name, err_name(fault.code), fault.msg);
        }
        memstore_heal(store);
        assert_ok(read_service(&arena, &src, e));
    }
}

static void bytes_that_were_damaged_on_their_way_are_read_again(void **state)
{
    (void)state;
    struct block_source src;
    write_block(BLOCK_RAW, 2);
    memstore_reset_totals(store);
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FLIPS, 1, 1);
    assert_ok(open_block(bytes.n, &src, e));
    for (uint64_t nth = 1; nth <= 2; nth++) {
        memstore_fail(store, MEMSTORE_READ, MEMSTORE_FLIPS, nth, 1);
        assert_ok(read_service(&arena, &src, e));
    }
    uint64_t sizes[] = {0, bytes.n};  // by sections, and as a whole
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const struct block_object object = {S("live/a/block"), bytes.n};
        struct block_objects many = {.v = &object, .n = 1, .keep = sizes[i], .out = &src};
        memstore_fail(store, MEMSTORE_READ, MEMSTORE_FLIPS, 1, 1);
        assert_ok(block_source_open_many(&arena, store_origin(store, &req), &many, e));
        memstore_heal(store);
        assert_ok(read_service(&arena, &src, e));
    }
    assert_true(memstore_totals(store).ops[MEMSTORE_READ] >= 2 + 6 + 2);
}

static void memory_ends_at_the_cap(void **state)
{
    (void)state;
    write_block(BLOCK_RAW, 2);
    for (size_t cap = 0;; cap += 997) {
        struct arena small;
        struct block_source src;
        err e = {0};
        arena_init(&small, NULL, cap);
        bool ok = block_source_open(&small, store_origin(store, &req), S("live/a/block"), bytes.n,
                                    &src, &e) &&
                  read_service(&small, &src, &e);
        arena_release(&small);
        if (ok) break;
        assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_footer_near_the_end_costs_one_read),
        CASE(a_longer_footer_costs_two),
        CASE(a_service_is_read_at_once),
        CASE(sections_come_in_their_order),
        CASE(many_are_opened_together),
        CASE(damage_is_told_with_the_name),
        CASE(a_store_that_fails_is_told),
        CASE(bytes_that_were_damaged_on_their_way_are_read_again),
        CASE(memory_ends_at_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
