// SPDX-License-Identifier: Apache-2.0
//
// index.h - the series of one service, and which of them a selector matches.
//
// Names and values of labels are kept once; a series is a list of (name, value) numbers, and every
// value lists the series that have it (its postings):
//
//     names   0 "pod"     values  0 "a-1"  series 0 2
//                                 1 "a-2"  series 1
//             1 "region"  values  0 "eu"   series 0 1
//
// A selector is answered value by value: a regex runs once for each distinct value of its label,
// not once a series, and only the postings of matching values are read. Series are only added; the
// owner's lock covers the index, readers may share it.
#pragma once

#include "base/map.h"
#include "model/label.h"

struct index_value {
    str text;  // owned
    uint32_t *series;
    uint32_t n;
    size_t cap;
};

struct index_name {
    str text;  // owned
    struct map by_text;
    struct index_value *values;
    uint32_t n;
    size_t cap;
};

struct index_pair {
    uint32_t name;
    uint32_t value;
};

struct index_series {
    struct index_pair *pairs;  // in the order of names' bytes
    uint32_t n;
    bool sampled;  // __sampled__="true"
    uint64_t fingerprint;
};

struct index {
    struct mem_budget *budget;
    struct map by_name;
    struct index_name *names;
    uint32_t name_count;
    size_t name_cap;
    struct map by_labels;
    struct index_series *series;
    uint32_t series_count;
    size_t series_cap;
};

void index_init(struct index *x, struct mem_budget *budget);
void index_release(struct index *x);

// The number of a series, or MAP_NONE.
uint32_t index_find(const struct index *x, labels ls, uint64_t fingerprint);

// The number of a series, added if it is new; MAP_NONE with *e set on failure, after which the
// index answers as before.
uint32_t index_series(struct index *x, labels ls, uint64_t fingerprint, err *e) MUST_CHECK;

// The label set of a series in `room`, which has place for all its pairs; strings borrow from the
// index (they never move).
labels index_labels(const struct index *x, uint32_t series, label *room);

// A set of series, one bit each; bits from series_count on are 0.
struct index_set {
    uint64_t *words;
    size_t n;
};
static inline bool index_set_has(const struct index_set *s, uint32_t series)
{
    return s->words[series / 64] >> (series % 64) & 1;
}

// The series for which all matchers hold; memory is the arena's.
bool index_select(const struct index *x, struct arena *a, const struct selector *sel,
                  struct index_set *out, err *e) MUST_CHECK;
