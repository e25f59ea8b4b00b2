// SPDX-License-Identifier: Apache-2.0
//
// cli_url.c - takes a URL apart, strictly, into what requests and messages need.
#include "deploy/cli/cli_url.h"

#include "codec/url.h"

// The parts of "[user@]host[:port]"; an address of IPv6 is in brackets.
static bool split_host(str authority, str *user, str *host, str *port)
{
    assert(user && host && port);
    // The last '@': a password may have one.
    size_t at = str_rfind(authority, '@');
    *user = at < authority.n ? str_slice(authority, 0, at) : (str){0};
    if (at < authority.n) authority = str_slice(authority, at + 1, authority.n);
    size_t bracket = str_rfind(authority, ']');
    size_t colon = str_rfind(authority, ':');
    bool has_port = colon < authority.n && (bracket == authority.n || colon > bracket);
    *host = str_slice(authority, 0, has_port ? colon : authority.n);
    *port = has_port ? str_slice(authority, colon + 1, authority.n) : (str){0};
    if (has_port && port->n == 0) return false;
    // Without brackets its last part would seem to be a port.
    bool bare_ipv6 = bracket == authority.n && str_find(*host, ':') < host->n;
    return host->n > 0 && !bare_ipv6;
}

static bool is_clean(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' || c == '\\') return false;
    }
    return true;
}

bool cli_url_parse(struct arena *a, str text, struct cli_url *out, err *e)
{
    assert(a && out);
    *out = (struct cli_url){0};
    str rest = str_trim(text);
    if (str_starts(rest, S("https://"))) {
        out->tls = true;
        rest = str_slice(rest, 8, rest.n);
    } else if (str_starts(rest, S("http://"))) {
        rest = str_slice(rest, 7, rest.n);
    } else if (str_contains(rest, S("://"))) {
        return err_set(e, ERR_INVALID_ARGUMENT, "the URL's scheme must be http or https");
    }
    size_t slash = str_find(rest, '/');
    str authority = str_slice(rest, 0, slash);
    str prefix = str_slice(rest, slash, rest.n);
    while (str_ends(prefix, S("/")))
        prefix = str_slice(prefix, 0, prefix.n - 1);
    str host = {0};
    str port = {0};
    uint64_t number = out->tls ? 443 : 80;
    // The text is not shown in these messages: it may hold a password.
    if (!split_host(authority, &out->user, &host, &port))
        return err_set(e, ERR_INVALID_ARGUMENT, "the URL needs a host: http://HOST:PORT");
    if (port.n && (!str_u64(port, &number) || number == 0 || number > 65535))
        return err_set(e, ERR_INVALID_ARGUMENT, "the URL's port '%.*s' is not from 1 to 65535",
                       STR(port));
    if (!is_clean(host) || !is_clean(prefix))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "the URL has a character that is not allowed in URLs");
    if (str_find(rest, '?') < rest.n || str_find(rest, '#') < rest.n)
        return err_set(e, ERR_INVALID_ARGUMENT, "the URL of the server cannot have '?' or '#'");
    // In a URL the special characters of a password are percent-encoded.
    out->user = url_decode(a, out->user, false);
    out->address = arena_printf(a, "%.*s:%llu", STR(host), (unsigned long long)number);
    out->prefix = arena_str(a, prefix);
    // For messages, and so without the user: a password has no place in a log.
    out->shown = arena_printf(a, "%s://%.*s%s%.*s%.*s", out->tls ? "https" : "http", STR(host),
                              port.n ? ":" : "", STR(port), STR(prefix));
    return arena_ok(a, e);
}
