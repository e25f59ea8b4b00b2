// SPDX-License-Identifier: Apache-2.0
//
// otlp.h - OpenTelemetry profiles (ExportProfilesServiceRequest, which is ProfilesData on the wire,
// as protobuf or JSON): one dictionary, and any number of messages Profile below their resources
// and scopes.
//
// All versions of the protocol have the same package name, so the layout is told from the bytes.
// Layouts are tried from the newest: 1.10, then 1.8 and 1.9 (which differ in nothing that is read
// here), then 1.7. The first one that the whole message fits decides: no known field has another
// wire type, every sample has values or timestamps, and every index of a sample is in range. So a
// message that fits two layouts is of the newer one. docs/formats/otlp.md says more.
//
// A request is read profile by profile, so that memory does not grow with their number:
//
//     if (!otlp_open(&arena, bytes, &options, &d, e)) return false;
//     while ((step = otlp_next(d, &scratch, &p, e)) != OTLP_END) { ...; arena_release(&scratch); }
#pragma once

#include "decode/decode.h"
#include "model/label.h"

enum otlp_layout {
    OTLP_1_10,  // and later
    OTLP_1_8,   // and 1.9
    OTLP_1_7,
    OTLP_LAYOUTS
};

// Part of a message Profile: its samples of one type and one service. Of a large one there are
// several parts, so that a part takes a few MiB whatever its message holds.
struct otlp_profile {
    struct profile profile;  // with at least one sample
    labels labels;           // unsorted, names unique; with __name__ and service_name
    str message;             // the bytes of the message Profile; with JSON, of its protobuf
    size_t number;           // of that message in the request, from 0
    err bad;                 // what is wrong with the first sample that was left out; its code is
                             // ERR_OK if none was. profile.losses counts them (LOSS_BAD_SAMPLE)
};

enum otlp_step {
    OTLP_END,
    OTLP_PROFILE,
    OTLP_REFUSED  // the rest of message `number` is left out: *e says why; reading may go on
};

struct otlp;

// Checks the whole request and finds its layout. `bytes` and `a` must outlive *out, which needs no
// release. o->inflated_max is not looked at: the caller knows the size. A message of no layout
// fails with an error that names those that are known.
bool otlp_open(struct arena *a, str bytes, const struct decode_options *o, struct otlp **out,
               err *e) MUST_CHECK;

// The same of OTLP/JSON, or of what Go's protojson writes: the forms of ids differ. Names of fields
// are those of any layout; of a field that nobody knows only the request itself may have none.
bool otlp_open_json(struct arena *a, str text, const struct decode_options *o, struct otlp **out,
                    err *e) MUST_CHECK;

// JSON as protobuf, in memory of `a`.
bool otlp_from_json(struct arena *a, str text, str *out, err *e) MUST_CHECK;

// The next part, in memory of `scratch`. Values and timestamps of a sample become its total. A
// sample with both is left out if it has not as many of one as of the other, as nobody can say then
// which counts. What a sample names and the dictionary does not have is STACK_UNKNOWN_NAME, or left
// out of the frame.
// Strings are not checked to be UTF-8 (validate_text). *out has its number in each case but the
// end's.
enum otlp_step otlp_next(struct otlp *d, struct arena *scratch, struct otlp_profile *out, err *e);

enum otlp_layout otlp_layout_of(const struct otlp *d);
const char *otlp_layout_name(enum otlp_layout layout);

// How many messages Profile have samples.
size_t otlp_count(const struct otlp *d);
