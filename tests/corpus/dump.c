// SPDX-License-Identifier: Apache-2.0
//
// corpus_dump FORMAT FILE - what a decoder made of a file, as JSON lines for check.py: first the
// head, then a line per sample; of a recording, and of OTLP, so for each of its profiles. On a
// refusal one line {"error": code, "message": text} instead. OTLP begins with a line about the
// message.
#include "codec/compress.h"
#include "codec/json.h"
#include "decode/decode.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_text(struct buf *b, str s)
{
    if (str_utf8(s)) {
        json_put_string(b, s);
        return;
    }
    buf_byte(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        buf_printf(b, c < 0x80 ? "%c" : "\\\\x%02x", c);
    }
    buf_byte(b, '"');
}

static void put_key(struct buf *b, const char *key)
{
    buf_printf(b, "%s\"%s\":", b->p[b->n - 1] == '{' ? "" : ",", key);
}

static void put_number(struct buf *b, const char *key, int64_t v)
{
    put_key(b, key);
    buf_i64(b, v);
}

static void put_pair(struct buf *b, str one, str two)
{
    buf_byte(b, '[');
    put_text(b, one);
    buf_byte(b, ',');
    put_text(b, two);
    buf_byte(b, ']');
}

static void put_head(struct buf *b, const struct profile *p)
{
    buf_byte(b, '{');
    put_key(b, "types");
    buf_byte(b, '[');
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (i) buf_byte(b, ',');
        put_pair(b, p->types[i].type, p->types[i].unit);
    }
    buf_byte(b, ']');
    put_key(b, "period_type");
    put_pair(b, p->period_type.type, p->period_type.unit);
    put_number(b, "period", p->period);
    put_number(b, "time_nanos", p->time_ns);
    put_number(b, "duration_nanos", p->duration_ns);
    put_number(b, "locations", p->location_count);
    put_number(b, "functions", p->function_count);
    put_number(b, "mappings", p->mapping_count);
    put_number(b, "strings", p->string_count);
    uint32_t inlined = 0;
    uint32_t bare = 0;
    for (uint32_t i = 0; i < p->location_count; i++) {
        inlined += p->locations[i].line_count > 1;
        bare += p->locations[i].line_count == 0;
    }
    put_number(b, "locations_inlined", inlined);
    put_number(b, "locations_without_lines", bare);
    put_key(b, "default_sample_type");
    put_text(b, p->default_type);
    put_key(b, "language_hint");
    put_text(b, p->language_hint);
    buf_z(b, "}\n");
}

// Innermost first, a frame per line; an address where nobody knows a name.
static void put_stack(struct buf *b, const struct profile *p, const struct profile_sample *s)
{
    for (uint32_t i = 0; i < s->location_count; i++) {
        const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + i]];
        if (l->line_count == 0) {
            buf_printf(b, "%s\"0x%" PRIx64 "\"", i ? "," : "", l->address);
        }
        for (uint32_t k = 0; k < l->line_count; k++) {
            if (i + k) buf_byte(b, ',');
            put_text(b, p->functions[p->lines[l->first_line + k].function].name);
        }
    }
}

static void put_sample(struct buf *b, const struct profile *p, uint32_t row)
{
    const struct profile_sample *s = &p->samples[row];
    buf_z(b, "{\"stack\":[");
    put_stack(b, p, s);
    buf_z(b, "],\"values\":[");
    for (uint32_t i = 0; i < p->type_count; i++) {
        if (i) buf_byte(b, ',');
        buf_i64(b, p->values[(size_t)row * p->type_count + i]);
    }
    buf_z(b, "],\"labels\":[");
    for (uint32_t i = 0; i < s->label_count; i++) {
        const struct profile_label *l = &p->labels[s->first_label + i];
        if (i) buf_byte(b, ',');
        buf_byte(b, '[');
        put_text(b, l->key);
        buf_byte(b, ',');
        if (l->text.n) {
            put_text(b, l->text);
        } else {
            buf_i64(b, l->number);
        }
        buf_byte(b, ']');
    }
    buf_z(b, "]}\n");
}

// At the rate that the facts are computed with.
static bool decode_recording(struct arena *a, str bytes, struct decoded *d, err *e)
{
    struct decode_options o = {.sample_rate = 100};
    struct jfr_recording r = {0};
    if (!decode_jfr(a, bytes, (str){0}, &o, &r, NULL, e)) return false;
    *d = r.profiles;
    return true;
}

static bool decode_file(struct arena *a, const char *format, str bytes, struct decoded *d, err *e)
{
    struct decode_options o = {0};
    if (strcmp(format, "perf") == 0) return decode_perf(a, bytes, &o, d, e);
    if (strcmp(format, "jfr") == 0) return decode_recording(a, bytes, d, e);
    if (strcmp(format, "collapsed") == 0) return decode_folded(a, bytes, &o, d, e);
    if (strcmp(format, "legacy") == 0) return decode_legacy(a, bytes, &o, d, e);
    if (strcmp(format, "trie") == 0) return decode_trie(a, bytes, &o, d, e);
    if (strcmp(format, "tree") == 0) return decode_tree(a, bytes, &o, d, e);
    if (strcmp(format, "cpuprofile") == 0) return decode_cpuprofile(a, bytes, &o, d, e);
    if (strcmp(format, "heapprofile") == 0) return decode_heapprofile(a, bytes, &o, d, e);
    if (strcmp(format, "chrome") == 0) return decode_chrome(a, bytes, &o, d, e);
    if (strcmp(format, "speedscope") == 0) return decode_speedscope(a, bytes, &o, d, e);
    if (strcmp(format, "pprof-repair") == 0) o.repair_zero_function_ids = true;
    if (strcmp(format, "pprof-4mb") == 0) o.inflated_max = 4 << 20;
    return decode_pprof(a, bytes, &o, d, NULL, e);
}

static void put_profile(struct buf *b, const struct profile *p)
{
    put_head(b, p);
    for (uint32_t i = 0; i < p->sample_count; i++)
        put_sample(b, p, i);
}

static bool put_otlp(struct buf *b, struct arena *a, str bytes, err *e)
{
    struct decode_options o = {0};
    struct otlp *d = NULL;
    struct buf plain;
    buf_init(&plain, NULL, (size_t)1 << 30);
    if (compress_is_gzip(bytes)) {
        if (!compress_gunzip(bytes, &plain, e)) return false;
        bytes = arena_str(a, buf_view(&plain));
    }
    buf_release(&plain);
    bool json = bytes.n && bytes.p[0] == '{';
    if (!(json ? otlp_open_json(a, bytes, &o, &d, e) : otlp_open(a, bytes, &o, &d, e))) {
        return false;
    }
    buf_printf(b, "{\"layout\":\"%s\",\"profiles\":%zu}\n", otlp_layout_name(otlp_layout_of(d)),
               otlp_count(d));
    enum otlp_step step = OTLP_PROFILE;
    while (step == OTLP_PROFILE) {
        struct arena scratch;
        struct otlp_profile p = {0};
        arena_init(&scratch, NULL, (size_t)1 << 30);
        step = otlp_next(d, &scratch, &p, e);
        if (step == OTLP_PROFILE) put_profile(b, &p.profile);
        arena_release(&scratch);
    }
    return step == OTLP_END;
}

static str read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    char *p = NULL;
    size_t n = 0;
    for (size_t got = 1; got > 0; n += got) {
        p = realloc(p, n + (1 << 20));
        if (!p) exit(2);
        got = fread(p + n, 1, 1 << 20, f);
    }
    fclose(f);
    return str_make(p, n);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: corpus_dump "
                        "pprof|pprof-repair|pprof-4mb|collapsed|perf|jfr|trie|tree|cpuprofile|\n"
                        "heapprofile|speedscope|otlp|legacy FILE\n");
        return 2;
    }
    str bytes = read_all(argv[2]);
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, (size_t)1 << 30);
    buf_init(&b, NULL, SIZE_MAX / 2);
    struct decoded d = {0};
    err e = {0};
    bool ok = strcmp(argv[1], "otlp") == 0 ? put_otlp(&b, &a, bytes, &e)
                                           : decode_file(&a, argv[1], bytes, &d, &e);
    for (size_t k = 0; k < d.count; k++)
        put_profile(&b, &d.profiles[k]);
    if (!ok) {
        buf_printf(&b, "{\"error\":\"%s\",\"message\":", err_name(e.code));
        json_put_string(&b, str_of(e.msg));
        buf_z(&b, "}\n");
    }
    if (b.n) fwrite(b.p, 1, b.n, stdout);  // a recording may have no profile
    buf_release(&b);
    arena_release(&a);
    char *p = NULL;
    memcpy(&p, &bytes.p, sizeof p);
    free(p);
    return 0;
}
