// SPDX-License-Identifier: Apache-2.0
//
// normalise.c - samples and addresses that are not stored, and the source version in build ids.
#include "intake/normalise.h"

#include "codec/json.h"
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

// Whether a sample is stored: it has a value, and none is negative.
static bool counts(const struct profile *p, uint32_t row)
{
    const int64_t *v = p->values + (size_t)row * p->type_count;
    assert(row < p->sample_count);
    int64_t any = 0;
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (v[i] < 0) return false;
        any |= v[i];
    }
    return any != 0;
}

static bool says_nothing(const struct profile_location *l)
{
    return l->line_count == 0 && l->address == 0;
}

static bool stands(const struct profile *p, const struct profile_sample *s, const bool *gone)
{
    for (uint32_t i = 0; i < s->location_count; i++) {
        // Such a location would be a frame without a name, in which no flame graph shows anything.
        if (gone[p->stack_locations[s->first_location + i]]) return false;
    }
    return true;
}

// Where functions are named, addresses only keep equal frames of different runs apart.
static void clear_addresses(struct profile *p)
{
    for (uint32_t i = 0; i < p->location_count; i++) {
        struct profile_location *l = &p->locations[i];
        bool named = l->mapping != PROFILE_NONE &&
                     (p->mappings[l->mapping].flags & SYMBOL_HAS_FUNCTIONS) != 0;
        if (named) l->address = 0;
    }
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        struct profile_mapping *m = &p->mappings[i];
        if (m->flags & SYMBOL_HAS_FUNCTIONS) m->start = m->limit = m->offset = 0;
    }
}

bool normalise_profile(struct arena *a, struct profile *p)
{
    bool *gone = NULL;
    for (uint32_t i = 0; i < p->location_count; i++) {
        if (!says_nothing(&p->locations[i])) continue;
        if (!gone) gone = ARENA_ARRAY(a, bool, p->location_count);
        if (!gone) return false;
        gone[i] = true;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        if (!counts(p, i) || (gone && !stands(p, &p->samples[i], gone))) continue;
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
    // Only now: without its address a location without lines would say nothing.
    clear_addresses(p);
    return true;
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
