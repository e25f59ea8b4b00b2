// SPDX-License-Identifier: Apache-2.0
//
// otlp.h - OTLP profiles: the service ProfilesService over gRPC, and HTTP POST with protobuf or
// JSON (https://opentelemetry.io/docs/specs/otlp/).
//
// Valid profiles are stored even if others of the request are refused: then the answer is a success
// whose partial_success says how many were refused, and the first reason. If nothing is stored, the
// first refusal is the answer.
#pragma once

#include "rpc/route.h"

#define OTLP_EXPORT "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

bool otlp_grpc_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e);
bool otlp_http_run(void *self, struct http_exchange *x, err *e);

// Counts a body that was refused for its size before it was read.
const char *otlp_too_large(void *self, struct http_exchange *x);

// Counts and logs a request that was refused before it got here.
void otlp_refused(void *self, const struct http_exchange *x, const err *e);
