// SPDX-License-Identifier: Apache-2.0
//
// values.c - the checks, one for each kind of value.
#include "service/values.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOST_MAX  253
#define PORT_MAX  65535
#define SHOWN_MAX 200

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_ip(int family, str text)
{
    char z[64];
    unsigned char bytes[16];
    if (text.n == 0 || text.n >= sizeof z) return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    assert(text.n < sizeof z);
    z[str_find(text, '%')] = '\0';  // a zone, such as fe80::1%eth0
    return inet_pton(family, z, bytes) == 1;
}

// A name, or an IPv4 address. Digits and dots alone must be an address, never a name.
static bool is_host(str host)
{
    bool digits = host.n > 0;
    if (host.n > HOST_MAX) return false;
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        if (!is_letter(c) && c != '-' && c != '.' && c != '_') return false;
        digits = digits && (c == '.' || (c >= '0' && c <= '9'));
    }
    return digits ? is_ip(AF_INET, host) : host.n > 0 && host.p[0] != '-' && host.p[0] != '.';
}

static bool is_bracketed(str host)
{
    bool brackets = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    return brackets && is_ip(AF_INET6, str_slice(host, 1, host.n - 1));
}

static bool refuse(err *e, str text, const char *why)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is not host:port or unix:/path: %s", STR(text),
                   why);
}

static bool unix_address(str text, err *e)
{
    str path = str_slice(text, 5, text.n);
    if (path.n == 0) return refuse(e, text, "the path is missing");
    if (path.n <= VALUES_SOCKET_PATH_MAX) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the path of '%.*s' has %zu bytes, a socket's at most %d", STR(text), path.n,
                   VALUES_SOCKET_PATH_MAX);
}

bool values_address(str text, bool listener, err *e)
{
    if (str_starts(text, S("unix:"))) return unix_address(text, e);
    size_t colon = str_rfind(text, ':');
    if (colon == text.n) return refuse(e, text, "the port is missing");
    str host = str_slice(text, 0, colon);
    str port = str_slice(text, colon + 1, text.n);
    uint64_t number = 0;
    if (port.n > 5 || !str_u64(port, &number) || number > PORT_MAX)
        return refuse(e, text, "a port is a number up to 65535");
    // A listener on port 0 takes any free one; as a place to go to it means nothing.
    if (number == 0 && !listener) return refuse(e, text, "port 0 is no port to connect to");
    if (host.n == 0) return listener || refuse(e, text, "the host is missing");
    if (is_bracketed(host) || is_host(host)) return true;
    bool v6 = str_find(host, ':') < host.n && host.p[0] != '[';
    return refuse(e, text, v6 ? "an IPv6 address stands in brackets" : "that is no host");
}

static bool values_is_any_host(str host)
{
    return host.n == 0 || str_is(host, "0.0.0.0") || str_is(host, "[::]");
}

bool values_collide(str a, str b)
{
    if (str_starts(a, S("unix:")) || str_starts(b, S("unix:"))) return str_eq(a, b);
    size_t at = str_rfind(a, ':');
    size_t bt = str_rfind(b, ':');
    uint64_t one = 0;
    uint64_t two = 0;
    // Port 0 is another one for each.
    bool ports = str_u64(str_slice(a, at + 1, a.n), &one) &&
                 str_u64(str_slice(b, bt + 1, b.n), &two) && one == two && one > 0;
    a = str_slice(a, 0, at);
    b = str_slice(b, 0, bt);
    return ports && (values_is_any_host(a) || values_is_any_host(b) || str_eq(a, b));
}

bool values_host_pattern(str text, err *e)
{
    str name = str_starts(text, S("*.")) ? str_slice(text, 2, text.n) : text;
    if (str_is(text, "*") || is_bracketed(name) || is_host(name)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "'%.*s' is none of NAME, *.NAME and *: a host's name without port", STR(text));
}

bool values_path_prefix(str text, err *e)
{
    str rest = text;
    bool ok = text.n == 0 || text.p[0] == '/';
    if (ok && text.n) (void)str_split(rest, '/', &rest);
    while (ok && rest.n) {
        str part = str_split(rest, '/', &rest);
        ok = part.n > 0 && !str_is(part, ".") && !str_is(part, "..");
        for (size_t i = 0; i < part.n; i++) {
            unsigned char c = (unsigned char)part.p[i];
            ok = ok && (is_letter(c) || c == '-' || c == '_' || c == '.' || c == '~');
        }
    }
    return ok || err_set(e, ERR_INVALID_ARGUMENT,
                         "'%.*s' is no path such as /flametree: parts of letters of ASCII, digits, "
                         "'-', '_', '.' and '~', each behind a '/'",
                         STR(str_slice(text, 0, SHOWN_MAX)));
}

bool values_url(str text, err *e)
{
    bool http = str_starts(text, S("http://"));
    str host = str_slice(text, http ? 7 : 8, text.n);
    host = str_slice(host, 0, str_find(host, '/'));
    if (http || str_starts(text, S("https://"))) {
        err ignored = {0};
        bool bare = is_host(host) || is_bracketed(host);
        bool is_unix = str_starts(host, S("unix:"));
        if (bare || (!is_unix && values_address(host, false, &ignored))) return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is not http://host:port", STR(text));
}

bool values_id(str text, size_t most, err *e)
{
    if (text.n > most)
        return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is longer than %zu bytes", STR(text), most);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c > ' ' && c != '=' && c != ',' && c != 0x7f) continue;
        return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' has a blank, '=' or ',' in it", STR(text));
    }
    return true;
}

bool values_directory(const char *path, err *e)
{
    // A path that is not there is made at the start; only one that is something else is wrong.
    struct stat st;
    if (path[0] == '\0') return true;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ||
               err_set(e, ERR_INVALID_ARGUMENT, "'%s' is not a directory", path);
    if (errno == ENOENT || errno == EACCES) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s': %s",
                   STR(str_slice(str_of(path), 0, SHOWN_MAX)), strerror(errno));
}

// "10.0.0.1", "10.0.0.1:53", "::1", "[::1]:53": names would need a server to look them up.
static bool is_server(str text)
{
    size_t colon = str_rfind(text, ':');
    str host = str_slice(text, 0, colon);
    uint64_t port = 0;
    if (is_ip(AF_INET, text) || is_ip(AF_INET6, text) || is_bracketed(text)) return true;
    if (colon == text.n || !str_u64(str_slice(text, colon + 1, text.n), &port)) return false;
    return port > 0 && port <= PORT_MAX && (is_ip(AF_INET, host) || is_bracketed(host));
}

bool values_servers(str list, err *e)
{
    while (list.p && list.n) {
        str one = str_trim(str_split(list, ',', &list));
        if (!is_server(one))
            return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is not an address and a port",
                           STR(str_slice(one, 0, SHOWN_MAX)));
    }
    return true;
}
