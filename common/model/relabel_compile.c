// SPDX-License-Identifier: Apache-2.0
//
// relabel_compile.c - from configuration to rules. The checks are those of Prometheus, so that a
// file which Prometheus takes is taken here; label names may be any UTF-8.
#include "model/relabel_int.h"

#define DEFAULT_SEPARATOR   ";"
#define DEFAULT_REGEX       "(.*)"
#define DEFAULT_REPLACEMENT "$1"
#define NEEDS_TARGET        1u  // target_label must be given
#define ONLY_REGEX          2u  // nothing else may be given
#define ONLY_EQUAL          4u  // nothing but source_labels and target_label may be
#define FIXED_REPLACEMENT   8u  // replacement may not be given

static const struct {
    str name;
    unsigned rules;
} actions[RELABEL_ACTION_COUNT] = {
    [RELABEL_REPLACE] = {S_INIT("replace"), NEEDS_TARGET},
    [RELABEL_KEEP] = {S_INIT("keep"), 0},
    [RELABEL_DROP] = {S_INIT("drop"), 0},
    [RELABEL_KEEPEQUAL] = {S_INIT("keepequal"), NEEDS_TARGET | ONLY_EQUAL},
    [RELABEL_DROPEQUAL] = {S_INIT("dropequal"), NEEDS_TARGET | ONLY_EQUAL},
    [RELABEL_HASHMOD] = {S_INIT("hashmod"), NEEDS_TARGET},
    [RELABEL_LABELMAP] = {S_INIT("labelmap"), 0},
    [RELABEL_LABELDROP] = {S_INIT("labeldrop"), ONLY_REGEX},
    [RELABEL_LABELKEEP] = {S_INIT("labelkeep"), ONLY_REGEX},
    [RELABEL_LOWERCASE] = {S_INIT("lowercase"), NEEDS_TARGET | FIXED_REPLACEMENT},
    [RELABEL_UPPERCASE] = {S_INIT("uppercase"), NEEDS_TARGET | FIXED_REPLACEMENT},
};

bool relabel_position_parse(str text, enum relabel_position *out, err *e)
{
    static const struct {
        str name;
        enum relabel_position where;
    } names[] = {{S_INIT(""), RELABEL_DEFAULTS_FIRST},
                 {S_INIT("first"), RELABEL_DEFAULTS_FIRST},
                 {S_INIT("last"), RELABEL_DEFAULTS_LAST},
                 {S_INIT("disabled"), RELABEL_DEFAULTS_DISABLED}};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!str_eq(text, names[i].name)) continue;
        *out = names[i].where;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "\"%.*s\" is not first, last or disabled", STR(text));
}

// ---- templates

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads the name behind the '$' at `at`: $name or ${name}. Returns the bytes of the whole
// reference; 0: it is none.
static size_t read_name(str text, size_t at, str *name)
{
    size_t from = at + 1;
    bool braced = from < text.n && text.p[from] == '{';
    from += braced;
    size_t end = from;
    while (end < text.n && is_word(text.p[end])) {
        end++;
    }
    *name = str_slice(text, from, end);
    if (name->n == 0 || (braced && (end == text.n || text.p[end] != '}'))) return 0;
    return end + braced - at;
}

// The group of a name, -1 if there is none. Numbers have no leading zeros.
static int group_of(const struct regex *re, str name)
{
    uint64_t number = 0;
    bool leading = name.n > 1 && name.p[0] == '0';
    int groups = re ? regex_group_count(re) : 1;
    if (!leading && str_u64(name, &number)) return number <= (uint64_t)groups ? (int)number : -1;
    return re ? regex_group_number(re, name) : -1;
}

static bool add_part(struct arena *a, struct relabel_template *t, size_t *cap,
                     struct relabel_part part)
{
    if (part.group == RELABEL_LITERAL && part.text.n == 0) return true;
    if (!arena_grow(a, &t->v, cap, t->n + 1, sizeof *t->v)) return false;
    t->v[t->n++] = part;
    t->most = MAX(t->most, part.group);
    return true;
}

static bool make_template(struct arena *a, const struct regex *re, str text,
                          struct relabel_template *t, err *e)
{
    *t = (struct relabel_template){.most = 0};
    size_t cap = 0;
    size_t from = 0;
    for (size_t i = 0; i < text.n;) {
        str name = {0};
        bool dollar = text.p[i] == '$';
        bool escaped = dollar && i + 1 < text.n && text.p[i + 1] == '$';
        size_t n = dollar && !escaped ? read_name(text, i, &name) : 0;
        if (!escaped && n == 0) {
            i++;
            continue;
        }
        // Of "$$" the first is kept as text.
        struct relabel_part before = {str_slice(text, from, i + escaped), RELABEL_LITERAL};
        i += escaped ? 2 : n;
        from = i;
        int group = escaped ? -1 : group_of(re, name);
        if (!add_part(a, t, &cap, before)) return arena_fail(a, e);
        if (group >= 0 && !add_part(a, t, &cap, (struct relabel_part){{0}, group})) {
            return arena_fail(a, e);
        }
    }
    struct relabel_part rest = {str_slice(text, from, text.n), RELABEL_LITERAL};
    assert(t->most <= (re ? regex_group_count(re) : 1));  // relabel.c takes this many matches
    return add_part(a, t, &cap, rest) || arena_fail(a, e);
}

// ---- rules

static bool action_of(str text, enum relabel_action *out, err *e)
{
    if (!text.p) text = actions[RELABEL_REPLACE].name;
    for (int i = 0; i < RELABEL_ACTION_COUNT; i++) {
        if (!str_ieq(text, actions[i].name)) continue;
        *out = (enum relabel_action)i;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "action: unknown relabel action \"%.*s\"", STR(text));
}

static bool given(str text, const char *usual)
{
    return text.p && !str_is(text, usual);
}

static bool refuse(enum relabel_action action, const char *field, const char *why, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "%s: %.*s %s", field, STR(actions[action].name), why);
}

// Refuses fields that the action does not use: a user who sets one expects an effect.
static bool check_extra(const struct relabel_config *c, enum relabel_action action, err *e)
{
    assert(action < RELABEL_ACTION_COUNT);
    unsigned rules = actions[action].rules;
    const struct {
        const char *field;
        bool there;
        unsigned forbidden;
    } fields[] = {
        {"source_labels", c->source_count > 0, ONLY_REGEX},
        {"target_label", given(c->target_label, ""), ONLY_REGEX},
        {"regex", given(c->regex, DEFAULT_REGEX), ONLY_EQUAL},
        {"modulus", c->has_modulus && c->modulus, ONLY_REGEX | ONLY_EQUAL},
        {"separator", given(c->separator, DEFAULT_SEPARATOR), ONLY_REGEX | ONLY_EQUAL},
        {"replacement", given(c->replacement, DEFAULT_REPLACEMENT),
         ONLY_REGEX | ONLY_EQUAL | FIXED_REPLACEMENT},
    };
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!fields[i].there || !(fields[i].forbidden & rules)) continue;
        return refuse(action, fields[i].field,
                      rules & ONLY_REGEX   ? "requires only 'regex', and no other fields"
                      : rules & ONLY_EQUAL ? "requires only 'source_labels' and 'target_label', "
                                             "and no other fields"
                                           : "takes no replacement",
                      e);
    }
    return true;
}

static bool check(const struct relabel_config *c, enum relabel_action action, err *e)
{
    if (action == RELABEL_HASHMOD && c->modulus == 0) {
        return refuse(action, "modulus", "requires a modulus that is not 0", e);
    }
    if ((actions[action].rules & NEEDS_TARGET) && c->target_label.n == 0) {
        return refuse(action, "target_label", "requires a target label", e);
    }
    if (!str_utf8(c->target_label)) {
        return refuse(action, "target_label", "requires a label name that is UTF-8", e);
    }
    if (action == RELABEL_LABELMAP && c->replacement.p && c->replacement.n == 0) {
        return refuse(action, "replacement", "requires a replacement that is not empty", e);
    }
    if (!str_utf8(c->replacement)) {
        return refuse(action, "replacement", "requires a replacement that is UTF-8", e);
    }
    return check_extra(c, action, e);
}

static void free_regex(void *re)
{
    regex_free(re);
}

static bool compile_regex(struct arena *a, str pattern, struct relabel_rule *r, err *e)
{
    if (!given(pattern, DEFAULT_REGEX)) return true;
    struct regex *re = regex_new(pattern, a->budget, e);
    if (!re) return err_wrap(e, "regex");
    if (!arena_defer(a, free_regex, re)) {
        regex_free(re);
        return arena_fail(a, e);
    }
    r->re = re;
    return true;
}

static bool compile_one(struct arena *a, const struct relabel_config *c, struct relabel_rule *r,
                        err *e)
{
    if (!action_of(c->action, &r->action, e) || !check(c, r->action, e)) return false;
    if (!compile_regex(a, c->regex, r, e)) return false;
    str *sources = ARENA_ARRAY(a, str, c->source_count);
    if (!sources) return arena_fail(a, e);
    for (size_t i = 0; i < c->source_count; i++)
        sources[i] = arena_str(a, c->source_labels[i]);
    r->sources = sources;
    r->source_count = c->source_count;
    r->separator = arena_str(a, c->separator.p ? c->separator : S(DEFAULT_SEPARATOR));
    r->modulus = c->modulus;
    r->target_label = arena_str(a, c->target_label);
    str replacement = arena_str(a, c->replacement.p ? c->replacement : S(DEFAULT_REPLACEMENT));
    return arena_ok(a, e) && make_template(a, r->re, r->target_label, &r->target, e) &&
           make_template(a, r->re, replacement, &r->replacement, e);
}

bool relabel_compile(struct arena *a, const struct relabel_config *rules, size_t n,
                     struct relabel_rules *out, size_t *at, err *e)
{
    *out = (struct relabel_rules){0};
    *at = 0;
    struct relabel_rule *v = ARENA_ARRAY(a, struct relabel_rule, n);
    if (!v) return arena_fail(a, e);
    for (; *at < n; ++*at) {
        if (!compile_one(a, &rules[*at], &v[*at], e)) return false;
    }
    *out = (struct relabel_rules){v, n};
    return true;
}

// ---- the default rules

static const str name_of_profile[] = {S_INIT("__name__")};
static const str name_replaced[] = {S_INIT("__name_replaced__")};
static const str name_and_type[] = {S_INIT("__name__"), S_INIT("__type__")};

#define RULE(from, between, match, to, with)                                                \
    {                                                                                       \
        .source_labels = (from), .source_count = COUNT(from), .separator = S_INIT(between), \
        .regex = S_INIT(match), .target_label = S_INIT(to), .replacement = S_INIT(with),    \
    }
static const struct relabel_config defaults[] = {
    RULE(name_of_profile, ";", "godeltaprof_(.*)", "__name_replaced__", "$0"),
    RULE(name_replaced, ";", "godeltaprof_(.*)", "__delta__", "false"),
    RULE(name_of_profile, ";", "godeltaprof_(.*)", "__name__", "$1"),
    RULE(name_and_type, "/", "wall/cpu", "__name_replaced__", "wall"),
    RULE(name_and_type, "/", "wall/cpu", "__name__", "process_cpu"),
};
#undef RULE

bool relabel_with_defaults(struct arena *a, const struct relabel_rules *rules,
                           enum relabel_position where, struct relabel_rules *out, err *e)
{
    *out = *rules;
    if (where == RELABEL_DEFAULTS_DISABLED) return true;
    struct relabel_rules own = {0};
    size_t at = 0;
    if (!relabel_compile(a, defaults, COUNT(defaults), &own, &at, e)) return false;
    struct relabel_rules parts[2] = {own, *rules};
    if (where == RELABEL_DEFAULTS_LAST) {
        parts[0] = *rules;
        parts[1] = own;
    }
    struct relabel_rule *v = ARENA_ARRAY(a, struct relabel_rule, own.n + rules->n);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (size_t i = 0; i < COUNT(parts); i++) {
        for (size_t k = 0; k < parts[i].n; k++)
            v[n++] = parts[i].v[k];
    }
    assert(n == own.n + rules->n);
    *out = (struct relabel_rules){v, n};
    return true;
}

bool relabel_only_filters(const struct relabel_rules *rules, size_t *at)
{
    for (*at = 0; *at < rules->n; ++*at) {
        enum relabel_action action = rules->v[*at].action;
        if (action != RELABEL_KEEP && action != RELABEL_DROP) return false;
    }
    return true;
}
