// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"
#include "lib/test.h"

static id128 id_of(uint8_t first)
{
    id128 id = {0};
    for (size_t i = 0; i < sizeof id.b; i++)
        id.b[i] = (uint8_t)(first + i);
    return id;
}

static void assert_same(const struct node_identity *a, const struct node_identity *b)
{
    assert_true(id128_eq(a->cluster, b->cluster));
    assert_true(str_eq(a->node, b->node));
    assert_true(id128_eq(a->boot, b->boot));
    assert_true(id128_eq(a->directory, b->directory));
    assert_int_equal(a->service_count, b->service_count);
    for (size_t i = 0; i < a->service_count; i++)
        assert_true(str_eq(a->services[i], b->services[i]));
    assert_true(str_eq(a->address, b->address));
}

static void an_identity_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct node_identity cases[] = {
        {0},
        {.node = S("ingester-1"), .boot = id_of(1), .address = S("10.0.0.1:4041")},
        {.cluster = id_of(7),
         .node = S("n"),
         .boot = id_of(9),
         .directory = id_of(40),
         .services = {S_INIT("distributor"), S_INIT("ingester")},
         .service_count = 2,
         .address = S("unix:/run/a.sock")},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, NULL, NODE_MESSAGE_MAX);
        node_put_probe(&cases[i], &out);
        struct node_identity from;
        assert_ok(node_read_probe(buf_view(&out), &from, e));
        assert_same(&from, &cases[i]);

        buf_clear(&out);
        struct node_answer said = {.node = cases[i],
                                   .ready = i > 0,
                                   .load = 0.25 * (double)i,
                                   .version = i > 1 ? S("1.2.3") : (str){0},
                                   .weight = (uint32_t)i * 100,
                                   .wall_ms = (int64_t)i << 40,
                                   .list = (uint64_t)i << 63 | i};
        struct node_answer heard;
        node_put_answer(&said, &out);
        assert_ok(node_read_answer(buf_view(&out), &heard, e));
        assert_same(&heard.node, &cases[i]);
        assert_int_equal(heard.ready, said.ready);
        assert_true(heard.load == said.load);
        assert_true(str_eq(heard.version, said.version));
        assert_int_equal(heard.weight, said.weight);
        assert_int_equal(heard.wall_ms, said.wall_ms);
        assert_int_equal(heard.list, said.list);
        assert_int_equal(node_knows(heard.node.cluster), i == 2);
        buf_release(&out);
    }
}

static void what_is_no_identity_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
        enum err_code code;
    } cases[] = {
        {"a cut message", S_INIT("\x0a\x05\x12"), ERR_INVALID_ARGUMENT},
        {"an id of one byte", S_INIT("\x0a\x03\x0a\x01\x07"), ERR_INVALID_ARGUMENT},
        {"a boot of two", S_INIT("\x0a\x04\x1a\x02\x07\x07"), ERR_INVALID_ARGUMENT},
        {"nine services", S_INIT("\x0a\x12\x2a\0\x2a\0\x2a\0\x2a\0\x2a\0\x2a\0\x2a\0\x2a\0\x2a\0"),
         ERR_OUT_OF_RANGE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct node_identity from;
        struct node_answer answer;
        err fault = {0};
        if (node_read_probe(cases[i].bytes, &from, &fault) || fault.code != cases[i].code)
            fail_msg("%s: %s", cases[i].name, fault.msg);
        err other = {0};
        if (node_read_answer(cases[i].bytes, &answer, &other) || other.code != cases[i].code)
            fail_msg("%s in an answer: %s", cases[i].name, other.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_identity_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
