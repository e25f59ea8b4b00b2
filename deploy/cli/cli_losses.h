// SPDX-License-Identifier: Apache-2.0
//
// cli_losses.h - says what a decoder here left out or mended of a file (model/losses.h). A server
// tells it of what it decodes itself.
#pragma once

#include "deploy/cli/cli.h"
#include "model/losses.h"

// One line for each reason.
void cli_losses_say(struct cli *c, const char *file, const struct losses *l);
