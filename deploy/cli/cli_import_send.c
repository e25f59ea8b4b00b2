// SPDX-License-Identifier: Apache-2.0
//
// cli_import_send.c - pieces, and the state file.
#include "base/ulid.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "codec/url.h"
#include "deploy/cli/cli_import.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BODY_MAX    ((size_t)1 << 30)
#define STATE_MAX   ((size_t)1 << 30)
#define RETRIES_MAX UINT64_C(100000)
#define KEY_DIGITS  16u

// ---- the state file

static int by_key(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool read_state(struct import *m, err *e)
{
    struct buf b;
    size_t cap = 0;
    bool ok = true;
    buf_init(&b, NULL, STATE_MAX);
    if (file_exists(m->state_path)) ok = file_read(m->state_path, &b, e);
    str rest = buf_view(&b);
    while (ok && rest.n) {
        str line = str_split(rest, '\n', &rest);
        uint64_t v = 0;
        uint8_t raw[KEY_DIGITS / 2];
        // The last line may be cut: the command was killed while it wrote it.
        if (line.n == 0 || (rest.n == 0 && line.n < KEY_DIGITS)) continue;
        if (!hex_parse(line, raw, sizeof raw)) {
            ok = err_set(e, ERR_INVALID_ARGUMENT, "--state %s: it is not the state of an import",
                         m->state_path);
            break;
        }
        memcpy(&v, raw, sizeof v);
        ok = arena_grow(&m->c->arena, &m->done, &cap, m->done_count + 1, sizeof *m->done) ||
             arena_fail(&m->c->arena, e);
        if (ok) m->done[m->done_count++] = v;
    }
    buf_release(&b);
    if (m->done_count) qsort(m->done, m->done_count, sizeof *m->done, by_key);
    return ok;
}

static bool open_state(struct import *m, err *e)
{
    m->state_fd = -1;
    m->state_path = cli_args_get(&m->c->args, OPT_STATE);
    if (!m->state_path) return true;
    if (!read_state(m, e)) return false;
    if (m->dry) return true;
    m->state_fd = open(m->state_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (m->state_fd < 0)
        return err_set(e, ERR_UNAVAILABLE, "--state %s: %s", m->state_path, strerror(errno));
    // A line that was cut must not run into the next one.
    return write(m->state_fd, "\n", 1) == 1 ||
           err_set(e, ERR_UNAVAILABLE, "--state %s: %s", m->state_path, strerror(errno));
}

bool import_is_done(const struct import *m, uint64_t key)
{
    return m->done_count && bsearch(&key, m->done, m->done_count, sizeof key, by_key) != NULL;
}

static bool note_done(struct import *m, uint64_t key, err *e)
{
    char line[KEY_DIGITS + 2];
    if (m->state_fd < 0 || key == 0) return true;
    hex_print((const uint8_t *)&key, sizeof key, line);
    line[KEY_DIGITS] = '\n';
    // One write: a line is there whole, or is the cut end of the file.
    if (write(m->state_fd, line, KEY_DIGITS + 1) == (ssize_t)KEY_DIGITS + 1) return true;
    return err_set(e, ERR_UNAVAILABLE, "--state %s: %s", m->state_path, strerror(errno));
}

// ---- life

bool import_open(struct import *m, struct cli *c, err *e)
{
    m->c = c;
    m->dry = cli_args_has(&c->args, OPT_DRY_RUN);
    m->again = cli_args_has(&c->args, OPT_AGAIN);
    m->stop_at_fault = cli_args_has(&c->args, OPT_STOP);
    m->name = str_of(cli_args_get(&c->args, OPT_NAME));
    arena_init(&m->piece, NULL, (size_t)1 << 30);
    buf_init(&m->body, NULL, BODY_MAX);
    cli_progress_begin(&m->progress, c);
    return cli_pace_read(c, &m->pace, e) &&
           cli_args_number(&c->args, OPT_RETRY, 0, RETRIES_MAX, &m->retries, e) && open_state(m, e);
}

void import_close(struct import *m)
{
    cli_progress_erase(&m->progress);
    if (m->state_fd >= 0) (void)close(m->state_fd);
    m->state_fd = -1;
    buf_release(&m->body);
    arena_release(&m->piece);
}

bool import_fault(struct import *m, const char *name, const err *fault, err *e)
{
    cli_progress_erase(&m->progress);
    cli_say(m->c, "%s: %s", name, fault->msg);
    m->faults++;
    if (!m->stop_at_fault) return true;
    *e = (err){0};
    return err_set(e, ERR_INVALID_ARGUMENT, "stopped at the first profile that cannot be imported");
}

// ---- a piece

bool import_is_full(const struct import *m, int64_t hour)
{
    if (m->item_count == 0) return false;
    if (hour == m->hour) return m->hour_bytes >= IMPORT_PART;
    return m->body.n >= IMPORT_MANY || m->hours >= IMPORT_HOURS;
}

bool import_add(struct import *m, const struct import_profile *p, err *e)
{
    if (!arena_grow(&m->piece, &m->items, &m->item_cap, m->item_count + 1, sizeof *m->items))
        return arena_fail(&m->piece, e);
    if (m->item_count == 0) m->hours = 0;
    if (m->item_count == 0 || p->hour != m->hour) {
        m->hour_bytes = 0;
        m->hours++;
    }
    m->items[m->item_count++] = (struct import_item){p->name};
    m->hour = p->hour;
    m->hour_bytes += p->bytes;
    // The heads of the two messages come first, so that the profile is copied once.
    struct buf head;
    buf_init(&head, NULL, (size_t)1 << 24);
    for (size_t i = 0; i < p->ls.n; i++) {
        size_t mark = pb_begin(&head, 1);
        pb_put_bytes(&head, 1, p->ls.v[i].name);
        pb_put_bytes(&head, 2, p->ls.v[i].value);
        pb_end(&head, mark);
    }
    uint8_t lengths[64];
    uint8_t *at = pb_raw_head(lengths, 1, p->pprof.n);
    size_t sample = (size_t)(at - lengths) + p->pprof.n + 1 + varint_size(p->id.n) + p->id.n;
    size_t series = head.n + 1 + varint_size(sample) + sample;
    uint8_t outer[32];
    buf_put(&m->body, outer, (size_t)(pb_raw_head(outer, 1, series) - outer));
    buf_str(&m->body, buf_view(&head));
    buf_put(&m->body, outer, (size_t)(pb_raw_head(outer, 2, sample) - outer));
    buf_put(&m->body, lengths, (size_t)(at - lengths));
    buf_str(&m->body, p->pprof);
    pb_put_bytes(&m->body, 2, p->id);
    bool ok = buf_ok(&head, e) && buf_ok(&m->body, e);
    buf_release(&head);
    return ok;
}

struct answer {
    uint64_t profiles;
    uint64_t bytes;
    uint64_t rows;
    uint64_t rows_there;
    uint64_t store_bytes;
};

static bool read_fault(struct import *m, struct json_reader *r, err *e)
{
    uint64_t number = UINT64_MAX;
    err fault = {0};
    while (json_next(r) == JSON_KEY) {
        bool is_number = str_is(r->text, "profile");
        if (json_next(r) == JSON_FAULT) return err_set(e, ERR_UNKNOWN, "malformed answer");
        if (is_number) {
            if (!str_u64(r->text, &number)) number = UINT64_MAX;
        } else {
            err_set(&fault, ERR_INVALID_ARGUMENT, "%.*s", STR(str_slice(r->text, 0, 400)));
        }
    }
    const char *name = number < m->item_count ? m->items[number].name : "a profile";
    return import_fault(m, name, &fault, e);
}

static bool read_answer(struct import *m, str body, struct answer *out, err *e)
{
    const struct {
        const char *key;
        uint64_t *to;
    } fields[] = {{"profiles", &out->profiles},
                  {"bytes", &out->bytes},
                  {"rows", &out->rows},
                  {"rowsThere", &out->rows_there},
                  {"storeBytes", &out->store_bytes}};
    struct json_reader r;
    json_reader_init(&r, &m->piece, body);
    enum json_token t = json_next(&r);
    bool ok = t == JSON_OBJECT;
    while (ok && (t = json_next(&r)) == JSON_KEY) {
        uint64_t *to = NULL;
        for (size_t i = 0; i < COUNT(fields); i++)
            if (str_is(r.text, fields[i].key)) to = fields[i].to;
        if (to) {
            ok = json_next(&r) == JSON_NUMBER && str_u64(r.text, to);
        } else if (str_is(r.text, "faults")) {
            ok = json_next(&r) == JSON_ARRAY;
            while (ok && (t = json_next(&r)) == JSON_OBJECT)
                if (!read_fault(m, &r, e)) return false;
            ok = ok && t == JSON_ARRAY_END;
        } else {
            ok = json_skip(&r);
        }
    }
    return (ok && t == JSON_OBJECT_END) ||
           err_set(e, ERR_UNKNOWN, "the answer of the compactor is no answer to an import");
}

static const char *path_of(struct import *m)
{
    struct cli *c = m->c;
    struct buf b;
    buf_init(&b, NULL, 4096);
    buf_printf(&b, "/compactor/import?dry_run=%s&again=%s", m->dry ? "true" : "false",
               m->again ? "true" : "false");
    if (c->tenant.n) {
        buf_z(&b, "&tenant=");
        url_encode(&b, c->tenant);
    }
    const char *path = arena_str(&m->piece, buf_view(&b)).p;
    buf_release(&b);
    return path;
}

static bool send_piece(struct import *m, struct answer *out, err *e)
{
    struct cli *c = m->c;
    const char *path = path_of(m);
    if (!arena_ok(&m->piece, e)) return false;
    for (uint64_t attempt = 0;; attempt++) {
        struct cli_call call = {0};
        str body = {0};
        *e = (err){0};
        cli_call_start(c, &call, "POST", path, "application/proto", buf_view(&m->body));
        bool ok = cli_call_wait(c, &call, &body, e);
        if (ok) {
            ok = read_answer(m, body, out, e);
            cli_call_release(&call);
            return ok;
        }
        // A repeated piece is recognised, so one whose end nobody saw may be sent again as well.
        bool lost = call.status == 0 && e->code == ERR_UNAVAILABLE;
        bool again = attempt < m->retries && (lost || cli_may_pass(&call, e));
        int64_t pause = again ? cli_pause_of(&call, attempt) : 0;
        if (!again && call.status == 404)
            cli_hint(c, "imports go to a compactor or the all-in-one, where admin.listen is set to "
                        "that address: give it with --url");
        cli_call_release(&call);
        if (!again) return false;
        c->hint[0] = '\0';
        cli_sleep_ns(pause);
    }
}

void import_tell(struct import *m)
{
    char size[TEXT_NUMBER_MAX];
    cli_progress_draw(&m->progress, m->share, "%" PRIu64 " profiles, %s", m->profiles,
                      text_value(size, (double)m->bytes, TEXT_BYTES));
}

bool import_flush(struct import *m, uint64_t key, err *e)
{
    struct answer a = {0};
    bool ok = true;
    if (m->item_count) {
        cli_pace_bytes(&m->pace, m->body.n);
        ok = send_piece(m, &a, e);
        m->pieces += ok;
        m->profiles += a.profiles;
        m->bytes += a.bytes;
        m->rows += a.rows;
        m->rows_there += a.rows_there;
        m->store_bytes += a.store_bytes;
    }
    m->items = NULL;
    m->item_count = m->item_cap = m->hour_bytes = 0;
    buf_clear(&m->body);
    arena_release(&m->piece);
    import_tell(m);
    return ok && note_done(m, key, e);
}
