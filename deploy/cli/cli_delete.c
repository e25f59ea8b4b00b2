// SPDX-License-Identifier: Apache-2.0
//
// delete and deletions: a compactor, or the all-in-one, is asked. The id of a deletion is made
// here, so that a call whose answer was lost could be repeated without a second deletion.
#include "base/ulid.h"
#include "codec/attime.h"
#include "codec/json.h"
#include "codec/url.h"
#include "deploy/cli/cli_ask.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>

#define OUTPUT_MAX ((size_t)64 << 20)
#define PATH_BYTES ((size_t)64 << 10)

#define ELSEWHERE                                                                      \
    "only a compactor or the all-in-one deletes: give its address with --url, and if " \
    "it has admin.listen that one"

static void put_tenant(const struct cli *c, struct buf *path)
{
    buf_z(path, "tenant=");
    url_encode(path, c->tenant.n ? c->tenant : S("anonymous"));
}

static bool put_time(struct cli *c, struct buf *path, enum cli_option o, const char *name, err *e)
{
    int64_t ns = 0;
    const char *text = cli_args_get(&c->args, o);
    if (!text) return true;
    if (!attime_parse(str_of(text), c->now_wall_ns, &ns, e))
        return err_wrap(e, "--%s", cli_options[o].name);
    buf_printf(path, "&%s=%" PRId64, name, MAX(ns, 0) / NS_PER_MS);
    return true;
}

static bool make_path(struct cli *c, struct buf *path, err *e)
{
    uint8_t random[10];
    char id[ULID_TEXT];
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(c->now_wall_ns / NS_PER_MS), random), id);
    buf_z(path, "/compactor/delete?");
    put_tenant(c, path);
    buf_printf(path, "&id=%s&match=", id);
    url_encode(path, str_of(c->args.operands[0]));
    if (!put_time(c, path, OPT_DELETE_FROM, "start", e)) return false;
    if (!put_time(c, path, OPT_DELETE_UNTIL, "end", e)) return false;
    buf_byte(path, '\0');
    return buf_ok(path, e);
}

bool cli_delete(struct cli *c, int *status, err *e)
{
    struct buf path;
    str body = {0};
    assert(c->args.operand_count == 1);  // its row demands one
    if (!cli_args_has(&c->args, OPT_YES)) {
        cli_hint(c, "`flametree series --group-by LABEL 'TYPE%s'` shows what it is; then add --yes",
                 c->args.operands[0]);
        return cli_wrong(status) ||
               err_set(e, ERR_INVALID_ARGUMENT, "what %s selects would be lost for good with this",
                       c->args.operands[0]);
    }
    buf_init(&path, NULL, PATH_BYTES);
    bool ok = make_path(c, &path, e);
    if (!ok) (void)cli_wrong(status);
    ok = ok && cli_fetch(c, "POST", path.p, ELSEWHERE, &body, e);
    buf_release(&path);
    if (!ok || cli_wants_json(c)) return ok && cli_print(c, body, e);
    return cli_print(
        c, S("hidden from now on; `flametree deletions` shows when nothing has it any more\n"), e);
}

bool cli_tenant_delete(struct cli *c, int *status, err *e)
{
    struct buf path;
    str body = {0};
    assert(c->args.operand_count == 1);
    str tenant = str_of(c->args.operands[0]);
    if (!cli_args_has(&c->args, OPT_YES)) {
        cli_hint(c, "add --yes if that is meant");
        return cli_wrong(status) || err_set(e, ERR_INVALID_ARGUMENT,
                                            "all profiles of tenant %.*s would be lost for good "
                                            "with this",
                                            STR(str_slice(tenant, 0, 150)));
    }
    buf_init(&path, NULL, PATH_BYTES);
    buf_z(&path, "/compactor/delete-tenant?tenant=");
    url_encode(&path, tenant);
    buf_byte(&path, '\0');
    bool ok = buf_ok(&path, e) && cli_fetch(c, "POST", path.p, ELSEWHERE, &body, e);
    buf_release(&path);
    if (!ok || cli_wants_json(c)) return ok && cli_print(c, body, e);
    return cli_print(
        c,
        S("hidden from now on, and pushes are refused; `flametree deletions` shows when "
          "all is gone\n"),
        e);
}

// ---- deletions

struct row {
    str id;
    str made;
    str match;
    str state;  // of the deletion of a tenant
    uint64_t objects;
    uint64_t blocks;
    uint64_t segments;
};

// A stream that the deletion of a tenant waits for, as a line for people.
static bool read_wait(struct json_reader *r, struct buf *waits)
{
    str stream = {0};
    str node = {0};
    str since = {0};
    str why = {0};
    const struct cli_member members[] = {{.key = "stream", .text = &stream},
                                         {.key = "node", .text = &node},
                                         {.key = "since", .text = &since},
                                         {.key = "why", .text = &why}};
    if (!cli_read_members(r, members, COUNT(members))) return false;
    buf_printf(waits, "    waits for stream %.*s of %.*s since %.*s: %.*s\n", STR(stream),
               STR(node), STR(since), STR(why));
    return true;
}

static bool read_waits(struct json_reader *r, struct buf *waits)
{
    enum json_token t = json_next(r);
    if (t != JSON_ARRAY) return false;
    while ((t = json_next(r)) == JSON_OBJECT) {
        if (!read_wait(r, waits)) return false;
    }
    return t == JSON_ARRAY_END;
}

// The members of an object; the opening brace was read.
static bool read_row(struct json_reader *r, struct row *row, struct buf *waits)
{
    enum json_token t = JSON_FAULT;
    const struct cli_member members[] = {{.key = "id", .text = &row->id},
                                         {.key = "made", .text = &row->made},
                                         {.key = "match", .text = &row->match},
                                         {.key = "state", .text = &row->state},
                                         {.key = "objects_left", .number = &row->objects},
                                         {.key = "blocks_left", .number = &row->blocks},
                                         {.key = "segments_left", .number = &row->segments}};
    while ((t = json_next(r)) == JSON_KEY) {
        bool ok = str_is(r->text, "waits_for") ? read_waits(r, waits)
                                               : cli_read_member(r, members, COUNT(members));
        if (!ok) return false;
    }
    return t == JSON_OBJECT_END;
}

// Reads on to the first row; false if it is no list of deletions.
static bool begin_rows(struct json_reader *r)
{
    if (json_next(r) != JSON_OBJECT) return false;
    if (json_next(r) != JSON_KEY) return false;
    return json_next(r) == JSON_ARRAY;
}

static void put_row(const struct row *row, struct buf *out)
{
    buf_printf(out, "%.*s  %.*s  ", STR(row->id), STR(row->made));
    if (row->state.n) {
        buf_printf(out, "%.*s, %" PRIu64 " objects left", STR(row->state), row->objects);
    } else if (row->blocks + row->segments) {
        buf_printf(out, "%" PRIu64 " blocks and %" PRIu64 " segments left", row->blocks,
                   row->segments);
    } else {
        buf_z(out, "rewritten");
    }
    buf_printf(out, "  %.*s\n", STR(row->match));
}

static bool put_rows(struct cli *c, str body, struct buf *out)
{
    struct json_reader r;
    enum json_token t = JSON_FAULT;
    json_reader_init(&r, &c->arena, body);
    if (!begin_rows(&r)) return false;
    while ((t = json_next(&r)) == JSON_OBJECT) {
        struct row row = {0};
        struct buf waits;
        buf_init(&waits, NULL, OUTPUT_MAX);
        bool ok = read_row(&r, &row, &waits);
        if (ok) put_row(&row, out);
        if (ok) buf_str(out, buf_view(&waits));
        buf_release(&waits);
        if (!ok) return false;
    }
    return t == JSON_ARRAY_END;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_deletions(struct cli *c, int *status, err *e)
{
    struct buf path;
    struct buf out;
    str body = {0};
    (void)status;
    buf_init(&path, NULL, PATH_BYTES);
    buf_z(&path, "/compactor/deletions?");
    put_tenant(c, &path);
    buf_byte(&path, '\0');
    bool ok = buf_ok(&path, e) && cli_fetch(c, "GET", path.p, ELSEWHERE, &body, e);
    buf_release(&path);
    if (!ok || cli_wants_json(c)) return ok && cli_print(c, body, e);
    buf_init(&out, NULL, OUTPUT_MAX);
    ok = put_rows(c, body, &out) ||
         err_set(e, ERR_UNKNOWN, "%.*s sent no list of deletions", STR(c->url.shown));
    ok = ok && buf_ok(&out, e) && cli_print(c, buf_view(&out), e);
    buf_release(&out);
    return ok;
}
