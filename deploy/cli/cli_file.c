// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_file.h"

#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_losses.h"

#include <string.h>
#include <sys/stat.h>

#define PICTURE_MAX ((size_t)1 << 30)

bool cli_is_file(const char *path)
{
    struct stat st;
    return strcmp(path, "-") == 0 || (path[0] && stat(path, &st) == 0 && !S_ISDIR(st.st_mode));
}

// ---- reading

void cli_file_say_types(struct cli *c, const char *path, enum cli_option type,
                        const struct profiles *p, size_t row)
{
    struct buf b;
    if (p->count < 2 || cli_args_has(&c->args, type)) return;
    buf_init(&b, NULL, 4096);
    for (size_t i = 0; i < p->count; i++) {
        if (i == row || p->types[i].again) continue;
        if (b.n) buf_z(&b, ", ");
        profiles_put_type(&b, &p->types[i]);
    }
    str others = buf_view(&b);
    if (others.n == 0) {
        buf_release(&b);
        return;
    }
    struct buf shown;
    struct buf chosen;
    buf_init(&shown, NULL, PICTURE_MAX);
    buf_init(&chosen, NULL, PICTURE_MAX);
    text_put(&shown, others);
    profiles_put_type(&chosen, &p->types[row]);
    cli_say(c, "%s: %.*s; --type chooses another: %.*s", path, STR(buf_view(&chosen)),
            STR(buf_view(&shown)));
    buf_release(&chosen);
    buf_release(&shown);
    buf_release(&b);
}

// Tells the losses of a file: samples that the decoder left out or mended, and rates it assumed.
static void say_file_losses(struct cli *c, const char *path, const struct profiles *p)
{
    struct losses all = {0};
    for (size_t i = 0; i < p->decoded.count; i++)
        losses_merge(&all, &p->decoded.profiles[i].losses);
    cli_losses_say(c, path, &all);
}

bool cli_file_read(struct cli *c, const char *path, enum cli_option type, struct profiles *p,
                   size_t *row, int *status, err *e)
{
    struct profiles_options o = {
        .format = upload_format_of(str_of(cli_args_get(&c->args, OPT_FORMAT_PUSH)))};
    *p = (struct profiles){0};
    o.rate_given = cli_args_has(&c->args, OPT_SAMPLE_RATE);
    if (!cli_args_number(&c->args, OPT_SAMPLE_RATE, 0, 1000000000, &o.sample_rate, e))
        return cli_wrong(status);
    if (!profiles_read(&c->arena, path, &o, p, e)) return false;
    say_file_losses(c, path, p);
    const char *wanted = cli_args_get(&c->args, type);
    if (!profiles_choose(p, str_of(wanted ? wanted : ""), row, e)) return err_wrap(e, "%s", path);
    return true;
}

// ---- for people

static struct draw_unit unit_of(const struct profiles_type *t)
{
    struct draw_unit u = {TEXT_COUNT, 1};
    u.unit = text_unit_of(t->unit, &u.factor);
    return u;
}

static void put_heading(struct cli *c, struct buf *b, const char *path,
                        const struct profiles_type *t, int64_t total)
{
    assert(t);
    struct draw_unit u = unit_of(t);
    char value[TEXT_NUMBER_MAX];
    struct buf type;
    buf_init(&type, NULL, 4096);
    profiles_put_type(&type, t);
    text_ink(b, c->look.colors, INK_STRONG);
    text_put(b, buf_view(&type));
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
    text_ink(b, c->look.colors, INK_DIM);
    buf_printf(b, "%s total, ", text_value(value, (double)total * u.factor, u.unit));
    text_put(b, strcmp(path, "-") == 0 ? S("standard input") : str_of(path));
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
    buf_release(&type);
}

struct picture {
    struct profiles p;
    size_t row;
    struct flame flame;
};

// Reads the file and makes its flame graph, with names for people.
static bool picture(struct cli *c, const char *path, enum cli_option type, struct picture *out,
                    int *status, err *e)
{
    struct flame *f = &out->flame;
    if (!cli_file_read(c, path, type, &out->p, &out->row, status, e) ||
        !profiles_flame(&c->arena, &out->p, out->row, f, e))
        return false;
    assert(out->p.types && out->row < out->p.count);
    cli_file_say_types(c, path, type, &out->p, out->row);
    if (f->count == 0 || f->total == 0) {
        *status = CLI_NO_DATA;
        return err_set(e, ERR_NOT_FOUND, "%s: its samples have no stacks, or add up to 0", path);
    }
    for (uint32_t i = 0; i < f->name_count; i++)
        f->names[i] = draw_readable(&c->arena, f->names[i]);
    return arena_ok(&c->arena, e);
}

bool cli_flame(struct cli *c, int *status, err *e)
{
    struct picture x;
    struct buf b;
    const char *path = c->args.operands[0];
    uint64_t depth = 0;
    if (!cli_width(c, e) || !cli_args_number(&c->args, OPT_DEPTH, 1, UINT32_MAX, &depth, e))
        return cli_wrong(status);
    buf_init(&b, NULL, PICTURE_MAX);
    bool ok = picture(c, path, OPT_FILE_TYPE, &x, status, e);
    if (ok) {
        const struct profiles_type *t = &x.p.types[x.row];
        put_heading(c, &b, path, t, x.flame.total);
        draw_flame(&b, &x.flame, &c->look, unit_of(t), (uint32_t)depth);
        ok = cli_write(c, &b, e);
    }
    buf_release(&b);
    profiles_release(&x.p);
    return ok;
}

bool cli_top_file(struct cli *c, const char *path, uint64_t rows, int *status, err *e)
{
    struct picture x;
    struct buf b;
    struct flame_function *v = NULL;
    size_t n = 0;
    buf_init(&b, NULL, PICTURE_MAX);
    bool ok = picture(c, path, OPT_TYPE, &x, status, e) &&
              flame_functions(&x.flame, &c->arena, &v, &n, e);
    if (ok) {
        const struct profiles_type *t = &x.p.types[x.row];
        flame_functions_by_self(v, n);
        put_heading(c, &b, path, t, x.flame.total);
        draw_functions(&b, v, MIN(n, (size_t)rows), x.flame.total, &c->look, unit_of(t));
        ok = cli_write(c, &b, e);
    }
    buf_release(&b);
    profiles_release(&x.p);
    return ok;
}
