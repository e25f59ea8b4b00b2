// SPDX-License-Identifier: Apache-2.0
//
// export: what a server has (cli_harvest.h) as files (cli_series_file.h):
//
//     DIR/<service>/<profile type>/<fingerprint of the series>/<end of the step>.pb.gz
//
// Names of folders are for people, and import does not read them. A file appears under its name
// once it is complete.
#include "codec/compress.h"
#include "deploy/cli/cli_harvest.h"
#include "deploy/cli/cli_progress.h"
#include "deploy/cli/cli_series_file.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GZIP_LEVEL 3
#define FILE_MAX   ((size_t)2 << 30)
#define PART_MAX   100u  // bytes of a service or type in a name

struct export
{
    struct cli *c;
    struct cli_pace pace;
    struct cli_progress progress;
    const char *dir;
    double share;
    uint64_t files;
    uint64_t bytes;
    uint64_t there;  // files that were there already
    char path[4096];
};

// A text as a part of a name of a file: letters, digits, '.', '-' and '_'; not hidden.
static void put_part(struct buf *b, str text)
{
    text = str_slice(text, 0, PART_MAX);
    for (size_t i = 0; i < text.n; i++) {
        char ch = text.p[i];
        bool fine = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                    (ch >= '0' && ch <= '9') || ch == '-' || (ch == '.' && i > 0);
        buf_byte(b, (unsigned char)(fine ? ch : '_'));
    }
    if (text.n == 0) buf_byte(b, '_');
}

static void put_time(struct buf *b, int64_t ms)
{
    char text[64];
    struct tm tm;
    int64_t rest = ms % 1000;
    time_t seconds = (time_t)(ms / 1000);
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y%m%dT%H%M%S", &tm);
    buf_z(b, text);
    if (rest) buf_printf(b, ".%03d", (int)rest);
    buf_byte(b, 'Z');
}

// The path of a step's file; *folder is how much of it is the folder.
static bool path_of(struct export *x, const struct harvest_step *s, size_t *folder, err *e)
{
    struct buf b;
    buf_init(&b, NULL, sizeof x->path);
    buf_z(&b, x->dir);
    buf_byte(&b, '/');
    put_part(&b, labels_get(s->ls, S(LABEL_SERVICE)));
    buf_byte(&b, '/');
    put_part(&b, s->type);
    buf_printf(&b, "/%016" PRIx64, labels_fingerprint(s->ls));
    *folder = b.n;
    buf_byte(&b, '/');
    put_time(&b, s->until_ms);
    buf_z(&b, ".pb.gz");
    buf_byte(&b, '\0');
    bool ok = buf_ok(&b, e);
    if (ok) memcpy(x->path, b.p, b.n);
    buf_release(&b);
    return ok || err_wrap(e, "the name of a file below %s", x->dir);
}

static bool want(void *arg, const struct harvest_step *s, bool *wanted, err *e)
{
    struct export *x = arg;
    size_t folder = 0;
    if (!path_of(x, s, &folder, e)) return false;
    *wanted = !file_exists(x->path);
    x->there += !*wanted;
    return true;
}

static bool take(void *arg, const struct harvest_step *s, str pprof, err *e)
{
    struct export *x = arg;
    struct buf plain;
    struct buf packed;
    size_t folder = 0;
    buf_init(&plain, NULL, FILE_MAX);
    buf_init(&packed, NULL, FILE_MAX);
    bool ok = path_of(x, s, &folder, e) &&
              series_file_put(pprof, s->until_ms * NS_PER_MS, s->ls, &plain, e) &&
              compress_gzip(buf_view(&plain), GZIP_LEVEL, &packed, e);
    if (ok) {
        x->path[folder] = '\0';
        ok = dir_make(x->path, e);
        x->path[folder] = '/';
    }
    ok = ok && file_write(x->path, buf_view(&packed), e);
    if (ok) {
        char size[TEXT_NUMBER_MAX];
        x->files++;
        x->bytes += packed.n;
        cli_progress_draw(&x->progress, x->share, "%" PRIu64 " files, %s", x->files,
                          text_value(size, (double)x->bytes, TEXT_BYTES));
    }
    buf_release(&plain);
    buf_release(&packed);
    return ok;
}

static void told(void *arg, double share)
{
    struct export *x = arg;
    x->share = share;
}

static void summarize(struct export *x)
{
    char size[TEXT_NUMBER_MAX];
    cli_progress_erase(&x->progress);
    if (cli_args_has(&x->c->args, OPT_QUIET)) return;
    fprintf(stderr, "%" PRIu64 " file%s, %s, written below %s", x->files, x->files == 1 ? "" : "s",
            text_value(size, (double)x->bytes, TEXT_BYTES), x->dir);
    if (x->there) fprintf(stderr, "; %" PRIu64 " were there already", x->there);
    fputc('\n', stderr);
}

bool cli_export(struct cli *c, int *status, err *e)
{
    struct export *x = ARENA_NEW(&c->arena, struct export);
    struct harvest h = {.c = c, .want = want, .take = take, .told = told, .arg = x};
    if (!x) return arena_fail(&c->arena, e);
    x->c = c;
    x->dir = c->args.operands[0];
    h.pace = &x->pace;
    const char *selector = c->args.operand_count > 1 ? c->args.operands[1] : NULL;
    if (!cli_pace_read(c, &x->pace, e)) return cli_wrong(status);
    if (!harvest_read(&h, c, selector, status, e)) return false;
    cli_progress_begin(&x->progress, c);
    if (!dir_make(x->dir, e)) return false;
    bool ok = harvest_run(&h, e);
    if (ok || x->files) summarize(x);
    if (!ok) return false;
    if (x->files || x->there) return true;
    *status = CLI_NO_DATA;
    return err_set(e, ERR_NOT_FOUND, "the server has no profiles of %.*s in this range",
                   STR(h.selector));
}
