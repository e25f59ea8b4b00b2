// SPDX-License-Identifier: Apache-2.0
//
// recording.h - what tests of decode_jfr do with a recording that lib/jfr.h wrote.
#pragma once

#include "decode/jfr.h"
#include "lib/jfr.h"

// "process_cpu cpu\nApp.main:3;App.work:7 {key=text} = 5\n", frames root first, for all profiles.
void recording_print(const struct jfr_recording *r, struct buf *out);

// Does it in both encodings.
void recording_in_both(void (*check)(struct jw *w));

// Decodes bytes that end at an unreadable page. The caller releases the arena.
void recording_decode(const struct jw *w, const struct decode_options *o, struct arena *a,
                      struct jfr_recording *r);

// Asserts what is printed of it, and how often one loss was counted.
void recording_expect(const struct jw *w, const struct decode_options *o, const char *want,
                      enum loss why, uint64_t n);
