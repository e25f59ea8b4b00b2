// SPDX-License-Identifier: Apache-2.0
#include "lib/same.h"

#include <stdlib.h>

#define SAME(c)            \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

static str same_name(const struct profile *p, const struct profile_sample *s, uint32_t k)
{
    const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + k]];
    SAME(l->line_count == 1);
    return p->functions[p->lines[l->first_line].function].name;
}

void same_profile(const struct profile *one, const struct profile *two)
{
    SAME(one->sample_count == two->sample_count && one->type_count == two->type_count);
    for (uint32_t i = 0; i < one->sample_count; i++) {
        const struct profile_sample *s = &one->samples[i];
        const struct profile_sample *t = &two->samples[i];
        SAME(s->location_count == t->location_count && s->label_count == t->label_count);
        for (uint32_t k = 0; k < s->location_count; k++)
            SAME(str_eq(same_name(one, s, k), same_name(two, t, k)));
        for (uint32_t k = 0; k < s->label_count; k++)
            SAME(
                str_eq(one->labels[s->first_label + k].text, two->labels[t->first_label + k].text));
        for (uint32_t k = 0; k < one->type_count; k++)
            SAME(one->values[i * one->type_count + k] == two->values[i * two->type_count + k]);
    }
}
