// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_profiles.h"

#include "base/utf8.h"
#include "codec/compress.h"
#include "codec/pb.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/otlp.h"
#include "deploy/cli/cli_files.h"
#include "model/flamegraph.h"

#define FILE_MAX ((size_t)2 << 30)

// ---- reading

static bool decode_recording(struct arena *a, struct profiles *p, str bytes,
                             const struct decode_options *o, const str **names, err *e)
{
    struct jfr_recording r = {0};
    if (!decode_jfr(a, bytes, (str){0}, o, &r, NULL, e)) return false;
    p->decoded = r.profiles;
    *names = r.names;
    return true;
}

// Parts of messages are profiles here. They are called by their service and name.
static bool decode_export(struct arena *a, struct profiles *p, str bytes,
                          const struct decode_options *o, const str **names, err *e)
{
    struct otlp *d = NULL;
    struct otlp_profile one;
    enum otlp_step step = OTLP_END;
    str *all = NULL;
    size_t cap = 0;
    size_t names_cap = 0;
    bool json = str_starts(str_trim(str_slice(bytes, 0, 64)), S("{"));
    if (!(json ? otlp_open_json(a, bytes, o, &d, e) : otlp_open(a, bytes, o, &d, e))) return false;
    while ((step = otlp_next(d, a, &one, e)) == OTLP_PROFILE) {
        size_t n = p->decoded.count;
        if (!arena_grow(a, &p->decoded.profiles, &cap, n + 1, sizeof *p->decoded.profiles) ||
            !arena_grow(a, &all, &names_cap, n + 1, sizeof *all))
            return arena_fail(a, e);
        p->decoded.profiles[n] = one.profile;
        all[n] = arena_printf(a, "%.*s %.*s", STR(labels_get(one.labels, S("service_name"))),
                              STR(labels_get(one.labels, S(LABEL_NAME))));
        p->decoded.count++;
    }
    *names = all;
    return step == OTLP_END && arena_ok(a, e);
}

static bool decode(struct arena *a, struct profiles *p, str bytes, const struct decode_options *o,
                   const str **names, err *e)
{
    struct decoded *d = &p->decoded;
    bool cut = false;
    switch (p->format) {
    case UPLOAD_PPROF:
        return decode_pprof(a, bytes, o, d, NULL, e);
    case UPLOAD_FOLDED:
        return decode_folded(a, bytes, o, d, &cut, e) &&
               (!cut || err_set(e, ERR_INVALID_ARGUMENT, "a line is longer than 64 KiB"));
    case UPLOAD_LINES:
        return decode_lines(a, bytes, o, d, e);
    case UPLOAD_PERF:
        return decode_perf(a, bytes, o, d, &p->left_out, e);
    case UPLOAD_JFR:
        return decode_recording(a, p, bytes, o, names, e);
    case UPLOAD_SPEEDSCOPE:
        return decode_speedscope(a, bytes, o, d, e);
    case UPLOAD_TRIE:
        return decode_trie(a, bytes, o, d, e);
    case UPLOAD_TREE:
        return decode_tree(a, bytes, o, d, e);
    case UPLOAD_CPUPROFILE:
        return decode_cpuprofile(a, bytes, o, d, e);
    case UPLOAD_HEAPPROFILE:
        return decode_heapprofile(a, bytes, o, d, e);
    case UPLOAD_LEGACY:
        return decode_legacy(a, bytes, o, d, e);
    case UPLOAD_CHROME:
        return decode_chrome(a, bytes, o, d, e);
    case UPLOAD_OTLP:
        return decode_export(a, p, bytes, o, names, e);
    case UPLOAD_AUTO:
        break;
    }
    return err_set(e, ERR_INTERNAL, "no decoder for this format");
}

static bool is_same(const struct profiles_type *a, const struct profiles_type *b)
{
    return str_eq(a->type, b->type) && str_eq(a->unit, b->unit) && str_eq(a->name, b->name);
}

static bool is_again(const struct profiles *p, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (!p->types[i].again && is_same(&p->types[i], &p->types[row])) return true;
    return false;
}

static bool list_types(struct arena *a, struct profiles *p, const str *names, err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < p->decoded.count; i++)
        n += p->decoded.profiles[i].type_count;
    if (n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "it has no profile with a sample type");
    p->types = ARENA_ARRAY(a, struct profiles_type, n);
    if (!p->types) return arena_fail(a, e);
    for (size_t i = 0; i < p->decoded.count; i++) {
        const struct profile *one = &p->decoded.profiles[i];
        for (uint32_t k = 0; k < one->type_count; k++) {
            struct profiles_type *t = &p->types[p->count];
            *t = (struct profiles_type){.profile = i,
                                        .column = k,
                                        .type = one->types[k].type,
                                        .unit = one->types[k].unit,
                                        .name = names ? names[i] : one->name};
            t->again = is_again(p, p->count++);
        }
    }
    return true;
}

bool profiles_read(struct arena *a, const char *path, const struct profiles_options *o,
                   struct profiles *out, err *e)
{
    // As far as it can be understood: nobody sends it again if it is refused here.
    struct decode_options how = {.inflated_max = FILE_MAX,
                                 .sample_rate = o->rate_given ? (int64_t)o->sample_rate : 0,
                                 .repair_zero_function_ids = true};
    const str *names = NULL;
    *out = (struct profiles){.format = o->format};
    buf_init(&out->file, NULL, FILE_MAX);
    buf_init(&out->plain, NULL, FILE_MAX);
    if (!cli_files_read(path, &out->file, e)) return false;
    str bytes = buf_view(&out->file);
    if (compress_is_gzip(bytes)) {
        if (!compress_gunzip(bytes, &out->plain, e)) return err_wrap(e, "%s", path);
        bytes = buf_view(&out->plain);
    }
    return ((out->format != UPLOAD_AUTO || upload_detect(bytes, &out->format, e)) &&
            decode(a, out, bytes, &how, &names, e) && list_types(a, out, names, e)) ||
           err_wrap(e, "%s", path);
}

void profiles_release(struct profiles *p)
{
    buf_release(&p->file);
    buf_release(&p->plain);
    *p = (struct profiles){0};
}

// ---- choosing

void profiles_put_type(struct buf *b, const struct profiles_type *t)
{
    buf_str(b, t->name);
    if (t->name.n) buf_byte(b, ' ');
    buf_str(b, t->type);
    buf_byte(b, '/');
    buf_str(b, t->unit);
}

static bool refuse(const struct profiles *p, str text, bool several, err *e)
{
    struct buf b;
    buf_init(&b, NULL, 1000);
    for (size_t i = 0; i < p->count; i++) {
        if (p->types[i].again) continue;
        if (i) buf_z(&b, ", ");
        profiles_put_type(&b, &p->types[i]);
    }
    (void)err_set(e, ERR_INVALID_ARGUMENT, "%s has '%.*s'; types are: %.*s",
                  several ? "more than one type" : "no type", STR(text), STR(buf_view(&b)));
    buf_release(&b);
    return false;
}

static size_t usual(const struct profiles *p)
{
    const struct profile *first = &p->decoded.profiles[p->types[0].profile];
    size_t last = 0;
    for (size_t i = 0; i < p->count && p->types[i].profile == p->types[0].profile; i++) {
        if (first->default_type.n && str_eq(p->types[i].type, first->default_type)) return i;
        last = i;
    }
    return last;
}

bool profiles_choose(const struct profiles *p, str text, size_t *row, err *e)
{
    size_t found = 0;
    assert(p->count > 0);
    if (text.n == 0) {
        *row = usual(p);
        return true;
    }
    for (size_t i = 0; i < p->count; i++) {
        struct buf b;
        if (p->types[i].again) continue;
        buf_init(&b, NULL, 4096);
        profiles_put_type(&b, &p->types[i]);
        bool has = str_contains(buf_view(&b), text);
        bool same = str_eq(p->types[i].type, text);
        buf_release(&b);
        if (same) {
            *row = i;
            return true;
        }
        if (!has) continue;
        *row = i;
        found++;
    }
    return found == 1 || refuse(p, text, found > 1, e);
}

// ---- the tree

// The name by which a frame is shown.
static uint32_t frame_of(struct symbols *s, struct arena *a, str name, uint64_t address, err *e)
{
    if (name.n == 0) name = arena_printf(a, "0x%llx", (unsigned long long)address);
    name = utf8_mended(a, name);
    if (!arena_ok(a, e)) return MAP_NONE;
    uint32_t text = symbols_string(s, name, e);
    if (text == MAP_NONE) return MAP_NONE;
    uint32_t function = symbols_function(s, (struct symbol_function){.name = text}, e);
    if (function == MAP_NONE) return MAP_NONE;
    return symbols_frame(s, (struct symbol_frame){.function = function}, e);
}

// The frames of each location, outermost first, as rows of frames; location i has those from
// first[i] to first[i + 1].
struct frames {
    uint32_t *v;
    uint32_t *first;
};

static bool make_frames(struct symbols *s, struct arena *a, const struct profile *p,
                        struct frames *out, err *e)
{
    out->first = ARENA_ARRAY(a, uint32_t, (size_t)p->location_count + 1);
    out->v = ARENA_ARRAY(a, uint32_t, (size_t)p->line_count + p->location_count);
    if (!out->first || !out->v) return arena_fail(a, e);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->location_count; i++) {
        const struct profile_location *l = &p->locations[i];
        out->first[i] = n;
        for (uint32_t k = l->line_count; k-- > 0;) {
            str name = p->functions[p->lines[l->first_line + k].function].name;
            out->v[n] = frame_of(s, a, name, l->address, e);
            if (out->v[n++] == MAP_NONE) return false;
        }
        if (l->line_count == 0) {
            out->v[n] = frame_of(s, a, (str){0}, l->address, e);
            if (out->v[n++] == MAP_NONE) return false;
        }
    }
    out->first[p->location_count] = n;
    return true;
}

static uint32_t stack_of(struct symbols *s, const struct profile *p, const struct frames *f,
                         const struct profile_sample *sample, err *e)
{
    uint32_t stack = 0;
    for (uint32_t k = sample->location_count; k-- > 0;) {
        uint32_t at = p->stack_locations[sample->first_location + k];
        for (uint32_t i = f->first[at]; i < f->first[at + 1]; i++) {
            stack = symbols_child(s, stack, f->v[i], e);
            if (stack == MAP_NONE) return MAP_NONE;
        }
    }
    return stack;
}

// The stacks of a profile's samples; the arena's.
static uint32_t *stacks_of(struct symbols *s, struct arena *a, const struct profile *p, err *e)
{
    struct frames frames;
    uint32_t *stacks = ARENA_ARRAY(a, uint32_t, (size_t)p->sample_count + 1);
    if (!stacks) {
        (void)!arena_fail(a, e);
        return NULL;
    }
    if (!make_frames(s, a, p, &frames, e)) return NULL;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        stacks[i] = stack_of(s, p, &frames, &p->samples[i], e);
        if (stacks[i] == MAP_NONE) return NULL;
    }
    return stacks;
}

static bool add_values(const struct profile *p, uint32_t column, const uint32_t *stacks,
                       int64_t *sums, err *e)
{
    for (uint32_t i = 0; i < p->sample_count; i++) {
        int64_t value = p->values[(size_t)i * p->type_count + column];
        if (__builtin_add_overflow(sums[stacks[i]], value, &sums[stacks[i]]))
            return err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack does not fit 64 bits");
    }
    return true;
}

static bool check_sums(const int64_t *sums, uint32_t n, err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (sums[i] >= 0) continue;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "the sum of a stack is %lld: of less than nothing there is no flame graph "
                       "(pprof can have it: a difference of two profiles)",
                       (long long)sums[i]);
    }
    return true;
}

// Of all profiles that have the type of this row.
static bool add_up(struct symbols *s, struct arena *a, const struct profiles *p, size_t row,
                   int64_t **sums, err *e)
{
    uint32_t **stacks = ARENA_ARRAY(a, uint32_t *, p->count);
    if (!stacks) return arena_fail(a, e);
    for (size_t i = 0; i < p->count; i++) {
        if (!is_same(&p->types[i], &p->types[row])) continue;
        stacks[i] = stacks_of(s, a, &p->decoded.profiles[p->types[i].profile], e);
        if (!stacks[i]) return false;
    }
    *sums = ARENA_ARRAY(a, int64_t, s->t.stack_count);
    if (!*sums) return arena_fail(a, e);
    for (size_t i = 0; i < p->count; i++) {
        const struct profiles_type *t = &p->types[i];
        if (stacks[i] &&
            !add_values(&p->decoded.profiles[t->profile], t->column, stacks[i], *sums, e))
            return false;
    }
    return check_sums(*sums, s->t.stack_count, e);
}

bool profiles_graph(struct arena *a, const struct profiles *p, size_t row, struct buf *graph,
                    err *e)
{
    struct symbols s;
    struct tree tree;
    int64_t *sums = NULL;
    assert(row < p->count);
    if (!symbols_init(&s, NULL, e)) return false;
    bool ok = add_up(&s, a, p, row, &sums, e) && tree_build(a, &s.t, sums, NULL, 0, &tree, e) &&
              tree_flamegraph(a, &tree, graph, e) && buf_ok(graph, e);
    // The names of the tree are the table's, and have been copied.
    symbols_release(&s);
    return ok;
}

bool profiles_is_alone(const struct profiles *p, size_t row)
{
    for (size_t i = 0; i < p->count; i++)
        if (i != row && is_same(&p->types[i], &p->types[row])) return false;
    return true;
}

bool profiles_flame(struct arena *a, const struct profiles *p, size_t row, struct flame *f, err *e)
{
    struct buf graph;
    buf_init(&graph, NULL, FILE_MAX);
    bool ok = profiles_graph(a, p, row, &graph, e);
    // Copied: the flame graph borrows from the message, and the message from the bytes.
    str bytes = ok ? arena_str(a, buf_view(&graph)) : (str){0};
    buf_release(&graph);
    const Querier__V1__FlameGraph *g = NULL;
    if (ok && arena_ok(a, e)) {
        g = (const Querier__V1__FlameGraph *)pb_unpack(a, &querier__v1__flame_graph__descriptor,
                                                       bytes, e);
    }
    return g && flame_read(a, g, f, e);
}
