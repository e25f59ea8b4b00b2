// SPDX-License-Identifier: Apache-2.0
//
// notice.h - conditions that the operator must know of although traffic goes on.
//
// A notice is a line of /ready (which answers 200 all the same), a row of flametree_notices, and a
// line of the log when it begins, every ten minutes while it lasts, and when it is over. Code that
// sees a condition raises its notice again and again. It is over when notice_end is called, or when
// it was not raised for the time given (for_ns). Any thread. A process has at most NOTICES_MAX at a
// time; further ones are only logged.
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

// `event` (a literal) and `about` (the thing concerned) identify the notice; the text may change
// each time. n NULL: nothing happens.
void notice_raise(struct notices *n, const char *event, str about, uint64_t for_ns, const char *fmt,
                  ...) PRINTF(5, 6);
void notice_end(struct notices *n, const char *event, str about);

// Appends a line for each notice. Notices whose time is over are logged and removed first.
void notices_print(struct notices *n, struct buf *out);
