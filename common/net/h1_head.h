// SPDX-License-Identifier: Apache-2.0
//
// h1_head.h - the bytes of HTTP/1: request heads and chunked bodies. No socket, no loop.
//
// A head is first collected whole (h1_scan finds its end), then parsed in place, so that every part
// of it is a slice of one copy. No library reads it: http-parser has no maintainer, Debian has
// llhttp only as sources of Node. All by which two readers of one message could disagree about
// where it ends would have to be checked here anyway; the rest of a parser's work is to cut lines
// at CRLF and ":". And a library would be a second reader inside the server, one more that can
// disagree.
//
// Refused (RFC 9112 sections 2.2, 3.2, 5, 6): line ends without CR, CR without LF, folded lines,
// spaces before the colon or in names, request lines with more than one space at a place, with a
// fragment or without a version, Content-Length together with Transfer-Encoding, repeated or
// non-decimal Content-Length, Transfer-Encoding other than one "chunked", either with HTTP/1.0,
// a Host that is missing, repeated, no host, or another one than the target names, control bytes
// anywhere. In chunked bodies: bytes between a chunk's size and its end of line that are no
// extension, open quotes, trailers that are no headers or that frame messages.
#pragma once

#include "net/http.h"

enum h1_scan_result {
    H1_MORE,
    H1_WHOLE,
    H1_BROKEN,  // no continuation can make it a head
};

// Position of the search for the end of a head; zero to begin.
struct h1_scan {
    size_t line;   // offset of the current line
    size_t at;     // bytes looked at
    size_t begin;  // offset of the request line, after empty lines
};

// Goes on with the head that begins at p, of which n bytes have come. H1_WHOLE: the head is
// [begin, at).
enum h1_scan_result h1_scan(struct h1_scan *s, const char *p, size_t n);

struct h1_head {
    str method;
    str path;   // before '?'
    str query;  // after '?'
    str authority;
    struct http_headers headers;
    uint64_t length;  // of the body, unless chunked
    bool has_length;
    bool chunked;
    bool keep_alive;
    bool http10;
    bool expects_continue;
};

// Parses a whole head in place (names become lower case); slices borrow p, the list is in the
// arena. Returns 0, or the HTTP status to refuse it with and the reason in *e.
unsigned h1_head_parse(struct h1_head *h, char *p, size_t n, unsigned headers_max, struct arena *a,
                       err *e) MUST_CHECK;

// A chunked body being read; zero to begin.
struct h1_chunks {
    enum h1_chunk_state {
        H1_CHUNK_SIZE,
        H1_CHUNK_SPACE,  // after the size
        H1_CHUNK_EXTENSION,
        H1_CHUNK_SIZE_END,
        H1_CHUNK_DATA,
        H1_CHUNK_DATA_CR,
        H1_CHUNK_DATA_LF,
        H1_CHUNK_TRAILER,
        H1_CHUNK_TRAILER_END,
        H1_CHUNKS_DONE,
        H1_CHUNKS_BROKEN,
    } state;
    uint64_t left;     // bytes of the chunk
    unsigned digits;   // of its size
    unsigned extra;    // bytes of extensions and trailers, limited
    unsigned in_line;  // bytes of the trailer's name
    bool in_value;     // of the trailer
    bool quoted;       // in an extension's quotes
    bool escaped;      // the byte after a backslash there
    char name[20];     // of the trailer, as much as fits
};

// Reads up to n bytes and returns how many; *data becomes the part of them that is body (may be
// empty). Call again until all are read or the state is DONE or BROKEN.
size_t h1_chunks_feed(struct h1_chunks *k, const char *p, size_t n, str *data);

// The reason phrase of a status.
const char *h1_reason(unsigned status);
