// SPDX-License-Identifier: Apache-2.0
//
// dir.h - a directory for a test, below TMPDIR (else /tmp).
#pragma once

#include "lib/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

// Leaves room for a name of ours in a socket's address, which ends at 108 bytes.
#define DIR_MAX      80
#define DIR_PATH_MAX (DIR_MAX + 80)

void dir_new(char dir[DIR_MAX]);
const char *dir_path(char path[DIR_PATH_MAX], const char *dir, const char *name);

// With all that is in it.
void dir_remove(const char *dir);
