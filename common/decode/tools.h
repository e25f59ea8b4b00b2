// SPDX-License-Identifier: Apache-2.0
//
// tools.h - the rows of tools.def, and which of them some bytes are. Pure.
#pragma once

#include "decode/decode.h"

typedef bool tool_decoder(struct arena *a, str bytes, const struct decode_options *o,
                          struct decoded *out, err *e);

enum tool {
#define TOOL(id, ...) TOOL_##id,
#include "decode/tools.def"
    TOOL_COUNT  // none of them
};

struct tool_row {
    str name;
    tool_decoder *decode;
};

extern const struct tool_row tool_rows[TOOL_COUNT];

enum tool tool_named(str name);

// Decodes text that may have a byte order mark or be UTF-16, and JSON whose strings are not all
// UTF-8, which is mended and counted.
bool tool_decode(enum tool tool, struct arena *a, str bytes, const struct decode_options *o,
                 struct decoded *out, err *e) MUST_CHECK;

// A file of Linux perf, which only perf reads: the client asks it (deploy/cli/cli_perf_data.h), and
// servers refuse it with this advice.
bool tool_is_perf_data(str bytes);
#define TOOL_PERF_DATA_ADVICE                                                                 \
    "where it was recorded, `flametree push perf.data` sends it, and so does `perf script | " \
    "flametree push -`"

// Is the text in quotes a key of this JSON? A function may be called so too, but then it is a
// value.
bool tool_has_key(str json, str quoted);

// The format that the bytes are of, by words that only it has. JSON is recognised wherever its keys
// are.
enum tool tool_of(str bytes);
