// SPDX-License-Identifier: Apache-2.0
//
// cli_file.h - profiles of files for people: `flame`, and `top` of a file.
#pragma once

#include "deploy/cli/cli.h"
#include "deploy/cli/cli_profiles.h"

// Is there such a file, or is it standard input ("-")?
bool cli_is_file(const char *path);

// Reads the file by --format and --sample-rate, and chooses its type by the option `type`. Fails
// with *status CLI_WRONG if the options are at fault. profiles_release is the caller's in any case.
bool cli_file_read(struct cli *c, const char *path, enum cli_option type, struct profiles *p,
                   size_t *row, int *status, err *e) MUST_CHECK;

// Of a file with several types, of which none was asked for: says which one is taken, and the
// others.
void cli_file_say_types(struct cli *c, const char *path, enum cli_option type,
                        const struct profiles *p, size_t row);

// The functions with the most self time.
bool cli_top_file(struct cli *c, const char *path, uint64_t rows, int *status, err *e) MUST_CHECK;
