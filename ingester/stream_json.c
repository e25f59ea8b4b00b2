// SPDX-License-Identifier: Apache-2.0
#include "ingester/stream_json.h"

#include "sys/clock.h"

void stream_put_id(struct buf *out, const char *key, id128 id)
{
    char text[ULID_TEXT];
    ulid_print(id, text);
    buf_printf(out, "\"%s\":\"%s\"", key, text);
}

void stream_put_time(struct buf *out, const char *key, int64_t at_ns)
{
    char text[CLOCK_TEXT];
    clock_text(text, at_ns);
    buf_printf(out, ",\"%s\":\"%s\"", key, text);
}
