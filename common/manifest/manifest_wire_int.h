// SPDX-License-Identifier: Apache-2.0
//
// manifest_wire_int.h - what reading and writing of roots (manifest_wire.c) and pages
// (manifest_page.c) share.
#pragma once

#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/manifest_int.h"

#define DAY_HOURS 24

// ---- values of messages; data_loss
bool message_id(ProtobufCBinaryData d, const char *what, id128 *id, err *e) MUST_CHECK;
bool message_format(uint32_t format, uint32_t newest, err *e) MUST_CHECK;
bool sources_check(const struct segment_run *v, size_t n, int64_t from, int64_t to,
                   err *e) MUST_CHECK;

// The message, in an arena whose cap is message_scratch. Malformed bytes are data_loss, since they
// were right when they were written.
ProtobufCMessage *message_unpack(struct arena *scratch, const ProtobufCMessageDescriptor *desc,
                                 str bytes, err *e) MUST_CHECK;
size_t message_scratch(str bytes);

// The bytes that an allocation of n takes in an arena. Pages and roots add up exactly what they
// need (arena_spare), so that a page of 40 leaves has no slack.
size_t message_room(size_t n);

// Field by field; `i` is for messages.
bool tombstone_read(struct arena *a, size_t i, const Flametree__V1__Tombstone *from,
                    struct manifest_tombstone *to, err *e) MUST_CHECK;
void tombstone_print(const struct manifest_tombstone *t, int64_t made_ns, uint64_t version,
                     struct buf *out);

str id_bytes(const id128 *id);
// A block's name; `prefix` is name_of_tenant.
str block_name_behind(struct arena *a, str prefix, const struct manifest_block *b);
