// SPDX-License-Identifier: Apache-2.0
//
// err.h - errors: how a function reports that it failed, and why.
//
// A function that can fail returns bool and takes `err *e` last. On failure it fills *e and returns
// false; callers add the place or the object and pass it up:
//
//     if (!file_read(path, &b, e)) return err_wrap(e, "certificate");
//
// An err lives on the caller's stack, owns nothing and needs no release, so it works when memory is
// short. On success *e is untouched. `e` is never NULL.
#pragma once

#include "base/base.h"

// The codes of the Connect and gRPC protocols with their numbers and the HTTP status that Connect
// gives them, so that an answer's status needs no second mapping.
#define ERR_CODES(X)                                      \
    X(CANCELED, 1, "canceled", 499)                       \
    X(UNKNOWN, 2, "unknown", 500)                         \
    X(INVALID_ARGUMENT, 3, "invalid_argument", 400)       \
    X(DEADLINE_EXCEEDED, 4, "deadline_exceeded", 504)     \
    X(NOT_FOUND, 5, "not_found", 404)                     \
    X(ALREADY_EXISTS, 6, "already_exists", 409)           \
    X(PERMISSION_DENIED, 7, "permission_denied", 403)     \
    X(RESOURCE_EXHAUSTED, 8, "resource_exhausted", 429)   \
    X(FAILED_PRECONDITION, 9, "failed_precondition", 400) \
    X(ABORTED, 10, "aborted", 409)                        \
    X(OUT_OF_RANGE, 11, "out_of_range", 400)              \
    X(UNIMPLEMENTED, 12, "unimplemented", 501)            \
    X(INTERNAL, 13, "internal", 500)                      \
    X(UNAVAILABLE, 14, "unavailable", 503)                \
    X(DATA_LOSS, 15, "data_loss", 500)                    \
    X(UNAUTHENTICATED, 16, "unauthenticated", 401)

enum err_code {
    ERR_OK,
#define X(name, number, text, status) ERR_##name = (number),
    ERR_CODES(X)
#undef X
};

typedef struct {
    enum err_code code;
    char msg[1496];  // long enough for a label set in it; longer messages are cut at a character
} err;

// Records the fault; returns false, so that `return err_set(...)` is one line.
bool err_set(err *e, enum err_code code, const char *fmt, ...) PRINTF(3, 4);

// Puts "context: " before the message; the code stays. Long messages keep their beginning.
bool err_wrap(err *e, const char *fmt, ...) PRINTF(2, 3);

// The code's name on the wire, such as "not_found"; "ok" for ERR_OK.
const char *err_name(enum err_code code);

// The code of a wire name; ERR_UNKNOWN for a name that is none.
enum err_code err_code_of(const char *name, size_t n);

// The HTTP status of the Connect protocol; 200 for ERR_OK.
unsigned err_http_status(enum err_code code);
