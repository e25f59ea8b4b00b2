// SPDX-License-Identifier: Apache-2.0
//
// The file of settings: sections, each a map of keys.
#include "service/config_int.h"

static bool is_plain_list(const struct yaml_node *t)
{
    for (const struct yaml_node *item = t->first; item; item = item->next) {
        if (item->kind != YAML_NODE_SCALAR && item->kind != YAML_NODE_NULL) return false;
    }
    return true;
}

bool config_text_of(const struct yaml_node *t, struct arena *a, struct config_text *text, err *e)
{
    assert(t->file);
    *text = (struct config_text){.node = t, .text = t->text};
    text->where = arena_printf(a, "%s:%u", t->file, t->line).p;
    text->is_sequence = t->kind == YAML_NODE_LIST;
    if (t->kind == YAML_NODE_LIST && is_plain_list(t)) {
        str *items = ARENA_ARRAY(a, str, t->count);
        size_t n = 0;
        for (const struct yaml_node *item = t->first; items && item; item = item->next)
            items[n++] = item->text;
        text->items = items;
        text->item_count = n;
    }
    return arena_ok(a, e);
}

static bool tell_section(const struct yaml_node *section, struct arena *a, config_yaml_fn *fn,
                         void *ctx, err *e)
{
    struct config_text text = {.where = arena_printf(a, "%s:%u", section->file, section->line).p};
    if (!arena_ok(a, e) || !fn(ctx, section->key, (str){0}, &text, e)) return false;
    // The section by itself is told first, so that a repeated one is seen even if it is empty.
    if (section->kind == YAML_NODE_NULL) return true;  // "server:" with nothing below it
    if (section->kind != YAML_NODE_MAP)
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: section %.*s must hold key: value lines",
                       text.where, STR(section->key));
    for (const struct yaml_node *t = section->first; t; t = t->next) {
        if (!config_text_of(t, a, &text, e)) return false;
        if (t->kind == YAML_NODE_NULL)
            return err_set(e, ERR_INVALID_ARGUMENT, "%s: %.*s.%.*s has no value", text.where,
                           STR(section->key), STR(t->key));
        if (!fn(ctx, section->key, t->key, &text, e)) return false;
    }
    return true;
}

bool config_yaml_read(str yaml, const char *file, struct arena *a, config_yaml_fn *fn, void *ctx,
                      err *e)
{
    struct yaml_node *root = NULL;
    if (!yaml_node_parse_file(yaml, file, a, &root, e)) return false;
    if (root->kind != YAML_NODE_MAP && root->kind != YAML_NODE_NULL)
        return yaml_node_fail(root, e, "expected sections");
    for (const struct yaml_node *section = root->first; section; section = section->next) {
        if (!tell_section(section, a, fn, ctx, e)) return false;
    }
    return arena_ok(a, e);
}
