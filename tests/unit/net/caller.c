// SPDX-License-Identifier: Apache-2.0
#include "unit/net/caller.h"

int caller_new(void **state)
{
    struct caller *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->rig = rig_new();
    mem_budget_init(&c->memory, "calls", NULL, (size_t)64 << 20);
    assert_ok((c->client = client_new(c->rig->loops[0], &c->memory, CONNECTIONS, e)));
    req_init(&c->req, RANK_DUTY, &c->memory, 1 << 20, 60 * NS_PER_S);
    *state = c;
    return 0;
}

void caller_open(struct caller *c)
{
    rig_open(c->rig);
    snprintf(c->address, sizeof c->address, "127.0.0.1:%u", server_port(c->rig->server));
}

int caller_loopback(void **state)
{
    caller_new(state);
    struct caller *c = *state;
    caller_open(c);
    assert_ok((c->loopback = client_new(c->rig->loops[0], &c->memory, CONNECTIONS, e)));
    client_loopback(c->loopback, str_of(c->address), c->rig->server);
    return 0;
}

int caller_free(void **state)
{
    struct caller *c = *state;
    client_free(c->client);
    if (c->loopback) client_free(c->loopback);
    req_release(&c->req);
    rig_free(c->rig);
    assert_int_equal(atomic_load(&c->memory.used), 0);
    free(c);
    return 0;
}

struct http_call caller_call(const struct caller *c, const char *method, str path, str body)
{
    return (struct http_call){.method = method,
                              .address = str_of(c->address),
                              .path = path,
                              .body = body,
                              .answer_max = 4 << 20};
}
