// SPDX-License-Identifier: Apache-2.0
//
// cli_profiles.h - a file of profiles, read without a server: for `convert`, `flame` and `top`.
//
// A file has one profile or several, and a profile has one sample type or several. All of them are
// listed as one row of types. Pure but for the reading of the file.
#pragma once

#include "decode/decode.h"
#include "deploy/cli/cli_flame.h"
#include "deploy/cli/cli_upload.h"

// One type of one profile.
struct profiles_type {
    size_t profile;   // row of decoded profiles
    uint32_t column;  // of its values
    str type;
    str unit;
    str name;    // of the profile: "process_cpu" of a recording, that of a speedscope profile; or
                 // empty
    bool again;  // an earlier row has the same three: they are one for people
};

struct profiles {
    enum upload_format format;
    struct decoded decoded;
    struct profiles_type *types;
    size_t count;
    struct buf file;  // private: the profiles borrow from these
    struct buf plain;
    uint64_t left_out;  // samples of perf script of another event than the first
};

struct profiles_options {
    enum upload_format format;  // UPLOAD_AUTO: the bytes tell
    uint64_t sample_rate;       // Hz
    bool rate_given;            // otherwise files have their own, or count samples
};

// Reads a file, or standard input ("-"). All memory but that of the two buffers is the arena's.
// Release it in any case.
bool profiles_read(struct arena *a, const char *path, const struct profiles_options *o,
                   struct profiles *out, err *e) MUST_CHECK;
void profiles_release(struct profiles *p);

// The only type whose "name type/unit" has the text. Without a text the only one that there is, or
// the first profile's default, or its last, as in `go tool pprof`. Fails with invalid_argument,
// naming those that there are.
bool profiles_choose(const struct profiles *p, str text, size_t *row, err *e) MUST_CHECK;

// "name type/unit", as people write it.
void profiles_put_type(struct buf *b, const struct profiles_type *t);

// Is there no other profile with the same type and name?
bool profiles_is_alone(const struct profiles *p, size_t row);

// The tree by function name, of all profiles with the type and name of this row, as message
// FlameGraph (model/flamegraph.h), and as one that can be drawn. Frames without a name are shown by
// their address.
bool profiles_graph(struct arena *a, const struct profiles *p, size_t row, struct buf *graph,
                    err *e) MUST_CHECK;
bool profiles_flame(struct arena *a, const struct profiles *p, size_t row, struct flame *f,
                    err *e) MUST_CHECK;

// speedscope's file format: each type that is wanted as a sampled profile. (Rows of types.)
bool profiles_put_speedscope(struct arena *a, const struct profiles *p, const size_t *rows,
                             size_t n, str name, struct buf *out, err *e) MUST_CHECK;
