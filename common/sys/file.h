// SPDX-License-Identifier: Apache-2.0
//
// file.h - small whole files, directories and lock files.
//
// Errors name the path and the system's reason: not_found, permission_denied, resource_exhausted
// (disk full) or unavailable. All calls block.
#pragma once

#include "base/buf.h"

// Appends the whole file to `out`; fails with resource_exhausted if it does not fit out's cap.
bool file_read(const char *path, struct buf *out, err *e) MUST_CHECK;

// Replaces the file's content by these bytes, durably and atomically: after a crash it holds the
// old or the new ones. Uses path.tmp.
bool file_write(const char *path, str bytes, err *e) MUST_CHECK;

bool file_exists(const char *path);
bool file_remove(const char *path, err *e) MUST_CHECK;  // true if there is none

// Makes a directory and its parents, mode 0750.
bool dir_make(const char *path, err *e) MUST_CHECK;

// Makes the names in a directory durable: after creating, renaming or deleting in it.
bool dir_sync(const char *path, err *e) MUST_CHECK;

// Bytes that an ordinary user may still write to the file system of path.
bool dir_free_bytes(const char *path, uint64_t *bytes, err *e) MUST_CHECK;
bool dir_size_bytes(const char *path, uint64_t *bytes, err *e) MUST_CHECK;  // of all of it

// An exclusive lock on a file, which is created if necessary and then holds our process id. The
// lock ends with the process in any case. Fails with failed_precondition naming the holder.
bool lock_file_open(const char *path, int *fd, err *e) MUST_CHECK;
void lock_file_close(int fd);

// The same lock on a file that is open for writing, until fd is closed. False and errno: EAGAIN or
// EACCES if it is locked already.
bool lock_file_take(int fd) MUST_CHECK;
