// SPDX-License-Identifier: Apache-2.0
//
// ingest_type.c - the tables of suffixes and default names are Pyroscope's.
#include "distributor/ingest_type.h"

#include "codec/json.h"
#include "intake/stack_rows.h"
#include "intake/text.h"
#include "sys/clock.h"

#define DEFAULT_SAMPLE_RATE 100

// ---- text

static const struct {
    str suffix;
    str name;
    str sample_type;
    str sample_unit;
} suffixes[] = {
#define ROW(suffix, name, type, unit) {S_INIT(suffix), S_INIT(name), S_INIT(type), S_INIT(unit)},
    // clang-format off
    ROW("cpu", "process_cpu", "samples", "count")
    ROW("itimer", "process_cpu", "samples", "count")
    ROW("wall", "wall", "samples", "count")
    ROW("seconds", "wall", "samples", "count")
    ROW("nanoseconds", "wall", "samples", "count")
    ROW("microseconds", "wall", "samples", "count")
    ROW("milliseconds", "wall", "samples", "count")
    ROW("inuse_objects", "memory", "inuse_objects", "count")
    ROW("alloc_objects", "memory", "alloc_objects", "count")
    ROW("inuse_space", "memory", "inuse_space", "bytes")
    ROW("alloc_space", "memory", "alloc_space", "bytes")
    ROW("goroutines", "goroutine", "goroutines", "count")
    ROW("mutex_count", "mutex", "contentions", "count")
    ROW("mutex_duration", "mutex", "delay", "nanoseconds")
    ROW("block_count", "block", "contentions", "count")
    ROW("block_duration", "block", "delay", "nanoseconds")
    ROW("lock_count", "block", "contentions", "count")
    ROW("lock_duration", "block", "delay", "nanoseconds")
    ROW("alloc_in_new_tlab_objects", "memory", "alloc_in_new_tlab_objects", "count")
    ROW("alloc_outside_tlab_objects", "memory", "alloc_outside_tlab_objects", "count")
    ROW("alloc_in_new_tlab_bytes", "memory", "alloc_in_new_tlab_bytes", "bytes")
    ROW("alloc_outside_tlab_bytes", "memory", "alloc_outside_tlab_bytes", "bytes")
    ROW("live", "memory", "live", "count")
    ROW("exceptions", "exceptions", "samples", "count")
    ROW("bytes", "memory", "samples", "bytes")
    ROW("none", "samples", "samples", "count")
// clang-format on
#undef ROW
};

// Names of types are lower-case words. Where another text stands behind the last dot, as in "shop
// 2.1" or "example.org/shop", the dot is one of the service's name.
static bool may_be_type(str suffix)
{
    for (size_t i = 0; i < suffix.n; i++) {
        char c = suffix.p[i];
        if ((c < 'a' || c > 'z') && c != '_') return false;
    }
    return true;
}

bool ingest_type_of_app(str app, struct ingest_type *out, err *e)
{
    size_t dot = str_rfind(app, '.');
    str suffix = dot < app.n ? str_slice(app, dot + 1, app.n) : S("cpu");
    if (!may_be_type(suffix)) {
        suffix = S("cpu");
        dot = app.n;
    }
    // A name without a dot is of CPU time, as the first SDKs sent it.
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        if (!str_eq(suffixes[i].suffix, suffix)) continue;
        *out = (struct ingest_type){str_slice(app, 0, dot), suffixes[i].name,
                                    suffixes[i].sample_type, suffixes[i].sample_unit};
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "pyroscopeIngesterAdapter failed to convert metadata: unknown profile type: "
                   "%.*s (what stands behind the last dot of name is the type; end the name in "
                   ".cpu if the dot is part of the service's name)",
                   STR(text_shown(suffix)));
}

bool ingest_type_is_time(const struct ingest_type *t)
{
    return str_is(t->name, "process_cpu") || str_is(t->name, "wall");
}

void ingest_type_column(const struct ingest_type *t, int64_t sample_rate, struct profile *p)
{
    if (p->type_count != 2) return;
    bool time = ingest_type_is_time(t) && sample_rate == INGEST_RATE_OF_FILE;
    for (uint32_t i = 0; i < p->sample_count; i++)
        p->values[i] = p->values[2 * (size_t)i + time];
    p->types += time;
    p->type_count = 1;
}

// How long a sample is, in ns.
static int64_t ingest_type_period(int64_t sample_rate, bool is_time, struct profile *p)
{
    if (sample_rate > 0) return MAX(NS_PER_S / sample_rate, 1);
    if (p->period > 0) return p->period;
    if (!is_time) losses_add(&p->losses, LOSS_ASSUMED_RATE, p->sample_count);
    return NS_PER_S / DEFAULT_SAMPLE_RATE;
}

bool ingest_type_apply(const struct ingest_type *t, int64_t sample_rate, struct profile *p, err *e)
{
    assert(p->type_count == 1);
    bool is_cpu = str_is(t->name, "process_cpu");
    // speedscope gives times, which need no rate, and sizes, which have none.
    bool is_time = str_is(p->types[0].unit, "nanoseconds");
    if (str_is(p->types[0].unit, "bytes")) sample_rate = 0;
    p->types[0] = (struct profile_type){t->sample_type, t->sample_unit};
    if (sample_rate == 0 || !ingest_type_is_time(t)) {
        // The rate in a text concerns its time alone.
        p->period_type = (struct profile_type){0};
        p->period = 0;
        return true;
    }
    // Counts become nanoseconds: a sample stands for the time between two of them.
    int64_t period = ingest_type_period(sample_rate, is_time, p);
    p->types[0] = (struct profile_type){is_cpu ? S("cpu") : S("wall"), S("nanoseconds")};
    p->period_type = (struct profile_type){S("cpu"), S("nanoseconds")};
    p->period = period;
    if (is_time) return true;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        if (!__builtin_mul_overflow(p->values[i], period, &p->values[i])) continue;
        return err_set(e, ERR_OUT_OF_RANGE, "a count times %lld ns does not fit 64 bits",
                       (long long)period);
    }
    return true;
}

// Adds samples with equal stacks to the first of them.
static bool add_up(struct arena *a, struct profile *p, struct symbols *names, err *e)
{
    struct stack_rows stacks;
    uint32_t *rows = ARENA_ARRAY(a, uint32_t, p->sample_count);
    if (!rows) return arena_fail(a, e);
    if (!stack_rows_init(&stacks, a, p, names, NULL, e)) return false;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        rows[i] = stack_rows_row(&stacks, i, e);
        if (rows[i] == MAP_NONE) return false;
    }
    uint32_t *sample_of = ARENA_ARRAY(a, uint32_t, names->t.stack_count);  // + 1; 0: none yet
    if (!sample_of) return arena_fail(a, e);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        assert(rows[i] < names->t.stack_count && n <= i);
        uint32_t *known = &sample_of[rows[i]];
        if (*known == 0) {
            p->samples[n] = p->samples[i];
            p->values[n] = p->values[i];
            *known = ++n;
        } else if (__builtin_add_overflow(p->values[*known - 1], p->values[i],
                                          &p->values[*known - 1])) {
            return err_set(e, ERR_OUT_OF_RANGE, "counts of a stack add up to more than 64 bits");
        }
    }
    p->sample_count = n;
    return true;
}

bool ingest_text_sums(struct arena *a, struct profile *p, err *e)
{
    assert(p->type_count == 1);
    bool any = false;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        any |= p->values[i] < 0;
    }
    // Only negative counts need it, so that lines that cancel each other out leave no sample.
    // Otherwise lines are added up later, when vectors are made.
    if (!any) return true;
    struct symbols names;
    if (!symbols_init(&names, a->budget, e)) return false;
    bool ok = add_up(a, p, &names, e);
    symbols_release(&names);
    return ok;
}

// ---- pprof

static bool refuse_config(const struct json_reader *r, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "sample_type_config: %s",
                   r->fault.msg[0] ? r->fault.msg : "not an object of objects");
}

// {"units": .., "display-name": ..}: its opening brace has been read.
static bool read_entry(struct json_reader *r, struct ingest_config_entry *entry)
{
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool wanted = str_is(r->text, "display-name");
        if (!wanted) {
            if (!json_skip(r)) return false;
            continue;
        }
        // Other keys (units, aggregation, sampled) say nothing about names.
        if (json_next(r) != JSON_STRING) return false;
        entry->display_name = r->text;
    }
    return t == JSON_OBJECT_END;
}

bool ingest_config_parse(struct arena *a, str json, struct ingest_config *out, err *e)
{
    *out = (struct ingest_config){0};
    if (str_trim(json).n == 0) return true;
    struct json_reader r;
    json_reader_init(&r, a, json);
    enum json_token first = json_next(&r);
    if (first == JSON_NULL && json_next(&r) == JSON_END) return true;
    if (first != JSON_OBJECT) return refuse_config(&r, e);
    out->given = true;
    size_t cap = 0;
    enum json_token t = json_next(&r);
    for (; t == JSON_KEY; t = json_next(&r)) {
        struct ingest_config_entry entry = {.type = r.text};
        if (json_next(&r) != JSON_OBJECT || !read_entry(&r, &entry)) return refuse_config(&r, e);
        if (!arena_grow(a, &out->v, &cap, out->n + 1, sizeof *out->v)) return arena_fail(a, e);
        out->v[out->n++] = entry;
    }
    if (t != JSON_OBJECT_END || json_next(&r) != JSON_END) return refuse_config(&r, e);
    return true;
}

static const struct ingest_config_entry *find(const struct ingest_config *c, str type)
{
    for (size_t i = 0; i < c->n; i++) {
        if (str_eq(c->v[i].type, type)) return &c->v[i];
    }
    return NULL;
}

bool ingest_config_has(const struct ingest_config *c, const char *type)
{
    return find(c, str_of(type)) != NULL;
}

static str display_name(const struct ingest_config *c, str type)
{
    static const struct {
        str type;
        str name;
    } defaults[] = {
        {S_INIT("samples"), S_INIT("cpu")},
        {S_INIT("goroutine"), S_INIT("goroutines")},
        {S_INIT("contentions"), S_INIT("mutex_count")},
        {S_INIT("delay"), S_INIT("mutex_duration")},
    };
    const struct ingest_config_entry *entry = find(c, type);
    // A type that the client configured has its name; once it configured some, the others keep
    // theirs.
    if (entry) return entry->display_name.n ? entry->display_name : type;
    if (c->given) return type;
    for (size_t i = 0; i < COUNT(defaults); i++) {
        if (str_eq(defaults[i].type, type)) return defaults[i].name;
    }
    return type;
}

static const char *name_of_display(str d)
{
    if (str_contains(d, S("cpu"))) return "process_cpu";
    if (str_contains(d, S("alloc_")) || str_contains(d, S("inuse_")) || str_is(d, "space") ||
        str_is(d, "objects")) {
        return "memory";
    }
    if (str_contains(d, S("mutex_"))) return "mutex";
    if (str_contains(d, S("block_"))) return "block";
    if (str_contains(d, S("goroutines"))) return "goroutines";
    return NULL;
}

str ingest_pprof_name(const struct profile *p, const struct ingest_config *c)
{
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (str_is(p->types[i].type, "wall")) return S("wall");
    }
    str display = {0};
    for (uint32_t i = 0; i < p->type_count; i++) {
        display = display_name(c, p->types[i].type);
        const char *name = name_of_display(display);
        if (name) return str_of(name);
    }
    return display;
}

bool ingest_pprof_scripts(struct arena *a, struct profile *p, bool keep_absolute)
{
    for (uint32_t i = 0; i < p->function_count; i++) {
        struct profile_function *f = &p->functions[i];
        if (keep_absolute && str_starts(f->filename, S("/"))) continue;
        f->name = arena_printf(a, "%.*s %.*s", STR(f->filename), STR(f->name));
    }
    return !a->exhausted;
}

bool ingest_pprof_dashes(struct arena *a, struct profile *p)
{
    for (uint32_t i = 0; i < p->type_count; i++) {
        str type = p->types[i].type;
        // validate_profile refuses '-', and .NET's profiler writes it.
        char *text = arena_new(a, type.n);
        if (!text) return false;
        for (size_t k = 0; k < type.n; k++)
            text[k] = type.p[k] == '-' ? '_' : type.p[k];
        p->types[i].type = (str){text, type.n};
    }
    return true;
}
