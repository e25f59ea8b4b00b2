// SPDX-License-Identifier: Apache-2.0
#include "compactor/compactor.h"
#include "lib/exchange.h"
#include "lib/torture.h"
#include "rpc/route.h"

static const struct process process = {.id = "test"};

static bool start(void *arg, err *e)
{
    (void)arg;
    void *self = NULL;
    if (!compactor.start(&process, &self, e)) return false;
    compactor.stop(self);
    return true;
}

static bool show_duties(struct torture_bench *b, void *arg, err *e)
{
    const struct server_app *app = arg;
    struct ask ask = {.method = "GET", .path = "/compactor/duties", .budget = &b->budget};
    torture_spare(true);
    struct http_exchange *x = exchange_new(&ask);
    torture_spare(false);
    exchange_go(app, x, (str){0});
    torture_spare(true);
    bool ok = x->status == 200;
    if (ok)
        buf_str(&b->out, exchange_body(x));
    else
        err_set(e, x->status == 429 ? ERR_RESOURCE_EXHAUSTED : ERR_INTERNAL, "%.*s",
                STR(exchange_body(x)));
    exchange_free(x);
    torture_spare(false);
    return ok;
}

static void the_compactor_starts_and_tells_its_duties(void **state)
{
    (void)state;
    static struct lane *const lanes[RANK_COUNT];
    torture_work(&(struct torture_work){.name = "compactor.start", .run = start, .is_start = true});
    struct router_options o = {.body_max = 1000, .answer_max = 1 << 20};
    struct router *r = router_new(&o);
    router_add_http(r, compactor.public_http, compactor.public_http_count, NULL, lanes);
    struct server_app app = router_app(r);
    const struct torture_maker m = {.name = "compactor.duties", .make = show_duties, .arg = &app};
    torture_make_all(&m, 1);
    router_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compactor_starts_and_tells_its_duties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
