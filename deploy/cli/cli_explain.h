// SPDX-License-Identifier: Apache-2.0
//
// cli_explain.h - query --explain: prints how the server made an answer, on standard error. The
// header Flametree-Explain is JSON (querier/answer/explain.h); without it a line says that the
// server has none.
#pragma once

#include "deploy/cli/cli.h"
#include "net/http.h"

// Is the request to this path to be explained?
bool cli_explains(const struct cli *c, const char *path);

void cli_explain(struct cli *c, const struct http_headers *answer);

// Prints the explanation, in full or as a summary, without characters that control a terminal.
// False if the header is not the expected JSON.
bool cli_explain_put(struct arena *a, str json, str exact, bool full, struct buf *out) MUST_CHECK;
