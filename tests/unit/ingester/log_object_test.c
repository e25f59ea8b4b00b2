// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "ingester/log/log_object.h"
#include "lib/test.h"

static const id128 stream = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const id128 nonce = {{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab,
                             0xac, 0xad, 0xae, 0xaf}};

static struct log_object_head entries_head(void)
{
    return (struct log_object_head){.stream = stream,
                                    .number = 7,
                                    .nonce = nonce,
                                    .made_ns = 0x1122334455667788,
                                    .cut = 3,
                                    .cut_opened_ns = 0x0102030405060708,
                                    .cut_first_seq = 40,
                                    .first_seq = 42,
                                    .count = 2,
                                    .covered = {.below = 5, .cut = 2, .seq = 31}};
}

static void pack(struct buf *out)
{
    struct log_object_packer p;
    struct log_object_head h = entries_head();
    buf_init(out, NULL, 1 << 20);
    log_object_begin(&p, out, &h);
    log_object_add(&p, S("acme"), 10, S("ne"), S("ws"));
    log_object_add(&p, S(""), 300, S(""), S("rows"));
    assert_ok(log_object_end(&p, e));
}

static void pack_seal(struct buf *out)
{
    struct log_object_packer p;
    struct log_object_head h = {.stream = stream,
                                .number = 8,
                                .nonce = nonce,
                                .made_ns = 5,
                                .seal = true,
                                .node = S("ingester-1"),
                                .covered = {.below = 5, .cut = 2, .seq = 31}};
    buf_init(out, NULL, 1 << 20);
    log_object_begin(&p, out, &h);
    assert_ok(log_object_end(&p, e));
}

static void entries_are_read_as_they_were_written(void **state)
{
    (void)state;
    struct buf b;
    struct log_object o;
    struct log_object_entry x;
    pack(&b);
    const char *bytes = (const char *)tail_guard(b.p, b.n);
    assert_ok(log_object_decode(str_make(bytes, b.n), stream, 7, &o, e));
    assert_true(id128_eq(o.head.nonce, nonce));
    assert_int_equal(o.head.made_ns, 0x1122334455667788);
    assert_int_equal(o.head.cut, 3);
    assert_int_equal(o.head.cut_opened_ns, 0x0102030405060708);
    assert_int_equal(o.head.cut_first_seq, 40);
    assert_int_equal(o.head.count, 2);
    assert_false(o.head.seal);
    str rest = o.entries;
    assert_true(log_object_next(&rest, &x));
    assert_int_equal(x.seq, 42);
    assert_true(str_is(x.tenant, "acme") && str_is(x.rows, "news") && x.rows_before == 10);
    assert_true(log_object_next(&rest, &x));
    assert_int_equal(x.seq, 43);
    assert_true(x.tenant.n == 0 && str_is(x.rows, "rows") && x.rows_before == 300);
    assert_false(log_object_next(&rest, &x));
    buf_release(&b);
}

// The example of docs/formats/object-log.md.
static void the_bytes_are_those_of_the_page(void **state)
{
    (void)state;
    static const uint8_t head[] = {
        0x08, 0x02, 0x12, 0x46,  //
        0x0a, 0x10, 1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,
        13,   14,   15,   16,  //
        0x10, 0x07,            //
        0x1a, 0x10, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab,
        0xac, 0xad, 0xae, 0xaf, 0x21, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  //
        0x38, 0x03,                                                                    //
        0x41, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,                          //
        0x48, 0x28, 0x50, 0x2a, 0x58, 0x02, 0x60, 0x05, 0x68, 0x02, 0x70, 0x1f,
    };
    static const uint8_t body[] = {
        0x22, 0x12, 0x08, 0x2a, 0x10, 0x03, 0x1a, 0x04, 'a',  'c',  'm',  'e',
        0x40, 0x0a, 0x4a, 0x04, 'n',  'e',  'w',  's',  0x22, 0x0d, 0x08, 0x2b,
        0x10, 0x03, 0x40, 0xac, 0x02, 0x4a, 0x04, 'r',  'o',  'w',  's',
    };
    struct buf b;
    pack(&b);
    assert_memory_equal(b.p, head, sizeof head);
    const uint8_t *check = (const uint8_t *)b.p + sizeof head;
    uint32_t crc = crc32c(0, head, sizeof head);
    assert_int_equal(check[0], 0x1d);
    assert_int_equal(check[1] | check[2] << 8 | check[3] << 16 | (uint32_t)check[4] << 24, crc);
    assert_memory_equal(check + 5, body, sizeof body);
    check += 5 + sizeof body;
    size_t n = sizeof head + 5 + sizeof body;
    crc = crc32c(0, b.p, n);
    assert_int_equal(check[0], 0x2d);
    assert_int_equal(check[1] | check[2] << 8 | check[3] << 16 | (uint32_t)check[4] << 24, crc);
    assert_int_equal(b.n, n + 5);
    buf_release(&b);
}

static void a_head_is_read_by_itself(void **state)
{
    (void)state;
    struct buf b;
    struct log_object_head h;
    err why = {0};
    pack(&b);
    size_t need = 4 + 0x46 + 5;
    for (size_t n = 0; n <= b.n; n++) {
        const char *bytes = (const char *)tail_guard(b.p, n);
        bool ok = log_object_decode_head(str_make(bytes, n), stream, 7, &h, &why);
        assert_int_equal(ok, n >= need);
        assert_true(ok || why.code == ERR_DATA_LOSS);
    }
    buf_release(&b);
}

// Makes both checks right, whatever they guard.
static void fix_checks(struct buf *b)
{
    size_t at[] = {4 + 0x46, b->n - 5};
    for (size_t k = 0; k < COUNT(at); k++) {
        uint32_t crc = crc32c(0, b->p, at[k]);
        for (int i = 0; i < 4; i++)
            b->p[at[k] + 1 + i] = (char)(crc >> (8 * i));
    }
}

// Objects of earlier programs, and seals above them. What they have in the places of the bound, as
// a later program of that format might, is passed over.
static void format_1_is_read_as_before(void **state)
{
    (void)state;
    struct buf b;
    struct log_object o;
    struct log_object_packer p;
    struct log_object_head h = entries_head();
    h.covered = (struct log_object_bound){0};
    buf_init(&b, NULL, 1 << 20);
    log_object_begin(&p, &b, &h);
    log_object_add(&p, S("acme"), 10, S("ne"), S("ws"));
    log_object_add(&p, S(""), 300, S(""), S("rows"));
    assert_ok(log_object_end(&p, e));
    assert_true(b.p[1] == 1 && b.p[3] == 0x40);
    assert_ok(log_object_decode(buf_view(&b), stream, 7, &o, e));
    assert_true(o.head.covered.below == 0 && o.head.count == 2);
    buf_release(&b);
    pack(&b);
    b.p[1] = 1;
    fix_checks(&b);
    assert_ok(log_object_decode(buf_view(&b), stream, 7, &o, e));
    assert_true(o.head.covered.below == 0 && o.head.covered.cut == 0 && o.head.covered.seq == 0);
    buf_release(&b);
}

static void a_seal_says_who_made_it(void **state)
{
    (void)state;
    struct buf b;
    struct log_object o;
    struct log_object_entry x;
    pack_seal(&b);
    assert_ok(log_object_decode(buf_view(&b), stream, 8, &o, e));
    assert_true(o.head.seal && str_is(o.head.node, "ingester-1"));
    assert_true(o.head.covered.below == 5 && o.head.covered.cut == 2 && o.head.covered.seq == 31);
    str rest = o.entries;
    assert_false(log_object_next(&rest, &x));
    buf_release(&b);
}

static void any_bit_that_flips_is_damage(void **state)
{
    (void)state;
    for (int seal = 0; seal < 2; seal++) {
        struct buf b;
        struct log_object o;
        if (seal) pack_seal(&b);
        if (!seal) pack(&b);
        for (size_t i = 0; i < 8 * b.n; i++) {
            err why = {0};
            b.p[i / 8] ^= (char)(1 << i % 8);
            assert_false(log_object_decode(buf_view(&b), stream, seal ? 8 : 7, &o, &why));
            assert_int_equal(why.code, ERR_DATA_LOSS);
            b.p[i / 8] ^= (char)(1 << i % 8);
        }
        for (size_t n = 0; n < b.n; n++) {
            err why = {0};
            const char *bytes = (const char *)tail_guard(b.p, n);
            assert_false(log_object_decode(str_make(bytes, n), stream, seal ? 8 : 7, &o, &why));
            assert_int_equal(why.code, ERR_DATA_LOSS);
        }
        buf_byte(&b, 0);
        err why = {0};
        assert_false(log_object_decode(buf_view(&b), stream, seal ? 8 : 7, &o, &why));
        buf_release(&b);
    }
}

static void values_that_cannot_be_are_damage(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        uint8_t byte;
        const char *says;
    } cases[] = {
        {"another format", 1, 3, "format 3"},
        {"another stream", 6, 9, "another stream"},
        {"another number", 23, 9, "number 9"},
        {"no cut", 52, 0, "cut 0"},
        {"first seq before the cut's", 65, 39, "first_seq 39"},
        {"more entries than there are", 67, 3, "other entries"},
        {"fewer entries than there are", 67, 1, "other entries"},
        {"no entries", 67, 0, "count 0"},
        {"covered above itself", 69, 8, "below number 8"},
        {"covered below nothing", 69, 0, "below number 0"},
        {"a later cut that is not covered", 71, 4, "cut 4"},
        {"no cut that is not covered", 71, 0, "cut 0"},
        {"a later seq that is not covered", 73, 41, "seq 41"},
        {"its own number with another cut", 69, 7, "below number 7"},
        {"an entry with another seq", 82, 41, "entry 42"},
        {"an entry of another cut", 84, 4, "entry 42"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        struct log_object o;
        err why = {0};
        print_message("case %s\n", cases[i].name);
        pack(&b);
        b.p[cases[i].at] = (char)cases[i].byte;
        fix_checks(&b);
        assert_false(log_object_decode(buf_view(&b), stream, 7, &o, &why));
        assert_int_equal(why.code, ERR_DATA_LOSS);
        assert_non_null(strstr(why.msg, cases[i].says));
        buf_release(&b);
    }
}

static void an_object_that_does_not_fit_is_told(void **state)
{
    (void)state;
    struct buf b;
    struct log_object_packer p;
    struct log_object_head h = entries_head();
    err why = {0};
    buf_init(&b, NULL, 100);
    log_object_begin(&p, &b, &h);
    log_object_add(&p, S("acme"), 10, S("ne"), S("ws"));
    log_object_add(&p, S(""), 300, S(""), S("rows"));
    assert_false(log_object_end(&p, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_as_they_were_written),
        cmocka_unit_test(the_bytes_are_those_of_the_page),
        cmocka_unit_test(a_head_is_read_by_itself),
        cmocka_unit_test(format_1_is_read_as_before),
        cmocka_unit_test(a_seal_says_who_made_it),
        cmocka_unit_test(any_bit_that_flips_is_damage),
        cmocka_unit_test(values_that_cannot_be_are_damage),
        cmocka_unit_test(an_object_that_does_not_fit_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
