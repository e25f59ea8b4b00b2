// SPDX-License-Identifier: Apache-2.0
//
// assets.h - the files of the web page, compiled into the querier.
//
// querier/ui/dist holds the built page: index.html, one script, one style sheet, a font, a logo,
// licences. While building, deploy/cmake/Assets.cmake puts their bytes into .rodata and writes a
// table of them, so serving the page is a look-up and nothing is ever read from disk.
//
//     path                      what it is, and the Cache-Control to send
//     /                         index.html; no-cache, and 304 if the ETag still matches
//     /assets/<name>-<hash>.*   the hash follows the content; public, max-age=31536000, immutable
//     /licenses.txt             as index.html
//
// Text is kept twice: as it is, for the rare client that does not accept gzip, and compressed, to
// be sent as stored with Content-Encoding: gzip and Vary: Accept-Encoding. What gzip does not make
// smaller, the font, has no second form. A path that is not in the table is not found; above all,
// an unknown path under /assets/ never becomes index.html.
//
// Everything here is constant, lives as long as the program and may be used by any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asset {
    const char *path;          // "/" or "/assets/index-abc.js"
    const char *content_type;  // with charset for text
    const char *etag;          // 16 hex digits of the SHA-256 of the plain bytes, in its quotes
    const uint8_t *bytes;
    size_t size;
    const uint8_t *gzip;  // NULL if there is no compressed form
    size_t gzip_size;
    bool immutable;
};

// To be sent with "/": no code or style but our own files, no other host, no frame around us. The
// tests of the page run under exactly this policy (querier/ui/tests/server.mjs).
#define ASSET_CONTENT_SECURITY_POLICY                                              \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; " \
    "frame-ancestors 'none'; require-trusted-types-for 'script'"

// The asset at exactly this path, n bytes long, without a query string; NULL if there is none.
const struct asset *asset_find(const char *path, size_t n);

// The generated table, in the order of the file names.
extern const struct asset asset_table[];
extern const size_t asset_count;
