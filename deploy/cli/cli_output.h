// SPDX-License-Identifier: Apache-2.0
//
// cli_output.h - the output of a command in a file: all of it, or the file stays as it was.
#pragma once

#include "deploy/cli/cli.h"

// Writes what `write` gives to cli_write into the file, beside it at first. A link or a device is
// written through. Fails as `write` does, or with unavailable, naming the file.
typedef bool cli_output_fn(struct cli *c, void *arg, err *e);
bool cli_output_to(struct cli *c, const char *path, cli_output_fn *write, void *arg,
                   err *e) MUST_CHECK;
