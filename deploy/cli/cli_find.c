// SPDX-License-Identifier: Apache-2.0
//
// cli_find.c - asks the server for types and services, and compares them with the words that were
// typed.
#include "deploy/cli/cli_find.h"

#include "codec/pb.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_time.h"
#include "model/label.h"
#include "sys/clock.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN_MAX   12     // types or services named in a message
#define COMPARE_MAX 20000  // services compared with a word
#define NEAREST_MAX 3

// ---- texts

const char *cli_range_say(struct cli *c, struct cli_range_text *out)
{
    assert(out);
    int64_t from = 0;
    int64_t until = 0;
    err ignored = {0};
    struct buf b;
    buf_init(&b, NULL, sizeof out->text);
    // The range was read well before the request, so this cannot fail now.
    if (cli_range(c, &from, &until, &ignored)) cli_time_put_range(&b, from, until);
    snprintf(out->text, sizeof out->text, "in %.*s", (int)b.n, b.n ? b.p : "");
    buf_release(&b);
    return out->text;
}

bool cli_selector(struct cli *c, str text, str *selector, err *e)
{
    struct selector parsed = {0};
    str s = str_trim(text);
    if (s.n == 0) s = S("{}");
    if (!selector_parse(&c->arena, s, &parsed, e)) return err_wrap(e, "selector %.*s", STR(s));
    *selector = s;
    const char *service = cli_args_get(&c->args, OPT_SERVICE);
    if (!service) return true;
    assert(s.n > 0);
    // Without braces there is no place for another matcher.
    if (s.p[s.n - 1] != '}')
        return err_set(e, ERR_INVALID_ARGUMENT, "--service needs a selector with braces, not %.*s",
                       STR(s));
    struct buf b;
    buf_init(&b, NULL, (size_t)1 << 20);
    buf_str(&b, str_trim(str_slice(s, 0, s.n - 1)));
    // A comma may stand at the end already: the grammar allows it.
    if (parsed.n > 0 && b.n && b.p[b.n - 1] != '{' && b.p[b.n - 1] != ',') buf_byte(&b, ',');
    buf_z(&b, LABEL_SERVICE "=");
    // A service may be called anything; quoted, it cannot end the selector.
    label_quote(str_of(service), &b);
    buf_byte(&b, '}');
    bool ok = buf_ok(&b, e);
    *selector = arena_str(&c->arena, buf_view(&b));
    buf_release(&b);
    return ok && arena_ok(&c->arena, e);
}

// ---- profile types

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static size_t sort_once(str *v, size_t n)
{
    if (n == 0) return 0;
    qsort(v, n, sizeof *v, by_text);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++) {
        assert(kept <= i);
        if (!str_eq(v[i], v[kept - 1])) v[kept++] = v[i];
    }
    return kept;
}

// The values of one label over series.
static bool find_values(struct cli *c, const struct cli_found_in *where, const char *name, str **v,
                        size_t *n, err *e)
{
    Querier__V1__SeriesRequest q = QUERIER__V1__SERIES_REQUEST__INIT;
    char *names[] = {pb_z(&c->arena, str_of(name))};
    q.label_names = names;
    q.n_label_names = 1;
    q.matchers = where->matchers;
    q.n_matchers = where->matcher_count;
    q.start = where->start_ms;
    q.end = where->end_ms;
    ProtobufCMessage *m = NULL;
    if (!cli_ask(c, "Series", &q.base, &querier__v1__series_response__descriptor, &m, e))
        return false;
    assert(m);  // cli_ask was successful
    const Querier__V1__SeriesResponse *a = (const Querier__V1__SeriesResponse *)m;
    size_t count = 0;
    *v = ARENA_ARRAY(&c->arena, str, a->n_labels_set + 1);
    for (size_t i = 0; *v && i < a->n_labels_set; i++) {
        const Types__V1__Labels *set = a->labels_set[i];
        for (size_t k = 0; k < set->n_labels; k++) {
            if (strcmp(set->labels[k]->name, name) != 0) continue;
            (*v)[count++] = pb_text(set->labels[k]->value);
            break;
        }
    }
    // With one label asked for, a set has it once, but several series have the same value.
    *n = *v ? sort_once(*v, count) : 0;
    return arena_ok(&c->arena, e);
}

static bool all_types(struct cli *c, const struct cli_found_in *where, str **v, size_t *n, err *e)
{
    Querier__V1__ProfileTypesRequest q = QUERIER__V1__PROFILE_TYPES_REQUEST__INIT;
    q.start = where->start_ms;
    q.end = where->end_ms;
    ProtobufCMessage *m = NULL;
    if (!cli_ask(c, "ProfileTypes", &q.base, &querier__v1__profile_types_response__descriptor, &m,
                 e))
        return false;
    assert(m);
    const Querier__V1__ProfileTypesResponse *a = (const Querier__V1__ProfileTypesResponse *)m;
    *v = ARENA_ARRAY(&c->arena, str, a->n_profile_types + 1);
    for (size_t i = 0; *v && i < a->n_profile_types; i++)
        (*v)[i] = pb_text(a->profile_types[i]->id);
    *n = *v ? sort_once(*v, a->n_profile_types) : 0;
    return arena_ok(&c->arena, e);
}

bool cli_find_types(struct cli *c, const struct cli_found_in *where, str **types, size_t *n, err *e)
{
    // The call that lists types knows no matchers; with some, types are the values of a label.
    bool all = where->matcher_count == 0;
    return all ? all_types(c, where, types, n, e)
               : find_values(c, where, LABEL_PROFILE_TYPE, types, n, e);
}

// ---- a query

// "a, b, c and 3 more", in the arena.
static str enumerate(struct cli *c, const str *v, size_t n, const char *separator)
{
    struct buf b;
    buf_init(&b, NULL, (size_t)64 << 10);
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        buf_z(&b, i ? separator : "");
        buf_str(&b, v[i]);
    }
    if (n > SHOWN_MAX) buf_printf(&b, "%sand %zu more", separator, n - SHOWN_MAX);
    str text = arena_str(&c->arena, buf_view(&b));
    buf_release(&b);
    return text;
}

struct near {
    str name;
    unsigned distance;
};

static int by_distance(const void *a, const void *b)
{
    const struct near *x = a;
    const struct near *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return str_cmp(x->name, y->name);
}

// Sorts names by similarity to a word. A word that is a part of a name counts as a small
// difference.
static bool sort_by_likeness(struct cli *c, str *v, size_t n, str word, err *e)
{
    struct near *near = ARENA_ARRAY(&c->arena, struct near, n + 1);
    if (!near) return arena_fail(&c->arena, e);
    for (size_t i = 0; i < n; i++) {
        // The distance takes time with the product of the lengths; beyond the limit names stay
        // last.
        unsigned distance = i < COMPARE_MAX ? str_distance(v[i], word) : UINT_MAX;
        bool part = word.n >= 3 && (str_contains(v[i], word) || str_contains(word, v[i]));
        near[i] = (struct near){v[i], part ? MIN(distance, 1) : distance};
    }
    if (n) qsort(near, n, sizeof *near, by_distance);
    for (size_t i = 0; i < n; i++)
        v[i] = near[i].name;
    return true;
}

// The service that a selector names; empty if it names none.
static str service_of(struct cli *c, str selector)
{
    struct selector parsed = {0};
    // This is for a hint: an error of the selector has been reported by then.
    err ignored = {0};
    if (!selector_parse(&c->arena, selector.n ? selector : S("{}"), &parsed, &ignored))
        return (str){0};
    for (size_t i = 0; i < parsed.n; i++) {
        const struct matcher *m = &parsed.v[i];
        if (m->op == MATCH_EQ && str_is(m->name, LABEL_SERVICE)) return m->value;
    }
    return str_of(cli_args_get(&c->args, OPT_SERVICE));
}

// Lists the services in a range, those similar to the wanted one first. True if that one is not
// among them.
static bool list_services(struct cli *c, const struct cli_found_in *where, str wanted, str **v,
                          size_t *n, err *e)
{
    // Without the matchers of the query, among which is the service that does not exist.
    struct cli_found_in all = {where->start_ms, where->end_ms, NULL, 0};
    if (!find_values(c, &all, LABEL_SERVICE, v, n, e)) return false;
    if (wanted.n == 0 || str_among(wanted, *v, *n)) return false;
    return sort_by_likeness(c, *v, *n, wanted, e);
}

void cli_hint_service(struct cli *c, const struct cli_found_in *where, str selector)
{
    str *services = NULL;
    size_t n = 0;
    err ignored = {0};
    str wanted = service_of(c, selector);
    bool missing = wanted.n && list_services(c, where, wanted, &services, &n, &ignored);
    // The calls for this hint may have failed and left a hint of their own, which would mislead.
    c->hint[0] = '\0';
    if (!missing || n == 0) return;
    str names = enumerate(c, services, MIN(n, NEAREST_MAX), ", ");
    cli_hint(c, "no service '%.*s' in that range; nearest: %.*s", STR(wanted), STR(names));
}

static size_t colons(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == ':';
    return n;
}

// How well a word matches a type: a match with the sample type beats one with the name that it
// shares with others (wall is wall:wall, not wall:samples), and a whole part beats a piece of one.
// 0: none.
static int likeness(str type, str word)
{
    str rest = type;
    str name = str_split(rest, ':', &rest);
    str sample = str_split(rest, ':', &rest);
    if (str_eq(sample, word)) return 3;
    if (str_eq(name, word)) return 2;
    if (str_starts(type, word) && type.n > word.n && type.p[word.n] == ':') return 2;
    return str_contains(type, word) ? 1 : 0;
}

// Moves the types that match the word best to the front; returns their number.
static size_t keep_alike(str *types, size_t n, str word)
{
    // From 1 on: types that do not match at all are never kept.
    int best = 1;
    for (size_t i = 0; i < n; i++)
        best = MAX(best, likeness(types[i], word));
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        assert(kept <= i);
        if (likeness(types[i], word) == best) types[kept++] = types[i];
    }
    return kept;
}

static bool choose_type(struct cli *c, struct cli_query *q, str word, int *status, err *e)
{
    char *matchers[] = {pb_z(&c->arena, q->selector)};
    struct cli_found_in where = {q->from_ns / NS_PER_MS, q->until_ns / NS_PER_MS, matchers,
                                 str_is(q->selector, "{}") ? 0 : 1};
    str *types = NULL;
    size_t n = 0;
    if (!cli_find_types(c, &where, &types, &n, e)) return false;
    // For the message only, if there is no data.
    q->type = word;
    if (n == 0) return cli_query_is_empty(c, q, status, e);
    size_t alike = keep_alike(types, n, word);
    if (alike == 1) {
        q->type = types[0];
        return true;
    }
    assert(alike <= n);
    cli_wrong(status);
    if (alike == 0) {
        str all = enumerate(c, types, n, "\n  ");
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "no profile type matches '%.*s'; the types are:\n  %.*s", STR(word),
                       STR(all));
    }
    str those = enumerate(c, types, alike, "\n  ");
    if (word.n == 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "choose a profile type:\n  %.*s", STR(those));
    return err_set(e, ERR_INVALID_ARGUMENT, "several profile types match '%.*s':\n  %.*s",
                   STR(word), STR(those));
}

bool cli_query_read(struct cli *c, const char *text, struct cli_query *q, int *status, err *e)
{
    assert(q->from_ns <= q->until_ns);  // its range was read before
    str all = str_trim(str_of(text));
    size_t brace = str_find(all, '{');
    str type = str_trim(str_slice(all, 0, brace));
    const char *given = cli_args_get(&c->args, OPT_TYPE);
    if (given && type.n) {
        err_set(e, ERR_INVALID_ARGUMENT, "--type %s and query %.*s both name a profile type", given,
                STR(all));
        return cli_wrong(status);
    }
    if (given) type = str_of(given);
    if (!cli_selector(c, str_slice(all, brace, all.n), &q->selector, e)) return cli_wrong(status);
    q->type = type;
    // A complete type has four colons and needs no question to the server.
    return colons(type) >= 4 || choose_type(c, q, type, status, e);
}

bool cli_query_is_empty(struct cli *c, const struct cli_query *q, int *status, err *e)
{
    *status = CLI_NO_DATA;
    struct cli_found_in where = {q->from_ns / NS_PER_MS, q->until_ns / NS_PER_MS, NULL, 0};
    err ignored = {0};
    str *types = NULL;
    str *services = NULL;
    size_t type_count = 0;
    size_t service_count = 0;
    str wanted = service_of(c, q->selector);
    bool known = all_types(c, &where, &types, &type_count, &ignored);
    bool missing = known && list_services(c, &where, wanted, &services, &service_count, &ignored);
    known = known && !ignored.code;
    // As in cli_hint_service: the hint of a call that was only made to explain.
    c->hint[0] = '\0';
    struct buf range;
    buf_init(&range, NULL, 200);
    cli_time_put_range(&range, q->from_ns, q->until_ns);
    err_set(e, ERR_NOT_FOUND, "no data for %.*s%.*s in %.*s at %.*s", STR(q->type),
            STR(q->selector), (int)range.n, range.n ? range.p : "", STR(c->url.shown));
    buf_release(&range);
    if (!known) return false;
    if (type_count == 0) {
        cli_hint(c, "the server has no data at all in that range; try %s",
                 q->other_range ? q->other_range : "an earlier --from");
        return false;
    }
    // err_set must not read the text that it writes.
    char before[sizeof e->msg];
    snprintf(before, sizeof before, "%s", e->msg);
    str names = enumerate(c, services, service_count, ", ");
    str all = enumerate(c, types, type_count, "\n    ");
    if (missing) {
        str nearest = enumerate(c, services, MIN(service_count, NEAREST_MAX), ", ");
        cli_hint(c, "no service '%.*s' in that range; nearest: %.*s", STR(wanted), STR(nearest));
    }
    return err_set(e, ERR_NOT_FOUND, "%s\n  services%s: %.*s\n  types:\n    %.*s", before,
                   missing ? ", nearest first" : "", STR(names), STR(all));
}
