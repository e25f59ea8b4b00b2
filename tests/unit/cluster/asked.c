// SPDX-License-Identifier: Apache-2.0
#include "asked.h"

#include "lib/listener.h"
#include "lib/test.h"

#include <stdio.h>

void asked_open(struct asked *x, const struct rpc_method *rows, size_t n, void *self)
{
    static struct lane *const lanes[RANK_COUNT];
    mem_budget_init(&x->memory, "test", NULL, (size_t)64 << 20);
    struct router_options o = {.body_max = NODE_MESSAGE_MAX,
                               .answer_max = NODE_MESSAGE_MAX,
                               .memory = &x->memory};
    x->router = router_new(&o);
    router_add_rpc(x->router, rows, n, self, lanes);
    assert_ok((x->loop = loop_new("test", e)));
    assert_ok((x->client = client_new(x->loop, &x->memory, 4, e)));
    assert_ok((x->members = members_new(e)));
    x->self = (struct node_identity){.node = S("asker"), .address = S("127.0.0.1:1")};
}

unsigned asked_serve(struct asked *x, unsigned port)
{
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
    struct server_options o = listener_for("internal", listen, &x->memory, RANK_INGESTER);
    assert_ok((x->server = server_open(&o, router_app(x->router), &x->loop, 1, e)));
    return server_port(x->server);
}

void asked_serve_no_more(struct asked *x)
{
    server_drain(x->server, 0);
    server_close(x->server);
    x->server = NULL;
}

void asked_close(struct asked *x)
{
    if (x->server) asked_serve_no_more(x);
    client_free(x->client);
    router_free(x->router);
    loop_free(x->loop);
    members_free(x->members);
    assert_int_equal(atomic_load(&x->memory.used), 0);
}
