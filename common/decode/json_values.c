// SPDX-License-Identifier: Apache-2.0
//
// json_values.c - see json_values.h.
#include "decode/json_values.h"

#include <math.h>
#include <stdlib.h>

#define NUMBER_MAX 400  // characters; a double written out has fewer
#define WHOLE_MAX  15   // digits; a double has each of these numbers

bool json_broken(const struct json_reader *r, const char *what, err *e)
{
    if (r->fault.msg[0]) {
        *e = r->fault;
        return err_wrap(e, "JSON");
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: expected %s", r->at, what);
}

bool json_want_string(struct json_reader *r, const char *what, str *out, err *e)
{
    if (json_next(r) != JSON_STRING) return json_broken(r, what, e);
    *out = r->text;
    return true;
}

bool json_want_number(struct json_reader *r, const char *what, double *out, err *e)
{
    bool good = json_next(r) == JSON_NUMBER && json_double(r->text, out);
    return good || json_broken(r, what, e);
}

bool json_pass(struct json_reader *r, err *e)
{
    return json_skip(r) || json_broken(r, "a value", e);
}

// Most numbers of these formats are short and whole; strtod takes ten times as long for them.
static bool whole_number(str text, double *v)
{
    int64_t n = 0;
    if (text.n > WHOLE_MAX) return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') return false;
        n = n * 10 + (text.p[i] - '0');
    }
    *v = (double)n;
    return true;
}

bool json_double(str text, double *v)
{
    if (whole_number(text, v)) return true;
    char z[NUMBER_MAX];
    if (text.n >= sizeof z) return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    *v = strtod(z, NULL);
    return isfinite(*v);
}

bool json_whole(double v, int64_t *out)
{
    if (!(v >= -0x1p63 && v < 0x1p63)) return false;
    *out = (int64_t)nearbyint(v);
    return true;
}
