// SPDX-License-Identifier: Apache-2.0
//
// Is a change as it should be, whatever the newest version says?
#include "manifest/manifest_int.h"

static bool check_add(const struct manifest_change *c, size_t i, err *e)
{
    const struct manifest_block *b = &c->add[i];
    char id[ULID_TEXT];
    ulid_print(b->id, id);
    if (!manifest_block_check(b, e)) {
        e->code = ERR_INVALID_ARGUMENT;
        return err_wrap(e, "block %s", id);
    }
    for (size_t k = 0; k < i; k++) {
        const struct manifest_block *o = &c->add[k];
        if (id128_eq(o->id, b->id))
            return err_set(e, ERR_INVALID_ARGUMENT, "block %s is added twice", id);
    }
    return true;
}

static bool check_shared(const struct manifest_change *c, err *e)
{
    for (size_t i = 0; i < c->add_count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct manifest_block *a = &c->add[i];
            const struct manifest_block *b = &c->add[k];
            struct segment_name which;
            if (!manifest_blocks_meet(a, b) ||
                !segment_runs_share(a->sources, a->source_count, b->sources, b->source_count,
                                    &which))
                continue;
            char text[SEGMENT_TEXT];
            segment_name_print(&which, text);
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "segment %s is a source of two leaves whose packs overlap", text);
        }
    }
    return true;
}

bool manifest_change_check(const struct manifest_change *c, err *e)
{
    for (size_t i = 0; i < c->add_count; i++)
        if (!check_add(c, i, e)) return false;
    return check_shared(c, e);
}
