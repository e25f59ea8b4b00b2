// SPDX-License-Identifier: Apache-2.0
#include "lib/loopback.h"

#include "service/settings.h"

static void loopback_open_ingester(struct loopback *n, const struct rpc_method *rows, size_t count,
                                   void *arg)
{
    static struct lane *const lanes[RANK_COUNT];
    struct router_options o = {.multitenancy = true,
                               .body_max = 1 << 24,
                               .answer_max = 1 << 24,
                               .memory = &n->memory};
    n->ingesters = router_new(&o);
    router_add_rpc(n->ingesters, rows, count, arg, lanes);
    struct server_options s = listener_for("internal", "127.0.0.1:0", &n->memory, RANK_INGESTER);
    assert_ok((n->loop = loop_new("loop", e)));
    assert_ok((n->client = client_new(n->loop, &n->memory, 4, e)));
    assert_ok((n->server = server_open(&s, router_app(n->ingesters), &n->loop, 1, e)));
    client_loopback(n->client, S("loopback"), n->server);
    assert_ok((n->members = members_new(e)));
}

void loopback_open(struct loopback *n, const struct service *service, const struct rpc_method *rows,
                   size_t count, void *arg)
{
    static const struct config_section *sections[SETTINGS_MAX + 2];
    static struct lane *const lanes[RANK_COUNT];
    char program[] = "test";
    char settled[] = "--cluster.settle_time=0s";  // the list of ingesters stays as it is
    char *argv[] = {program, settled, NULL};
    struct config_args args;
    size_t n_sections = 0;
    for (size_t i = 0; i < settings_section_count; i++)
        sections[n_sections++] = settings_sections[i];
    sections[n_sections++] = service->config;
    sections[n_sections++] = &limits_section;
    *n = (struct loopback){.service = service, .config = config_new(sections, n_sections)};
    assert_ok(config_load(n->config, 2, argv, &args, e));
    mem_budget_init(&n->memory, "requests", NULL, (size_t)64 << 20);
    loopback_open_ingester(n, rows, count, arg);
    n->process = (struct process){.config = n->config,
                                  .memory = &n->memory,
                                  .client = n->client,
                                  .members = n->members,
                                  .data_dir = "/nonexistent",
                                  .id = "test"};
    assert_ok(service->start(&n->process, &n->self, e));
    struct router_options o = {.body_max = 1 << 24, .answer_max = 1 << 24, .memory = &n->memory};
    n->router = router_new(&o);
    router_add_rpc(n->router, service->public_rpc, service->public_rpc_count, n->self, lanes);
    router_add_http(n->router, service->public_http, service->public_http_count, n->self, lanes);
    n->app = router_app(n->router);
}

void loopback_close(struct loopback *n)
{
    router_free(n->router);
    n->service->stop(n->self);
    client_free(n->client);
    server_close(n->server);
    router_free(n->ingesters);
    loop_free(n->loop);
    members_free(n->members);
    config_free(n->config);
    assert_int_equal(atomic_load(&n->memory.used), 0);
}
