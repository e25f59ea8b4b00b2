// SPDX-License-Identifier: Apache-2.0
//
// shown.h - how much of its tree an answer shows, as headers.
//
//     Flametree-Frames: sent=16384; all=215003; share=0.5436
//         frames in the answer and in the whole tree, without the root and the frames "other" of
//         truncation; and the part of the total that does not lie in those, rounded down
//     Flametree-Cut: 1200
//         value in frames that end a stack which was cut when it was pushed (model/marks.h), of
//         both sides of a diff; only if there is any
#pragma once

#include "model/flamegraph.h"
#include "querier/answer/answer.h"

// Of an answer that is a tree; of a diff once for both sides.
void shown_frames(struct answer *a, const struct tree_shown *shown);
void shown_tree(struct answer *a, const struct tree *whole, const struct tree *truncated);

// Adds the marked frames of a tree that is not truncated.
void shown_cut(struct answer *a, const struct tree *whole);

// False if truncation took frames out.
bool shown_whole(const struct answer *a);

// Values of the headers, the arena's; empty if there is none.
str shown_frames_text(struct answer *a);
str shown_cut_text(struct answer *a);
