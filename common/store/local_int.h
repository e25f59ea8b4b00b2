// SPDX-License-Identifier: Apache-2.0
//
// local_int.h - private to the local store: types and functions that local*.c share.
#pragma once

#include "base/ulid.h"
#include "store/io_int.h"
#include "store/local.h"
#include "sys/lock.h"

#include <limits.h>

// The file in t/ that a process locks while it opens the store.
#define LOCAL_LOCK "lock"

#define LOCAL_DIR_MAX (PATH_MAX - STORE_NAME_MAX - 8)

// A folder whose entry in the folder above it is known to be durable: hash of its path, and its
// identity (the same path may be another folder later). A flush writes to three folders of each
// tenant, and syncs a folder again that the table forgot.
#define LOCAL_FOLDERS 8192
struct local_folder {
    uint64_t path;
    uint64_t identity;
};

struct local {
    struct store store;
    struct io *io;
    struct mem_budget *memory;
    char dir[LOCAL_DIR_MAX];
    char tree;  // 'o'; 't' while open tries the file system out
    bool read_only;
    uint64_t dev, ino;  // of <dir>/o at the start
    struct lock lock;   // of `known`
    struct local_folder known[LOCAL_FOLDERS];
};

struct local_path {
    char p[PATH_MAX];
    size_t n;
    size_t top;  // bytes of <dir>/o/
};

static inline struct local *local_of(struct store *s)
{
    return (struct local *)s;
}

// <dir>/o/<name>
void local_path_of(const struct local *l, str name, struct local_path *path);

// Is <dir>/o still the folder that was opened? If the store was moved or its file system unmounted,
// a list would find nothing, and that would be taken for an empty store. Fails with unavailable.
bool local_is_there(const struct local *l, err *e) MUST_CHECK;

// May it be changed? failed_precondition if it was opened for reading only.
bool local_may_change(const struct local *l, err *e) MUST_CHECK;

// Fails with the code and text of errno number `why`, for "verb object name".
bool local_fault(err *e, int why, const char *verb, str name);
bool local_alive(const struct req *r, err *e) MUST_CHECK;
void local_close_file(int fd);  // keeps errno

// ---- local_read.c
void local_read_many(struct store *s, struct req *r, struct store_read *v, size_t n);
bool local_size(struct store *s, struct req *r, str name, uint64_t *size, err *e) MUST_CHECK;

// ---- local_list.c
bool local_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                err *e) MUST_CHECK;

// ---- local_upload.c
struct store_upload *local_begin(struct store *s, struct req *r, str name, enum store_naming naming,
                                 uint64_t about, err *e);
bool local_write(struct store_upload *u, str bytes, err *e) MUST_CHECK;
bool local_commit(struct store_upload *u, bool *existed, err *e) MUST_CHECK;
void local_abandon(struct store_upload *u);
bool local_remove(struct store *s, struct req *r, str name, err *e) MUST_CHECK;
bool local_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e) MUST_CHECK;
void local_size_many(struct store *s, struct req *r, struct store_sizing *v, size_t n);
void local_remove_many(struct store *s, struct req *r, struct store_removal *v, size_t n);

// Removes files of t/ that no living process holds.
bool local_sweep(struct local *l, err *e) MUST_CHECK;
