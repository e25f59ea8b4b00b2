// SPDX-License-Identifier: Apache-2.0
//
// Settings, limits, the data directory, and a whole process with a small service, whose allocations
// and calls fail while they start, reload and answer.
#include "lib/dir.h"
#include "lib/exchange.h"
#include "lib/torture.h"
#include "model/relabel.h"
#include "service/process.h"
#include "service/program.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <stdio.h>
#include <unistd.h>

static char base[DIR_MAX];
static char config_path[DIR_PATH_MAX];
static char overrides_path[DIR_PATH_MAX];
static char data_path[DIR_PATH_MAX];
static const struct config_section *sections[SETTINGS_MAX];
static size_t section_count;

static const char settings[] =
    "server:\n  listen: 127.0.0.1:0\n  drain_timeout: 1s\n"
    "internal:\n  listen: 127.0.0.1:0\n"
    "self_profile:\n  enabled: false\n"
    "cluster:\n  ingesters: [a=127.0.0.1:1, b=127.0.0.1:2]\n"
    "limits:\n  ingestion_rate_mb: 4\n"
    "  ingestion_relabeling_rules: [{action: drop, source_labels: [a], regex: \"x.*\"}]\n";

static const char overrides[] =
    "overrides:\n  acme:\n    ingestion_rate_mb: 0.5\n"
    "    ingestion_relabeling_rules:\n"
    "      - {action: replace, target_label: b, replacement: \"${1}\"}\n"
    "    distributor_usage_groups: {app: '{service_name=~\"a.*\"}'}\n"
    "  other:\n    reject_older_than: 2h\n";

static int set_up(void **state)
{
    (void)state;
    dir_new(base);
    dir_path(config_path, base, "config.yaml");
    dir_path(overrides_path, base, "overrides.yaml");
    dir_path(data_path, base, "data");
    assert_ok(file_write(config_path, str_of(settings), e));
    assert_ok(file_write(overrides_path, str_of(overrides), e));
    for (; section_count < settings_section_count; section_count++)
        sections[section_count] = settings_sections[section_count];
    sections[section_count++] = &limits_section;
    log_set_level(LOG_ERROR);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dir_remove(base);
    return 0;
}

static bool load(struct config **c, err *e)
{
    static char program[] = "flametree";
    static char config_flag[DIR_PATH_MAX + 16];
    static char overrides_flag[DIR_PATH_MAX + 32];
    static char data_flag[DIR_PATH_MAX + 32];
    char *argv[] = {program, config_flag, overrides_flag, data_flag, NULL};
    struct config_args args;
    snprintf(config_flag, sizeof config_flag, "--config=%s", config_path);
    snprintf(overrides_flag, sizeof overrides_flag, "--runtime_config.file=%s", overrides_path);
    snprintf(data_flag, sizeof data_flag, "--server.data_dir=%s", data_path);
    *c = config_new(sections, section_count);
    return config_load(*c, 4, argv, &args, e);
}

// ---- settings

static bool read_and_print(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct config *c = NULL;
    bool ok = load(&c, e);
    if (ok) {
        config_print(c, &b->out);
        config_print_help(c, &b->out);
        ok = buf_ok(&b->out, e) && config_print_diff(c, &b->out, e) &&
             config_print_defaults(c, &b->out, e);
    }
    config_free(c);
    return ok;
}

static bool reload_settings(void *arg, err *e)
{
    return config_reload(arg, e);
}

static void reload_check(void *arg, bool done)
{
    (void)done;
    const struct limits *l = config_section(arg, "limits");
    assert_true(l->ingestion_rate_mb == 4 && l->relabel->n >= 1);
}

static void settings_are_read_whole_or_not(void **state)
{
    (void)state;
    const struct torture_maker m = {.name = "service.config",
                                    .make = read_and_print,
                                    .is_start = true,
                                    .most = 100};
    torture_make_all(&m, 1);
    struct config *c = NULL;
    assert_ok(load(&c, e));
    struct torture_count n = torture_work(&(struct torture_work){.name = "service.reload",
                                                                 .run = reload_settings,
                                                                 .check = reload_check,
                                                                 .arg = c,
                                                                 .most = 150});
    assert_true(n.failed > 30);
    config_free(c);
}

// ---- limits of tenants

struct tenancy {
    struct config *config;
    struct tenants *tenants;
    bool second;
};

static void check_limits(const struct tenancy *t, double rate)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    assert_true(tenant_limits(t->config, &a, S("acme"))->ingestion_rate_mb == rate);
    assert_true(tenant_limits(t->config, &a, S("acme|other"))->ingestion_rate_mb == MIN(rate, 4));
    assert_true(tenant_limits(t->config, &a, S("nobody"))->ingestion_rate_mb == 4);
    arena_release(&a);
}

static bool open_tenants(void *arg, err *e)
{
    struct tenancy *t = arg;
    t->tenants = tenants_open(t->config, e);
    if (!t->tenants) return false;
    bool ok = tenants_start(t->tenants, e);
    torture_spare(true);
    if (ok) check_limits(t, 0.5);
    tenants_close(t->tenants);
    torture_spare(false);
    return ok;
}

static void begin_second(void *arg)
{
    struct tenancy *t = arg;
    assert_ok(file_write(overrides_path, str_of(overrides), e));
    assert_ok((t->tenants = tenants_open(t->config, e)));
    assert_ok(file_write(
        overrides_path,
        S("overrides:\n  acme:\n    ingestion_rate_mb: 2\n    max_sessions_per_series: 3\n"), e));
}

static bool reload_second(void *arg, err *e)
{
    return tenants_reload(((struct tenancy *)arg)->tenants, e);
}

// The old limits stay until the new ones are whole.
static void check_second(void *arg, bool done)
{
    check_limits(arg, done ? 2 : 0.5);
}

static void end_second(void *arg)
{
    tenants_close(((struct tenancy *)arg)->tenants);
}

static void limits_are_the_old_or_the_new_ones(void **state)
{
    (void)state;
    struct tenancy t = {0};
    assert_ok(load(&t.config, e));
    torture_work(&(struct torture_work){.name = "service.overrides",
                                        .run = open_tenants,
                                        .arg = &t,
                                        .is_start = true,
                                        .most = 150});
    torture_work(&(struct torture_work){.name = "service.overrides_reload",
                                        .begin = begin_second,
                                        .run = reload_second,
                                        .check = check_second,
                                        .end = end_second,
                                        .arg = &t,
                                        .most = 150});
    assert_ok(file_write(overrides_path, str_of(overrides), e));
    config_free(t.config);
}

// ---- the data directory

static bool open_directory(void *arg, err *e)
{
    (void)arg;
    struct datadir d = {.lock = -1};
    if (!datadir_open(&d, data_path, e)) return false;
    bool ok = datadir_write_ports(&d, 4040, "unix:/x", "", (str){0}, e);
    datadir_remove_ports(&d);
    datadir_close(&d);
    return ok;
}

// A format that this program does not know stays what it is.
static bool open_other(void *arg, err *e)
{
    (void)arg;
    struct datadir d = {.lock = -1};
    err fault = {0};
    assert_false(datadir_open(&d, data_path, &fault));
    if (fault.code == ERR_FAILED_PRECONDITION) return true;
    *e = fault;
    return false;
}

// A system that gives no locks cannot be told from another holder.
static void a_directory_opens_or_tells(void **state)
{
    (void)state;
    torture_work(&(struct torture_work){.name = "service.datadir",
                                        .run = open_directory,
                                        .codes = 1u << ERR_FAILED_PRECONDITION,
                                        .is_start = true});
    char format[DIR_PATH_MAX + 16];
    snprintf(format, sizeof format, "%s/format", data_path);
    assert_ok(file_write(format, S("flametree 99\n"), e));
    torture_work(&(struct torture_work){.name = "service.datadir_format",
                                        .run = open_other,
                                        .is_start = true});
    assert_ok(file_remove(format, e));
}

// ---- a whole process

static bool unit_start(const struct process *process, void **self, err *e)
{
    struct mem_budget *m = process->memory;
    *self = mem_alloc(m, 64, e);
    if (*self) mem_unreserve(m, 64);
    return *self != NULL;
}

static bool unit_ready(void *self, struct buf *why)
{
    (void)self;
    (void)why;
    return true;
}

static void unit_stop(void *self)
{
    mem_free(NULL, self, 64);
}

static bool hello(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    route_text(x, 200, S("hello\n"));
    return buf_ok(&x->out, e);
}

static const struct http_route unit_routes[] = {
    {.verbs = "GET", .path = "/hello", .run = hello, .auth = ROUTE_OPEN, .rank = RANK_PUBLIC},
};

static const struct service unit = {.name = "test",
                                    .public_http = unit_routes,
                                    .public_http_count = 1,
                                    .start = unit_start,
                                    .ready = unit_ready,
                                    .stop = unit_stop};

static bool run_process(void *arg, err *e)
{
    (void)arg;
    static struct program p;
    p = (struct program){.unit_count = 1, .units = {{.service = &unit}}};
    lock_init(&p.lock, LOCK_PROCESS);
    cond_init(&p.change);
    bool ok = load(&p.config, e);
    if (ok) ok = (p.tenants = tenants_open(p.config, e)) != NULL;
    if (ok) {
        ok = program_open(&p, e) && program_start(&p, e);
        if (ok) program_drain(&p);
        program_close(&p);
    }
    tenants_close(p.tenants);
    config_free(p.config);
    cond_release(&p.change);
    lock_release(&p.lock);
    return ok;
}

static void a_process_starts_or_tells(void **state)
{
    (void)state;
    struct torture_count n =
        torture_work(&(struct torture_work){.name = "service.process",
                                            .run = run_process,
                                            .is_start = true,
                                            .codes = 1u << ERR_FAILED_PRECONDITION,
                                            .most = 60});
    assert_true(n.calls > 60);
}

// ---- its pages

struct page {
    struct program *program;
    struct server_app app;
    const char *path;
    const char *query;  // or NULL
};

static bool ask_page(struct torture_bench *b, void *arg, err *e)
{
    const struct page *p = arg;
    struct ask ask = {.method = "GET", .path = p->path, .query = p->query, .budget = &b->budget};
    torture_spare(true);
    struct http_exchange *x = exchange_ask(&ask);
    torture_spare(false);
    exchange_go(&p->app, x, (str){0});
    torture_spare(true);
    str body = exchange_reply(x);
    bool ok = x->status == 200;
    if (!ok)
        err_set(e, x->status == 429 ? ERR_RESOURCE_EXHAUSTED : ERR_UNAVAILABLE, "%u %.*s",
                x->status, STR(body));
    if (!ok) assert_true(x->status == 429 || x->status == 503);
    // Figures change from call to call.
    bool figures = strcmp(p->path, "/metrics") == 0 || strcmp(p->path, "/cluster") == 0;
    if (ok) buf_str(&b->out, figures ? S("figures") : body);
    exchange_free(x);
    torture_spare(false);
    return ok;
}

static void pages_are_shown_or_refused(void **state)
{
    (void)state;
    static struct program p;
    static struct front front = {.program = &p};
    p = (struct program){.unit_count = 1, .units = {{.service = &unit, .started = true}}};
    p.state = PROGRAM_READY;
    assert_ok((p.members = members_new(e)) != NULL);
    assert_ok(members_add(p.members, MEMBER_INGESTER, S("a=h:1"), e));
    members_failed(p.members, MEMBER_INGESTER, S("a"), S("refused"));
    assert_ok(load(&p.config, e));
    assert_ok((p.tenants = tenants_open(p.config, e)));
    struct router_options o = {.body_max = 1000, .answer_max = 1 << 20};
    struct router *r = router_new(&o);
    router_add_http(r, admin_routes, admin_route_count, &front, p.admin_lanes);
    router_add_http(r, admin_public_routes, admin_public_route_count, &p, p.admin_lanes);
    static const char *const paths[] = {"/ready",          "/metrics", "/config",
                                        "/runtime_config", "/cluster", "/cluster"};
    static const char *const queries[COUNT(paths)] = {[5] = "format=html"};
    static const char *const names[] = {"service.ready",       "service.metrics",
                                        "service.page_config", "service.runtime_config",
                                        "service.cluster",     "service.cluster_page"};
    process_metrics_begin();
    for (size_t i = 0; i < COUNT(paths); i++) {
        struct page page = {&p, router_app(r), paths[i], queries[i]};
        const struct torture_maker m = {.name = names[i], .make = ask_page, .arg = &page};
        torture_make_all(&m, 1);
    }
    process_metrics_end();
    router_free(r);
    tenants_close(p.tenants);
    config_free(p.config);
    members_free(p.members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read_whole_or_not),
        cmocka_unit_test(limits_are_the_old_or_the_new_ones),
        cmocka_unit_test(a_directory_opens_or_tells),
        cmocka_unit_test(a_process_starts_or_tells),
        cmocka_unit_test(pages_are_shown_or_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
