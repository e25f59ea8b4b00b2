// SPDX-License-Identifier: Apache-2.0
//
// Whatever the reader calls JSON, written token by token, reads as the same tokens; skipping a
// value ends where reading it ends; and what pbjson accepts is printed and accepted again.
#include "codec/json.h"
#include "codec/pbjson.h"
#include "lib/sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void separate(struct buf *b, enum json_token before)
{
    if (before != JSON_OBJECT && before != JSON_ARRAY && before != JSON_KEY && b->n) {
        buf_byte(b, ',');
    }
}

// Writes the text anew; false where it is no JSON.
static bool rewrite(str text, struct buf *out)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct json_reader r;
    json_reader_init(&r, &a, text);
    enum json_token before = JSON_OBJECT;
    enum json_token t = JSON_END;
    while ((t = json_next(&r)) != JSON_END && t != JSON_FAULT) {
        if (t != JSON_OBJECT_END && t != JSON_ARRAY_END) separate(out, before);
        static const char *const fixed[] = {
            [JSON_OBJECT] = "{",    [JSON_OBJECT_END] = "}", [JSON_ARRAY] = "[",
            [JSON_ARRAY_END] = "]", [JSON_TRUE] = "true",    [JSON_FALSE] = "false",
            [JSON_NULL] = "null",   [JSON_FAULT] = NULL,
        };
        if (t == JSON_NUMBER) {
            buf_str(out, r.text);
        } else if (t == JSON_STRING || t == JSON_KEY) {
            json_put_string(out, r.text);
        } else {
            buf_z(out, fixed[t]);
        }
        if (t == JSON_KEY) buf_byte(out, ':');
        before = t;
    }
    bool fits = !a.exhausted;
    arena_release(&a);
    json_reader_init(&r, &a, text);
    bool skipped = json_skip(&r) && json_next(&r) == JSON_END;
    if (fits && skipped != (t == JSON_END)) abort();
    arena_release(&a);
    return t == JSON_END;
}

static void message(str text)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 16 << 20);
    buf_init(&two, NULL, 16 << 20);
    err e = {0};
    ProtobufCMessage *m = pbjson_parse(&a, &sample_descriptor, text, &e);
    if (m) {
        pbjson_print(m, &one);
        ProtobufCMessage *back = pbjson_parse(&a, &sample_descriptor, buf_view(&one), &e);
        if (!back && e.code != ERR_RESOURCE_EXHAUSTED) abort();
        if (back) {
            pbjson_print(back, &two);
            if (!str_eq(buf_view(&one), buf_view(&two))) abort();
        }
    }
    buf_release(&one);
    buf_release(&two);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 16 << 20);
    buf_init(&two, NULL, 16 << 20);
    if (rewrite(str_make(data, size), &one)) {
        if (!rewrite(buf_view(&one), &two)) abort();
        if (!str_eq(buf_view(&one), buf_view(&two))) abort();
    }
    message(str_make(data, size));
    buf_release(&one);
    buf_release(&two);
    return 0;
}
