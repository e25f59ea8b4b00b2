// SPDX-License-Identifier: Apache-2.0
//
// ingest.h - POST /ingest: the uploads of Pyroscope's SDKs.
//
// The format is told by parameter `format`, else by the content type: multipart/form-data is pprof,
// everything unknown is collapsed text. The name of the application carries labels, and for text
// also what was measured.
#pragma once

#include "rpc/route.h"

// Counts a body that was refused for its size before it came.
void ingest_too_large(void *self, const struct http_exchange *x);

// Logs an upload that was refused before ingest_run.
void ingest_refused(void *self, const struct http_exchange *x, const err *e);

bool ingest_run(void *self, struct http_exchange *x, err *e);
