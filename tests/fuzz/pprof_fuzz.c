// SPDX-License-Identifier: Apache-2.0
//
// The own pprof decoder against protobuf-c, which knows nothing of stacks: whatever both read, and
// the own one accepts, must hold the same rows and the same resolved stacks.
#include "codec/compress.h"
#include "codec/pb.h"
#include "decode/decode.h"
#include "google/v1/profile.pb-c.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

static bool same_text(const Google__V1__Profile *m, int64_t idx, str got)
{
    if (idx < 0 || (uint64_t)idx >= m->n_string_table) return got.n == 0;
    str sent = str_of(m->string_table[idx]);
    return str_utf8(sent) ? str_eq(sent, got) : str_utf8(got);  // the rest is mended
}

static const Google__V1__Function *function_of(const Google__V1__Profile *m, uint64_t id)
{
    for (size_t i = m->n_function; i-- > 0;) {
        if (m->function[i]->id == id) return m->function[i];
    }
    return NULL;
}

static bool has_mapping(const Google__V1__Profile *m, uint64_t id)
{
    for (size_t i = 0; i < m->n_mapping; i++) {
        if (m->mapping[i]->id == id) return true;
    }
    return id == 0;
}

static const Google__V1__Location *location_of(const Google__V1__Profile *m, uint64_t id)
{
    for (size_t i = m->n_location; i-- > 0;) {
        if (m->location[i]->id == id) return m->location[i];
    }
    return NULL;
}

// A function that does not exist is one without content.
static void compare_function(const struct profile_function *got, const Google__V1__Profile *m,
                             const Google__V1__Function *want)
{
    CHECK(same_text(m, want ? want->name : -1, got->name));
    CHECK(same_text(m, want ? want->filename : -1, got->filename));
}

static void compare_location(const struct profile *p, uint32_t row, const Google__V1__Profile *m,
                             const Google__V1__Location *want)
{
    CHECK(row < p->location_count);
    const struct profile_location *got = &p->locations[row];
    // One that does not exist says nothing; a mapping that does not exist is none.
    if (!want) {
        CHECK(got->address == 0 && got->line_count == 0 && got->mapping == PROFILE_NONE);
        return;
    }
    bool mapped = want->mapping_id != 0 && has_mapping(m, want->mapping_id);
    CHECK(got->address == want->address && got->line_count == want->n_line);
    CHECK((got->mapping != PROFILE_NONE) == mapped);
    for (uint32_t i = 0; i < got->line_count; i++) {
        const struct profile_line *line = &p->lines[got->first_line + i];
        CHECK(line->line == want->line[i]->line && line->function < p->function_count);
        compare_function(&p->functions[line->function], m,
                         function_of(m, want->line[i]->function_id));
    }
}

static void compare_sample(const struct profile *p, uint32_t row, const Google__V1__Profile *m,
                           const Google__V1__Sample *want)
{
    CHECK(row < p->sample_count);
    const struct profile_sample *s = &p->samples[row];
    CHECK(s->location_count == want->n_location_id && s->label_count == want->n_label);
    CHECK(want->n_value == p->type_count);
    for (uint32_t i = 0; i < p->type_count; i++) {
        CHECK(p->values[(size_t)row * p->type_count + i] == want->value[i]);
    }
    for (uint32_t i = 0; i < s->location_count; i++) {
        compare_location(p, p->stack_locations[s->first_location + i], m,
                         location_of(m, want->location_id[i]));
    }
    for (uint32_t i = 0; i < s->label_count; i++) {
        const struct profile_label *l = &p->labels[s->first_label + i];
        CHECK(same_text(m, want->label[i]->key, l->key));
        CHECK(same_text(m, want->label[i]->str, l->text) && l->number == want->label[i]->num);
    }
}

static void compare(const struct profile *p, const Google__V1__Profile *m)
{
    CHECK(p->type_count == m->n_sample_type && p->mapping_count == m->n_mapping);
    // One more stands for those that do not exist.
    CHECK(p->function_count == m->n_function || p->function_count == m->n_function + 1);
    CHECK(p->string_count == m->n_string_table && p->sample_count == m->n_sample);
    CHECK(p->time_ns == m->time_nanos && p->duration_ns == m->duration_nanos);
    CHECK(p->period == m->period && p->comment_count == m->n_comment);
    CHECK(same_text(m, m->default_sample_type, p->default_type));
    for (uint32_t i = 0; i < p->type_count; i++) {
        CHECK(same_text(m, m->sample_type[i]->type, p->types[i].type));
        CHECK(same_text(m, m->sample_type[i]->unit, p->types[i].unit));
    }
    for (uint32_t i = 0; i < p->sample_count; i++)
        compare_sample(p, i, m, m->sample[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct arena b;
    arena_init(&a, NULL, 64 << 20);
    arena_init(&b, NULL, 64 << 20);
    struct decode_options o = {.inflated_max = 1 << 20};
    struct decoded d = {0};
    err e = {0};
    str bytes = str_make(data, size);
    bool ok = decode_pprof(&a, bytes, &o, &d, NULL, &e);
    if (!compress_is_gzip(bytes) && size <= o.inflated_max) {
        err other = {0};
        ProtobufCMessage *m = pb_unpack(&b, &google__v1__profile__descriptor, bytes, &other);
        if (m && ok) compare(d.profiles, (const Google__V1__Profile *)m);
        CHECK(!m || ok || !str_starts(str_of(e.msg), S("malformed pprof")) || size == 0);
    }
    arena_release(&b);
    arena_release(&a);
    return 0;
}
