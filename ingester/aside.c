// SPDX-License-Identifier: Apache-2.0
#include "ingester/aside.h"

#include "base/fault.h"
#include "codec/json.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/stream_json.h"
#include "manifest/forgotten.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define SORT_NS   ((uint64_t)5 * NS_PER_S)
#define WORK_MAX  ((size_t)64 << 20)
#define BUFFERS   ((size_t)1 << 20)  // of RocksDB: nothing is written into a log that is set aside
#define WASTE     ".gone"
#define KNOWN_MAX ((size_t)256 << 20)  // of deletions, while a stream is recovered

static void dir_of(const struct ingester *in, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/ingester/forgotten", in->process->data_dir);
}

static void path_of(const struct ingester *in, id128 stream, char path[PATH_MAX])
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(path, PATH_MAX, "%s/ingester/forgotten/%s", in->process->data_dir, text);
}

// A log that is being removed has this name, so that none is taken for a log of which a part is
// gone already.
static void path_of_waste(const struct ingester *in, id128 stream, char path[PATH_MAX])
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(path, PATH_MAX, "%s/ingester/forgotten/%s" WASTE, in->process->data_dir, text);
}

bool aside_list(const struct ingester *in, struct arena *a, id128 **v, size_t *n, err *e)
{
    char path[PATH_MAX];
    size_t cap = 0;
    bool ok = true;
    *v = NULL;
    *n = 0;
    dir_of(in, path);
    DIR *d = opendir(path);
    if (!d && errno == ENOENT) return true;
    if (!d) return err_set(e, ERR_UNAVAILABLE, "%s: %s", path, strerror(errno));
    for (const struct dirent *f = readdir(d); ok && f; f = readdir(d)) {
        id128 stream;
        err ignored = {0};
        // What has not got its name yet is made anew; what has lost it goes.
        if (!ulid_parse(str_of(f->d_name), &stream, &ignored)) continue;
        ok = arena_grow(a, v, &cap, *n + 1, sizeof **v) || arena_fail(a, e);
        if (ok) (*v)[(*n)++] = stream;
    }
    (void)closedir(d);
    return ok;
}

static void tell_aside(struct ingester *in)
{
    struct arena a;
    char path[PATH_MAX];
    char first[ULID_TEXT] = "";
    id128 *v = NULL;
    size_t n = 0;
    err ignored = {0};
    arena_init(&a, NULL, WORK_MAX);
    dir_of(in, path);
    (void)!aside_list(in, &a, &v, &n, &ignored);
    if (n) ulid_print(v[0], first);
    arena_release(&a);
    if (n == 0) {
        notice_end(in->process->notices, "log.forgotten", str_of(in->process->id));
        return;
    }
    notice_raise(in->process->notices, "log.forgotten", str_of(in->process->id), NOTICE_FOREVER,
                 "logs of %zu streams that were forgotten lie in %s: their profiles are neither in "
                 "answers nor flushed. `flametree stream recover %s` takes those into the store "
                 "that were not deleted since, `flametree stream remove` removes them",
                 n, path, first);
}

// ---- at a start

// A log whose removal has begun: the note of its stream goes first, because it is by the log that
// this data directory is known to be the one.
static bool clear_one(const struct ingester *in, struct req *r, str name, const char *path, err *e)
{
    id128 stream;
    bool ours = str_ends(name, S(WASTE)) &&
                ulid_parse(str_slice(name, 0, name.n - strlen(WASTE)), &stream, e);
    *e = (err){0};
    return (!ours || forgotten_clear(in->process->store, r, stream, e)) && wal_remove(path, e);
}

// Copies that were not finished, and logs that were not removed to their end, have profiles that
// may have been deleted since. What cannot be removed is tried again at the next start.
static void clear_waste(const struct ingester *in, struct req *r)
{
    char above[PATH_MAX];
    dir_of(in, above);
    DIR *d = opendir(above);
    for (const struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
        char path[PATH_MAX];
        char text[LOG_QUOTE_MAX];
        err e = {0};
        str name = str_of(f->d_name);
        if (!str_ends(name, S(".part")) && !str_ends(name, S(WASTE))) continue;
        if (snprintf(path, sizeof path, "%s/%s", above, f->d_name) >= (int)sizeof path) continue;
        if (!clear_one(in, r, name, path, &e))
            log_warn(NULL, "log.not_removed", "dir=%s fault=%s", f->d_name,
                     log_quote(text, str_of(e.msg)));
    }
    if (d) (void)closedir(d);
}

static bool sort_out(struct ingester *in, id128 stream, err *e)
{
    char path[PATH_MAX];
    char text[ULID_TEXT];
    ulid_print(stream, text);
    path_of(in, stream, path);
    if (wal_is_remote(in->wal)) {
        wal_give_up(in->wal, stream);
        log_warn(NULL, "log.given_up", "stream=%s", text);
        return true;
    }
    if (!wal_set_aside(in->wal, stream, path, e)) return false;
    log_warn(NULL, "log.set_aside", "stream=%s to=%s", text, path);
    return true;
}

static bool sort_streams(struct ingester *in, struct req *r, bool *any, err *e)
{
    id128 *held = NULL;
    id128 *forgotten = NULL;
    size_t n = 0;
    size_t count = 0;
    if (!wal_all_streams(in->wal, &r->arena, &held, &n, e)) return false;
    if (n == 0) return true;
    if (!forgotten_names(in->process->store, r, &r->arena, &forgotten, &count, e)) {
        e->code = ERR_UNAVAILABLE;
        return err_wrap(e, "whether streams in the log were forgotten");
    }
    for (size_t i = 0; i < n; i++) {
        if (!id128_among(held[i], forgotten, count)) continue;
        if (!sort_out(in, held[i], e)) return err_wrap(e, "set aside");
        *any = true;
    }
    return true;
}

bool aside_sort(struct ingester *in, bool *any, err *e)
{
    struct req r;
    bool ok = true;
    *any = false;
    if (in->process->store) {
        req_init(&r, RANK_DUTY, NULL, WORK_MAX, SORT_NS);
        clear_waste(in, &r);
        ok = sort_streams(in, &r, any, e);
        req_release(&r);
    }
    if (ok) tell_aside(in);
    return ok;
}

// ---- looking

bool aside_print(struct ingester *in, struct req *r, struct buf *out, err *e)
{
    struct forgotten_stream *v = NULL;
    id128 *here = NULL;
    size_t n = 0;
    size_t count = 0;
    if (!forgotten_read(in->process->store, r, &r->arena, &v, &n, e) ||
        !aside_list(in, &r->arena, &here, &count, e))
        return false;
    buf_z(out, "{\"streams\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) buf_byte(out, ',');
        buf_byte(out, '{');
        stream_put_id(out, "stream", v[i].stream);
        buf_z(out, ",\"node\":");
        json_put_string(out, v[i].node);
        buf_byte(out, ',');
        stream_put_id(out, "directory", v[i].directory);
        buf_printf(out, ",\"log\":\"%s\"", stream_log_name(v[i].log));
        stream_put_time(out, "made", v[i].made_ns);
        stream_put_time(out, "forgotten", v[i].forgotten_ns);
        buf_printf(out, ",\"here\":%s}", id128_among(v[i].stream, here, count) ? "true" : "false");
    }
    buf_z(out, "]}\n");
    return buf_ok(out, e);
}

// ---- what deletions hide

struct tenant_deletions {
    str tenant;
    struct hide *v;
    size_t n;
};

struct missed {
    struct ingester *in;
    struct req *req;
    struct arena arena;  // of all below
    struct ended_deletion *ended;
    size_t ended_count;
    struct tenant_deletions *tenants;
    size_t tenant_count;
    size_t tenant_cap;
    struct head_filter filter;
};

static struct tenant_deletions *tenant_of(struct missed *m, str tenant)
{
    for (size_t i = m->tenant_count; i > 0; i--)
        if (str_eq(m->tenants[i - 1].tenant, tenant)) return &m->tenants[i - 1];
    return NULL;
}

static void give_hides(void *arg, str tenant, const struct hide **v, size_t *n)
{
    const struct tenant_deletions *t = tenant_of(arg, tenant);
    assert(t);  // missed_learn came before
    *v = t->v;
    *n = t->n;
}

static bool take_standing(struct missed *m, str tenant, struct manifest_tombstone **v, size_t *n,
                          bool *closed, err *e)
{
    struct manifests *ms = flush_manifests(m->in->flush);
    struct manifest *now = manifest_newest(ms, m->req, tenant, e);
    if (!now) return false;
    bool ok = manifest_tombstones(now, &m->arena, v, n, e);
    manifest_unref(now);
    return ok && tenants_is_closed(ms, m->req, tenant, closed, e);
}

static bool learn_deletions(struct missed *m, str tenant, err *e)
{
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    bool closed = false;
    if (!take_standing(m, tenant, &v, &n, &closed, e)) return false;
    if (!arena_grow(&m->arena, &m->tenants, &m->tenant_cap, m->tenant_count + 1,
                    sizeof *m->tenants))
        return arena_fail(&m->arena, e);
    struct tenant_deletions t = {.tenant = arena_str(&m->arena, tenant)};
    t.v = ARENA_ARRAY(&m->arena, struct hide, n + m->ended_count + 1);
    if (!t.v || !arena_ok(&m->arena, e)) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < n; i++)
        t.v[t.n++] = v[i].hide;
    for (size_t i = 0; i < m->ended_count; i++)
        if (str_eq(m->ended[i].tenant, tenant)) t.v[t.n++] = m->ended[i].hide;
    if (closed) t.v[t.n++] = (struct hide){.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    m->tenants[m->tenant_count++] = t;
    return true;
}

bool missed_learn(struct missed *m, str tenant, err *e)
{
    if (tenant_of(m, tenant) || learn_deletions(m, tenant, e)) return true;
    // Whatever its reason: no entry may be passed over for it.
    e->code = ERR_UNAVAILABLE;
    return err_wrap(e, "deletions of tenant %.*s", STR(tenant));
}

// ---- a log that is recovered: an ingester of its own, with nobody to ask it anything

static bool open_aside(struct ingester *x, const struct ingester *in, const char *path,
                       struct missed *m, err *e)
{
    const struct ingester_config *c = ingester_settings(in);
    const struct wal_options o = {.dir = path,
                                  .owner = in->process->id,
                                  .memory = in->process->memory,
                                  .buffers = BUFFERS,
                                  .cut_bytes = c->cut_bytes,
                                  .cut_age_ns = c->cut_age,
                                  .keep_ns = c->head_age};
    x->process = in->process;
    x->phase = INGESTER_READY;
    x->missed = m;
    x->head = head_new(in->process->memory, 0);
    head_set_filter(x->head, &m->filter);
    x->wal = wal_open(&o, e);
    if (!x->wal) return false;
    x->flush = flush_new(x, e);
    // It begins a stream too, which nothing is written into.
    return x->flush && wal_begin(x->wal, e) && flush_start(x->flush, e);
}

static void close_aside(struct ingester *x)
{
    if (x->wal) wal_drain(x->wal);
    if (x->flush) flush_drain(x->flush, 0);
    flush_free(x->flush);
    wal_close(x->wal);
    head_free(x->head);
}

// Cut by cut, so that the memory of one is enough.
static bool flush_all(struct ingester *x, struct req *r, struct aside_recovered *out, err *e)
{
    size_t n = wal_cuts(x->wal, NULL, 0);
    struct cut **cuts = ARENA_ARRAY(&r->arena, struct cut *, n + 1);
    struct flush_totals all = {0};
    bool ok = cuts || arena_fail(&r->arena, e);
    // None is made, and none goes before it was read.
    n = ok ? MIN(n, wal_cuts(x->wal, cuts, n)) : 0;
    for (size_t i = 0; ok && i < n; i++) {
        ok = req_alive(r, e) && replay_adopted(x, cuts[i], NULL, e) &&
             flush_await(x->flush, r, &all, e);
    }
    out->segments = all.segments;
    out->rows = all.rows;
    out->lost = wal_count(x->wal).lost_rows;
    n = wal_cuts(x->wal, NULL, 0);
    return ok && (n == 0 || err_set(e, ERR_UNAVAILABLE, "%zu cuts of it are left: try again", n));
}

static bool recover_log(struct ingester *in, struct req *r, id128 stream, const char *path,
                        struct aside_recovered *out, err *e)
{
    struct ingester x = {0};
    struct missed m = {.in = in, .req = r};
    m.filter = (struct head_filter){.hides = give_hides, .arg = &m};
    arena_init(&m.arena, in->process->memory, KNOWN_MAX);
    lock_init(&x.lock, LOCK_INGESTER);
    cond_init(&x.wake);
    known_ids_init(&x.known_ids, in->process->data_dir);
    bool ok =
        deletions_since(in->process->store, r, &m.arena, stream, &m.ended, &m.ended_count, e) &&
        open_aside(&x, in, path, &m, e) && flush_all(&x, r, out, e);
    out->deleted = m.filter.hidden;
    close_aside(&x);
    known_ids_release(&x.known_ids);
    cond_release(&x.wake);
    lock_release(&x.lock);
    arena_release(&m.arena);
    return ok;
}

// ---- requests

static bool is_own_directory(const struct ingester *in, id128 directory)
{
    const struct node_identity *me = in->process->identity;
    return me && id128_eq(me->directory, directory);
}

static bool find_forgotten(struct ingester *in, struct req *r, id128 stream, char path[PATH_MAX],
                           err *e)
{
    struct forgotten_stream *v = NULL;
    size_t n = 0;
    char text[ULID_TEXT];
    char waste[PATH_MAX];
    ulid_print(stream, text);
    path_of(in, stream, path);
    path_of_waste(in, stream, waste);
    if (!forgotten_read(in->process->store, r, &r->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!id128_eq(v[i].stream, stream)) continue;
        // Of its own directory this ingester knows what is there, and what is not.
        if (file_exists(path) || file_exists(waste) || is_own_directory(in, v[i].directory))
            return true;
        return err_set(e, ERR_NOT_FOUND,
                       "the log of stream %s is not in the data directory of this ingester: it was "
                       "on the disk of %.*s",
                       text, STR(v[i].node.n ? v[i].node : S("an unknown node")));
    }
    return err_set(e, ERR_NOT_FOUND, "no stream %s was forgotten", text);
}

// From the rename on the log is not there any more: a process that ends while its files go leaves
// nothing that could be recovered in part. The note goes last, so that what is left is found by it.
static bool remove_log(const struct ingester *in, id128 stream, const char *path, err *e)
{
    char above[PATH_MAX];
    char waste[PATH_MAX];
    dir_of(in, above);
    path_of_waste(in, stream, waste);
    if (file_exists(path)) {
        if (!wal_remove(waste, e)) return false;
        if (rename(path, waste) != 0)
            return err_set(e, ERR_UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    if (!file_exists(waste)) return true;
    if (!dir_sync(above, e)) return false;
    FAULT("aside.renamed");
    return wal_remove(waste, e) && dir_sync(above, e);
}

static bool clear_forgotten(struct ingester *in, struct req *r, id128 stream, const char *path,
                            err *e)
{
    FAULT("aside.clear");
    if (!remove_log(in, stream, path, e)) return false;
    FAULT("aside.cleared");
    bool ok = forgotten_clear(in->process->store, r, stream, e);
    tell_aside(in);
    return ok;
}

static bool begin_work(struct ingester *in, err *e)
{
    return !atomic_exchange(&in->recovering, true) ||
           err_set(e, ERR_RESOURCE_EXHAUSTED, "another forgotten stream is being worked on");
}

bool aside_recover(struct ingester *in, struct req *r, id128 stream, struct aside_recovered *out,
                   err *e)
{
    char path[PATH_MAX];
    *out = (struct aside_recovered){0};
    if (!ingester_answers(in, e) || !begin_work(in, e)) return false;
    bool ok = find_forgotten(in, r, stream, path, e) &&
              (!file_exists(path) || recover_log(in, r, stream, path, out, e)) &&
              clear_forgotten(in, r, stream, path, e);
    atomic_store(&in->recovering, false);
    if (!ok) return false;
    char text[ULID_TEXT];
    ulid_print(stream, text);
    log_warn(&r->log, "stream.recovered",
             "stream=%s segments=%llu rows=%llu deleted=%llu lost=%llu", text,
             (unsigned long long)out->segments, (unsigned long long)out->rows,
             (unsigned long long)out->deleted, (unsigned long long)out->lost);
    return true;
}

bool aside_remove(struct ingester *in, struct req *r, id128 stream, err *e)
{
    char path[PATH_MAX];
    if (!ingester_answers(in, e) || !begin_work(in, e)) return false;
    bool ok = find_forgotten(in, r, stream, path, e) && clear_forgotten(in, r, stream, path, e);
    atomic_store(&in->recovering, false);
    if (!ok) return false;
    char text[ULID_TEXT];
    ulid_print(stream, text);
    log_warn(&r->log, "stream.removed", "stream=%s", text);
    return true;
}
