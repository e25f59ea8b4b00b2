// SPDX-License-Identifier: Apache-2.0
//
// bench.h - what tests of stores share: a store, a request, and how to open the store once more. A
// local one has a directory; other kinds make their own bench (tests/unit/s3).
#pragma once

#include "lib/dir.h"
#include "store/local.h"

#include <dirent.h>

struct bench {
    char dir[DIR_MAX];  // empty: it is no local store
    struct mem_budget memory;
    struct req req;
    struct store *store;
    bool no_uring;
    struct store *(*open)(struct bench *b);  // another client of the same store
    char prefix[64];                         // of a bucket
    const char *endpoint;
};

struct store *bench_open(struct bench *b);  // a local one
void bench_init(struct bench *b, bool no_uring);
void bench_release(struct bench *b);
void bench_put(struct bench *b, const char *name, str bytes);

int bench_objects(struct bench *b);           // names that are listed
int bench_unfinished(const struct bench *b);  // uploads of which something is left; local stores

// Entries of a folder in the directory, but for "." and ".."; -1: there is none.
int bench_entries(const struct bench *b, const char *folder);
