// SPDX-License-Identifier: Apache-2.0
//
// Collapsed text that decodes, printed and decoded again, is the same; so are lines.
#include "base/buf.h"
#include "decode/decode.h"

#include <stdlib.h>

static const struct decode_options no_options;

static void print(const struct profile *p, bool with_values, struct buf *out)
{
    // The first name may begin with a byte order mark, of which the text had two.
    buf_byte(out, '\n');
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        for (uint32_t k = s->location_count; k-- > 0;) {
            uint32_t location = p->stack_locations[s->first_location + k];
            if (location >= p->location_count) abort();
            buf_str(out, p->functions[p->lines[p->locations[location].first_line].function].name);
            // At the end too: a name may end in a space, which the end of a line would lose.
            buf_byte(out, ';');
        }
        if (with_values) {
            buf_byte(out, ' ');
            buf_i64(out, p->values[i]);
        }
        buf_byte(out, '\n');
    }
}

static bool decode(struct arena *a, bool folded, str text, struct decoded *d)
{
    err e = {0};
    return folded ? decode_folded(a, text, &no_options, d, &e)
                  : decode_lines(a, text, &no_options, d, &e);
}

static void round_trip(bool folded, str text)
{
    struct arena a;
    struct buf one;
    struct buf two;
    arena_init(&a, NULL, 256 << 20);
    buf_init(&one, NULL, 64 << 20);
    buf_init(&two, NULL, 64 << 20);
    struct decoded d = {0};
    if (decode(&a, folded, text, &d)) {
        print(d.profiles, folded, &one);
        if (decode(&a, folded, buf_view(&one), &d)) {
            print(d.profiles, folded, &two);
            if (!str_eq(buf_view(&one), buf_view(&two))) abort();
        } else if (!a.exhausted) {
            abort();
        }
    }
    buf_release(&two);
    buf_release(&one);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    round_trip(true, str_make(data, size));
    round_trip(false, str_make(data, size));
    return 0;
}
