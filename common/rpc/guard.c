// SPDX-License-Identifier: Apache-2.0
//
// guard.c - the rules for Host, Origin and Sec-Fetch-Site that keep foreign pages away.
#include "rpc/guard.h"

#include "rpc/metrics.h"

#include <arpa/inet.h>

#define SHOWN_MAX 200  // bytes of a value in a message

// The host without port, brackets, and the dot that a complete name may end with.
static str host_of(str authority)
{
    if (str_starts(authority, S("["))) return str_slice(authority, 1, str_find(authority, ']'));
    // An IPv6 address stands in brackets, because it has colons itself.
    str host = str_slice(authority, 0, str_find(authority, ':'));
    return str_ends(host, S(".")) ? str_slice(host, 0, host.n - 1) : host;
}

// IPv4 in all spellings that browsers take (127.1 is one): no page can have such a name.
static bool is_address(str host)
{
    char z[64];
    struct in_addr v4;
    struct in6_addr v6;
    if (host.n == 0 || host.n >= sizeof z) return false;
    memcpy(z, host.p, host.n);
    z[host.n] = '\0';
    if (inet_aton(z, &v4) != 0) return true;
    z[str_find(host, '%')] = '\0';  // a zone
    return inet_pton(AF_INET6, z, &v6) == 1;
}

static bool ends_like(str s, str end)
{
    return s.n > end.n && str_ieq(str_slice(s, s.n - end.n, s.n), end);
}

static bool is_localhost(str host)
{
    return str_ieq(host, S("localhost")) || ends_like(host, S(".localhost"));
}

static bool is_listed(const struct guard *g, str host)
{
    for (size_t i = 0; i < g->host_count; i++) {
        str name = str_of(g->hosts[i]);
        // "*.example.org" stands for all names below it, not for example.org itself.
        if (str_starts(name, S("*.")) && ends_like(host, str_slice(name, 1, name.n))) return true;
        if (str_ieq(host, host_of(name))) return true;
    }
    return false;
}

static bool takes_all(const struct guard *g)
{
    for (size_t i = 0; i < g->host_count; i++) {
        if (strcmp(g->hosts[i], "*") == 0) return true;
    }
    return false;
}

static bool is_loopback(str host)
{
    return is_localhost(host) || str_is(host, "::1") || str_starts(host, S("127."));
}

void guard_init(struct guard *g, const char *listen, const char *const *hosts, size_t n)
{
    str all = str_of(listen);
    *g = (struct guard){.hosts = hosts, .host_count = n};
    if (str_starts(all, S("unix:"))) return;
    assert(listen && (n == 0 || hosts));
    g->listen = host_of(str_slice(all, 0, str_rfind(all, ':')));
    g->every_name = is_loopback(g->listen);
}

static bool looks_like_browser(const struct http_exchange *x)
{
    return http_headers_has(&x->headers, "origin") || http_headers_has(&x->headers, "referer") ||
           str_contains(http_headers_get(&x->headers, "user-agent"), S("Mozilla/"));
}

// A request without a host is not a browser's, so it passes.
static bool names_us(const struct guard *g, str authority)
{
    str host = host_of(authority);
    return authority.n == 0 || is_address(host) || is_localhost(host) ||
           (g->listen.n && str_ieq(host, g->listen)) || is_listed(g, host);
}

static str shown(str value)
{
    return str_slice(value, 0, SHOWN_MAX);
}

static bool refuse_name(const struct http_exchange *x, err *e)
{
    metric_add_to(&rpc_foreign, S("host"), 1);
    return err_set(e, ERR_PERMISSION_DENIED,
                   "%s '%.*s' is no name of this server: ask it by address or localhost, or list "
                   "the name in the setting server.hosts",
                   x->version >= 20 ? ":authority" : "Host", STR(shown(x->authority)));
}

// The authority of an origin; empty if it has none ("null", or no origin at all).
static str guard_place_of(str origin)
{
    str rest = {0};
    str scheme = str_split(origin, ':', &rest);
    bool whole = scheme.n && str_starts(rest, S("//"));
    return whole ? str_slice(rest, 2, rest.n) : (str){0};
}

// A proxy before us may name its upstream in Host, as nginx does unless it is told otherwise. Then
// Host and Origin differ for our own page as they do for a foreign one, and Sec-Fetch-Site tells
// them apart: for the browser the page and the address that it asks are one. A page cannot set that
// header, and browsers send it only to places whose name is proven, by a certificate or because it
// is this machine. So no name that was made to point here gets it, and from an origin without TLS
// it is not believed.
static bool browser_vouches(const struct guard *g, const struct http_exchange *x, str origin)
{
    str place = guard_place_of(origin);
    str host = host_of(place);
    if (!str_is(http_headers_get(&x->headers, "sec-fetch-site"), "same-origin")) return false;
    if (!place.n || http_same_authority(place, x->authority)) return false;
    // If Origin and Host name one host, whatever the ports, no proxy has replaced Host by the name
    // of its upstream. The page's name may have been made to point here, so Host must name us.
    if (str_ieq(host, host_of(x->authority)) && !names_us(g, x->authority)) return false;
    return str_starts(origin, S("https://")) || is_localhost(host) ||
           (is_address(host) && is_loopback(host));
}

// Other proxies (Apache's, Traefik) say which Host they were asked for. A foreign page cannot add
// the header: browsers first ask whether it may, and no route here says yes. By rebinding it would
// have the foreign name, so it has to name us as Host has to. Some proxies leave the port out: then
// another program of the same host looks like us, unless the browser says that it is another.
static bool proxy_vouches(const struct guard *g, const struct http_exchange *x, str place)
{
    str site = http_headers_get(&x->headers, "sec-fetch-site");
    if (site.n && !str_is(site, "same-origin")) return false;
    str asked = http_headers_get(&x->headers, "x-forwarded-host");
    asked = str_trim(str_slice(asked, 0, str_find(asked, ',')));
    return asked.n > 0 && http_same_authority(place, asked) && names_us(g, asked);
}

static bool check_origin(const struct guard *g, const struct http_exchange *x, str origin, err *e)
{
    // The browser sets Origin, a page cannot: another one than ours shows that another page asks.
    str place = guard_place_of(origin);
    if (place.n && (http_same_authority(place, x->authority) || is_listed(g, host_of(place)) ||
                    proxy_vouches(g, x, place)))
        return true;
    metric_add_to(&rpc_foreign, S("origin"), 1);
    return err_set(e, ERR_PERMISSION_DENIED,
                   "Origin '%.*s' is another page than this server's ('%.*s'): if it is a name of "
                   "this server, list its host in the setting server.hosts, or let the proxy in "
                   "front pass Host on (nginx: proxy_set_header Host $host)",
                   STR(shown(origin)), STR(shown(x->authority)));
}

// The user follows a link: the answer becomes a new page, which the old one cannot read.
static bool is_navigation(const struct http_exchange *x)
{
    return (str_is(x->method, "GET") || str_is(x->method, "HEAD")) &&
           str_is(http_headers_get(&x->headers, "sec-fetch-mode"), "navigate") &&
           str_is(http_headers_get(&x->headers, "sec-fetch-dest"), "document");
}

static bool check_site(const struct http_exchange *x, str site, err *e)
{
    if (str_is(site, "same-origin") || str_is(site, "none") || is_navigation(x)) return true;
    metric_add_to(&rpc_foreign, S("sec-fetch-site"), 1);
    return err_set(e, ERR_PERMISSION_DENIED,
                   "Sec-Fetch-Site '%.*s': a page of another site asks; only this server's own "
                   "page may (the setting server.hosts tells its names)",
                   STR(shown(site)));
}

bool guard_check(const struct guard *g, const struct http_exchange *x, err *e)
{
    if (takes_all(g)) return true;
    str origin = http_headers_get(&x->headers, "origin");
    if (browser_vouches(g, x, origin)) return true;
    // DNS rebinding: a page of a foreign name whose address is ours. Its requests have that name.
    bool asked = g->every_name || looks_like_browser(x);
    if (asked && !names_us(g, x->authority)) return refuse_name(x, e);
    if (http_headers_has(&x->headers, "origin")) return check_origin(g, x, origin, e);
    if (!http_headers_has(&x->headers, "sec-fetch-site")) return true;
    return check_site(x, http_headers_get(&x->headers, "sec-fetch-site"), e);
}
