// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_harvest.h"

#include "codec/pb.h"
#include "deploy/cli/cli_find.h"
#include "deploy/cli/cli_series_file.h"
#include "deploy/cli/cli_subtract.h"
#include "querier/v1/querier.pb-c.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define SPAN_MS      (INT64_C(3600) * 1000)
#define STEP_MOST_MS (INT64_C(28) * 24 * SPAN_MS)
#define QUESTION_MAX ((size_t)4 << 20)
#define NAMES_MAX    256
#define RETRIES_MAX  1000

static int64_t down(int64_t t, int64_t step)
{
    int64_t r = t % step;
    return t - (r < 0 ? r + step : r);
}

bool harvest_read(struct harvest *h, struct cli *c, const char *text, int *status, err *e)
{
    int64_t step_ns = 0;
    int64_t from_ns = 0;
    int64_t until_ns = 0;
    if (!cli_duration(c, OPT_HARVEST_STEP, &step_ns, e) || !cli_range(c, &from_ns, &until_ns, e) ||
        !cli_args_number(&c->args, OPT_RETRY, 0, RETRIES_MAX, &h->retries, e) ||
        !cli_selector(c, str_of(text ? text : "{}"), &h->selector, e)) {
        return cli_wrong(status);
    }
    h->step_ms = step_ns / NS_PER_MS;
    if (step_ns % NS_PER_S || h->step_ms < 1000 || h->step_ms > STEP_MOST_MS) {
        err_set(e, ERR_INVALID_ARGUMENT, "--step is %s; it must be whole seconds, from 1s to 28d",
                cli_args_get(&c->args, OPT_HARVEST_STEP));
        return cli_wrong(status);
    }
    h->type = str_of(cli_args_get(&c->args, OPT_HARVEST_TYPE));
    h->from_ms = down(from_ns / NS_PER_MS, h->step_ms);
    h->until_ms = down(until_ns / NS_PER_MS, h->step_ms);
    if (h->from_ms < h->until_ms) return true;
    err_set(e, ERR_INVALID_ARGUMENT,
            "the range has no whole step: --step %s, and both ends are rounded down to steps",
            cli_args_get(&c->args, OPT_HARVEST_STEP));
    return cli_wrong(status);
}

// ---- requests

struct asked {
    struct cli_call call;
    struct buf question;
    str body;
    str exact;  // the header Flametree-Exact, or empty of another server
};

static void asked_release(struct asked *q)
{
    cli_call_release(&q->call);
    buf_release(&q->question);
}

// Makes a call, again while the server is overloaded. To be released in any case.
static bool ask(struct harvest *h, const char *path, const ProtobufCMessage *m, struct asked *q,
                err *e)
{
    struct cli *c = h->c;
    *q = (struct asked){0};
    buf_init(&q->question, NULL, QUESTION_MAX);
    pb_pack(m, &q->question);
    if (!buf_ok(&q->question, e)) return err_wrap(e, "the question");
    for (uint64_t attempt = 0;; attempt++) {
        *e = (err){0};
        cli_call_start(c, &q->call, "POST", path, "application/proto", buf_view(&q->question));
        bool ok = cli_call_wait(c, &q->call, &q->body, e);
        if (ok) break;
        if (attempt == h->retries || !cli_may_pass(&q->call, e)) return false;
        int64_t pause = cli_pause_of(&q->call, attempt);
        c->hint[0] = '\0';
        cli_call_release(&q->call);
        q->call = (struct cli_call){0};
        cli_sleep_ns(pause);
    }
    q->exact = http_headers_get(&q->call.http.answer_headers, "flametree-exact");
    cli_pace_bytes(h->pace, q->body.n);
    // A millisecond of it is the edge that lies beside a border (above), and decides nothing:
    // totals are compared.
    if (str_starts(q->exact, S("rounded=")) && !str_is(q->exact, "rounded=0.001")) {
        cli_hint(c, "of old times servers keep sums of hours, and later of days: use --step 1h or "
                    "--step 1d, or a later --from");
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the server no longer has single profiles of this time, and its answer is "
                       "rounded to %.*s s",
                       STR(str_slice(q->exact, strlen("rounded="), q->exact.n)));
    }
    if (!str_starts(q->exact, S("partial="))) return true;
    return err_set(e, ERR_DATA_LOSS, "the server's answer lacks something: %.*s",
                   STR(str_slice(q->exact, strlen("partial="), q->exact.n)));
}

static bool malformed(const char *what, err *e)
{
    return err_wrap(e, "the answer to %s is malformed", what);
}

// ---- a span

struct span {
    struct harvest *h;
    struct arena a;  // of all answers of the span
    int64_t from_ms;
    int64_t until_ms;
    Types__V1__Labels **series;
    size_t series_count;
    str *types;
    size_t type_count;
};

static str label_of(const Types__V1__Labels *set, const char *name)
{
    for (size_t i = 0; i < set->n_labels; i++) {
        if (strcmp(set->labels[i]->name, name) == 0) return str_of(set->labels[i]->value);
    }
    return (str){0};
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static bool once(str *v, size_t *n, size_t most, str text)
{
    for (size_t i = 0; i < *n; i++) {
        if (str_eq(v[i], text)) return true;
    }
    if (*n == most) return false;
    v[(*n)++] = text;
    return true;
}

static bool find_series(struct span *s, err *e)
{
    struct harvest *h = s->h;
    struct asked q;
    Querier__V1__SeriesRequest m = QUERIER__V1__SERIES_REQUEST__INIT;
    char *matchers[] = {pb_z(&s->a, h->selector)};
    m.matchers = matchers;
    m.n_matchers = 1;
    m.start = s->from_ms;
    m.end = s->until_ms;
    bool ok = ask(h, ASK_QUERIER "Series", &m.base, &q, e);
    Querier__V1__SeriesResponse *answer = NULL;
    if (ok) {
        answer = (Querier__V1__SeriesResponse *)pb_unpack(&s->a,
                                                          &querier__v1__series_response__descriptor,
                                                          q.body, e);
        ok = answer || malformed("Series", e);
    }
    asked_release(&q);
    if (!ok) return false;
    assert(answer);
    s->series = answer->labels_set;
    s->series_count = answer->n_labels_set;
    s->types = ARENA_ARRAY(&s->a, str, s->series_count + 1);
    if (!s->types) return arena_fail(&s->a, e);
    for (size_t i = 0; i < s->series_count; i++) {
        str type = label_of(s->series[i], LABEL_PROFILE_TYPE);
        if (type.n && (h->type.n == 0 || str_contains(type, h->type)))
            once(s->types, &s->type_count, s->series_count, type);
    }
    if (s->type_count) qsort(s->types, s->type_count, sizeof *s->types, by_text);
    h->series += s->series_count;
    return true;
}

// ---- a step

// {name="value", ...}: every label of the series, and those that others have and it has not.
static bool put_selector(struct buf *b, labels ls, const str *names, size_t n, err *e)
{
    const char *comma = "";
    buf_byte(b, '{');
    for (size_t i = 0; i < n; i++) {
        if (series_file_is_added(names[i])) continue;
        buf_z(b, comma);
        comma = ",";
        if (label_name_is_legacy(names[i]))
            buf_str(b, names[i]);
        else
            label_quote(names[i], b);
        buf_byte(b, '=');
        label_quote(labels_get(ls, names[i]), b);
    }
    buf_byte(b, '}');
    return buf_ok(b, e);
}

struct fetched {
    struct asked q;
    int64_t sum;
};

// Whether a sum is what SelectSeries says, which has doubles.
static bool harvest_total(const struct harvest_step *step, int64_t sum)
{
    return (double)sum == step->total;
}

// Whether a profile has samples. Values may be negative, so one whose sum is 0 may have some.
static bool harvest_samples(str pprof)
{
    struct pb_reader r = pb_reader(pprof);
    while (pb_next(&r)) {
        if (r.field == 2) return true;
    }
    return false;
}

// The series' profile of [start, end], in ms.
static bool fetch(struct span *s, const struct harvest_step *step, char *selector,
                  const int64_t range[2], struct fetched *f, err *e)
{
    Querier__V1__SelectMergeProfileRequest m = QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST__INIT;
    m.profile_typeid = pb_z(&s->a, step->type);
    m.label_selector = selector;
    m.start = range[0];
    m.end = range[1];
    if (!ask(s->h, ASK_QUERIER "SelectMergeProfile", &m.base, &f->q, e)) return false;
    return series_file_sum(f->q.body, &f->sum, e) || malformed("SelectMergeProfile", e);
}

static bool give(struct span *s, const struct harvest_step *step, str pprof, err *e)
{
    if (!harvest_samples(pprof)) return true;  // all its values are taken back, stack by stack
    s->h->steps++;
    s->h->bytes += pprof.n;
    return s->h->take(s->h->arg, step, pprof, e);
}

// Fetches the profiles at the very start of the step and subtracts them from the whole step. No
// range of the API could leave them out: ranges begin at whole milliseconds.
static bool give_without_edge(struct span *s, const struct harvest_step *step, char *selector,
                              const struct fetched *early, err *e)
{
    struct fetched edge = {0};
    struct buf rest;
    buf_init(&rest, NULL, (size_t)s->h->c->answer_max);
    const int64_t at[] = {step->from_ms, step->from_ms};
    bool ok = fetch(s, step, selector, at, &edge, e);
    int64_t rest_sum = 0;
    if (ok && (__builtin_sub_overflow(early->sum, edge.sum, &rest_sum) ||
               !harvest_total(step, rest_sum))) {
        ok = err_set(e, ERR_DATA_LOSS,
                     "%s: its total is %.0f, but its profile sums up to %" PRId64
                     ", of which %" PRId64 " lie at %" PRId64 " ms",
                     selector, step->total, early->sum, edge.sum, step->from_ms);
    }
    bool any = ok && harvest_samples(edge.q.body);
    ok = ok && (!any || pprof_subtract(early->q.body, edge.q.body, &rest, e)) &&
         give(s, step, any ? buf_view(&rest) : early->q.body, e);
    buf_release(&rest);
    asked_release(&edge.q);
    return ok;
}

// The total says which range is right. Only if neither is, something is taken away.
static bool fetch_by_total(struct span *s, const struct harvest_step *step, char *selector, err *e)
{
    struct fetched late = {0};
    struct fetched early = {0};
    const int64_t later[] = {step->from_ms + 1, step->until_ms};
    const int64_t whole[] = {step->from_ms, step->until_ms};
    bool ok = fetch(s, step, selector, later, &late, e);
    if (ok && harvest_total(step, late.sum)) {
        ok = give(s, step, late.q.body, e);
    } else if (ok) {
        ok = fetch(s, step, selector, whole, &early, e) &&
             (harvest_total(step, early.sum) ? give(s, step, early.q.body, e)
                                             : give_without_edge(s, step, selector, &early, e));
        asked_release(&early.q);
    }
    asked_release(&late.q);
    return ok;
}

static bool fetch_step(struct span *s, const struct harvest_step *step, char *selector, err *e)
{
    struct fetched early = {0};
    const int64_t whole[] = {step->from_ms, step->until_ms};
    bool tells = step->total != 0 && fabs(step->total) < 9007199254740992.0;  // 2^53
    if (tells) return fetch_by_total(s, step, selector, e);
    // Where there are no single profiles left, nothing tells, and the sums of hours that are
    // answered are those of the total.
    bool ok = fetch(s, step, selector, whole, &early, e) &&
              give_without_edge(s, step, selector, &early, e);
    asked_release(&early.q);
    if (ok || e->code != ERR_FAILED_PRECONDITION) return ok;
    *e = (err){0};
    s->h->c->hint[0] = '\0';
    return fetch_by_total(s, step, selector, e);
}

static bool take_point(struct span *s, struct harvest_step *step, const Types__V1__Point *p,
                       const str *names, size_t name_count, err *e)
{
    struct harvest *h = s->h;
    bool wanted = true;
    step->until_ms = p->timestamp;
    step->from_ms = p->timestamp - h->step_ms;
    step->total = p->value;
    if (h->want && !h->want(h->arg, step, &wanted, e)) return false;
    if (!wanted) return true;
    struct buf b;
    buf_init(&b, NULL, QUESTION_MAX);
    bool ok = put_selector(&b, step->ls, names, name_count, e);
    if (ok) {
        buf_byte(&b, '\0');
        ok = buf_ok(&b, e) && fetch_step(s, step, b.p, e);
    }
    buf_release(&b);
    return ok;
}

static bool take_row(struct span *s, str type, const Types__V1__Series *row, const str *names,
                     size_t name_count, err *e)
{
    label *v = ARENA_ARRAY(&s->a, label, row->n_labels + 1);
    if (!v) return arena_fail(&s->a, e);
    for (size_t i = 0; i < row->n_labels; i++)
        v[i] = (label){str_of(row->labels[i]->name), str_of(row->labels[i]->value)};
    labels_sort(v, row->n_labels);
    struct harvest_step step = {.ls = {v, row->n_labels}, .type = type};
    for (size_t i = 0; i < row->n_points; i++) {
        const Types__V1__Point *p = row->points[i];
        // Those before the span (run_type) are not of it.
        if (p->timestamp <= s->from_ms) continue;
        if (!take_point(s, &step, p, names, name_count, e)) return false;
    }
    return true;
}

// ---- a type

static bool find_names(struct span *s, str type, str *names, size_t *n, err *e)
{
    for (size_t i = 0; i < s->series_count; i++) {
        const Types__V1__Labels *set = s->series[i];
        if (!str_eq(label_of(set, LABEL_PROFILE_TYPE), type)) continue;
        for (size_t k = 0; k < set->n_labels; k++) {
            if (once(names, n, NAMES_MAX, str_of(set->labels[k]->name))) continue;
            return err_set(e, ERR_RESOURCE_EXHAUSTED,
                           "the series of %.*s have more than %d names of labels; use a narrower "
                           "selector",
                           STR(type), NAMES_MAX);
        }
    }
    qsort(names, *n, sizeof *names, by_text);
    return true;
}

static bool run_type(struct span *s, str type, err *e)
{
    str names[NAMES_MAX];
    char *texts[NAMES_MAX];
    size_t n = 0;
    struct harvest *h = s->h;
    struct asked q;
    if (!find_names(s, type, names, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        texts[i] = pb_z(&s->a, names[i]);
    Querier__V1__SelectSeriesRequest m = QUERIER__V1__SELECT_SERIES_REQUEST__INIT;
    m.profile_typeid = pb_z(&s->a, type);
    m.label_selector = pb_z(&s->a, h->selector);
    // A step more: it ends where the first step that is wanted begins, to the nanosecond, while the
    // first point of an answer has all of its ms. 0 would be no time.
    m.start = s->from_ms - (s->from_ms == h->step_ms ? 2 : 1) * h->step_ms;
    m.end = s->until_ms;
    m.step = (double)h->step_ms / 1000;
    m.group_by = texts;
    m.n_group_by = n;
    if (!arena_ok(&s->a, e)) return false;
    bool ok = ask(h, ASK_QUERIER "SelectSeries", &m.base, &q, e);
    if (!ok && e->code == ERR_INVALID_ARGUMENT) {  // longer than the server answers
        asked_release(&q);
        m.start = s->from_ms;
        ok = ask(h, ASK_QUERIER "SelectSeries", &m.base, &q, e);
    }
    Querier__V1__SelectSeriesResponse *answer = NULL;
    if (ok) {
        answer = (Querier__V1__SelectSeriesResponse *)
            pb_unpack(&s->a, &querier__v1__select_series_response__descriptor, q.body, e);
        ok = answer || malformed("SelectSeries", e);
    }
    asked_release(&q);
    for (size_t i = 0; ok && answer && i < answer->n_series; i++)
        ok = take_row(s, type, answer->series[i], names, n, e);
    return ok;
}

static bool run_span(struct harvest *h, int64_t from_ms, int64_t until_ms, err *e)
{
    struct span s = {.h = h, .from_ms = from_ms, .until_ms = until_ms};
    arena_init(&s.a, NULL, (size_t)MIN(4 * h->c->answer_max, SIZE_MAX / 2));
    bool ok = find_series(&s, e);
    for (size_t i = 0; ok && i < s.type_count; i++)
        ok = run_type(&s, s.types[i], e);
    arena_release(&s.a);
    return ok;
}

bool harvest_run(struct harvest *h, err *e)
{
    assert(h->step_ms > 0 && h->from_ms < h->until_ms);
    int64_t width = MAX(SPAN_MS / h->step_ms, 1) * h->step_ms;
    for (int64_t at = h->from_ms; at < h->until_ms;) {
        int64_t until = MIN(at + width, h->until_ms);
        if (h->told)
            h->told(h->arg, (double)(at - h->from_ms) / (double)(h->until_ms - h->from_ms));
        if (!h->skip || !h->skip(h->arg, until)) {
            if (!run_span(h, at, until, e)) return false;
            if (h->past && !h->past(h->arg, until, e)) return false;
        }
        at = until;
    }
    return true;
}
