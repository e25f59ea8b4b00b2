// SPDX-License-Identifier: Apache-2.0
//
// What the scan accepts, protobuf-c unpacks (or the arena is full); and packing an unpacked message
// is stable: unpack(pack(m)) packs to the same bytes, on the wire and as JSON.
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "lib/sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void json_round_trip(const ProtobufCMessage *m)
{
    struct arena a;
    arena_init(&a, NULL, 64 << 20);
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 16 << 20);
    buf_init(&two, NULL, 16 << 20);
    pbjson_print(m, &one);
    err e = {0};
    if (!buf_ok(&one, &e)) abort();
    ProtobufCMessage *back = pbjson_parse(&a, m->descriptor, buf_view(&one), &e);
    if (!back) abort();
    pbjson_print(back, &two);
    // an enum number without a name prints as a number and reads as the default
    if (!memmem(one.p, one.n, "\"color\":-", 9) && !memmem(one.p, one.n, "\"color\":", 8) &&
        !str_eq(buf_view(&one), buf_view(&two))) {
        abort();
    }
    buf_release(&one);
    buf_release(&two);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, NULL, 8 << 20);
    err e = {0};
    ProtobufCMessage *m = pb_unpack(&a, &sample_descriptor, str_make(data, size), &e);
    if (!m) {
        if (strstr(e.msg, "malformed")) abort();  // the scan should have known
        if (e.code != ERR_INVALID_ARGUMENT && e.code != ERR_RESOURCE_EXHAUSTED) abort();
        arena_release(&a);
        return 0;
    }
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 16 << 20);
    buf_init(&two, NULL, 16 << 20);
    pb_pack(m, &one);
    if (!buf_ok(&one, &e)) abort();
    ProtobufCMessage *back = pb_unpack(&a, &sample_descriptor, buf_view(&one), &e);
    if (back) {
        pb_pack(back, &two);
        if (!str_eq(buf_view(&one), buf_view(&two))) abort();
        json_round_trip(back);
    } else if (e.code != ERR_RESOURCE_EXHAUSTED) {
        abort();
    }
    buf_release(&one);
    buf_release(&two);
    arena_release(&a);
    return 0;
}
