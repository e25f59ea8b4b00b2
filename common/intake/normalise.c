// SPDX-License-Identifier: Apache-2.0
//
// normalise.c - samples and addresses that are not stored, frames that nothing is known of, and the
// source version in build ids.
#include "intake/normalise.h"

#include "codec/json.h"
#include "model/marks.h"
#include "model/symbols.h"

// ---- samples

// Labels without text (numbers, empty ones) do not make series.
static void keep_text_labels(struct profile *p, struct profile_sample *s)
{
    if (s->label_count == 0) return;
    struct profile_label *v = p->labels + s->first_label;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->label_count; i++) {
        if (v[i].text.n) v[n++] = v[i];
    }
    s->label_count = n;
}

// Whether a sample is stored: it has a value. A negative one is kept: it is one side of a
// difference whose other side may be another sample, as in Go's heap deltas, and only sums tell.
static bool counts(const struct profile *p, uint32_t row)
{
    const int64_t *v = p->values + (size_t)row * p->type_count;
    assert(row < p->sample_count);
    int64_t any = 0;
    for (uint32_t i = 0; i < p->type_count; i++)
        any |= v[i];
    return any != 0;
}

// ---- frames that nothing is known of

static bool normalise_is_named(const struct profile_function *f)
{
    return f->name.n > 0 || f->system_name.n > 0;
}

static bool is_all_named(const struct profile *p, const struct profile_location *l)
{
    for (uint32_t i = 0; i < l->line_count; i++) {
        if (!normalise_is_named(&p->functions[p->lines[l->first_line + i].function])) return false;
    }
    return l->line_count > 0;
}

// Where functions are named, addresses only keep equal frames of different runs apart. Where one is
// not, its address is the only name that the frame has.
static void clear_addresses(struct profile *p)
{
    for (uint32_t i = 0; i < p->location_count; i++) {
        struct profile_location *l = &p->locations[i];
        bool named = l->mapping != PROFILE_NONE &&
                     (p->mappings[l->mapping].flags & SYMBOL_HAS_FUNCTIONS) != 0;
        if (named && is_all_named(p, l)) l->address = 0;
    }
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        struct profile_mapping *m = &p->mappings[i];
        if (m->flags & SYMBOL_HAS_FUNCTIONS) m->start = m->limit = m->offset = 0;
    }
}

// Whether a name can be made of a location itself (model/frame_name.h).
static bool is_somewhere(const struct profile *p, const struct profile_location *l)
{
    return l->address != 0 ||
           (l->mapping != PROFILE_NONE && p->mappings[l->mapping].filename.n > 0);
}

static bool is_unknown_line(const struct profile *p, const struct profile_line *line)
{
    const struct profile_function *f = &p->functions[line->function];
    return !normalise_is_named(f) && f->filename.n == 0 && f->start_line == 0 && line->line == 0;
}

// The lines that locations which say nothing need.
struct unknown {
    uint32_t lines;  // of locations that have lines, but without content
    bool locations;  // some have none
    uint32_t function;
};

static struct unknown find_unknown(const struct profile *p)
{
    struct unknown u = {0};
    for (uint32_t i = 0; i < p->location_count; i++) {
        const struct profile_location *l = &p->locations[i];
        if (is_somewhere(p, l)) continue;
        u.locations |= l->line_count == 0;
        for (uint32_t k = 0; k < l->line_count; k++)
            u.lines += is_unknown_line(p, &p->lines[l->first_line + k]);
    }
    return u;
}

// Adds the function [unknown], and a line of it if locations without lines need one.
static bool add_unknown(struct arena *a, struct profile *p, struct unknown *u)
{
    uint32_t n = p->function_count;
    u->function = n;
    struct profile_function *functions = ARENA_ARRAY(a, struct profile_function, (size_t)n + 1);
    if (!functions) return false;
    if (n) memcpy(functions, p->functions, n * sizeof *functions);
    functions[n].name = functions[n].system_name = S(STACK_UNKNOWN_NAME);
    p->functions = functions;
    p->function_count++;
    if (!u->locations) return true;
    struct profile_line *lines = ARENA_ARRAY(a, struct profile_line, (size_t)p->line_count + 1);
    if (!lines) return false;
    if (p->line_count) memcpy(lines, p->lines, p->line_count * sizeof *lines);
    lines[p->line_count++] = (struct profile_line){.function = u->function};
    p->lines = lines;
    return true;
}

// A location that says nothing would be no frame (model/symbols.h), and its value would be that of
// its caller. So it gets the name that such a frame is shown by.
static bool name_unknown(struct arena *a, struct profile *p)
{
    struct unknown u = find_unknown(p);
    if (u.lines == 0 && !u.locations) return true;
    uint32_t line = p->line_count;
    if (!add_unknown(a, p, &u)) return false;
    for (uint32_t i = 0; i < p->location_count; i++) {
        struct profile_location *l = &p->locations[i];
        if (is_somewhere(p, l)) continue;
        for (uint32_t k = 0; k < l->line_count; k++) {
            struct profile_line *of = &p->lines[l->first_line + k];
            if (is_unknown_line(p, of)) of->function = u.function;
        }
        if (l->line_count > 0) continue;
        l->first_line = line;
        l->line_count = 1;
    }
    return true;
}

bool normalise_profile(struct arena *a, struct profile *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        if (!counts(p, i)) continue;
        keep_text_labels(p, &p->samples[i]);
        // In place: nothing refers to samples by number yet.
        if (n < i) {
            p->samples[n] = p->samples[i];
            memmove(p->values + (size_t)n * p->type_count, p->values + (size_t)i * p->type_count,
                    p->type_count * sizeof *p->values);
        }
        n++;
    }
    p->sample_count = n;
    clear_addresses(p);
    return name_unknown(a, p);
}

// ---- version

static void put_member(struct buf *b, const char *key, str value)
{
    if (value.n == 0) return;
    buf_byte(b, b->n == 0 ? '{' : ',');
    json_put_string(b, str_of(key));
    buf_byte(b, ':');
    json_put_string(b, value);
}

static str version_json(struct arena *a, labels ls, str build_id)
{
    struct buf b;
    buf_init(&b, a->budget, SIZE_MAX / 2);
    put_member(&b, "repository", labels_get(ls, S("service_repository")));
    put_member(&b, "git_ref", labels_get(ls, S("service_git_ref")));
    put_member(&b, "build_id", build_id);
    put_member(&b, "root_path", labels_get(ls, S("service_root_path")));
    buf_byte(&b, '}');
    if (b.failed) a->exhausted = true;
    str s = arena_str(a, buf_view(&b));
    buf_release(&b);
    return s;
}

// Adds a mapping for locations without one, because the build id is a mapping's.
static bool add_mapping(struct arena *a, struct profile *p)
{
    uint32_t row = p->mapping_count;
    struct profile_mapping *more = ARENA_ARRAY(a, struct profile_mapping, (size_t)row + 1);
    if (!more) return false;
    if (row) memcpy(more, p->mappings, row * sizeof *more);
    more[row] = (struct profile_mapping){0};
    p->mappings = more;
    p->mapping_count++;
    for (uint32_t i = 0; i < p->location_count; i++) {
        if (p->locations[i].mapping == PROFILE_NONE) p->locations[i].mapping = row;
    }
    return true;
}

bool normalise_version(struct arena *a, struct profile *p, labels ls)
{
    bool any = labels_get(ls, S("service_repository")).n ||
               labels_get(ls, S("service_git_ref")).n || labels_get(ls, S("service_root_path")).n;
    if (!any) return true;
    bool bare = false;
    for (uint32_t i = 0; i < p->location_count; i++) {
        bare |= p->locations[i].mapping == PROFILE_NONE;
    }
    if (bare && !add_mapping(a, p)) return false;
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        p->mappings[i].build_id = version_json(a, ls, p->mappings[i].build_id);
    }
    return !a->exhausted;
}
