// SPDX-License-Identifier: Apache-2.0
//
// ingest.h - POST /ingest: the uploads of Pyroscope's SDKs.
//
// The parameter `format` says the format, else the content type does: multipart/form-data is pprof,
// every unknown type is collapsed text. The name of the application carries labels; for text, its
// suffix says what was measured. The text of `perf script` is such text. Files of V8, Chrome and of
// before pprof's protobuf have types of their own and are named as pprof is.
#pragma once

#include "rpc/route.h"

// Counts and logs an upload that was refused before ingest_run.
void ingest_refused(void *self, const struct http_exchange *x, const err *e);

bool ingest_run(void *self, struct http_exchange *x, err *e);
