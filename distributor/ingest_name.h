// SPDX-License-Identifier: Apache-2.0
//
// ingest_name.h - the `name` of /ingest: "app.suffix{key=value, ...}".
//
// It takes all names that a push takes, as far as they do not end what they are part of: an
// application any UTF-8 without '{' and '=', keys any without ',', values any without ',' and '}'.
// There is no quoting. Spaces around each are left out. Of equal keys the last one counts. Text
// behind the closing brace is ignored; without that brace the last pair is ignored. Pure.
#pragma once

#include "model/label.h"

struct ingest_name {
    str app;  // the value of key __name__ if there is one
    label *labels;
    size_t count;
};

// Strings borrow from `text`, the array is the arena's. Fails with invalid_argument in Pyroscope's
// words.
bool ingest_name_parse(struct arena *a, str text, struct ingest_name *out, err *e) MUST_CHECK;

// Value of a label; empty if absent.
str ingest_name_get(const struct ingest_name *n, const char *key);
