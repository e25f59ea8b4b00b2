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

bool json_item_int(struct json_reader *r, enum json_token t, const char *what, struct json_ints *to,
                   err *e)
{
    if (!arena_grow(r->arena, &to->v, &to->cap, to->n + 1, sizeof *to->v))
        return arena_fail(r->arena, e);
    int64_t *item = &to->v[to->n];
    *item = JSON_NOTHING;
    return t != JSON_NUMBER || json_int(r->text, item) || json_broken(r, what, e);
}

bool json_item_double(struct json_reader *r, enum json_token t, const char *what,
                      struct json_doubles *to, err *e)
{
    if (!arena_grow(r->arena, &to->v, &to->cap, to->n + 1, sizeof *to->v))
        return arena_fail(r->arena, e);
    double *item = &to->v[to->n];
    *item = 0;
    return t != JSON_NUMBER || json_double(r->text, item) || json_broken(r, what, e);
}

static bool json_item_string(struct json_reader *r, enum json_token t, struct json_strings *to,
                             err *e)
{
    if (!arena_grow(r->arena, &to->v, &to->cap, to->n + 1, sizeof *to->v))
        return arena_fail(r->arena, e);
    to->v[to->n] = t == JSON_STRING ? r->text : (str){0};
    return true;
}

// A list that is being read; one of the three is set.
struct json_list {
    struct json_ints *ints;
    struct json_doubles *doubles;
    struct json_strings *strings;
};

static bool json_item_put(struct json_reader *r, enum json_token t, const char *what,
                          const struct json_list *to, err *e)
{
    if (to->strings) return json_item_string(r, t, to->strings, e) && ++to->strings->n;
    if (to->ints) return json_item_int(r, t, what, to->ints, e) && ++to->ints->n;
    return json_item_double(r, t, what, to->doubles, e) && ++to->doubles->n;
}

static bool json_read_list(struct json_reader *r, const char *what, const struct json_list *to,
                           err *e)
{
    const enum json_token kind = to->strings ? JSON_STRING : JSON_NUMBER;
    bool in = false;
    if (!json_enter(r, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == kind || t == JSON_NULL; t = json_next(r)) {
        if (!json_item_put(r, t, what, to, e)) return false;
    }
    return t == JSON_ARRAY_END || json_broken(r, what, e);
}

bool json_read_ints(struct json_reader *r, const char *what, struct json_ints *out, err *e)
{
    out->n = 0;
    return json_read_list(r, what, &(struct json_list){.ints = out}, e);
}

bool json_read_doubles(struct json_reader *r, const char *what, struct json_doubles *out, err *e)
{
    out->n = 0;
    return json_read_list(r, what, &(struct json_list){.doubles = out}, e);
}

bool json_read_strings(struct json_reader *r, const char *what, struct json_strings *out, err *e)
{
    out->n = 0;
    return json_read_list(r, what, &(struct json_list){.strings = out}, e);
}
