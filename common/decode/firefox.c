// SPDX-License-Identifier: Apache-2.0
//
// firefox.c - profiles of the Firefox Profiler: Gecko's, and processed ones, which samply and the
// page of the profiler write. Each sample has a row of the table of stacks, a frame and the row of
// the stack above it.
//
// A sample counts its weight, or 1, and stands for so many intervals of wall time. Weights of other
// types are sizes (bytes) or times (tracing-ms) already. threadCPUDelta is the time of a processor
// since the sample before.
#include "decode/firefox_int.h"
#include "decode/graft.h"
#include "model/marks.h"

#include <stdlib.h>

#define NS_PER_MS 1e6
#define NO_COLUMN UINT32_MAX

enum fx_type {
    FX_SAMPLES,
    FX_CPU,
    FX_WALL,
    FX_SPACE,
    FX_TYPES
};

// The sample types of one thread.
enum fx_weight {
    FX_OF_SAMPLES,
    FX_OF_TIME,
    FX_OF_BYTES
};

// The state of a stack's row for the thread that is being made.
struct fx_stack {
    size_t thread;  // number + 1
    uint32_t node;
    bool unknown;  // a frame of it is not in the file
};

struct fx_frame {
    uint32_t row;
    bool known;    // `row` is found
    bool unknown;  // it is not in the file
};

struct fx_maker {
    struct fx *f;
    struct graft g;
    uint32_t columns[FX_TYPES];
    const struct fx_tables *tables;  // those that `stacks` and `frames` are about
    struct fx_stack *stacks;
    struct fx_frame *frames;
    size_t *path;
    // of the thread that is being made
    const struct fx_thread *thread;
    struct fx_tables own;  // each table of the thread, or the shared one
    const struct fx_libs *libs;
    uint32_t root;
};

// ---- names

static bool fx_at(const struct json_ints *column, int64_t row, int64_t *out)
{
    if (row < 0 || (uint64_t)row >= column->n || column->v[row] < 0) return false;
    *out = column->v[row];
    return true;
}

static bool fx_string(const struct fx_tables *t, const struct json_ints *column, int64_t row,
                      str *out)
{
    int64_t s = 0;
    *out = (str){0};
    if (!fx_at(column, row, &s) || (uint64_t)s >= t->strings.n) return false;
    *out = t->strings.v[s];
    return true;
}

// "0x1f" as a number.
static bool fx_hex(str s, uint64_t *out)
{
    return str_starts(s, S("0x")) && str_hex(str_slice(s, 2, s.n), out);
}

// Libraries are sorted by their start.
static const struct fx_lib *fx_lib_at(const struct fx_libs *libs, uint64_t address)
{
    size_t from = 0;
    size_t to = libs->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (libs->v[middle].start <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from && address < libs->v[from - 1].end ? &libs->v[from - 1] : NULL;
}

struct fx_name {
    str name;
    str file;
    int64_t line;
};

// "name (file:line)" or "name (file:line:column)"
static void fx_split_location(str location, struct fx_name *out)
{
    size_t open = location.n;
    out->name = location;
    if (!str_ends(location, S(")"))) return;
    for (size_t i = location.n - 1; i > 1 && open == location.n; i--) {
        if (location.p[i] == '(' && location.p[i - 1] == ' ') open = i;
    }
    if (open == location.n) return;
    str file = str_slice(location, open + 1, location.n - 1);
    int64_t line = 0;
    for (int parts = 0; parts < 2; parts++) {
        size_t colon = str_rfind(file, ':');
        int64_t number = 0;
        if (colon == file.n || !str_i64(str_slice(file, colon + 1, file.n), &number)) break;
        line = number;
        file = str_slice(file, 0, colon);
    }
    if (line <= 0 || file.n == 0) return;
    *out = (struct fx_name){str_slice(location, 0, open - 1), file, line};
}

static bool fx_of_library(struct fx_maker *m, str lib, uint64_t address, str *out, err *e)
{
    *out = arena_printf(m->f->a, "%.*s!0x%llx", STR(lib), (unsigned long long)address);
    return arena_ok(m->f->a, e);
}

// Gecko's: a text, or an address.
static bool fx_gecko_name(struct fx_maker *m, int64_t frame, struct fx_name *out, err *e)
{
    const struct fx_tables *t = &m->own;
    str location = {0};
    uint64_t address = 0;
    if (!fx_string(t, &t->frame_location, frame, &location) || location.n == 0) return true;
    fx_split_location(location, out);
    if (!fx_hex(location, &address)) return true;
    const struct fx_lib *lib = fx_lib_at(m->libs, address);
    return !lib || fx_of_library(m, lib->name, address - lib->start, &out->name, e);
}

// The library of a function, or empty.
static str fx_library(const struct fx_maker *m, int64_t func)
{
    const struct fx_tables *t = &m->own;
    int64_t resource = 0;
    int64_t lib = 0;
    str name = {0};
    if (!fx_at(&t->func_resource, func, &resource)) return name;
    if (fx_at(&t->resource_lib, resource, &lib) && (uint64_t)lib < m->libs->n)
        return m->libs->v[lib].name;
    (void)fx_string(t, &t->resource_name, resource, &name);
    return name;
}

static bool fx_processed_name(struct fx_maker *m, int64_t frame, struct fx_name *out, err *e)
{
    const struct fx_tables *t = &m->own;
    int64_t func = -1;
    int64_t source = -1;
    int64_t address = 0;
    uint64_t number = 0;
    bool has_func = fx_at(&t->frame_func, frame, &func);
    if (has_func) {
        (void)fx_string(t, &t->func_name, func, &out->name);
        if (!fx_string(t, &t->func_file, func, &out->file) && fx_at(&t->func_source, func, &source))
            (void)fx_string(t, &t->source_file, source, &out->file);
        if (!fx_at(&t->func_line, func, &out->line)) out->line = 0;
    }
    // Not symbolised: its name is its address in its library, or it has none.
    bool is_number = fx_hex(out->name, &number);
    if (out->name.n && !is_number) return true;
    if (!is_number) {
        if (!fx_at(&t->frame_address, frame, &address)) return true;
        number = (uint64_t)address;
    }
    str lib = has_func ? fx_library(m, func) : (str){0};
    if (lib.n) return fx_of_library(m, lib, number, &out->name, e);
    if (!is_number) out->name = arena_printf(m->f->a, "0x%llx", (unsigned long long)number);
    return arena_ok(m->f->a, e);
}

static bool fx_frame(struct fx_maker *m, int64_t frame, struct fx_frame *out, err *e)
{
    const struct fx_tables *t = &m->own;
    size_t n = MAX(t->frame_func.n, MAX(t->frame_location.n, t->frame_address.n));
    struct fx_name name = {0};
    struct fx_frame *kept = frame >= 0 && (uint64_t)frame < n ? &m->frames[frame] : NULL;
    if (kept && kept->known) {
        *out = *kept;
        return true;
    }
    if (kept && !(t->frame_location.n ? fx_gecko_name(m, frame, &name, e)
                                      : fx_processed_name(m, frame, &name, e)))
        return false;
    *out = (struct fx_frame){.known = true, .unknown = name.name.n == 0};
    if (out->unknown) name = (struct fx_name){.name = S(STACK_UNKNOWN_NAME)};
    if (!stacks_frame(&m->g.s, name.name, name.file, name.line, &out->row, e)) return false;
    if (kept) *kept = *out;
    return true;
}

// ---- stacks

// The node of a stack of this thread. The way to the root ends at the first row that has one.
static bool fx_stack(struct fx_maker *m, size_t stack, struct fx_stack *out, err *e)
{
    const struct fx_tables *t = &m->own;
    size_t number = (size_t)(m->thread - m->f->threads) + 1;
    size_t steps = 0;
    struct fx_stack at = {.thread = number, .node = m->root};
    for (;;) {
        int64_t prefix = stack < t->stack_prefix.n ? t->stack_prefix.v[stack] : JSON_NOTHING;
        if (m->stacks[stack].thread == number) {
            at = m->stacks[stack];
            break;
        }
        if (steps == t->stack_frame.n)
            return err_set(e, ERR_INVALID_ARGUMENT, "stack %zu is its own ancestor", stack);
        m->path[steps++] = stack;
        if (prefix < 0) break;
        if ((uint64_t)prefix >= t->stack_frame.n) {
            at.unknown = true;
            if (!graft_named(&m->g, m->root, S(STACK_UNKNOWN_NAME), &at.node, e)) return false;
            break;
        }
        stack = (size_t)prefix;
    }
    while (steps-- > 0) {
        struct fx_frame frame;
        size_t row = m->path[steps];
        if (!fx_frame(m, t->stack_frame.v[row], &frame, e) ||
            !graft_child(&m->g, at.node, frame.row, &at.node, e))
            return false;
        at.unknown |= frame.unknown;
        m->stacks[row] = at;
    }
    *out = at;
    return true;
}

// ---- values

static bool fx_value(struct fx_maker *m, uint32_t node, enum fx_type type, double value, err *e)
{
    int64_t whole = 0;
    if (m->columns[type] == NO_COLUMN || value == 0) return true;
    if (!json_whole(value, &whole))
        return err_set(e, ERR_OUT_OF_RANGE, "a value of %g does not fit 64 bits", value);
    return graft_add(&m->g, node, m->columns[type], whole, e);
}

static enum fx_weight fx_weight_of(const struct fx_thread *t)
{
    return str_is(t->weight_type, "bytes")        ? FX_OF_BYTES
           : str_is(t->weight_type, "tracing-ms") ? FX_OF_TIME
                                                  : FX_OF_SAMPLES;
}

// Nanoseconds of a unit of threadCPUDelta; 0 if it is none of time.
static double fx_cpu_unit(const struct fx_process *p)
{
    if (str_is(p->cpu_unit, "ns")) return 1;
    if (str_is(p->cpu_unit, "\xc2\xb5s") || str_is(p->cpu_unit, "us")) return 1e3;
    return str_is(p->cpu_unit, "ms") ? NS_PER_MS : 0;
}

static size_t fx_sample_count(const struct fx_thread *t)
{
    return MAX(t->stacks.n, MAX(t->weights.n, t->cpu.n));
}

static bool fx_sample(struct fx_maker *m, size_t i, err *e)
{
    const struct fx_thread *t = m->thread;
    const struct fx_process *p = &m->f->processes[t->process];
    int64_t stack = i < t->stacks.n ? t->stacks.v[i] : JSON_NOTHING;
    double weight = i < t->weights.n ? t->weights.v[i] : 1;
    double cpu = i < t->cpu.n ? t->cpu.v[i] : 0;
    struct fx_stack at = {.node = m->root};
    if (weight == 0 && cpu == 0) return true;
    if (stack < 0 || (uint64_t)stack >= m->own.stack_frame.n)
        graft_lose(&m->g, LOSS_UNKNOWN_STACK, 1);
    else if (!fx_stack(m, (size_t)stack, &at, e))
        return false;
    if (at.unknown) graft_lose(&m->g, LOSS_UNKNOWN_FRAME, 1);
    if (!fx_value(m, at.node, FX_CPU, cpu * fx_cpu_unit(p), e)) return false;
    switch (fx_weight_of(t)) {
    case FX_OF_BYTES:
        return fx_value(m, at.node, FX_SPACE, weight, e);
    case FX_OF_TIME:
        return fx_value(m, at.node, FX_WALL, weight * NS_PER_MS, e);
    case FX_OF_SAMPLES:
        break;
    }
    return fx_value(m, at.node, FX_SAMPLES, weight, e) &&
           fx_value(m, at.node, FX_WALL, weight * p->interval_ms * NS_PER_MS, e);
}

// ---- threads

static int fx_by_start(const void *one, const void *two)
{
    const struct fx_lib *a = one;
    const struct fx_lib *b = two;
    return a->start < b->start ? -1 : a->start > b->start;
}

// The thread's own, or the one that all threads share.
static void fx_ints_or(struct json_ints *own, const struct json_ints *shared)
{
    if (own->n == 0) *own = *shared;
}

static void fx_tables_or(struct fx_tables *own, const struct fx_tables *shared)
{
    if (own->strings.n == 0) own->strings = shared->strings;
    fx_ints_or(&own->stack_frame, &shared->stack_frame);
    fx_ints_or(&own->stack_prefix, &shared->stack_prefix);
    fx_ints_or(&own->frame_func, &shared->frame_func);
    fx_ints_or(&own->frame_address, &shared->frame_address);
    fx_ints_or(&own->frame_location, &shared->frame_location);
    fx_ints_or(&own->func_name, &shared->func_name);
    fx_ints_or(&own->func_file, &shared->func_file);
    fx_ints_or(&own->func_source, &shared->func_source);
    fx_ints_or(&own->func_line, &shared->func_line);
    fx_ints_or(&own->func_resource, &shared->func_resource);
    fx_ints_or(&own->resource_lib, &shared->resource_lib);
    fx_ints_or(&own->resource_name, &shared->resource_name);
    fx_ints_or(&own->source_file, &shared->source_file);
}

// Threads that share all of their tables also share what is known about them.
static bool fx_reset(struct fx_maker *m, err *e)
{
    const struct fx_tables *t = &m->own;
    const struct fx_process *p = &m->f->processes[m->thread->process];
    bool shared = t->stack_frame.v == p->shared.stack_frame.v &&
                  t->frame_func.v == p->shared.frame_func.v &&
                  t->func_name.v == p->shared.func_name.v && t->strings.v == p->shared.strings.v;
    if (shared && m->tables == &p->shared) return true;
    size_t frames = MAX(t->frame_func.n, MAX(t->frame_location.n, t->frame_address.n));
    m->tables = shared ? &p->shared : NULL;
    m->stacks = ARENA_ARRAY(m->f->a, struct fx_stack, t->stack_frame.n);
    m->path = ARENA_ARRAY(m->f->a, size_t, t->stack_frame.n);
    m->frames = ARENA_ARRAY(m->f->a, struct fx_frame, frames);
    return (m->stacks && m->path && m->frames) || arena_fail(m->f->a, e);
}

static bool fx_make_thread(struct fx_maker *m, err *e)
{
    const struct fx_process *p = &m->f->processes[m->thread->process];
    const struct profile_label labels[] = {{.key = S("thread"), .text = m->thread->name},
                                           {.key = S("pid"), .text = m->thread->pid}};
    size_t n = fx_sample_count(m->thread);
    if (n == 0) return true;
    m->own = m->thread->tables;
    fx_tables_or(&m->own, &p->shared);
    m->libs = m->thread->libs.n ? &m->thread->libs : &p->libs;
    if (m->own.frame_location.n && m->libs->n)
        qsort(m->libs->v, m->libs->n, sizeof *m->libs->v, fx_by_start);
    if (!fx_reset(m, e) || !graft_root(&m->g, labels, COUNT(labels), &m->root, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!fx_sample(m, i, e)) return err_wrap(e, "sample %zu", i);
    }
    return true;
}

// ---- types

static bool fx_has_cpu(const struct fx *f, const struct fx_thread *t)
{
    if (fx_cpu_unit(&f->processes[t->process]) == 0) return false;
    for (size_t i = 0; i < t->cpu.n; i++) {
        if (t->cpu.v[i] != 0) return true;
    }
    return false;
}

// The types of which some thread has values.
static uint32_t fx_types(struct fx_maker *m, struct profile_type types[FX_TYPES])
{
    static const struct profile_type all[FX_TYPES] = {
        [FX_SAMPLES] = {S_INIT("samples"), S_INIT("count")},
        [FX_CPU] = {S_INIT("cpu"), S_INIT("nanoseconds")},
        [FX_WALL] = {S_INIT("wall"), S_INIT("nanoseconds")},
        [FX_SPACE] = {S_INIT("space"), S_INIT("bytes")},
    };
    bool has[FX_TYPES] = {0};
    uint32_t n = 0;
    for (size_t i = 0; i < m->f->thread_count; i++) {
        const struct fx_thread *t = &m->f->threads[i];
        enum fx_weight of = fx_weight_of(t);
        if (fx_sample_count(t) == 0) continue;
        has[FX_SPACE] |= of == FX_OF_BYTES;
        has[FX_SAMPLES] |= of == FX_OF_SAMPLES;
        has[FX_WALL] |= of == FX_OF_TIME ||
                        (of == FX_OF_SAMPLES && m->f->processes[t->process].interval_ms > 0);
        has[FX_CPU] |= fx_has_cpu(m->f, t);
    }
    for (uint32_t i = 0; i < FX_TYPES; i++) {
        m->columns[i] = has[i] ? n : NO_COLUMN;
        if (has[i]) types[n++] = all[i];
    }
    return n;
}

// Processes that do not say it have the interval and unit of the one that they are nested in, which
// comes before them.
static void fx_inherit(struct fx *f)
{
    for (size_t i = 1; i < f->process_count; i++) {
        struct fx_process *p = &f->processes[i];
        if (p->interval_ms <= 0) p->interval_ms = f->processes[p->parent].interval_ms;
        if (p->cpu_unit.n == 0) p->cpu_unit = f->processes[p->parent].cpu_unit;
    }
}

static void fx_period(struct fx_maker *m, struct profile *p)
{
    if (m->columns[FX_WALL] == NO_COLUMN || m->columns[FX_SAMPLES] == NO_COLUMN) return;
    if (!json_whole(m->f->processes[0].interval_ms * NS_PER_MS, &p->period)) p->period = 0;
    if (p->period) p->period_type = p->types[m->columns[FX_WALL]];
}

bool decode_firefox(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                    err *e)
{
    struct fx f = {.a = a};
    struct fx_maker m = {.f = &f};
    struct profile_type types[FX_TYPES];
    struct profile *p = NULL;
    if (!fx_read(&f, bytes, e)) return false;
    fx_inherit(&f);
    uint32_t n = fx_types(&m, types);
    if (n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "there is no sample in this file");
    bool ok = graft_begin(&m.g, a, bytes.n, o, types, n, e);
    for (size_t i = 0; ok && i < f.thread_count; i++) {
        m.thread = &f.threads[i];
        ok = fx_make_thread(&m, e) || err_wrap(e, "thread %zu", i);
    }
    ok = ok && graft_finish(&m.g, &p, e);
    graft_release(&m.g);
    if (!ok) return false;
    fx_period(&m, p);
    *out = (struct decoded){p, 1};
    return true;
}
