// SPDX-License-Identifier: Apache-2.0
//
// head.c - what handlers and protocols ask the head of a request: content types, what the client
// accepts, its deadline.
#include "codec/media.h"
#include "rpc/rpc_int.h"
#include "sys/clock.h"

// Sorted, as Accept-Post lists them.
static const struct content_type types[] = {
    {"application/grpc", GRPC, false},
    {"application/grpc+json", GRPC, true},
    {"application/grpc+json; charset=utf-8", GRPC, true},
    {"application/grpc+proto", GRPC, false},
    {"application/grpc-web", GRPC_WEB, false},
    {"application/grpc-web+json", GRPC_WEB, true},
    {"application/grpc-web+json; charset=utf-8", GRPC_WEB, true},
    {"application/grpc-web+proto", GRPC_WEB, false},
    {"application/json", CONNECT, true},
    {"application/json; charset=utf-8", CONNECT, true},
    {"application/proto", CONNECT, false},
};

const char content_type_list[] =
    "application/grpc, application/grpc+json, application/grpc+json; charset=utf-8, "
    "application/grpc+proto, application/grpc-web, application/grpc-web+json, "
    "application/grpc-web+json; charset=utf-8, application/grpc-web+proto, application/json, "
    "application/json; charset=utf-8, application/proto";

const struct content_type *content_type_find(struct arena *a, str header)
{
    str type = {0};
    str rest = {0};
    str name = {0};
    str value = {0};
    err e = {0};
    bool utf8 = false;
    assert(a);
    if (!media_type(header, &type, &rest, &e)) return NULL;
    enum media_step step = media_next(a, &rest, &name, &value, &e);
    if (step == MEDIA_PARAM) {
        utf8 = str_ieq(name, S("charset")) && str_ieq(value, S("utf-8"));
        if (!utf8) return NULL;
        step = media_next(a, &rest, &name, &value, &e);
    }
    if (step != MEDIA_END) return NULL;
    for (size_t i = 0; i < COUNT(types); i++) {
        str rest_of = {0};
        str bare = str_split(str_of(types[i].text), ';', &rest_of);
        // For JSON charset=utf-8 has a separate row; for protobuf it is no valid type.
        if (str_ieq(type, bare) && utf8 == (rest_of.p != NULL)) return &types[i];
    }
    return NULL;
}

static bool accept_element(struct arena *a, str element, bool *utf8, err *e)
{
    str type = {0};
    str rest = {0};
    if (!media_type(element, &type, &rest, e)) return false;
    str name = {0};
    str value = {0};
    enum media_step step = MEDIA_END;
    while ((step = media_next(a, &rest, &name, &value, e)) == MEDIA_PARAM) {
        if (str_ieq(name, S("allow-utf8-labelnames")) && str_is(value, "true")) *utf8 = true;
    }
    return step == MEDIA_END;
}

bool accept_check(const struct http_exchange *x, struct arena *a, bool *utf8, err *e)
{
    bool unused = false;
    // All Accept headers count as one list.
    if (!utf8) utf8 = &unused;
    for (size_t i = 0; i < x->headers.n; i++) {
        if (!str_is(x->headers.v[i].name, "accept")) continue;
        str rest = x->headers.v[i].value;
        while (rest.n > 0) {
            str element = str_trim(str_split(rest, ',', &rest));
            if (element.n > 0 && !accept_element(a, element, utf8, e)) return false;
        }
    }
    return true;
}

bool route_wants_utf8_names(const struct http_exchange *x)
{
    struct arena a;  // used only by a quoted value with backslashes
    arena_init(&a, NULL, 4096);
    bool utf8 = false;
    err e = {0};
    bool ok = accept_check(x, &a, &utf8, &e);
    arena_release(&a);
    return ok && utf8;
}

bool names_have(str list, const char *name)
{
    while (list.n > 0) {
        size_t n = 0;
        while (n < list.n && list.p[n] != ',' && list.p[n] != ' ')
            n++;
        if (str_is(str_slice(list, 0, n), name)) return true;
        list = str_slice(list, n + 1, list.n);
    }
    return false;
}

// Is a quality value zero? "0", "0.0", "0.000".
static bool is_zero(str q)
{
    for (size_t i = 0; i < q.n; i++) {
        if (q.p[i] != '0' && q.p[i] != '.') return false;
    }
    return q.n > 0;
}

bool accepts_gzip(str header)
{
    while (header.n > 0) {
        str params = {0};
        str name = str_trim(str_split(str_split(header, ',', &header), ';', &params));
        if (!str_ieq(name, S("gzip"))) continue;
        str q = {0};
        str key = str_trim(str_split(params, '=', &q));
        return !(str_ieq(key, S("q")) && is_zero(str_trim(q)));
    }
    return false;
}

void deadline_within(struct http_exchange *x, uint64_t ns)
{
    uint64_t at = 0;
    if (__builtin_add_overflow(clock_mono_ns(), ns, &at)) return;  // centuries: no limit
    // The server's own limit may be the shorter one; a client cannot extend it.
    if (x->req.deadline_mono_ns == 0 || at < x->req.deadline_mono_ns) x->req.deadline_mono_ns = at;
}
