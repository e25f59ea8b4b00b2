// SPDX-License-Identifier: Apache-2.0
//
// auth.c - parses and checks the names of tenants in a header.
#include "rpc/auth.h"

#include "base/utf8.h"

#include <stdlib.h>

#define TENANT_MAX 150

static bool is_tenant_byte(unsigned char c)
{
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return true;
    return c != 0 && strchr("!-_.*'()", c) != NULL;
}

bool auth_tenant_check(str id, err *e)
{
    for (size_t i = 0; i < id.n; i++) {
        if (is_tenant_byte((unsigned char)id.p[i])) continue;
        str rest = str_slice(id, i, id.n);
        uint32_t c = 0;
        return err_set(e, ERR_UNAUTHENTICATED,
                       "tenant ID '%.*s' contains unsupported character '%.*s'", STR(id),
                       (int)MAX(utf8_get(rest, &c), (size_t)1), rest.p);
    }
    // The length after the characters, in Pyroscope's order of messages.
    if (id.n > TENANT_MAX) {
        return err_set(e, ERR_UNAUTHENTICATED, "tenant ID is too long: max %d characters",
                       TENANT_MAX);
    }
    if (str_is(id, ".") || str_is(id, "..")) {
        return err_set(e, ERR_UNAUTHENTICATED, "tenant ID is '.' or '..'");
    }
    return true;
}

// Names of tenants become parts of object names. So even those that another node sends are checked.
static bool check_each(str tenants, err *e)
{
    if (tenants.n == 0) return true;
    for (str rest = tenants; rest.p;) {
        str id = str_split(rest, '|', &rest);
        if (id.n == 0)
            return err_set(e, ERR_UNAUTHENTICATED, "tenants '%.*s' have an empty name",
                           STR(str_slice(tenants, 0, TENANT_MAX)));
        if (!auth_tenant_check(id, e)) return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// The ids of a header, sorted, each once, without empty ones.
static bool split(struct arena *a, str header, str **ids, size_t *count, err *e)
{
    size_t room = 0;
    size_t n = 0;
    str *v = NULL;
    while (header.p) {
        str rest = {0};
        str part = str_split(header, '|', &rest);
        header = rest;
        // "tenant:metadata" is a form of Grafana's; only the name counts.
        str id = str_slice(part, 0, str_find(part, ':'));
        if (id.n == 0) continue;
        if (!auth_tenant_check(id, e)) return false;
        if (!arena_grow(a, (void *)&v, &room, n + 1, sizeof *v)) return arena_fail(a, e);
        v[n++] = id;
    }
    if (n > 1) qsort(v, n, sizeof *v, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || !str_eq(v[kept - 1], v[i])) v[kept++] = v[i];
    }
    *ids = v;
    *count = kept;
    return true;
}

static str join(struct arena *a, const str *ids, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += ids[i].n + 1;
    char *out = arena_new(a, bytes);
    size_t at = 0;
    assert(n > 0);
    for (size_t i = 0; out && i < n; i++) {
        if (i > 0) out[at++] = '|';
        memcpy(out + at, ids[i].p, ids[i].n);
        at += ids[i].n;
    }
    assert(at < bytes || !out);
    return str_make(out, at);
}

bool auth_tenant(struct arena *a, str header, enum route_auth auth, bool multitenancy, str *tenant,
                 err *e)
{
    *tenant = (str){0};
    assert(auth != ROUTE_UNMARKED);
    if (auth == ROUTE_OPEN || auth == ROUTE_ADMIN) return true;
    if (auth == ROUTE_INTERNAL || auth == ROUTE_NODE) {
        *tenant = header;
        return check_each(header, e);
    }
    if (!multitenancy) {
        *tenant = S("anonymous");
        return true;
    }
    str *ids = NULL;
    size_t n = 0;
    if (!split(a, header, &ids, &n, e)) return false;
    if (n == 0) return err_set(e, ERR_UNAUTHENTICATED, "no org id");
    if (n > 1 && auth == ROUTE_TENANT_WRITE) {
        return err_set(e, ERR_UNAUTHENTICATED, "multiple org IDs present");
    }
    *tenant = join(a, ids, n);
    if (!arena_ok(a, e)) return false;
    assert(tenant->n > 0);
    // A write belongs to one tenant, whose name becomes a part of the names of objects.
    assert(auth != ROUTE_TENANT_WRITE || str_find(*tenant, '|') == tenant->n);
    return true;
}
