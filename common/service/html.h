// SPDX-License-Identifier: Apache-2.0
//
// html.h - the look of the pages for operators, and text in them. Pure.
#pragma once

#include "base/buf.h"

// The value of content-security-policy for such a page: nothing but its own style.
#define HTML_POLICY                                                           \
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; " \
    "base-uri 'none'"

// Everything up to the body, and a heading. The page may use the classes "n" (a number), "ill" and
// "well". title: no user's text.
void html_begin(struct buf *out, const char *title);

void html_text(struct buf *out, str s);      // with escapes
void html_age(struct buf *out, int64_t ns);  // "3 h 5 min"
