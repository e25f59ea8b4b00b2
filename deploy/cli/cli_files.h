// SPDX-License-Identifier: Apache-2.0
//
// cli_files.h - the files that operands name.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

struct cli_files {
    const char **v;  // paths; "-" is standard input
    size_t n;
    size_t cap;
};

// A directory is replaced by the files below it, in order of their names. Names that begin with a
// dot are left out, and so are links to directories. Memory is the arena's. Fails naming the path.
bool cli_files_find(struct arena *a, const char *const *operands, size_t n, struct cli_files *out,
                    err *e) MUST_CHECK;
// Adds the files below one directory; it may have none.
bool cli_files_below(struct arena *a, const char *dir, struct cli_files *out, err *e) MUST_CHECK;

// The bytes of a file, or of standard input. What zstd compressed is uncompressed, as no format
// does that by itself; gzip stays, as a pprof is sent as it came.
bool cli_files_read(const char *path, struct buf *out, err *e) MUST_CHECK;
