// SPDX-License-Identifier: Apache-2.0
//
// Mangled names of C++ and Rust become readable; hostile ones end soon and stay as they are.
#include "lib/test.h"
#include "model/demangle.h"

#include <pthread.h>

static const struct {
    const char *name;
    const char *text;  // NULL: stays as it is
} names[] = {
    // C++
    {"_Z3foov", "foo()"},
    {"_ZNK3Foo3barEi", "Foo::bar(int) const"},
    {"_ZSt4sortIPiEvT_S1_", "std::sort<int*>(int*, int*)"},
    {"_ZTV3Foo", "vtable for Foo"},
    {"_ZN3FooC1ERKS_", "Foo::Foo(Foo const&)"},
    {"_ZN3FooD0Ev", "Foo::~Foo()"},
    {"_ZN12_GLOBAL__N_13runEv", "(anonymous namespace)::run()"},
    {"_ZNSt6vectorIiSaIiEE9push_backERKi",
     "std::vector<int, std::allocator<int> >::push_back(int const&)"},
    {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
    {"_ZSt11make_sharedI3FooJRKiEESt10shared_ptrIT_EDpOT0_",
     "std::make_shared<Foo, int const&>(int const&)"},
    {"_ZN4llvm2cl3optIbLb0ENS0_6parserIbEEE16handleOccurrenceEjNS_9StringRefES5_",
     "llvm::cl::opt<bool, false, llvm::cl::parser<bool> >::handleOccurrence(unsigned int, "
     "llvm::StringRef, llvm::StringRef)"},
    {"_ZN2v88internal12_GLOBAL__N_16InvokeEPNS0_7IsolateERKNS1_12InvokeParamsE",
     "v8::internal::(anonymous namespace)::Invoke(v8::internal::Isolate*, "
     "v8::internal::(anonymous namespace)::InvokeParams const&)"},
    {"__ZN3FooC1Ev", "Foo::Foo()"},
    {"_Z3foov.cold", "foo() [clone .cold]"},
    {"_Z3foov.part.0", "foo() [clone .part.0]"},
    {"_Z3foov.constprop.0", "foo() [clone .constprop.0]"},
    {"_Z3foov.llvm.123", "foo() [clone .llvm.123]"},
    // Rust legacy
    {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
    {"__ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
    {"_ZN4core3fmt5write17h0123456789abcdefE.llvm.12345", "core::fmt::write [clone .llvm.12345]"},
    {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
     "3bar17h930b740aa94f1d3aE",
     "<Test + 'static as foo::Bar<Test>>::bar"},
    {"_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h0d6e2b8a3a2c1f45E",
     "std::rt::lang_start::{{closure}}"},
    {"_ZN4core3fmt5write16h0123456789abcdeE", "core::fmt::write::h0123456789abcde"},
    // Rust v0
    {"_RNvC6_123foo3bar", "123foo::bar"},
    {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
    {"__RNvCs1234_7mycrate3foo", "mycrate::foo"},
    {"_RNvCs1234_7mycrate3foo.llvm.9", "mycrate::foo [clone .llvm.9]"},
    {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
    {"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
     "<std::path::PathBuf>::new"},
    {"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9"
     "rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
     "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::<core::slice::memchr::"
     "memrchr::{closure#1}>::{closure#0}"},
    {"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_"
     "3std",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
    {"_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>"},
    {"_RMC0INtC6random1FFG0_RL1_hRL0_tEuE", "<random::F<for<'a, 'b> fn(&'a u8, &'b u16)>>"},
    {"_RMC0INtC6random1FFUKCPcOhEzE",
     "<random::F<unsafe extern \"C\" fn(*const char, *mut u8) -> !>>"},
    {"_RMC0INtC1a1BTaElAsj4_Kb1_Kc78_Kln2_E", "<a::B<(i8,), i32, [i16; 4], true, 'x', -2>>"},
    {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
     "utf8_idents::საჭმელად_გემრიელი_სადილი"},
    {"_RNvC1au8gdel_5qa", "a::gödel"},
    {"_RNvC1au2__A", "a::punycode{_A}"},
    // not mangled, or not right
    {"main", NULL},
    {"", NULL},
    {"_", NULL},
    {"_Z", NULL},
    {"_R", NULL},
    {"__Z", NULL},
    {"__libc_start_main", NULL},
    {"_ZN", NULL},
    {"_Zlatan", NULL},
    {"_Return", NULL},
    {"_RNvC3foo", NULL},
    {"_RNvC6_123foo3bar!", NULL},
    {"runtime.mallocgc", NULL},
    {"LazyCompile:*fib /usr/src/app/main.js:1", NULL},
    {"_ZN1\xc3"
     "1\xa4"
     "E",
     NULL},
};

static void names_are_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct buf b;
        buf_init(&b, NULL, 1 << 16);
        bool ok = demangle(str_of(names[i].name), &b);
        str text = buf_view(&b);
        if (ok != (names[i].text != NULL) || !str_is(text, ok ? names[i].text : "")) {
            fail_msg("%s: %.*s", names[i].name, STR(text));
        }
        buf_release(&b);
    }
}

// ---- names that are made to hurt

static void put_times(struct buf *b, size_t times, const char *text)
{
    for (size_t i = 0; i < times; i++)
        buf_z(b, text);
}

// The middle of a name is repeated up to the longest name that is read.
static const struct {
    const char *name;
    const char *begin;
    const char *middle;
    const char *end;
} hostile[] = {
    {"pointers", "_Z1f", "P", "i"},
    {"nested names", "_Z", "Z", "1fvE"},
    {"templates within templates", "_Z1f", "I1f", "E"},
    {"names of templates", "_ZN", "1aIiE", "E"},
    {"expressions", "_Z1fIX", "ng", "Li1EEEvv"},
    {"functions that take functions", "_Z1f", "PF", "vE"},
    {"decltype", "_Z1f", "DT", "E"},
    {"packs", "_Z1fIJiEEv", "Dp", "T_"},
    {"arrays", "_Z1f", "A_", "i"},
    {"references to parameters", "_Z1fI", "RT_", "EvT_"},
    {"each type twice the one before", "_Z1f1aIiiE", "S_IS_S_E", ""},
    {"pairs of pairs", "_Z1fSt4pairIiiE", "St4pairIS_S_E", ""},
    {"unfinished names", "_ZN", "9999999999", ""},
    {"legacy", "_ZN", "1$", "17h0123456789abcdefE"},
    {"v0 slices", "_RMC0", "S", "u"},
    {"v0 tuples", "_RMC0", "T", "u"},
    {"v0 generics", "_R", "I", "C1a"},
    {"v0 impls", "_R", "M", "C1a"},
    {"v0 functions", "_RMC0", "F", "u"},
    {"v0 traits", "_RMC0", "DI", "C1a"},
    {"v0 lengths", "_RC", "9", ""},
    {"v0 binders", "_RMC0TFG_uu", "FGp_uu", "E"},
    {"v0 back references", "_RMC0TTuuE", "TB_B_E", "E"},
};

static void *read_hostile(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < COUNT(hostile); i++) {
        for (size_t n = 1; n <= DEMANGLE_NAME_MAX; n = n < 30 ? n + 1 : n * 5 / 4) {
            struct buf name;
            struct buf text;
            buf_init(&name, NULL, 1 << 16);
            buf_init(&text, NULL, 1 << 16);
            size_t room = DEMANGLE_NAME_MAX - strlen(hostile[i].begin) - strlen(hostile[i].end);
            buf_z(&name, hostile[i].begin);
            put_times(&name, MIN(n, room / strlen(hostile[i].middle)), hostile[i].middle);
            buf_z(&name, hostile[i].end);
            bool ok = demangle(buf_view(&name), &text);
            assert(text.n <= DEMANGLE_TEXT_MAX && ok == (text.n > 0));
            buf_release(&text);
            buf_release(&name);
        }
    }
    return NULL;
}

// On a stack as callers have it. A name that hangs would hang the test.
static void hostile_names_end_soon_and_within_the_stack(void **state)
{
    (void)state;
    pthread_attr_t a;
    pthread_t t;
    assert_int_equal(pthread_attr_init(&a), 0);
    assert_int_equal(pthread_attr_setstacksize(&a, DEMANGLE_STACK_BYTES), 0);
    assert_int_equal(pthread_create(&t, &a, read_hostile, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    pthread_attr_destroy(&a);
}

// The k-th tuple holds the one before twice: 2^60 units, or lifetimes beyond count.
static void what_would_take_for_ever_is_left_alone(void **state)
{
    (void)state;
    static const char *const endless[] = {
        "_RC1aIC1bFGzzzzzzzz_EuE",
        "_RMC1aIC1bFGzzzzzzzz_EuEu",
        "_RMC0FGzzzzzzzzzz_Eu",
        // 7 is the first tuple.
        "_RMC0TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"
        "uB3_",
        "_Z1fIJ1aIiiEEEvDp1aIS1_S1_S2_S2_S3_S3_S4_S4_S5_S5_S6_S6_S7_S7_S8_S8_S9_S9_E",
    };
    for (size_t i = 0; i < COUNT(endless); i++) {
        struct buf b;
        buf_init(&b, NULL, 1 << 16);
        if (demangle(str_of(endless[i]), &b)) fail_msg("%s", endless[i]);
        buf_release(&b);
    }
}

static void long_names_stay_as_they_are(void **state)
{
    (void)state;
    struct buf name;
    struct buf text;
    buf_init(&name, NULL, 1 << 20);
    buf_init(&text, NULL, 1 << 20);
    buf_z(&name, "_RNvC1a990_");
    put_times(&name, 990, "x");
    assert_true(demangle(buf_view(&name), &text));
    assert_int_equal(text.n, 3 + 990);
    name.n = 0;
    text.n = 0;
    buf_z(&name, "_RNvC1a1100_");
    put_times(&name, 1100, "x");
    assert_false(demangle(buf_view(&name), &text));
    assert_int_equal(text.n, 0);
    buf_release(&text);
    buf_release(&name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(hostile_names_end_soon_and_within_the_stack),
        cmocka_unit_test(what_would_take_for_ever_is_left_alone),
        cmocka_unit_test(long_names_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
