// SPDX-License-Identifier: Apache-2.0
//
// program.c - opens lanes, loops and listeners as the settings say, and closes them.
#include "service/program.h"

#include "cluster/dns.h"
#include "service/directories.h"
#include "service/metrics.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#define DUTY_WIDTH 4
#define DUTY_QUEUE 64

// Pages of the process have separate workers, so that they answer under load. So have probes: a
// busy process must not look dead.
#define ADMIN_WIDTH       2
#define ADMIN_QUEUE       64
#define PROBE_WIDTH       1
#define PROBE_CONNECTIONS 4
#define REFUSALS_MAX      ((size_t)16 << 20)
#define RESERVE_MAX       ((size_t)16 << 20)

// Unread answers may use one n-th of the memory; a connection and a tenant may each use one n-th of
// that.
#define ANSWERS_PART       4
#define ANSWERS_CONNECTION 4
#define ANSWERS_TENANT     2

// Pushes leave one n-th of the memory to other requests, so that a flood of them ends no query.
#define PUSHES_LEAVE 8

#define SOCKET_PATH_MAX \
    ((int)sizeof("unix:") - 1 + (int)sizeof(((struct sockaddr_un *)0)->sun_path))

// ---- lanes

static void lane_sizes(const struct lanes_settings *s, enum rank rank, struct lane_options *o)
{
    assert(rank < RANK_COUNT);
    o->rank = rank;
    switch (rank) {
    case RANK_PUBLIC:
        o->width = s->public_width ? (unsigned)s->public_width : 4 * thread_cpus();
        o->queue_max = (unsigned)s->public_queue;
        o->queue_age_ns = (uint64_t)s->public_queue_age;
        return;
    case RANK_INGESTER:
        o->width = (unsigned)s->ingester_width;
        o->queue_max = (unsigned)s->ingester_queue;
        o->queue_age_ns = (uint64_t)s->ingester_queue_age;
        return;
    case RANK_DUTY:
    case RANK_QUERIER:
    case RANK_DISK:
    case RANK_COUNT:
        break;
    }
    o->width = DUTY_WIDTH;
    o->queue_max = DUTY_QUEUE;
    o->queue_age_ns = 0;
}

static bool open_lane(struct program *p, struct unit *u, enum rank rank, err *e)
{
    static const char *const ranks[] = {[RANK_DUTY] = "duty",
                                        [RANK_PUBLIC] = "public",
                                        [RANK_QUERIER] = "querier",
                                        [RANK_INGESTER] = "ingester",
                                        [RANK_DISK] = "disk"};
    assert(rank < RANK_COUNT);
    if (u->lanes[rank]) return true;
    char name[64];
    snprintf(name, sizeof name, "%s.%s", u->service->name, ranks[rank]);
    struct lane_options o = {.name = name};
    const struct lanes_settings *s = config_section(p->config, "lanes");
    lane_sizes(s, rank, &o);
    // A width that a person set wins over that of the service, which wins over the computed one.
    bool chosen = rank == RANK_PUBLIC && s->public_width > 0;
    if (!chosen && u->service->lane_width[rank]) o.width = u->service->lane_width[rank];
    u->lanes[rank] = lane_new(&o, e);
    return u->lanes[rank] != NULL;
}

// A lane for each rank that one of the service's rows names.
static bool open_unit_lanes(struct program *p, struct unit *u, err *e)
{
    const struct service *s = u->service;
    bool ok = true;
    for (size_t i = 0; ok && i < s->public_rpc_count; i++)
        ok = open_lane(p, u, s->public_rpc[i].rank, e);
    for (size_t i = 0; ok && i < s->public_http_count; i++)
        ok = open_lane(p, u, s->public_http[i].rank, e);
    for (size_t i = 0; ok && i < s->internal_rpc_count; i++)
        ok = open_lane(p, u, s->internal_rpc[i].rank, e);
    return ok;
}

static bool open_lanes(struct program *p, err *e)
{
    struct lane_options o = {.name = "admin.public",
                             .rank = RANK_PUBLIC,
                             .width = ADMIN_WIDTH,
                             .queue_max = ADMIN_QUEUE};
    p->admin_lanes[RANK_PUBLIC] = lane_new(&o, e);
    bool ok = p->admin_lanes[RANK_PUBLIC] != NULL;
    o = (struct lane_options){.name = "admin.probe",
                              .rank = RANK_INGESTER,
                              .width = PROBE_WIDTH,
                              .queue_max = ADMIN_QUEUE};
    if (ok) p->admin_lanes[RANK_INGESTER] = lane_new(&o, e);
    ok = ok && p->admin_lanes[RANK_INGESTER] != NULL;
    for (size_t i = 0; ok && i < p->unit_count; i++)
        ok = open_unit_lanes(p, &p->units[i], e);
    return ok;
}

static void each_lane(struct program *p, void (*fn)(struct lane *l))
{
    // A failed start leaves ranks without a lane.
    for (size_t rank = 0; rank < RANK_COUNT; rank++) {
        if (p->admin_lanes[rank]) fn(p->admin_lanes[rank]);
        for (size_t i = 0; i < p->unit_count; i++) {
            if (p->units[i].lanes[rank]) fn(p->units[i].lanes[rank]);
        }
    }
}

// ---- loops and client

static bool set_client_tls(struct program *p, err *e)
{
    const struct internal_settings *i = config_section(p->config, "internal");
    struct client_tls tls = {.ca_file = i->tls_ca_file,
                             .cert_file = i->tls_cert_file,
                             .key_file = i->tls_key_file};
    return client_set_tls(p->client, &tls, e) && client_set_tls(p->probe_client, &tls, e);
}

static bool open_loops(struct program *p, err *e)
{
    const struct server_settings *s = config_section(p->config, "server");
    const struct internal_settings *i = config_section(p->config, "internal");
    // Half of the cores: the other half is for the workers that the loops feed.
    size_t n = s->loops ? (size_t)s->loops : MIN(MAX(thread_cpus() / 2, 1u), 8u);
    assert(n > 0 && n <= LOOPS_MAX);
    for (; p->loop_count < n; p->loop_count++) {
        char name[32];
        snprintf(name, sizeof name, "loop.%zu", p->loop_count);
        p->loops[p->loop_count] = loop_new(name, e);
        if (!p->loops[p->loop_count]) return false;
    }
    // A loop of its own, so that answers of other nodes do not wait behind slow clients.
    p->client_loop = loop_new("loop.client", e);
    if (!p->client_loop) return false;
    p->client = client_new(p->client_loop, &p->requests, (unsigned)i->connections_per_node, e);
    if (!p->client) return false;
    p->probe_client = client_new(p->client_loop, &p->requests, PROBE_CONNECTIONS, e);
    if (!p->probe_client) return false;
    return !i->tls_cert_file[0] || set_client_tls(p, e);
}

// ---- listeners

static const char *or_null(const char *z)
{
    return z[0] ? z : NULL;
}

// The address by which this process reaches its own listener: the real port, and for "all
// interfaces" the local one.
static void name_listener(char *address, size_t size, const char *listen, unsigned port)
{
    str all = str_of(listen);
    str host = str_slice(all, 0, str_rfind(all, ':'));
    if (str_starts(all, S("unix:"))) {
        snprintf(address, size, "%s", listen);
        return;
    }
    if (host.n == 0 || str_is(host, "0.0.0.0")) host = S("127.0.0.1");
    if (str_is(host, "[::]")) host = S("[::1]");
    snprintf(address, size, "%.*s:%u", STR(host), port);
}

// The options that all listeners take from section "server".
static struct server_options common_options(struct program *p)
{
    const struct server_settings *s = config_section(p->config, "server");
    return (struct server_options){
        .memory = &p->requests,
        .refusals = &p->refusals,
        .reserve = &p->reserve,
        .request_memory_max = s->request_memory,
        .head_max = s->head_max,
        .headers_max = (unsigned)s->headers_max,
        .head_timeout_ns = (uint64_t)s->head_timeout,
        .body_timeout_ns = (uint64_t)s->body_timeout,
        .idle_timeout_ns = (uint64_t)s->idle_timeout,
        .write_timeout_ns = (uint64_t)s->write_timeout,
        .request_timeout_ns = (uint64_t)s->request_timeout,
    };
}

// The part of a path that server.path_prefix removes, without a '/' at its end.
str program_path_prefix(const struct server_settings *s)
{
    str prefix = str_of(s->path_prefix);
    return str_ends(prefix, S("/")) ? str_slice(prefix, 0, prefix.n - 1) : prefix;
}

static bool open_front(struct program *p, struct front *f, const struct server_options *o, err *e)
{
    const struct server_settings *s = config_section(p->config, "server");
    f->program = p;
    assert(!f->server && p->loop_count > 0);
    guard_init(&f->guard, o->listen, s->hosts.v, s->hosts.n);
    if (f != &p->internal) f->prefix = program_path_prefix(s);
    f->server = server_open(o, front_app(f), p->loops, p->loop_count, e);
    return f->server != NULL;
}

// Limits on unread answers, for clients: they may read slowly or not at all. Nodes read at once.
static void limit_readers(struct program *p, struct server_options *o)
{
    const struct server_settings *s = config_section(p->config, "server");
    const struct auth_settings *auth = config_section(p->config, "auth");
    size_t all = atomic_load(&p->answers.limit);
    size_t tenant = s->answers_tenant ? s->answers_tenant : all / ANSWERS_TENANT;
    o->answers = &p->answers;
    o->answers_connection =
        s->answers_connection ? s->answers_connection : all / ANSWERS_CONNECTION;
    // With one tenant its share would only keep clients from memory that is free.
    o->answers_tenant = auth->multitenancy_enabled ? tenant : 0;
    o->answer_timeout_ns = (uint64_t)s->answer_timeout;
    o->answer_rate = s->answer_rate;
}

// Options of a listener for clients: the public one, or that of admin.listen.
static struct server_options client_options(struct program *p, const char *name, const char *listen)
{
    const struct server_settings *s = config_section(p->config, "server");
    struct server_options o = common_options(p);
    o.name = name;
    o.listen = listen;
    o.tls_cert_file = or_null(s->tls_cert_file);
    o.tls_key_file = or_null(s->tls_key_file);
    o.streams_max = (unsigned)s->streams_max;
    o.connections_max = (unsigned)s->connections_max;
    o.rank = RANK_PUBLIC;
    limit_readers(p, &o);
    return o;
}

static bool open_public(struct program *p, err *e)
{
    const struct server_settings *s = config_section(p->config, "server");
    const struct server_options o = client_options(p, "public", s->listen);
    if (!open_front(p, &p->public, &o, e)) return false;
    name_listener(p->public_address, sizeof p->public_address, s->listen,
                  server_port(p->public.server));
    doors_open(p, &o);
    return true;
}

// The address of the listener for pages about all tenants; NULL: the public listener has them. With
// multi-tenancy, tenants must not know of each other: then the default is loopback, with a port
// that the system chooses, because several processes may share the machine.
static const char *choose_admin(const struct program *p)
{
    const struct admin_settings *a = config_section(p->config, "admin");
    const struct auth_settings *auth = config_section(p->config, "auth");
    if (strcmp(a->listen, ADMIN_PUBLIC) == 0) return NULL;
    if (a->listen[0]) return a->listen;
    return auth->multitenancy_enabled ? "127.0.0.1:0" : NULL;
}

// Before the public listener, so that it never shows pages that belong here.
static bool open_admin(struct program *p, err *e)
{
    const char *listen = choose_admin(p);
    p->internal.tells_all = true;  // nodes trust each other
    p->admin.tells_all = listen != NULL;
    p->public.tells_all = !listen;
    if (!listen) return true;
    const struct server_options o = client_options(p, "admin", listen);
    if (!open_front(p, &p->admin, &o, e)) return err_wrap(e, "admin.listen");
    name_listener(p->admin_address, sizeof p->admin_address, listen, server_port(p->admin.server));
    return true;
}

// The address of the internal listener. A socket's path may have 107 bytes. If that of the data
// directory is longer, the socket is named through a descriptor of the directory, a path that works
// in this process only.
static bool choose_internal(struct program *p, const char *configured, char *listen, size_t size,
                            err *e)
{
    const char *fixed = p->process.all_in_one ? NULL : "127.0.0.1:4041";
    if (configured[0]) fixed = configured;
    assert(size > (size_t)SOCKET_PATH_MAX);
    int n = fixed ? snprintf(listen, size, "%s", fixed)
                  : snprintf(listen, size, "unix:%s/run/internal.sock", p->datadir.path);
    if (fixed || n < SOCKET_PATH_MAX) return true;
    char run[PATH_MAX + 8];
    snprintf(run, sizeof run, "%s/run", p->datadir.path);
    p->run_fd = open(run, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p->run_fd < 0) return err_set(e, ERR_UNAVAILABLE, "open %s: %s", run, strerror(errno));
    snprintf(listen, size, "unix:/proc/self/fd/%d/internal.sock", p->run_fd);
    return true;
}

static bool is_of_this_machine(str listen)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    str host = str_slice(listen, 0, str_rfind(listen, ':'));
    if (str_starts(listen, S("unix:")) || str_starts(host, S("127."))) return true;
    for (size_t i = 0; i < COUNT(hosts); i++) {
        if (str_is(host, hosts[i])) return true;
    }
    return false;
}

// The internal listener trusts the tenants that nodes name: any client that reaches it can read and
// write for every tenant.
static void tell_exposed(const char *listen, bool tls)
{
    char quoted[LOG_QUOTE_MAX];
    if (tls || is_of_this_machine(str_of(listen))) return;
    log_warn(NULL, "internal.exposed", "listen=%s why=\"%s\" do=\"%s\"",
             log_quote(quoted, str_of(listen)),
             "without TLS whoever reaches this address reads and writes for every tenant",
             "set internal.tls_cert_file, tls_key_file and tls_ca_file, or let only nodes of this "
             "cluster reach it (firewall, NetworkPolicy)");
}

static bool open_internal(struct program *p, err *e)
{
    const struct internal_settings *i = config_section(p->config, "internal");
    char listen[sizeof p->internal_address];
    if (!choose_internal(p, i->listen, listen, sizeof listen, e)) return false;
    bool tls = i->tls_cert_file[0] && !str_starts(str_of(listen), S("unix:"));
    tell_exposed(listen, tls);
    struct server_options o = common_options(p);
    o.name = "internal";
    o.listen = listen;
    o.tls_cert_file = tls ? i->tls_cert_file : NULL;
    o.tls_key_file = tls ? i->tls_key_file : NULL;
    o.tls_client_ca_file = tls ? i->tls_ca_file : NULL;
    o.tls_required = tls;
    o.streams_max = (unsigned)i->streams_max;
    o.connections_max = (unsigned)i->connections_max;
    o.rank = RANK_INGESTER;
    if (!open_front(p, &p->internal, &o, e)) return false;
    name_listener(p->internal_address, sizeof p->internal_address, listen,
                  server_port(p->internal.server));
    // Before the first call; calls of this process to itself need no socket.
    client_loopback(p->client, str_of(p->internal_address), p->internal.server);
    return true;
}

// ---- certificates

static void tell_reload(const char *of, bool ok, const err *e)
{
    char quoted[LOG_QUOTE_MAX];
    metric_add_to(&service_tls_reloads, ok ? S("well") : S("refused"), 1);
    if (ok)
        log_info(NULL, "tls.reloaded", "of=%s", of);
    else
        log_error(NULL, "tls.refused", "of=%s why=%s", of, log_quote(quoted, str_of(e->msg)));
}

void program_reload_tls(struct program *p)
{
    const struct server_settings *s = config_section(p->config, "server");
    const struct internal_settings *i = config_section(p->config, "internal");
    err e = {0};
    // Each by itself: one that cannot be used must not keep the others old.
    if (s->tls_cert_file[0])
        tell_reload("public_listener", server_reload_tls(p->public.server, &e), &e);
    if (s->tls_cert_file[0] && p->admin.server)
        tell_reload("admin_listener", server_reload_tls(p->admin.server, &e), &e);
    if (s->tls_cert_file[0]) doors_reload_tls(p, tell_reload);
    if (!i->tls_cert_file[0]) return;
    if (!str_starts(str_of(p->internal_address), S("unix:")))
        tell_reload("internal_listener", server_reload_tls(p->internal.server, &e), &e);
    tell_reload("client", set_client_tls(p, &e), &e);
}

// ---- members

static bool add_members(struct program *p, enum member_kind kind, const char *key, CONFIG_LIST list,
                        err *e)
{
    for (size_t i = 0; i < list.n; i++) {
        if (dns_is(str_of(list.v[i]))) continue;  // looked up later (discover.h)
        if (!members_add(p->members, kind, str_of(list.v[i]), e)) return err_wrap(e, "%s", key);
    }
    return true;
}

static bool open_members(struct program *p, err *e)
{
    const struct cluster_settings *c = config_section(p->config, "cluster");
    p->members = members_new(e);
    if (!p->members) return false;
    if (!add_members(p, MEMBER_INGESTER, "cluster.ingesters", c->ingesters, e)) return false;
    if (!add_members(p, MEMBER_QUERIER, "cluster.queriers", c->queriers, e)) return false;
    if (!add_members(p, MEMBER_COMPACTOR, "cluster.compactors", c->compactors, e)) return false;
    if (!p->process.all_in_one || c->ingesters.n > 0) return true;
    // The all-in-one lists no ingester, because it is its own.
    char self[sizeof p->id + sizeof p->internal_address + 2];
    int n = snprintf(self, sizeof self, "%s=%s", p->id, p->internal_address);
    return members_add(p->members, MEMBER_INGESTER, str_make(self, (size_t)n), e);
}

// ---- the whole

static void choose_id(struct program *p)
{
    const struct server_settings *s = config_section(p->config, "server");
    snprintf(p->id, sizeof p->id, "%s", s->id);
    if (p->id[0]) return;
    // The id names the node in every store and answer, so it is never empty.
    if (gethostname(p->id, sizeof p->id) != 0 || !p->id[0])
        snprintf(p->id, sizeof p->id, "%s", "flametree");
    p->id[sizeof p->id - 1] = '\0';
}

bool program_open(struct program *p, err *e)
{
    const struct server_settings *s = config_section(p->config, "server");
    assert(p->config && p->tenants && p->unit_count > 0);
    p->datadir.lock = -1;
    p->run_fd = -1;
    p->process.all_in_one = p->unit_count > 1;
    choose_id(p);
    p->notices = notices_new();
    mem_budget_init(&p->memory, "server.memory_limit", NULL, s->memory_limit);
    mem_budget_init(&p->requests, "requests", &p->memory, 0);
    mem_budget_init(&p->pushes, "pushes", &p->requests, 0);
    p->pushes.leaves = s->memory_limit / PUSHES_LEAVE;
    // Requests and pushes are children of the whole: each leaves the rest what it does not use.
    process_watch_budget(&p->memory);
    process_watch_budget(&p->requests);
    process_watch_budget(&p->pushes);
    mem_budget_init(&p->refusals, "refusals", NULL, REFUSALS_MAX);
    process_watch_budget(&p->refusals);
    size_t answers = s->answers_memory ? s->answers_memory : s->memory_limit / ANSWERS_PART;
    mem_budget_init(&p->answers, "answers", &p->memory, answers);
    process_watch_budget(&p->answers);
    // Without a parent: what is kept for vital requests must be there when the rest is used up.
    mem_budget_init(&p->reserve, "reserve", NULL, RESERVE_MAX);
    process_watch_budget(&p->reserve);
    if (!datadir_open(&p->datadir, s->data_dir, e) || !tenants_start(p->tenants, e)) return false;
    // Loops and lanes before listeners, which need both; members last, as they name a listener.
    if (!open_loops(p, e) || !open_lanes(p, e)) return false;
    if (!open_admin(p, e) || !open_public(p, e) || !open_internal(p, e) || !open_members(p, e))
        return false;
    if (!node_identify(p, e)) return false;
    p->process = (struct process){
        .config = p->config,
        .memory = &p->memory,
        .client = p->client,
        .members = p->members,
        .data_dir = p->datadir.path,
        .id = p->id,
        .identity = &p->identity,
        .notices = p->notices,
        .program = p,
        .all_in_one = p->process.all_in_one,
        .public_port = server_port(p->public.server),
        .public_address = p->public_address,
        .internal_address = p->internal_address,
    };
    log_info(NULL, "process.listening", "public_port=%u internal=%s admin=%s id=%s",
             p->process.public_port, p->internal_address,
             p->admin.server ? p->admin_address : ADMIN_PUBLIC, p->id);
    struct buf doors;
    buf_init(&doors, NULL, (size_t)DOORS_MAX * ADDRESS_MAX);
    doors_print(p, &doors);
    bool ok = datadir_write_ports(&p->datadir, p->process.public_port, p->internal_address,
                                  p->admin_address, buf_view(&doors), e);
    buf_release(&doors);
    return ok;
}

static unsigned long long ms_since(uint64_t begin_mono_ns)
{
    return (clock_mono_ns() - begin_mono_ns) / (uint64_t)NS_PER_MS;
}

static bool start_units(struct program *p, err *e)
{
    for (size_t i = 0; i < p->unit_count; i++) {
        // In the order of the table: a service may use those before it (members, store).
        struct unit *u = &p->units[i];
        uint64_t begin = clock_mono_ns();
        assert(!atomic_load_explicit(&u->started, memory_order_relaxed));
        if (!u->service->start(&p->process, &u->self, e))
            return err_wrap(e, "%s", u->service->name);
        // Release: a thread that sees it (/ready) sees *self as well.
        atomic_store_explicit(&u->started, true, memory_order_release);
        log_info(NULL, "service.started", "service=%s took_ms=%llu", u->service->name,
                 ms_since(begin));
    }
    return true;
}

// The body limit of a tenant's pushes. Without one a push is bounded by the memory of a request.
static size_t push_body_max(void *arg, struct arena *a, str tenant)
{
    const struct program *p = arg;
    const struct server_settings *s = config_section(p->config, "server");
    double mebibytes = tenant_limits(p->config, a, tenant)->ingestion_body_limit_mb;
    assert(s->request_memory > 0);
    return mebibytes > 0 ? (size_t)(mebibytes * 1048576.0) : s->request_memory;
}

// The listener of admin.listen has the rows about all tenants, and /ready.
static void publish_admin(struct program *p, struct router_options o)
{
    o.admin_elsewhere = false;
    o.guard = &p->admin.guard;
    struct router *r = router_new(&o);
    router_add_http(r, admin_routes, admin_route_count, &p->admin, p->admin_lanes);
    router_add_http(r, admin_public_routes, admin_public_route_count, p, p->admin_lanes);
    for (size_t k = 0; k < p->unit_count; k++) {
        struct unit *u = &p->units[k];
        const struct service *v = u->service;
        for (size_t i = 0; i < v->public_http_count; i++) {
            const struct http_route *row = &v->public_http[i];
            if (row->auth == ROUTE_ADMIN) router_add_http(r, row, 1, u->self, u->lanes);
        }
    }
    front_publish(&p->admin, r);
}

static void publish(struct program *p)
{
    const struct server_settings *s = config_section(p->config, "server");
    const struct internal_settings *i = config_section(p->config, "internal");
    const struct auth_settings *a = config_section(p->config, "auth");
    struct router_options public = {
        .multitenancy = a->multitenancy_enabled,
        .body_max = s->body_max,
        .large_body_max = push_body_max,
        .arg = p,
        .answer_max = s->answer_max,
        .memory = &p->requests,
        .large_memory = &p->pushes,
        .admin_elsewhere = p->admin.server != NULL,
        .guard = &p->public.guard,
    };
    struct router_options internal = {
        .multitenancy = a->multitenancy_enabled,
        .body_max = i->body_max,
        .answer_max = i->body_max,
        .memory = &p->requests,
        .large_memory = &p->pushes,
        .arg = p,
        .admit = node_admit,
        .guard = &p->internal.guard,
    };
    struct router *outer = router_new(&public);
    struct router *inner = router_new(&internal);
    router_add_http(outer, admin_routes, admin_route_count, &p->public, p->admin_lanes);
    router_add_http(outer, admin_public_routes, admin_public_route_count, p, p->admin_lanes);
    router_add_http(inner, admin_routes, admin_route_count, &p->internal, p->admin_lanes);
    router_add_rpc(outer, health_rpc, health_rpc_count, p, p->admin_lanes);
    router_add_rpc(inner, health_rpc, health_rpc_count, p, p->admin_lanes);
    router_add_rpc(inner, node_rpc, node_rpc_count, p, p->admin_lanes);
    for (size_t k = 0; k < p->unit_count; k++) {
        struct unit *u = &p->units[k];
        const struct service *v = u->service;
        router_add_rpc(outer, v->public_rpc, v->public_rpc_count, u->self, u->lanes);
        router_add_http(outer, v->public_http, v->public_http_count, u->self, u->lanes);
        router_add_rpc(inner, v->internal_rpc, v->internal_rpc_count, u->self, u->lanes);
    }
    // The admin listener before the public one, which refers to it.
    if (p->admin.server) publish_admin(p, public);
    front_publish(&p->internal, inner);  // first: the public side may ask it at once
    front_publish(&p->public, outer);
    doors_publish(p, &public);
}

// Is one of the services a distributor, which takes pushes at the public listener?
static bool takes_pushes(const struct program *p)
{
    for (size_t i = 0; i < p->unit_count; i++) {
        const struct service *s = p->units[i].service;
        for (size_t k = 0; k < s->public_rpc_count; k++) {
            if (strcmp(s->public_rpc[k].path, SELFPROFILE_PUSH_PATH) == 0) return true;
        }
    }
    return false;
}

static uint32_t weight_of(void *arg)
{
    const struct program *p = arg;
    const struct cluster_settings *c = config_section(p->config, "cluster");
    return (uint32_t)c->weight;
}

static bool start_prober(struct program *p, err *e)
{
    const struct cluster_settings *c = config_section(p->config, "cluster");
    const struct prober_options o = {.client = p->probe_client,
                                     .members = p->members,
                                     .self = &p->identity,
                                     .interval_ns = (uint64_t)c->probe_interval,
                                     .weight = weight_of,
                                     .arg = p};
    // Now, before a push may be placed.
    members_weigh(p->members, p->identity.address, weight_of(p));
    p->prober = prober_start(&o, e);
    return p->prober != NULL;
}

static void listed(void *arg, enum member_kind kind, const char *const **v, size_t *n)
{
    const struct program *p = arg;
    const struct cluster_settings *c = config_section(p->config, "cluster");
    const CONFIG_LIST lists[MEMBER_KINDS] = {[MEMBER_INGESTER] = c->ingesters,
                                             [MEMBER_QUERIER] = c->queriers,
                                             [MEMBER_COMPACTOR] = c->compactors};
    *v = lists[kind].v;
    *n = lists[kind].n;
}

static bool start_discoverer(struct program *p, err *e)
{
    const struct cluster_settings *c = config_section(p->config, "cluster");
    const struct discover_options o = {.client = p->probe_client,
                                       .members = p->members,
                                       .self = &p->identity,
                                       .interval_ns = (uint64_t)c->dns_interval,
                                       .servers = c->dns_servers,
                                       .entries = listed,
                                       .arg = p};
    // The all-in-one without a list is its own member, which no list has.
    if (p->process.all_in_one && c->ingesters.n == 0) return true;
    struct discoverer *d = discover_start(&o, e);
    atomic_store(&p->discoverer, d);
    return d != NULL;
}

bool program_start(struct program *p, err *e)
{
    assert(atomic_load(&p->state) == PROGRAM_STARTING);
    p->selfprofile =
        selfprofile_start(&p->process, takes_pushes(p));  // first: it profiles the start
    // Before the services, which find their data there; the listeners answer "starting" meanwhile.
    if (!storage_open(p, e)) return false;
    if (!p->process.store) p->process.directories = directories_new(p->notices);
    if (!start_units(p, e)) return false;
    publish(p);
    if (!start_prober(p, e) || !start_discoverer(p, e)) return false;
    p->watch = watch_start(p, e);
    if (!p->watch) return false;
    atomic_store(&p->state, PROGRAM_READY);
    metric_set(&service_ready, 1);
    if (p->selfprofile) selfprofile_ready(p->selfprofile);
    log_info(NULL, "process.ready", "public_port=%u", p->process.public_port);
    return true;
}

void program_drain(struct program *p)
{
    const struct server_settings *s = config_section(p->config, "server");
    uint64_t timeout_ns = (uint64_t)s->drain_timeout;
    log_info(NULL, "process.draining", "timeout_ms=%llu",
             (unsigned long long)(timeout_ns / (uint64_t)NS_PER_MS));
    assert(atomic_load(&p->state) == PROGRAM_READY);
    atomic_store(&p->state, PROGRAM_DRAINING);
    metric_set(&service_ready, 0);
    // /ready says "draining" from here on, and balancers stop sending.
    watch_stop(p->watch);
    p->watch = NULL;
    selfprofile_stop(p->selfprofile);
    p->selfprofile = NULL;
    for (size_t i = p->unit_count; i-- > 0;) {
        const struct unit *u = &p->units[i];
        if (u->service->draining) u->service->draining(u->self);
    }
    // The public listener first: its requests may need the internal one. The admin listener last,
    // so that /ready and /metrics can be watched meanwhile.
    uint64_t begin = clock_mono_ns();
    uint64_t deadline = begin + timeout_ns;
    server_drain(p->public.server, timeout_ns);
    uint64_t now = clock_mono_ns();
    doors_drain(p, now < deadline ? deadline - now : 0);
    for (size_t i = p->unit_count; i-- > 0;) {
        const struct unit *u = &p->units[i];
        // An eighth of the time is left for requests of other nodes.
        if (u->service->retire) u->service->retire(u->self, deadline - timeout_ns / 8);
    }
    now = clock_mono_ns();
    server_drain(p->internal.server, now < deadline ? deadline - now : 0);
    now = clock_mono_ns();
    if (p->admin.server) server_drain(p->admin.server, now < deadline ? deadline - now : 0);
    log_info(NULL, "listeners.drained", "took_ms=%llu", ms_since(begin));
    for (size_t i = p->unit_count; i-- > 0;) {
        const struct unit *u = &p->units[i];
        begin = clock_mono_ns();
        if (u->service->drain) u->service->drain(u->self, deadline);
        log_info(NULL, "service.drained", "service=%s took_ms=%llu", u->service->name,
                 ms_since(begin));
    }
}

void program_close(struct program *p)
{
    watch_stop(p->watch);
    p->watch = NULL;
    selfprofile_stop(p->selfprofile);
    p->selfprofile = NULL;
    discover_stop(atomic_load(&p->discoverer));
    prober_stop(p->prober);
    p->prober = NULL;
    // After a failed start the listeners are still open and have answered "starting" until here.
    // The order below: no new requests, no running jobs, then what the jobs used.
    if (p->public.server) server_drain(p->public.server, 0);
    doors_drain(p, 0);
    if (p->internal.server) server_drain(p->internal.server, 0);
    if (p->admin.server) server_drain(p->admin.server, 0);
    each_lane(p, lane_drain);
    if (p->public.server) server_close(p->public.server);
    doors_close(p);
    if (p->internal.server) server_close(p->internal.server);
    if (p->admin.server) server_close(p->admin.server);
    for (size_t i = p->unit_count; i-- > 0;) {
        struct unit *u = &p->units[i];
        if (!atomic_exchange(&u->started, false)) continue;
        uint64_t begin = clock_mono_ns();
        u->service->stop(u->self);
        log_info(NULL, "service.stopped", "service=%s took_ms=%llu", u->service->name,
                 ms_since(begin));
    }
    // After the services and before the clients: nobody reads or writes any more.
    storage_close(p);
    if (p->public.router) router_free(p->public.router);
    doors_free(p);
    if (p->internal.router) router_free(p->internal.router);
    if (p->admin.router) router_free(p->admin.router);
    each_lane(p, lane_free);
    discover_free(atomic_load(&p->discoverer));
    atomic_store(&p->discoverer, NULL);
    client_free(p->client);
    client_free(p->probe_client);
    for (size_t i = 0; i < p->loop_count; i++)
        loop_free(p->loops[i]);
    loop_free(p->client_loop);  // after the clients: it asserts that no handle is left
    // Loops are gone, so no callback can come.
    members_free(p->members);
    directories_free(p->process.directories);
    notices_free(p->notices);
    if (p->datadir.lock >= 0) datadir_remove_ports(&p->datadir);
    datadir_close(&p->datadir);
    if (p->run_fd >= 0 && close(p->run_fd) != 0) log_warn(NULL, "close.failed", "path=%s", "run");
    process_unwatch_budget(&p->pushes);
    process_unwatch_budget(&p->requests);
    process_unwatch_budget(&p->refusals);
    process_unwatch_budget(&p->reserve);
    process_unwatch_budget(&p->answers);
    process_unwatch_budget(&p->memory);
    assert(atomic_load(&p->memory.used) == 0);  // all that was counted has been given back
}
