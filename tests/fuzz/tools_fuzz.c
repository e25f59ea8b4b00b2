// SPDX-License-Identifier: Apache-2.0
//
// The first byte chooses a row of decode/tools.def: 'a' is the first. What decodes has a sample,
// and written as pprof it is read as a profile with the same stacks, labels and values.
#include "decode/tools.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

static str name_of(const struct profile *p, const struct profile_sample *s, uint32_t k)
{
    const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + k]];
    CHECK(l->line_count == 1);
    return p->functions[p->lines[l->first_line].function].name;
}

static void compare(const struct profile *one, const struct profile *two)
{
    CHECK(one->sample_count == two->sample_count && one->type_count == two->type_count);
    for (uint32_t i = 0; i < one->sample_count; i++) {
        const struct profile_sample *s = &one->samples[i];
        const struct profile_sample *t = &two->samples[i];
        CHECK(s->location_count == t->location_count && s->label_count == t->label_count);
        for (uint32_t k = 0; k < s->location_count; k++)
            CHECK(str_eq(name_of(one, s, k), name_of(two, t, k)));
        for (uint32_t k = 0; k < s->label_count; k++)
            CHECK(
                str_eq(one->labels[s->first_label + k].text, two->labels[t->first_label + k].text));
        for (uint32_t k = 0; k < one->type_count; k++)
            CHECK(one->values[i * one->type_count + k] == two->values[i * two->type_count + k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    if (size == 0) return 0;
    struct arena a;
    struct buf pprof;
    struct decoded d = {0};
    struct decoded again = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&pprof, NULL, 64 << 20);
    str bytes = str_make(data + 1, size - 1);
    (void)tool_of(bytes);
    if (tool_decode((enum tool)((size_t)(data[0] - 'a') % TOOL_COUNT), &a, bytes, &any, &d, &e)) {
        CHECK(d.count == 1 && d.profiles->sample_count > 0);
        if (!decode_put_pprof(&a, d.profiles, &pprof, &e) ||
            !decode_pprof(&a, buf_view(&pprof), &any, &again, NULL, &e))
            CHECK(e.code == ERR_RESOURCE_EXHAUSTED);
        else
            compare(d.profiles, again.profiles);
    }
    buf_release(&pprof);
    arena_release(&a);
    return 0;
}
