// SPDX-License-Identifier: Apache-2.0
//
// config_int.h - private to config*.c and tenant.c: texts of settings before and after parsing.
#pragma once

#include "service/config.h"

// The text of a setting and its source.
struct config_text {
    str text;          // of a scalar, or of a comma-separated list
    const str *items;  // of a YAML sequence of plain values
    size_t item_count;
    bool is_sequence;
    const struct yaml_node *node;  // the node, if it comes from a file
    const char *where;  // "flametree.yaml:12", "flag --server.listen", "default"; NULL: not given
};

// ---- config_yaml.c

// Called for every section (key empty) and every setting of a file, in order. False ends the
// reading.
typedef bool config_yaml_fn(void *ctx, str section, str key, const struct config_text *text,
                            err *e);

// A mapping of sections, each a mapping of keys to values; anything else is an error with file and
// line, as are aliases and further documents. Texts and trees live in the arena.
bool config_yaml_read(str yaml, const char *file, struct arena *a, config_yaml_fn *fn, void *ctx,
                      err *e) MUST_CHECK;

// A node as the text of a setting.
bool config_text_of(const struct yaml_node *t, struct arena *a, struct config_text *text,
                    err *e) MUST_CHECK;

// ---- config_value.c

// Parses t into the field at `to`; strings are copied to the arena. Checks the row's bounds.
bool config_value_parse(const struct config_row *row, const struct config_text *t, void *to,
                        struct arena *a, err *e) MUST_CHECK;
bool config_value_eq(const struct config_row *row, const void *a, const void *b);
size_t config_value_size(enum config_type type);

// As YAML text that parses to the same value.
void config_value_print(const struct config_row *row, const void *p, struct buf *out);
bool config_row_is_secret(const struct config_row *row);

// ---- config_section.c

// Is the key one that is accepted without effect? Logs that once.
bool config_without_effect(const struct config_section *s, str key, const char *where);
