// SPDX-License-Identifier: Apache-2.0
//
// disk_cache.h - sections of blocks on this machine's disk, for stores that are reached over a
// network.
//
// Blocks never change, so bytes that were read once are good for ever, also for the next process in
// the same directory. The cache is a RocksDB of its own, with the compaction style FIFO: what was
// written first goes first, when the limit is reached and at an age (DISK_CACHE_AGE_S), used or
// not, so that nothing stays here for long after the store has deleted it. RocksDB checks the bytes
// that it reads.
//
// A cache may fail: then there is no cache. Nothing here is an error for a question; a full disk, a
// damaged file or a busy writer make it a read of the store. Nothing is synced: after a crash of
// the machine, rows may be missing.
#pragma once

#include "base/mem.h"
#include "base/str.h"

// Age in seconds at which bytes go from the disk, at most: `querier.disk_cache_age` may only be
// less. Within another hour they are gone, and so three days after the store deleted them.
#define DISK_CACHE_AGE_S (2u * 24 * 3600)

struct disk_cache;

// Opens the cache in a directory, which is made; what is there and cannot be used is deleted.
// bytes: on disk, at most; age_s: at which they go, at least 1; memory: where RocksDB's buffers are
// counted. Returns owned; NULL and *e if there can be none, and the caller goes on without.
struct disk_cache *disk_cache_open(const char *directory, uint64_t bytes, uint64_t age_s,
                                   struct mem_budget *memory, err *e) MUST_CHECK;

// Deletes what a cache of an earlier process left in the directory, for a process that has none.
void disk_cache_remove(const char *directory);

// Writes what is still in memory. When no other call is in progress; NULL is fine.
void disk_cache_close(struct disk_cache *c);

// The n bytes at `at` of the object, if exactly these were put. Any thread; blocks for the disk.
bool disk_cache_get(struct disk_cache *c, str object, uint64_t at, size_t n, char *to) MUST_CHECK;

// Sections of more bytes than this are not put.
size_t disk_cache_section_max(const struct disk_cache *c);

// Any thread. Copies the bytes into memory, unless the disk is behind.
void disk_cache_put(struct disk_cache *c, str object, uint64_t at, str bytes);

// Deletes what is too old, now: a thread of the cache does it every hour, or sooner if bytes age
// sooner. Writes what is in memory to the disk before, so that it grows old too.
void disk_cache_expire(struct disk_cache *c);

// Bytes of files.
uint64_t disk_cache_bytes(const struct disk_cache *c);
