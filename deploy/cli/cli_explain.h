// SPDX-License-Identifier: Apache-2.0
//
// cli_explain.h - how an answer came about, told on standard error: query --explain. The server's
// header Flametree-Explain is JSON (querier/answer/explain.h); a server without it is said to have
// none.
#pragma once

#include "deploy/cli/cli.h"
#include "net/http.h"

// Is this a question to be explained?
bool cli_explains(const struct cli *c, const char *path);

void cli_explain(struct cli *c, const struct http_headers *answer);

// The text, a summary or all of it, without anything that a terminal would take for a command.
// False if it is not the JSON that it should be.
bool cli_explain_put(struct arena *a, str json, str exact, bool full, struct buf *out) MUST_CHECK;
