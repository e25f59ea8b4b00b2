// SPDX-License-Identifier: Apache-2.0
//
// doc.h - a YAML document as nodes that know where they stood, for settings that are more than a
// value or a list of values.
//
//     ingestion_relabeling_rules:               LIST  key "ingestion_relabeling_rules"
//       - {action: drop, regex: "x.*"}              MAP
//                                                       SCALAR  key "action"  text "drop"
//                                                       SCALAR  key "regex"   text "x.*"
//
// Every fault that a reader finds is told by doc_fail, which puts file, line and path before it.
// A map whose keys are rows is read into a struct by config_read (service/config.h). Nodes and
// texts live in the arena that they were parsed into; depth and therefore every path is bounded.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#define DOC_DEPTH_MAX 16

enum doc_kind {
    DOC_NULL,  // nothing, as after "key:"
    DOC_SCALAR,
    DOC_LIST,
    DOC_MAP
};

struct doc {
    enum doc_kind kind;
    bool quoted;       // scalar in quotes or as a block: a text also where it looks like a number
    unsigned line;     // of a map's member: its key's
    const char *file;  // or whatever the text came from
    str key;           // of a map's member; empty for items and the root
    str text;          // of a scalar; NUL-terminated, may hold NULs
    size_t count;      // children
    struct doc *first;
    struct doc *last;
    struct doc *next;
    struct doc *parent;
};

// Reads one document; an empty one is DOC_NULL. Aliases, further documents, keys that are not
// plain and more than DOC_DEPTH_MAX levels are refused. `file` is borrowed for the nodes' life.
bool doc_parse(str yaml, const char *file, struct arena *a, struct doc **root, err *e) MUST_CHECK;

// Refuses a file without a byte but blanks, which a truncated write leaves behind and which would
// pass for a file that sets nothing.
bool doc_has_text(str yaml, const char *file, err *e) MUST_CHECK;

// Fails with "file:line: path: message"; path: "overrides.acme.rules[2].regex".
bool doc_fail(const struct doc *t, err *e, const char *fmt, ...) PRINTF(3, 4);

// The node after t in the order of the text (a node before its children), within root; NULL at the
// end. *levels (may be NULL): how much deeper it stands, 1 to -DOC_DEPTH_MAX.
const struct doc *doc_after(const struct doc *root, const struct doc *t, int *levels);

// Same kinds, keys and texts? NULL equals only NULL.
bool doc_eq(const struct doc *a, const struct doc *b);

// `over` laid over `base`, either may be NULL: maps are joined member by member at every level,
// everything else is replaced. Shares nodes with neither.
struct doc *doc_merge(struct arena *a, const struct doc *base, const struct doc *over);

// On one line, as YAML that parses to an equal tree but for nulls, which become "".
void doc_print(const struct doc *t, struct buf *out);

// A text in double quotes, as YAML and JSON have it.
void doc_print_text(str text, struct buf *out);
