// SPDX-License-Identifier: Apache-2.0
//
// limits_relabel.c - relabelling rules of a tenant's limits: from YAML to model/relabel.h, with the
// place in the file in each error.
#include "model/relabel.h"
#include "service/limits_int.h"

static bool read_sources(const struct yaml_node *t, struct relabel_config *c, struct arena *a,
                         err *e)
{
    if (t->kind != YAML_NODE_LIST && t->kind != YAML_NODE_NULL) {
        return yaml_node_fail(t, e, "must be a list of label names");
    }
    if (c->source_count) return yaml_node_fail(t, e, "given twice");
    str *names = ARENA_ARRAY(a, str, t->count);
    if (!names) return arena_fail(a, e);
    for (const struct yaml_node *one = t->first; one; one = one->next) {
        if (one->kind != YAML_NODE_SCALAR || one->text.n == 0) {
            return yaml_node_fail(one, e, "must be a label name");
        }
        names[c->source_count++] = one->text;
    }
    c->source_labels = names;
    return true;
}

static bool read_field(const struct yaml_node *t, struct relabel_config *c, struct arena *a, err *e)
{
    const struct {
        const char *key;
        str *text;
    } texts[] = {
        {"action", &c->action},
        {"separator", &c->separator},
        {"regex", &c->regex},
        {"target_label", &c->target_label},
        {"replacement", &c->replacement},
    };
    if (str_is(t->key, "source_labels")) return read_sources(t, c, a, e);
    if (str_is(t->key, "modulus")) {
        if (c->has_modulus) return yaml_node_fail(t, e, "given twice");
        c->has_modulus = true;
        if (t->kind == YAML_NODE_SCALAR && str_u64(t->text, &c->modulus)) return true;
        return yaml_node_fail(t, e, "must be a whole number that is not negative");
    }
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (!str_is(t->key, texts[i].key)) continue;
        if (t->kind != YAML_NODE_SCALAR) return yaml_node_fail(t, e, "must be a text");
        if (texts[i].text->p) return yaml_node_fail(t, e, "given twice");
        *texts[i].text = t->text.p ? t->text : S("");
        return true;
    }
    return yaml_node_fail(t, e, "unknown key");
}

static const struct yaml_node *item(const struct yaml_node *list, size_t at)
{
    const struct yaml_node *t = list->first;
    while (t && at-- > 0) {
        t = t->next;
    }
    assert(t);  // the compiler of rules names a rule of this list
    return t;
}

static bool read_rules(const struct yaml_node *list, struct arena *a, struct relabel_rules *out,
                       err *e)
{
    *out = (struct relabel_rules){0};
    if (!list || list->kind == YAML_NODE_NULL) return true;
    if (list->kind != YAML_NODE_LIST) return yaml_node_fail(list, e, "must be a list of rules");
    struct relabel_config *v = ARENA_ARRAY(a, struct relabel_config, list->count);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (const struct yaml_node *one = list->first; one; one = one->next, n++) {
        if (one->kind != YAML_NODE_MAP)
            return yaml_node_fail(one, e, "must be a rule: {action: ..., ...}");
        for (const struct yaml_node *field = one->first; field; field = field->next) {
            if (!read_field(field, &v[n], a, e)) return false;
        }
    }
    assert(n == list->count);
    size_t at = 0;
    err why = {0};
    if (relabel_compile(a, v, n, out, &at, &why)) return true;
    assert(at < n || why.code != ERR_INVALID_ARGUMENT);
    if (why.code == ERR_INVALID_ARGUMENT) return yaml_node_fail(item(list, at), e, "%s", why.msg);
    *e = why;
    return false;
}

struct relabelling {
    const struct yaml_node *rules;
    const struct yaml_node *types;
    const char *position;
};

// Are the compiled rules that l has, copied from the defaults, those of its settings? Compiling is
// most of what a tenant's overrides cost, and few have rules of their own.
static bool is_made(const struct limits *l)
{
    const struct relabelling *made = l->relabelling;
    return made && made->rules == l->ingestion_relabeling_rules &&
           made->types == l->sample_type_relabeling_rules &&
           strcmp(made->position, l->ingestion_relabeling_default_rules_position) == 0;
}

bool limits_relabel(struct limits *l, struct arena *a, err *e)
{
    enum relabel_position where = RELABEL_DEFAULTS_FIRST;
    size_t at = 0;
    if (is_made(l)) return true;
    if (!relabel_position_parse(str_of(l->ingestion_relabeling_default_rules_position), &where,
                                e)) {
        return err_wrap(e, "ingestion_relabeling_default_rules_position");
    }
    struct relabel_rules *v = ARENA_ARRAY(a, struct relabel_rules, 2);
    struct relabelling *made = ARENA_NEW(a, struct relabelling);
    if (!v || !made) return arena_fail(a, e);
    if (!read_rules(l->ingestion_relabeling_rules, a, &v[0], e) ||
        !relabel_with_defaults(a, &v[0], where, &v[0], e) ||
        !read_rules(l->sample_type_relabeling_rules, a, &v[1], e)) {
        return false;
    }
    l->relabel = &v[0];
    l->relabel_types = &v[1];
    *made = (struct relabelling){l->ingestion_relabeling_rules, l->sample_type_relabeling_rules,
                                 l->ingestion_relabeling_default_rules_position};
    l->relabelling = made;
    if (relabel_only_filters(&v[1], &at)) return true;
    return yaml_node_fail(item(l->sample_type_relabeling_rules, at), e,
                          "action: sample types can only be dropped or kept (drop, keep)");
}
