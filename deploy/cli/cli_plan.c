// SPDX-License-Identifier: Apache-2.0
//
// plan - how much room a fleet takes, by the sizes that docs/benchmarks.md measured.
//
// A profile is one of the types of one pod. Its stacks have RAW_BYTES each as long as single
// profiles are kept, and then also the little that hours and days have beside them. Once profiles
// are gone, hours and days have all sums: each pod and type has a node an hour and a day, with the
// stacks of that time. All of it is of the load "fleet", which has the most bytes a stack.
#include "deploy/cli/cli_plan.h"

#include "deploy/cli/cli.h"
#include "sys/clock.h"

#include <stdio.h>

#define OUTPUT_MAX ((size_t)1 << 20)

#define RAW_BYTES        2.06  // of a stack and its value, in raw blocks
#define BESIDE_BYTES     0.04  // in hour nodes, as long as there are rows
#define BESIDE_DAY_BYTES 0.31  // in days and windows, as long as there are rows
#define HOUR_BYTES       1.68  // of a stack of an hour node that has all sums
#define DAY_BYTES        1.48  // of a day node
#define LOG_BYTES        650  // of a profile in an ingester's log, which has two cuts of ten minutes
#define LOG_SECONDS      1200
#define PUTS_AN_HOUR     10.5  // of an ingester
#define ROOM             1.25  // for what is replaced and not deleted yet, and for a busy day

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static struct sizes sizes_of(const struct fleet *f)
{
    const double day_s = 86400;
    struct sizes s = {.profiles_s = f->pods * f->types / f->interval_s};
    double with_rows = MIN(f->raw_days, f->days_days);
    double hours_after = MAX(MIN(f->hours_days, f->days_days) - with_rows, 0);
    double days_after = MAX(f->days_days - with_rows, 0);
    double a_day = s.profiles_s * day_s * f->stacks;
    double nodes = f->pods * f->types;
    // A node has no more than the profiles that it sums.
    double an_hour = MIN(f->hour_stacks, f->stacks * 3600 / f->interval_s);
    double day_node = MIN(f->day_stacks, f->stacks * day_s / f->interval_s);
    s.raw = a_day * RAW_BYTES * with_rows;
    s.hours = a_day * BESIDE_BYTES * with_rows + nodes * 24 * an_hour * HOUR_BYTES * hours_after;
    s.days = a_day * BESIDE_DAY_BYTES * with_rows + nodes * day_node * DAY_BYTES * days_after;
    s.all = (s.raw + s.hours + s.days) * ROOM;
    s.log = s.profiles_s * LOG_SECONDS * LOG_BYTES;
    plan_roles(f, &s);
    return s;
}

static bool read_days(struct cli *c, enum cli_option o, double *days, err *e)
{
    int64_t ns = 0;
    if (!cli_duration(c, o, &ns, e)) return false;
    *days = seconds(ns) / 86400;
    return true;
}

static bool read_fleet(struct cli *c, struct fleet *f, err *e)
{
    const double most = 1e9;
    int64_t interval = 0;
    const struct cli_args *a = &c->args;
    if (!cli_args_fraction(a, OPT_PODS, 1, most, &f->pods, e) ||
        !cli_args_fraction(a, OPT_TYPES, 1, 1000, &f->types, e) ||
        !cli_args_fraction(a, OPT_STACKS, 1, most, &f->stacks, e) ||
        !cli_args_fraction(a, OPT_QUESTIONS, 0, most, &f->questions_s, e) ||
        !cli_duration(c, OPT_EVERY, &interval, e) ||
        !read_days(c, OPT_RAW_RETENTION, &f->raw_days, e) ||
        !read_days(c, OPT_HOURS_RETENTION, &f->hours_days, e) ||
        !read_days(c, OPT_DAYS_RETENTION, &f->days_days, e))
        return false;
    if (interval < NS_PER_S)
        return err_set(e, ERR_INVALID_ARGUMENT, "--every is less than a second");
    f->interval_s = seconds(interval);
    f->hour_stacks = 4 * f->stacks;
    f->day_stacks = 8 * f->stacks;
    return cli_args_fraction(a, OPT_HOUR_STACKS, 1, most, &f->hour_stacks, e) &&
           cli_args_fraction(a, OPT_DAY_STACKS, 1, most, &f->day_stacks, e);
}

static void put_row(struct buf *b, const char *what, double bytes, const char *how)
{
    char text[TEXT_NUMBER_MAX];
    text_left(b, str_of(what), 28);
    text_right(b, text_value(text, bytes, TEXT_BYTES), 10);
    buf_printf(b, "  %s\n", how);
}

static void put_text(struct buf *b, const struct fleet *f, const struct sizes *s)
{
    char text[64];
    buf_printf(
        b, "%.0f pods with %.3g types, a profile of %.0f stacks every %.3g s: %.4g profiles/s\n\n",
        f->pods, f->types, f->stacks, f->interval_s, s->profiles_s);
    snprintf(text, sizeof text, "kept for %.3g days", MIN(f->raw_days, f->days_days));
    put_row(b, "single profiles", s->raw, text);
    snprintf(text, sizeof text, "kept for %.3g days", MIN(f->hours_days, f->days_days));
    put_row(b, "hours", s->hours, text);
    snprintf(text, sizeof text, "kept for %.3g days", f->days_days);
    put_row(b, "days and windows", s->days, text);
    put_row(b, "room to have in the store", s->all,
            "a quarter more than the sum; compactor.store_bytes");
    put_row(b, "log of all ingesters", s->log, "on their disks");
    put_row(b, "heads of all ingesters", s->head,
            "of memory, for profiles that are not flushed yet");
    put_row(b, "pushed a second", s->received_s, "of uncompressed pprof");
    buf_printf(
        b,
        "\nProcessors in use, all pods of a role together: distributors %.2g, ingesters %.2g, "
        "queriers %.2g,\n"
        "compactors %.2g. --values makes values for the chart of it, with room for peaks and "
        "restarts.\n",
        s->push_cores, s->push_cores, s->query_cores, s->compact_cores);
    buf_printf(b,
               "\nAn ingester sends about %.0f PUTs an hour for a tenant. Sizes are those that "
               "were measured\n"
               "of the load \"fleet\" (docs/benchmarks.md); `flametree manifest show DIR` tells "
               "those of a store.\n",
               PUTS_AN_HOUR);
}

static void put_json(struct buf *b, const struct fleet *f, const struct sizes *s)
{
    buf_printf(
        b,
        "{\"pods\":%.0f,\"types\":%g,\"stacks\":%g,\"every_seconds\":%g,\"profiles_per_second\":%g,"
        "\"raw_bytes\":%.0f,\"hours_bytes\":%.0f,\"days_bytes\":%.0f,\"store_bytes\":%.0f,"
        "\"log_bytes\":%.0f,\"head_bytes\":%.0f,\"received_bytes_per_second\":%.0f,"
        "\"distributor_cores\":%.6g,\"ingester_cores\":%.6g,\"querier_cores\":%.6g,"
        "\"compactor_cores\":%.6g}\n",
        f->pods, f->types, f->stacks, f->interval_s, s->profiles_s, s->raw, s->hours, s->days,
        s->all, s->log, s->head, s->received_s, s->push_cores, s->push_cores, s->query_cores,
        s->compact_cores);
}

bool cli_plan(struct cli *c, int *status, err *e)
{
    struct fleet f = {0};
    struct buf out;
    if (!cli_args_has(&c->args, OPT_PODS))
        return cli_wrong(status) || err_set(e, ERR_INVALID_ARGUMENT, "how many --pods?");
    if (!read_fleet(c, &f, e)) return cli_wrong(status);
    const struct sizes s = sizes_of(&f);
    buf_init(&out, NULL, OUTPUT_MAX);
    if (cli_args_has(&c->args, OPT_VALUES))
        plan_put_values(&out, &f, &s);
    else if (cli_wants_json(c))
        put_json(&out, &f, &s);
    else
        put_text(&out, &f, &s);
    bool ok = buf_ok(&out, e) && cli_write(c, &out, e);
    buf_release(&out);
    return ok;
}
