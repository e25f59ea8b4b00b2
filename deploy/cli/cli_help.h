// SPDX-License-Identifier: Apache-2.0
//
// cli_help.h - the rows of cli.def as texts: help, man page, docs/cli.md, completions. Pure.
#pragma once

#include "base/buf.h"
#include "deploy/cli/cli_rows.h"

void cli_help_overview(struct buf *b);
void cli_help_command(struct buf *b, enum cli_command c);
void cli_help_man(struct buf *b);
void cli_help_markdown(struct buf *b);

// shell: "bash", "zsh" or "fish"; false for another one.
bool cli_completion_print(struct buf *b, str shell);
