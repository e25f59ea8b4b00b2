// SPDX-License-Identifier: Apache-2.0
//
// sign.h - signatures of requests to Azure Blob Storage by an account's key: Shared Key
// (learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
//
// The signature covers method, path, query, length and the headers named below. It does not cover
// the body: content-md5 does, which is signed. It holds for a quarter of an hour around the time of
// x-ms-date: each try of a request is signed anew.
#pragma once

#include "base/buf.h"
#include "net/http.h"

struct azure_signing {
    str account;
    str key;  // 64 bytes, as base64 has them decoded
    const char *method;
    str path;   // encoded as it is sent, with the account where the address has it
    str query;  // encoded as it is sent
    size_t body_n;
};

// Adds `authorization`. Of the headers that are there, these are signed: all x-ms-, among which are
// x-ms-date and x-ms-version; content-type, content-md5, if-none-match and the others that the
// protocol names. Names are in lower case, values without spaces at their ends. Text lives in the
// arena, whose failure the caller finds with arena_ok.
void azure_sign(const struct azure_signing *s, struct http_headers *h, struct arena *a);

// The text that is signed, appended.
void azure_text_to_sign(struct buf *b, struct arena *a, const struct azure_signing *s,
                        const struct http_headers *h);
