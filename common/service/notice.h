// SPDX-License-Identifier: Apache-2.0
//
// notice.h - conditions that a person must hear of although traffic goes on.
//
// A notice is a line of /ready (which answers 200 all the same), a row of flametree_notices, a line
// of the log when it begins, every ten minutes while it lasts, and when it is over. Whoever sees a
// condition raises its notice again and again; it is over when it is ended, or when nobody raised
// it for as long as was said. Any thread; a process has at most NOTICES_MAX at a time, further ones
// are only logged.
//
//     notice_raise(n, "node.twin", S("ingester-1"), 60 * NS_PER_S, "%s", why);
//     /ready:   ready
//               node.twin ingester-1: another process ...
#pragma once

#include "base/buf.h"

#define NOTICES_MAX    64
#define NOTICE_FOREVER UINT64_MAX

struct notices;

struct notices *notices_new(void);
void notices_free(struct notices *n);  // NULL is fine

// `event` is a literal, `about` what it is about: together they are the notice; the text may change
// from one raising to the next. n NULL: nothing happens.
void notice_raise(struct notices *n, const char *event, str about, uint64_t for_ns, const char *fmt,
                  ...) PRINTF(5, 6);
void notice_end(struct notices *n, const char *event, str about);

// A line for each, ending in a newline; those that are over are told and go.
void notices_print(struct notices *n, struct buf *out);
