// SPDX-License-Identifier: Apache-2.0
//
// One section by itself: read from a map, or printed.
#include "service/config_int.h"
#include "sys/log.h"

#include <stdatomic.h>

// Of all sections together; there are some forty such keys.
#define SAID_MAX 256

static _Atomic(const char *) said[SAID_MAX];

// True the first time. Names are literals of rows, so that the pointer is the key.
static bool say_once(const char *name)
{
    for (size_t i = 0; i < SAID_MAX; i++) {
        const char *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&said[i], &there, name, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        if (there == name) return false;
    }
    return false;
}

bool config_without_effect(const struct config_section *s, str key, const char *where)
{
    for (const struct config_ignored *i = s->without_effect; i && i->key; i++) {
        if (!str_is(key, i->key)) continue;
        if (!say_once(i->key)) return true;
        // A person who set a key with a counterpart relies on it.
        if (i->instead) {
            log_warn(NULL, "config.without_effect", "key=%s.%s at=%s instead=\"%s\"", s->name,
                     i->key, where, i->instead);
        } else {
            log_info(NULL, "config.without_effect", "key=%s.%s at=%s", s->name, i->key, where);
        }
        return true;
    }
    return false;
}

bool config_defaults(const struct config_section *s, void *to, struct arena *a, err *e)
{
    for (size_t i = 0; i < s->row_count; i++) {
        const struct config_row *row = &s->rows[i];
        assert(row->offset + config_value_size(row->type) <= s->size);
        struct config_text t = {.text = str_of(row->fallback), .where = "default"};
        if (!config_value_parse(row, &t, (char *)to + row->offset, a, e))
            return err_wrap(e, "default of %s", row->key);
    }
    return true;
}

static bool read_key(const struct config_section *s, const struct yaml_node *t, void *to,
                     bool *seen, struct arena *a, err *e)
{
    struct config_text text;
    if (!config_text_of(t, a, &text, e)) return false;
    if (config_without_effect(s, t->key, text.where)) return true;
    size_t i = 0;
    while (i < s->row_count && !str_is(t->key, s->rows[i].key))
        i++;
    if (i == s->row_count) return yaml_node_fail(t, e, "unknown key");
    if (seen[i]) return yaml_node_fail(t, e, "given twice");
    seen[i] = true;
    if (t->kind == YAML_NODE_NULL) return yaml_node_fail(t, e, "no value");
    assert(s->rows[i].offset + config_value_size(s->rows[i].type) <= s->size);
    err why = {0};
    if (config_value_parse(&s->rows[i], &text, (char *)to + s->rows[i].offset, a, &why))
        return true;
    if (why.code != ERR_INVALID_ARGUMENT) {
        *e = why;
        return false;
    }
    return yaml_node_fail(t, e, "%s", why.msg);
}

bool config_read(const struct config_section *s, const struct yaml_node *map, void *to,
                 struct arena *a, err *e)
{
    assert(map && s->row_count > 0);
    if (map->kind != YAML_NODE_MAP && map->kind != YAML_NODE_NULL)
        return yaml_node_fail(map, e, "expected key: value lines");
    bool *seen = ARENA_ARRAY(a, bool, s->row_count);
    if (!seen) return arena_fail(a, e);
    for (const struct yaml_node *t = map->first; t; t = t->next) {
        if (!read_key(s, t, to, seen, a, e)) return false;
    }
    return (!s->finish || s->finish(to, a, e)) && arena_ok(a, e);
}

void config_print_section(const struct config_section *s, const void *of, const void *than,
                          const char *indent, struct buf *out)
{
    for (size_t i = 0; i < s->row_count; i++) {
        const struct config_row *row = &s->rows[i];
        const char *v = (const char *)of + row->offset;
        if (than && config_value_eq(row, v, (const char *)than + row->offset)) continue;
        buf_printf(out, "%s%s: ", indent, row->key);
        if (config_row_is_secret(row))
            buf_z(out, "\"<hidden>\"");
        else
            config_value_print(row, v, out);
        buf_byte(out, '\n');
    }
}
