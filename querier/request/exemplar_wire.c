// SPDX-License-Identifier: Apache-2.0
#include "querier/request/exemplar_wire.h"

#include "codec/pb.h"
#include "sys/clock.h"
#include "types/v1/types.pb-c.h"

bool exemplar_wire_type(int asked, enum exemplar_kind *out, err *e)
{
    switch (asked) {
    case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_UNSPECIFIED:
    case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_NONE:
        *out = EXEMPLAR_NONE;
        return true;
    case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL:
        *out = EXEMPLAR_PROFILE;
        return true;
    case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN:
        *out = EXEMPLAR_SPAN;
        return true;
    default:
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown exemplar type: %d", asked);
    }
}

static void put_hex(struct buf *out, uint32_t field, const uint8_t *bytes, size_t n)
{
    char text[33];
    hex_print(bytes, n, text);
    pb_put_bytes(out, field, str_of(text));
}

void exemplar_wire_put(struct buf *out, uint32_t field, const struct exemplar *x)
{
    char uuid[UUID_TEXT];
    size_t mark = pb_begin(out, field);
    pb_put_i64_opt(out, 1, x->time_ns / NS_PER_MS - (x->time_ns % NS_PER_MS < 0));
    if (x->span_id == 0) {
        uuid_print(x->profile, uuid);
        pb_put_bytes(out, 2, str_of(uuid));
    } else {
        uint8_t span[8];
        for (unsigned i = 0; i < sizeof span; i++)
            span[i] = (uint8_t)(x->span_id >> (8 * i));
        put_hex(out, 3, span, sizeof span);
    }
    pb_put_i64_opt(out, 4, x->value);
    labels_put(x->ls, out, 5);
    if (x->has_trace) put_hex(out, 6, x->trace.b, sizeof x->trace.b);
    pb_end(out, mark);
}
