// SPDX-License-Identifier: Apache-2.0
//
// source.h - reads sections of a block from a store.
//
// The plain way to read blocks, for compaction, coverage checks and tools; the querier plans its
// reads over many blocks and has a cache (querier/block/blocks.h). Calls block on the store.
// Damage, absence and failures name the object.
#pragma once

#include "block/reader.h"
#include "store/store.h"

struct block_source {
    struct store *store;
    str name;  // of the object
    uint64_t size;
    struct block_extent footer_at;
    struct block_footer footer;
    str whole;  // all its bytes, if they were read with the footer; else empty
};

// Reads and parses the footer, with one read if it is among the last 64 KB.
bool block_source_open(struct arena *a, struct store *s, struct req *r, str name, uint64_t size,
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
bool block_source_open_many(struct arena *a, struct store *s, struct req *r,
                            struct block_objects *many, err *e) MUST_CHECK;

// The contents of n sections, read together.
bool block_source_sections(struct arena *a, const struct block_source *src, struct req *r,
                           const struct block_extent *x, size_t n, str *contents,
                           err *e) MUST_CHECK;

// Symbols and index of a service.
bool block_source_service(struct arena *a, const struct block_source *src, struct req *r,
                          const struct block_service_ref *service, struct symbol_table *symbols,
                          struct block_index *index, err *e) MUST_CHECK;
