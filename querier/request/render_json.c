// SPDX-License-Identifier: Apache-2.0
#include "querier/request/render_json.h"

#include "codec/json.h"
#include "codec/pb.h"

static bool put_level(str level, struct buf *out, err *e)
{
    struct pb_reader r = pb_reader(level);
    const uint8_t *at = NULL;
    bool any = false;
    buf_byte(out, '[');
    while (pb_next(&r)) {
        for (uint64_t v = 0; pb_packed_next(&r, &at, &v); any = true) {
            if (any) buf_byte(out, ',');
            buf_i64(out, (int64_t)v);
        }
        at = NULL;
    }
    buf_byte(out, ']');
    return pb_done(&r, e);
}

bool render_flamebearer(str graph, struct render_ticks *ticks, struct buf *out, err *e)
{
    int64_t total = 0;
    int64_t max_self = 0;
    uint32_t last = 0;
    *ticks = (struct render_ticks){0};
    buf_z(out, "{\"names\":[");
    struct pb_reader r = pb_reader(graph);
    while (pb_next(&r) && !out->failed) {
        if (r.field == 2 && last < 2) buf_z(out, "],\"levels\":[");
        if (r.field <= 2 && r.field == last) buf_byte(out, ',');
        last = r.field;
        switch (r.field) {
        case 1:
            json_put_string(out, r.bytes);
            break;
        case 2:
            if (!put_level(r.bytes, out, e)) return false;
            break;
        case 3:
            total = (int64_t)r.number;
            break;
        case 4:
            max_self = (int64_t)r.number;
            break;
        case 5:
            ticks->left = (int64_t)r.number;
            break;
        case 6:
            ticks->right = (int64_t)r.number;
            break;
        default:
            break;
        }
    }
    if (last < 2) buf_z(out, "],\"levels\":[");
    buf_z(out, "],\"numTicks\":");
    buf_i64(out, total);
    buf_z(out, ",\"maxSelf\":");
    buf_i64(out, max_self);
    buf_byte(out, '}');
    return !out->failed ? pb_done(&r, e) : buf_ok(out, e);
}

void render_metadata(const char *format, const struct ptype *type, struct buf *out)
{
    static const char *const objects[] = {"inuse_objects", "alloc_objects", "goroutine", "samples"};
    str units = type->sample_unit;
    int64_t rate = 100;
    for (size_t i = 0; i < COUNT(objects); i++) {
        if (str_is(type->sample_type, objects[i])) units = S("objects");
    }
    if (str_is(type->sample_type, "cpu")) {
        units = S("samples");
        rate = 1000000000;
    }
    buf_printf(out, "{\"format\":\"%s\",\"spyName\":\"\",\"sampleRate\":", format);
    buf_i64(out, rate);
    buf_z(out, ",\"units\":");
    json_put_string(out, units);
    buf_z(out, ",\"name\":");
    json_put_string(out, type->sample_type);
    buf_byte(out, '}');
}
