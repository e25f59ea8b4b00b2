// SPDX-License-Identifier: Apache-2.0
//
// ingest_name.c - parses the name parameter as Pyroscope's own parser does, odd corners included,
// but takes more characters than that.
#include "distributor/ingest_name.h"

#include "intake/text.h"

// `not` shows that somebody forgot something: an '=' before the brace is of a label without braces,
// a ',' in a label's name of a pair without '='.
static bool check(str s, const char *what, char not, err *e)
{
    if (s.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "%s name is required", what);
    if (!str_utf8(s)) {
        struct buf shown;
        buf_init(&shown, NULL, 4096);
        label_quote(text_shown(s), &shown);
        err_set(e, ERR_INVALID_ARGUMENT, "invalid %s name: %.*s: it is not UTF-8", what,
                STR(buf_view(&shown)));
        buf_release(&shown);
        return false;
    }
    if (str_find(s, not ) == s.n) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "invalid %s name: %.*s: character is not allowed: '%c'",
                   what, STR(text_shown(s)), not );
}

static void put(struct ingest_name *n, str key, str value)
{
    for (size_t i = 0; i < n->count; i++) {
        if (!str_eq(n->labels[i].name, key)) continue;
        n->labels[i].value = value;
        return;
    }
    // ingest_name_parse made room for as many labels as there are '='.
    n->labels[n->count++] = (label){key, value};
}

// The pairs between the braces, up to the closing one or the end.
static bool read_pairs(str s, struct ingest_name *n, err *e)
{
    while (s.n > 0) {
        size_t equals = str_find(s, '=');
        size_t brace = str_find(s, '}');
        // What stands behind the closing brace is left out, as Pyroscope does.
        if (brace < equals || equals == s.n) return true;
        str key = str_trim(str_slice(s, 0, equals));
        s = str_slice(s, equals + 1, s.n);
        size_t end = MIN(str_find(s, ','), str_find(s, '}'));
        if (end == s.n) return true;  // no end: not a pair
        if (!check(key, "label", ',', e)) return false;
        str value = str_trim(str_slice(s, 0, end));
        if (str_is(key, LABEL_NAME)) {
            n->app = value;
        } else {
            put(n, key, value);
        }
        if (s.p[end] == '}') return true;
        s = str_slice(s, end + 1, s.n);
    }
    return true;
}

bool ingest_name_parse(struct arena *a, str text, struct ingest_name *out, err *e)
{
    size_t pairs = 0;
    for (size_t i = 0; i < text.n; i++) {
        pairs += text.p[i] == '=';
    }
    size_t brace = str_find(text, '{');
    *out = (struct ingest_name){.app = str_trim(str_slice(text, 0, brace)),
                                .labels = ARENA_ARRAY(a, label, pairs)};
    if (!out->labels) return arena_fail(a, e);
    if (!check(out->app, "service", '=', e)) return false;
    // put() compares with every earlier key, so the number of pairs is bounded; no client has so
    // many.
    if (pairs > 1000) {
        return err_set(e, ERR_INVALID_ARGUMENT, "name has %zu labels, limit 1000", pairs);
    }
    return read_pairs(str_slice(text, brace + 1, text.n), out, e);
}

str ingest_name_get(const struct ingest_name *n, const char *key)
{
    return labels_get((labels){n->labels, n->count}, str_of(key));
}
