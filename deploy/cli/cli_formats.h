// SPDX-License-Identifier: Apache-2.0
//
// cli_formats.h - the rows of common/decode/formats.def: which formats and agents a server of this
// version works with. Pure.
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum format_id {
#define FORMAT(id, ...) FORMAT_ID_##id,
#include "decode/formats.def"
    FORMAT_ID_COUNT
};

struct format_row {
    const char *name;
    const char *endings;  // of files, with a space between two; may be empty
    bool works;
    const char *note;
};

// Whether an agent works: formats.def says what EXPECTED means.
enum agent_works {
    AGENT_NO,
    AGENT_EXPECTED,
    AGENT_YES
};

struct agent_row {
    const char *name;
    const char *language;
    enum agent_works works;
    const char *how;  // the agent's setting for the server's address; empty if it does not work
    const char *note;
};

extern const struct format_row format_rows[FORMAT_ID_COUNT];
extern const struct agent_row agent_rows[];
extern const size_t agent_row_count;

// The row of a name, or NULL.
const struct format_row *format_named(str name);

// Fails with the reason why a format cannot be sent, and an alternative. Returns false.
bool format_refuse(const struct format_row *f, err *e);

void formats_put_text(struct buf *b);
void formats_put_json(struct buf *b);      // querier/ui/src/formats.json
void formats_put_markdown(struct buf *b);  // the tables of README.md
