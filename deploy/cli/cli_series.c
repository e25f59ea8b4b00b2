// SPDX-License-Identifier: Apache-2.0
//
// series: values over time, a line with a chart for each group.
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_merge.h"
#include "deploy/cli/cli_time.h"
#include "model/ptype.h"
#include "sys/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define POINTS        60  // the approximate number of points without --step
#define POINTS_MAX    11000
#define VALUE_COLUMNS 11u
#define CHART_LEAST   10u
#define CHART_MOST    120u
#define LABEL_LEAST   8u
#define OUTPUT_MAX    ((size_t)1 << 30)

// The unit of the points, as on the page: CPU in cores, amounts per second, gauges as a mean.
struct series_unit {
    double factor;
    enum text_unit unit;
    const char *suffix;
    const char *what;
    bool average;  // asked for
    bool rate;     // sums are divided by the step
};

struct series_view {
    struct cli_query q;
    double step_s;
    unsigned label_columns;
    unsigned chart_columns;
    struct series_unit unit;
};

// The smallest of the usual steps with no more than about POINTS points.
static double choose_step(int64_t range_ns)
{
    assert(range_ns >= 0);
    static const double steps[] = {1,   2,   5,    10,   15,   30,    60,    120,   300,
                                   600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800};
    double range_s = (double)range_ns / (double)NS_PER_S;
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (range_s / steps[i] <= POINTS) return MAX(steps[i], 15);  // agents send every 15 s
    }
    return ceil(range_s / POINTS);
}

static bool read_step(struct cli *c, struct series_view *v, err *e)
{
    int64_t ns = 0;
    int64_t range = v->q.until_ns - v->q.from_ns;
    if (!cli_duration(c, OPT_STEP, &ns, e)) return false;
    v->step_s = ns ? (double)ns / (double)NS_PER_S : choose_step(range);
    assert(range >= 0 && v->step_s > 0);
    if ((double)range / (double)NS_PER_S / v->step_s <= POINTS_MAX) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "--step %s makes more than %d points of this range",
                   cli_args_get(&c->args, OPT_STEP), POINTS_MAX);
}

// --group-by a --group-by b,c
static bool read_groups(struct cli *c, char ***names, size_t *n, err *e)
{
    size_t at = 0;
    size_t cap = 0;
    assert(names && n);
    *names = NULL;
    *n = 0;
    for (const char *text; (text = cli_args_next(&c->args, OPT_GROUP_BY, &at));) {
        str rest = str_of(text);
        while (rest.n) {
            str one = str_trim(str_split(rest, ',', &rest));
            if (one.n == 0) continue;
            if (!arena_grow(&c->arena, names, &cap, *n + 1, sizeof **names))
                return arena_fail(&c->arena, e);
            (*names)[(*n)++] = pb_z(&c->arena, one);
        }
    }
    return true;
}

// ---- drawing

static void put_labels(struct buf *b, const Types__V1__Series *s)
{
    for (size_t i = 0; i < s->n_labels; i++) {
        if (i) buf_byte(b, ' ');
        // A single label was asked for by name; its value alone is shorter.
        if (s->n_labels > 1) buf_printf(b, "%s=", s->labels[i]->name);
        buf_str(b, pb_text(s->labels[i]->value));
    }
    if (s->n_labels == 0) buf_z(b, "all");
}

static str labels_text(struct arena *a, const Types__V1__Series *s)
{
    struct buf b;
    buf_init(&b, NULL, (size_t)64 << 10);
    put_labels(&b, s);
    str text = arena_str(a, buf_view(&b));
    buf_release(&b);
    return text;
}

// Of a step that is not whole, because the range ends in it: how much of it the range has, in ms.
// 0: the point is of a whole step.
static double part_ms(const struct series_view *v, const Types__V1__Point *p)
{
    int64_t until_ms = v->q.until_ns / NS_PER_MS;
    double over = (double)p->timestamp - (double)until_ms;
    double step_ms = v->step_s * 1000;
    return over > 0 && over < step_ms ? step_ms - over : 0;
}

// A rate of part of a step would show how much of the step is over, so such a point is left out, or
// divided by its own time if it is the only one.
static size_t whole_points(const struct series_view *v, const Types__V1__Series *s)
{
    if (!v->unit.rate || s->n_points == 0) return s->n_points;
    Types__V1__Point *last = s->points[s->n_points - 1];
    double part = part_ms(v, last);
    if (part == 0) return s->n_points;
    if (s->n_points > 1) return s->n_points - 1;
    last->value *= v->step_s * 1000 / part;
    return 1;
}

// The mean of the points of each column; NaN where there are none.
static void resample(const struct series_view *v, const Types__V1__Series *s, size_t n, double *out)
{
    double sums[CHART_MOST] = {0};
    unsigned counts[CHART_MOST] = {0};
    assert(v->chart_columns > 0 && v->chart_columns <= CHART_MOST);
    double from_ms = (double)v->q.from_ns / (double)NS_PER_MS;
    double width_ms = (double)(v->q.until_ns - v->q.from_ns) / (double)NS_PER_MS;
    width_ms = MAX(width_ms, v->step_s * 1000);  // a column is not narrower than a point's step
    for (size_t i = 0; i < n; i++) {
        double at = ((double)s->points[i]->timestamp - from_ms) / width_ms * v->chart_columns;
        // Written so that NaN becomes 0: the server sends the times, and a wild one must not be an
        // index.
        if (!(at >= 0)) at = 0;
        unsigned column = at < v->chart_columns ? (unsigned)at : v->chart_columns - 1;
        sums[column] += s->points[i]->value;
        counts[column]++;
    }
    for (unsigned i = 0; i < v->chart_columns; i++)
        out[i] = counts[i] ? sums[i] / counts[i] : (double)NAN;
    // If points are further apart than columns, each fills the columns up to the next.
    double per_step = v->step_s * 1000 / width_ms * v->chart_columns;
    unsigned reach = per_step > 1 ? (unsigned)ceil(per_step) : 0;
    for (unsigned i = 1, since = reach; i < v->chart_columns; i++) {
        since = isnan(out[i]) ? since + 1 : 0;
        // Column 0 begins a run as well; the loop starts behind it.
        if (i == 1 && !isnan(out[0])) since = isnan(out[1]) ? 1 : 0;
        if (isnan(out[i]) && since < reach) out[i] = out[i - 1];
    }
}

// Is it a state, such as heap in use? Its sum over time has no meaning.
static bool is_gauge(str sample_type)
{
    return str_starts(sample_type, S("inuse_")) || str_is(sample_type, "goroutine") ||
           str_is(sample_type, "goroutines");
}

static struct series_unit series_unit(struct cli *c, str type, double step_s)
{
    struct draw_unit plain = cli_merge_unit(type);
    struct series_unit u = {plain.factor, plain.unit, "", "sum of each step", false, false};
    const char *aggregation = cli_args_get(&c->args, OPT_AGGREGATION);
    struct ptype t = {0};
    err ignored = {0};
    bool gauge = ptype_parse(type, &t, &ignored) && is_gauge(t.sample_type);
    if (aggregation ? strcmp(aggregation, "average") == 0 : gauge) {
        u.what = "mean of the profiles in each step";
        u.average = true;
        return u;
    }
    // The sum was asked for: then values stay sums and are not divided by the step.
    if (aggregation) return u;
    assert(step_s > 0);
    u.rate = true;
    u.factor /= step_s;
    u.what = "per second";
    if (plain.unit == TEXT_NS) {
        bool cpu = str_is(t.name, "process_cpu");
        u.factor /= (double)NS_PER_S;
        u.unit = TEXT_RATIO;
        u.what = cpu ? "cores in use" : "seconds per second";
        u.suffix = cpu ? "" : " s/s";
        return u;
    }
    if (plain.unit == TEXT_COUNT) u.unit = TEXT_RATIO;
    u.suffix = "/s";
    return u;
}

static void put_value(struct buf *b, const struct series_unit *u, double v)
{
    assert(u->suffix && strlen(u->suffix) < 8);
    char number[TEXT_NUMBER_MAX];
    char text[TEXT_NUMBER_MAX + 8];
    snprintf(text, sizeof text, "%s%s", text_value(number, v * u->factor, u->unit), u->suffix);
    text_right(b, text, VALUE_COLUMNS);
}

static void put_series(struct cli *c, struct buf *b, const struct series_view *v,
                       const Types__V1__Series *s)
{
    double chart[CHART_MOST];
    double min = INFINITY;
    double max = -INFINITY;
    double sum = 0;
    size_t n = whole_points(v, s);
    for (size_t i = 0; i < n; i++) {
        min = MIN(min, s->points[i]->value);
        max = MAX(max, s->points[i]->value);
        sum += s->points[i]->value;
    }
    if (n == 0) return;
    assert(v->chart_columns <= CHART_MOST && v->label_columns > 0);
    text_left(b, labels_text(&c->arena, s), v->label_columns);
    text_pad(b, 2);
    resample(v, s, n, chart);
    // Bars begin at 0 and not at the minimum, so that heights can be compared between lines.
    double top = 0;
    // False for NaN, a column without points.
    for (unsigned i = 0; i < v->chart_columns; i++)
        top = chart[i] > top ? chart[i] : top;
    draw_spark(b, chart, v->chart_columns, top, &c->look);
    double values[] = {min, sum / (double)n, max, s->points[n - 1]->value};
    for (size_t i = 0; i < COUNT(values); i++)
        put_value(b, &v->unit, values[i]);
    buf_byte(b, '\n');
}

static void lay_out(struct cli *c, struct series_view *v,
                    const Querier__V1__SelectSeriesResponse *a)
{
    unsigned widest = LABEL_LEAST;
    for (size_t i = 0; i < a->n_series; i++)
        widest = MAX(widest, text_columns(labels_text(&c->arena, a->series[i])));
    unsigned numbers = 4 * VALUE_COLUMNS + 2;
    unsigned room = c->look.width > numbers ? c->look.width - numbers : 0;
    unsigned chart = room > widest ? room - widest : 0;
    // Long labels may take half of the room at most, and are cut then.
    chart = MAX(chart, MAX(CHART_LEAST, room / 2));
    v->chart_columns = MIN(MIN(chart, CHART_MOST), (unsigned)POINTS * 2);
    v->label_columns =
        room > v->chart_columns + LABEL_LEAST ? room - v->chart_columns : LABEL_LEAST;
    assert(v->chart_columns > 0);
    v->label_columns = MIN(v->label_columns, widest);
}

static void put_heading(struct cli *c, struct buf *b, const struct series_view *v)
{
    static const char *const titles[] = {"min", "mean", "max", "last"};
    char step[TEXT_NUMBER_MAX];
    text_ink(b, c->look.colors, INK_STRONG);
    text_put(b, v->q.type);
    text_reset(b, c->look.colors);
    if (!str_is(v->q.selector, "{}")) {
        buf_byte(b, ' ');
        text_put(b, v->q.selector);
    }
    buf_byte(b, '\n');
    text_ink(b, c->look.colors, INK_DIM);
    cli_time_put_range(b, v->q.from_ns, v->q.until_ns);
    buf_printf(b, ", %s, step %s\n", v->unit.what,
               text_value(step, v->step_s * (double)NS_PER_S, TEXT_NS));
    text_pad(b, v->label_columns + 2 + v->chart_columns);
    for (size_t i = 0; i < COUNT(titles); i++)
        text_right(b, titles[i], VALUE_COLUMNS);
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

// ---- the command

static bool ask(struct cli *c, const struct series_view *v, Querier__V1__SelectSeriesResponse **out,
                int *status, err *e)
{
    Querier__V1__SelectSeriesRequest q = QUERIER__V1__SELECT_SERIES_REQUEST__INIT;
    q.profile_typeid = pb_z(&c->arena, v->q.type);
    q.label_selector = pb_z(&c->arena, v->q.selector);
    q.start = v->q.from_ns / NS_PER_MS;
    q.end = v->q.until_ns / NS_PER_MS;
    q.step = v->step_s;
    // Profiles are of 15 s, say, and a step of 20 s has one or two of them: their times alone would
    // draw a comb where the use is level. Other servers do not know the field.
    q.spread = !v->unit.average;
    uint64_t limit = 0;
    if (!read_groups(c, &q.group_by, &q.n_group_by, e) ||
        !cli_args_number(&c->args, OPT_LIMIT, 1, INT64_MAX, &limit, e))
        return cli_wrong(status);
    if (v->unit.average) {
        q._aggregation_case = QUERIER__V1__SELECT_SERIES_REQUEST___AGGREGATION_AGGREGATION;
        q.aggregation =
            TYPES__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE;
    }
    if (limit > 0) {
        q._limit_case = QUERIER__V1__SELECT_SERIES_REQUEST___LIMIT_LIMIT;
        q.limit = (int64_t)limit;
    }
    ProtobufCMessage *m = NULL;
    if (!cli_ask(c, "SelectSeries", &q.base, &querier__v1__select_series_response__descriptor, &m,
                 e))
        return false;
    *out = (Querier__V1__SelectSeriesResponse *)m;
    return true;
}

bool cli_series(struct cli *c, int *status, err *e)
{
    struct series_view v = {0};
    if (!cli_width(c, e) || !cli_range(c, &v.q.from_ns, &v.q.until_ns, e) || !read_step(c, &v, e))
        return cli_wrong(status);
    const char *text = c->args.operand_count ? c->args.operands[0] : NULL;
    if (!cli_query_read(c, text, &v.q, status, e)) return false;
    v.unit = series_unit(c, v.q.type, v.step_s);
    Querier__V1__SelectSeriesResponse *a = NULL;
    if (!ask(c, &v, &a, status, e) || !a) return false;
    // An answer of series without points is as empty as none.
    size_t points = 0;
    for (size_t i = 0; i < a->n_series; i++)
        points += a->series[i]->n_points;
    if (points == 0) return cli_query_is_empty(c, &v.q, status, e);
    struct buf b;
    buf_init(&b, NULL, OUTPUT_MAX);
    if (cli_wants_json(c)) {
        struct buf json;
        buf_init(&json, NULL, OUTPUT_MAX);
        pbjson_print(&a->base, &json);
        if (c->out_is_tty)
            text_filter(&b, buf_view(&json));
        else
            buf_str(&b, buf_view(&json));
        buf_byte(&b, '\n');
        // The text that was copied is cut then; the failure must not be lost with its buffer.
        if (json.failed) b.failed = true;
        buf_release(&json);
    } else {
        lay_out(c, &v, a);
        put_heading(c, &b, &v);
        for (size_t i = 0; i < a->n_series; i++)
            put_series(c, &b, &v, a->series[i]);
    }
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}
