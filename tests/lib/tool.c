// SPDX-License-Identifier: Apache-2.0
#include "lib/tool.h"

#include "base/buf.h"

static void tool_put_sample(struct buf *b, const struct profile *p, uint32_t k)
{
    const struct profile_sample *s = &p->samples[k];
    for (uint32_t i = 0; i < s->label_count; i++) {
        const struct profile_label *l = &p->labels[s->first_label + i];
        buf_printf(b, "%s%.*s=%.*s%s", i ? " " : "[", STR(l->key), STR(l->text),
                   i + 1 < s->label_count ? "" : "] ");
    }
    for (uint32_t n = s->location_count; n-- > 0;) {
        const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + n]];
        const struct profile_function *f = &p->functions[p->lines[l->first_line].function];
        buf_printf(b, "%.*s%s", STR(f->name), n ? ";" : "=");
    }
    for (uint32_t n = 0; n < p->type_count; n++)
        buf_printf(b, "%s%lld", n ? "," : "", (long long)p->values[k * p->type_count + n]);
}

static void tool_put(struct buf *b, const struct profile *p)
{
    for (uint32_t i = 0; i < p->type_count; i++)
        buf_printf(b, "%s%.*s/%.*s", i ? "," : "", STR(p->types[i].type), STR(p->types[i].unit));
    buf_byte(b, ':');
    for (uint32_t k = 0; k < p->sample_count; k++) {
        buf_byte(b, ' ');
        tool_put_sample(b, p, k);
    }
}

static void tool_put_losses(struct buf *b, const struct losses *l)
{
    bool any = false;
    for (int i = 0; i < LOSS_COUNT; i++) {
        if (l->count[i] == 0) continue;
        buf_printf(b, "%s%s=%llu", any ? " " : " | ", loss_name((enum loss)i),
                   (unsigned long long)l->count[i]);
        any = true;
    }
}

static void tool_again(struct arena *a, const struct profile *p, str line)
{
    static const struct decode_options any;
    struct buf pprof;
    struct buf got;
    struct decoded d = {0};
    buf_init(&pprof, NULL, 1 << 20);
    buf_init(&got, NULL, 1 << 20);
    assert_ok(decode_put_pprof(a, p, &pprof, e));
    assert_ok(decode_pprof(a, buf_view(&pprof), &any, &d, NULL, e));
    tool_put(&got, d.profiles);
    if (!str_eq(buf_view(&got), line)) fail_msg("as pprof: %.*s", STR(buf_view(&got)));
    buf_release(&pprof);
    buf_release(&got);
}

void tool_check(tool_decoder *decode, str text, const char *expected)
{
    static const struct decode_options any;
    struct arena a;
    struct buf got;
    struct decoded d = {0};
    err e = {0};
    str guarded = str_make(tail_guard(text.p, text.n), text.n);
    arena_init(&a, NULL, 8 << 20);
    buf_init(&got, NULL, 1 << 20);
    bool ok = decode(&a, guarded, &any, &d, &e);
    if (ok) {
        tool_put(&got, d.profiles);
        tool_again(&a, d.profiles, buf_view(&got));
        tool_put_losses(&got, &d.profiles->losses);
    }
    bool good = expected[0] == '!' ? !ok && strstr(e.msg, expected + 1)
                                   : ok && str_is(buf_view(&got), expected);
    if (!good)
        fail_msg("%.*s\n     got: %.*s%s\nexpected: %s", STR(text), STR(buf_view(&got)), e.msg,
                 expected);
    buf_release(&got);
    arena_release(&a);
}

void tool_check_cases(tool_decoder *decode, const struct tool_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tool_check(decode, str_of(cases[i].text), cases[i].expected);
}
