// SPDX-License-Identifier: Apache-2.0
//
// jfr_rates.c - from settings (jdk.ActiveSetting) to the time that a sample stands for.
//
//     event     what async-profiler sampled: cpu, itimer, ctimer, wall, or a counter, such as
//     cycles interval  of its samples in ns, 0: its default; of a counter, a number of events and
//     no time wall      of its samples of the wall clock beside that event, likewise period    of
//     the JDK's own jdk.ExecutionSample, such as "20 ms"
//
// async-profiler writes its settings into the first chunk only, so they hold for the next ones too.
// The JDK writes them into each, and again when a recording begins; a sample takes those that were
// the last before its time.
#include "decode/jfr_int.h"

#include <stdlib.h>

#define NS_PER_HZ     INT64_C(1000000000)
#define DEFAULT_NS    INT64_C(10000000)  // async-profiler's
#define DEFAULT_WALL  (5 * DEFAULT_NS)   // and of its wall clock
#define PERIOD_MAX_NS INT64_C(86400000000000)

// ---- reading

// "20 ms", "5000000" (ns). False for others, such as "everyChunk".
static bool rates_duration(str text, int64_t *ns)
{
    static const struct {
        str name;
        int64_t ns;
    } units[] = {
        {S_INIT("ns"), 1},         {S_INIT("us"), 1000},       {S_INIT("ms"), 1000000},
        {S_INIT("s"), 1000000000}, {S_INIT("m"), 60000000000}, {S_INIT("h"), 3600000000000},
    };
    size_t digits = 0;
    int64_t unit = 0;
    text = str_trim(text);
    while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
        digits++;
    str name = str_trim(str_slice(text, digits, text.n));
    if (name.n == 0) unit = 1;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (str_eq(name, units[i].name)) unit = units[i].ns;
    }
    return unit && str_i64(str_slice(text, 0, digits), ns) &&
           !__builtin_mul_overflow(*ns, unit, ns) && *ns <= PERIOD_MAX_NS;
}

// Is the setting about execution samples? Those of async-profiler may be about the recording.
static bool rates_about_samples(const struct jfr_chunk *k, uint64_t id, bool of_recording)
{
    uint32_t row = idmap_row(&k->types.rows, id);
    if (row == MAP_NONE) return id == 0 || of_recording;
    const struct jfr_class *class = &k->types.classes[row];
    return class->kind == JFR_EXECUTION_SAMPLE ||
           (of_recording &&
            (class->kind == JFR_WALL_SAMPLE || str_is(class->name, "jdk.ActiveRecording")));
}

bool jfr_rates_add(struct jfr *d, struct jfr_chunk *k, const struct jfr_values *v, err *e)
{
    struct jfr_setting s = {.at = v->v[JFR_START], .number = k->setting_count};
    str name = jfr_resolve(k, d->a, &v->name);
    bool period = str_is(name, "period");
    bool good = false;
    if (str_is(name, "event")) {
        s.kind = JFR_SET_EVENT;
        s.event = jfr_resolve(k, d->a, &v->value);
        good = true;
    } else if (period || str_is(name, "interval") || str_is(name, "wall")) {
        s.kind = period ? JFR_SET_PERIOD : str_is(name, "wall") ? JFR_SET_WALL : JFR_SET_INTERVAL;
        good = rates_about_samples(k, v->v[JFR_ID], !period) &&
               rates_duration(jfr_resolve(k, d->a, &v->value), &s.ns) && (!period || s.ns > 0);
    }
    if (!good || !arena_ok(d->a, e)) return arena_ok(d->a, e);
    if (!arena_grow(k->a, &k->settings, &k->setting_cap, (size_t)k->setting_count + 1,
                    sizeof *k->settings)) {
        return arena_fail(k->a, e);
    }
    k->settings[k->setting_count++] = s;
    return true;
}

// ---- what they mean

static bool rates_is_wall(const struct jfr_settings *s)
{
    return str_is(s->event, "wall");
}

// Events that are sampled in time; all others are counters.
static bool rates_is_time(str event)
{
    static const str all[] = {S_INIT("cpu"),  S_INIT("itimer"),    S_INIT("ctimer"),
                              S_INIT("wall"), S_INIT("cpu-clock"), S_INIT("task-clock")};
    return event.n == 0 || str_among(event, all, COUNT(all));
}

// 0: nothing says it.
static int64_t rates_execution(const struct jfr_settings *s)
{
    if (s->period > 0 && (s->of_jdk || s->interval < 0)) return s->period;
    if (s->interval < 0 || !rates_is_time(s->event)) return 0;
    if (s->interval > 0) return s->interval;
    return rates_is_wall(s) ? DEFAULT_WALL : DEFAULT_NS;
}

static int64_t rates_wall(const struct jfr_settings *s, int64_t execution)
{
    if (s->wall < 0) return execution;
    return s->wall > 0 ? s->wall : DEFAULT_WALL;
}

static struct jfr_rate rates_of(const struct decode_options *o, const struct jfr_settings *s,
                                uint64_t from)
{
    struct jfr_rate r = {
        .from = from,
        .execution = rates_execution(s),
        .is_wall = rates_is_wall(s),
        .has_wall = s->wall >= 0 && !rates_is_wall(s),
    };
    r.wall = rates_wall(s, r.execution);
    int64_t fallback = o->sample_rate_else > 0 ? NS_PER_HZ / o->sample_rate_else : DEFAULT_NS;
    fallback = MAX(fallback, 1);
    bool said = o->sample_rate > 0 || o->sample_rate_else > 0;
    r.execution_assumed = !said && r.execution == 0;
    r.wall_assumed = !said && r.wall == 0;
    if (r.execution == 0) r.execution = fallback;
    if (r.wall == 0) r.wall = fallback;
    if (o->sample_rate > 0) r.execution = r.wall = MAX(NS_PER_HZ / o->sample_rate, 1);
    return r;
}

static void rates_apply(struct jfr_settings *to, const struct jfr_setting *s)
{
    switch (s->kind) {
    case JFR_SET_EVENT:
        to->event = s->event;
        return;
    case JFR_SET_INTERVAL:
        to->interval = s->ns;
        to->of_jdk = false;
        return;
    case JFR_SET_WALL:
        to->wall = s->ns;
        return;
    case JFR_SET_PERIOD:
        to->period = s->ns;
        to->of_jdk = true;
        return;
    }
}

static int rates_order(const void *one, const void *two)
{
    const struct jfr_setting *a = one;
    const struct jfr_setting *b = two;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool rates_same(const struct jfr_rate *a, const struct jfr_rate *b)
{
    return a->execution == b->execution && a->wall == b->wall &&
           a->execution_assumed == b->execution_assumed && a->wall_assumed == b->wall_assumed &&
           a->is_wall == b->is_wall && a->has_wall == b->has_wall;
}

bool jfr_rates_make(struct jfr *d, struct jfr_chunk *k, err *e)
{
    k->rates = ARENA_ARRAY(k->a, struct jfr_rate, (size_t)k->setting_count + 1);
    if (!k->rates) return arena_fail(k->a, e);
    if (k->setting_count) qsort(k->settings, k->setting_count, sizeof *k->settings, rates_order);
    const struct jfr_settings *s = &d->settings;
    bool nothing = s->interval < 0 && s->wall < 0 && s->period < 0 && s->event.n == 0;
    k->rates[k->rate_count++] = rates_of(d->o, s, 0);
    for (uint32_t i = 0; i < k->setting_count; i++) {
        rates_apply(&d->settings, &k->settings[i]);
        // Those of one time hold together.
        bool more = i + 1 < k->setting_count && k->settings[i + 1].at == k->settings[i].at;
        if (more) continue;
        struct jfr_rate r = rates_of(d->o, s, k->settings[i].at);
        // The first that are said hold for samples before them too.
        if (nothing) k->rate_count = 0;
        if (nothing) r.from = 0;
        nothing = false;
        if (k->rate_count && rates_same(&k->rates[k->rate_count - 1], &r)) continue;
        k->rates[k->rate_count++] = r;
    }
    return true;
}

const struct jfr_rate *jfr_rate_at(const struct jfr_chunk *k, uint64_t ticks)
{
    assert(k->rate_count > 0);
    uint32_t low = 0;
    uint32_t high = k->rate_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (k->rates[middle].from <= ticks) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &k->rates[low];
}
