// SPDX-License-Identifier: Apache-2.0
//
// push: files as requests, several under way at once, answered in the order in which they were
// sent.
//
//     1. while a slot is free: read a file, make the request, start it
//     2. wait for the oldest request, print its error; its slot is free then
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_files.h"
#include "deploy/cli/cli_given_labels.h"
#include "deploy/cli/cli_losses.h"
#include "deploy/cli/cli_otlp.h"
#include "deploy/cli/cli_perf_data.h"
#include "deploy/cli/cli_retry.h"
#include "deploy/cli/cli_upload.h"
#include "sys/clock.h"

#include <stdio.h>

#define FILE_BYTES_MAX    ((size_t)2 << 30)
#define WIDTH_OF_PROGRESS 78u
#define SLOTS_MAX         64
#define RETRIES_MAX       UINT64_C(1000)
#define QUIET_NS          ((uint64_t)NS_PER_S)  // before progress is shown
#define REDRAW_NS         ((uint64_t)NS_PER_S / 10)
#define POLL_MOST_NS      (NS_PER_S / 25)

struct slot {
    const char *file;
    struct arena arena;
    struct buf bytes;  // of the file
    struct upload upload;
    struct cli_call call;
    bool started;
    err fault;  // why it was not started
};

struct push {
    struct cli *c;
    struct upload_options options;
    struct cli_files files;
    struct slot slots[SLOTS_MAX];
    uint64_t slot_count;
    uint64_t retries;
    struct cli_pace pace;
    bool quiet;
    bool shows_progress;
    bool drawn;
    uint64_t begin_ns;
    uint64_t drawn_ns;
    size_t done;
    size_t failed;
    uint64_t done_bytes;
    char last_hint[CLI_HINT_MAX];
};

// ---- progress

static void erase(struct push *p)
{
    if (p->drawn) fputs("\r\x1b[K", stderr);
    p->drawn = false;
}

static void draw(struct push *p, const char *file)
{
    // A line that comes and goes within a second only flickers: short pushes show none.
    assert(p->done <= p->files.n);
    uint64_t now = clock_mono_ns();
    if (!p->shows_progress || now - p->begin_ns < QUIET_NS || now - p->drawn_ns < REDRAW_NS) return;
    char size[TEXT_NUMBER_MAX];
    char rate[TEXT_NUMBER_MAX];
    double seconds = (double)(now - p->begin_ns) / (double)NS_PER_S;
    struct buf b;
    buf_init(&b, NULL, 4096);
    buf_printf(&b, "%zu of %zu files, %s, %s/s  ", p->done, p->files.n,
               text_value(size, (double)p->done_bytes, TEXT_BYTES),
               text_value(rate, (double)p->done_bytes / seconds, TEXT_BYTES));
    struct buf line;
    buf_init(&line, NULL, 4096);
    buf_z(&line, "\r\x1b[K");
    buf_str(&b, str_of(file));
    text_put_cut(&line, buf_view(&b), WIDTH_OF_PROGRESS);
    if (!line.failed) fwrite(line.p, 1, line.n, stderr);
    // If the terminal is gone, the files are sent all the same, without a line.
    if (fflush(stderr) != 0) p->shows_progress = false;
    buf_release(&line);
    buf_release(&b);
    p->drawn = true;
    p->drawn_ns = now;
}

// Waits by polling, so that the progress line is updated meanwhile.
static void watch(struct push *p, struct slot *s)
{
    assert(s->started);
    int64_t pause = NS_PER_MS / 2;
    while (p->shows_progress && !call_is_over(&s->call.http.call)) {
        draw(p, s->file);
        cli_sleep_ns(pause);
        pause = MIN(pause * 2, POLL_MOST_NS);
    }
}

// ---- one file

static void complain(struct push *p, const struct slot *s, const err *e)
{
    assert(e->code);
    struct cli *c = p->c;
    erase(p);
    // Servers have no code of its own for a sample that is too old, so it is known by these words.
    if (strstr(e->msg, "ingestion window"))
        cli_hint(c, "use --time now to store it with the present time");
    cli_say(c, "%s: %s", strcmp(s->file, "-") == 0 ? "standard input" : s->file, e->msg);
    // A directory of old files fails file by file for one reason; its hint is printed once.
    if (c->hint[0] && strcmp(c->hint, p->last_hint) != 0) fprintf(stderr, "  hint: %s\n", c->hint);
    snprintf(p->last_hint, sizeof p->last_hint, "%s", c->hint);
    // Or the hint would be printed once more, below the summary of the command.
    c->hint[0] = '\0';
    p->failed++;
}

// Of what was stored: what the server left out or mended, in its words, before the call is
// released. That a rate was assumed was said when the file was read, or is not to be said.
static void push_note(struct push *p, const struct slot *s, str note)
{
    struct buf more;
    buf_init(&more, NULL, note.n + 1);
    for (str rest = note; rest.n;) {
        str one = str_split(rest, ',', &rest);
        bool said = s->upload.rate_assumed && str_starts(str_trim(one), S("assumed_rate="));
        if (said) continue;
        if (more.n) buf_byte(&more, ',');
        buf_str(&more, more.n ? one : str_trim(one));
    }
    if (more.n) {
        erase(p);
        cli_say(p->c, "%s: stored, with parts left out or mended: %.*s",
                strcmp(s->file, "-") == 0 ? "standard input" : s->file, STR(buf_view(&more)));
    }
    buf_release(&more);
}

static void start(struct push *p, struct slot *s, const char *file)
{
    assert(!s->started && p->done <= p->files.n);  // its last file was finished
    *s = (struct slot){.file = file};
    arena_init(&s->arena, NULL, (size_t)1 << 20);
    buf_init(&s->bytes, NULL, FILE_BYTES_MAX);
    // Anew for each file: a push may take hours, and servers refuse what is too old.
    p->options.now_ns = clock_wall_ns();
    struct upload_options options = p->options;
    bool perf_data = false;
    if (!cli_files_read(file, &s->bytes, &s->fault) ||
        !cli_perf_data_text(&s->bytes, &perf_data, &s->fault))
        return;
    if (perf_data) options.format = UPLOAD_PERF;
    if (!upload_make(&s->arena, &options, str_of(file), buf_view(&s->bytes), &s->upload, &s->fault))
        return;
    if (s->upload.rate_assumed && !p->quiet) cli_say(p->c, CLI_RATE_ASSUMED, file);
    cli_losses_say(p->c, file, &s->upload.losses);
    bool timed = s->upload.format == UPLOAD_PPROF || s->upload.format == UPLOAD_CHROME ||
                 s->upload.format == UPLOAD_OTLP;
    if (timed && cli_args_has(&p->c->args, OPT_SAMPLE_RATE)) {
        cli_say(p->c,
                "%s: --sample-rate is for formats that count samples; this one has its own times",
                file);
    }
    // Before the call begins: its timeout must not run while it waits here.
    cli_pace_bytes(&p->pace, s->upload.bytes.n);
    // The slot owns what the call reads, so both live until finish().
    cli_call_start(p->c, &s->call, "POST", s->upload.path, s->upload.content_type, s->upload.bytes);
    s->started = true;
}

static void finish(struct push *p, struct slot *s)
{
    struct cli *c = p->c;
    err e = s->fault;
    bool ok = false;
    for (uint64_t attempt = 0; s->started; attempt++) {  // not started: `fault` has the reason
        str body = {0};
        e = (err){0};
        watch(p, s);
        ok = cli_call_wait(c, &s->call, &body, &e);
        bool again = !ok && attempt < p->retries && cli_may_pass(&s->call, &e);
        int64_t pause = again ? cli_pause_of(&s->call, attempt) : 0;
        str note = ok ? s->call.discarded : (str){0};
        if (ok && s->upload.format == UPLOAD_OTLP) ok = cli_otlp_accepted(body, &note, &e);
        if (ok) push_note(p, s, note);
        cli_call_release(&s->call);  // after cli_may_pass and cli_pause_of, which read the answer
        if (!again) break;
        c->hint[0] = '\0';
        cli_sleep_ns(pause);
        cli_call_start(c, &s->call, "POST", s->upload.path, s->upload.content_type,
                       s->upload.bytes);
    }
    assert(ok || e.code);
    // Bytes of the file, as the user knows them, and not of the request.
    if (ok)
        p->done_bytes += s->bytes.n;
    else
        complain(p, s, &e);
    p->done++;
    s->started = false;
    upload_release(&s->upload);
    buf_release(&s->bytes);
    arena_release(&s->arena);
}

// ---- the command

static bool read_options(struct cli *c, struct push *p, err *e)
{
    p->c = c;
    p->slot_count = 1;
    p->options.format = upload_format_of(str_of(cli_args_get(&c->args, OPT_FORMAT_PUSH)));
    p->options.name = str_of(cli_args_get(&c->args, OPT_NAME));
    p->options.time_is_now = strcmp(cli_args_get(&c->args, OPT_TIME), "now") == 0;
    p->quiet = cli_args_has(&c->args, OPT_QUIET);
    p->shows_progress = c->err_is_tty && !p->quiet;
    p->options.sample_rate_given = cli_args_has(&c->args, OPT_SAMPLE_RATE);
    labels given = {0};
    if (!cli_given_labels(c, &given, e)) return false;
    p->options.labels = given.v;
    p->options.label_count = given.n;
    return cli_args_number(&c->args, OPT_SAMPLE_RATE, 0, 1000000000, &p->options.sample_rate, e) &&
           cli_args_number(&c->args, OPT_PARALLEL, 1, SLOTS_MAX, &p->slot_count, e) &&
           cli_args_number(&c->args, OPT_RETRY, 0, RETRIES_MAX, &p->retries, e) &&
           cli_pace_read(c, &p->pace, e);
}

static void summarize(struct push *p)
{
    char size[TEXT_NUMBER_MAX];
    char took[TEXT_NUMBER_MAX];
    assert(p->done == p->files.n && p->failed <= p->done);
    erase(p);
    size_t well = p->done - p->failed;
    if (p->quiet || well == 0) return;
    fprintf(stderr, "%zu file%s, %s, sent to %.*s in %s\n", well, well == 1 ? "" : "s",
            text_value(size, (double)p->done_bytes, TEXT_BYTES), STR(p->c->url.shown),
            text_value(took, (double)(clock_mono_ns() - p->begin_ns), TEXT_NS));
}

bool cli_push(struct cli *c, int *status, err *e)
{
    struct push *p = ARENA_NEW(&c->arena, struct push);
    if (!p) return arena_fail(&c->arena, e);
    if (!read_options(c, p, e)) return cli_wrong(status);
    if (!cli_files_find(&c->arena, c->args.operands, c->args.operand_count, &p->files, e))
        return false;
    p->begin_ns = clock_mono_ns();
    // A ring: file i is in slot i % slot_count, so the oldest one is always at `done`, and its slot
    // is the next to be used. Errors come in the order of the files for that reason.
    size_t started = 0;
    while (p->done < p->files.n) {
        while (started < p->files.n && started - p->done < p->slot_count) {
            start(p, &p->slots[started % p->slot_count], p->files.v[started]);
            started++;
            draw(p, p->files.v[started - 1]);
        }
        assert(started > p->done && started - p->done <= p->slot_count);
        finish(p, &p->slots[p->done % p->slot_count]);
    }
    assert(started == p->done);
    summarize(p);
    if (p->failed == 0) return true;
    if (p->files.n == 1) return false;  // was said
    return err_set(e, ERR_UNKNOWN, "%zu of %zu files failed", p->failed, p->files.n);
}
