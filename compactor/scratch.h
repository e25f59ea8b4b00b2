// SPDX-License-Identifier: Apache-2.0
//
// scratch.h - files without names, for intermediate results that do not fit memory. They end with
// the process, however it ends.
//
// A spool keeps pieces of bytes that are read back by their place; the first megabytes stay in
// memory. A scratch file is a store of one object, so an intermediate block is read like any other.
#pragma once

#include "base/buf.h"
#include "store/store.h"

struct spool {
    const char *folder;
    struct buf near;  // its beginning
    int fd;           // the rest; -1: none so far
    uint64_t n;
};
void spool_init(struct spool *s, const char *folder, struct mem_budget *memory);
void spool_release(struct spool *s);
void spool_clear(struct spool *s);  // empty; memory and file are kept
bool spool_put(struct spool *s, str bytes, err *e) MUST_CHECK;
bool spool_get(const struct spool *s, uint64_t at, size_t n, char *to, err *e) MUST_CHECK;

struct scratch {
    struct store store;  // knows reading only; whatever the name, it is this file
    struct buf pending;
    int fd;
    uint64_t size;
};
// The folder is made if it is not there. Fails with unavailable naming it.
bool scratch_init(struct scratch *s, const char *folder, struct mem_budget *memory,
                  err *e) MUST_CHECK;
void scratch_restart(struct scratch *s);  // empty again
void scratch_release(struct scratch *s);
bool scratch_sink(void *scratch, str bytes, err *e) MUST_CHECK;  // a block_sink
bool scratch_end(struct scratch *s, err *e) MUST_CHECK;          // all was written
