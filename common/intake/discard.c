// SPDX-License-Identifier: Apache-2.0
//
// discard.c - the names of the reasons.
#include "intake/discard.h"

static const char *const names[] = {
#define X(id, name, text) name,
    DISCARD_REASONS(X)
#undef X
};

static const char *const texts[] = {
#define X(id, name, text) text,
    DISCARD_REASONS(X)
#undef X
};

const char *discard_name(enum discard_reason reason)
{
    assert(reason < DISCARD_REASON_COUNT);
    return names[reason];
}

const char *discard_text(enum discard_reason reason)
{
    assert(reason < DISCARD_REASON_COUNT);
    return texts[reason];
}
