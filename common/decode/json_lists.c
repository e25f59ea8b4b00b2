// SPDX-License-Identifier: Apache-2.0
#include "decode/json_lists.h"

bool json_int(str text, int64_t *out)
{
    double v = 0;
    if (str_i64(text, out)) return true;
    // A string may have been meant as a number, and strtod reads more than JSON has.
    return text.n && json_number_size(text) == text.n &&
           (json_double(text, &v) && json_whole(v, out));
}

bool json_want_int(struct json_reader *r, const char *what, int64_t *out, err *e)
{
    bool good = json_next(r) == JSON_NUMBER && json_int(r->text, out);
    return good || json_broken(r, what, e);
}

bool json_want_text(struct json_reader *r, str *out, err *e)
{
    struct json_reader ahead = *r;
    enum json_token t = json_next(&ahead);
    *out = (str){0};
    if (t != JSON_STRING && t != JSON_NUMBER) return json_pass(r, e);
    *r = ahead;
    *out = r->text;
    return true;
}

bool json_enter(struct json_reader *r, enum json_token kind, bool *in, err *e)
{
    struct json_reader ahead = *r;
    *in = json_next(&ahead) == kind;
    if (!*in) return json_pass(r, e);
    *r = ahead;
    return true;
}

bool json_read_ints(struct json_reader *r, const char *what, struct json_ints *out, err *e)
{
    bool in = false;
    out->n = 0;
    if (!json_enter(r, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_NUMBER || t == JSON_NULL; t = json_next(r)) {
        if (!arena_grow(r->arena, &out->v, &out->cap, out->n + 1, sizeof *out->v))
            return arena_fail(r->arena, e);
        int64_t *item = &out->v[out->n++];
        *item = JSON_NOTHING;
        if (t == JSON_NUMBER && !json_int(r->text, item)) return json_broken(r, what, e);
    }
    return t == JSON_ARRAY_END || json_broken(r, what, e);
}

bool json_read_doubles(struct json_reader *r, const char *what, struct json_doubles *out, err *e)
{
    bool in = false;
    out->n = 0;
    if (!json_enter(r, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_NUMBER || t == JSON_NULL; t = json_next(r)) {
        if (!arena_grow(r->arena, &out->v, &out->cap, out->n + 1, sizeof *out->v))
            return arena_fail(r->arena, e);
        double *item = &out->v[out->n++];
        *item = 0;
        if (t == JSON_NUMBER && !json_double(r->text, item)) return json_broken(r, what, e);
    }
    return t == JSON_ARRAY_END || json_broken(r, what, e);
}

bool json_read_strings(struct json_reader *r, const char *what, struct json_strings *out, err *e)
{
    bool in = false;
    out->n = 0;
    if (!json_enter(r, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_STRING || t == JSON_NULL; t = json_next(r)) {
        if (!arena_grow(r->arena, &out->v, &out->cap, out->n + 1, sizeof *out->v))
            return arena_fail(r->arena, e);
        out->v[out->n++] = t == JSON_STRING ? r->text : (str){0};
    }
    return t == JSON_ARRAY_END || json_broken(r, what, e);
}
