// SPDX-License-Identifier: Apache-2.0
//
// diff: which functions' shares changed most between two merged profiles.
//
// A function counts by its self and by its total: one that has no self time, as its work is in what
// it calls, would be in no list of selves, however much it grew.
#include "codec/attime.h"
#include "codec/json.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_merge.h"
#include "deploy/cli/cli_time.h"
#include "sys/clock.h"

#include <math.h>
#include <stdlib.h>

#define OUTPUT_MAX      ((size_t)1 << 30)
#define ROWS            20u
#define ROWS_MAX        UINT64_C(1000000)
#define PERCENT_COLUMNS 9u
#define CHANGE_COLUMNS  11u
#define BARS_FROM       120u  // columns of the terminal
#define BAR_COLUMNS     16u
#define NAME_LEAST      12u

struct diff_row {
    str name;
    int64_t self[2];
    int64_t total[2];
    double change[2];  // of the shares of self, and of total
};

enum part {
    PART_SELF,
    PART_TOTAL
};
static const char *const part_names[] = {"self", "total"};

struct diff {
    struct cli_query q[2];  // baseline, comparison
    int64_t total[2];
    struct diff_row *rows;
    size_t count;
};

// ---- the two ranges

static bool base_time(struct cli *c, enum cli_option o, int64_t *ns, err *e)
{
    const char *text = cli_args_get(&c->args, o);
    if (!text) return true;
    return attime_parse(str_of(text), c->now_wall_ns, ns, e) ||
           err_wrap(e, "--%s", cli_options[o].name);
}

static bool read_ranges(struct cli *c, struct diff *d, err *e)
{
    assert(c && d);
    int64_t before_ns = 0;
    struct cli_query *base = &d->q[0];
    struct cli_query *other = &d->q[1];
    base->other_range = "a shorter --before, or --base-from";
    if (!cli_range(c, &other->from_ns, &other->until_ns, e)) return false;
    if (cli_args_has(&c->args, OPT_BEFORE) &&
        (cli_args_has(&c->args, OPT_BASE_FROM) || cli_args_has(&c->args, OPT_BASE_UNTIL)))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--before and --base-from, --base-until both set the baseline's range");
    if (!cli_duration(c, OPT_BEFORE, &before_ns, e)) return false;
    // Without any option both ranges are the same; two queries can still be compared then.
    base->from_ns = other->from_ns - before_ns;
    base->until_ns = other->until_ns - before_ns;
    if (!base_time(c, OPT_BASE_FROM, &base->from_ns, e)) return false;
    if (!base_time(c, OPT_BASE_UNTIL, &base->until_ns, e)) return false;
    if (base->from_ns > base->until_ns)
        return err_set(e, ERR_INVALID_ARGUMENT, "the baseline's range ends before it begins");
    if (c->args.operand_count == 2 || base->from_ns != other->from_ns ||
        base->until_ns != other->until_ns)
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "both sides are the same; give a second query, --before or --base-from");
}

// ---- rows

static int by_name(const void *a, const void *b)
{
    return str_cmp(((const struct flame_function *)a)->name,
                   ((const struct flame_function *)b)->name);
}

// The part that changed more; of equal ones self, which says where.
static enum part diff_part_of(const struct diff_row *r)
{
    return fabs(r->change[PART_TOTAL]) > fabs(r->change[PART_SELF]) ? PART_TOTAL : PART_SELF;
}

static double change_of(const struct diff_row *r)
{
    return r->change[diff_part_of(r)];
}

// By the larger change. Callers of a function that grew have grown as much: it comes before them,
// as it has the larger change of self.
static int by_change(const void *a, const void *b)
{
    const struct diff_row *x = a;
    const struct diff_row *y = b;
    double changes[2] = {fabs(change_of(x)), fabs(change_of(y))};
    if (changes[0] != changes[1]) return changes[0] > changes[1] ? -1 : 1;
    double selves[2] = {fabs(x->change[PART_SELF]), fabs(y->change[PART_SELF])};
    if (selves[0] != selves[1]) return selves[0] > selves[1] ? -1 : 1;
    // Equal changes by name, or two runs could differ.
    return str_cmp(x->name, y->name);
}

static double share(int64_t v, int64_t total)
{
    return total > 0 ? (double)v / (double)total : 0;
}

// Joins the functions of both sides, which are sorted by name.
static bool join(struct arena *a, struct diff *d, struct flame_function *v[2], const size_t n[2],
                 err *e)
{
    assert(d->count == 0);
    d->rows = ARENA_ARRAY(a, struct diff_row, n[0] + n[1] + 1);
    if (!arena_ok(a, e)) return false;
    // As in a merge sort: a name on one side only has zeros on the other.
    for (size_t i = 0, k = 0; i < n[0] || k < n[1];) {
        int order = i == n[0] ? 1 : k == n[1] ? -1 : str_cmp(v[0][i].name, v[1][k].name);
        struct diff_row *r = &d->rows[d->count++];
        if (order <= 0) {
            *r = (struct diff_row){.name = v[0][i].name};
            r->self[0] = v[0][i].self;
            r->total[0] = v[0][i++].total;
        }
        if (order >= 0) {
            r->name = v[1][k].name;
            r->self[1] = v[1][k].self;
            r->total[1] = v[1][k++].total;
        }
        assert(d->count <= n[0] + n[1]);
        r->change[PART_SELF] = share(r->self[1], d->total[1]) - share(r->self[0], d->total[0]);
        r->change[PART_TOTAL] = share(r->total[1], d->total[1]) - share(r->total[0], d->total[0]);
    }
    assert(d->count >= MAX(n[0], n[1]));
    qsort(d->rows, d->count, sizeof *d->rows, by_change);
    return true;
}

static bool ask(struct cli *c, struct diff *d, int *status, err *e)
{
    struct flame_function *v[2];
    size_t n[2];
    for (size_t i = 0; i < 2; i++) {
        // All nodes: what a limit left out on one side only would look like a change.
        struct flame f;
        if (!cli_merge_flame(c, &d->q[i], CLI_MERGE_ALL, &f, e) ||
            !flame_functions(&f, &c->arena, &v[i], &n[i], e))
            return err_wrap(e, i ? "comparison" : "baseline");
        if (f.count == 0) {
            cli_query_is_empty(c, &d->q[i], status, e);
            return err_wrap(e, i ? "comparison" : "baseline");
        }
        d->total[i] = f.total;
        qsort(v[i], n[i], sizeof *v[i], by_name);
    }
    return join(&c->arena, d, v, n, e);
}

// ---- printing

static void put_json(struct buf *b, const struct diff *d, size_t n)
{
    static const char *const sides[] = {"baseline", "comparison"};
    buf_byte(b, '{');
    for (size_t i = 0; i < 2; i++) {
        buf_printf(b, "\"%s\":{\"profileTypeID\":", sides[i]);
        json_put_string(b, d->q[i].type);
        buf_z(b, ",\"labelSelector\":");
        json_put_string(b, d->q[i].selector);
        buf_printf(b, ",\"start\":%lld,\"end\":%lld,\"total\":%lld},\n",
                   (long long)(d->q[i].from_ns / NS_PER_MS),
                   (long long)(d->q[i].until_ns / NS_PER_MS), (long long)d->total[i]);
    }
    buf_z(b, "\"functions\":[");
    for (size_t i = 0; i < n; i++) {
        const struct diff_row *r = &d->rows[i];
        buf_z(b, i ? ",\n{\"function\":" : "\n{\"function\":");
        json_put_string(b, r->name);
        for (size_t k = 0; k < 2; k++)
            buf_printf(b, ",\"%s\":{\"self\":%lld,\"total\":%lld}", sides[k], (long long)r->self[k],
                       (long long)r->total[k]);
        buf_z(b, ",\"change\":");
        json_put_double(b, r->change[PART_SELF]);
        buf_z(b, ",\"totalChange\":");
        json_put_double(b, r->change[PART_TOTAL]);
        buf_byte(b, '}');
    }
    buf_z(b, "]}\n");
}

static void put_side(struct cli *c, struct buf *b, const struct diff *d, size_t side)
{
    static const char *const names[] = {"baseline    ", "comparison  "};
    assert(side < 2);
    struct draw_unit u = cli_merge_unit(d->q[side].type);
    char value[TEXT_NUMBER_MAX];
    text_ink(b, c->look.colors, side ? INK_MORE : INK_LESS);
    buf_z(b, names[side]);
    text_reset(b, c->look.colors);
    text_put(b, d->q[side].type);
    if (!str_is(d->q[side].selector, "{}")) {
        buf_byte(b, ' ');
        text_put(b, d->q[side].selector);
    }
    buf_z(b, "\n            ");
    text_ink(b, c->look.colors, INK_DIM);
    buf_z(b, text_value(value, (double)d->total[side] * u.factor, u.unit));
    buf_z(b, " total, ");
    cli_time_put_range(b, d->q[side].from_ns, d->q[side].until_ns);
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

// A bar to the left of the middle for less, to the right for more.
static void put_bar(struct cli *c, struct buf *b, double change, double greatest)
{
    unsigned half = BAR_COLUMNS / 2;
    assert(fabs(change) <= greatest);  // rows are sorted by it
    double part = greatest > 0 ? fabs(change) / greatest : 0;
    if (change >= 0) text_pad(b, half);
    text_ink(b, c->look.colors, change < 0 ? INK_LESS : INK_MORE);
    if (change < 0) {
        unsigned n = (unsigned)ceil(part * half);
        text_pad(b, half - n);
        // Whole columns: there are no characters for eighths at the right end of a cell.
        assert(n <= half);
        for (unsigned i = 0; i < n; i++)
            buf_z(b, "█");
        text_pad(b, half);
    } else {
        text_bar(b, part, half);
    }
    text_reset(b, c->look.colors);
}

static void diff_put_part(struct cli *c, struct buf *b, const struct diff *d,
                          const struct diff_row *r, enum part part)
{
    const int64_t *sides = part == PART_SELF ? r->self : r->total;
    char text[TEXT_NUMBER_MAX];
    for (size_t i = 0; i < 2; i++)
        text_right(b, text_percent(text, share(sides[i], d->total[i])), PERCENT_COLUMNS);
    snprintf(text, sizeof text, "%+.2f pp", r->change[part] * 100);
    text_ink(b, c->look.colors, r->change[part] < 0 ? INK_LESS : INK_MORE);
    text_right(b, text, CHANGE_COLUMNS);
    text_reset(b, c->look.colors);
}

static void put_row(struct cli *c, struct buf *b, const struct diff *d, const struct diff_row *r,
                    bool bars)
{
    assert(d->count > 0);
    diff_put_part(c, b, d, r, PART_SELF);
    diff_put_part(c, b, d, r, PART_TOTAL);
    text_pad(b, 2);
    if (bars) {
        put_bar(c, b, change_of(r), fabs(change_of(&d->rows[0])));
        text_pad(b, 2);
    }
    unsigned used = 2 * (2 * PERCENT_COLUMNS + CHANGE_COLUMNS) + 2 + (bars ? BAR_COLUMNS + 2 : 0);
    unsigned room = c->look.width > used + NAME_LEAST ? c->look.width - used : NAME_LEAST;
    str name = draw_readable(&c->arena, r->name);
    text_put_cut(b, text_columns(name) > room ? draw_short_name(name) : name, room);
    buf_byte(b, '\n');
}

static void diff_put_head(struct cli *c, struct buf *b, bool bars)
{
    text_ink(b, c->look.colors, INK_DIM);
    for (size_t part = 0; part < 2; part++)
        text_right(b, part_names[part], 2 * PERCENT_COLUMNS + CHANGE_COLUMNS);
    buf_byte(b, '\n');
    for (size_t part = 0; part < 2; part++) {
        text_right(b, "before", PERCENT_COLUMNS);
        text_right(b, "after", PERCENT_COLUMNS);
        text_right(b, "change", CHANGE_COLUMNS);
    }
    text_pad(b, bars ? BAR_COLUMNS + 4 : 2);
    buf_z(b, "function");
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

static void put_table(struct cli *c, struct buf *b, const struct diff *d, size_t n)
{
    bool bars = c->look.width >= BARS_FROM;
    put_side(c, b, d, 0);
    put_side(c, b, d, 1);
    diff_put_head(c, b, bars);
    size_t shown = 0;
    // Sorted by the size of the change: behind the first row without one there are no others.
    for (size_t i = 0; i < n && change_of(&d->rows[i]) != 0; i++, shown++)
        put_row(c, b, d, &d->rows[i], bars);
    if (shown == 0) buf_z(b, "no changes\n");
}

// ---- the gate

// Shares are quotients: what differs by less than this is as large as the limit, not above it.
#define POINT_LEAST 1e-9

static bool check_limit(const struct cli *c, const struct diff *d, double limit, int *status,
                        err *e)
{
    for (size_t i = 0; i < 2; i++) {
        if (d->total[i] > 0) continue;
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "%s: its total is %lld, and of that there are no shares that --fail-above "
                       "could compare",
                       i ? "comparison" : "baseline", (long long)d->total[i]);
    }
    // A function that one answer left out looks like a change; one that both left out has no row.
    if (c->frames_cut) {
        return err_set(
            e, ERR_FAILED_PRECONDITION,
            "the answers lack frames, so --fail-above cannot compare all functions: use a "
            "larger --max-nodes, or narrow the query");
    }
    if (c->parts_missing) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the answers are incomplete, so --fail-above cannot compare them: ask again "
                       "when nothing is missing");
    }
    const struct diff_row *worst = NULL;
    double worst_most = 0;
    enum part part = PART_SELF;
    size_t above = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct diff_row *r = &d->rows[i];
        double most = MAX(r->change[PART_SELF], r->change[PART_TOTAL]) * 100;
        if (most <= limit + POINT_LEAST) continue;
        above++;
        // Rows are sorted by changes of both signs: one whose total fell may be before one that
        // grew more. Of equal ones the first is named.
        if (worst && most <= worst_most) continue;
        worst = r;
        worst_most = most;
        part = r->change[PART_TOTAL] > r->change[PART_SELF] ? PART_TOTAL : PART_SELF;
    }
    if (!worst) return true;
    *status = CLI_ABOVE;
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "%zu %s grew by more than %.10g points, most of all %.*s: %s %+.2f pp", above,
                   above == 1 ? "function" : "functions", limit, STR(worst->name), part_names[part],
                   worst->change[part] * 100);
}

bool cli_diff(struct cli *c, int *status, err *e)
{
    struct diff d = {0};
    uint64_t n = ROWS;
    uint64_t nodes = 0;
    double limit = 0;
    if (!cli_width(c, e) || !read_ranges(c, &d, e) ||
        !cli_args_number(&c->args, OPT_TOP, 1, ROWS_MAX, &n, e) ||
        !cli_args_fraction(&c->args, OPT_FAIL_ABOVE, 0, 100, &limit, e) ||
        !cli_args_number(&c->args, OPT_MAX_NODES, 1, INT64_MAX, &nodes, e))
        return cli_wrong(status);
    assert(c->args.operand_count > 0);  // the row of the command demands one
    for (size_t i = 0; i < 2; i++) {
        // One query is for both sides.
        size_t at = MIN(i, c->args.operand_count - 1);
        if (!cli_query_read(c, c->args.operands[at], &d.q[i], status, e))
            return err_wrap(e, i ? "comparison" : "baseline");
    }
    if (!ask(c, &d, status, e)) return false;
    n = MIN(n, d.count);
    struct buf b;
    buf_init(&b, NULL, OUTPUT_MAX);
    if (cli_wants_json(c)) {
        struct buf json;
        buf_init(&json, NULL, OUTPUT_MAX);
        put_json(&json, &d, n);
        if (c->out_is_tty)
            text_filter(&b, buf_view(&json));
        else
            buf_str(&b, buf_view(&json));
        // The text that was copied is cut then; the failure must not be lost with its buffer.
        if (json.failed) b.failed = true;
        buf_release(&json);
    } else {
        put_table(c, &b, &d, n);
    }
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok && (!cli_args_has(&c->args, OPT_FAIL_ABOVE) || check_limit(c, &d, limit, status, e));
}
