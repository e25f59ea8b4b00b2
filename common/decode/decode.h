// SPDX-License-Identifier: Apache-2.0
//
// decode.h - the one interface of all decoders: bytes in, profiles out, or an err.
//
// Decoders do no IO, keep no state, and treat their input as hostile: each length and reference is
// checked before it is used, memory comes from the arena whose cap holds, nothing recurses on
// input. Fails with invalid_argument (the input is wrong; the message says what and where) or
// resource_exhausted (the arena's cap). Results live in the arena and may borrow from the input.
#pragma once

#include "model/profile.h"

struct decode_options {
    size_t inflated_max;  // cap of decompressed size in bytes; 0 = no cap of its own
    int64_t sample_rate;  // of text formats, Hz
    uint32_t symbol_max;  // longest string kept, in bytes: the last ones; 0 = all
};

struct decoded {
    struct profile *profiles;
    size_t count;
};

// pprof, gzip or not (sniffed). One profile. `e` carries Pyroscope's words where clients see them.
// *over_cap (may be NULL) becomes true when the inflated size exceeded inflated_max.
bool decode_pprof(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  bool *over_cap, err *e) MUST_CHECK;

// Collapsed text: "frame;frame count" per line, root first. One profile with one type,
// samples/count; names and units of what it means are the caller's business.
bool decode_folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e) MUST_CHECK;

// One stack per line, each line one sample.
bool decode_lines(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e) MUST_CHECK;
