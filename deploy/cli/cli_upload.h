// SPDX-License-Identifier: Apache-2.0
//
// cli_upload.h - a file of profiles as the request that sends it. Pure.
//
// pprof goes through Push, OTLP as OTLP over HTTP, all others through /ingest with the format's
// name. Profiles of V8 and those of before pprof's protobuf are made pprof of first, although
// /ingest takes them: only Push takes every label, and every first part of a profile type (--name).
// What is stored is the same. A format that servers of this version cannot read
// (common/decode/formats.def) is refused here.
#pragma once

#include "model/label.h"
#include "model/losses.h"

enum upload_format {
    UPLOAD_AUTO,
    UPLOAD_PPROF,
    UPLOAD_FOLDED,
    UPLOAD_LINES,
    UPLOAD_PERF,
    UPLOAD_JFR,
    UPLOAD_SPEEDSCOPE,
    UPLOAD_TRIE,
    UPLOAD_TREE,
    UPLOAD_OTLP,
    UPLOAD_CPUPROFILE,  // these three made pprof of here
    UPLOAD_HEAPPROFILE,
    UPLOAD_LEGACY,
    UPLOAD_CHROME
};
enum upload_format upload_format_of(str name);  // UPLOAD_AUTO for others

struct upload_options {
    enum upload_format format;
    const label *labels;  // names are those of check_label in cli_push.c, each once
    size_t label_count;
    str name;  // first part of the profile type; empty: guessed
    bool time_is_now;
    int64_t now_ns;
    uint64_t sample_rate;
    bool sample_rate_given;
};

struct upload {
    enum upload_format format;
    uint64_t left_out;     // samples of perf script of another event than the first
    struct losses losses;  // of a file that is made pprof of here, which the server does not see
    const char *path;      // of the request, with its query
    const char *content_type;
    struct buf body;  // owned, empty if the bytes go as they are
    str bytes;        // the request's body; borrows from body or from the file
};

// The format of the bytes (of a file, not compressed). Fails with invalid_argument if they are of
// no known format, with unimplemented if of one that does not work yet.
bool upload_detect(str bytes, enum upload_format *format, err *e) MUST_CHECK;

// file is its name, for the service. Strings are the arena's; the upload borrows `bytes`. Fails
// with invalid_argument: not the expected format, or a label that the request cannot carry.
bool upload_make(struct arena *a, const struct upload_options *o, str file, str bytes,
                 struct upload *out, err *e) MUST_CHECK;
void upload_release(struct upload *u);

// A pprof message, not compressed, with another time.
bool upload_set_time(str pprof, int64_t time_ns, struct buf *out, err *e) MUST_CHECK;

// The service that a file name means: checkout for "checkout.cpu.pb.gz" in any directory.
str upload_service(str file);
