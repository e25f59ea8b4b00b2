// SPDX-License-Identifier: Apache-2.0
//
// relabel_int.h - a compiled relabelling rule; for relabel*.c only.
#pragma once

#include "model/relabel.h"

enum relabel_action {
    RELABEL_REPLACE,
    RELABEL_KEEP,
    RELABEL_DROP,
    RELABEL_KEEPEQUAL,
    RELABEL_DROPEQUAL,
    RELABEL_HASHMOD,
    RELABEL_LABELMAP,
    RELABEL_LABELDROP,
    RELABEL_LABELKEEP,
    RELABEL_LOWERCASE,
    RELABEL_UPPERCASE,
    RELABEL_ACTION_COUNT
};

#define RELABEL_LITERAL (-1)

// A template is literals and groups of the match in turn: "a_$1" -> {"a_", LITERAL} {"", 1}.
struct relabel_part {
    str text;
    int group;  // 0: the whole match; RELABEL_LITERAL: text
};
struct relabel_template {
    struct relabel_part *v;
    size_t n;
    int most;  // highest group that is used
};

struct relabel_rule {
    enum relabel_action action;
    const str *sources;
    size_t source_count;
    str separator;
    const struct regex *re;  // NULL: (.*), which every text matches, with itself as group 1
    uint64_t modulus;
    str target_label;
    struct relabel_template target;
    struct relabel_template replacement;
};
