// SPDX-License-Identifier: Apache-2.0
//
// source.h - reads sections of a block from its origin: a store, a file or memory.
//
// The plain way to read blocks, for compaction, coverage checks and tools; the querier plans its
// reads over many blocks and has a cache (querier/block/blocks.h). This room does no IO: bytes come
// from a struct block_origin, whose functions others write (store/origin.h: from a store). Calls
// block as long as the origin does. Damage, absence and failures name the object.
#pragma once

#include "block/reader.h"

// ---- where bytes come from

// Bytes at..at+n of an object; `to` has room for them.
struct block_piece {
    str name;
    uint64_t at;
    size_t n;
    char *to;
};

// At most so many pieces are asked for at once.
#define BLOCK_PIECES_MAX 64

struct block_origin;
struct block_origin_kind {
    // Reads n pieces, many at once, 1 <= n <= BLOCK_PIECES_MAX. False: *failed is the first, in the
    // order of v, that could not be read; those before it were read. *e says why and names the
    // object; out_of_range: the object ends before the piece does.
    bool (*read)(const struct block_origin *from, const struct block_piece *v, size_t n,
                 size_t *failed, err *e);
    // Long work asks now and then; false and *e: it is to end.
    bool (*alive)(const struct block_origin *from, err *e);
};

// A value; borrows the store and the request.
struct block_origin {
    const struct block_origin_kind *kind;
    void *store;  // of the kind: where it reads,
    void *call;   // and for which request; may be NULL
};

// ---- a block
struct block_source {
    struct block_origin from;
    str name;  // of the object
    uint64_t size;
    struct block_extent footer_at;
    struct block_footer footer;
    str whole;  // all its bytes, if they were read with the footer; else empty
};

// Reads and parses the footer, with one read if it is among the last 64 KB.
bool block_source_open(struct arena *a, struct block_origin from, str name, uint64_t size,
                       struct block_source *out, err *e) MUST_CHECK;

// Opens n blocks, reading many at once. An object of at most `keep` bytes is read as a whole: its
// sections need no further reads.
struct block_object {
    str name;
    uint64_t size;
};
struct block_objects {
    const struct block_object *v;
    size_t n;
    uint64_t keep;
    struct block_source *out;  // n of them
    size_t failed;             // out: the one that could not be opened; n if all were
};
bool block_source_open_many(struct arena *a, struct block_origin from, struct block_objects *many,
                            err *e) MUST_CHECK;

// The contents of n sections, n <= BLOCK_PIECES_MAX, read together.
bool block_source_sections(struct arena *a, const struct block_source *src,
                           const struct block_extent *x, size_t n, str *contents,
                           err *e) MUST_CHECK;

// Symbols and index of a service.
bool block_source_service(struct arena *a, const struct block_source *src,
                          const struct block_service_ref *service, struct symbol_table *symbols,
                          struct block_index *index, err *e) MUST_CHECK;

// False and *e if the caller's time is over.
bool block_source_alive(const struct block_source *src, err *e) MUST_CHECK;
