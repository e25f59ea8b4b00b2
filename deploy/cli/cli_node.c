// SPDX-License-Identifier: Apache-2.0
//
// node ls and node forget: the data directories that the store knows of ingesters. Any ingester, or
// the all-in-one, can be asked.
#include "codec/json.h"
#include "codec/url.h"
#include "deploy/cli/cli_ask.h"

#define OUTPUT_MAX ((size_t)64 << 20)
#define NODES_PATH "/ingester/nodes"
#define ELSEWHERE  "only an ingester or the all-in-one knows: give its address with --url"

static bool print(struct cli *c, str text, err *e)
{
    struct buf b;
    buf_init(&b, NULL, OUTPUT_MAX);
    text_filter(&b, text);
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}

// ---- ls

struct row {
    str node;
    str directory;
    str made;
    str address;
};

// The members of an object; the opening brace was read.
static bool read_row(struct json_reader *r, struct row *row)
{
    const struct cli_member members[] = {{.key = "node", .text = &row->node},
                                         {.key = "directory", .text = &row->directory},
                                         {.key = "made", .text = &row->made},
                                         {.key = "address", .text = &row->address}};
    return cli_read_members(r, members, COUNT(members));
}

// Reads on to the value of an object's first key; false if it is not a `kind`.
static bool first_value(struct json_reader *r, enum json_token kind)
{
    if (json_next(r) != JSON_OBJECT) return false;
    if (json_next(r) != JSON_KEY) return false;
    return json_next(r) == kind;
}

static bool put_rows(struct cli *c, str body, struct buf *out)
{
    struct json_reader r;
    enum json_token t = JSON_FAULT;
    json_reader_init(&r, &c->arena, body);
    if (!first_value(&r, JSON_ARRAY)) return false;
    while ((t = json_next(&r)) == JSON_OBJECT) {
        // Members of a newer server are skipped, and missing ones are empty.
        struct row row = {0};
        if (!read_row(&r, &row)) return false;
        buf_printf(out, "%.*s  %.*s  %.*s  %.*s\n", STR(row.node), STR(row.directory),
                   STR(row.made), STR(row.address));
    }
    return t == JSON_ARRAY_END;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_node_ls(struct cli *c, int *status, err *e)
{
    str body = {0};
    struct buf out;
    (void)status;
    if (!cli_fetch(c, "GET", NODES_PATH, ELSEWHERE, &body, e)) return false;
    if (cli_wants_json(c)) return print(c, body, e);
    buf_init(&out, NULL, OUTPUT_MAX);
    bool ok = put_rows(c, body, &out) || err_set(e, ERR_UNKNOWN, "%.*s%s: no list of directories",
                                                 STR(c->url.shown), NODES_PATH);
    ok = ok && buf_ok(&out, e) && print(c, buf_view(&out), e);
    buf_release(&out);
    return ok;
}

// ---- forget

bool cli_node_forget(struct cli *c, int *status, err *e)
{
    assert(c->args.operand_count == 1);  // its row demands one
    str directory = {0};
    str node = str_split(str_of(c->args.operands[0]), '/', &directory);
    if (!cli_args_has(&c->args, OPT_ACCEPT_LOSS)) {
        cli_hint(c, "mount the directory again, and nothing is lost; or add --accept-loss");
        return cli_wrong(status) ||
               err_set(e, ERR_INVALID_ARGUMENT,
                       "what %s had not given to the store is lost for good with this",
                       c->args.operands[0]);
    }
    struct buf path;
    str body = {0};
    buf_init(&path, NULL, 4096);
    buf_z(&path, NODES_PATH "/forget?accept_loss=true&node=");
    url_encode(&path, node);
    // Without one all directories of the ingester are forgotten.
    if (directory.p) {
        buf_z(&path, "&directory=");
        url_encode(&path, directory);
    }
    // For cli_fetch, which takes text that ends with NUL.
    buf_byte(&path, '\0');
    bool ok = buf_ok(&path, e) && cli_fetch(c, "POST", path.p, ELSEWHERE, &body, e);
    buf_release(&path);
    struct json_reader r;
    uint64_t n = 0;
    json_reader_init(&r, &c->arena, body);
    if (!ok) return false;
    if (!first_value(&r, JSON_NUMBER) || !str_u64(r.text, &n))
        return err_set(e, ERR_UNKNOWN, "%.*s does not say what it did", STR(c->url.shown));
    return print(c,
                 arena_printf(&c->arena, "forgot %llu data director%s of %.*s\n",
                              (unsigned long long)n, n == 1 ? "y" : "ies", STR(node)),
                 e);
}
