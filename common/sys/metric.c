// SPDX-License-Identifier: Apache-2.0
//
// metric.c - the cells of each metric, one for each value of its label, and the text for
// Prometheus.
#include "sys/clock.h"
#include "sys/metric_int.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TABLES_MAX 64
#define HOOKS_MAX  128

// Upper bounds of buckets; the last bucket has none.
static const struct {
    uint64_t ns;
    const char *text;  // seconds
} bounds[] = {
    {100000, "0.0001"},  {200000, "0.0002"},  {500000, "0.0005"},    {1000000, "0.001"},
    {2000000, "0.002"},  {5000000, "0.005"},  {10000000, "0.01"},    {20000000, "0.02"},
    {50000000, "0.05"},  {100000000, "0.1"},  {200000000, "0.2"},    {500000000, "0.5"},
    {1000000000, "1"},   {2000000000, "2"},   {5000000000, "5"},     {10000000000, "10"},
    {20000000000, "20"}, {50000000000, "50"}, {100000000000, "100"},
};
static_assert(COUNT(bounds) + 1 == METRIC_BUCKETS, "one bucket lies above all bounds");

struct lock metric_lock = LOCK_INIT(LOCK_METRIC);
static struct {
    struct metric *const *v;
    size_t n;
} tables[TABLES_MAX];
static size_t table_count;

static struct hook {
    void (*fn)(void *arg);
    void *arg;
} hooks[HOOKS_MAX];
static size_t hook_count;

static void expect_values(struct metric *m)
{
    str rest = str_of(m->expected ? m->expected : "");
    while (rest.n > 0) {
        str value = str_split(rest, ' ', &rest);
        if (value.n) (void)metric_expect_to(m, value);
    }
}

void metric_register(struct metric *const *table, size_t n)
{
    lock_take(&metric_lock);
    bool known = false;
    for (size_t i = 0; i < table_count; i++)
        known |= tables[i].v == table;
    assert(known || table_count < TABLES_MAX);
    if (!known) {
        tables[table_count].v = table;
        tables[table_count].n = n;
        table_count++;
    }
    lock_give(&metric_lock);
    for (size_t i = 0; i < n; i++)
        expect_values(table[i]);
}

static bool cell_is(const struct metric_cell *c, str value)
{
    return value.n == c->value_n && (value.n == 0 || memcmp(value.p, c->value, value.n) == 0);
}

// Values are added under the lock and published by cell_count (release); a reader that sees the
// count (acquire) sees the value, which never changes again.
static struct metric_cell *cell_find(const struct metric *m, str value, uint32_t from)
{
    uint32_t n = atomic_load_explicit(&m->cell_count, memory_order_acquire);
    for (uint32_t i = from; i < n; i++) {
        if (cell_is(&m->cells[i], value)) return &m->cells[i];
    }
    return NULL;
}

static struct metric_cell *cell_add(struct metric *m, str value)
{
    lock_take(&metric_lock);
    struct metric_cell *c = cell_find(m, value, 0);
    uint32_t n = atomic_load_explicit(&m->cell_count, memory_order_relaxed);
    if (!c) {
        assert(value.n < sizeof c->value);
        if (n == METRIC_CELLS - 1) value = S("other");  // the last cell is for all further values
        if (n == METRIC_CELLS) {
            c = &m->cells[METRIC_CELLS - 1];
        } else {
            assert(n < METRIC_CELLS);
            c = &m->cells[n];
            memcpy(c->value, value.p, value.n);
            c->value[value.n] = '\0';
            c->value_n = value.n;
            atomic_store_explicit(&m->cell_count, n + 1, memory_order_release);
        }
    }
    lock_give(&metric_lock);
    return c;
}

static struct metric_cell *cell_of(struct metric *m, str value)
{
    assert(m->label[0] && !metric_has_sets(m));
    // Read before the search: after it another thread may add this very value and then fill the
    // table, and the value would be counted as "other".
    bool full = atomic_load_explicit(&m->cell_count, memory_order_acquire) == METRIC_CELLS;
    struct metric_cell *c = cell_find(m, value, 0);
    if (c) return c;
    if (value.n >= sizeof m->cells->value || !str_utf8(value)) value = S("other");
    return full ? &m->cells[METRIC_CELLS - 1] : cell_add(m, value);
}

static struct metric_cell *cell_only(struct metric *m)
{
    assert(!m->label[0]);
    return &m->cells[0];
}

static void add(struct metric_cell *c, uint64_t n)
{
    atomic_fetch_add_explicit(&c->sum, (int64_t)n, memory_order_relaxed);
}

static void observe(struct metric_cell *c, uint64_t ns)
{
    // One after the other: most times are short, and the bounds are few.
    size_t i = 0;
    while (i < COUNT(bounds) && ns > bounds[i].ns)
        i++;
    atomic_fetch_add_explicit(&c->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
    add(c, ns);
}

void metric_add(struct metric *m, uint64_t n)
{
    assert(m->kind != METRIC_HISTOGRAM);
    add(cell_only(m), n);
}

void metric_add_to(struct metric *m, str label_value, uint64_t n)
{
    assert(m->kind != METRIC_HISTOGRAM);
    add(cell_of(m, label_value), n);
}

bool metric_expect_to(struct metric *m, str label_value)
{
    assert(m->kind == METRIC_COUNTER && m->label[0] && !metric_has_sets(m));
    if (cell_find(m, label_value, 0)) return true;
    uint32_t n = atomic_load_explicit(&m->cell_count, memory_order_acquire);
    if (n >= METRIC_CELLS / 2) return false;
    add(cell_of(m, label_value), 0);
    return true;
}

void metric_set(struct metric *m, int64_t v)
{
    assert(m->kind == METRIC_GAUGE);
    atomic_store_explicit(&cell_only(m)->sum, v, memory_order_relaxed);
}

void metric_set_to(struct metric *m, str label_value, int64_t v)
{
    assert(m->kind == METRIC_GAUGE);
    atomic_store_explicit(&cell_of(m, label_value)->sum, v, memory_order_relaxed);
}

static bool is_counter(const struct metric *m)
{
    return m->kind == METRIC_COUNTER || m->kind == METRIC_SECONDS;
}

void metric_mirror(struct metric *m, uint64_t total)
{
    assert(is_counter(m));
    atomic_store_explicit(&cell_only(m)->sum, (int64_t)total, memory_order_relaxed);
}

void metric_mirror_to(struct metric *m, str label_value, uint64_t total)
{
    assert(is_counter(m));
    atomic_store_explicit(&cell_of(m, label_value)->sum, (int64_t)total, memory_order_relaxed);
}

void metric_observe_ns(struct metric *m, uint64_t ns)
{
    assert(m->kind == METRIC_HISTOGRAM);
    observe(cell_only(m), ns);
}

void metric_observe_ns_to(struct metric *m, str label_value, uint64_t ns)
{
    assert(m->kind == METRIC_HISTOGRAM);
    observe(cell_of(m, label_value), ns);
}

void metric_on_print(void (*fn)(void *arg), void *arg)
{
    lock_take(&metric_lock);
    assert(hook_count < HOOKS_MAX);
    hooks[hook_count++] = (struct hook){fn, arg};
    lock_give(&metric_lock);
}

void metric_off_print(void (*fn)(void *arg), void *arg)
{
    // A print that runs meanwhile may still call it: callers stop printing before (the listeners
    // are closed).
    lock_take(&metric_lock);
    for (size_t i = 0; i < hook_count; i++) {
        if (hooks[i].fn != fn || hooks[i].arg != arg) continue;
        hooks[i] = hooks[--hook_count];
        break;
    }
    lock_give(&metric_lock);
}

// ---- printing

static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
                                    [METRIC_GAUGE] = "gauge",
                                    [METRIC_HISTOGRAM] = "histogram",
                                    [METRIC_REAL] = "gauge",
                                    [METRIC_SECONDS] = "counter"};

static void print_seconds(struct buf *out, uint64_t ns)
{
    buf_printf(out, "%" PRIu64 ".%09" PRIu64, ns / (uint64_t)NS_PER_S, ns % (uint64_t)NS_PER_S);
}

void metric_print_escaped(struct buf *out, const char *z, bool quotes)
{
    for (; *z; z++) {
        if (*z == '\\')
            buf_z(out, "\\\\");
        else if (*z == '\n')
            buf_z(out, "\\n");
        else if (*z == '"' && quotes)
            buf_z(out, "\\\"");
        else
            buf_byte(out, (unsigned char)*z);
    }
}

// name{label="value",le="bound"}, each part only if there is one.
static void print_name(struct buf *out, const struct metric *m, const char *suffix,
                       const struct metric_cell *c, const char *bound)
{
    buf_z(out, m->name);
    buf_z(out, suffix);
    if (m->label[0] || bound) {
        buf_byte(out, '{');
        if (m->label[0]) {
            buf_printf(out, "%s=\"", m->label);
            metric_print_escaped(out, c->value, true);
            buf_byte(out, '"');
        }
        if (bound) buf_printf(out, "%sle=\"%s\"", m->label[0] ? "," : "", bound);
        buf_byte(out, '}');
    }
    buf_byte(out, ' ');
}

static void print_histogram(struct buf *out, const struct metric *m, struct metric_cell *c)
{
    uint64_t below = 0;
    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        below += atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        print_name(out, m, "_bucket", c, i < COUNT(bounds) ? bounds[i].text : "+Inf");
        buf_u64(out, below);
        buf_byte(out, '\n');
    }
    // The sum of the buckets just printed, not `count`: they must agree even under load.
    print_name(out, m, "_sum", c, NULL);
    print_seconds(out, (uint64_t)atomic_load_explicit(&c->sum, memory_order_relaxed));
    buf_byte(out, '\n');
    print_name(out, m, "_count", c, NULL);
    buf_u64(out, below);
    buf_byte(out, '\n');
}

static void print_cell(struct buf *out, const struct metric *m, struct metric_cell *c)
{
    int64_t v = atomic_load_explicit(&c->sum, memory_order_relaxed);
    switch (m->kind) {
    case METRIC_HISTOGRAM:
        print_histogram(out, m, c);
        return;
    case METRIC_COUNTER:
        print_name(out, m, "", c, NULL);
        buf_u64(out, (uint64_t)v);
        break;
    case METRIC_GAUGE:
        print_name(out, m, "", c, NULL);
        buf_i64(out, v);
        break;
    case METRIC_SECONDS:
        print_name(out, m, "", c, NULL);
        print_seconds(out, (uint64_t)v);
        break;
    case METRIC_REAL:
        abort();  // has sets
    }
    buf_byte(out, '\n');
}

static void print_metric(struct buf *out, const struct metric *m)
{
    buf_printf(out, "# HELP %s ", m->name);
    metric_print_escaped(out, m->help, false);
    buf_printf(out, "\n# TYPE %s %s\n", m->name, kinds[m->kind]);
    if (metric_has_sets(m)) {
        metric_print_sets(out, m);
        return;
    }
    uint32_t n = 1;
    if (m->label[0]) n = atomic_load_explicit(&m->cell_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        print_cell(out, m, &m->cells[i]);
}

static int by_name(const void *a, const void *b)
{
    const struct metric *const *x = a;
    const struct metric *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

// All registered metrics in order of name; returns owned. Without memory `out` fails and it is
// NULL.
static struct metric **sorted(size_t *count, struct buf *out)
{
    err e = {0};
    *count = 0;
    lock_take(&metric_lock);
    size_t n = 0;
    for (size_t i = 0; i < table_count; i++)
        n += tables[i].n;
    struct metric **all = mem_alloc(NULL, n * sizeof(struct metric *), &e);
    if (!all) buf_starve(out);
    n = 0;
    for (size_t i = 0; all && i < table_count; i++) {
        for (size_t k = 0; k < tables[i].n; k++)
            all[n++] = tables[i].v[k];
    }
    lock_give(&metric_lock);
    if (all) qsort(all, n, sizeof(struct metric *), by_name);
    *count = n;
    return all;
}

void metric_print(struct buf *out)
{
    struct hook now[HOOKS_MAX];
    lock_take(&metric_lock);
    size_t hooks_now = hook_count;
    memcpy(now, hooks, sizeof now);
    lock_give(&metric_lock);
    for (size_t i = 0; i < hooks_now; i++)  // without the lock: hooks set gauges, which may take it
        now[i].fn(now[i].arg);

    size_t n = 0;
    struct metric **all = sorted(&n, out);
    for (size_t i = 0; i < n; i++)
        print_metric(out, all[i]);
    mem_free(NULL, (void *)all, n * sizeof(struct metric *));
}

void metric_print_markdown(struct buf *out)
{
    size_t n = 0;
    struct metric **all = sorted(&n, out);
    buf_z(out, "| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const struct metric *m = all[i];
        buf_printf(out, "| `%s` | %s | %s | %s |\n", m->name, kinds[m->kind], m->label, m->help);
    }
    mem_free(NULL, (void *)all, n * sizeof(struct metric *));
}
