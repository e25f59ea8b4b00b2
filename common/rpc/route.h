// SPDX-License-Identifier: Apache-2.0
//
// route.h - one table of handlers for every protocol on a listener.
//
// An RPC handler takes and returns protobuf bytes. This room translates from and to the wire:
// Connect with protobuf or JSON, gRPC, gRPC-Web, with any compression. A plain handler sees the
// exchange itself. connect.c and grpc.c name the specifications; errors are err codes (Connect's).
//
// A path may have both an RPC row and plain rows (that of OTLP has): then requests with a gRPC
// content type go to the RPC row.
//
// The router is immutable after start. Handlers run in the lane that their row names. On the loop
// only heads are read: route, method, content type, encodings, deadline and tenant. So a request
// that cannot be served is refused before its body is read.
#pragma once

#include "net/server.h"
#include "rpc/guard.h"

#include <protobuf-c/protobuf-c.h>

// The tenants whose data a route shows or changes. Each row names it.
enum route_auth {
    ROUTE_UNMARKED,      // the zero value, which no row may have
    ROUTE_OPEN,          // no tenant's data: harmless to show to any client
    ROUTE_ADMIN,         // that of all tenants: for operators, needs no tenant (admin.listen)
    ROUTE_TENANT_READ,   // that of one or several tenants, sorted and joined by '|'
    ROUTE_TENANT_WRITE,  // that of exactly one tenant
    ROUTE_INTERNAL,      // the asking node names the tenants, joined by '|'; may be empty
    ROUTE_NODE,          // as ROUTE_INTERNAL, also for nodes that router_options.admit refuses
};

// Is it refused to pages of other sites (guard.h)?
static inline bool route_is_guarded(enum route_auth auth)
{
    return auth != ROUTE_OPEN;
}

// In and out are arena-lived messages' bytes; out.cap is set. A false return answers with *e.
typedef bool rpc_fn(void *service, struct http_exchange *x, str in, struct buf *out, err *e);

// Called for a request that is refused before run because of a fault of the client, so that the
// service can count it. On the loop or on a worker.
typedef void refused_fn(void *service, const struct http_exchange *x, const err *e);

struct rpc_method {
    const char *path;                       // "/push.v1.PusherService/Push"
    const ProtobufCMessageDescriptor *in;   // NULL: bytes are not checked, and there is no JSON
    const ProtobufCMessageDescriptor *out;  // NULL: there is no JSON
    rpc_fn *run;
    enum route_auth auth;
    enum rank rank;
    bool large_body;  // body limit is the tenants' ingestion limit instead of the small one
    bool
        checks_wire;  // run reads the bytes by itself and believes nothing of them: no check before
    refused_fn *refused;  // or NULL
};

// Fills x's answer (status, headers, out/fixed); false: *e is answered as a plain JSON error.
typedef bool http_fn(void *service, struct http_exchange *x, err *e);

struct http_route {
    const char *verbs;  // "GET", "POST", "GET,HEAD"
    const char *path;
    bool prefix;  // matches everything that begins with path
    http_fn *run;
    enum route_auth auth;
    enum rank rank;
    bool large_body;
    bool no_gzip;   // answer is never compressed here (already is, or tiny)
    bool vital;     // has to be answered when memory is used up; its verbs and path say which
    bool raw_body;  // handler calls route_body itself; otherwise it finds an inflated body

    // Called for a body over its limit (x->body_max), which is refused before run. On the loop. Or
    // NULL. Returns the end of the answer's message, or NULL for the general one.
    const char *(*too_large)(void *service, struct http_exchange *x);

    refused_fn *refused;  // or NULL
};

struct router;

struct router_options {
    bool multitenancy;  // off: the tenant is always "anonymous", and its header is ignored
    size_t body_max;    // bytes of ordinary bodies, on the wire and inflated
    size_t answer_max;  // cap of answers
    struct mem_budget *memory;

    // The same for a tenant's request to a method with large_body; NULL: body_max. On the loop.
    size_t (*large_body_max)(void *arg, struct arena *a, str tenant);
    void *arg;
    // May the node that sends these headers use rows of ROUTE_INTERNAL? Otherwise it is answered
    // with *e. NULL: every node may. On the loop.
    bool (*admit)(void *arg, const struct http_headers *h, err *e);
    struct mem_budget *large_memory;  // budget of requests with large_body; NULL: `memory`

    // Another listener has the rows of ROUTE_ADMIN: here they are answered by 404 and a hint.
    bool admin_elsewhere;

    const struct guard *guard;  // against pages of other sites; borrowed; NULL: none
};

struct router *router_new(const struct router_options *o);
void router_free(struct router *r);

// Adds a service's rows; they and `service` are borrowed. lanes[rank] runs rows of that rank.
void router_add_rpc(struct router *r, const struct rpc_method *rows, size_t n, void *service,
                    struct lane *const lanes[RANK_COUNT]);
void router_add_http(struct router *r, const struct http_route *rows, size_t n, void *service,
                     struct lane *const lanes[RANK_COUNT]);

// Whether a path has rows, of whatever verb.
bool router_has(const struct router *r, str path);

// A line for each row: verbs, path ("*" after a prefix) and the tenants whose data it shows.
void router_print(const struct router *r, struct buf *out);

// The application side of a server.
struct server_app router_app(struct router *r);

// Does the request's Accept header carry allow-utf8-labelnames=true?
bool route_wants_utf8_names(const struct http_exchange *x);

// Does a comma separated header name a token, with a weight other than 0? "*" names all.
bool route_accepts(str header, str token);

// Inflates x->body in place as its Content-Encoding says (gzip, zstd); a body that does not look
// compressed stays as it is. Fails with out_of_range if it gets larger than max bytes, with
// resource_exhausted if memory is short, with invalid_argument if it is damaged, with unimplemented
// if it is compressed in another way.
bool route_body(struct http_exchange *x, size_t max, err *e) MUST_CHECK;

// The same for a body that is a file compressed with gzip or zstd, which no header tells.
bool route_unpack(struct http_exchange *x, size_t max, err *e) MUST_CHECK;

// Answers of plain routes. They replace a body that was written before; headers stay.
void route_text(struct http_exchange *x, unsigned status, str body);  // text/plain; charset=utf-8
void route_error(struct http_exchange *x, unsigned status, enum err_code code, const char *msg);

// Sets an answer header, in place of one with that name; lower case. Both are borrowed until the
// exchange ends.
void route_header(struct http_exchange *x, const char *name, str value);
