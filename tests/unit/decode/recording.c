// SPDX-License-Identifier: Apache-2.0
#include "unit/decode/recording.h"

#include "lib/test.h"

void recording_print(const struct jfr_recording *r, struct buf *out)
{
    for (size_t i = 0; i < r->profiles.count; i++) {
        const struct profile *p = &r->profiles.profiles[i];
        buf_printf(out, "%.*s %.*s\n", STR(r->names[i]), STR(p->types[0].type));
        for (uint32_t s = 0; s < p->sample_count; s++) {
            const struct profile_sample *x = &p->samples[s];
            for (uint32_t k = x->location_count; k-- > 0;) {
                const struct profile_location *l =
                    &p->locations[p->stack_locations[x->first_location + k]];
                const struct profile_line *line = &p->lines[l->first_line];
                buf_printf(out, "%.*s:%lld%s", STR(p->functions[line->function].name),
                           (long long)line->line, k ? ";" : "");
            }
            for (uint32_t k = 0; k < x->label_count; k++) {
                const struct profile_label *l = &p->labels[x->first_label + k];
                buf_printf(out, " {%.*s=%.*s}", STR(l->key), STR(l->text));
            }
            buf_z(out, " =");
            for (uint32_t k = 0; k < p->type_count; k++)
                buf_printf(out, " %lld", (long long)p->values[s * p->type_count + k]);
            buf_byte(out, '\n');
        }
    }
}

void recording_in_both(void (*check)(struct jw *w))
{
    for (int compressed = 0; compressed < 2; compressed++) {
        struct jw w;
        jw_init(&w, compressed);
        check(&w);
        jw_release(&w);
    }
}

void recording_decode(const struct jw *w, const struct decode_options *o, struct arena *a,
                      struct jfr_recording *r)
{
    arena_init(a, NULL, 1 << 20);
    str guarded = str_make(tail_guard(w->out.p, w->out.n), w->out.n);
    assert_ok(decode_jfr(a, guarded, (str){0}, o, r, NULL, e));
}

void recording_expect(const struct jw *w, const struct decode_options *o, const char *want,
                      enum loss why, uint64_t n)
{
    struct arena a;
    struct buf got;
    struct jfr_recording r = {0};
    uint64_t found = 0;
    recording_decode(w, o, &a, &r);
    buf_init(&got, NULL, 1 << 16);
    recording_print(&r, &got);
    if (!str_is(buf_view(&got), want)) fail_msg("got %.*s", STR(buf_view(&got)));
    for (size_t i = 0; i < r.profiles.count; i++)
        found += r.profiles.profiles[i].losses.count[why];
    assert_int_equal(found, n);
    buf_release(&got);
    arena_release(&a);
}
