// SPDX-License-Identifier: Apache-2.0
//
// The file of settings: sections, each a map of keys.
#include "service/config_int.h"

static bool is_plain_list(const struct doc *t)
{
    for (const struct doc *item = t->first; item; item = item->next) {
        if (item->kind != DOC_SCALAR && item->kind != DOC_NULL) return false;
    }
    return true;
}

bool config_text_of(const struct doc *t, struct arena *a, struct config_text *text, err *e)
{
    *text = (struct config_text){.doc = t, .text = t->text};
    text->where = arena_printf(a, "%s:%u", t->file, t->line).p;
    text->is_sequence = t->kind == DOC_LIST;
    if (t->kind == DOC_LIST && is_plain_list(t)) {
        str *items = ARENA_ARRAY(a, str, t->count);
        size_t n = 0;
        for (const struct doc *item = t->first; items && item; item = item->next)
            items[n++] = item->text;
        text->items = items;
        text->item_count = n;
    }
    return arena_ok(a, e);
}

static bool tell_section(const struct doc *section, struct arena *a, config_yaml_fn *fn, void *ctx,
                         err *e)
{
    struct config_text text = {.where = arena_printf(a, "%s:%u", section->file, section->line).p};
    if (!arena_ok(a, e) || !fn(ctx, section->key, (str){0}, &text, e)) return false;
    if (section->kind == DOC_NULL) return true;  // "server:" with nothing below it
    if (section->kind != DOC_MAP)
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: section %.*s must hold key: value lines",
                       text.where, STR(section->key));
    for (const struct doc *t = section->first; t; t = t->next) {
        if (!config_text_of(t, a, &text, e)) return false;
        if (t->kind == DOC_NULL)
            return err_set(e, ERR_INVALID_ARGUMENT, "%s: %.*s.%.*s has no value", text.where,
                           STR(section->key), STR(t->key));
        if (!fn(ctx, section->key, t->key, &text, e)) return false;
    }
    return true;
}

bool config_yaml_read(str yaml, const char *file, struct arena *a, config_yaml_fn *fn, void *ctx,
                      err *e)
{
    struct doc *root = NULL;
    if (!doc_has_text(yaml, file, e) || !doc_parse(yaml, file, a, &root, e)) return false;
    if (root->kind != DOC_MAP && root->kind != DOC_NULL)
        return doc_fail(root, e, "expected sections");
    for (const struct doc *section = root->first; section; section = section->next) {
        if (!tell_section(section, a, fn, ctx, e)) return false;
    }
    return arena_ok(a, e);
}
