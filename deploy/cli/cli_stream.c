// SPDX-License-Identifier: Apache-2.0
//
// stream ls, show and forget: the streams that ingesters have registered in the store. Any
// ingester, or the all-in-one, can be asked. And stream forgotten, recover and remove: those whose
// loss was accepted, and what becomes of their logs if they come back.
#include "base/ulid.h"
#include "codec/json.h"
#include "codec/url.h"
#include "deploy/cli/cli_ask.h"

#define OUTPUT_MAX   ((size_t)64 << 20)
#define STREAMS_PATH "/ingester/streams"
#define ELSEWHERE    "only an ingester or the all-in-one knows: give its address with --url"

// ---- ls, show

enum {
    F_STREAM,
    F_NODE,
    F_DIRECTORY,
    F_MADE,
    F_ADDRESS,
    F_LOG,
    F_ROWS_FROM,
    F_STATE,
    FIELDS
};

static const struct {
    const char *key;
    const char *label;
} fields[FIELDS] = {
    [F_STREAM] = {"stream", "stream"},
    [F_NODE] = {"node", "ingester"},
    [F_DIRECTORY] = {"directory", "directory"},
    [F_MADE] = {"made", "registered"},
    [F_ADDRESS] = {"address", "address"},
    [F_LOG] = {"log", "log"},
    [F_ROWS_FROM] = {"rows_from", "profiles from"},
    [F_STATE] = {"state", "state"},
};

// The members of an object; the opening brace was read. Missing ones stay empty.
static bool read_row(struct json_reader *r, str row[FIELDS])
{
    struct cli_member members[FIELDS];
    for (size_t i = 0; i < FIELDS; i++) {
        members[i] = (struct cli_member){.key = fields[i].key, .text = &row[i]};
    }
    return cli_read_members(r, members, FIELDS);
}

// Reads on to the value of an object's first key; false if it is not a `kind`.
static bool first_value(struct json_reader *r, enum json_token kind)
{
    if (json_next(r) != JSON_OBJECT) return false;
    if (json_next(r) != JSON_KEY) return false;
    return json_next(r) == kind;
}

static void put_line(const str row[FIELDS], struct buf *out)
{
    buf_printf(out, "%.*s  %.*s  %.*s  %.*s  %.*s\n", STR(row[F_STREAM]), STR(row[F_NODE]),
               STR(row[F_DIRECTORY]), STR(row[F_MADE]), STR(row[F_ADDRESS]));
}

static void put_all(const str row[FIELDS], bool json, struct buf *out)
{
    bool any = false;
    if (json) buf_byte(out, '{');
    for (size_t i = 0; i < FIELDS; i++) {
        if (row[i].n == 0) continue;
        if (!json) {
            buf_printf(out, "%s: %.*s\n", fields[i].label, STR(row[i]));
            continue;
        }
        buf_printf(out, "%s\"%s\":", any ? "," : "", fields[i].key);
        json_put_string(out, row[i]);
        any = true;
    }
    if (json) buf_z(out, "}\n");
}

// Of all streams a line, or of one (`only`) everything.
static bool put_rows(struct cli *c, str body, const char *only, struct buf *out)
{
    struct json_reader r;
    enum json_token t = JSON_FAULT;
    json_reader_init(&r, &c->arena, body);
    if (!first_value(&r, JSON_ARRAY)) return false;
    while ((t = json_next(&r)) == JSON_OBJECT) {
        str row[FIELDS] = {{0}};
        if (!read_row(&r, row)) return false;
        if (!only) put_line(row, out);
        if (only && str_is(row[F_STREAM], only)) put_all(row, cli_wants_json(c), out);
    }
    return t == JSON_ARRAY_END;
}

static bool print_rows(struct cli *c, str body, const char *only, err *e)
{
    struct buf out;
    buf_init(&out, NULL, OUTPUT_MAX);
    bool ok = put_rows(c, body, only, &out) || err_set(e, ERR_UNKNOWN, "%.*s%s: no list of streams",
                                                       STR(c->url.shown), STREAMS_PATH);
    ok = ok && buf_ok(&out, e);
    if (ok && only && out.n == 0)
        ok = err_set(e, ERR_NOT_FOUND, "no stream %s is registered", only);
    ok = ok && cli_print(c, buf_view(&out), e);
    buf_release(&out);
    return ok;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_stream_ls(struct cli *c, int *status, err *e)
{
    str body = {0};
    (void)status;
    if (!cli_fetch(c, "GET", STREAMS_PATH, ELSEWHERE, &body, e)) return false;
    if (cli_wants_json(c)) return cli_print(c, body, e);
    return print_rows(c, body, NULL, e);
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_stream_show(struct cli *c, int *status, err *e)
{
    str body = {0};
    (void)status;
    assert(c->args.operand_count == 1);  // its row demands one
    return cli_fetch(c, "GET", STREAMS_PATH, ELSEWHERE, &body, e) &&
           print_rows(c, body, c->args.operands[0], e);
}

// ---- forget

static void put_query(str operand, struct buf *path)
{
    id128 stream;
    err ignored = {0};
    str directory = {0};
    buf_z(path, STREAMS_PATH "/forget?accept_loss=true");
    if (ulid_parse(operand, &stream, &ignored)) {
        buf_z(path, "&stream=");
        url_encode(path, operand);
        return;
    }
    str node = str_split(operand, '/', &directory);
    buf_z(path, "&node=");
    url_encode(path, node);
    // Without one all directories of the ingester are meant.
    if (directory.p) {
        buf_z(path, "&directory=");
        url_encode(path, directory);
    }
}

static bool accepts_loss(struct cli *c, const char *instead, int *status, err *e)
{
    if (cli_args_has(&c->args, OPT_ACCEPT_LOSS)) return true;
    cli_hint(c, "%s", instead);
    return cli_wrong(status) ||
           err_set(e, ERR_INVALID_ARGUMENT,
                   "what %s had not given to the store is lost for good with this",
                   c->args.operands[0]);
}

// Sends the path, which it takes.
static bool post(struct cli *c, struct buf *path, str *body, err *e)
{
    // For cli_fetch, which takes text that ends with NUL.
    buf_byte(path, '\0');
    bool ok = buf_ok(path, e) && cli_fetch(c, "POST", path->p, ELSEWHERE, body, e);
    buf_release(path);
    return ok;
}

bool cli_stream_forget(struct cli *c, int *status, err *e)
{
    assert(c->args.operand_count == 1);  // its row demands one
    str operand = str_of(c->args.operands[0]);
    struct buf path;
    str body = {0};
    if (!accepts_loss(c,
                      "start its ingester with its data directory, and nothing is lost; or add "
                      "--accept-loss",
                      status, e))
        return false;
    buf_init(&path, NULL, 4096);
    put_query(operand, &path);
    if (!post(c, &path, &body, e)) return false;
    struct json_reader r;
    uint64_t n = 0;
    json_reader_init(&r, &c->arena, body);
    if (!first_value(&r, JSON_NUMBER) || !str_u64(r.text, &n))
        return err_set(e, ERR_UNKNOWN, "%.*s does not say what it did", STR(c->url.shown));
    return cli_print(c,
                     arena_printf(&c->arena, "forgot %llu stream%s of %.*s\n",
                                  (unsigned long long)n, n == 1 ? "" : "s", STR(operand)),
                     e);
}

// ---- what was forgotten

static bool put_forgotten(struct cli *c, str body, struct buf *out)
{
    struct json_reader r;
    enum json_token t = JSON_FAULT;
    json_reader_init(&r, &c->arena, body);
    if (!first_value(&r, JSON_ARRAY)) return false;
    while ((t = json_next(&r)) == JSON_OBJECT) {
        str row[5] = {{0}};
        bool here = false;
        const struct cli_member members[] = {
            {.key = "stream", .text = &row[0]},    {.key = "node", .text = &row[1]},
            {.key = "directory", .text = &row[2]}, {.key = "forgotten", .text = &row[3]},
            {.key = "here", .flag = &here},
        };
        if (!cli_read_members(&r, members, COUNT(members))) return false;
        buf_printf(out, "%.*s  %.*s  %.*s  %.*s  %s\n", STR(row[0]), STR(row[1]), STR(row[2]),
                   STR(row[3]), here ? "its log is here" : "its log is not here");
    }
    return t == JSON_ARRAY_END;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_stream_forgotten(struct cli *c, int *status, err *e)
{
    struct buf out;
    str body = {0};
    (void)status;
    if (!cli_fetch(c, "GET", STREAMS_PATH "/forgotten", ELSEWHERE, &body, e)) return false;
    if (cli_wants_json(c)) return cli_print(c, body, e);
    buf_init(&out, NULL, OUTPUT_MAX);
    bool ok = put_forgotten(c, body, &out) ||
              err_set(e, ERR_UNKNOWN, "%.*s%s/forgotten: no list of streams", STR(c->url.shown),
                      STREAMS_PATH);
    ok = ok && buf_ok(&out, e) && cli_print(c, buf_view(&out), e);
    buf_release(&out);
    return ok;
}

static bool post_about(struct cli *c, const char *what, str *body, int *status, err *e)
{
    struct buf path;
    id128 stream;
    str operand = str_of(c->args.operands[0]);
    if (!ulid_parse(operand, &stream, e)) {
        cli_hint(c, "`flametree stream forgotten` lists them");
        return cli_wrong(status) || err_wrap(e, "stream");
    }
    buf_init(&path, NULL, 4096);
    buf_printf(&path, STREAMS_PATH "/%sstream=%.*s", what, STR(operand));
    return post(c, &path, body, e);
}

bool cli_stream_recover(struct cli *c, int *status, err *e)
{
    str body = {0};
    uint64_t rows = 0;
    uint64_t deleted = 0;
    uint64_t lost = 0;
    struct json_reader r;
    assert(c->args.operand_count == 1);  // its row demands one
    if (!post_about(c, "recover?", &body, status, e)) return false;
    if (cli_wants_json(c)) return cli_print(c, body, e);
    json_reader_init(&r, &c->arena, body);
    const struct cli_member members[] = {{.key = "rows", .number = &rows},
                                         {.key = "deleted", .number = &deleted},
                                         {.key = "lost", .number = &lost}};
    if (json_next(&r) != JSON_OBJECT || !cli_read_members(&r, members, COUNT(members)))
        return err_set(e, ERR_UNKNOWN, "%.*s does not say what it did", STR(c->url.shown));
    return cli_print(
        c,
        arena_printf(&c->arena,
                     "took %llu profiles into the store; %llu were deleted, %llu could "
                     "not be read\n",
                     (unsigned long long)rows, (unsigned long long)deleted,
                     (unsigned long long)lost),
        e);
}

bool cli_stream_remove(struct cli *c, int *status, err *e)
{
    str body = {0};
    assert(c->args.operand_count == 1);  // its row demands one
    return accepts_loss(c,
                        "`flametree stream recover` takes it into the store; or add --accept-loss",
                        status, e) &&
           post_about(c, "remove?accept_loss=true&", &body, status, e) &&
           cli_print(c, arena_printf(&c->arena, "removed %s\n", c->args.operands[0]), e);
}
