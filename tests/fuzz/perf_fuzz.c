// SPDX-License-Identifier: Apache-2.0
//
// Text of `perf script`: a profile for each event, whose samples count at least one of the text and
// have perhaps the process and the command as labels; no two have the same stack, process and
// command. Names are UTF-8. Written as pprof and read again it is the same.
#include "decode/decode.h"
#include "decode/perf.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

#define COMPARED 50u  // samples; each with each

static str label_of(const struct profile *p, const struct profile_sample *s, const char *key)
{
    for (uint32_t i = 0; i < s->label_count; i++) {
        CHECK(s->first_label + i < p->label_count);
        if (str_is(p->labels[s->first_label + i].key, key))
            return p->labels[s->first_label + i].text;
    }
    return (str){0};
}

static str name_of(const struct profile *p, const struct profile_sample *s, uint32_t k)
{
    const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + k]];
    CHECK(l->line_count == 1);
    return p->functions[p->lines[l->first_line].function].name;
}

static bool same(const struct profile *p, const struct profile_sample *s, const struct profile *q,
                 const struct profile_sample *t)
{
    if (s->location_count != t->location_count) return false;
    for (uint32_t k = 0; k < s->location_count; k++) {
        if (!str_eq(name_of(p, s, k), name_of(q, t, k))) return false;
    }
    return str_eq(label_of(p, s, "comm"), label_of(q, t, "comm")) &&
           str_eq(label_of(p, s, "pid"), label_of(q, t, "pid"));
}

static void check(const struct profile *p)
{
    CHECK(p->type_count >= 1 && p->type_count <= 2 && p->sample_count > 0);
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        str pid = label_of(p, s, "pid");
        CHECK(p->values[(size_t)i * p->type_count] > 0 && s->location_count > 0);
        for (size_t k = 0; k < pid.n; k++)
            CHECK(pid.p[k] >= '0' && pid.p[k] <= '9');
        for (uint32_t k = 0; k < i && i < COMPARED; k++)
            CHECK(!same(p, s, p, &p->samples[k]));
    }
}

static void compare(const struct profile *p, const struct profile *q)
{
    CHECK(p->sample_count == q->sample_count);
    for (uint32_t i = 0; i < p->sample_count; i++)
        CHECK(same(p, &p->samples[i], q, &q->samples[i]));
    for (size_t i = 0; i < (size_t)p->sample_count * p->type_count; i++)
        CHECK(p->values[i] == q->values[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    struct arena a;
    struct buf pprof;
    struct decoded d = {0};
    struct decoded again = {0};
    err e = {0};
    arena_init(&a, NULL, 256 << 20);
    buf_init(&pprof, NULL, 64 << 20);
    str bytes = str_make(data, size);
    (void)perf_is_script(bytes);
    bool ok = decode_perf(&a, bytes, &any, &d, &e);
    if (ok) CHECK(d.count > 0);
    for (size_t i = 0; ok && i < d.count; i++) {
        check(&d.profiles[i]);
        buf_clear(&pprof);
        ok = decode_put_pprof(&a, &d.profiles[i], &pprof, &e);
        if (!ok) break;
        if (decode_pprof(&a, buf_view(&pprof), &any, &again, NULL, &e))
            compare(&d.profiles[i], again.profiles);
        else
            CHECK(e.code == ERR_RESOURCE_EXHAUSTED);
    }
    buf_release(&pprof);
    arena_release(&a);
    return 0;
}
