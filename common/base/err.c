// SPDX-License-Identifier: Apache-2.0
//
// err.c - the table of codes, and messages that are put together from the inside out and cut at a
// character.
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned status;
} codes[] = {[ERR_OK] = {"ok", 200},
#define X(code, number, text, http) [ERR_##code] = {(text), (http)},
             ERR_CODES(X)
#undef X
};

// A cut message must stay valid UTF-8: a character that the end of the buffer split is dropped.
static void trim_split_character(err *e)
{
    size_t n = strlen(e->msg);
    if (n + 1 < sizeof e->msg) return;
    size_t lead = n;
    while (lead > 0 && ((unsigned char)e->msg[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead > 0 && (unsigned char)e->msg[lead - 1] >= 0xc0) e->msg[lead - 1] = '\0';
}

bool err_set(err *e, enum err_code code, const char *fmt, ...)
{
    assert(e);
    assert(code != ERR_OK);
    va_list ap;
    va_start(ap, fmt);
    e->code = code;
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    trim_split_character(e);
    return false;
}

bool err_wrap(err *e, const char *fmt, ...)
{
    assert(e);
    char cause[sizeof e->msg];  // fmt's arguments and the old message share the buffer
    memcpy(cause, e->msg, sizeof cause);

    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg) {
        snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", cause);
    }
    trim_split_character(e);
    return false;
}

const char *err_name(enum err_code code)
{
    return code < COUNT(codes) ? codes[code].name : "unknown";
}

enum err_code err_code_of(const char *name, size_t n)
{
    for (size_t i = 1; i < COUNT(codes); i++) {  // without "ok": an error may not have that code
        if (strlen(codes[i].name) == n && memcmp(codes[i].name, name, n) == 0) {
            return (enum err_code)i;
        }
    }
    return ERR_UNKNOWN;
}

unsigned err_http_status(enum err_code code)
{
    // A code from another node may be unknown here: it is an error of the server.
    return code < COUNT(codes) ? codes[code].status : 500;
}
