// SPDX-License-Identifier: Apache-2.0
//
// doors.c - listeners of services, at ports that clients of a protocol know. The public listener
// has their routes as well, so a port that is taken takes nothing away but the convenience.
#include "codec/json.h"
#include "service/program.h"

#include <stdio.h>

// The address with the host of server.listen, if it has none of its own.
static void complete(const struct program *p, const char *address, char *out, size_t size)
{
    const struct server_settings *s = config_section(p->config, "server");
    str all = str_of(s->listen);
    str host =
        str_starts(all, S("unix:")) ? S("127.0.0.1") : str_slice(all, 0, str_rfind(all, ':'));
    snprintf(out, size, "%.*s%s", address[0] == ':' ? (int)host.n : 0, host.p, address);
}

static void open_door(struct program *p, struct unit *u, const struct service_listener *l,
                      const struct server_options *common)
{
    const char *address = l->address(p->config);
    if (!address[0]) return;
    assert(p->door_count < DOORS_MAX);
    const struct server_settings *s = config_section(p->config, "server");
    struct door *d = &p->doors[p->door_count];
    struct server_options o = *common;
    err e = {0};
    *d = (struct door){.of = l, .unit = u, .front = {.program = p}};
    complete(p, address, d->address, sizeof d->address);
    o.name = l->name;
    o.listen = d->address;
    guard_init(&d->front.guard, o.listen, s->hosts.v, s->hosts.n);
    d->front.prefix = program_path_prefix(s);
    d->front.server = server_open(&o, front_app(&d->front), p->loops, p->loop_count, &e);
    if (d->front.server) {
        p->door_count++;
        log_info(NULL, "listener.open", "name=%s port=%u", l->name, server_port(d->front.server));
        return;
    }
    char quoted[LOG_QUOTE_MAX];
    log_warn(NULL, "listener.unavailable",
             "name=%s why=%s do=\"set %s to another address, or to "
             "none; the public listener takes the same requests\"",
             l->name, log_quote(quoted, str_of(e.msg)), l->setting);
}

void doors_open(struct program *p, const struct server_options *common)
{
    for (size_t i = 0; i < p->unit_count; i++) {
        struct unit *u = &p->units[i];
        for (size_t k = 0; k < u->service->listener_count; k++)
            open_door(p, u, &u->service->listeners[k], common);
    }
}

void doors_publish(struct program *p, const struct router_options *o)
{
    for (size_t i = 0; i < p->door_count; i++) {
        struct door *d = &p->doors[i];
        struct router_options own = *o;
        own.guard = &d->front.guard;
        struct router *r = router_new(&own);
        router_add_rpc(r, d->of->rpc, d->of->rpc_count, d->unit->self, d->unit->lanes);
        router_add_http(r, d->of->http, d->of->http_count, d->unit->self, d->unit->lanes);
        front_publish(&d->front, r);
    }
}

void doors_reload_tls(struct program *p, void (*tell)(const char *of, bool ok, const err *e))
{
    for (size_t i = 0; i < p->door_count; i++) {
        err e = {0};
        bool ok = server_reload_tls(p->doors[i].front.server, &e);
        tell(p->doors[i].of->name, ok, &e);
    }
}

void doors_drain(struct program *p, uint64_t timeout_ns)
{
    uint64_t deadline = clock_mono_ns() + timeout_ns;
    for (size_t i = 0; i < p->door_count; i++) {
        uint64_t now = clock_mono_ns();
        server_drain(p->doors[i].front.server, now < deadline ? deadline - now : 0);
    }
}

void doors_close(struct program *p)
{
    for (size_t i = 0; i < p->door_count; i++)
        server_close(p->doors[i].front.server);
}

void doors_free(struct program *p)
{
    for (size_t i = 0; i < p->door_count; i++) {
        if (p->doors[i].front.router) router_free(p->doors[i].front.router);
    }
    p->door_count = 0;
}

void doors_print(const struct program *p, struct buf *out)
{
    for (size_t i = 0; i < p->door_count; i++) {
        buf_byte(out, ',');
        json_put_string(out, str_of(p->doors[i].of->name));
        buf_printf(out, ":%u", server_port(p->doors[i].front.server));
    }
}
