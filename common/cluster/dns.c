// SPDX-License-Identifier: Apache-2.0
//
// dns.c - a look-up on a channel of its own; this thread waits for its sockets.
#include "cluster/dns.h"

#include "sys/clock.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define TRIES       2
#define LOOK_US     100000  // between looks at *stop
#define ADDRESS_MAX 300     // a host name has 255 bytes

struct look_up {
    const struct dns_name *name;
    struct arena *a;
    str *v;
    size_t n;
    size_t cap;
    bool done;
    int status;
};

bool dns_is(str entry)
{
    return str_starts(str_trim(entry), S(DNS_PREFIX));
}

bool dns_parse(str entry, struct dns_name *out, err *e)
{
    str text = str_trim(entry);
    str rest = str_slice(text, sizeof DNS_PREFIX - 1, text.n);
    size_t colon = str_rfind(rest, ':');
    bool srv = str_starts(rest, S("_"));
    uint64_t port = 0;
    assert(dns_is(entry));
    *out = (struct dns_name){.name = colon < rest.n ? str_slice(rest, 0, colon) : rest};
    if (out->name.n == 0 || out->name.n > NS_MAXDNAME)
        return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' has no name", STR(text));
    if (srv && colon == rest.n) return true;
    if (!srv && colon < rest.n && str_u64(str_slice(rest, colon + 1, rest.n), &port) && port > 0 &&
        port < 65536) {
        out->port = (unsigned)port;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "'%.*s' is neither dns:NAME:PORT nor dns:_PORT._tcp.NAME", STR(text));
}

static void note(struct look_up *l, str host, unsigned port)
{
    bool v6 = str_find(host, ':') < host.n;
    if (!arena_grow(l->a, &l->v, &l->cap, l->n + 1, sizeof *l->v)) return;
    l->v[l->n++] = v6 ? arena_printf(l->a, "[%.*s]:%u", STR(host), port)
                      : arena_printf(l->a, "%.*s:%u", STR(host), port);
}

static void on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    struct look_up *l = arg;
    l->done = true;
    l->status = status;
    for (const struct ares_addrinfo_node *x = found ? found->nodes : NULL; x; x = x->ai_next) {
        char host[INET6_ADDRSTRLEN];
        const void *address =
            x->ai_family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)(const void *)x->ai_addr)->sin_addr
                : &((const struct sockaddr_in6 *)(const void *)x->ai_addr)->sin6_addr;
        if (inet_ntop(x->ai_family, address, host, sizeof host))
            note(l, str_of(host), l->name->port);
    }
    if (found) ares_freeaddrinfo(found);
}

static void on_services(void *arg, int status, int timeouts, unsigned char *bytes, int n)
{
    (void)timeouts;
    struct look_up *l = arg;
    struct ares_srv_reply *all = NULL;
    l->done = true;
    l->status = status == ARES_SUCCESS ? ares_parse_srv_reply(bytes, n, &all) : status;
    for (const struct ares_srv_reply *x = all; x; x = x->next) {
        str host = str_of(x->host);
        if (host.n && host.p[host.n - 1] == '.') host.n--;
        if (host.n && host.n < ADDRESS_MAX) note(l, host, x->port);
    }
    if (all) ares_free_data(all);
}

// The sockets that the channel has open, and what it waits for.
static nfds_t sockets_of(ares_channel channel, struct pollfd fds[ARES_GETSOCK_MAXNUM])
{
    ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
    nfds_t n = 0;
    // Its macros shift 1 into the sign.
    unsigned bits = (unsigned)ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        short events = 0;
        if (bits >> i & 1) events |= POLLIN;
        if (bits >> (i + ARES_GETSOCK_MAXNUM) & 1) events |= POLLOUT;
        if (events) fds[n++] = (struct pollfd){.fd = sockets[i], .events = events};
    }
    return n;
}

static void wait_once(ares_channel channel)
{
    struct pollfd fds[ARES_GETSOCK_MAXNUM];
    struct timeval most = {.tv_usec = LOOK_US};
    struct timeval left;
    nfds_t n = sockets_of(channel, fds);
    const struct timeval *wait = ares_timeout(channel, &most, &left);
    int ready = poll(fds, n, (int)(wait->tv_sec * 1000 + wait->tv_usec / 1000));
    // Also without an event: tries end by time.
    if (ready <= 0) ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    for (nfds_t i = 0; i < n && ready > 0; i++) {
        bool in = fds[i].revents & (POLLIN | POLLERR | POLLHUP);
        bool out = fds[i].revents & (POLLOUT | POLLERR | POLLHUP);
        ares_process_fd(channel, in ? fds[i].fd : ARES_SOCKET_BAD,
                        out ? fds[i].fd : ARES_SOCKET_BAD);
    }
}

static bool is_stopped(const struct dns_options *o)
{
    return o->stop && atomic_load(o->stop);
}

// Until the answer is there.
static void wait_for(ares_channel channel, const struct look_up *l, const struct dns_options *o)
{
    uint64_t until = clock_mono_ns() + o->timeout_ns;
    while (!l->done && clock_mono_ns() < until && !is_stopped(o))
        wait_once(channel);
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static size_t unique(str *v, size_t n)
{
    size_t kept = 0;
    if (n) qsort(v, n, sizeof *v, by_text);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || !str_eq(v[kept - 1], v[i])) v[kept++] = v[i];
    }
    return kept;
}

static bool unavailable(const struct dns_name *name, const char *why, err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "DNS: %.*s: %s", STR(name->name), why);
}

// Asks, and waits for the answer.
static bool ask(ares_channel channel, struct look_up *l, const struct dns_options *o, err *e)
{
    const struct dns_name *name = l->name;
    char text[NS_MAXDNAME + 1];
    snprintf(text, sizeof text, "%.*s", STR(name->name));
    if (o->servers && o->servers[0]) {
        int set = ares_set_servers_ports_csv(channel, o->servers);
        if (set != ARES_SUCCESS) return unavailable(name, ares_strerror(set), e);
    }
    if (name->port == 0) {
        ares_search(channel, text, ns_c_in, ns_t_srv, on_services, l);
    } else {
        const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC,
                                                  .ai_socktype = SOCK_STREAM,
                                                  .ai_flags = ARES_AI_NOSORT};
        ares_getaddrinfo(channel, text, NULL, &hints, on_addresses, l);
    }
    wait_for(channel, l, o);
    if (!l->done) ares_cancel(channel);  // calls back at once
    if (is_stopped(o)) return err_set(e, ERR_CANCELED, "DNS: the process ends");
    if (l->status == ARES_ECANCELLED) return unavailable(name, "no answer in time", e);
    if (l->status != ARES_SUCCESS) return unavailable(name, ares_strerror(l->status), e);
    return l->n > 0 || unavailable(name, "it has no addresses", e);
}

bool dns_look_up(const struct dns_name *name, const struct dns_options *o, struct arena *a,
                 str **addresses, size_t *n, err *e)
{
    struct look_up l = {.name = name, .a = a};
    struct ares_options options = {.timeout = (int)(o->timeout_ns / (uint64_t)NS_PER_MS / TRIES),
                                   .tries = TRIES};
    ares_channel channel = NULL;
    // Without the library's cache of anything: a channel lives for one look-up.
    int made = ares_init_options(&channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
    if (made != ARES_SUCCESS) return unavailable(name, ares_strerror(made), e);
    bool ok = ask(channel, &l, o, e);
    ares_destroy(channel);
    if (!ok || !arena_ok(a, e)) return false;
    *addresses = l.v;
    *n = unique(l.v, l.n);
    return true;
}
