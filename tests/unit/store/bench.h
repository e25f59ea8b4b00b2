// SPDX-License-Identifier: Apache-2.0
//
// bench.h - what the tests of the local store share: a directory, a request, a store in it.
#pragma once

#include "lib/dir.h"
#include "store/local.h"

#include <dirent.h>

struct bench {
    char dir[DIR_MAX];
    struct mem_budget memory;
    struct req req;
    struct store *store;
    bool no_uring;
};

struct store *bench_open(struct bench *b);
void bench_init(struct bench *b, bool no_uring);
void bench_release(struct bench *b);
void bench_put(struct bench *b, const char *name, str bytes);

// Entries of a folder in the directory, but for "." and ".."; -1: there is none.
int bench_entries(const struct bench *b, const char *folder);
