// SPDX-License-Identifier: Apache-2.0
//
// relabel.c - runs compiled rules over a label set.
#include "model/relabel_int.h"

#include <stdio.h>

#include <openssl/evp.h>

#define MD5_BYTES 16

// The set that rules work on: the caller's until a rule changes it, then a copy in the arena with
// room for one more label.
struct work {
    struct arena *a;
    labels now;
    label *own;
    size_t cap;
    size_t made;    // bytes of text that rules made
    size_t beyond;  // bytes of a text that exceeded a limit and was not made
    size_t limit;   // that limit
};

// Whether a text of so many bytes may be made. Without this limit a chain of rules, each of which
// repeats a value a few times, could fill a request's memory from one short label.
static bool may_make(struct work *w, size_t bytes)
{
    bool fits = bytes <= RELABEL_TEXT_MAX;
    if (fits && bytes <= RELABEL_ALL_MAX - w->made) {
        w->made += bytes;
        return true;
    }
    w->limit = fits ? RELABEL_ALL_MAX : RELABEL_TEXT_MAX;
    w->beyond = fits ? w->made + bytes : bytes;
    return false;
}

static bool make_own(struct work *w, size_t room)
{
    if (w->own && w->cap >= room) return true;
    label *v = ARENA_ARRAY(w->a, label, room + room / 2);
    if (!v) return false;
    if (w->now.n) memcpy(v, w->now.v, w->now.n * sizeof *v);
    w->own = v;
    w->cap = room + room / 2;
    w->now.v = v;
    return true;
}

// Replaces all labels of this name by one with this value, or by none if that is empty.
static void set(struct work *w, str name, str value)
{
    size_t at = labels_place(w->now, name);
    size_t end = at;
    while (end < w->now.n && str_eq(w->now.v[end].name, name)) {
        end++;
    }
    size_t wanted = value.n > 0;
    if (end == at && wanted == 0) return;
    if (!make_own(w, w->now.n + 1)) return;
    assert(end <= w->now.n && w->cap > w->now.n);
    memmove(w->own + at + wanted, w->own + end, (w->now.n - end) * sizeof *w->own);
    if (wanted) w->own[at] = (label){name, value};
    w->now.n = w->now.n - (end - at) + wanted;
}

// ---- values

static str joined(struct work *w, const struct relabel_rule *r)
{
    if (r->source_count == 0) return S("");
    if (r->source_count == 1) return labels_get(w->now, r->sources[0]);
    size_t bytes = (r->source_count - 1) * r->separator.n;
    for (size_t i = 0; i < r->source_count; i++)
        bytes += labels_get(w->now, r->sources[i]).n;
    char *text = may_make(w, bytes) ? arena_new(w->a, bytes) : NULL;
    if (!text) return S("");
    size_t n = 0;
    for (size_t i = 0; i < r->source_count; i++) {
        str parts[2] = {i > 0 ? r->separator : S(""), labels_get(w->now, r->sources[i])};
        for (size_t k = 0; k < COUNT(parts); k++) {
            if (parts[k].n) memcpy(text + n, parts[k].p, parts[k].n);
            n += parts[k].n;
        }
    }
    return (str){text, n};
}

// Without memory the arena is marked as exhausted, which the run finds at its end.
static bool is_match(struct work *w, enum regex_answer answer)
{
    if (answer == REGEX_NO_MEMORY) w->a->exhausted = w->a->starved = true;
    return answer == REGEX_YES;
}

static bool matches(struct work *w, const struct relabel_rule *r, str value)
{
    return !r->re || is_match(w, regex_match(r->re, value));
}

// The groups 0..most of a match; false if there is none or memory is out.
static bool match_groups(struct work *w, const struct relabel_rule *r, str value, str **groups)
{
    size_t most = (size_t)MAX(r->target.most, r->replacement.most);
    str *v = ARENA_ARRAY(w->a, str, most + 1);
    if (!v) return false;
    v[0] = value;
    *groups = v;
    if (r->re) return is_match(w, regex_groups(r->re, value, v + 1, most));
    if (most > 0) v[1] = value;
    return true;
}

static str expand(struct work *w, const struct relabel_template *t, const str *groups)
{
    if (t->n == 0) return S("");
    if (t->n == 1) return t->v[0].group == RELABEL_LITERAL ? t->v[0].text : groups[t->v[0].group];
    size_t bytes = 0;
    for (size_t i = 0; i < t->n; i++)
        bytes += t->v[i].group == RELABEL_LITERAL ? t->v[i].text.n : groups[t->v[i].group].n;
    char *text = may_make(w, bytes) ? arena_new(w->a, bytes) : NULL;
    if (!text) return S("");
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        str part = t->v[i].group == RELABEL_LITERAL ? t->v[i].text : groups[t->v[i].group];
        if (part.n) memcpy(text + n, part.p, part.n);
        n += part.n;
    }
    return (str){text, n};
}

// ---- actions

static void replace(struct work *w, const struct relabel_rule *r, str value)
{
    str *groups = NULL;
    if (!match_groups(w, r, value, &groups)) return;
    str target = expand(w, &r->target, groups);
    // As in Prometheus, a target that is no valid name makes the rule do nothing.
    if (target.n == 0 || !str_utf8(target)) return;
    set(w, target, expand(w, &r->replacement, groups));
}

static bool hashmod(struct work *w, const struct relabel_rule *r, str value, err *e)
{
    unsigned char sum[MD5_BYTES];
    if (EVP_Digest(value.n ? value.p : "", value.n, sum, NULL, EVP_md5(), NULL) != 1) {
        return err_set(e, ERR_INTERNAL, "hashmod: the cryptographic library has no MD5");
    }
    uint64_t hash = 0;
    for (size_t i = MD5_BYTES - 8; i < MD5_BYTES; i++)
        hash = hash << 8 | sum[i];
    set(w, r->target_label, arena_printf(w->a, "%llu", (unsigned long long)(hash % r->modulus)));
    return true;
}

static void keep_names(struct work *w, const struct relabel_rule *r, bool wanted)
{
    size_t first = 0;
    while (first < w->now.n && matches(w, r, w->now.v[first].name) == wanted) {
        first++;
    }
    if (first == w->now.n || !make_own(w, w->now.n + 1)) return;
    size_t n = first;
    for (size_t i = first + 1; i < w->now.n; i++) {
        if (matches(w, r, w->own[i].name) == wanted) w->own[n++] = w->own[i];
    }
    w->now.n = n;
}

// Merges two sorted sets; of names that both have, those of `over` count.
static void overlay(struct work *w, labels over)
{
    labels base = w->now;
    label *v = ARENA_ARRAY(w->a, label, base.n + over.n + 1);
    if (!v) return;
    size_t n = 0;
    size_t k = 0;
    for (size_t i = 0; i < over.n; i++) {
        for (; k < base.n && str_cmp(base.v[k].name, over.v[i].name) < 0; k++)
            v[n++] = base.v[k];
        for (; k < base.n && str_eq(base.v[k].name, over.v[i].name); k++) {
        }
        v[n++] = over.v[i];
    }
    for (; k < base.n; k++)
        v[n++] = base.v[k];
    w->now = (labels){v, n};
    w->own = v;
    w->cap = base.n + over.n + 1;
}

static void change_case(struct work *w, const struct relabel_rule *r, str value)
{
    bool lower = r->action == RELABEL_LOWERCASE;
    if (!may_make(w, value.n)) return;
    set(w, r->target_label, lower ? relabel_lower(w->a, value) : relabel_upper(w->a, value));
}

// New labels are gathered and merged into the set at once, so that many labels do not cost their
// square.
static void labelmap(struct work *w, const struct relabel_rule *r)
{
    label *v = ARENA_ARRAY(w->a, label, w->now.n);
    if (!v) return;
    size_t n = 0;
    for (size_t i = 0; i < w->now.n; i++) {
        label one = w->now.v[i];
        str *groups = NULL;
        if (one.value.n == 0 || !match_groups(w, r, one.name, &groups)) continue;
        v[n++] = (label){expand(w, &r->replacement, groups), one.value};
    }
    labels_sort(v, n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && str_eq(v[i].name, v[i + 1].name)) continue;  // the last one counts
        v[kept++] = v[i];
    }
    if (kept > 0) overlay(w, (labels){v, kept});
}

static bool run_one(struct work *w, const struct relabel_rule *r, bool *keep, err *e)
{
    str value = joined(w, r);
    switch (r->action) {
    case RELABEL_REPLACE:
        replace(w, r, value);
        break;
    case RELABEL_KEEP:
        *keep = matches(w, r, value);
        break;
    case RELABEL_DROP:
        *keep = !matches(w, r, value);
        break;
    case RELABEL_KEEPEQUAL:
        *keep = str_eq(labels_get(w->now, r->target_label), value);
        break;
    case RELABEL_DROPEQUAL:
        *keep = !str_eq(labels_get(w->now, r->target_label), value);
        break;
    case RELABEL_HASHMOD:
        return hashmod(w, r, value, e);
    case RELABEL_LABELMAP:
        labelmap(w, r);
        break;
    case RELABEL_LABELDROP:
        keep_names(w, r, false);
        break;
    case RELABEL_LABELKEEP:
        keep_names(w, r, true);
        break;
    case RELABEL_LOWERCASE:
    case RELABEL_UPPERCASE:
        change_case(w, r, value);
        break;
    case RELABEL_ACTION_COUNT:
        assert(false);
    }
    return true;
}

bool relabel_run(struct arena *a, const struct relabel_rules *rules, labels in, labels *out,
                 bool *keep, err *e)
{
    struct work w = {.a = a, .now = in};
    *keep = true;
    for (size_t i = 0; i < rules->n && *keep; i++) {
        if (!run_one(&w, &rules->v[i], keep, e) || !arena_ok(a, e)) return false;
        if (w.beyond) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "a relabelling rule makes %zu bytes of text, limit %zu", w.beyond,
                           w.limit);
        }
    }
    *out = w.now;
    return true;
}
