// SPDX-License-Identifier: Apache-2.0
//
// shown.c - how much of a tree is shown, and how much agents had cut off before it came here.
#include "querier/answer/shown.h"

#include "model/marks.h"
#include "model/vector.h"
#include "querier/answer/settle.h"

#define SHARE_WHOLE 10000

// Never the whole if there is something else.
static uint32_t share_of(const struct tree_shown *s)
{
    if (s->hidden == 0) return SHARE_WHOLE;
    if (s->total == 0) return 0;
    double share = (1 - s->hidden / s->total) * SHARE_WHOLE;
    if (share <= 0) return 0;
    return share >= SHARE_WHOLE - 1 ? SHARE_WHOLE - 1 : (uint32_t)share;
}

bool shown_frames(struct answer *a, const struct tree_shown *shown, err *e)
{
    assert(shown->sent <= shown->all);
    a->shown.known = true;
    a->shown.sent = shown->sent;
    a->shown.all = shown->all;
    a->shown.share = share_of(shown);
    return !shown->clipped || settle_mark_frames(a, e);
}

bool shown_tree(struct answer *a, const struct tree *whole, const struct tree *truncated, err *e)
{
    assert(whole->count > 0 && truncated->removed < whole->count);
    uint32_t frames = whole->count - 1;
    const struct tree_shown shown = {.sent = frames - truncated->removed,
                                     .all = frames,
                                     .total = (double)whole->nodes[0].total,
                                     .hidden = truncated->hidden,
                                     .clipped = truncated->clipped};
    return shown_frames(a, &shown, e);
}

static bool is_mark(str name)
{
    return str_is(name, STACK_CUT_NAME) || str_is(name, STACK_MANY_NAME);
}

void shown_cut(struct answer *a, const struct tree *whole)
{
    int64_t sum = a->shown.cut;
    for (uint32_t i = 1; i < whole->count; i++) {
        // Marks have no frames below them. A sum that does not fit stays what it was.
        if (is_mark(whole->nodes[i].name) && !sum_add(&sum, whole->nodes[i].self)) return;
    }
    a->shown.cut = sum;
}

bool shown_whole(const struct answer *a)
{
    return a->shown.sent == a->shown.all;
}

str shown_frames_text(struct answer *a)
{
    const struct answer_shown *s = &a->shown;
    if (!s->known) return (str){0};
    return arena_printf(a->arena, "sent=%u; all=%u; share=%u.%04u", s->sent, s->all,
                        s->share / SHARE_WHOLE, s->share % SHARE_WHOLE);
}

str shown_cut_text(struct answer *a)
{
    if (a->shown.cut == 0) return (str){0};
    return arena_printf(a->arena, "%lld", (long long)a->shown.cut);
}
