// SPDX-License-Identifier: Apache-2.0
//
// query: a merged profile as a picture, a table, or a file for other programs.
#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_merge.h"
#include "deploy/cli/cli_output.h"
#include "deploy/cli/cli_time.h"
#include "model/ptype.h"
#include "sys/clock.h"

#include <stdio.h>

#define PICTURE_MAX ((size_t)1 << 30)
#define GZIP_LEVEL  6
#define TOP_MAX     UINT64_C(1000000)

struct query_view {
    const char *format;
    uint64_t top;  // 0: no table
    uint64_t depth;
    double min;  // a share
    const char *output;
};

// ---- for people

static void put_heading(struct cli *c, struct buf *b, const struct cli_query *q, int64_t total)
{
    struct draw_unit u = cli_merge_unit(q->type);
    char value[TEXT_NUMBER_MAX];
    text_ink(b, c->look.colors, INK_STRONG);
    text_put(b, q->type);
    text_reset(b, c->look.colors);
    if (!str_is(q->selector, "{}")) {
        buf_byte(b, ' ');
        text_put(b, q->selector);
    }
    buf_byte(b, '\n');
    text_ink(b, c->look.colors, INK_DIM);
    buf_z(b, text_value(value, (double)total * u.factor, u.unit));
    buf_z(b, " total, ");
    cli_time_put_range(b, q->from_ns, q->until_ns);
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

static void put_top_json(struct buf *b, const struct flame_function *v, size_t n, int64_t total)
{
    assert(v || n == 0);
    buf_printf(b, "{\"total\":%lld,\"functions\":[", (long long)total);
    for (size_t i = 0; i < n; i++) {
        buf_z(b, i ? ",\n{\"function\":" : "\n{\"function\":");
        json_put_string(b, v[i].name);
        buf_printf(b, ",\"self\":%lld,\"total\":%lld}", (long long)v[i].self,
                   (long long)v[i].total);
    }
    buf_z(b, "]}\n");
}

static bool put_top(struct cli *c, struct buf *b, const struct cli_query *q, const struct flame *f,
                    const struct query_view *view, err *e)
{
    struct flame_function *v = NULL;
    size_t n = 0;
    if (!flame_functions(f, &c->arena, &v, &n, e)) return false;
    assert(view->top > 0);
    flame_functions_by_self(v, n);
    n = MIN(n, (size_t)view->top);
    if (strcmp(view->format, "json") == 0) {
        put_top_json(b, v, n, f->total);
        return true;
    }
    for (size_t i = 0; i < n; i++)
        v[i].name = draw_readable(&c->arena, v[i].name);
    put_heading(c, b, q, f->total);
    draw_functions(b, v, n, f->total, &c->look, cli_merge_unit(q->type));
    return true;
}

static bool put_folded(void *arg, struct buf *b, err *e)
{
    struct cli *c = arg;
    if (!c->out_is_tty) return cli_write(c, b, e);
    struct buf clean;
    buf_init(&clean, NULL, PICTURE_MAX);
    text_filter(&clean, buf_view(b));
    bool ok = cli_write(c, &clean, e);
    buf_release(&clean);
    // As after cli_write(c, b), which empties what it wrote: flame_folded goes on with this buffer.
    buf_clear(b);
    return ok;
}

static bool show_flame(struct cli *c, const struct cli_query *q, const struct query_view *view,
                       int *status, err *e)
{
    bool folded = strcmp(view->format, "folded") == 0;
    bool tree = strcmp(view->format, "tree") == 0;
    struct flame f;
    // A picture of a screen needs no more nodes than the server gives by itself. The others are
    // sums or lists of all stacks, and would be wrong without the small ones.
    if (!cli_merge_flame(c, q, folded || tree || view->top ? CLI_MERGE_ALL : 0, &f, e))
        return false;
    if (f.count == 0) return cli_query_is_empty(c, q, status, e);
    struct buf b;
    buf_init(&b, NULL, PICTURE_MAX);
    bool ok = true;
    if (view->top) {
        ok = put_top(c, &b, q, &f, view, e);
    } else if (folded) {
        struct flame_sink sink = {put_folded, c};
        ok = flame_folded(&f, &c->arena, &b, &sink, e);
    } else {
        // Not for folded stacks: other programs demangle on their own.
        for (uint32_t i = 0; i < f.name_count; i++)
            f.names[i] = draw_readable(&c->arena, f.names[i]);
        put_heading(c, &b, q, f.total);
        if (tree)
            draw_tree(&b, &f, &c->look, cli_merge_unit(q->type), view->min, (uint32_t)view->depth);
        else
            draw_flame(&b, &f, &c->look, cli_merge_unit(q->type), (uint32_t)view->depth);
    }
    ok = ok && cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}

// ---- for programs

// Writes text of the server, filtered if it goes to a terminal.
static bool write_text(struct cli *c, str text, err *e)
{
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    if (c->out_is_tty)
        text_filter(&b, text);
    else
        buf_str(&b, text);
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}

static bool show_json(struct cli *c, const struct cli_query *q, int *status, err *e)
{
    const struct cli_merge how = {QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH, 0};
    Querier__V1__SelectMergeStacktracesResponse *answer = NULL;
    if (!cli_merge_ask(c, q, &how, &answer, e)) return false;
    assert(answer);
    if (!answer->flamegraph || answer->flamegraph->total == 0)
        return cli_query_is_empty(c, q, status, e);
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    pbjson_print(&answer->base, &b);
    buf_byte(&b, '\n');
    bool ok = buf_ok(&b, e) && write_text(c, buf_view(&b), e);
    buf_release(&b);
    return ok;
}

static bool show_dot(struct cli *c, const struct cli_query *q, int *status, err *e)
{
    const struct cli_merge how = {QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT, 0};
    Querier__V1__SelectMergeStacktracesResponse *answer = NULL;
    if (!cli_merge_ask(c, q, &how, &answer, e)) return false;
    str dot = pb_text(answer->dot);
    if (dot.n > 0) return write_text(c, dot, e);
    // No text means no data or an old server, which then sends the flame graph all the same.
    if (!answer->flamegraph || answer->flamegraph->total == 0)
        return cli_query_is_empty(c, q, status, e);
    return err_set(e, ERR_UNIMPLEMENTED, "the server at %.*s does not support --format dot",
                   STR(c->url.shown));
}

static bool show_pprof(struct cli *c, const struct cli_query *q, int *status, err *e)
{
    if (c->out_is_tty) {
        err_set(e, ERR_INVALID_ARGUMENT,
                "pprof is binary and not for a terminal; write it into a file with -o FILE");
        return cli_wrong(status);
    }
    Querier__V1__SelectMergeProfileRequest m = QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST__INIT;
    m.profile_typeid = pb_z(&c->arena, q->type);
    m.label_selector = pb_z(&c->arena, q->selector);
    m.start = q->from_ns / NS_PER_MS;
    m.end = q->until_ns / NS_PER_MS;
    uint64_t nodes = 0;
    if (!cli_args_number(&c->args, OPT_MAX_NODES, 1, INT64_MAX, &nodes, e))
        return cli_wrong(status);
    if (nodes > 0) {
        m._max_nodes_case = QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST___MAX_NODES_MAX_NODES;
        m.max_nodes = (int64_t)nodes;
    }
    struct buf profile;
    struct buf packed;
    buf_init(&profile, NULL, SIZE_MAX / 2);
    buf_init(&packed, NULL, SIZE_MAX / 2);
    bool ok = cli_ask_bytes(c, "SelectMergeProfile", &m.base, &google__v1__profile__descriptor,
                            &profile, e);
    // The server answers a profile without samples if there is no data. An empty file would hide
    // that.
    bool has_sample = false;
    struct pb_reader r = pb_reader(buf_view(&profile));
    while (ok && !has_sample && pb_next(&r))
        has_sample = r.field == 2;
    if (ok && !has_sample) ok = cli_query_is_empty(c, q, status, e);
    ok =
        ok && compress_gzip(buf_view(&profile), GZIP_LEVEL, &packed, e) && cli_write(c, &packed, e);
    buf_release(&profile);
    buf_release(&packed);
    return ok;
}

// ---- the command

static bool read_view(struct cli *c, struct query_view *v, err *e)
{
    v->format = cli_args_get(&c->args, OPT_FORMAT);
    double percent = 0;
    uint64_t nodes = 0;
    if (!cli_args_number(&c->args, OPT_TOP, 1, TOP_MAX, &v->top, e) ||
        !cli_args_number(&c->args, OPT_DEPTH, 1, UINT32_MAX, &v->depth, e) ||
        !cli_args_number(&c->args, OPT_MAX_NODES, 1, INT64_MAX, &nodes, e) ||
        !cli_args_fraction(&c->args, OPT_MIN, 0, 100, &percent, e) || !cli_width(c, e))
        return false;
    assert(percent >= 0 && percent <= 100);
    v->min = percent / 100;
    bool flame = strcmp(v->format, "flame") == 0;
    bool tree = strcmp(v->format, "tree") == 0;
    if (v->depth && (v->top || !(flame || tree)))
        return err_set(e, ERR_INVALID_ARGUMENT, "--depth is for --format flame and tree");
    if (cli_args_has(&c->args, OPT_MIN) && !tree)
        return err_set(e, ERR_INVALID_ARGUMENT, "--min is for --format tree");
    bool table = flame || strcmp(v->format, "json") == 0;
    if (v->top && !table)
        return err_set(e, ERR_INVALID_ARGUMENT, "--top makes a table or JSON, not --format %s",
                       v->format);
    return true;
}

static bool show(struct cli *c, const struct cli_query *q, const struct query_view *view,
                 int *status, err *e)
{
    if (strcmp(view->format, "pprof") == 0) return show_pprof(c, q, status, e);
    if (strcmp(view->format, "dot") == 0) return show_dot(c, q, status, e);
    if (strcmp(view->format, "json") == 0 && !view->top) return show_json(c, q, status, e);
    return show_flame(c, q, view, status, e);
}

struct shown {
    const struct cli_query *q;
    const struct query_view *view;
    int *status;
};

static bool show_in_file(struct cli *c, void *arg, err *e)
{
    const struct shown *s = arg;
    return show(c, s->q, s->view, s->status, e);
}

bool cli_query(struct cli *c, int *status, err *e)
{
    struct query_view view = {0};
    struct cli_query q = {0};
    view.output = cli_args_get(&c->args, OPT_OUTPUT);
    if (view.output && strcmp(view.output, "-") == 0) view.output = NULL;
    if (view.output) c->out_is_tty = false;
    if (!read_view(c, &view, e) || !cli_range(c, &q.from_ns, &q.until_ns, e))
        return cli_wrong(status);
    const char *text = c->args.operand_count ? c->args.operands[0] : NULL;
    if (!cli_query_read(c, text, &q, status, e)) return false;
    if (!view.output) return show(c, &q, &view, status, e);
    struct shown shown = {&q, &view, status};
    return cli_output_to(c, view.output, show_in_file, &shown, e);
}
