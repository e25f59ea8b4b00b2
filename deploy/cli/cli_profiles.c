// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_profiles.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/utf8.h"
#include "codec/compress.h"
#include "codec/pb.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/otlp.h"
#include "decode/tools.h"
#include "deploy/cli/cli_files.h"
#include "deploy/cli/cli_perf_data.h"
#include "model/flamegraph.h"
#include "model/frame_name.h"

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
    switch (p->format) {
    case UPLOAD_PPROF:
        return decode_pprof(a, bytes, o, d, NULL, e);
    case UPLOAD_FOLDED:
        return decode_folded(a, bytes, o, d, e);
    case UPLOAD_LINES:
        return decode_lines(a, bytes, o, d, e);
    case UPLOAD_PERF:
        return decode_perf(a, bytes, o, d, e);
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
#define TOOL(id, name, decoder) \
    case UPLOAD_##id:           \
        return tool_decode(TOOL_##id, a, bytes, o, d, e);
#include "decode/tools.def"
    case UPLOAD_PERF_DATA:
        return err_set(e, ERR_INVALID_ARGUMENT, "it is not perf.data");
    case UPLOAD_AUTO:
    case UPLOAD_FORMATS:
        break;
    }
    return err_set(e, ERR_INTERNAL, "no decoder for this format");
}

static bool is_same(const struct profiles_type *a, const struct profiles_type *b)
{
    return str_eq(a->type, b->type) && str_eq(a->unit, b->unit) && str_eq(a->name, b->name);
}

struct same_type {
    const struct profiles *p;
    const struct profiles_type *want;
};

static bool is_same_type(const void *ctx, uint32_t row)
{
    const struct same_type *same = ctx;
    return is_same(same->want, &same->p->types[row]);
}

// Marks the rows that equal an earlier one. A file may have thousands of profiles.
static bool mark_again(struct arena *a, struct profiles *p, err *e)
{
    struct map known;
    bool ok = true;
    map_init(&known, a->budget);
    for (size_t i = 0; ok && i < p->count; i++) {
        struct profiles_type *t = &p->types[i];
        uint64_t hash = hash_table_and(hash_table_str(t->name), hash_table_str(t->type));
        t->again = map_find(&known, hash, is_same_type, &(struct same_type){p, t}) != MAP_NONE;
        ok = t->again || map_put(&known, hash, (uint32_t)i, e);
    }
    map_release(&known);
    return ok;
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
            p->count++;
        }
    }
    return mark_again(a, p, e);
}

// Counts of samples of which the text or --sample-rate says how long one is get their time beside
// them, which is what the server stores.
static bool profiles_add_time(struct arena *a, struct profile *p, err *e)
{
    if (p->type_count != 1 || p->period <= 0 || !str_is(p->types[0].type, "samples") ||
        !str_is(p->types[0].unit, "count")) {
        return true;
    }
    struct profile_type *types = ARENA_ARRAY(a, struct profile_type, 2);
    int64_t *values = ARENA_ARRAY(a, int64_t, 2 * (size_t)p->sample_count);
    if (!types || !values) return arena_fail(a, e);
    types[0] = p->types[0];
    types[1] = p->period_type;
    for (size_t i = 0; i < p->sample_count; i++) {
        values[2 * i] = p->values[i];
        if (!__builtin_mul_overflow(p->values[i], p->period, &values[2 * i + 1])) continue;
        return err_set(e, ERR_OUT_OF_RANGE, "a count times %lld ns does not fit 64 bits",
                       (long long)p->period);
    }
    p->types = types;
    p->type_count = 2;
    p->values = values;
    return true;
}

static bool profiles_is_text(enum upload_format f)
{
    return f == UPLOAD_FOLDED || f == UPLOAD_LINES || f == UPLOAD_PERF || f == UPLOAD_TRIE ||
           f == UPLOAD_TREE || f == UPLOAD_SPEEDSCOPE;
}

// Finds the format, if it is not given; decodes, and adds the time of counts.
static bool decode_any(struct arena *a, struct profiles *p, str bytes,
                       const struct decode_options *how, const str **names, err *e)
{
    str plain = bytes;
    if (p->format == UPLOAD_AUTO &&
        (!decode_plain(a, bytes, &plain, e) || !upload_detect(plain, &p->format, e)))
        return false;
    if (!decode(a, p, plain, how, names, e)) return false;
    for (size_t i = 0; profiles_is_text(p->format) && i < p->decoded.count; i++) {
        if (!profiles_add_time(a, &p->decoded.profiles[i], e)) return false;
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
    bool perf_data = false;
    if (!cli_files_read(path, &out->file, e)) return false;
    if (!cli_perf_data_text(&out->file, &perf_data, e)) return err_wrap(e, "%s", path);
    if (perf_data) out->format = UPLOAD_PERF;
    str bytes = buf_view(&out->file);
    if (compress_is_gzip(bytes)) {
        if (!compress_gunzip(bytes, &out->plain, e)) return err_wrap(e, "%s", path);
        bytes = buf_view(&out->plain);
    }
    return (decode_any(a, out, bytes, &how, &names, e) && list_types(a, out, names, e)) ||
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

static bool has_value(const struct profiles *p, size_t row)
{
    const struct profiles_type *t = &p->types[row];
    const struct profile *one = &p->decoded.profiles[t->profile];
    __int128 sum = 0;  // values may cancel out
    for (uint32_t i = 0; i < one->sample_count; i++)
        sum += one->values[(size_t)i * one->type_count + t->column];
    return sum != 0;
}

// The default of a profile, or its last type, but none that has no value if another one has.
static bool usual_of(const struct profiles *p, size_t profile, size_t *row)
{
    const struct profile *one = &p->decoded.profiles[profile];
    bool found = false;
    for (size_t i = 0; i < p->count; i++) {
        if (p->types[i].profile != profile || !has_value(p, i)) continue;
        *row = i;
        found = true;
        if (one->default_type.n && str_eq(p->types[i].type, one->default_type)) return true;
    }
    return found;
}

static size_t usual(const struct profiles *p)
{
    size_t row = 0;
    for (size_t i = 0; i < p->decoded.count; i++) {
        if (usual_of(p, i, &row)) return row;
    }
    return 0;
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

// A frame with the name that it is shown by; function is NULL in a location without lines.
static uint32_t frame_of(struct symbols *s, struct arena *a, const struct profile *p,
                         const struct profile_location *l, const struct profile_function *function,
                         err *e)
{
    char room[FRAME_NAME_MAX];
    str name = {0};
    if (function) name = function->name.n ? function->name : function->system_name;
    if (name.n == 0) {
        str file = l->mapping == PROFILE_NONE ? (str){0} : p->mappings[l->mapping].filename;
        name = frame_name_made(file, l->address, room);
    }
    name = utf8_mended(a, name);
    if (!arena_ok(a, e)) return MAP_NONE;
    uint32_t text = symbols_string(s, name, e);
    if (text == MAP_NONE) return MAP_NONE;
    uint32_t row = symbols_function(s, (struct symbol_function){.name = text}, e);
    if (row == MAP_NONE) return MAP_NONE;
    return symbols_frame(s, (struct symbol_frame){.function = row}, e);
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
            out->v[n] =
                frame_of(s, a, p, l, &p->functions[p->lines[l->first_line + k].function], e);
            if (out->v[n++] == MAP_NONE) return false;
        }
        if (l->line_count == 0) {
            out->v[n] = frame_of(s, a, p, l, NULL, e);
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
    return true;
}

static bool has_negative(const struct tree *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->nodes[i].self < 0) return true;
    return false;
}

// The flame graph; and if it may lack nodes, the TREE bytes too.
static bool put_forms(struct arena *a, const struct profiles *p, size_t row, struct buf *graph,
                      struct buf *bytes, err *e)
{
    struct symbols s;
    struct tree tree;
    int64_t *sums = NULL;
    assert(row < p->count);
    if (!symbols_init(&s, NULL, e)) return false;
    bool ok = add_up(&s, a, p, row, &sums, e) && tree_build(a, &s.t, sums, NULL, 0, &tree, e) &&
              tree_flamegraph(a, &tree, graph, e) && buf_ok(graph, e) &&
              (!bytes || !has_negative(&tree) || tree_bytes(&tree, bytes, e));
    // The names of the tree are the table's, and have been copied.
    symbols_release(&s);
    return ok;
}

bool profiles_graph(struct arena *a, const struct profiles *p, size_t row, struct buf *graph,
                    err *e)
{
    return put_forms(a, p, row, graph, NULL, e);
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
    struct buf tree;
    buf_init(&graph, NULL, FILE_MAX);
    buf_init(&tree, NULL, FILE_MAX);
    bool ok = put_forms(a, p, row, &graph, &tree, e);
    // Copied: the flame graph borrows from the message, and the message from the bytes.
    str bytes = ok ? arena_str(a, buf_view(&graph)) : (str){0};
    str nodes = ok ? arena_str(a, buf_view(&tree)) : (str){0};
    buf_release(&graph);
    buf_release(&tree);
    const Querier__V1__FlameGraph *g = NULL;
    if (ok && arena_ok(a, e)) {
        g = (const Querier__V1__FlameGraph *)pb_unpack(a, &querier__v1__flame_graph__descriptor,
                                                       bytes, e);
    }
    if (!g || !flame_read(a, g, f, e)) return false;
    return nodes.n == 0 || flame_read_tree(a, nodes, f, e);
}
