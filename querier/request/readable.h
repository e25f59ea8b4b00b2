// SPDX-License-Identifier: Apache-2.0
//
// readable.h - demangled names beside mangled ones, for requests with Flametree-Names: readable.
//
// The names themselves stay as they were pushed, because selectors, call sites and exact searches
// use them. Each distinct mangled name is demangled once for an answer (model/demangle.h); nothing
// is kept between answers.
#pragma once

#include "querier/answer/answer.h"

// Where the names of a message are.
enum readable_place {
    READABLE_NAMES,  // its field 1, as in FlameGraph and FlameGraphDiff
    READABLE_ROWS    // field 1 of its field 1, as in function tables
};

// Appends readable_names to the message that is being written from `mark` on and begins with its
// names; nothing if the request did not ask. Fails when the request ended.
bool readable_put(struct answer *a, enum readable_place place, size_t mark, struct buf *out,
                  err *e) MUST_CHECK;
