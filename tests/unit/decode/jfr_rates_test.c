// SPDX-License-Identifier: Apache-2.0
//
// Recordings: how much time a sample stands for, and classes of allocations as leaves.
#include "decode/jfr.h"
#include "lib/jfr.h"
#include "lib/test.h"
#include "unit/decode/recording.h"

#define WORK "App.main:3;App.work:7"
#define MAIN "App.main:3"

static const struct jw_hit hits[] = {{.stack = 1, .state = 1}};

// ---- rates

static const struct decode_options none;

static void begin_settings(struct jw *w, const char *event, const char *interval, const char *wall)
{
    buf_clear(&w->out);
    jw_begin(w);
    jw_sample(w, &hits[0]);  // before the settings, as in files of the JDK
    if (event) jw_setting(w, 1, JW_RECORDING, "event", event);
    if (interval) jw_setting(w, 1, JW_SAMPLE, "interval", interval);
    if (wall) jw_setting(w, 1, JW_SAMPLE, "wall", wall);
}

static void end_settings(struct jw *w)
{
    jw_app(w);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
}

static const struct {
    const char *event;
    const char *interval;
    int64_t ns;
    bool assumed;
} intervals[] = {
    {"cpu", "5000000", 5000000, false},   {"itimer", "1000000", 1000000, false},
    {"ctimer", "20 ms", 20000000, false}, {"cpu", "0", 10000000, false},
    {NULL, "5000000", 5000000, false},    {NULL, NULL, 10000000, true},
    {"cpu", NULL, 10000000, true},        {"cycles", "1000000", 10000000, true},
    {"cpu", "often", 10000000, true},
};

static void check_intervals(struct jw *w)
{
    for (size_t i = 0; i < COUNT(intervals); i++) {
        char want[128];
        begin_settings(w, intervals[i].event, intervals[i].interval, NULL);
        end_settings(w);
        snprintf(want, sizeof want, "process_cpu cpu\n" WORK " = %lld\n",
                 (long long)intervals[i].ns);
        recording_expect(w, &none, want, LOSS_ASSUMED_RATE, intervals[i].assumed);
        // The request's rate is for what says none; what overrides is for all.
        struct decode_options o = {.sample_rate_else = 1000};
        snprintf(want, sizeof want, "process_cpu cpu\n" WORK " = %lld\n",
                 intervals[i].assumed ? 1000000 : (long long)intervals[i].ns);
        recording_expect(w, &o, want, LOSS_ASSUMED_RATE, 0);
        o.sample_rate = 500;
        recording_expect(w, &o, "process_cpu cpu\n" WORK " = 2000000\n", LOSS_ASSUMED_RATE, 0);
    }
}

static void a_sample_is_worth_the_interval_of_its_recording(void **state)
{
    (void)state;
    recording_in_both(check_intervals);
}

static void put_wall(struct jw *w, uint64_t state, uint64_t samples)
{
    jw_event(w, JW_WALL);
    jw_long(w, 1000);
    jw_long(w, 2);
    jw_long(w, state);
    jw_int(w, samples);
    jw_close(w);
}

// The wall clock has a rate of its own beside an event, and takes that of the event otherwise.
static void check_wall(struct jw *w)
{
    begin_settings(w, "cpu", "5000000", "20000000");
    put_wall(w, 2, 3);
    jw_sample(w, &(struct jw_hit){.stack = 1, .state = 2});  // as before version 4
    end_settings(w);
    recording_expect(w, &none,
                     "process_cpu cpu\n" WORK " = 5000000\n"
                     "wall wall\n" WORK " = 40000000\n" MAIN " = 60000000\n",
                     LOSS_ASSUMED_RATE, 0);
    begin_settings(w, "wall", "20000000", NULL);
    put_wall(w, 1, 2);
    end_settings(w);
    recording_expect(w, &none,
                     "process_cpu cpu\n" WORK " = 20000000\n" MAIN " = 40000000\n"
                     "wall wall\n" WORK " = 20000000\n" MAIN " = 40000000\n",
                     LOSS_ASSUMED_RATE, 0);
    begin_settings(w, "wall", "0", NULL);
    put_wall(w, 2, 1);
    end_settings(w);
    recording_expect(w, &none,
                     "process_cpu cpu\n" WORK " = 50000000\n"
                     "wall wall\n" WORK " = 50000000\n" MAIN " = 50000000\n",
                     LOSS_ASSUMED_RATE, 0);
}

static void the_wall_clock_has_a_rate_of_its_own(void **state)
{
    (void)state;
    recording_in_both(check_wall);
}

// Settings of other events have a period too. The JDK's holds until another is set; what a chunk
// does not say, the one before has said.
static void check_periods(struct jw *w)
{
    jw_begin(w);
    jw_sample(w, &(struct jw_hit){.stack = 1, .state = 1, .time = 2500});
    jw_setting(w, 2000, JW_SAMPLE, "period", "10 ms");
    jw_setting(w, 1000, JW_SAMPLE, "period", "20 ms");
    jw_setting(w, 1000, JW_LOAD, "period", "1 s");
    jw_setting(w, 3000, JW_SAMPLE, "period", "everyChunk");
    jw_sample(w, &(struct jw_hit){.stack = 2, .state = 1, .time = 1500});
    jw_sample(w, &(struct jw_hit){.stack = 2, .state = 1, .time = 500});
    jw_sample(w, &(struct jw_hit){.stack = 2, .state = 1, .time = 2000});  // has begun
    end_settings(w);
    jw_begin(w);
    jw_sample(w, &(struct jw_hit){.stack = 1, .state = 1, .time = 4000});
    end_settings(w);
    recording_expect(w, &none,
                     "process_cpu cpu\n" WORK " = 10000000\n" MAIN " = 50000000\n" WORK
                     " = 10000000\n",
                     LOSS_ASSUMED_RATE, 0);
}

static void periods_hold_from_their_time_on(void **state)
{
    (void)state;
    recording_in_both(check_periods);
}

// ---- classes of allocations

static void put_alloc(struct jw *w, uint64_t class)
{
    jw_event(w, JW_ALLOC);
    jw_long(w, 1000);
    jw_long(w, 2);
    jw_long(w, class);
    jw_long(w, 64);
    jw_close(w);
}

static void check_allocations(struct jw *w)
{
    static const char *const classes[] = {"[B", "[[Ljava/lang/String;", "java/util/Map"};
    jw_begin(w);
    for (uint64_t i = 0; i < 4; i++)
        put_alloc(w, 310 + i);
    put_alloc(w, 310);
    size_t known = jw_app(w);
    size_t more = jw_checkpoint(w, 2);
    jw_pool(w, JW_CLASS, COUNT(classes));
    for (uint64_t i = 0; i < COUNT(classes); i++) {
        jw_long(w, 310 + i);
        jw_long(w, 210 + i);
    }
    jw_pool(w, JW_SYMBOL, COUNT(classes));
    for (uint64_t i = 0; i < COUNT(classes); i++) {
        jw_long(w, 210 + i);
        jw_text(w, classes[i]);
    }
    jw_close(w);
    jw_link(w, more, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    recording_expect(w, &none, "memory alloc_sample_objects\n" MAIN " = 5 320\n",
                     LOSS_UNKNOWN_FRAME, 0);
    recording_expect(w, &(struct decode_options){.allocation_class = true},
                     "memory alloc_sample_objects\n" MAIN ";byte[]:0 = 2 128\n" MAIN
                     ";java/lang/String[][]:0 = 1 64\n" MAIN ";java/util/Map:0 = 1 64\n" MAIN
                     " = 1 64\n",
                     LOSS_UNKNOWN_FRAME, 0);
}

static void classes_of_allocations_may_be_leaves(void **state)
{
    (void)state;
    recording_in_both(check_allocations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_is_worth_the_interval_of_its_recording),
        cmocka_unit_test(the_wall_clock_has_a_rate_of_its_own),
        cmocka_unit_test(periods_hold_from_their_time_on),
        cmocka_unit_test(classes_of_allocations_may_be_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
