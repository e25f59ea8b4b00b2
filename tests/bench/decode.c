// SPDX-License-Identifier: Apache-2.0
//
// bench.decode [--only decode|intern|whole|known RUNS] FILE... - how fast pprof messages are read,
// on one core.
// bench.decode --format NAME FILE... - any format, decoding alone: a line per
// file. NAME is one of the table `formats` below.
//
// A line per file and one for all: name, uncompressed bytes, bytes per second of decoding alone,
// and of all that the distributor does with a push until its records are ready to be sent: decode,
// validate, normalise, split, intern symbols, encode vectors and batches; at last the same with a
// lexicon, whose ingester was told the names and stacks of this profile before. Files may be gzip;
// they are inflated before the clock starts. One that is refused is left out and named on stderr. A
// fixed number of runs of one step is for tools that count instructions.
#include "codec/compress.h"
#include "decode/jfr.h"
#include "decode/legacy.h"
#include "decode/otlp.h"
#include "intake/lexicon.h"
#include "intake/pipeline.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <stdio.h>
#include <time.h>

#define SPAN_NS   (NS_PER_S / 4)  // of one measurement
#define ARENA_MAX ((size_t)4 << 30)
#define BYTES_MAX ((size_t)1 << 30)

static const struct limits limits = {.max_label_names_per_series = 30};

struct work {
    str bytes;
    int64_t now_ns;
    uint64_t runs;  // 0: as many as fit the span
};

static bool only_decode(const struct work *w)
{
    struct arena a;
    struct decode_options o = {0};
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, ARENA_MAX);
    bool ok = decode_pprof(&a, w->bytes, &o, &d, NULL, &e);
    arena_release(&a);
    return ok;
}

static bool decode_and_intern(const struct work *w)
{
    struct arena a;
    struct decode_options o = {0};
    struct decoded d = {0};
    struct symbols table = {0};
    struct stack_rows rows;
    err e = {0};
    arena_init(&a, NULL, ARENA_MAX);
    bool ok = decode_pprof(&a, w->bytes, &o, &d, NULL, &e) && symbols_init(&table, NULL, &e) &&
              stack_rows_init(&rows, &a, d.profiles, &table, NULL, &e);
    for (uint32_t i = 0; ok && i < d.profiles->sample_count; i++)
        ok = stack_rows_row(&rows, i, &e) != MAP_NONE;
    symbols_release(&table);
    arena_release(&a);
    return ok;
}

static bool encode_all(struct arena *a, struct send_buffer *o)
{
    bool ok = true;
    send_buffer_seal(o);
    for (size_t i = 0; ok && i < o->batch_count; i++) {
        struct buf out;
        err e = {0};
        buf_init(&out, NULL, BYTES_MAX);
        ok = batch_encode(&o->batches[i]->batch, a, &out, &e);
        buf_release(&out);
    }
    return ok;
}

static bool whole_pipeline(const struct work *w)
{
    static const label ls[] = {{S("__name__"), S("process_cpu")}, {S("service_name"), S("bench")}};
    struct arena a;
    struct pipeline in;
    arena_init(&a, NULL, ARENA_MAX);
    pipeline_init(&in, &a, &limits, w->now_ns, 1);
    pipeline_pprof(&in, &(struct pipeline_item){w->bytes, S(""), ls, COUNT(ls)});
    bool ok = !in.failed && encode_all(&a, &in.out);
    arena_release(&a);
    return ok;
}

// ---- with what was told before

#define LEXICON_MEMORY ((size_t)256 << 20)

static struct lexicons lexicons;

static struct lexicon_key key_of(str service)
{
    return (struct lexicon_key){S("bench"), service, S("ingester")};
}

static struct lexicon *lexicon_of(void *arg, str service, uint32_t owner)
{
    const struct lexicon_key k = key_of(service);
    (void)arg;
    (void)owner;
    return lexicons_take(&lexicons, &k);
}

static void is_full(void *arg, str service, uint32_t owner, struct lexicon *l)
{
    const struct lexicon_key k = key_of(service);
    (void)arg;
    (void)owner;
    lexicons_full(&lexicons, &k, l);
}

static bool tell(struct arena *a, struct send_buffer *o)
{
    bool ok = true;
    send_buffer_seal(o);
    for (size_t i = 0; ok && i < o->batch_count; i++) {
        struct send_batch *p = o->batches[i];
        struct buf out;
        err e = {0};
        buf_init(&out, NULL, BYTES_MAX);
        ok = send_batch_encode(p, a, &out, &e);
        if (ok && p->lexicon) lexicon_stored(p->lexicon, &p->sent);
        buf_release(&out);
    }
    return ok;
}

static bool known_pipeline(const struct work *w)
{
    static const label ls[] = {{S("__name__"), S("process_cpu")}, {S("service_name"), S("bench")}};
    struct arena a;
    struct pipeline in;
    arena_init(&a, NULL, ARENA_MAX);
    pipeline_init(&in, &a, &limits, w->now_ns, 1);
    in.out.lexicon = lexicon_of;
    in.out.full = is_full;
    pipeline_pprof(&in, &(struct pipeline_item){w->bytes, S(""), ls, COUNT(ls)});
    bool ok = !in.failed && tell(&a, &in.out);
    arena_release(&a);
    return ok;
}

// CPU time of this thread: what else runs on the machine does not count.
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

// Bytes per second of CPU, over as many runs as fit the span, or a fixed number of them.
static double speed(bool (*run)(const struct work *), const struct work *w)
{
    uint64_t began = cpu_ns();
    uint64_t now = began;
    uint64_t runs = 0;
    while (w->runs ? runs < w->runs : now - began < SPAN_NS) {
        if (!run(w)) return 0;
        runs++;
        now = cpu_ns();
    }
    return (double)runs * (double)w->bytes.n * 1e9 / (double)(now - began);
}

static bool load(const char *path, struct buf *raw, struct buf *plain, str *bytes, err *e)
{
    if (!file_read(path, raw, e)) return false;
    *bytes = buf_view(raw);
    if (!compress_is_gzip(*bytes)) return true;
    if (!compress_gunzip(*bytes, plain, e)) return false;
    *bytes = buf_view(plain);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(const struct work *);
} steps[] = {{"decode", only_decode},
             {"intern", decode_and_intern},
             {"whole", whole_pipeline},
             {"known", known_pipeline}};

struct tally {
    double bytes;
    double seconds[COUNT(steps)];
};

// One line; a step that was not asked for is 0.
static void measure(const char *path, const struct work *w, const char *only, struct tally *t)
{
    const char *slash = strrchr(path, '/');
    double rate[COUNT(steps)] = {0};
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (only && strcmp(only, steps[i].name) != 0) continue;
        rate[i] = speed(steps[i].run, w);
        if (rate[i] > 0) continue;
        fprintf(stderr, "bench.decode: %s is refused\n", path);
        return;
    }
    t->bytes += (double)w->bytes.n;
    printf("%s\t%zu", slash ? slash + 1 : path, w->bytes.n);
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (rate[i] > 0) t->seconds[i] += (double)w->bytes.n / rate[i];
        printf("\t%.0f", rate[i]);
    }
    printf("\n");
}

// ---- other formats than pprof

typedef bool decoder(struct arena *a, str bytes, const struct decode_options *o,
                     struct decoded *out, err *e);

static bool pprof(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e)
{
    return decode_pprof(a, bytes, o, out, NULL, e);
}

static bool folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e)
{
    return decode_folded(a, bytes, o, out, e);
}

static bool perf(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e)
{
    return decode_perf(a, bytes, o, out, e);
}

static bool jfr(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                err *e)
{
    struct jfr_recording r = {0};
    bool ok = decode_jfr(a, bytes, (str){0}, o, &r, NULL, e);
    *out = r.profiles;
    return ok;
}

// Part by part, as the distributor does.
static bool otlp(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e)
{
    struct otlp *d = NULL;
    struct arena scratch;
    enum otlp_step step = OTLP_PROFILE;
    bool json = bytes.n && bytes.p[0] == '{';
    if (!(json ? otlp_open_json(a, bytes, o, &d, e) : otlp_open(a, bytes, o, &d, e))) return false;
    arena_init(&scratch, NULL, ARENA_MAX);
    while (step == OTLP_PROFILE) {
        struct otlp_profile p = {0};
        step = otlp_next(d, &scratch, &p, e);
        out->count += step == OTLP_PROFILE;
        arena_release(&scratch);
    }
    return step == OTLP_END;
}

static const struct {
    const char *name;
    decoder *decode;
} formats[] = {{"pprof", pprof},
               {"trie", decode_trie},
               {"tree", decode_tree},
               {"speedscope", decode_speedscope},
               {"cpuprofile", decode_cpuprofile},
               {"heapprofile", decode_heapprofile},
               {"chrome", decode_chrome},
               {"folded", folded},
               {"lines", decode_lines},
               {"perf", perf},
               {"jfr", jfr},
               {"otlp", otlp},
               {"legacy", decode_legacy}};

static decoder *format_decoder;

static bool decode_format(const struct work *w)
{
    struct arena a;
    struct decode_options o = {0};
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, ARENA_MAX);
    bool ok = format_decoder(&a, w->bytes, &o, &d, &e);
    arena_release(&a);
    return ok;
}

static int measure_format(const char *name, char **files, int n)
{
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) format_decoder = formats[i].decode;
    }
    if (!format_decoder) return 2;
    for (int i = 0; i < n; i++) {
        struct work w = {0};
        struct buf raw;
        struct buf plain;
        err e = {0};
        buf_init(&raw, NULL, BYTES_MAX);
        buf_init(&plain, NULL, BYTES_MAX);
        if (load(files[i], &raw, &plain, &w.bytes, &e))
            printf("%s\t%s\t%zu\t%.0f\n", name, files[i], w.bytes.n, speed(decode_format, &w));
        else
            fprintf(stderr, "bench.decode: %s: %s\n", files[i], e.msg);
        buf_release(&raw);
        buf_release(&plain);
    }
    return 0;
}

int main(int argc, char **argv)
{
    process_tune_malloc();  // as in the program, whose memory does not go back at every request
    if (argc > 2 && strcmp(argv[1], "--format") == 0)
        return measure_format(argv[2], &argv[3], argc - 3);
    const char *only = NULL;
    uint64_t runs = 0;
    int first = 1;
    if (argc > 3 && strcmp(argv[1], "--only") == 0) {
        only = argv[2];
        if (!str_u64(str_of(argv[3]), &runs)) return 2;
        first = 4;
    }
    struct tally t = {0};
    lexicons_init(&lexicons, NULL, LEXICON_MEMORY);
    lexicons_note_member(&lexicons, S("ingester"), true);
    for (int i = first; i < argc; i++) {
        struct work w = {.now_ns = clock_wall_ns(), .runs = runs};
        struct buf raw;
        struct buf plain;
        err e = {0};
        buf_init(&raw, NULL, BYTES_MAX);
        buf_init(&plain, NULL, BYTES_MAX);
        if (load(argv[i], &raw, &plain, &w.bytes, &e)) {
            measure(argv[i], &w, only, &t);
        } else {
            fprintf(stderr, "bench.decode: %s: %s\n", argv[i], e.msg);
        }
        buf_release(&raw);
        buf_release(&plain);
    }
    lexicons_release(&lexicons);
    if (t.bytes == 0) return 1;
    printf("all\t%.0f", t.bytes);
    for (size_t i = 0; i < COUNT(steps); i++)
        printf("\t%.0f", t.seconds[i] > 0 ? t.bytes / t.seconds[i] : 0);
    printf("\n");
    return 0;
}
