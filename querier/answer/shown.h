// SPDX-License-Identifier: Apache-2.0
//
// shown.h - response headers that say how much of its tree an answer shows.
//
//     Flametree-Frames: sent=16384; all=215003; share=0.5436
//         frames in the answer and in the whole tree, without the root and the frames "other" that
//         truncation makes; and the share of the total that is not in "other", rounded down. Of a
//         call graph functions, and of a pprof only if max_nodes was asked for
//     Flametree-Cut: 1200
//         value in frames that end a stack which was cut when it was pushed (model/marks.h), of
//         both sides of a diff; only if there is any
#pragma once

#include "model/flamegraph.h"
#include "querier/answer/answer.h"

// Note how much of a tree the answer shows. Of a diff shown_frames is called once for both sides.
// Sums among it that do not fit are marked (settle.h), which fails if the asker takes no such
// answer.
bool shown_frames(struct answer *a, const struct tree_shown *shown, err *e) MUST_CHECK;
bool shown_tree(struct answer *a, const struct tree *whole, const struct tree *truncated,
                err *e) MUST_CHECK;

// Adds the marked frames of a tree that is not truncated.
void shown_cut(struct answer *a, const struct tree *whole);

// False if truncation took frames out.
bool shown_whole(const struct answer *a);

// Values of the headers, the arena's; empty if there is none.
str shown_frames_text(struct answer *a);
str shown_cut_text(struct answer *a);
