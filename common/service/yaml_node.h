// SPDX-License-Identifier: Apache-2.0
//
// yaml_node.h - a YAML document as nodes that know their file and line, for settings that are more
// than a value or a list of values.
//
//     ingestion_relabeling_rules:               LIST  key "ingestion_relabeling_rules"
//       - {action: drop, regex: "x.*"}              MAP
//                                                       SCALAR  key "action"  text "drop"
//                                                       SCALAR  key "regex"   text "x.*"
//
// Readers report every fault by yaml_node_fail, which adds file, line and path. config_read
// (service/config.h) reads a map whose keys are rows into a struct. Nodes and texts live in the
// arena that they were parsed into. The depth is bounded, and so is every path.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#define YAML_NODE_DEPTH_MAX 16

enum yaml_node_kind {
    YAML_NODE_NULL,  // nothing, as after "key:"
    YAML_NODE_SCALAR,
    YAML_NODE_LIST,
    YAML_NODE_MAP
};

struct yaml_node {
    enum yaml_node_kind kind;
    bool quoted;       // scalar in quotes or as a block: a text even if it looks like a number
    unsigned line;     // for a map's member that of its key
    const char *file;  // or the name of another source of the text
    str key;           // of a map's member; empty for items and the root
    str text;          // of a scalar; NUL-terminated, may hold NULs
    size_t count;      // children
    struct yaml_node *first;
    struct yaml_node *last;
    struct yaml_node *next;
    struct yaml_node *parent;
};

// Reads one document; an empty one is YAML_NODE_NULL. Aliases, further documents, keys that are not
// plain and more than YAML_NODE_DEPTH_MAX levels are refused. `file` is borrowed for the nodes'
// life.
bool yaml_node_parse(str yaml, const char *file, struct arena *a, struct yaml_node **root,
                     err *e) MUST_CHECK;

// The same for all of a file. It refuses one that holds neither a value nor a comment: a write that
// was cut short leaves nothing or "---" behind, which would be taken for a file that sets nothing.
bool yaml_node_parse_file(str yaml, const char *file, struct arena *a, struct yaml_node **root,
                          err *e) MUST_CHECK;

// Fails with "file:line: path: message"; path: "overrides.acme.rules[2].regex".
bool yaml_node_fail(const struct yaml_node *t, err *e, const char *fmt, ...) PRINTF(3, 4);

// The node after t in the order of the text (a node before its children), within root; NULL at the
// end. *levels (may be NULL): by how many levels it is deeper, 1 to -YAML_NODE_DEPTH_MAX.
const struct yaml_node *yaml_node_after(const struct yaml_node *root, const struct yaml_node *t,
                                        int *levels);

// Same kinds, keys and texts? NULL equals only NULL.
bool yaml_node_eq(const struct yaml_node *a, const struct yaml_node *b);

// Merges `over` into `base`; either may be NULL. Maps are merged member by member at every level,
// all else of `base` is replaced. The result shares nodes with neither.
struct yaml_node *yaml_node_merge(struct arena *a, const struct yaml_node *base,
                                  const struct yaml_node *over);

// On one line, as YAML that parses to an equal tree but for nulls, which become "".
void yaml_node_print(const struct yaml_node *t, struct buf *out);

// A text in double quotes, as YAML and JSON have it.
void yaml_node_print_text(str text, struct buf *out);
