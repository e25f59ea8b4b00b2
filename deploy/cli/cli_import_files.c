// SPDX-License-Identifier: Apache-2.0
//
// cli_import_files.c - files of profiles, in order of their times. Two passes: the first finds the
// time of each file, the second reads and sends. So an hour's profiles come together, wherever they
// lie, and become one leaf.
#include "base/hash.h"
#include "codec/compress.h"
#include "codec/pb.h"
#include "deploy/cli/cli_files.h"
#include "deploy/cli/cli_import.h"
#include "deploy/cli/cli_name_time.h"
#include "deploy/cli/cli_series_file.h"
#include "deploy/cli/cli_upload.h"
#include "distributor/ingest_type.h"
#include "model/slot.h"
#include "sys/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((size_t)2 << 30)
#define P_TYPE         1u
#define P_STRING       6u
#define P_TIME         9u
#define TYPES_MAX      64u

struct timed {
    const char *path;
    int64_t time_ns;
    uint64_t bytes;  // of the file
    uint64_t key;    // hash of path, size, time of the file and of the profile
};

struct filing {
    struct import *m;
    struct timed *v;
    size_t n;
    uint64_t all_bytes;
    uint64_t past_bytes;
    const char *time;  // "profile", "name" or "file"
    str pattern;
};

// The uncompressed bytes of a file; *plain borrows from one of the two.
static bool read_plain(const char *path, struct buf *file, struct buf *inflated, str *plain, err *e)
{
    buf_init(file, NULL, FILE_BYTES_MAX);
    buf_init(inflated, NULL, FILE_BYTES_MAX);
    if (!cli_files_read(path, file, e)) return false;
    *plain = buf_view(file);
    if (!compress_is_gzip(*plain)) return true;
    if (!compress_gunzip(*plain, inflated, e)) return false;
    *plain = buf_view(inflated);
    return true;
}

static void release(struct buf *file, struct buf *inflated)
{
    buf_release(file);
    buf_release(inflated);
}

static bool profile_time(str pprof, int64_t *ns, err *e)
{
    struct pb_reader r = pb_reader(pprof);
    bool is_profile = false;
    *ns = 0;
    while (pb_next(&r)) {
        if (r.field == P_TIME && r.type == PB_VARINT) *ns = (int64_t)r.number;
        is_profile |= r.field == P_TYPE && r.type == PB_BYTES;
    }
    if (!pb_done(&r, e) || !is_profile)
        return err_set(e, ERR_INVALID_ARGUMENT, "it is no pprof profile");
    if (*ns > 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the profile has no time; --time name or --time file give it one");
}

static bool find_time(const struct filing *f, const char *path, const struct stat *st, int64_t *ns,
                      err *e)
{
    str name = str_of(path);
    size_t slash = str_rfind(name, '/');
    if (slash < name.n) name = str_slice(name, slash + 1, name.n);
    if (strcmp(f->time, "name") == 0) return name_time(f->pattern, name, ns, e);
    if (strcmp(f->time, "file") == 0) {
        *ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
        return true;
    }
    struct buf file;
    struct buf inflated;
    str plain = {0};
    bool ok = read_plain(path, &file, &inflated, &plain, e) && profile_time(plain, ns, e);
    release(&file, &inflated);
    return ok;
}

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a;
    const struct timed *y = b;
    int64_t i = slot_of(x->time_ns, SLOT_HOUR);
    int64_t k = slot_of(y->time_ns, SLOT_HOUR);
    // Within an hour by path: files of a series mostly lie together, and so do its symbols.
    if (i != k) return i < k ? -1 : 1;
    return strcmp(x->path, y->path);
}

static bool scan(struct filing *f, const struct cli_files *files, err *e)
{
    struct import *m = f->m;
    f->v = ARENA_ARRAY(&m->c->arena, struct timed, files->n + 1);
    if (!f->v) return arena_fail(&m->c->arena, e);
    for (size_t i = 0; i < files->n; i++) {
        struct timed *t = &f->v[f->n];
        struct stat st;
        err fault = {0};
        *t = (struct timed){.path = files->v[i]};
        bool ok = stat(t->path, &st) == 0 || err_set(&fault, ERR_NOT_FOUND, "%s", strerror(errno));
        if (!ok || !find_time(f, t->path, &st, &t->time_ns, &fault)) {
            if (!import_fault(m, t->path, &fault, e)) return false;
            continue;
        }
        uint64_t words[] = {(uint64_t)t->time_ns, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                            (uint64_t)st.st_mtim.tv_nsec};
        struct hash_state h;
        hash_begin(&h);
        hash_add(&h, t->path, strlen(t->path));
        hash_add(&h, words, sizeof words);
        t->key = hash_end(&h);
        t->bytes = (uint64_t)st.st_size;
        f->all_bytes += t->bytes;
        f->n++;
        cli_progress_draw(&m->progress, -1, "%zu of %zu files looked at", i + 1, files->n);
    }
    if (f->n) qsort(f->v, f->n, sizeof *f->v, by_time);
    m->progress.begun = false;  // the share that was there before counts from here
    return true;
}

// ---- labels

// The name that a push of the profile would get.
static bool guess_name(struct arena *a, str pprof, str *name, err *e)
{
    uint64_t rows[TYPES_MAX];
    struct profile_type types[TYPES_MAX];
    uint32_t n = 0;
    struct pb_reader r = pb_reader(pprof);
    while (pb_next(&r)) {
        if (r.field != P_TYPE || r.type != PB_BYTES || n == TYPES_MAX) continue;
        struct pb_reader t = pb_reader(r.bytes);
        rows[n] = 0;
        while (pb_next(&t))
            if (t.field == 1) rows[n] = t.number;
        n++;
    }
    memset(types, 0, sizeof types);
    uint64_t row = 0;
    for (r = pb_reader(pprof); pb_next(&r);) {
        if (r.field != P_STRING || r.type != PB_BYTES) continue;
        for (uint32_t i = 0; i < n; i++)
            if (rows[i] == row) types[i].type = r.bytes;
        row++;
    }
    const struct profile p = {.types = types, .type_count = n};
    const struct ingest_config none = {0};
    *name = arena_str(a, ingest_pprof_name(&p, &none));
    if (!arena_ok(a, e)) return false;
    return name->n ||
           err_set(e, ERR_INVALID_ARGUMENT, "the profile has no sample type; set one with --name");
}

static bool labels_of(struct import *m, const char *path, str pprof, labels *out, err *e)
{
    struct arena *a = &m->piece;
    labels own = {0};
    bool found = false;
    if (!series_file_labels(a, pprof, &own, &found, e)) return false;
    label *v = ARENA_ARRAY(a, label, own.n + m->given.n + 2);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (size_t i = 0; i < m->given.n; i++)
        v[n++] = m->given.v[i];
    if (m->name.n) v[n++] = (label){S(LABEL_NAME), m->name};
    size_t given = n;
    for (size_t i = 0; i < own.n; i++) {
        bool over = false;
        for (size_t k = 0; k < given; k++)
            over |= str_eq(v[k].name, own.v[i].name);
        if (!over) v[n++] = own.v[i];
    }
    labels_sort(v, n);
    labels all = {v, n};
    if (!labels_has(all, S(LABEL_NAME))) {
        str name = {0};
        if (!guess_name(a, pprof, &name, e)) return false;
        v[n++] = (label){S(LABEL_NAME), name};
    }
    if (!labels_has(all, S(LABEL_SERVICE)))
        v[n++] = (label){S(LABEL_SERVICE), arena_str(a, upload_service(str_of(path)))};
    assert(n <= own.n + m->given.n + 2);
    labels_sort(v, n);
    *out = (labels){v, n};
    return arena_ok(a, e);
}

// ---- a file

// The id of a profile among those of its series and time: its content, however it was compressed.
static str id_of(struct arena *a, str pprof)
{
    struct hash_state h;
    hash_begin(&h);
    hash_add(&h, pprof.p, pprof.n);
    uint64_t first = hash_end(&h);
    hash_add(&h, "2", 1);
    return arena_printf(a, "file/%016" PRIx64 "%016" PRIx64, first, hash_end(&h));
}

static bool add_plain(struct filing *f, const struct timed *t, str plain, err *fault)
{
    struct import *m = f->m;
    int64_t own = 0;
    struct buf changed;
    struct import_profile p = {.name = t->path,
                               .pprof = plain,
                               .bytes = plain.n,
                               .hour = slot_of(t->time_ns, SLOT_HOUR)};
    buf_init(&changed, NULL, FILE_BYTES_MAX);
    p.id = id_of(&m->piece, plain);
    bool of_profile = strcmp(f->time, "profile") == 0;
    bool ok = profile_time(plain, &own, fault);
    // Without a time of its own the profile gets another one all the same.
    if (!ok && !of_profile && strstr(fault->msg, "no time")) {
        *fault = (err){0};
        ok = true;
    }
    ok = ok && labels_of(m, t->path, plain, &p.ls, fault);
    if (ok && own != t->time_ns) {
        ok = upload_set_time(plain, t->time_ns, &changed, fault);
        p.pprof = buf_view(&changed);
    }
    ok = ok && import_add(m, &p, fault);
    buf_release(&changed);
    return ok;
}

static bool add_file(struct filing *f, const struct timed *t, err *e)
{
    struct buf file;
    struct buf inflated;
    str plain = {0};
    err fault = {0};
    bool ok =
        read_plain(t->path, &file, &inflated, &plain, &fault) && add_plain(f, t, plain, &fault);
    release(&file, &inflated);
    if (ok) return true;
    if (fault.code == ERR_RESOURCE_EXHAUSTED) {
        *e = fault;
        return err_wrap(e, "%s", t->path);
    }
    return import_fault(f->m, t->path, &fault, e);
}

// The end of the piece that begins at `at`, and its key; by sizes of files, so that one that is
// done is not read again.
static size_t piece_of(const struct filing *f, size_t at, uint64_t *key)
{
    struct hash_state h;
    size_t end = at;
    uint64_t all = 0;
    uint64_t of_hour = 0;
    unsigned hours = 0;
    hash_begin(&h);
    for (; end < f->n; end++) {
        const struct timed *t = &f->v[end];
        bool same = end > at && slot_of(t->time_ns, SLOT_HOUR) == slot_of(t[-1].time_ns, SLOT_HOUR);
        bool many = all >= IMPORT_MANY / 4 || hours >= IMPORT_HOURS;
        if (end > at && (same ? of_hour >= IMPORT_PART / 4 : many)) break;
        if (!same) of_hour = 0;
        hours += !same;
        of_hour += t->bytes;
        all += t->bytes;
        hash_add(&h, &t->key, sizeof t->key);
    }
    *key = hash_end(&h);
    return end;
}

static bool run(struct filing *f, err *e)
{
    struct import *m = f->m;
    for (size_t at = 0, end = 0; at < f->n; at = end) {
        uint64_t key = 0;
        end = piece_of(f, at, &key);
        bool done = import_is_done(m, key);
        for (size_t i = at; i < end; i++) {
            f->past_bytes += f->v[i].bytes;
            if (done)
                m->skipped++;
            else if (!add_file(f, &f->v[i], e))
                return false;
            // Files that were packed well make larger pieces than their sizes say.
            if (m->body.n >= 4 * IMPORT_PART && !import_flush(m, 0, e)) return false;
            m->share = f->all_bytes ? (double)f->past_bytes / (double)f->all_bytes : 1;
            import_tell(m);
        }
        if (!done && !import_flush(m, key, e)) return false;
    }
    return true;
}

bool import_files(struct import *m, int *status, err *e)
{
    struct cli *c = m->c;
    struct cli_files files;
    struct filing f = {.m = m, .time = cli_args_get(&c->args, OPT_IMPORT_TIME)};
    f.pattern = str_of(cli_args_get(&c->args, OPT_PATTERN));
    bool by_name = strcmp(f.time, "name") == 0;
    if (by_name != (f.pattern.n > 0)) {
        err_set(e, ERR_INVALID_ARGUMENT, "--time name and --pattern go together");
        return cli_wrong(status);
    }
    if (by_name && !name_time_check(f.pattern, e)) return cli_wrong(status);
    return cli_files_find(&c->arena, c->args.operands, c->args.operand_count, &files, e) &&
           scan(&f, &files, e) && run(&f, e);
}
