// SPDX-License-Identifier: Apache-2.0
//
// losses.c - the names of the reasons.
#include "model/losses.h"

struct loss_row {
    const char *name;
    const char *text;
    bool stored;
};

static const struct loss_row rows[] = {
#define X(id, name, stored, text) {name, text, stored},
    LOSSES(X)
#undef X
};

static const struct loss_row *loss_row_of(enum loss why)
{
    assert(why < LOSS_COUNT);
    return &rows[why];
}

const char *loss_name(enum loss why)
{
    return loss_row_of(why)->name;
}

const char *loss_text(enum loss why)
{
    return loss_row_of(why)->text;
}

bool loss_is_stored(enum loss why)
{
    return loss_row_of(why)->stored;
}

bool losses_any(const struct losses *l)
{
    for (size_t i = 0; i < LOSS_COUNT; i++) {
        if (l->count[i]) return true;
    }
    return false;
}

void losses_merge(struct losses *to, const struct losses *from)
{
    for (size_t i = 0; i < LOSS_COUNT; i++)
        to->count[i] += from->count[i];
}
