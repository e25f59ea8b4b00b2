// SPDX-License-Identifier: Apache-2.0
//
// health.c - grpc.health.v1.Health: /ready for clients and probes of gRPC. As in Pyroscope each
// service, whatever its name, is as healthy as the process, and Watch is refused.
#include "codec/pb.h"
#include "grpc/health/v1/health.pb-c.h"
#include "service/program.h"

static bool check(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct buf why;
    (void)x;
    (void)in;
    (void)e;
    buf_init(&why, NULL, 4096);
    bool ready = admin_is_ready(self, &why);
    buf_release(&why);
    pb_put_u64(out, 1,
               ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                     : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING);
    return true;
}

static bool watch(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)x;
    (void)in;
    (void)out;
    return err_set(e, ERR_UNIMPLEMENTED, "health is not watched here: call Check");
}

#define ROW(name, function)                                                             \
    {                                                                                   \
        .path = "/grpc.health.v1.Health/" name,                                         \
        .in = &grpc__health__v1__health_check_request__descriptor,                      \
        .out = &grpc__health__v1__health_check_response__descriptor, .run = (function), \
        .auth = ROUTE_OPEN, .rank = RANK_PUBLIC                                         \
    }

const struct rpc_method health_rpc[] = {
    ROW("Check", check),
    ROW("Watch", watch),
};
const size_t health_rpc_count = COUNT(health_rpc);
