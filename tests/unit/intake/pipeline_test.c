// SPDX-License-Identifier: Apache-2.0
//
// Bad input and its discard reason, with the proof that a good profile beside it is kept.
#include "codec/compress.h"
#include "intake/pipeline.h"
#include "lib/arena.h"
#include "lib/limits.h"
#include "lib/pprof.h"
#include "model/relabel.h"
#include "model/vector.h"
#include "sys/clock.h"

#include <stdio.h>

#define NOW (INT64_C(1700000000) * NS_PER_S)

static struct buf bytes;

static int set_up(void **state)
{
    buf_init(&bytes, NULL, SIZE_MAX / 2);
    return arena_set_up(state);
}

static int tear_down(void **state)
{
    buf_release(&bytes);
    return arena_tear_down(state);
}

// Strings 0..7, type cpu/nanoseconds, functions 1 and 2, locations 1 and 2, sample 1;2 = 7.
static void tables(struct buf *b)
{
    const char *strings[] = {"", "cpu", "nanoseconds", "main", "work", "k", "v", "alloc-size"};
    for (size_t i = 0; i < COUNT(strings); i++)
        pp_string(b, strings[i]);
    pp_function(b, 1, 3, 0);
    pp_function(b, 2, 4, 0);
    pp_place(b, 1, 1);
    pp_place(b, 2, 2);
}

static void good(struct buf *b)
{
    tables(b);
    pp_type(b, 1, 2);
    pp_sample(b, (uint64_t[]){2, 1}, 2, (int64_t[]){7}, 1);
}

static void empty(struct buf *b)
{
    (void)b;
}

static void garbage(struct buf *b)
{
    buf_z(b, "this is no profile");
}

static void cut(struct buf *b)
{
    good(b);
    b->n -= 2;
}

static void flipped(struct buf *b)
{
    good(b);
    b->p[1] = (char)(b->p[1] ^ 0x40);
}

static void function_0(struct buf *b)
{
    good(b);
    pp_function(b, 0, 1, 0);
}

static void string_out_of_range(struct buf *b)
{
    good(b);
    pp_function(b, 3, 99, 0);
}

static void mapping_out_of_range(struct buf *b)
{
    good(b);
    pp_mapping(b, 1, 99, 0);
}

static void wrong_count(struct buf *b)
{
    good(b);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){1, 2}, 2);
}

static void dash(struct buf *b)
{
    tables(b);
    pp_type(b, 7, 2);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){1}, 1);
}

static void old(struct buf *b)
{
    good(b);
    pb_put_u64(b, 9, NS_PER_S);
}

static void overflowing(struct buf *b)
{
    good(b);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){INT64_MAX}, 1);
}

static void many_samples(struct buf *b)
{
    good(b);
    for (int i = 0; i < 16000; i++)
        pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){1}, 1);
}

static void many_labels(struct buf *b)
{
    struct pp_label pairs[101];
    good(b);
    for (size_t i = 0; i < COUNT(pairs); i++)
        pairs[i] = (struct pp_label){5, 0, (int64_t)i};
    pp_labelled(b, (uint64_t[]){1}, 1, 1, pairs, COUNT(pairs));
}

static void large(struct buf *b)
{
    good(b);
    size_t m = pb_begin(b, 6);
    char *room = buf_reserve(b, 4194304);
    assert_non_null(room);
    memset(room, 'x', 4194304);
    b->n += 4194304;
    pb_end(b, m);
}

static void bomb(struct buf *b)
{
    struct buf raw;
    buf_init(&raw, NULL, SIZE_MAX / 2);
    large(&raw);
    assert_ok(compress_gzip(buf_view(&raw), 6, b, e));
    buf_release(&raw);
}

static void many_strings(struct buf *b)
{
    good(b);
    for (int i = 0; i < 3000000; i++)
        pp_string(b, "");
}

static void cut_gzip(struct buf *b)
{
    struct buf raw;
    buf_init(&raw, NULL, SIZE_MAX / 2);
    good(&raw);
    assert_ok(compress_gzip(buf_view(&raw), 6, b, e));
    b->n -= 5;
    buf_release(&raw);
}

static const struct {
    const char *name;
    void (*build)(struct buf *b);
    enum err_code code;
    enum discard_reason why;
    const char *part;
} bad[] = {
    {"no bytes", empty, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, "malformed pprof"},
    {"text", garbage, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, "malformed pprof"},
    {"truncated", cut, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, "malformed pprof"},
    {"flipped bit", flipped, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, ""},
    {"truncated gzip", cut_gzip, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, "gzip"},
    {"function id 0", function_0, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE,
     "function id is 0"},
    {"string index", string_out_of_range, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE,
     "function name string index out of range"},
    {"mapping's string index", mapping_out_of_range, ERR_INVALID_ARGUMENT,
     DISCARD_MALFORMED_PROFILE, "mapping file name string index out of range"},
    {"value count", wrong_count, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE,
     "sample value length mismatch"},
    {"dash", dash, ERR_INVALID_ARGUMENT, DISCARD_MALFORMED_PROFILE, "sample type contains -"},
    {"out of window", old, ERR_INVALID_ARGUMENT, DISCARD_NOT_IN_INGESTION_WINDOW,
     "profile with labels '{__name__=\"process_cpu\", service_name=\"bad\"}' is outside"},
    {"overflow", overflowing, ERR_OUT_OF_RANGE, DISCARD_MALFORMED_PROFILE, "does not fit 64 bits"},
    {"samples", many_samples, ERR_INVALID_ARGUMENT, DISCARD_SAMPLES_LIMIT,
     "actual: 16001, limit: 16000"},
    {"sample labels", many_labels, ERR_INVALID_ARGUMENT, DISCARD_SAMPLE_LABELS_LIMIT,
     "actual: 101, limit: 100"},
    {"size", large, ERR_INVALID_ARGUMENT, DISCARD_PROFILE_SIZE_LIMIT,
     "uncompressed profile payload size exceeds limit of 4.2 MB"},
    {"gzip bomb", bomb, ERR_INVALID_ARGUMENT, DISCARD_PROFILE_SIZE_LIMIT, "4.2 MB"},
    {"string table", many_strings, ERR_INVALID_ARGUMENT, DISCARD_PROFILE_SIZE_LIMIT, "4.2 MB"},
};

static void push(struct pipeline *in, str profile, const char *service)
{
    label ls[] = {{S("service_name"), str_of(service)}, {S("__name__"), S("process_cpu")}};
    struct pipeline_item item = {.bytes = profile, .labels = ls, .label_count = 2};
    pipeline_pprof(in, &item);
}

// The only record left is that of the good profile.
static void only_good_is_kept(struct pipeline *in)
{
    assert_false(in->exhausted);
    send_buffer_seal(&in->out);
    assert_int_equal(in->stored, 1);
    assert_int_equal(in->out.batch_count, 1);
    const struct batch *b = &in->out.batches[0]->batch;
    assert_int_equal(b->record_count, 1);
    assert_true(str_is(b->service, "good"));
    assert_int_equal(b->records[0].total, 7);
}

static void bad_profiles_are_told_and_leave_the_others_alone(void **state)
{
    (void)state;
    struct buf fine;
    buf_init(&fine, NULL, SIZE_MAX / 2);
    good(&fine);
    for (size_t i = 0; i < COUNT(bad); i++) {
        buf_clear(&bytes);
        bad[i].build(&bytes);
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, 1);
        push(&in, buf_view(&bytes), "bad");
        push(&in, buf_view(&fine), "good");
        bool right = in.failed && in.first.code == bad[i].code &&
                     strstr(in.first.msg, bad[i].part) && in.discards.profiles[bad[i].why] == 1;
        if (!right) fail_msg("%s: %s %s", bad[i].name, err_name(in.first.code), in.first.msg);
        only_good_is_kept(&in);
        arena_release(&arena);
    }
    buf_release(&fine);
}

static void many_names(struct buf *b)
{
    good(b);  // and the labels of push_many
}

// Losses of profiles that are taken nevertheless.
static const struct {
    const char *name;
    void (*build)(struct buf *b);
    enum loss why;
    uint64_t n;
    int64_t total;
} mended[] = {
    // good() and 16,000 equal samples: no stack is lost.
    {"equal samples", many_samples, LOSS_SAMPLES_LIMIT, 0, 7 + 16000},
    {"sample labels", many_labels, LOSS_LABELS_LIMIT, 0, 7 + 1},
    {"labels of the series", many_names, LOSS_LABELS_LIMIT, 12, 7},
};

static void push_many(struct pipeline *in, str profile, size_t n)
{
    label ls[64] = {{S("service_name"), S("bad")}, {S("__name__"), S("process_cpu")}};
    char texts[64][8];
    for (size_t i = 2; i < n; i++) {
        snprintf(texts[i], sizeof texts[i], "k%zu", i);
        ls[i] = (label){str_of(texts[i]), S("1")};
    }
    pipeline_pprof(in, &(struct pipeline_item){.bytes = profile, .labels = ls, .label_count = n});
}

static void faulty_profiles_are_mended_unless_they_are_to_be_refused(void **state)
{
    (void)state;
    struct limits l = stock_limits;
    l.refuses_faulty = false;
    for (size_t i = 0; i < COUNT(mended); i++) {
        buf_clear(&bytes);
        mended[i].build(&bytes);
        struct pipeline in;
        pipeline_init(&in, &arena, &l, NOW, 1);
        push_many(&in, buf_view(&bytes), mended[i].build == many_names ? 43 : 2);
        send_buffer_seal(&in.out);
        if (in.failed || in.stored != 1) fail_msg("%s: %s", mended[i].name, in.first.msg);
        int64_t total = 0;
        for (size_t r = 0; r < in.out.batches[0]->batch.record_count; r++)
            total += (int64_t)in.out.batches[0]->batch.records[r].total;
        assert_int_equal(total, mended[i].total);
        assert_int_equal(in.losses.count[mended[i].why], mended[i].n);
        assert_int_equal(losses_any(&in.losses), mended[i].n > 0);
        assert_true(mended[i].n == 0 || str_is(in.losses_service, "bad"));
        arena_release(&arena);
    }
}

static void losses_of_refused_profiles_are_not_told(void **state)
{
    (void)state;
    old(&bytes);
    struct limits l = stock_limits;
    l.refuses_faulty = false;
    struct pipeline in;
    pipeline_init(&in, &arena, &l, NOW, 1);
    push_many(&in, buf_view(&bytes), 43);
    assert_int_equal(in.refused, 1);
    assert_false(losses_any(&in.losses));
}

static const struct {
    const char *name;
    label labels[3];
    size_t n;
    enum discard_reason why;
    const char *part;
} bad_labels[] = {
    {"none",
     {{{0}, {0}}},
     0,
     DISCARD_INVALID_LABELS,
     "invalid labels '{service_name=\"unknown_service\"}' with error: invalid metric name"},
    {"no metric name",
     {{S_INIT("foo"), S_INIT("bar")}},
     1,
     DISCARD_INVALID_LABELS,
     "invalid labels '{foo=\"bar\", service_name=\"unknown_service\"}' with error"},
    {"twice with two values",
     {{S_INIT("__name__"), S_INIT("c")}, {S_INIT("k"), S_INIT("1")}, {S_INIT("k"), S_INIT("2")}},
     3,
     DISCARD_DUPLICATE_LABEL_NAMES,
     "has duplicate label name: 'k'"},
};

static void bad_labels_are_told(void **state)
{
    (void)state;
    good(&bytes);
    for (size_t i = 0; i < COUNT(bad_labels); i++) {
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, 1);
        struct pipeline_item item = {.bytes = buf_view(&bytes),
                                     .labels = bad_labels[i].labels,
                                     .label_count = bad_labels[i].n};
        pipeline_pprof(&in, &item);
        push(&in, buf_view(&bytes), "good");
        if (!strstr(in.first.msg, bad_labels[i].part)) {
            fail_msg("%s: %s", bad_labels[i].name, in.first.msg);
        }
        assert_int_equal(in.discards.profiles[bad_labels[i].why], 1);
        only_good_is_kept(&in);
    }
}

static const struct record *only_record(struct pipeline *in, struct batch **b)
{
    send_buffer_seal(&in->out);
    assert_int_equal(in->out.batch_count, 1);
    *b = &in->out.batches[0]->batch;
    assert_int_equal((*b)->record_count, 1);
    return &(*b)->records[0];
}

static void services_without_name_are_unknown(void **state)
{
    (void)state;
    good(&bytes);
    const char *names[] = {"service_name", "other"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, 1);
        label ls[] = {{S("__name__"), S("process_cpu")}, {str_of(names[i]), S("")}};
        struct pipeline_item item = {.bytes = buf_view(&bytes), .labels = ls, .label_count = 2};
        pipeline_pprof(&in, &item);
        struct batch *b = NULL;
        const struct record *r = only_record(&in, &b);
        assert_true(str_is(b->service, "unknown_service"));
        assert_int_equal(r->time_ns, NOW);
        assert_int_equal(uuid_ms(r->id), NOW / NS_PER_MS);
    }
}

static void a_label_sent_twice_with_one_value_is_one_label(void **state)
{
    (void)state;
    good(&bytes);
    label ls[] = {{S("k"), S("1")},
                  {S("service_name"), S("s")},
                  {S("__name__"), S("process_cpu")},
                  {S("service_name"), S("s")},
                  {S("k"), S("1")},
                  {S("k"), S("1")}};
    struct limits tight = stock_limits;
    tight.max_label_names_per_series = 3;  // the copies do not count
    struct pipeline in;
    pipeline_init(&in, &arena, &tight, NOW, 1);
    struct pipeline_item item = {.bytes = buf_view(&bytes), .labels = ls, .label_count = COUNT(ls)};
    pipeline_pprof(&in, &item);
    if (in.failed) fail_msg("%s", in.first.msg);
    struct batch *b = NULL;
    (void)only_record(&in, &b);
    assert_true(str_is(b->service, "s"));
}

static void times_before_1970_are_refused_and_absurd_durations_are_unknown(void **state)
{
    (void)state;
    static const struct {
        int64_t time_ns;
        int64_t duration_ns;
        int64_t stored_ns;  // of the time; 0: refused
        int64_t stored_duration_ns;
    } cases[] = {
        {0, 5, NOW, 5},
        {NOW - 7, 5, NOW - 7, 5},
        {-1, 5, 0, 0},
        {INT64_MIN, 5, 0, 0},
        {NOW, -1, NOW, 0},
        {NOW, INT64_MIN, NOW, 0},
        {NOW, INT64_MAX, NOW, 0},
        {NOW, INT64_MAX - NOW, NOW, INT64_MAX - NOW},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        buf_clear(&bytes);
        good(&bytes);
        pb_put_u64(&bytes, 9, (uint64_t)cases[i].time_ns);
        pb_put_u64(&bytes, 10, (uint64_t)cases[i].duration_ns);
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, 1);
        push(&in, buf_view(&bytes), "x");
        if (cases[i].stored_ns) {
            if (in.failed) fail_msg("%zu: %s", i, in.first.msg);
            struct batch *b = NULL;
            const struct record *r = only_record(&in, &b);
            assert_int_equal(r->time_ns, cases[i].stored_ns);
            assert_int_equal(r->duration_ns, cases[i].stored_duration_ns);
            continue;
        }
        assert_true(in.failed);
        assert_int_equal(in.first.code, ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(in.first.msg, "(time_nanos), which is before 1970"));
        assert_int_equal(in.discards.profiles[DISCARD_MALFORMED_PROFILE], 1);
    }
}

static void a_stack_of_a_million_is_cut(void **state)
{
    (void)state;
    tables(&bytes);
    pp_type(&bytes, 1, 2);
    size_t m = pb_begin(&bytes, 2);
    size_t inner = pb_begin(&bytes, 1);
    for (int i = 0; i < 1000000; i++)
        pb_put_varint(&bytes, 1 + (uint64_t)i % 2);
    pb_end(&bytes, inner);
    pb_put_u64(&bytes, 2, 3);
    pb_end(&bytes, m);
    struct pipeline in;
    pipeline_init(&in, &arena, &stock_limits, NOW, 1);
    push(&in, buf_view(&bytes), "x");
    assert_false(in.failed);
    struct batch *b = NULL;
    assert_int_equal(only_record(&in, &b)->total, 3);
    assert_int_equal(b->symbols.stack_count, 1002);  // with the root and the mark
    assert_int_equal(in.losses.count[LOSS_STACK_DEPTH], 1);
}

static void nothing_left_is_no_failure(void **state)
{
    (void)state;
    tables(&bytes);
    pp_type(&bytes, 1, 2);
    pp_sample(&bytes, (uint64_t[]){1}, 1, (int64_t[]){0}, 1);
    pp_sample(&bytes, (uint64_t[]){99}, 1, (int64_t[]){0}, 1);
    struct pipeline in;
    pipeline_init(&in, &arena, &stock_limits, NOW, 1);
    push(&in, buf_view(&bytes), "x");
    assert_false(in.failed);
    assert_int_equal(in.received, 1);
    assert_int_equal(in.out.batch_count, 0);
}

static void ids_tell_repeated_uploads(void **state)
{
    (void)state;
    good(&bytes);
    label ls[] = {{S("__name__"), S("c")}, {S("service_name"), S("s")}};
    struct pipeline_item with = {buf_view(&bytes), S("client-id"), ls, 2};
    struct pipeline_item without = {buf_view(&bytes), {0}, ls, 2};
    id128 ids[6];
    uint64_t nonces[] = {1, 2};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(nonces); i++) {
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, nonces[i]);
        pipeline_pprof(&in, &with);
        pipeline_pprof(&in, &without);
        pipeline_pprof(&in, &without);
        send_buffer_seal(&in.out);
        const struct batch *b = &in.out.batches[0]->batch;
        assert_int_equal(b->record_count, 3);
        for (size_t k = 0; k < 3; k++)
            ids[n++] = b->records[k].id;
    }
    assert_true(id128_eq(ids[0], ids[3]));  // the same upload with an id: recognised
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++)
            assert_true(id128_eq(ids[i], ids[k]) == (i == 0 && k == 3));
    }
}

static void two_types(struct buf *b)
{
    buf_clear(b);
    tables(b);
    pp_type(b, 1, 2);
    pp_type(b, 2, 1);
    pp_sample(b, (uint64_t[]){2, 1}, 2, (int64_t[]){7, 8}, 2);
}

static void differ(id128 a, id128 b, uint8_t out[10])
{
    for (size_t i = 0; i < 10; i++)
        out[i] = a.b[6 + i] ^ b.b[6 + i];
}

// Blocks keep what the ids of two sample types differ by once, so it may not depend on the profile.
static void ids_of_sample_types_differ_by_the_types_alone(void **state)
{
    (void)state;
    uint8_t bits[4][10] = {0};
    for (size_t i = 0; i < 4; i++) {
        two_types(&bytes);
        label ls[] = {{S("__name__"), S("c")},
                      {S("pod"), i % 2 ? S("a") : S("b")},
                      {S("service_name"), S("s")}};
        struct pipeline_item item = {buf_view(&bytes), i / 2 ? S("client-id") : (str){0}, ls, 3};
        struct pipeline in;
        pipeline_init(&in, &arena, &stock_limits, NOW, i);
        pipeline_pprof(&in, &item);
        send_buffer_seal(&in.out);
        const struct batch *b = &in.out.batches[0]->batch;
        assert_int_equal(b->record_count, 2);
        assert_false(id128_eq(b->records[0].id, b->records[1].id));
        differ(b->records[0].id, b->records[1].id, bits[i]);
        assert_memory_equal(bits[i], bits[0], sizeof bits[0]);
    }
}

static bool refuse_all(void *arg, uint64_t size)
{
    *(uint64_t *)arg = size;
    return false;
}

static void rate_is_asked_before_validation(void **state)
{
    (void)state;
    old(&bytes);
    struct limits l = stock_limits;
    l.ingestion_rate_mb = 4;
    struct pipeline in;
    pipeline_init(&in, &arena, &l, NOW, 1);
    uint64_t asked = 0;
    struct admission admission = {.a = &arena,
                                  .limits = &l,
                                  .take_rate = refuse_all,
                                  .arg = &asked};
    in.admission = &admission;
    push(&in, buf_view(&bytes), "bad");
    assert_int_equal(asked, bytes.n + strlen("service_namebad__name__process_cpu"));
    assert_int_equal(in.first.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(in.discards.profiles[DISCARD_RATE_LIMITED], 1);
    assert_non_null(strstr(in.first.msg, "push rate limit (4.0 MiB) exceeded while adding "));
    assert_false(in.exhausted);
}

static double never(void *arg)
{
    (void)arg;
    return 0.5;
}

// Two stacks: 7 and 3.
static void two_samples(struct buf *b)
{
    good(b);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){3}, 1);
}

static void of_a_profile_that_sampling_drops_the_total_may_stay(void **state)
{
    (void)state;
    static const struct sampling_rule rule = {S_INIT("all"), 0.25};
    static const struct selector every = {0};
    static const struct usage_group group = {.name = S_INIT("all"), .selector = &every};
    two_samples(&bytes);
    for (int keep = 0; keep < 2; keep++) {
        struct limits l = stock_limits;
        l.usage_groups = (struct usage_groups){&group, 1};
        l.sampling = (struct sampling){&rule, 1};
        l.keep_stripped_profiles = keep;
        struct admission admission = {.a = &arena, .limits = &l, .chance = never};
        struct pipeline in;
        pipeline_init(&in, &arena, &l, NOW, 1);
        in.admission = &admission;
        push(&in, buf_view(&bytes), "x");
        assert_false(in.failed);
        assert_int_equal(in.stored, keep);
        assert_int_equal(in.discards.profiles[DISCARD_DROPPED_BY_SAMPLING], !keep);
        assert_int_equal(in.out.batch_count, keep);
        if (!keep) continue;
        send_buffer_seal(&in.out);
        const struct batch *b = &in.out.batches[0]->batch;
        assert_int_equal(b->record_count, 1);
        assert_int_equal(b->records[0].total, 10);
        assert_int_equal(b->symbols.frame_count, 1);  // row 0 says none
        assert_true(str_is(labels_get(b->series[0], S(LABEL_SAMPLED)), "true"));
        assert_int_equal(b->records[0].annotation_count, 1);
        assert_true(
            str_is(b->records[0].annotations[0].value,
                   "{\"body\":{\"source\":{\"usageGroup\":\"all\",\"probability\":0.25}}}"));
    }
}

static void body_limit_counts_uncompressed_bytes(void **state)
{
    (void)state;
    good(&bytes);
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_gzip(buf_view(&bytes), 6, &z, e));
    struct limits l = stock_limits;
    l.ingestion_body_limit_mb = 2.0 * (double)bytes.n / (1 << 20);
    struct pipeline in;
    pipeline_init(&in, &arena, &l, NOW, 1);
    for (int i = 0; i < 2; i++) {
        push(&in, buf_view(&z), "x");
        assert_ok(pipeline_body_fits(&in, e));
    }
    push(&in, buf_view(&z), "x");
    err e = {0};
    assert_false(pipeline_body_fits(&in, &e));
    assert_non_null(strstr(e.msg, "uncompressed batched profile payload size exceeds limit of "));
    assert_int_equal(in.discards.profiles[DISCARD_BODY_SIZE_LIMIT], 3);
    assert_int_equal(in.discards.bytes[DISCARD_BODY_SIZE_LIMIT], 3 * bytes.n);
    buf_release(&z);
}

static void of_a_request_that_is_too_large_no_other_fault_is_told(void **state)
{
    (void)state;
    good(&bytes);
    struct limits l = stock_limits;
    l.ingestion_body_limit_mb = (double)bytes.n / (1 << 20);
    struct pipeline in;
    pipeline_init(&in, &arena, &l, NOW, 1);
    push(&in, S("no profile"), "x");
    assert_int_equal(in.first_why, DISCARD_MALFORMED_PROFILE);
    push(&in, buf_view(&bytes), "x");
    err e = {0};
    assert_false(pipeline_body_fits(&in, &e));
    assert_int_equal(in.first_why, DISCARD_BODY_SIZE_LIMIT);
    err answer = {0};
    pipeline_answer(&in, &answer);
    assert_non_null(strstr(answer.msg, "payload size exceeds limit of "));
    for (int i = 0; i < DISCARD_REASON_COUNT; i++)
        assert_int_equal(in.discards.profiles[i], i == DISCARD_BODY_SIZE_LIMIT ? 2 : 0);
}

// A rule joins labels of the client, which are not validated yet, so they may be too long for it.
static void a_profile_for_whose_types_a_rule_makes_too_much_text_is_refused(void **state)
{
    (void)state;
    str sources[] = {S("long"), S("__type__")};
    struct relabel_config config = {.source_labels = sources,
                                    .source_count = COUNT(sources),
                                    .action = S("drop"),
                                    .regex = S("no")};
    struct relabel_rules rules;
    size_t at = 0;
    assert_ok(relabel_compile(&arena, &config, 1, &rules, &at, e));
    struct limits l = stock_limits;
    l.relabel_types = &rules;
    l.max_label_value_length = 0;  // no limit: only the rule cannot take the label
    char *text = mem_must(RELABEL_TEXT_MAX);
    memset(text, 'x', RELABEL_TEXT_MAX);
    label ls[] = {{S("service_name"), S("bad")},
                  {S("__name__"), S("process_cpu")},
                  {S("long"), str_make(text, RELABEL_TEXT_MAX)}};
    good(&bytes);
    struct pipeline_item item = {.bytes = buf_view(&bytes), .labels = ls, .label_count = COUNT(ls)};
    struct pipeline in;
    pipeline_init(&in, &arena, &l, NOW, 1);
    pipeline_pprof(&in, &item);
    assert_true(in.failed);
    assert_int_equal(in.first.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(in.first.msg, "a relabelling rule makes"));
    assert_int_equal(in.discards.profiles[DISCARD_LABEL_VALUE_TOO_LONG], 1);
    push(&in, buf_view(&bytes), "good");
    only_good_is_kept(&in);
    mem_must_free(text);
}

static bool take_one(void *arg, err *e)
{
    struct mem_budget budget;
    mem_budget_init(&budget, "test", NULL, 0);
    struct arena a;
    arena_init(&a, &budget, 1 << 20);
    struct pipeline in;
    pipeline_init(&in, &a, &stock_limits, NOW, 1);
    push(&in, *(str *)arg, "x");
    bool ok = !in.failed;
    if (!ok) *e = in.first;
    if (ok) send_buffer_seal(&in.out);
    arena_release(&a);
    assert_int_equal(budget.used, 0);
    return ok;
}

static void pipeline_fails_cleanly_without_memory(void **state)
{
    (void)state;
    good(&bytes);
    pp_labelled(&bytes, (uint64_t[]){1}, 1, 1, &(struct pp_label){5, 6, 0}, 1);
    str s = buf_view(&bytes);
    assert_true(torture(take_one, &s) > 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(bad_profiles_are_told_and_leave_the_others_alone),
        T(faulty_profiles_are_mended_unless_they_are_to_be_refused),
        T(losses_of_refused_profiles_are_not_told),
        T(bad_labels_are_told),
        T(services_without_name_are_unknown),
        T(a_label_sent_twice_with_one_value_is_one_label),
        T(times_before_1970_are_refused_and_absurd_durations_are_unknown),
        T(a_stack_of_a_million_is_cut),
        T(nothing_left_is_no_failure),
        T(ids_tell_repeated_uploads),
        T(ids_of_sample_types_differ_by_the_types_alone),
        T(rate_is_asked_before_validation),
        T(of_a_profile_that_sampling_drops_the_total_may_stay),
        T(body_limit_counts_uncompressed_bytes),
        T(of_a_request_that_is_too_large_no_other_fault_is_told),
        T(a_profile_for_whose_types_a_rule_makes_too_much_text_is_refused),
        T(pipeline_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
