// SPDX-License-Identifier: Apache-2.0
//
// Bytes of answers that wait to be read are counted. Bytes of a refused answer are not.
#include "lib/test.h"
#include "net/exchange.h"
#include "net/held.h"

#include <stdlib.h>

#define ANSWER ((size_t)100 << 10)

static struct server *server;

static int set_up(void **state)
{
    static struct mem_budget answers;
    (void)state;
    server = calloc(1, sizeof *server);
    assert_non_null(server);
    mem_budget_init(&answers, "answers", NULL, (size_t)1 << 20);
    server->options.answers = &answers;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(server);
    return 0;
}

// An answer of a tenant, which a worker has made for that connection.
static struct exchange *answer(struct reader *r, const char *tenant)
{
    static char bytes[ANSWER];
    struct exchange *ex = calloc(1, sizeof *ex);
    assert_non_null(ex);
    ex->server = server;
    ex->reader = reader_share(r);
    ex->x.fixed = str_make(bytes, sizeof bytes);
    ex->x.req.tenant = str_of(tenant);
    return ex;
}

static void end(struct exchange *ex)
{
    held_end(ex);
    free(ex);
}

static void an_answer_refused_for_its_tenant_does_not_count_for_its_connection(void **state)
{
    struct reader *slow = reader_new();
    struct reader *quick = reader_new();
    (void)state;
    assert_true(slow && quick);
    server->options.answers_connection = ANSWER * 3 / 2;
    server->options.answers_tenant = ANSWER * 3 / 2;
    struct exchange *unread = answer(slow, "t");
    assert_ok(held_begin(unread, e));
    for (int i = 0; i < 3; i++) {
        struct exchange *ex = answer(quick, "t");
        err why = {0};
        assert_false(held_begin(ex, &why));
        assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(why.msg, "this tenant has"));
        end(ex);
    }
    end(unread);
    struct exchange *ex = answer(quick, "t");
    assert_ok(held_may_begin(ex, e));
    assert_ok(held_begin(ex, e));
    end(ex);
    assert_int_equal(atomic_load(&quick->held), 0);
    reader_drop(slow);
    reader_drop(quick);
}

static void an_answer_refused_for_its_connection_does_not_count_for_its_tenant(void **state)
{
    struct reader *slow = reader_new();
    struct reader *quick = reader_new();
    (void)state;
    assert_true(slow && quick);
    server->options.answers_connection = ANSWER * 3 / 2;
    server->options.answers_tenant = ANSWER * 5 / 2;
    struct exchange *unread = answer(slow, "t");
    assert_ok(held_begin(unread, e));
    for (int i = 0; i < 3; i++) {
        struct exchange *ex = answer(slow, "t");
        err why = {0};
        assert_false(held_begin(ex, &why));
        assert_non_null(strstr(why.msg, "this connection has"));
        end(ex);
    }
    struct exchange *ex = answer(quick, "t");
    assert_ok(held_begin(ex, e));
    end(ex);
    end(unread);
    reader_drop(slow);
    reader_drop(quick);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_refused_for_its_tenant_does_not_count_for_its_connection),
        TEST(an_answer_refused_for_its_connection_does_not_count_for_its_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
