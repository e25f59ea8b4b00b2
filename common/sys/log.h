// SPDX-License-Identifier: Apache-2.0
//
// log.h - logfmt lines on stderr, one event per line.
//
//     log_info(&r->log, "cut.closed", "bytes=%zu rows=%zu", bytes, rows);
//     ts=2026-11-21T09:30:00.123Z level=info event=cut.closed tenant=a req=01H… bytes=12 rows=3
//
// error = the operator must act; warn = we coped; info = state changed; debug. Values that may hold
// spaces or quotes go through log_quote. A repeated event (same call site) is printed at most 10
// times in ten seconds; further lines are only counted, and the next line has suppressed=N. Never
// secrets, never payloads. Thread-safe; one write(2) per line.
#pragma once

#include "base/str.h"

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR
};

// Fields that a request adds to its lines. NULL is fine everywhere.
struct log_fields {
    str tenant;
    str request_id;
};

struct log_site {  // state of one call site
    _Atomic uint64_t window;
    _Atomic uint32_t count;
};

void log_set_level(enum log_level level);
bool log_level_of(str name, enum log_level *level) MUST_CHECK;

void log_write(struct log_site *site, const struct log_fields *f, enum log_level level,
               const char *event, const char *fmt, ...) PRINTF(5, 6);

// clang-format off
#define LOG_AT(f, level, event, ...) \
    do { static struct log_site site_; log_write(&site_, (f), (level), (event), __VA_ARGS__); } while (0)
// clang-format on
#define log_debug(f, event, ...) LOG_AT(f, LOG_DEBUG, event, __VA_ARGS__)
#define log_info(f, event, ...)  LOG_AT(f, LOG_INFO, event, __VA_ARGS__)
#define log_warn(f, event, ...)  LOG_AT(f, LOG_WARN, event, __VA_ARGS__)
#define log_error(f, event, ...) LOG_AT(f, LOG_ERROR, event, __VA_ARGS__)

// s as a logfmt value: quoted and escaped where needed, cut at the buffer. Returns text.
#define LOG_QUOTE_MAX 512
const char *log_quote(char text[LOG_QUOTE_MAX], str s);
