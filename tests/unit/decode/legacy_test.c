// SPDX-License-Identifier: Apache-2.0
//
// The profiles before pprof: each kind as stacks and values, faults by their lines, every cut, and
// the same profile again through pprof.
#include "base/buf.h"
#include "decode/legacy.h"
#include "lib/test.h"

static const struct decode_options any;

#define MAPS                                           \
    "--- Memory map: ---\n  source=/home\n"            \
    "  00400000-00500000: $source/shop\n"              \
    "  7f00-7f10: /lib/a.so (@1000) b1d\n"             \
    "bad line\n00600000-00700000 r--p 0 00:00 0 /ro\n" \
    "00800000-00900000 r-xp 00001000 08:02 7 /bin/x\n"

static const struct {
    const char *name;
    const char *text;
    const char *expected;  // "types: leaf;root=values{label} "; or the fault, after a '!'
} cases[] = {
    {"growth is not scaled",
     "heap profile:  1: 8 [ 1: 8] @ growthz\n 1: 8 [ 1: 8] @ 0x400010 0x7f01\n" MAPS,
     "objects/count space/bytes: /home/shop+40000f;/lib/a.so+7f00=1,8{bytes:8} "},
    {"what was allocated in all has types of its own",
     "heap profile: 1: 8 [2: 16] @ heapprofile\n1: 8 [2: 16] @ 0x2\n\nMAPPED_LIBRARIES:\n",
     "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes: 1=2,16,1,8"
     "{bytes:8} "},
    {"Go's rate is halved, and small blocks are scaled up",
     "heap profile: 1: 512 [1: 512] @ heap/1048576\n1: 512 [1: 512] @ 0x11\n"
     "#\t0x10\tmain.make+0x1f\t/src/main.go:12\n# runtime.MemStats\n",
     "objects/count space/bytes: main.make:12=1024,524544{bytes:512} "},
    {"objects without bytes are not scaled",
     "heap profile: 4: 0 [4: 0] @ heap/1048576\n4: 0 [4: 0] @ 0x11\n",
     "objects/count space/bytes: 10=4,0{bytes:0} "},
    {"a difference of bytes has its sign",
     "heap profile: 1: -512 [1: -512] @ heap/1048576\n1: -512 [1: -512] @ 0x11\n",
     "objects/count space/bytes: 10=1024,-524544{bytes:-512} "},
    {"two files in one",
     "heap profile: 1: 8 [1: 8] @ growthz\n1: 8 [1: 8] @ 0x1\n\nMAPPED_LIBRARIES:\n"
     "10-20 r-xp 0 08:02 9 /bin/y\nheap profile: 1: 8 [1: 8] @ growthz\n1: 8 [1: 8] @ 0x1\n",
     "!line 6: another profile begins; a file has one"},
    {"jemalloc: threads are parts of the sum",
     "heap_v2/1\n  t*: 3: 24 [0: 0]\n  t0: 3: 24 [0: 0]\n@ 0x11 0x21\n  t*: 3: 24 [0: 0]\n"
     "  t0: 3: 24 [0: 0]\n\nMAPPED_LIBRARIES:\n10-20 r-xp 0 08:02 9 /bin/y\n",
     "objects/count space/bytes: /bin/y+10;20=3,24{bytes:8} "},
    {"contention is scaled by period and clock",
     "--- mutex:\ncycles/second=2000000000\nsampling period=5\n400 2 @ 0x5 0x9\n"
     "#\t0x4\tsync.Unlock+0x1\t/m.go:3\n#\t0x8\tmain.inlined+0x2\t/m.go:4\n"
     "#\t0x8\tmain.main+0x2\t/m.go:5\n1 1 @ 0x9\n#\t0x8\tmain.inlined+0x2\t/m.go:4\n",
     "contentions/count delay/nanoseconds: sync.Unlock:3;main.inlined:4,main.main:5=10,1000 "
     "main.inlined:4,main.main:5=5,2 "},
    {"Java has tables of names",
     "--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = 3\n"
     "ms since reset = 6\n 7 2 @ 0x1 0x2\n 0x1 a.B.c (B.java:9)\n 0x2 lib (/x/liby.so)\n",
     "contentions/count delay/microseconds: a.B.c:9;lib=6,21 "},
    {"Java's heap begins with bytes",
     "--- heapz 1 ---\nformat = java\nresolution = bytes\n 2097152 1 @ 0x1\n 0x1 a.B.c "
     "(B.java:9)\n",
     "inuse_objects/count inuse_space/bytes: a.B.c:9=1,2136279{bytes:2097152} "},
    {"Go's counts with labels",
     "goroutine profile: total 3\n2 @ 0x5 0x9\n# labels: {\"job\":\"b\\u0061ck\"}\n"
     "#\t0x4\tmain.f+0x1\t/m.go:3\n\n1 @ 0x9\n1 @ 0x5 0x7\n#\t0x4\tmain.f+0x1\t/m.go:3\n#\t0x6\n",
     "goroutine/count: main.f:3=2{job:back} 8=1 main.f:3;0x6=1 "},
    {"Go's stacks with arguments",
     "goroutine 1 [running]:\nmain.(*T).work(0xc0, {0x1, 0x2})\n\t/m.go:3 +0x1d\nmain.main()\n"
     "\t/m.go:9 +0x1\n\ngoroutine 7 [chan receive, 5 minutes]:\nmain.wait(...)\n\t/w.go:1\n"
     "...additional frames elided...\ncreated by main.main in goroutine 1\n\t/m.go:8 +0x2\n",
     "goroutine/count: main.(*T).work:3;main.main:9=1 main.wait:1=1 "},
    {"threads",
     "--- threadz 1 ---\n\n--- Thread 7f79 (name: main/14748) stack: ---\n  PC: 0x400010: f(int)\n"
     "    0x400021: main\n--- Thread 7f80 (name: x/14749) stack: ---\n"
     "    creator: 0x0, same as previous thread\n---- no stack trace for 1 ----\n" MAPS,
     "thread/count: /home/shop+400010;/home/shop+400020=2 "},
    {"a section of symbols before the profile",
     "--- symbol\nbinary=/shop\n0x0000000000000010 in--out\n0x0000000000000020 main\n---\n"
     "--- heap\nheap profile: 1: 8 [1: 8] @ growthz\n1: 8 [1: 8] @ 0x10 0x20\n",
     "objects/count space/bytes: in:0,out:0;main=1,8{bytes:8} "},
    {"no head", "hello\n", "!line 1: not the beginning"},
    {"nothing", "", "!not the beginning"},
    {"bad row", "heap profile: 1: 8 [1: 8] @ heap/2\n1: x\n", "!line 2: bad row of a heap"},
    {"bad address", "goroutine profile: total 1\n1 @ 0x1 7\n", "!line 2: bad address"},
    {"address of 65 bits", "goroutine profile: total 1\n1 @ 0x10000000000000000\n",
     "!line 2: bad address"},
    {"count of 64 bits", "goroutine profile: total 1\n9223372036854775808 @ 0x1\n",
     "!line 2: bad row of counts"},
    {"no objects", "heap profile: 1: 8 [1: 8] @ heap/2\n0: 8 [0: 8] @ 0x1\n",
     "!line 2: bytes without objects"},
    {"scaled out of range",
     "heap profile: 1: 1 [1: 1] @ heap/9223372036854775807\n9223372036854775807: 1 [0: 0] @ 0x1\n",
     "!line 2: scaled to more than 64 bits"},
    {"unknown kind", "heap profile: 1: 8 [1: 8] @ stack\n", "!unknown kind of heap profile"},
    {"count overflow", "--- mutex:\nsampling period=4\n1 4611686018427387904 @ 0x1\n",
     "!count x period: 4611686018427387904 x 4, limit 2^63-1"},
    {"not a thread", "--- threadz 1 ---\nx\n", "!line 2: not the head of a thread"},
    {"not a goroutine", "goroutine 1 [x]:\nf()\n\t/a:1\n\nx\n", "!line 5: not the head"},
};

static void put_location(struct buf *b, const struct profile *p, const struct profile_location *l)
{
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct profile_line *line = &p->lines[l->first_line + i];
        buf_printf(b, "%s%.*s", i ? "," : "", STR(p->functions[line->function].name));
        if (line->line || l->line_count > 1) buf_printf(b, ":%lld", (long long)line->line);
    }
    if (l->line_count) return;
    if (l->mapping != PROFILE_NONE) buf_printf(b, "%.*s+", STR(p->mappings[l->mapping].filename));
    buf_printf(b, "%llx", (unsigned long long)l->address);
}

static void put(struct buf *b, const struct profile *p)
{
    for (uint32_t i = 0; i < p->type_count; i++)
        buf_printf(b, "%.*s/%.*s%s", STR(p->types[i].type), STR(p->types[i].unit),
                   i + 1 < p->type_count ? " " : ": ");
    for (uint32_t k = 0; k < p->sample_count; k++) {
        const struct profile_sample *s = &p->samples[k];
        for (uint32_t i = 0; i < s->location_count; i++) {
            if (i) buf_byte(b, ';');
            put_location(b, p, &p->locations[p->stack_locations[s->first_location + i]]);
        }
        for (uint32_t i = 0; i < p->type_count; i++)
            buf_printf(b, "%s%lld", i ? "," : "=", (long long)p->values[k * p->type_count + i]);
        for (uint32_t i = 0; i < s->label_count; i++) {
            const struct profile_label *l = &p->labels[s->first_label + i];
            if (l->text.n)
                buf_printf(b, "{%.*s:%.*s}", STR(l->key), STR(l->text));
            else
                buf_printf(b, "{%.*s:%lld}", STR(l->key), (long long)l->number);
        }
        buf_byte(b, ' ');
    }
}

static bool decode(struct arena *a, str text, struct decoded *d, err *e)
{
    return decode_legacy(a, str_make(tail_guard(text.p, text.n), text.n), &any, d, e);
}

// As the decoder made it, and again through pprof.
static bool check(struct arena *a, const struct profile *p, const char *expected, struct buf *got)
{
    struct buf pprof;
    struct decoded d = {0};
    put(got, p);
    if (!str_is(buf_view(got), expected)) return false;
    buf_init(&pprof, NULL, 1 << 16);
    buf_clear(got);
    assert_ok(decode_put_pprof(a, p, &pprof, e));
    assert_ok(decode_pprof(a, buf_view(&pprof), &any, &d, NULL, e));
    put(got, d.profiles);
    buf_release(&pprof);
    return str_is(buf_view(got), expected);
}

static void each_kind_becomes_stacks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct buf got;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_init(&got, NULL, 1 << 16);
        const char *want = cases[i].expected;
        bool ok = decode(&a, str_of(cases[i].text), &d, &e);
        bool good = want[0] == '!' ? !ok && strstr(e.msg, want + 1)
                                   : ok && legacy_is(str_of(cases[i].text)) &&
                                         check(&a, d.profiles, want, &got);
        if (!good) fail_msg("%s: %.*s%s", cases[i].name, STR(buf_view(&got)), e.msg);
        buf_release(&got);
        arena_release(&a);
    }
}

static void every_cut_is_a_profile_or_a_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        str whole = str_of(cases[i].text);
        for (size_t n = 0; n < whole.n; n++) {
            struct arena a;
            struct decoded d = {0};
            err e = {0};
            arena_init(&a, NULL, 1 << 20);
            if (!decode(&a, str_slice(whole, 0, n), &d, &e))
                assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
            arena_release(&a);
        }
    }
}

static void put_word(struct buf *b, size_t size, bool big, uint64_t v)
{
    for (size_t i = 0; i < size; i++)
        buf_byte(b, (unsigned char)(v >> 8 * (big ? size - 1 - i : i)));
}

#define CPU_MAP "00000000-00001000 r-xp 00000000 00:00 0 /shop\n"

// Two stacks; the second frame of both is the signal's handler.
static void put_cpu(struct buf *b, size_t size, bool big, bool java)
{
    const uint64_t words[] = {0,    3, java, 10000, 0,    3,    3, 0x10, 0x99,
                              0x21, 1, 3,    0x40,  0x99, 0x21, 0, 1,    0};
    for (size_t i = 0; i < COUNT(words); i++)
        put_word(b, size, big, words[i]);
    buf_z(b, java ? " 0x10 a.b (B.java:3)\n 0x99 c\n 0x21 d (D.java:1)\n" : CPU_MAP);
}

static void cpu_profiles_have_words_of_any_kind(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 8; kind++) {
        struct arena a;
        struct buf b;
        struct buf got;
        struct decoded d = {0};
        bool java = kind & 4;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 4096);
        buf_init(&got, NULL, 4096);
        put_cpu(&b, kind & 1 ? 8 : 4, kind & 2, java);
        assert_true(legacy_is(buf_view(&b)));
        assert_ok(decode(&a, buf_view(&b), &d, e));
        assert_int_equal(d.profiles->period, 10000000);
        bool same = check(&a, d.profiles,
                          java ? "samples/count cpu/nanoseconds: a.b:3;c;d:1=3,30000000 "
                                 "40;c;d:1=1,10000000 "
                               : "samples/count cpu/nanoseconds: /shop+10=3,30000000 "
                                 "/shop+40=1,10000000 ",
                          &got);
        if (!same) fail_msg("%.*s", STR(buf_view(&got)));
        buf_release(&got);
        buf_release(&b);
        arena_release(&a);
    }
}

// It is in the registers and on the stack. The same function, called by itself, is no such leaf.
static void a_leaf_that_was_unwound_too_is_there_once(void **state)
{
    (void)state;
    static const uint64_t words[] = {0, 3,    0,    10000, 0, 3, 3,    0x10, 0x10, 0x21, 1,
                                     3, 0x40, 0x41, 0x21,  5, 2, 0x50, 0x31, 0,    1,    0};
    struct arena a;
    struct buf b;
    struct buf got;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 4096);
    buf_init(&got, NULL, 4096);
    for (size_t i = 0; i < COUNT(words); i++)
        put_word(&b, 8, false, words[i]);
    buf_z(&b, CPU_MAP);
    assert_ok(decode(&a, buf_view(&b), &d, e));
    bool same = check(&a, d.profiles,
                      "samples/count cpu/nanoseconds: /shop+10;/shop+20=3,30000000 "
                      "/shop+40;/shop+40;/shop+20=1,10000000 /shop+50;/shop+30=5,50000000 ",
                      &got);
    if (!same) fail_msg("%.*s", STR(buf_view(&got)));
    buf_release(&got);
    buf_release(&b);
    arena_release(&a);
}

static void cut_cpu_profiles_and_lengths_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        uint64_t depth;
        const char *fault;
    } bad[] = {{1, (uint64_t)1 << 31, "a stack of 2147483648 addresses, limit 0"},
               {1, UINT64_MAX, "a stack of 18446744073709551615 addresses, limit 0"},
               {UINT64_MAX, 0, "count 18446744073709551615, limit 2^63-1"},
               {INT64_MAX, 0, "count x period: 9223372036854775807 x 10000000"}};
    struct arena a;
    struct buf b;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 4096);
    put_cpu(&b, 8, false, false);
    size_t stacks = 18 * sizeof(uint64_t);
    for (size_t n = 0; n < stacks; n++) {
        err e = {0};
        assert_false(decode(&a, str_slice(buf_view(&b), 0, n), &d, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        err e = {0};
        b.n = 5 * sizeof(uint64_t);
        put_word(&b, 8, false, bad[i].count);
        put_word(&b, 8, false, bad[i].depth);
        assert_false(decode(&a, buf_view(&b), &d, &e));
        if (!strstr(e.msg, bad[i].fault)) fail_msg("%s", e.msg);
    }
    buf_release(&b);
    arena_release(&a);
}

static void caps_are_named(void **state)
{
    (void)state;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    const struct decode_options small = {.inflated_max = 10};
    arena_init(&a, NULL, 1 << 20);
    assert_false(decode_legacy(&a, S("goroutine profile: total 0\n"), &small, &d, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.msg, "27 bytes, limit 10"));
    arena_release(&a);
}

// The head has the sum of all rows: what is cut off between two of them is a profile still.
static void rows_that_the_head_has_and_the_text_lacks_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t told;
    } heads[] = {
        {"goroutine profile: total 9\n3 @ 0x5 0x9\n2 @ 0x7\n", 4},
        {"goroutine profile: total 5\n3 @ 0x5 0x9\n2 @ 0x7\n", 0},
        {"goroutine profile: total 4\n3 @ 0x5 0x9\n2 @ 0x7\n", 0},
        {"heap profile: 3: 300 [5: 500] @ heap/2\n1: 100 [2: 200] @ 0x5\n", 3},
        {"heap profile: 3: 300 [3: 300] @ heap/2\n1: 100 [1: 100] @ 0x5\n", 2},
        {"heap profile: 1: 300 [1: 300] @ growthz\n1: 100 [1: 100] @ 0x5\n", 1},
        {"heap profile: 3: 300 [5: 500] @ heapprofile\n1: 100 [2: 200] @ 0x5\n"
         "2: 200 [3: 300] @ 0x7\n",
         0},
        {"heap_v2/2\n  t*: 3: 300 [0: 0]\n@ 0x5\n  t*: 1: 100 [0: 0]\n", 2},
        {"heap_v2/2\n  t*: 3: 300 [0: 0]\n@ 0x5\n  t*: 3: 300 [0: 0]\n", 0},
    };
    for (size_t i = 0; i < COUNT(heads); i++) {
        struct arena a;
        struct decoded d = {0};
        arena_init(&a, NULL, 1 << 20);
        assert_ok(decode(&a, str_of(heads[i].text), &d, e));
        if (d.profiles->losses.count[LOSS_CUT_OFF] != heads[i].told)
            fail_msg("%s: %llu", heads[i].text,
                     (unsigned long long)d.profiles->losses.count[LOSS_CUT_OFF]);
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_becomes_stacks),
        cmocka_unit_test(rows_that_the_head_has_and_the_text_lacks_are_told),
        cmocka_unit_test(every_cut_is_a_profile_or_a_fault),
        cmocka_unit_test(cpu_profiles_have_words_of_any_kind),
        cmocka_unit_test(a_leaf_that_was_unwound_too_is_there_once),
        cmocka_unit_test(cut_cpu_profiles_and_lengths_are_refused),
        cmocka_unit_test(caps_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
