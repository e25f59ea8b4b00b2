// SPDX-License-Identifier: Apache-2.0
//
// stream_json.h - members of the JSON objects that tell of streams: those that are registered
// (streams.h) and those that were forgotten (aside.h).
#pragma once

#include "base/buf.h"
#include "base/ulid.h"

void stream_put_id(struct buf *out, const char *key, id128 id);         // "key":"<ULID>"
void stream_put_time(struct buf *out, const char *key, int64_t at_ns);  // ,"key":"<time>"
