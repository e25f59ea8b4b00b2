// SPDX-License-Identifier: Apache-2.0
//
// OTLP requests as protobuf and, if they begin with '{', as JSON: what is read keeps the guarantees
// of model/profile.h, and reading the same request again gives the same.
#include "decode/otlp.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

#define PARTS_MAX 2000  // a profile of many types is read once for each

static void check_profile(const struct profile *p)
{
    CHECK(p->type_count == 1 && p->sample_count > 0);
    uint64_t next = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        CHECK(s->first_location == next);
        next += s->location_count;
        CHECK((uint64_t)s->first_label + s->label_count <= p->label_count);
    }
    CHECK(next == p->stack_location_count);
    for (uint32_t i = 0; i < p->stack_location_count; i++)
        CHECK(p->stack_locations[i] < p->location_count);
    for (uint32_t i = 0; i < p->location_count; i++) {
        const struct profile_location *l = &p->locations[i];
        CHECK((uint64_t)l->first_line + l->line_count <= p->line_count);
        CHECK(l->mapping == PROFILE_NONE || l->mapping < p->mapping_count);
    }
    for (uint32_t i = 0; i < p->line_count; i++)
        CHECK(p->lines[i].function < p->function_count);
    for (uint32_t i = 0; i < p->label_count; i++)
        CHECK(p->labels[i].key.n > 0 && p->labels[i].text.n > 0);
}

static uint64_t sum(const struct profile *p)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < p->sample_count; i++)
        all += (uint64_t)p->values[i];
    return all;
}

static uint64_t read_all(str bytes)
{
    struct arena a;
    struct arena scratch;
    struct decode_options o = {0};
    struct otlp *d = NULL;
    err e = {0};
    uint64_t digest = 0;
    arena_init(&a, NULL, 64 << 20);
    arena_init(&scratch, NULL, 64 << 20);
    bool json = bytes.n && bytes.p[0] == '{';
    bool ok = json ? otlp_open_json(&a, bytes, &o, &d, &e) : otlp_open(&a, bytes, &o, &d, &e);
    if (!ok) CHECK(e.code == ERR_INVALID_ARGUMENT || e.code == ERR_RESOURCE_EXHAUSTED);
    for (int i = 0; ok && i < PARTS_MAX; i++) {
        struct otlp_profile p = {0};
        enum otlp_step step = otlp_next(d, &scratch, &p, &e);
        if (step == OTLP_END) break;
        CHECK(p.number < otlp_count(d));
        if (step == OTLP_PROFILE) {
            check_profile(&p.profile);
            CHECK(labels_has(p.labels, S(LABEL_SERVICE)));
            digest = digest * 31 + sum(&p.profile);
        }
        arena_release(&scratch);
    }
    arena_release(&scratch);
    arena_release(&a);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str bytes = str_make(data, size);
    CHECK(read_all(bytes) == read_all(bytes));
    return 0;
}
