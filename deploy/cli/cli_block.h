// SPDX-License-Identifier: Apache-2.0
//
// cli_block.h - files that are blocks, for the commands `block ls`, `show` and `verify`.
//
// A block is an object of a store. A file is treated as a store with one object, whose name is the
// last part of the path. So the readers of blocks (block/source.h) can read files as well.
#pragma once

#include "block/keys.h"
#include "deploy/cli/cli.h"
#include "store/origin.h"

struct cli_block {
    struct store store;
    struct req req;  // its arena is the block's
    const char *path;
    int fd;
    struct block_source source;
};

// Opens the file and reads its footer. Must be closed in any case; errors name the path.
bool cli_block_open(struct cli_block *f, const char *path, err *e) MUST_CHECK;
void cli_block_close(struct cli_block *f);

const char *cli_block_kind(enum block_kind kind);
const char *cli_block_class(enum block_class class);
const char *cli_block_width(int64_t width);  // "5m", "1h"

// ---- facts of a block, as numbers

enum block_part {
    PART_SYMBOLS,
    PART_INDEX,
    PART_NODES,
    PART_TOTALS,
    PART_VECTORS,
    PART_HEADS,
    PART_DETAILS,
    PART_SPANS,
    PART_BLOOMS,
    PART_FOOTER,
    PART_COUNT
};
extern const char *const cli_block_parts[PART_COUNT];

struct block_part_sum {
    uint64_t sections;
    uint64_t raw;
    uint64_t stored;
};

#define BLOCK_WIDTHS 5
extern const int64_t cli_block_widths[BLOCK_WIDTHS];

struct block_facts {
    struct block_part_sum parts[PART_COUNT];
    uint64_t keys[BLOCK_CLASSES];
    uint64_t nodes[BLOCK_WIDTHS];
    uint64_t totals;
    uint64_t vectors;
    uint64_t rows;
    uint64_t profiles;
    uint64_t loose;
    int64_t first_ns;  // INT64_MAX: it has no profiles
    int64_t last_ns;
};

// Facts of a service, added to *facts; the index is read into the arena. Facts of the whole block.
bool cli_block_facts(struct cli_block *f, struct arena *a, const struct block_service_ref *s,
                     struct block_index *index, struct block_facts *facts, err *e) MUST_CHECK;
bool cli_block_all_facts(struct cli_block *f, struct block_facts *facts, err *e) MUST_CHECK;

// ---- running over files

// False with *e untouched: the fault was printed already.
typedef bool cli_block_fn(struct cli *c, struct cli_block *f, void *arg, err *e);

// Calls fn for each file that the operands name; with --format json the output is an array. A file
// that fails does not stop the others, but the command fails in the end.
bool cli_block_array(struct cli *c, cli_block_fn *fn, void *arg, int *status, err *e) MUST_CHECK;

// Writes b and empties it.
bool cli_block_print(struct cli *c, struct buf *b, bool json, err *e) MUST_CHECK;

// ---- block show: lists of a service

struct block_shown {
    struct cli *c;
    struct cli_block *f;
    const struct block_service_ref *s;
    struct arena *a;  // of the service
    const struct block_index *index;
    struct block_set keys;  // those that --match selects
};

void cli_block_put_keys(const struct block_shown *w, struct buf *b);
void cli_block_put_nodes(const struct block_shown *w, struct buf *b);

// --node N, --row N
bool cli_block_put_node(const struct block_shown *w, uint64_t n, struct buf *b, err *e) MUST_CHECK;
bool cli_block_put_row(const struct block_shown *w, uint64_t n, struct buf *b, err *e) MUST_CHECK;
