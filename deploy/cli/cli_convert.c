// SPDX-License-Identifier: Apache-2.0
//
// convert: a file of profiles in another format.
#include "codec/compress.h"
#include "deploy/cli/cli_file.h"
#include "deploy/cli/cli_output.h"
#include "querier/request/render_json.h"

#include <string.h>

#define OUT_MAX    (SIZE_MAX / 2)
#define GZIP_LEVEL 6

enum target {
    TO_AUTO,
    TO_PPROF,
    TO_FOLDED,
    TO_FLAMEBEARER,
    TO_SPEEDSCOPE
};

static const char *const targets[] = {"auto", "pprof", "folded", "flamebearer", "speedscope"};

static const struct {
    const char *ending;
    enum target target;
} endings[] = {
    {".pb.gz", TO_PPROF},
    {".pb", TO_PPROF},
    {".pprof", TO_PPROF},
    {".folded", TO_FOLDED},
    {".collapsed", TO_FOLDED},
    {".txt", TO_FOLDED},
    {".flamebearer.json", TO_FLAMEBEARER},
    {".speedscope.json", TO_SPEEDSCOPE},
};

struct conversion {
    const char *in;
    const char *out;
    enum target target;
    struct profiles p;
    size_t row;
    bool typed;  // --type was given
    struct buf bytes;
};

static bool find_target(struct cli *c, struct conversion *v, err *e)
{
    const char *to = cli_args_get(&c->args, OPT_TO);
    for (size_t i = 0; i < COUNT(targets); i++)
        if (strcmp(targets[i], to) == 0) v->target = (enum target)i;
    for (size_t i = 0; v->target == TO_AUTO && i < COUNT(endings); i++)
        if (str_ends(str_of(v->out), str_of(endings[i].ending))) v->target = endings[i].target;
    if (v->target != TO_AUTO) return true;
    return err_set(
        e, ERR_INVALID_ARGUMENT,
        "%s: its ending tells no format; say one with --to pprof, folded, flamebearer or "
        "speedscope",
        v->out);
}

// ---- formats

static bool put_pprof(struct cli *c, struct conversion *v, err *e)
{
    struct buf plain;
    if (!profiles_is_alone(&v->p, v->row)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "%s has several profiles of this type, and pprof holds one; folded, "
                       "flamebearer and speedscope hold them all",
                       v->in);
    }
    buf_init(&plain, NULL, OUT_MAX);
    const struct profile *p = &v->p.decoded.profiles[v->p.types[v->row].profile];
    bool packed = !str_ends(str_of(v->out), S(".pb"));
    bool ok = decode_put_pprof(&c->arena, p, &plain, e);
    if (ok && packed) ok = compress_gzip(buf_view(&plain), GZIP_LEVEL, &v->bytes, e);
    if (ok && !packed) v->bytes = buf_take(&plain);
    buf_release(&plain);
    return ok;
}

static bool keep(void *arg, struct buf *b, err *e)
{
    struct conversion *v = arg;
    buf_str(&v->bytes, buf_view(b));
    buf_clear(b);
    return buf_ok(&v->bytes, e);
}

static bool put_folded(struct cli *c, struct conversion *v, err *e)
{
    struct flame f;
    struct buf b;
    struct flame_sink sink = {keep, v};
    buf_init(&b, NULL, OUT_MAX);  // a stack may be as long as the file
    bool ok = profiles_flame(&c->arena, &v->p, v->row, &f, e) &&
              (f.count == 0 || flame_folded(&f, &c->arena, &b, &sink, e));
    buf_release(&b);
    return ok;
}

static bool put_flamebearer(struct cli *c, struct conversion *v, err *e)
{
    struct buf graph;
    struct render_ticks ticks;
    const struct profiles_type *t = &v->p.types[v->row];
    const struct ptype type = {.sample_type = t->type, .sample_unit = t->unit};
    buf_init(&graph, NULL, OUT_MAX);
    buf_z(&v->bytes, "{\"version\":1,\"flamebearer\":");
    bool ok = profiles_graph(&c->arena, &v->p, v->row, &graph, e) &&
              render_flamebearer(buf_view(&graph), &ticks, &v->bytes, e);
    buf_z(&v->bytes, ",\"metadata\":");
    render_metadata("single", &type, &v->bytes);
    buf_z(&v->bytes, "}\n");
    buf_release(&graph);
    return ok && buf_ok(&v->bytes, e);
}

static bool put_speedscope(struct cli *c, struct conversion *v, err *e)
{
    size_t n = v->typed ? 1 : v->p.count;
    size_t *rows = ARENA_ARRAY(&c->arena, size_t, v->p.count);
    if (!rows) return arena_fail(&c->arena, e);
    for (size_t i = 0; i < n; i++)
        rows[i] = v->typed ? v->row : i;
    str name = strcmp(v->in, "-") == 0 ? S("standard input") : str_of(v->in);
    size_t slash = str_rfind(name, '/');
    if (slash < name.n) name = str_slice(name, slash + 1, name.n);
    return profiles_put_speedscope(&c->arena, &v->p, rows, n, name, &v->bytes, e);
}

static bool make(struct cli *c, struct conversion *v, err *e)
{
    switch (v->target) {
    case TO_PPROF:
        return put_pprof(c, v, e);
    case TO_FOLDED:
        return put_folded(c, v, e);
    case TO_FLAMEBEARER:
        return put_flamebearer(c, v, e);
    case TO_SPEEDSCOPE:
        return put_speedscope(c, v, e);
    case TO_AUTO:
        break;
    }
    return err_set(e, ERR_INTERNAL, "no format");
}

// ---- the command

static bool put_out(struct cli *c, void *arg, err *e)
{
    struct conversion *v = arg;
    if (!c->out_is_tty) return cli_write(c, &v->bytes, e);
    struct buf clean;
    buf_init(&clean, NULL, OUT_MAX);
    text_filter(&clean, buf_view(&v->bytes));
    bool ok = cli_write(c, &clean, e);
    buf_release(&clean);
    return ok;
}

bool cli_convert(struct cli *c, int *status, err *e)
{
    struct conversion v = {.in = c->args.operands[0], .out = c->args.operands[1]};
    if (!find_target(c, &v, e)) return cli_wrong(status);
    bool shown = strcmp(v.out, "-") == 0;
    if (shown && c->out_is_tty && v.target == TO_PPROF) {
        (void)err_set(e, ERR_INVALID_ARGUMENT, "pprof is binary and not for a terminal");
        return cli_wrong(status);
    }
    v.typed = cli_args_has(&c->args, OPT_FILE_TYPE);
    buf_init(&v.bytes, NULL, OUT_MAX);
    bool ok = cli_file_read(c, v.in, OPT_FILE_TYPE, &v.p, &v.row, status, e) && make(c, &v, e);
    if (ok && v.target != TO_SPEEDSCOPE) cli_file_say_types(c, v.in, OPT_FILE_TYPE, &v.p, v.row);
    if (ok) ok = shown ? put_out(c, &v, e) : cli_output_to(c, v.out, put_out, &v, e);
    buf_release(&v.bytes);
    profiles_release(&v.p);
    return ok;
}
