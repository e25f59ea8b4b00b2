// SPDX-License-Identifier: Apache-2.0
//
// cli_explain.c - reads the JSON of the header and prints it as sentences.
#include "deploy/cli/cli_explain.h"

#include "codec/json.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX ((size_t)1 << 20)

struct explained {
    str profiles, streams, rounds, plans, objects, nodes, rows, reads, bytes, more, missing_more;
    struct buf phases;
    struct buf pieces;
    struct buf missing;
    str query_ms;
    str slowest;  // of the phases
    str slowest_ms;
    double most;
};

static str *number_of(struct explained *t, str name)
{
    static const char *const names[] = {"profiles", "streams", "rounds",      "plans",
                                        "objects",  "nodes",   "rows",        "reads",
                                        "bytes",    "more",    "missing_more"};
    str *const places[] = {&t->profiles, &t->streams, &t->rounds,      &t->plans,
                           &t->objects,  &t->nodes,   &t->rows,        &t->reads,
                           &t->bytes,    &t->more,    &t->missing_more};
    static_assert(COUNT(names) == COUNT(places), "a place for each name");
    for (size_t i = 0; i < COUNT(names); i++) {
        if (str_is(name, names[i])) return places[i];
    }
    return NULL;
}

static double number(str text)
{
    char copy[40];
    snprintf(copy, sizeof copy, "%.*s", STR(text));
    // JSON's numbers are a part of those that strtod reads; a longer text than the copy is cut, and
    // so only less exact.
    return strtod(copy, NULL);
}

// {"heads":1.2,...,"query":9.7}
static bool read_phases(struct json_reader *r, struct explained *t)
{
    if (json_next(r) != JSON_OBJECT) return false;
    enum json_token token = JSON_FAULT;
    while ((token = json_next(r)) == JSON_KEY) {
        str name = r->text;
        if (json_next(r) != JSON_NUMBER) return false;
        if (str_is(name, "query")) {
            t->query_ms = r->text;
            continue;
        }
        double ms = number(r->text);
        // "query" is not among them: it is the sum.
        if (ms > t->most) {
            t->most = ms;
            t->slowest = name;
            t->slowest_ms = r->text;
        }
        buf_z(&t->phases, t->phases.n ? ", " : "");
        text_put(&t->phases, name);
        buf_printf(&t->phases, " %.*s", STR(r->text));
    }
    return token == JSON_OBJECT_END;
}

static bool read_lines(struct json_reader *r, const char *before, struct buf *lines)
{
    if (json_next(r) != JSON_ARRAY) return false;
    enum json_token token = JSON_FAULT;
    while ((token = json_next(r)) == JSON_STRING) {
        buf_z(lines, before);
        text_put(lines, r->text);
        buf_byte(lines, '\n');
    }
    return token == JSON_ARRAY_END;
}

static bool read_explained(struct json_reader *r, struct explained *t)
{
    if (json_next(r) != JSON_OBJECT) return false;
    enum json_token token = JSON_FAULT;
    while ((token = json_next(r)) == JSON_KEY) {
        str *number = number_of(t, r->text);
        bool ok = true;
        if (number) {
            ok = json_next(r) == JSON_NUMBER;
            *number = r->text;
        } else if (str_is(r->text, "ms")) {
            ok = read_phases(r, t);
        } else if (str_is(r->text, "plan")) {
            ok = read_lines(r, "  ", &t->pieces);
        } else if (str_is(r->text, "missing")) {
            ok = read_lines(r, "missing: ", &t->missing);
        } else {
            // Of a newer server.
            ok = json_skip(r);
        }
        if (!ok) return false;
    }
    return token == JSON_OBJECT_END;
}

// ---- as text

// "1 read", "2 reads"
static void put_count(struct buf *out, str number, const char *one)
{
    assert(one[0]);
    buf_printf(out, "%.*s %s%s", STR(number), one, str_is(number, "1") ? "" : "s");
}

// "512 bytes", "179.5 kB"
static void put_bytes(struct buf *out, str number)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    uint64_t n = 0;
    size_t unit = 0;
    if (!str_u64(number, &n) || n < 1000) {
        put_count(out, number, "byte");
        return;
    }
    double v = (double)n / 1000;
    // 999.95 is printed as 1000.0, which is 1.0 of the next unit.
    for (; v >= 999.95 && unit + 1 < COUNT(units); unit++)
        v /= 1000;
    buf_printf(out, "%.1f %s", v, units[unit]);
}

// The header Flametree-Exact in plain words.
static void put_exactness(struct buf *out, str exact)
{
    str rest = exact;
    str kind = str_split(exact, '=', &rest);
    if (exact.n == 0) {
        buf_z(out, "exactness unknown");
    } else if (str_is(kind, "rounded")) {
        buf_z(out, "rounded at the edges by up to ");
        text_put(out, rest);
        buf_z(out, " s, as single profiles of then are no longer kept");
    } else if (str_is(kind, "partial")) {
        buf_z(out, "incomplete, ");
        text_put(out, rest);
    } else if (str_is(kind, "totals")) {
        buf_z(out, "totals exact, smallest frames left out");
    } else {
        text_put(out, exact);
    }
}

// One line: exactness, amounts, duration, and the slowest phase.
static void put_summary(struct buf *out, str exact, const struct explained *t)
{
    put_exactness(out, exact);
    buf_z(out, ": ");
    put_count(out, t->profiles, "profile");
    buf_printf(out, " in %.*s ms", STR(t->query_ms));
    if (t->slowest.n) {
        buf_z(out, ", of which ");
        text_put(out, t->slowest);
        buf_printf(out, " took %.*s ms", STR(t->slowest_ms));
    }
    buf_byte(out, '\n');
}

static void put_reads(struct buf *out, const struct explained *t)
{
    buf_z(out, "store: ");
    put_bytes(out, t->bytes);
    buf_z(out, " of ");
    put_count(out, t->objects, "object");
    buf_z(out, " in ");
    put_count(out, t->reads, "read");
    buf_z(out, ": ");
    put_count(out, t->nodes, "pre-merged node");
    buf_z(out, " and ");
    put_count(out, t->rows, "single row");
    buf_z(out, "; ingesters: ");
    put_count(out, t->streams, "answer");
    buf_byte(out, '\n');
}

// The list of all that is missing in the answer; the summary names only the first.
static void put_missing(struct buf *out, const struct explained *t)
{
    buf_str(out, buf_view(&t->missing));
    if (t->missing_more.n == 0 || str_is(t->missing_more, "0")) return;
    buf_z(out, "missing: ");
    text_put(out, t->missing_more);
    buf_z(out, " more\n");
}

static void put_all(struct buf *out, const struct explained *t)
{
    buf_printf(out, "ms: %.*s; ", STR(buf_view(&t->phases)));
    put_count(out, t->plans, "plan");
    buf_z(out, ", ");
    put_count(out, t->rounds, "round");
    buf_byte(out, '\n');
    buf_str(out, buf_view(&t->pieces));
    if (t->more.n == 0 || str_is(t->more, "0")) return;
    buf_z(out, "  and ");
    put_count(out, t->more, "more piece");
    buf_byte(out, '\n');
}

bool cli_explain_put(struct arena *a, str json, str exact, bool full, struct buf *out)
{
    struct explained t = {0};
    struct json_reader r;
    buf_init(&t.phases, NULL, TEXT_MAX);
    buf_init(&t.pieces, NULL, TEXT_MAX);
    buf_init(&t.missing, NULL, TEXT_MAX);
    json_reader_init(&r, a, json);
    // Texts of the JSON live in `a` or in `json`; only the buffers are of this function.
    bool ok = read_explained(&r, &t);
    if (ok) {
        put_summary(out, exact, &t);
        put_missing(out, &t);
        put_reads(out, &t);
        if (full) put_all(out, &t);
    }
    buf_release(&t.phases);
    buf_release(&t.pieces);
    buf_release(&t.missing);
    return ok;
}

bool cli_explains(const struct cli *c, const char *path)
{
    return c->args.command == CLI_QUERY && cli_args_has(&c->args, OPT_EXPLAIN) &&
           str_contains(str_of(path), S("/SelectMerge"));
}

void cli_explain(struct cli *c, const struct http_headers *answer)
{
    str json = http_headers_get(answer, "flametree-explain");
    if (json.n == 0) {
        cli_say(c, "the server at %.*s does not explain its answers", STR(c->url.shown));
        return;
    }
    struct buf out;
    buf_init(&out, NULL, TEXT_MAX);
    str exact = http_headers_get(answer, "flametree-exact");
    assert(cli_args_has(&c->args, OPT_EXPLAIN));
    bool full = strcmp(cli_args_get(&c->args, OPT_EXPLAIN), "full") == 0;
    if (cli_explain_put(&c->arena, json, exact, full, &out)) {
        // To standard error: standard output has the profile, which may go to a file or a pipe.
        fprintf(stderr, "%.*s", STR(buf_view(&out)));
    } else {
        cli_say(c, "the server's explanation is malformed");
    }
    buf_release(&out);
}
