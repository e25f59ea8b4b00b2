// SPDX-License-Identifier: Apache-2.0
//
// flamebearer.c - the JSON in which Pyroscope, and this program, export a flame graph.
//
//     {"version":1, "flamebearer":{"names":[..], "levels":[[..],..], "numTicks":N, "maxSelf":M},
//      "metadata":{"format":"single", "units":"samples", "sampleRate":100, "name":"cpu"}}
//
// A level is a row of bars from left to right, each (gap, total, self, name), where gap is the
// distance from the end of the bar before it. Level 0 is the root, which is no frame. A bar lies
// below the bar of the level above that has its left edge. The API's answer is read too, which is
// {"flamegraph":{"names":[..], "levels":[{"values":["0",..]},..], "total":"N"}}, without a type.
#include "decode/graft.h"
#include "decode/json_lists.h"

#define BAR_NUMBERS 4
#define NS_PER_S    INT64_C(1000000000)

struct bearer {
    struct arena *a;
    struct json_reader json;
    struct json_strings names;
    struct json_ints bars;  // of all levels, one behind the other
    size_t *ends;           // of each level, in bars
    size_t level_count;
    size_t level_cap;
    size_t odd;  // numbers of the first level whose last bar lacks some, else 0
    size_t odd_level;
    int64_t ticks;
    int64_t rate;
    str format;
    str units;
    str name;
    bool found;
    // while its stacks are made
    struct graft g;
    int64_t period;  // value of a tick in the second type
    int64_t sum;     // of the bars so far
    int64_t at;      // the end of the bar before, in the level
    size_t above;    // the bar of the level above that was the last one to be above another
};

// ---- reading

static bool bearer_level(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    size_t from = b->bars.n;
    if (!arena_grow(b->a, &b->ends, &b->level_cap, b->level_count + 1, sizeof *b->ends))
        return arena_fail(b->a, e);
    enum json_token t = json_next(r);
    for (; t == JSON_NUMBER || t == JSON_STRING; t = json_next(r)) {
        if (!arena_grow(b->a, &b->bars.v, &b->bars.cap, b->bars.n + 1, sizeof *b->bars.v))
            return arena_fail(b->a, e);
        if (!json_int(r->text, &b->bars.v[b->bars.n++]))
            return json_broken(r, "a number of 64 bits in a level", e);
    }
    if (t != JSON_ARRAY_END) return json_broken(r, "a number in a level", e);
    if ((b->bars.n - from) % BAR_NUMBERS != 0 && b->odd == 0) {
        b->odd = b->bars.n - from;
        b->odd_level = b->level_count;
    }
    b->ends[b->level_count++] = b->bars.n;
    return true;
}

// {"values": [..]}
static bool bearer_level_object(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool in = false;
        bool values = str_is(r->text, "values");
        if (!values && !json_pass(r, e)) return false;
        if (values && !json_enter(r, JSON_ARRAY, &in, e)) return false;
        if (in && !bearer_level(b, e)) return false;
    }
    return t == JSON_OBJECT_END || json_broken(r, "a level", e);
}

static bool bearer_levels(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    if (json_next(r) != JSON_ARRAY) return json_broken(r, "a list of levels", e);
    enum json_token t = json_next(r);
    for (; t == JSON_ARRAY || t == JSON_OBJECT; t = json_next(r)) {
        if (!(t == JSON_ARRAY ? bearer_level(b, e) : bearer_level_object(b, e))) return false;
    }
    return t == JSON_ARRAY_END || json_broken(r, "a level", e);
}

static bool bearer_graph(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    if (json_next(r) != JSON_OBJECT) return json_broken(r, "an object in flamebearer", e);
    b->found = true;
    str ticks = {0};
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "names")      ? json_read_strings(r, "a name", &b->names, e)
                  : str_is(r->text, "levels")   ? bearer_levels(b, e)
                  : str_is(r->text, "numTicks") ? json_want_text(r, &ticks, e)
                  : str_is(r->text, "total")    ? json_want_text(r, &ticks, e)
                                                : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(r, "a field of flamebearer", e);
    return ticks.n == 0 || json_int(ticks, &b->ticks) ||
           err_set(e, ERR_INVALID_ARGUMENT, "numTicks is no number");
}

static bool bearer_metadata(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    bool in = false;
    str rate = {0};
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "format")       ? json_want_text(r, &b->format, e)
                  : str_is(r->text, "units")      ? json_want_text(r, &b->units, e)
                  : str_is(r->text, "name")       ? json_want_text(r, &b->name, e)
                  : str_is(r->text, "sampleRate") ? json_want_text(r, &rate, e)
                                                  : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(r, "a field of metadata", e);
    if (rate.n && !json_int(rate, &b->rate))
        return err_set(e, ERR_INVALID_ARGUMENT, "sampleRate is no number");
    return true;
}

static bool bearer_read(struct bearer *b, err *e)
{
    struct json_reader *r = &b->json;
    int64_t version = 1;
    if (json_next(r) != JSON_OBJECT) return json_broken(r, "an object", e);
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "version")       ? json_want_int(r, "a version", &version, e)
                  : str_is(r->text, "flamebearer") ? bearer_graph(b, e)
                  : str_is(r->text, "flamegraph")  ? bearer_graph(b, e)
                  : str_is(r->text, "metadata")    ? bearer_metadata(b, e)
                                                   : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END || json_next(r) != JSON_END) return json_broken(r, "one object", e);
    if (!b->found) return err_set(e, ERR_INVALID_ARGUMENT, "there is no flamebearer");
    if (version != 1)
        return err_set(e, ERR_INVALID_ARGUMENT, "version %lld is not supported, only 1",
                       (long long)version);
    if (str_is(b->format, "double")) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "it is the difference of two profiles (format \"double\"); export each of "
                       "the two");
    }
    if (b->format.n && !str_is(b->format, "single"))
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown format \"%.*s\"",
                       STR(str_slice(b->format, 0, 64)));
    // Not while the levels are read: bars of a difference have more, and what it is comes behind.
    if (b->odd)
        return err_set(e, ERR_INVALID_ARGUMENT, "level %zu has %zu numbers; a bar has 4",
                       b->odd_level, b->odd);
    return true;
}

// ---- its type

static bool bearer_is_word(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                    (i && c >= '0' && c <= '9');
        if (!fine) return false;
    }
    return s.n > 0;
}

// The name is a sample type; servers before 1.0 had the application's there, "shop.cpu{region=eu}".
static str bearer_type_name(const struct bearer *b)
{
    str app = str_slice(b->name, 0, str_find(b->name, '{'));
    size_t dot = str_rfind(app, '.');
    str last = dot < app.n ? str_slice(app, dot + 1, app.n) : app;
    if (bearer_is_word(last)) return last;
    return str_is(b->units, "bytes")     ? S("space")
           : str_is(b->units, "objects") ? S("objects")
           : str_is(b->units, "samples") ? S("cpu")
                                         : S("samples");
}

static str bearer_unit(str units)
{
    static const str counts[] = {
        S_INIT(""),           S_INIT("none"),         S_INIT("samples"),       S_INIT("objects"),
        S_INIT("goroutines"), S_INIT("lock_samples"), S_INIT("trace_samples"), S_INIT("exceptions"),
    };
    if (str_among(units, counts, COUNT(counts))) return S("count");
    return str_is(units, "lock_nanoseconds") ? S("nanoseconds") : units;
}

// Samples of CPU and wall time are times if their rate is known; a rate of 1e9 says that they are
// nanoseconds already. *period is what a tick is in the last type, 1 if there is one type.
static uint32_t bearer_types(const struct bearer *b, struct profile_type types[2], int64_t *period)
{
    str name = bearer_type_name(b);
    bool timed = str_is(b->units, "samples") && b->rate > 0 && b->rate <= NS_PER_S &&
                 (str_is(name, "cpu") || str_is(name, "wall"));
    *period = 1;
    types[0] = (struct profile_type){name, timed ? S("nanoseconds") : bearer_unit(b->units)};
    if (!timed || b->rate == NS_PER_S) return 1;
    types[1] = types[0];
    types[0] = (struct profile_type){S("samples"), S("count")};
    *period = NS_PER_S / b->rate;
    return 2;
}

// ---- its stacks

struct bearer_bar {
    int64_t from;
    int64_t to;
    uint32_t node;
};

struct bearer_row {
    struct bearer_bar *v;
    size_t n;
};

static bool bearer_put(struct bearer *b, uint32_t node, int64_t self, err *e)
{
    int64_t ns = 0;
    if (!graft_add(&b->g, node, 0, self, e)) return false;
    if (b->g.s.type_count == 1) return true;
    if (__builtin_mul_overflow(self, b->period, &ns))
        return err_set(e, ERR_OUT_OF_RANGE, "%lld samples of %lld Hz do not fit 64 bits of ns",
                       (long long)self, (long long)b->rate);
    return graft_add(&b->g, node, 1, ns, e);
}

// One bar. Bars are in order, so the search for what is above goes on where it ended. A bar without
// width stands for what is negative (docs/formats/flamegraph.md), and lies at the end of the one
// above.
static bool bearer_bar_at(struct bearer *b, const int64_t *v, const struct bearer_row *above,
                          struct bearer_bar *bar, err *e)
{
    if (v[0] < 0 || v[1] < 0 || __builtin_add_overflow(b->at, v[0], &bar->from) ||
        __builtin_add_overflow(bar->from, v[1], &bar->to))
        return err_set(e, ERR_INVALID_ARGUMENT, "a bar is negative or does not fit 64 bits");
    if (v[3] < 0 || (uint64_t)v[3] >= b->names.n)
        return err_set(e, ERR_INVALID_ARGUMENT, "name %lld does not exist; there are %zu",
                       (long long)v[3], b->names.n);
    b->at = bar->to;
    if (!above) return true;
    bool wide = bar->from < bar->to;
    while (b->above < above->n && above->v[b->above].to < bar->from + wide)
        b->above++;
    bool below = b->above < above->n && above->v[b->above].from <= bar->from;
    if (!below && (wide || v[2] != 0)) graft_lose(&b->g, LOSS_UNKNOWN_STACK, 1);
    return graft_named(&b->g, below ? above->v[b->above].node : 0, b->names.v[v[3]], &bar->node, e);
}

static bool bearer_row_of(struct bearer *b, size_t level, const struct bearer_row *above,
                          struct bearer_row *row, err *e)
{
    size_t from = level ? b->ends[level - 1] : 0;
    b->at = 0;
    b->above = 0;
    row->n = 0;
    for (size_t i = from; i < b->ends[level]; i += BAR_NUMBERS) {
        struct bearer_bar *bar = &row->v[row->n++];
        const int64_t *v = &b->bars.v[i];
        *bar = (struct bearer_bar){0};
        if (!bearer_bar_at(b, v, above, bar, e) || !bearer_put(b, bar->node, v[2], e))
            return err_wrap(e, "level %zu, bar %zu", level, row->n - 1);
        if (__builtin_add_overflow(b->sum, v[2], &b->sum))
            return err_set(e, ERR_OUT_OF_RANGE, "values add up to more than 64 bits");
    }
    return true;
}

static bool bearer_rows(struct bearer *b, err *e)
{
    size_t widest = 0;
    for (size_t i = 0, from = 0; i < b->level_count; from = b->ends[i++])
        widest = MAX(widest, (b->ends[i] - from) / BAR_NUMBERS);
    struct bearer_row rows[2] = {{ARENA_ARRAY(b->a, struct bearer_bar, widest), 0},
                                 {ARENA_ARRAY(b->a, struct bearer_bar, widest), 0}};
    uint32_t root = 0;
    if (!rows[0].v || !rows[1].v) return arena_fail(b->a, e);
    if (!graft_root(&b->g, NULL, 0, &root, e)) return false;
    assert(root == 0);
    for (size_t i = 0; i < b->level_count; i++) {
        const struct bearer_row *above = i ? &rows[(i + 1) % 2] : NULL;
        if (!bearer_row_of(b, i, above, &rows[i % 2], e)) return false;
    }
    if (b->ticks <= b->sum) return true;
    // The graph says that there is more than its bars have.
    graft_lose(&b->g, LOSS_UNKNOWN_STACK, 1);
    return bearer_put(b, root, b->ticks - b->sum, e);
}

bool decode_flamebearer(struct arena *a, str bytes, const struct decode_options *o,
                        struct decoded *out, err *e)
{
    struct bearer b = {.a = a};
    struct profile_type types[2];
    struct profile *p = NULL;
    json_reader_init(&b.json, a, bytes);
    if (!bearer_read(&b, e)) return false;
    uint32_t n = bearer_types(&b, types, &b.period);
    bool ok = graft_begin(&b.g, a, bytes.n, o, types, n, e) && bearer_rows(&b, e) &&
              graft_finish(&b.g, &p, e);
    graft_release(&b.g);
    if (!ok) return false;
    if (b.period > 1) {
        p->period_type = types[1];
        p->period = b.period;
    }
    *out = (struct decoded){p, 1};
    return true;
}
