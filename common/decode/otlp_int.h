// SPDX-License-Identifier: Apache-2.0
//
// otlp_int.h - shared by the files otlp*.c of this room: the tables of the dictionary, the place in
// the request, and the part of a profile that is being built.
//
// The request stays as it is: a table is the places of its rows, four bytes each, and a row is
// parsed when a sample needs it.
#pragma once

#include "base/map.h"
#include "codec/pb.h"
#include "decode/otlp.h"

#define OTLP_TYPES_MAX      64   // sample types of a profile
#define OTLP_LABELS_MAX     256  // of a resource with its scope, and of a sample
#define OTLP_PART_BYTES_MAX ((size_t)8 << 20)

enum otlp_table {
    OTLP_MAPPINGS = 1,  // numbers of the fields of ProfilesDictionary
    OTLP_LOCATIONS,
    OTLP_FUNCTIONS,
    OTLP_LINKS,
    OTLP_STRINGS,
    OTLP_ATTRIBUTES,
    OTLP_STACKS,
    OTLP_TABLES
};

struct otlp_rows {
    uint32_t *at;  // of each row: the offset of its tag in the request
    uint32_t n;
};

struct otlp_head {
    str types[OTLP_TYPES_MAX];  // messages ValueType
    size_t type_count;
    str period_type;
    int64_t period;
    int64_t time_ns;
    int64_t duration_ns;
    size_t samples;
};

struct otlp_sample {
    uint64_t stack;  // 1.7: the first location index
    uint64_t length;
    uint64_t link;
    uint64_t stamps;  // their number
    bool dangling;    // its stack is not in the message
    bool overflows;   // the sum of its values does not fit
    uint64_t value_count;
    int64_t sum;
    int64_t values[OTLP_TYPES_MAX];  // the first ones
    size_t attribute_count;
    size_t attribute_surplus;  // beyond OTLP_LABELS_MAX, left out
    uint32_t attributes[OTLP_LABELS_MAX];
};

// A row of the attribute table that a sample has named.
struct otlp_attribute {
    label l;           // the text is empty if the value has none of the kinds that become labels
    uint32_t service;  // row + 1 in `services`, if this is service.name
};

// A sample that names a service of its own.
struct otlp_foreign {
    uint32_t service;  // as in otlp_attribute
    uint32_t at;       // offset of the sample's tag
};

// Labels of the resource and scope at hand; read when the first of their profiles needs them.
struct otlp_base {
    struct arena memory;  // released when the resource changes
    str resource;         // message ResourceProfiles
    str scope;            // message ScopeProfiles
    label *v;
    size_t n;
    size_t cap;
    size_t of_resource;  // the first ones; those of the scope follow
    size_t surplus;      // beyond OTLP_LABELS_MAX, left out
    bool has_resource;   // they are read
    bool has_scope;
};

struct otlp {
    struct arena *a;
    struct decode_options o;
    enum otlp_layout layout;
    str all;
    size_t count;  // messages Profile with samples
    bool has_services;
    struct otlp_rows tables[OTLP_TABLES];
    uint32_t *indices;  // 1.7: location indices of the profile
    size_t index_count;
    size_t index_cap;
    uint32_t *location_rows;  // rows + 1 of the part that is being built; zero between parts
    uint32_t *function_rows;
    uint32_t *mapping_rows;    // the first of two: with functions, without
    uint32_t *attribute_rows;  // row + 1 in `known`
    struct otlp_attribute *known;
    size_t known_count;
    size_t known_cap;
    str *services;
    size_t service_count;
    size_t service_cap;
    struct map service_rows;

    // The place in the request.
    struct pb_reader resources;
    struct pb_reader scopes;
    struct pb_reader profiles;
    struct otlp_base base;
    str message;  // the Profile at hand; empty if there is none
    size_t number;
    size_t number_next;
    struct otlp_head head;
    size_t type;  // of head.types
    struct pb_reader samples;
    bool lenient;               // samples may be at fault; the message fits no layout else
    size_t faults;              // of samples and profiles, since the walk through the request began
    size_t valued;              // samples that have values or timestamps, likewise
    size_t contradicting;       // samples that contradict themselves, likewise
    struct otlp_sample sample;  // the last one read
    struct otlp_foreign *foreign;  // sorted by service
    size_t foreign_count;
    size_t foreign_cap;
    size_t foreign_at;
    uint32_t service;    // whose samples are read: 0 is that of the resource
    size_t bad_samples;  // of the message at hand, since a part told them
    err bad;             // says what is wrong with the first
};

// A message of the dictionary, and a string, by an index that may be out of range.
bool otlp_row(const struct otlp *d, enum otlp_table table, uint64_t idx, str *row,
              err *e) MUST_CHECK;
bool otlp_string(const struct otlp *d, uint64_t idx, str *s, err *e) MUST_CHECK;

// Reads a profile without its samples, which it counts.
bool otlp_read_head(struct otlp *d, str message, struct otlp_head *h, err *e) MUST_CHECK;

// Reads one sample to d->sample. Fails where the message does not fit the layout, or an index is
// not within its table.
bool otlp_read_sample(struct otlp *d, str message, const struct otlp_head *h, err *e) MUST_CHECK;

// A row of the attribute table, read once; the pointer is good until the next call.
const struct otlp_attribute *otlp_attribute(struct otlp *d, uint64_t idx, err *e) MUST_CHECK;

// Only its key, which is not kept.
bool otlp_attribute_key(const struct otlp *d, uint64_t idx, str *key, err *e) MUST_CHECK;

// A KeyValue of a resource or scope. Numbers become text in `a`.
bool otlp_key_value(const struct otlp *d, struct arena *a, str message, label *l,
                    err *e) MUST_CHECK;

// ---- otlp_part.c: adds samples to a profile until there are no more or the part is large
struct otlp_part {
    struct otlp *d;
    struct arena *a;
    struct profile *p;
    uint32_t *locations;  // of each row of the part: its row in the dictionary
    uint32_t *functions;
    uint32_t *mappings;
    int64_t scale;              // values are multiplied by it
    bool *unknown;              // of each location: something of it is not in the dictionary
    uint32_t unknown_function;  // rows + 1 of STACK_UNKNOWN_NAME; 0 = not made yet
    uint32_t unknown_location;
    bool odd;  // of the location that is being read
    // Attributes and link of the sample before, whose labels may be used again.
    uint32_t last[OTLP_LABELS_MAX];
    size_t last_count;
    uint64_t last_link;
    size_t location_cap, location_of_cap;
    size_t function_cap, function_of_cap;
    size_t mapping_cap, mapping_of_cap;
    size_t line_cap, sample_cap, value_cap, stack_cap, label_cap, unknown_cap;
};

// Adds d->sample. False at a failure. otlp_part_end must follow in either case.
bool otlp_part_add(struct otlp_part *x, err *e) MUST_CHECK;
void otlp_part_end(struct otlp_part *x);

// ---- otlp_json.c: JSON to protobuf of a layout; *old becomes true if fields of 1.7 are found, and
// then the bytes are of no use unless `layout` is that.
bool otlp_json_read(struct arena *a, str text, enum otlp_layout layout, str *out, bool *old,
                    err *e) MUST_CHECK;
