// SPDX-License-Identifier: Apache-2.0
//
// tenant_rules.c - sample types that rules drop, and sessions modulo their limit.
#include "intake/tenant_rules.h"

#include "base/ulid.h"

#define SESSION_LABEL "__session_id__"
#define SESSION_BYTES 8

// ---- sample types

static size_t put_sorted(label *v, size_t n, str name, str value)
{
    size_t at = 0;
    while (at < n && str_cmp(v[at].name, name) < 0) {
        at++;
    }
    size_t end = at;
    while (end < n && str_eq(v[end].name, name)) {
        end++;
    }
    // A client may have sent the name several times; all of them go.
    size_t wanted = value.n > 0;
    memmove(v + at + wanted, v + end, (n - end) * sizeof *v);
    if (wanted) v[at] = (label){name, value};
    return n - (end - at) + wanted;
}

static bool keeps(struct arena *a, const struct relabel_rules *rules, labels ls,
                  const struct profile_type *type, bool *keep, err *e)
{
    assert(rules);
    label *v = ARENA_ARRAY(a, label, ls.n + 2);
    if (!v) return arena_fail(a, e);
    if (ls.n) memcpy(v, ls.v, ls.n * sizeof *v);
    size_t n = put_sorted(v, ls.n, S("__type__"), type->type);
    n = put_sorted(v, n, S("__unit__"), type->unit);
    labels out;
    return relabel_run(a, rules, (labels){v, n}, &out, keep, e);
}

static void keep_columns(struct profile *p, const bool *keep, uint32_t kept)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (keep[i]) p->types[n++] = p->types[i];
    }
    // In place: `to` never overtakes `from`.
    assert(kept <= p->type_count);
    int64_t *to = p->values;
    const int64_t *from = p->values;
    for (uint32_t row = 0; row < p->sample_count; row++) {
        for (uint32_t i = 0; i < p->type_count; i++, from++) {
            if (keep[i]) *to++ = *from;
        }
    }
    assert(n == kept);
    p->type_count = kept;
}

bool tenant_rules_sample_types(struct arena *a, const struct relabel_rules *rules, labels ls,
                               struct profile *p, err *e)
{
    if (!rules || rules->n == 0) return true;
    bool *keep = ARENA_ARRAY(a, bool, p->type_count);
    if (!keep) return arena_fail(a, e);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (!keeps(a, rules, ls, &p->types[i], &keep[i], e)) return false;
        kept += keep[i];
    }
    if (kept < p->type_count) keep_columns(p, keep, kept);
    return true;
}

// ---- sessions

static str reduced(struct arena *a, str id, uint64_t most)
{
    uint8_t bytes[SESSION_BYTES];
    if (most == 0 || !hex_parse(id, bytes, sizeof bytes)) return (str){0};
    // Little-endian, as Pyroscope's agents write a session (tenant_rules.h).
    uint64_t number = 0;
    for (size_t i = SESSION_BYTES; i-- > 0;)
        number = number << 8 | bytes[i];
    number %= most;
    for (size_t i = 0; i < SESSION_BYTES; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    char text[2 * SESSION_BYTES + 1];
    hex_print(bytes, sizeof bytes, text);
    return arena_str(a, str_of(text));
}

bool tenant_rules_session(struct arena *a, labels *ls, int64_t most)
{
    if (!labels_has(*ls, S(SESSION_LABEL))) return true;
    label *v = ARENA_ARRAY(a, label, ls->n);
    if (!v) return false;
    size_t n = 0;
    for (size_t i = 0; i < ls->n; i++) {
        label one = ls->v[i];
        bool session = str_is(one.name, SESSION_LABEL);
        if (session) one.value = reduced(a, one.value, (uint64_t)MAX(most, 0));
        if (!session || one.value.n) v[n++] = one;
    }
    *ls = (labels){v, n};
    return !a->exhausted;
}
