// SPDX-License-Identifier: Apache-2.0
//
// echo.h - a small application on a router, for tests of everything that rpc does around a handler.
//
//     /t.v1.Echo/Version   VersionRequest -> QuerierAPI 1                        open
//     /t.v1.Echo/Names     LabelNamesRequest -> names = tenant, then matchers    read
//     /t.v1.Echo/Fail      LabelNamesRequest -> error: matchers[0] is its code   open
//     /t.v1.Echo/Push      PushRequest -> PushResponse                           write, large body
//     /t.v1.Echo/Raw       bytes -> the same bytes                               internal
//     GET /text?N          N letters; POST /upload: the body back, large; GET /fail; GET
//     /static/...
#pragma once

#include "codec/pb.h"
#include "push/v1/push.pb-c.h"
#include "rpc/route.h"
#include "types/v1/types.pb-c.h"
#include "version/v1/version.pb-c.h"

// body_max 1000, large_body_max 5000, answer_max 1 MB.
struct router *echo_router(bool multitenancy);
