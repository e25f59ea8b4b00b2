// SPDX-License-Identifier: Apache-2.0
//
// import: profiles of files, or of another server, into the store behind a compactor.
#include "deploy/cli/cli_import.h"

#include "base/hash.h"
#include "codec/json.h"
#include "deploy/cli/cli_given_labels.h"
#include "deploy/cli/cli_harvest.h"
#include "deploy/cli/cli_series_file.h"
#include "model/slot.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define FILE_MAX     ((size_t)2 << 30)
#define RUN_MOST_NS  (300 * (uint64_t)NS_PER_S)
#define SAMPLE_EVERY 16u  // steps of a server that a dry run fetches: one in so many

// ---- from a server

struct sourcing {
    struct import *m;
    struct cli from;
    str name;  // of the server, in the ids
    struct harvest h;
    uint64_t steps;
    uint64_t fetched;
    uint64_t fetched_bytes;
};

static bool want(void *arg, const struct harvest_step *step, bool *wanted, err *e)
{
    struct sourcing *s = arg;
    (void)step;
    (void)e;
    // A dry run fetches some, to know how large they are.
    *wanted = !s->m->dry || s->steps % SAMPLE_EVERY == 0;
    s->steps++;
    return true;
}

static bool take(void *arg, const struct harvest_step *step, str pprof, err *e)
{
    struct sourcing *s = arg;
    struct import *m = s->m;
    struct buf timed;
    struct import_profile p = {.name = "a profile of the server", .bytes = pprof.n};
    int64_t time_ns = step->until_ms * NS_PER_MS;
    s->fetched++;
    s->fetched_bytes += pprof.n;
    p.hour = slot_of(time_ns, SLOT_HOUR);
    if (import_is_full(m, p.hour) && !import_flush(m, 0, e)) return false;
    buf_init(&timed, NULL, FILE_MAX);
    bool ok = series_file_put(pprof, time_ns, step->ls, &timed, e);
    label *v = ARENA_ARRAY(&m->piece, label, step->ls.n + m->given.n);
    size_t n = 0;
    for (size_t i = 0; v && i < m->given.n; i++)
        v[n++] = m->given.v[i];
    for (size_t i = 0; v && i < step->ls.n; i++) {
        label l = step->ls.v[i];
        bool over = series_file_is_added(l.name);
        for (size_t k = 0; k < m->given.n; k++)
            over |= str_eq(m->given.v[k].name, l.name);
        // Copied: the server's answer goes before the piece.
        if (!over) v[n++] = (label){arena_str(&m->piece, l.name), arena_str(&m->piece, l.value)};
    }
    if (v) labels_sort(v, n);
    p.ls = (labels){v, n};
    // Not by its bytes: a server may answer the same step with other bytes later.
    p.id = arena_printf(&m->piece, "server/%.*s/%" PRId64, STR(s->name), s->h.step_ms);
    p.pprof = buf_view(&timed);
    ok = ok && arena_ok(&m->piece, e) && import_add(m, &p, e);
    buf_release(&timed);
    return ok;
}

static uint64_t key_of(const struct sourcing *s, int64_t until_ms)
{
    struct hash_state h;
    int64_t words[] = {until_ms, s->h.step_ms};
    hash_begin(&h);
    hash_add(&h, words, sizeof words);
    hash_add(&h, s->name.p, s->name.n);
    hash_add(&h, "\n", 1);
    hash_add(&h, s->h.selector.p, s->h.selector.n);
    hash_add(&h, "\n", 1);
    hash_add(&h, s->h.type.p, s->h.type.n);
    return hash_end(&h);
}

static bool skip(void *arg, int64_t until_ms)
{
    const struct sourcing *s = arg;
    return import_is_done(s->m, key_of(s, until_ms));
}

static bool past(void *arg, int64_t until_ms, err *e)
{
    struct sourcing *s = arg;
    struct import *m = s->m;
    // What is noted must have been sent; without a state file small hours go together.
    if (!m->state_path && m->body.n < IMPORT_MANY) return true;
    return import_flush(m, key_of(s, until_ms), e);
}

static void told(void *arg, double share)
{
    struct sourcing *s = arg;
    s->m->share = share;
}

static bool import_server(struct import *m, int *status, err *e)
{
    struct cli *c = m->c;
    struct sourcing s = {.m = m};
    if (c->args.operand_count > 1) {
        err_set(e, ERR_INVALID_ARGUMENT, "with --source there is one selector at most");
        return cli_wrong(status);
    }
    const char *selector = c->args.operand_count ? c->args.operands[0] : NULL;
    if (!cli_ask_source(c, &s.from, e)) return cli_wrong(status);
    s.h = (struct harvest){.c = &s.from,
                           .want = want,
                           .take = take,
                           .told = told,
                           .past = past,
                           .skip = skip,
                           .arg = &s,
                           .pace = &m->pace};
    s.name = str_of(cli_args_get(&c->args, OPT_SOURCE_NAME));
    if (!s.name.n) s.name = s.from.url.shown;
    // Options are those of the command, whoever is asked.
    s.from.args = c->args;
    bool ok = harvest_read(&s.h, &s.from, selector, status, e) && harvest_run(&s.h, e) &&
              import_flush(m, 0, e);
    if (!ok) snprintf(c->hint, sizeof c->hint, "%s", s.from.hint);
    arena_release(&s.from.arena);
    if (ok && m->dry && s.fetched) {
        double each = (double)s.steps / (double)s.fetched;
        char size[TEXT_NUMBER_MAX];
        char store[TEXT_NUMBER_MAX];
        cli_progress_erase(&m->progress);
        fprintf(stderr,
                "the source has %" PRIu64 " profiles of series and steps, about %s; in the store "
                "they take about %s (%" PRIu64 " were fetched to know)\n",
                s.steps, text_value(size, (double)s.fetched_bytes * each, TEXT_BYTES),
                text_value(store, (double)m->store_bytes * each, TEXT_BYTES), s.fetched);
    }
    return ok;
}

// ---- the end

// One round of compaction; *settled: nothing is left to do.
static bool compact_once(struct import *m, bool *settled, err *e)
{
    struct cli_call call = {0};
    str body = {0};
    cli_call_start(m->c, &call, "POST", "/compactor/run?timeout=10s", NULL, (str){0});
    bool ok = cli_call_wait(m->c, &call, &body, e);
    *settled = ok && str_contains(body, S("\"settled\":true"));
    cli_call_release(&call);
    return ok;
}

// Sums of hours and days make questions over the imported time cheap; without this they would be
// made within the compactor's intervals.
static void compact(struct import *m)
{
    err fault = {0};
    bool settled = false;
    uint64_t began = clock_mono_ns();
    if (m->dry || m->rows == 0 || cli_args_has(&m->c->args, OPT_NO_COMPACT)) return;
    while (!settled && clock_mono_ns() - began < RUN_MOST_NS) {
        cli_progress_draw(&m->progress, -1, "compacting what was imported");
        if (!compact_once(m, &settled, &fault)) break;
    }
    m->c->hint[0] = '\0';
    cli_progress_erase(&m->progress);
    if (!settled)
        cli_say(m->c, "the compactor goes on by itself%s%s", fault.code ? ": " : "", fault.msg);
}

static void summarize(struct import *m)
{
    char size[TEXT_NUMBER_MAX];
    char store[TEXT_NUMBER_MAX];
    cli_progress_erase(&m->progress);
    if (cli_args_has(&m->c->args, OPT_QUIET)) return;
    fprintf(stderr,
            "%s%" PRIu64 " profiles, %s: %" PRIu64 " rows %s, which take %s in the store; %" PRIu64
            " rows were there already\n",
            m->dry ? "dry run: " : "", m->profiles, text_value(size, (double)m->bytes, TEXT_BYTES),
            m->rows, m->dry ? "would be added" : "were added",
            text_value(store, (double)m->store_bytes, TEXT_BYTES), m->rows_there);
    if (m->skipped)
        fprintf(stderr, "%" PRIu64 " files were not read, as %s says that they are done\n",
                m->skipped, m->state_path);
}

bool cli_import(struct cli *c, int *status, err *e)
{
    struct import *m = ARENA_NEW(&c->arena, struct import);
    if (!m) return arena_fail(&c->arena, e);
    bool server = cli_args_get(&c->args, OPT_SOURCE) != NULL;
    m->state_fd = -1;
    if (!server && c->args.operand_count == 0) {
        err_set(e, ERR_INVALID_ARGUMENT, "give files or folders, or --source URL");
        return cli_wrong(status);
    }
    if (!cli_given_labels(c, &m->given, e)) return cli_wrong(status);
    bool ok = import_open(m, c, e) || cli_wrong(status);
    ok = ok && (server ? import_server(m, status, e) : import_files(m, status, e));
    if (ok) compact(m);
    if (ok || m->pieces) summarize(m);
    import_close(m);
    if (!ok) return false;
    if (m->faults == 0) return true;
    return err_set(e, ERR_UNKNOWN, "%" PRIu64 " profiles could not be imported", m->faults);
}
