// SPDX-License-Identifier: Apache-2.0
//
// OTLP requests: the layouts and what tells them apart, labels, services, types, links, faults,
// JSON, and input that was made to take much memory.
#include "codec/pb.h"
#include "decode/otlp.h"
#include "lib/otlp.h"
#include "lib/test.h"

#define CPU          .type = "samples", .unit = "count", .period_type = "cpu", .period_unit = "nanoseconds"
#define COUNTED(...) (const uint64_t[]){__VA_ARGS__}, COUNT(((const uint64_t[]){__VA_ARGS__}))
#define TRACE        "0123456789abcdef"
#define SPAN         "spanspan"

static const struct decode_options options;

static void print_profile(const struct otlp_profile *o, struct buf *out)
{
    const struct profile *p = &o->profile;
    buf_printf(out, "%.*s %.*s/%.*s", STR(labels_get(o->labels, S(LABEL_NAME))),
               STR(p->types->type), STR(p->types->unit));
    for (size_t i = 0; i < o->labels.n; i++) {
        label l = o->labels.v[i];
        if (!str_starts(l.name, S("__"))) buf_printf(out, " %.*s=%.*s", STR(l.name), STR(l.value));
    }
    buf_byte(out, '\n');
    for (uint32_t s = 0; s < p->sample_count; s++) {
        const struct profile_sample *x = &p->samples[s];
        for (uint32_t k = x->location_count; k-- > 0;) {
            const struct profile_location *l =
                &p->locations[p->stack_locations[x->first_location + k]];
            if (l->line_count == 0) {
                buf_printf(out, "0x%llx", (unsigned long long)l->address);
                const struct profile_mapping *m = &p->mappings[l->mapping];
                buf_printf(out, "@%.*s(%.*s)", STR(m->filename), STR(m->build_id));
            }
            for (uint32_t n = l->line_count; n-- > 0;) {
                const struct profile_line *line = &p->lines[l->first_line + n];
                buf_printf(out, "%.*s:%lld", STR(p->functions[line->function].name),
                           (long long)line->line);
            }
            buf_z(out, k ? ";" : "");
        }
        for (uint32_t k = 0; k < x->label_count; k++) {
            const struct profile_label *l = &p->labels[x->first_label + k];
            buf_printf(out, " {%.*s=%.*s}", STR(l->key), STR(l->text));
        }
        buf_printf(out, " = %lld\n", (long long)p->values[s]);
    }
}

// Reads all; counts parts. False if the request or one of its profiles is refused.
static bool read_all(str bytes, bool json, enum otlp_layout *layout, struct buf *out, err *e)
{
    struct arena a;
    struct arena scratch;
    struct otlp *d = NULL;
    arena_init(&a, NULL, 64 << 20);
    arena_init(&scratch, NULL, 64 << 20);
    bool ok =
        json ? otlp_open_json(&a, bytes, &options, &d, e) : otlp_open(&a, bytes, &options, &d, e);
    enum otlp_step step = ok ? OTLP_PROFILE : OTLP_REFUSED;
    while (step == OTLP_PROFILE) {
        struct otlp_profile p = {0};
        step = otlp_next(d, &scratch, &p, e);
        if (step == OTLP_PROFILE && out) print_profile(&p, out);
        arena_release(&scratch);
    }
    if (ok && layout) *layout = otlp_layout_of(d);
    arena_release(&a);
    return step == OTLP_END;
}

static void expect(str bytes, bool json, enum otlp_layout layout, const char *want)
{
    struct buf got;
    err e = {0};
    enum otlp_layout found = OTLP_LAYOUTS;
    buf_init(&got, NULL, 1 << 20);
    str guarded = str_make(tail_guard(bytes.p, bytes.n), bytes.n);
    if (!read_all(guarded, json, &found, &got, &e)) fail_msg("%s", e.msg);
    if (!str_is(buf_view(&got), want)) fail_msg("got %.*s", STR(buf_view(&got)));
    assert_string_equal(otlp_layout_name(found), otlp_layout_name(layout));
    buf_release(&got);
}

static void expect_fault(str bytes, bool json, const char *fault)
{
    err e = {0};
    if (read_all(bytes, json, NULL, NULL, &e)) fail_msg("wanted %s", fault);
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    if (!strstr(e.msg, fault)) fail_msg("wanted \"%s\", got \"%s\"", fault, e.msg);
}

// Rows that most tests use: two functions, a frame without a name, stacks 1 (main;work) and 2
// (main;0x1234).
static void put_rows(struct ow *w)
{
    uint64_t id = ow_attribute(w, "process.executable.build_id.gnu", "abcd");
    uint64_t mapping = ow_mapping(w, "/bin/app", id);
    uint64_t functions[] = {ow_function(w, "main", "main.c"), ow_function(w, "work", "work.c")};
    uint64_t root = ow_location(w, mapping, 0x1111, functions[0], 3);
    uint64_t leaf = ow_location(w, mapping, 0x2222, functions[1], 7);
    uint64_t bare = ow_location(w, mapping, 0x1234, 0, 0);
    ow_stack(w, COUNTED(leaf, root));
    ow_stack(w, COUNTED(bare, root));
}

#define WHOLE                                                                                \
    "process_cpu cpu/nanoseconds service.name=shop service_name=shop\n"                      \
    "main:3;work:7 {thread.name=t} {span_id=7370616e7370616e} "                              \
    "{trace_id=30313233343536373839616263646566} = 30\n"                                     \
    "main:3;0x1234@/bin/app(abcd) = 50\n"                                                    \
    "off_cpu off_cpu/nanoseconds service.name=shop service_name=shop\n"                      \
    "main:3;work:7 = 70\n"                                                                   \
    "process_cpu cpu/nanoseconds process.executable.name=x service_name=unknown_service:x\n" \
    "main:3;work:7 = 20\n"

static void put_whole(struct ow *w)
{
    put_rows(w);
    uint64_t thread = ow_attribute(w, "thread.name", "t");
    uint64_t link = ow_link(w, TRACE, SPAN);
    ow_sample(w, &(struct ow_sample){1, link, COUNTED(thread), COUNTED(3), 0});
    ow_sample(w, &(struct ow_sample){2, 0, NULL, 0, NULL, 0, 5});
    ow_profile(w, &(struct ow_profile){CPU, .period = 10, .time_ns = 77});
    ow_sample(w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(30, 40), 2});
    ow_profile(w, &(struct ow_profile){.type = "off_cpu", .unit = "nanoseconds"});
    ow_label(w, "service.name", "shop");
    ow_resource(w);
    ow_sample(w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(2), 0});
    ow_profile(w, &(struct ow_profile){CPU, .period = 10});
    ow_label(w, "process.executable.name", "x");
    ow_resource(w);
}

static void each_layout_is_found(void **state)
{
    (void)state;
    for (int layout = 0; layout < OTLP_LAYOUTS; layout++) {
        for (int unpacked = 0; unpacked < 2; unpacked++) {
            struct ow w;
            ow_init(&w, (enum otlp_layout)layout);
            w.unpacked = unpacked;
            put_whole(&w);
            expect(ow_end(&w), false, (enum otlp_layout)layout, WHOLE);
            ow_release(&w);
        }
    }
}

// The rule for messages that fit two layouts: the newer one. Here the value of 1.9 is the attribute
// of 1.10, and the sample's value the number of its timestamps.
static void the_newer_of_two_layouts_counts(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_8);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 1});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service_name=unknown_service\n"
           "main:3;work:7 {process.executable.build_id.gnu=abcd} = 10\n");
    // One sample that does not fit decides for the whole message.
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(2), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_8,
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 10\n"
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 20\n");
    ow_release(&w);
}

// Without samples there is nothing to tell layouts by, nor anything to lose.
static void requests_without_samples_are_empty(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10, .time_ns = 5});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10, "");
    ow_release(&w);
    expect(S("\x0a\x00\x12\x00"), false, OTLP_1_10, "");
}

static void a_message_of_no_layout_names_those_that_are_known(void **state)
{
    (void)state;
    static const struct ow_sample bad[] = {{.stack = 9}, {.stack = 1}};
    static const char *const faults[] = {"sample value is required", "sample value is required"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ow w;
        ow_init(&w, OTLP_1_10);
        put_rows(&w);
        ow_sample(&w, &bad[i]);
        ow_profile(&w, &(struct ow_profile){CPU});
        ow_resource(&w);
        str bytes = ow_end(&w);
        expect_fault(bytes, false, faults[i]);
        expect_fault(bytes, false, "not 1.10 and later (");
        expect_fault(bytes, false, "not 1.8 and 1.9 (");
        expect_fault(bytes, false, "not 1.7 (");
        ow_release(&w);
    }
    expect_fault(S(""), false, "missing profile metadata dictionary");
    // The tables of 1.4 and 1.5 are in the profiles, so there is no dictionary.
    expect_fault(S("\x0a\x02\x12\x00"), false, "1.10 and later, 1.8 and 1.9, 1.7");
    expect_fault(S("\x12\x02\x2a\x00"), false, "missing resource profiles");
    expect_fault(S("\x0a\xff"), false, "a length");
}

// A stack, an attribute and a link that are not in the message.
static void what_dangles_keeps_its_value(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(2), 0});
    ow_sample(&w, &(struct ow_sample){9, 0, COUNTED(99), COUNTED(3), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 20\n = 30\n");
    ow_release(&w);
}

// Samples with the same attributes, one behind the other.
static void each_sample_has_its_own_span(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    uint64_t one = ow_link(&w, TRACE, SPAN);
    uint64_t other = ow_link(&w, TRACE, "spanspam");
    ow_sample(&w, &(struct ow_sample){1, one, NULL, 0, COUNTED(3), 0});
    ow_sample(&w, &(struct ow_sample){1, other, NULL, 0, COUNTED(4), 0});
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(5), 0});
    ow_sample(&w, &(struct ow_sample){1, one, NULL, 0, COUNTED(6), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service_name=unknown_service\n"
           "main:3;work:7 {span_id=7370616e7370616e} {trace_id=30313233343536373839616263646566} = "
           "30\n"
           "main:3;work:7 {span_id=7370616e7370616d} {trace_id=30313233343536373839616263646566} = "
           "40\n"
           "main:3;work:7 = 50\n"
           "main:3;work:7 {span_id=7370616e7370616e} {trace_id=30313233343536373839616263646566} = "
           "60\n");
    ow_release(&w);
}

static void a_sample_may_name_its_service(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    uint64_t two = ow_attribute(&w, "service.name", "two");
    uint64_t three = ow_attribute(&w, "service.name", "three");
    uint64_t same = ow_attribute(&w, "service.name", "two");
    ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(three), COUNTED(1), 0});
    ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(two), COUNTED(2), 0});
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
    ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(same), COUNTED(4), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_label(&w, "service.name", "one");
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service.name=one service_name=one\nmain:3;work:7 = 3\n"
           "process_cpu cpu/nanoseconds service.name=one service_name=three\nmain:3;work:7 = 1\n"
           "process_cpu cpu/nanoseconds service.name=one service_name=two\nmain:3;work:7 = 2\n"
           "main:3;work:7 = 4\n");
    ow_release(&w);
}

static void types_of_1_7_are_profiles_each(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_7);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3, 4096), 0});
    ow_profile(&w, &(struct ow_profile){.type = "alloc_objects",
                                        .unit = "count",
                                        .period_type = "space",
                                        .period_unit = "bytes",
                                        .period = 1,
                                        .more_type = "alloc_space"});
    // One value for all timestamps is that of each.
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 4});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_7,
           "space alloc_objects/count service_name=unknown_service\nmain:3;work:7 = 3\n"
           "space alloc_space/bytes service_name=unknown_service\nmain:3;work:7 = 4096\n"
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 40\n");
    ow_release(&w);
}

// Rows that no sample names may be anything.
static void only_what_is_named_is_read(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    ow_location(&w, 99, 5, 99, 1);
    pb_put_bytes(&w.tables, 6, S("\x08\x7f"));
    w.rows[6]++;
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 1\n");
    ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(1), COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    expect_fault(ow_end(&w), false, "string index 127 is out of range");
    ow_release(&w);
}

// A profile that is refused does not take the others with it.
static void reading_goes_on_behind_a_fault(void **state)
{
    (void)state;
    struct ow w;
    struct arena a;
    struct arena scratch;
    struct otlp *d = NULL;
    struct otlp_profile p = {0};
    err e = {0};
    ow_init(&w, OTLP_1_10);
    pb_put_bytes(&w.tables, 6, S("\x08\x7f"));
    w.rows[6]++;
    put_rows(&w);
    for (uint64_t i = 0; i < 3; i++) {
        ow_sample(&w, &(struct ow_sample){1, 0, (uint64_t[]){1}, i == 1, COUNTED(1), 0});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    }
    ow_resource(&w);
    arena_init(&a, NULL, 1 << 20);
    arena_init(&scratch, NULL, 1 << 20);
    assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
    assert_int_equal(otlp_count(d), 3);
    static const enum otlp_step want[] = {OTLP_PROFILE, OTLP_REFUSED, OTLP_PROFILE, OTLP_END};
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(otlp_next(d, &scratch, &p, &e), want[i]);
        if (want[i] != OTLP_END) assert_int_equal(p.number, i);
        arena_release(&scratch);
    }
    assert_non_null(strstr(e.msg, "string index 127 is out of range"));
    arena_release(&a);
    ow_release(&w);
}

// A stack of a location and of functions and a mapping that are not there, and one that is.
static void what_the_dictionary_lacks_keeps_its_frame(void **state)
{
    (void)state;
    struct ow w;
    struct arena a;
    struct otlp *d = NULL;
    struct otlp_profile p = {0};
    struct buf got;
    err e = {0};
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    uint64_t frames[] = {ow_location(&w, 0, 0, 99, 1), 77, ow_location(&w, 0, 5, 99, 1)};
    uint64_t stack = ow_stack(&w, frames, 3);
    ow_sample(&w, &(struct ow_sample){stack, 0, NULL, 0, COUNTED(4), 0});
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    arena_init(&a, NULL, 1 << 20);
    buf_init(&got, NULL, 1 << 16);
    assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
    assert_int_equal(otlp_next(d, &a, &p, &e), OTLP_PROFILE);
    print_profile(&p, &got);
    const char *want = "process_cpu cpu/nanoseconds service_name=unknown_service\n"
                       "0x5@();[unknown]:0;[unknown]:0 = 4\nmain:3;work:7 = 3\n";
    if (!str_is(buf_view(&got), want)) fail_msg("%.*s", STR(buf_view(&got)));
    assert_int_equal(p.profile.losses.count[LOSS_UNKNOWN_FRAME], 1);
    buf_release(&got);
    arena_release(&a);
    ow_release(&w);
}

// Only what contradicts itself is left out, and told by name.
static void samples_that_contradict_themselves_are_left_out(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct ow w;
        struct arena a;
        struct otlp *d = NULL;
        struct otlp_profile p = {0};
        err e = {0};
        ow_init(&w, OTLP_1_10);
        put_rows(&w);
        if (!alone) {
            ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
            ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(4, 5), 2});
            ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, NULL, 0, 6});
        }
        ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(7, 8), 5});
        ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 3});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
        ow_resource(&w);
        arena_init(&a, NULL, 1 << 20);
        assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
        assert_int_equal(otlp_next(d, &a, &p, &e), alone ? OTLP_REFUSED : OTLP_PROFILE);
        assert_string_equal(alone ? e.msg : p.bad.msg,
                            "profile 0 has a sample of stack 1 with 2 values and 5 timestamps, "
                            "which contradict each other");
        int64_t sum = 0;
        for (uint32_t i = 0; i < p.profile.sample_count; i++)
            sum += p.profile.values[i];
        assert_int_equal(sum, alone ? 0 : 3 + 9 + 6);
        if (!alone) assert_int_equal(p.profile.losses.count[LOSS_BAD_SAMPLE], 2);
        assert_int_equal(otlp_next(d, &a, &p, &e), OTLP_END);
        arena_release(&a);
        ow_release(&w);
    }
}

// Neither one sample nor one profile takes the rest of a request with it, whatever its layout.
static void what_has_no_value_is_left_out(void **state)
{
    (void)state;
    for (int layout = 0; layout < OTLP_LAYOUTS; layout++) {
        struct ow w;
        ow_init(&w, (enum otlp_layout)layout);
        put_rows(&w);
        ow_sample(&w, &(struct ow_sample){.stack = 2});
        ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
        ow_sample(&w, &(struct ow_sample){2, 0, NULL, 0, COUNTED(4), 0});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
        ow_resource(&w);
        expect(ow_end(&w), false, (enum otlp_layout)layout,
               "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 30\n"
               "process_cpu cpu/nanoseconds service_name=unknown_service\n"
               "main:3;0x1234@/bin/app(abcd) = 40\n");
        ow_release(&w);
    }
}

// As the eBPF profiler writes samples: timestamps and several attributes, which 1.8 has as values.
// One fault must not make values of all attributes.
static void a_fault_does_not_change_the_layout(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct ow w;
        ow_init(&w, OTLP_1_10);
        put_rows(&w);
        uint64_t pid = ow_attribute(&w, "pid", "7");
        uint64_t cpu = ow_attribute(&w, "cpu", "1");
        ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(pid, cpu), NULL, 0, 3});
        if (i) ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(pid, cpu), NULL, 0, 0});
        if (!i) ow_sample(&w, &(struct ow_sample){1, 0, COUNTED(pid, cpu, 99), NULL, 0, 4});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
        ow_resource(&w);
        expect(ow_end(&w), false, OTLP_1_10,
               i ? "process_cpu cpu/nanoseconds service_name=unknown_service\n"
                   "main:3;work:7 {pid=7} {cpu=1} = 30\n"
                 : "process_cpu cpu/nanoseconds service_name=unknown_service\n"
                   "main:3;work:7 {pid=7} {cpu=1} = 30\nmain:3;work:7 {pid=7} {cpu=1} = 40\n");
        ow_release(&w);
    }
}

static void a_profile_that_is_at_fault_is_refused_alone(void **state)
{
    (void)state;
    static const char *const faults[] = {"the sum of a sample's values exceeds 64 bits",
                                         "sample value is required: profile 0 has a sample of "
                                         "stack 1 with neither values nor timestamps"};
    for (int i = 0; i < 2; i++) {
        struct ow w;
        struct arena a;
        struct otlp *d = NULL;
        struct otlp_profile p = {0};
        err e = {0};
        ow_init(&w, OTLP_1_10);
        put_rows(&w);
        ow_sample(&w, i ? &(struct ow_sample){.stack = 1}
                        : &(struct ow_sample){1, 0, NULL, 0, COUNTED(INT64_MAX, 1), 0});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
        ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
        ow_profile(&w, &(struct ow_profile){CPU, .period = 10});
        ow_resource(&w);
        arena_init(&a, NULL, 1 << 20);
        assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
        assert_int_equal(otlp_next(d, &a, &p, &e), OTLP_REFUSED);
        assert_string_equal(e.msg, faults[i]);
        assert_int_equal(otlp_next(d, &a, &p, &e), OTLP_PROFILE);
        assert_int_equal(p.profile.values[0], 30);
        assert_int_equal(otlp_next(d, &a, &p, &e), OTLP_END);
        arena_release(&a);
        ow_release(&w);
    }
}

// A sample stands for no time less than none.
static void a_negative_period_is_none(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(3), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = (uint64_t)-10});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           " samples/count service_name=unknown_service\nmain:3;work:7 = 3\n");
    ow_release(&w);
}

static void references_of_resources_are_resolved(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    uint64_t key = ow_string(&w, "service.name");
    uint64_t value = ow_string(&w, "shop");
    size_t m = pb_begin(&w.labels, 1);  // both as references
    pb_put_u64(&w.labels, 3, key);
    size_t inner = pb_begin(&w.labels, 2);
    pb_put_u64(&w.labels, 8, value);
    pb_end(&w.labels, inner);
    pb_end(&w.labels, m);
    m = pb_begin(&w.labels, 1);  // both forms: the string counts
    pb_put_bytes(&w.labels, 1, S("zone"));
    pb_put_bytes(&w.labels, 2, S("\x0a\x01z"));
    pb_put_u64(&w.labels, 3, key);
    pb_end(&w.labels, m);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,
           "process_cpu cpu/nanoseconds service.name=shop zone=z service_name=shop\n"
           "main:3;work:7 = 1\n");
    ow_release(&w);
}

// ---- limits

static void numbers_beyond_the_limits_are_refused(void **state)
{
    (void)state;
    struct ow w;
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(INT64_MAX, 1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    expect_fault(ow_end(&w), false, "the sum of a sample's values exceeds 64 bits");
    ow_release(&w);

    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(INT64_MAX / 2), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 3});
    ow_resource(&w);
    expect_fault(ow_end(&w), false, "the value of a sample exceeds 64 bits");
    ow_release(&w);

    uint64_t many[257] = {0};
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    ow_sample(&w, &(struct ow_sample){1, 0, many, COUNT(many), COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    expect(ow_end(&w), false, OTLP_1_10,  // the surplus is left out
           "process_cpu cpu/nanoseconds service_name=unknown_service\nmain:3;work:7 = 1\n");
    ow_release(&w);
}

// A large profile comes in parts whose sum is the whole, and none of them takes much.
static void large_profiles_come_in_parts(void **state)
{
    (void)state;
    enum {
        SAMPLES = 120000
    };
    struct ow w;
    struct arena a;
    struct arena scratch;
    struct otlp *d = NULL;
    err e = {0};
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    uint64_t threads[2] = {ow_attribute(&w, "thread.name", "a"),
                           ow_attribute(&w, "thread.name", "b")};
    for (size_t i = 0; i < SAMPLES; i++)
        ow_sample(&w, &(struct ow_sample){1 + i % 2, 0, &threads[i % 2], 1, COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    arena_init(&a, NULL, 64 << 20);
    arena_init(&scratch, NULL, 64 << 20);
    assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
    int64_t sum = 0;
    size_t parts = 0;
    for (;; parts++) {
        struct otlp_profile p = {0};
        enum otlp_step step = otlp_next(d, &scratch, &p, &e);
        if (step == OTLP_END) break;
        assert_int_equal(step, OTLP_PROFILE);
        assert_int_equal(p.number, 0);
        for (uint32_t i = 0; i < p.profile.sample_count; i++)
            sum += p.profile.values[i];
        assert_true(scratch.used < (size_t)16 << 20);
        arena_release(&scratch);
    }
    assert_int_equal(sum, SAMPLES);
    assert_true(parts > 1);
    assert_true(a.used < w.out.n + 65536);
    arena_release(&a);
    ow_release(&w);
}

// Tables of the smallest rows there are.
static void a_bomb_of_rows_takes_five_times_its_size(void **state)
{
    (void)state;
    enum {
        ROWS = 200000
    };
    struct ow w;
    struct arena a;
    struct otlp *d = NULL;
    err e = {0};
    ow_init(&w, OTLP_1_10);
    put_rows(&w);
    for (uint32_t i = 0; i < ROWS; i++)
        pb_put_bytes(&w.tables, 1 + i % 7, (str){0});
    ow_sample(&w, &(struct ow_sample){1, 0, NULL, 0, COUNTED(1), 0});
    ow_profile(&w, &(struct ow_profile){CPU, .period = 1});
    ow_resource(&w);
    arena_init(&a, NULL, 64 << 20);
    assert_true(otlp_open(&a, ow_end(&w), &options, &d, &e));
    if (a.used > 5 * w.out.n + 65536) fail_msg("%zu of %zu bytes", a.used, w.out.n);
    arena_release(&a);
    ow_release(&w);
}

static void every_cut_is_survived(void **state)
{
    (void)state;
    for (int layout = 0; layout < OTLP_LAYOUTS; layout++) {
        struct ow w;
        ow_init(&w, (enum otlp_layout)layout);
        put_whole(&w);
        str bytes = ow_end(&w);
        for (size_t n = 0; n < bytes.n; n++) {
            err e = {0};
            // The dictionary comes last and ends with the message: every cut is a fault.
            const uint8_t *cut = tail_guard(bytes.p, n);
            assert_false(read_all(str_make(cut, n), false, NULL, NULL, &e));
            assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        }
        ow_release(&w);
    }
}

// ---- JSON

#define DICTIONARY                                                                                \
    "\"dictionary\":{\"stringTable\":[\"\",\"samples\",\"count\",\"cpu\",\"nanoseconds\",\"f\"]," \
    "\"functionTable\":[{},{\"nameStrindex\":5}],\"mappingTable\":[{}],\"locationTable\":[{},"    \
    "{\"lines\":[{\"functionIndex\":1,\"line\":\"7\"}]}],\"stackTable\":[{},"                     \
    "{\"locationIndices\":[1]}],\"attributeTable\":[{}],\"linkTable\":[{},{\"traceId\":\"%s\","   \
    "\"spanId\":\"%s\"}]}"
#define TYPES                                                                 \
    "\"sampleType\":{\"typeStrindex\":1,\"unitStrindex\":2},\"periodType\":{" \
    "\"typeStrindex\":3,\"unitStrindex\":4},\"period\":\"10\","
#define PROFILES(more)                                                                            \
    "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{" \
    "\"stringValue\":\"shop\"}},{\"key\":\"n\",\"value\":{\"intValue\":\"-7\"}},{\"key\":\"l\","  \
    "\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":1.0e1}]}}},{\"key\":\"b\",\"value\":{"  \
    "\"boolValue\":true}}]},\"scopeProfiles\":[{\"profiles\":[{" TYPES more "}]}]}]," DICTIONARY  \
    "}"
#define SAID                                                                      \
    "process_cpu cpu/nanoseconds service.name=shop n=-7 l=10 service_name=shop\n" \
    "f:7 {span_id=7370616e7370616e} {trace_id=30313233343536373839616263646566} = 20\n"

static void expect_json(const char *form, const char *trace, const char *span, const char *want)
{
    struct buf text;
    buf_init(&text, NULL, 1 << 16);
    buf_printf(&text, form, trace, span);
    expect(buf_view(&text), true, OTLP_1_10, want);
    buf_release(&text);
}

static void ids_in_json_are_hex_or_base64(void **state)
{
    (void)state;
    static const char form[] =
        PROFILES("\"samples\":[{\"stackIndex\":1,\"linkIndex\":1,\"values\":[\"2\"]}]");
    expect_json(form, "30313233343536373839616263646566", "7370616E7370616e", SAID);
    expect_json(form, "MDEyMzQ1Njc4OWFiY2RlZg==", "c3BhbnNwYW4=", SAID);
}

static void names_of_all_versions_are_read(void **state)
{
    (void)state;
    static const char older[] =
        PROFILES("\"unknown\":[{\"a\":[1]}],\"sample\":[{\"stackIndex\":1,\"linkIndex\":1,"
                 "\"timestampsUnixNano\":[\"5\",6],\"values\":null}]");
    static const char proto[] =
        PROFILES("\"samples\":[{\"stack_index\":1,\"link_index\":1,\"values\":[2]}]");
    expect_json(older, "30313233343536373839616263646566", "7370616e7370616e", SAID);
    expect_json(proto, "30313233343536373839616263646566", "7370616e7370616e", SAID);
    expect(S("{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":[{"
             "\"typeStrindex\":1,\"unitStrindex\":2}],\"sample\":[{\"locationsStartIndex\":1,"
             "\"locationsLength\":1,\"value\":[\"4\"],\"attributeIndices\":[0]}],"
             "\"locationIndices\":[0,1],\"timeNanos\":\"5\",\"periodType\":{\"typeStrindex\":1},"
             "\"period\":1}]}]}],\"dictionary\":{\"stringTable\":[\"\",\"x\",\"count\",\"f\"],"
             "\"functionTable\":[{},{\"nameStrindex\":3}],\"mappingTable\":[{}],"
             "\"locationTable\":[{},{\"line\":[{\"functionIndex\":1}]}],\"attributeTable\":[{"
             "\"key\":\"k\",\"value\":{\"stringValue\":\"v\"}}],\"linkTable\":[{}]}}"),
           true, OTLP_1_7, "x x/count service_name=unknown_service\nf:0 {k=v} = 4\n");
}

static void json_that_is_something_else_is_refused(void **state)
{
    (void)state;
    expect_fault(S("{\"nope\":1}"), true, "unknown field \"nope\"");
    // Beyond the end of the name, and of its literal.
    expect_fault(S("{\"resourceProfiles\\u0000\":1}"), true, "unknown field");
    expect_fault(S("{\"resourceProfiles\\u0000of another\":[]}"), true, "unknown field");
    expect_fault(S("{\"resource\":[]}"), true, "unknown field");
    expect_fault(S("[]"), true, "expected an object");
    expect_fault(S("{\"resourceProfiles\":{}}"), true, "expected a list");
    expect_fault(S("{\"dictionary\":{\"stringTable\":[1]}}"), true, "expected a string");
    expect_fault(S("{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[1.5]}]}}"), true,
                 "expected a whole number");
    expect_fault(S("{\"dictionary\":{\"linkTable\":[{\"traceId\":\"!\"}]}}"), true, "traceId");
    expect_fault(S("{\"resourceProfiles\":[]} x"), true, "JSON");
    struct buf deep;
    buf_init(&deep, NULL, 1 << 16);
    buf_z(&deep, "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"value\":");
    for (int i = 0; i < 100; i++)
        buf_z(&deep, "{\"arrayValue\":{\"values\":[");
    expect_fault(buf_view(&deep), true, "messages are nested deeper than 64");
    buf_release(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layout_is_found),
        cmocka_unit_test(the_newer_of_two_layouts_counts),
        cmocka_unit_test(requests_without_samples_are_empty),
        cmocka_unit_test(a_message_of_no_layout_names_those_that_are_known),
        cmocka_unit_test(what_dangles_keeps_its_value),
        cmocka_unit_test(each_sample_has_its_own_span),
        cmocka_unit_test(a_sample_may_name_its_service),
        cmocka_unit_test(types_of_1_7_are_profiles_each),
        cmocka_unit_test(only_what_is_named_is_read),
        cmocka_unit_test(reading_goes_on_behind_a_fault),
        cmocka_unit_test(what_the_dictionary_lacks_keeps_its_frame),
        cmocka_unit_test(samples_that_contradict_themselves_are_left_out),
        cmocka_unit_test(what_has_no_value_is_left_out),
        cmocka_unit_test(a_fault_does_not_change_the_layout),
        cmocka_unit_test(a_profile_that_is_at_fault_is_refused_alone),
        cmocka_unit_test(a_negative_period_is_none),
        cmocka_unit_test(references_of_resources_are_resolved),
        cmocka_unit_test(numbers_beyond_the_limits_are_refused),
        cmocka_unit_test(large_profiles_come_in_parts),
        cmocka_unit_test(a_bomb_of_rows_takes_five_times_its_size),
        cmocka_unit_test(every_cut_is_survived),
        cmocka_unit_test(ids_in_json_are_hex_or_base64),
        cmocka_unit_test(names_of_all_versions_are_read),
        cmocka_unit_test(json_that_is_something_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
