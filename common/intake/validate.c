// SPDX-License-Identifier: Apache-2.0
//
// validate.c - limits and meaning of profiles and labels, in Pyroscope's order and words.
#include "intake/validate.h"

#include "base/ulid.h"
#include "base/utf8.h"
#include "intake/mend.h"
#include "intake/text.h"
#include "model/marks.h"
#include "sys/clock.h"

static bool over(uint64_t actual, int64_t limit)
{
    return limit > 0 && actual > (uint64_t)limit;
}

bool validate_size(size_t size, const struct limits *l, enum discard_reason *why, err *e)
{
    if (!over(size, l->max_profile_size_bytes)) return true;
    *why = DISCARD_PROFILE_SIZE_LIMIT;
    char text[TEXT_MAX];
    return err_set(e, ERR_INVALID_ARGUMENT, "uncompressed profile payload size exceeds limit of %s",
                   text_bytes(text, (uint64_t)l->max_profile_size_bytes));
}

// ---- profiles

struct checks {
    struct arena *a;
    labels ls;
    enum discard_reason *why;
    err *e;
};

static bool refuse_limit(const struct checks *c, enum discard_reason why, const char *what,
                         const char *key, uint64_t actual, int64_t limit)
{
    assert(limit > 0 && actual > (uint64_t)limit);
    *c->why = why;
    return err_set(c->e, ERR_INVALID_ARGUMENT,
                   "the profile with labels '%s' exceeds the %s (%s, actual: %llu, limit: %lld)",
                   text_labels(c->a, c->ls), what, key, (unsigned long long)actual,
                   (long long)limit);
}

// Both ends are exclusive, in milliseconds.
static bool in_window(const struct checks *c, int64_t time_ns, const struct limits *l,
                      int64_t now_ns)
{
    int64_t time_ms = time_ns / NS_PER_MS;
    int64_t now_ms = now_ns / NS_PER_MS;
    int64_t start = now_ms - l->reject_older_than / NS_PER_MS;
    int64_t end = now_ms + l->reject_newer_than / NS_PER_MS;
    // 0 or less switches the end off, as all limits of Pyroscope do.
    bool bounded_below = l->reject_older_than > 0;
    bool bounded_above = l->reject_newer_than > 0;
    if ((!bounded_below || time_ms > start) && (!bounded_above || time_ms < end)) return true;

    char at[TEXT_MAX];
    char from[TEXT_MAX];
    char to[TEXT_MAX];
    *c->why = DISCARD_NOT_IN_INGESTION_WINDOW;
    return err_set(c->e, ERR_INVALID_ARGUMENT,
                   "profile with labels '%s' is outside of ingestion window (profile timestamp: "
                   "%s, the ingestion window%s%s%s%s%s)",
                   text_labels(c->a, c->ls), text_time(at, time_ms),
                   bounded_below ? " starts at " : "", bounded_below ? text_time(from, start) : "",
                   bounded_below && bounded_above ? " and" : "", bounded_above ? " ends at " : "",
                   bounded_above ? text_time(to, end) : "");
}

// A stack that is too deep keeps `depth` locations at the root side and ends in the mark. The mark
// is written over the last location that was cut, which is safe because stacks of samples do not
// share memory.
static bool cut_stacks(struct arena *a, struct profile *p, uint32_t depth, err *e)
{
    uint32_t mark = 0;
    uint32_t cut = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        struct profile_sample *s = &p->samples[i];
        if (s->location_count <= depth) continue;
        assert(s->first_location + (size_t)s->location_count <= p->stack_location_count);
        if (cut++ == 0 && !mend_add_mark(a, p, S(STACK_CUT_NAME), &mark, e)) return false;
        s->first_location += s->location_count - depth - 1;  // the leaf is first
        s->location_count = depth + 1;
        assert(s->first_location < p->stack_location_count);
        p->stack_locations[s->first_location] = mark;
    }
    losses_add(&p->losses, LOSS_STACK_DEPTH, cut);
    return true;
}

// As Pyroscope does, where faulty_profiles says so.
static bool refuse_samples(const struct checks *c, const struct profile *p, const struct limits *l)
{
    if (over(p->sample_count, l->max_profile_stacktrace_samples)) {
        return refuse_limit(c, DISCARD_SAMPLES_LIMIT, "samples count limit",
                            "max_profile_stacktrace_samples", p->sample_count,
                            l->max_profile_stacktrace_samples);
    }
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        if (over(s->label_count, l->max_profile_stacktrace_sample_labels)) {
            return refuse_limit(c, DISCARD_SAMPLE_LABELS_LIMIT, "sample labels limit",
                                "max_profile_stacktrace_sample_labels", s->label_count,
                                l->max_profile_stacktrace_sample_labels);
        }
    }
    return true;
}

static bool samples_fit(const struct checks *c, struct profile *p, const struct limits *l)
{
    if (l->refuses_faulty) {
        if (!refuse_samples(c, p, l)) return false;
    } else {
        mend_sample_labels(p, l);
        if (!mend_samples(c->a, p, l, c->e)) return false;
    }
    // Pyroscope cuts deep stacks too: that loses no value, and agents cannot help how deep a
    // program recurses.
    int64_t depth = l->max_profile_stacktrace_depth;
    bool any_depth = depth <= 0 || depth >= UINT32_MAX;
    return any_depth || cut_stacks(c->a, p, (uint32_t)depth, c->e);
}

static bool malformed(enum discard_reason *why, err *e, const char *what)
{
    *why = DISCARD_MALFORMED_PROFILE;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s", what);
}

bool validate_profile(struct arena *a, struct profile *p, labels ls, const struct limits *l,
                      int64_t now_ns, enum discard_reason *why, err *e)
{
    struct checks c = {a, ls, why, e};
    if (p->type_count == 0) return malformed(why, e, "empty profile");
    // Some agents send no time; the profile is then of now, which is always within the window.
    if (p->time_ns > 0) {
        if (!in_window(&c, p->time_ns, l, now_ns)) return false;
    } else {
        p->time_ns = now_ns;
    }
    if (over(p->encoded_bytes, l->max_profile_size_bytes)) {
        return refuse_limit(&c, DISCARD_PROFILE_SIZE_LIMIT, "size limit", "max_profile_size_byte",
                            p->encoded_bytes, l->max_profile_size_bytes);
    }
    if (!samples_fit(&c, p, l)) return false;
    // '-' would make the parts of a profile type's id ambiguous for Pyroscope's clients.
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (str_find(p->types[i].type, '-') < p->types[i].type.n) {
            return malformed(why, e, "sample type contains -");
        }
    }
    return true;
}

// The bytes are no text, and a log may take only text: so they are shown as digits.
static bool validate_refuse_name(str name, enum discard_reason *why, err *e)
{
    char hex[2 * TEXT_SHOWN + 1];
    name = text_shown(name);
    hex_print((const uint8_t *)name.p, name.n, hex);
    *why = DISCARD_MALFORMED_PROFILE;
    return err_set(e, ERR_INVALID_ARGUMENT, "invalid utf8 string hex: %s", hex);
}

static bool refuse_text(const struct profile *p, enum discard_reason *why, err *e)
{
    // Some decoders mend names themselves, and not all of them keep one as it was sent.
    if (p->bad_text.n) return validate_refuse_name(p->bad_text, why, e);
    if (p->losses.count[LOSS_BAD_TEXT]) return malformed(why, e, "invalid utf8 string");
    for (uint32_t i = 0; i < p->function_count; i++) {
        if (!utf8_is_text(p->functions[i].name))
            return validate_refuse_name(p->functions[i].name, why, e);
    }
    return true;
}

bool validate_text(struct arena *a, struct profile *p, const struct limits *l,
                   enum discard_reason *why, err *e)
{
    return l->refuses_faulty ? refuse_text(p, why, e) : mend_text(a, p, e);
}

// ---- labels

static bool invalid(const struct checks *c, enum discard_reason why, const char *what, str which)
{
    *c->why = why;
    bool named = which.p != NULL;
    which = text_shown(which);
    return err_set(c->e, ERR_INVALID_ARGUMENT, "invalid labels '%s' with error: %s%s%.*s%s",
                   text_labels(c->a, c->ls), what, named ? " '" : "", STR(which), named ? "'" : "");
}

static bool unfit(const struct checks *c, enum discard_reason why, const char *what, str which)
{
    *c->why = why;
    which = text_shown(which);
    return err_set(c->e, ERR_INVALID_ARGUMENT, "profile with labels '%s' has %s: '%.*s'",
                   text_labels(c->a, c->ls), what, STR(which));
}

static bool lengths_fit(const struct checks *c, label one, const struct limits *l)
{
    if (over(one.name.n, l->max_label_name_length)) {
        return unfit(c, DISCARD_LABEL_NAME_TOO_LONG, "label name too long", one.name);
    }
    if (over(one.value.n, l->max_label_value_length)) {
        return unfit(c, DISCARD_LABEL_VALUE_TOO_LONG, "label value too long", one.value);
    }
    return true;
}

static bool name_is_valid(const struct checks *c, str name, bool valid)
{
    if (valid) return true;
    return invalid(c, DISCARD_INVALID_LABELS, "invalid label name", name.n ? name : S(""));
}

static bool value_fits(const struct checks *c, size_t i)
{
    label one = c->ls.v[i];
    if (!utf8_is_text(one.value)) {
        return invalid(c, DISCARD_INVALID_LABELS, "invalid label value", one.value);
    }
    // The set is sorted, so labels with one name are neighbours.
    assert(i < c->ls.n);
    if (i > 0 && str_eq(c->ls.v[i - 1].name, one.name)) {
        return unfit(c, DISCARD_DUPLICATE_LABEL_NAMES, "duplicate label name", one.name);
    }
    return true;
}

static bool label_fits(const struct checks *c, size_t i, const struct limits *l)
{
    assert(i < c->ls.n);
    label one = c->ls.v[i];
    return lengths_fit(c, one, l) &&
           name_is_valid(c, one.name, one.name.n > 0 && utf8_is_text(one.name)) && value_fits(c, i);
}

// ---- names that are sanitised

// The name with '_' for each dot; a name without dots is returned as it is. Empty p: it is not
// valid.
static str sanitised(struct arena *a, str name)
{
    str copy = name;
    if (str_find(name, '.') < name.n) {
        char *text = arena_new(a, name.n);
        if (!text) return (str){0};
        for (size_t i = 0; i < name.n; i++)
            text[i] = name.p[i] == '.' ? '_' : name.p[i];
        copy.p = text;
    }
    // '_' is legal, so a name is refused for its other characters only.
    return label_name_is_legacy(copy) ? copy : (str){0};
}

struct sanitising {
    const struct checks *c;
    labels renamed;  // labels that had dots, under their new names, in order
    label *out;
    size_t n;
};

// Takes a renamed label. If another label has the new name already (one that was sent under it, or
// the first of several renamed ones), an equal value is left out and a different one refused.
static bool take_renamed(struct sanitising *x, label sent, label now)
{
    assert(now.name.p);
    labels ls = x->c->ls;
    size_t at = labels_place(ls, now.name);
    bool there = at < ls.n && str_eq(ls.v[at].name, now.name);
    const label *first = there ? &ls.v[at] : &x->renamed.v[labels_place(x->renamed, now.name)];
    assert(there || labels_place(x->renamed, now.name) < x->renamed.n);
    if (first->name.p == now.name.p) {
        assert(x->n < x->c->ls.n);
        x->out[x->n++] = now;
        return true;
    }
    if (str_eq(first->value, now.value)) return true;
    *x->c->why = DISCARD_DUPLICATE_LABEL_NAMES;
    return err_set(x->c->e, ERR_INVALID_ARGUMENT,
                   "profile with labels '%s' has duplicate label name '%.*s' after label name "
                   "sanitization from '%.*s'",
                   text_labels(x->c->a, ls), STR(text_shown(now.name)), STR(text_shown(sent.name)));
}

static bool take_label(struct sanitising *x, size_t i, str name, const struct limits *l)
{
    label one = x->c->ls.v[i];
    if (!lengths_fit(x->c, one, l) || !name_is_valid(x->c, one.name, name.p != NULL)) return false;
    if (name.p != one.name.p) {
        // value_fits words the refusal. It is asked only now, because Pyroscope checks names first.
        if (!utf8_is_text(one.value)) return value_fits(x->c, i);
        return take_renamed(x, one, (label){name, one.value});
    }
    x->out[x->n++] = one;
    return value_fits(x->c, i);
}

// Renames labels. Names that become equal are found by binary search, so that many labels do not
// cost their square.
static bool sanitise(const struct checks *c, labels *ls, const struct limits *l)
{
    struct sanitising x = {.c = c, .out = ARENA_ARRAY(c->a, label, ls->n)};
    str *names = ARENA_ARRAY(c->a, str, ls->n);
    label *renamed = ARENA_ARRAY(c->a, label, ls->n);
    if (!x.out || !names || !renamed) return arena_fail(c->a, c->e);
    for (size_t i = 0; i < ls->n; i++) {
        names[i] = sanitised(c->a, ls->v[i].name);
        bool changed = names[i].p && names[i].p != ls->v[i].name.p;
        if (changed) renamed[x.renamed.n++] = (label){names[i], ls->v[i].value};
    }
    if (!arena_ok(c->a, c->e)) return false;
    bool any = x.renamed.n > 0;
    labels_sort(renamed, x.renamed.n);
    x.renamed.v = renamed;
    for (size_t i = 0; i < ls->n; i++) {
        if (!take_label(&x, i, names[i], l)) return false;
    }
    // A new name may belong elsewhere: '_' comes after '.' and digits.
    assert(x.n <= ls->n);
    if (any) labels_sort(x.out, x.n);
    *ls = (labels){x.out, x.n};
    return true;
}

bool validate_labels(struct arena *a, labels *set, const struct limits *l, enum discard_reason *why,
                     err *e)
{
    labels ls = *set;
    struct checks c = {a, ls, why, e};
    // The order of these checks is Pyroscope's, because the first that fails is the answer and the
    // reason in its metric.
    if (ls.n == 0) {
        *why = DISCARD_MISSING_LABELS;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "error at least one label pair is required per profile");
    }
    if (l->refuses_faulty && over(ls.n, l->max_label_names_per_series)) {
        *why = DISCARD_MAX_LABEL_NAMES;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "profile series '%s' has %zu label names; limit %lld", text_labels(a, ls),
                       ls.n, (long long)l->max_label_names_per_series);
    }
    str name = labels_get(ls, S(LABEL_NAME));
    if (name.n == 0 || !utf8_is_text(name)) {
        return invalid(&c, DISCARD_INVALID_LABELS, "invalid metric name", (str){0});
    }
    if (labels_get(ls, S(LABEL_SERVICE)).n == 0) {
        return invalid(&c, DISCARD_MISSING_LABELS, "service name is not provided", (str){0});
    }
    if (!l->disable_label_sanitization) return sanitise(&c, set, l);
    for (size_t i = 0; i < ls.n; i++) {
        if (!label_fits(&c, i, l)) return false;
    }
    return true;
}
