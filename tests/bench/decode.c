// SPDX-License-Identifier: Apache-2.0
//
// bench.decode FILE... - how fast pprof messages are read, on one core.
//
// A line per file and one for all: name, uncompressed bytes, bytes per second of decoding alone,
// and of all that the distributor does with a push until its records are ready to be sent: decode,
// validate, normalise, split, intern symbols, encode vectors and batches. Files may be gzip; they
// are inflated before the clock starts. One that is refused is left out and named on stderr.
#include "codec/squeeze.h"
#include "distributor/intake.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <stdio.h>

#define SPAN_NS   (NS_PER_S / 4)  // of one measurement
#define ARENA_MAX ((size_t)4 << 30)
#define BYTES_MAX ((size_t)1 << 30)

static const struct limits limits = {.max_label_names_per_series = 30};

struct work {
    str bytes;
    int64_t now_ns;
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
    struct stacks stacks;
    struct stacks_rows rows;
    err e = {0};
    arena_init(&a, NULL, ARENA_MAX);
    bool ok = decode_pprof(&a, w->bytes, &o, &d, NULL, &e) && symbols_init(&table, NULL, &e) &&
              stacks_init(&stacks, &a, d.profiles, 1, &e) &&
              stacks_rows_init(&rows, &stacks, &table, &e);
    for (uint32_t i = 0; ok && i < d.profiles->sample_count; i++)
        ok = stacks_row(&rows, stacks.node_of[i], &e) != MAP_NONE;
    symbols_release(&table);
    arena_release(&a);
    return ok;
}

static bool encode_all(struct arena *a, struct outbox *o)
{
    bool ok = true;
    outbox_seal(o);
    for (size_t i = 0; ok && i < o->parcel_count; i++) {
        struct buf out;
        err e = {0};
        buf_init(&out, NULL, BYTES_MAX);
        ok = batch_encode(&o->parcels[i]->batch, a, &out, &e);
        buf_release(&out);
    }
    return ok;
}

static bool whole_intake(const struct work *w)
{
    static const label ls[] = {{S("__name__"), S("process_cpu")}, {S("service_name"), S("bench")}};
    struct arena a;
    struct intake in;
    arena_init(&a, NULL, ARENA_MAX);
    intake_init(&in, &a, &limits, w->now_ns, 1);
    intake_pprof(&in, &(struct intake_item){w->bytes, S(""), ls, COUNT(ls)});
    bool ok = !in.failed && encode_all(&a, &in.out);
    arena_release(&a);
    return ok;
}

// Bytes per second, over as many runs as fit the span.
static double speed(bool (*run)(const struct work *), const struct work *w)
{
    uint64_t began = clock_mono_ns();
    uint64_t now = began;
    uint64_t runs = 0;
    while (now - began < SPAN_NS) {
        if (!run(w)) return 0;
        runs++;
        now = clock_mono_ns();
    }
    return (double)runs * (double)w->bytes.n * 1e9 / (double)(now - began);
}

static bool load(const char *path, struct buf *raw, struct buf *plain, str *bytes, err *e)
{
    if (!file_read(path, raw, e)) return false;
    *bytes = buf_view(raw);
    if (!squeeze_is_gzip(*bytes)) return true;
    if (!squeeze_gunzip(*bytes, plain, e)) return false;
    *bytes = buf_view(plain);
    return true;
}

int main(int argc, char **argv)
{
    double bytes = 0;
    double decode_s = 0;
    double intern_s = 0;
    double intake_s = 0;
    for (int i = 1; i < argc; i++) {
        struct work w = {.now_ns = clock_wall_ns()};
        struct buf raw;
        struct buf plain;
        err e = {0};
        buf_init(&raw, NULL, BYTES_MAX);
        buf_init(&plain, NULL, BYTES_MAX);
        double decode = 0;
        double intern = 0;
        double intake = 0;
        if (load(argv[i], &raw, &plain, &w.bytes, &e)) {
            decode = speed(only_decode, &w);
            intern = speed(decode_and_intern, &w);
            intake = speed(whole_intake, &w);
        }
        if (decode > 0 && intern > 0 && intake > 0) {
            const char *slash = strrchr(argv[i], '/');
            printf("%s\t%zu\t%.0f\t%.0f\t%.0f\n", slash ? slash + 1 : argv[i], w.bytes.n, decode,
                   intern, intake);
            bytes += (double)w.bytes.n;
            decode_s += (double)w.bytes.n / decode;
            intern_s += (double)w.bytes.n / intern;
            intake_s += (double)w.bytes.n / intake;
        } else {
            fprintf(stderr, "bench.decode: %s is refused: %s\n", argv[i], e.msg);
        }
        buf_release(&raw);
        buf_release(&plain);
    }
    if (bytes > 0)
        printf("all\t%.0f\t%.0f\t%.0f\t%.0f\n", bytes, bytes / decode_s, bytes / intern_s,
               bytes / intake_s);
    return bytes > 0 ? 0 : 1;
}
