// SPDX-License-Identifier: Apache-2.0
//
// pbjson.h - proto3 JSON for protobuf-c messages, by their descriptors.
//
// Rules as Connect and Pyroscope need them: lowerCamelCase names out (fields whose proto name
// already holds capitals, such as profile_typeID and ID, by protoc's rule), both spellings in;
// int64 as decimal strings out, strings or numbers in; bytes base64; enums as names; default values
// left out; null and unknown fields ignored; a field or oneof given twice refused; unknown enum
// values mean the default; NaN and infinities as strings; no maps (a repeated entry). Source:
// https://protobuf.dev/programming-guides/json/.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#include <protobuf-c/protobuf-c.h>

// JSON text -> message in the arena. Depth of the text is limited to 100. Fails with
// invalid_argument.
ProtobufCMessage *pbjson_parse(struct arena *a, const ProtobufCMessageDescriptor *desc, str json,
                               err *e) MUST_CHECK;

void pbjson_print(const ProtobufCMessage *m, struct buf *out);
