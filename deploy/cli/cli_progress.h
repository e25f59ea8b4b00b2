// SPDX-License-Identifier: Apache-2.0
//
// cli_progress.h - a line on the terminal that says how far a long command is, and when it ends:
//
//     [=========>                    ]  31 %  1.2 GB of profiles  about 4m left
//
// Standard error; without a terminal, with --quiet and in the first second there is none.
#pragma once

#include "deploy/cli/cli.h"

struct cli_progress {
    bool shows;
    bool drawn;
    uint64_t begin_ns;
    uint64_t drawn_ns;
    double from;  // the share that was there when it began: an interrupted command goes on
    bool begun;
};
void cli_progress_begin(struct cli_progress *p, struct cli *c);
// share: 0 to 1 of all that there is to do; below 0: not known.
void cli_progress_draw(struct cli_progress *p, double share, const char *fmt, ...) PRINTF(3, 4);
void cli_progress_erase(struct cli_progress *p);  // before other lines, and at the end
