// SPDX-License-Identifier: Apache-2.0
//
// html.h - the look of the pages for operators, and text in them. Pure.
#pragma once

#include "base/buf.h"

// The value of content-security-policy for such a page: nothing but its own style.
#define HTML_POLICY                                                           \
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; " \
    "base-uri 'none'"

#define HTML_TIME 32

// Everything up to the body, and a heading. The page may use the classes "n" (a number), "ill" and
// "well". title: no user's text.
void html_begin(struct buf *out, const char *title);

void html_text(struct buf *out, str s);      // with escapes
void html_age(struct buf *out, int64_t ns);  // "3 h 5 min"

// A time in UTC as 2026-01-31T12:00:00Z; empty if it is none.
const char *html_time(char text[HTML_TIME], int64_t wall_ns);
