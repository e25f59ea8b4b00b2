// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/sampler_names_int.h"

#include <stdlib.h>

static int calls;

__attribute__((always_inline)) static inline int inlined(int n)
{
    calls += n;
    return calls;
}

__attribute__((noinline)) static int outer_function(int n)
{
    return inlined(n) + 1;
}

static struct sampler_names *names_new(size_t cap)
{
    struct sampler_names *n = NULL;
    assert_ok((n = sampler_names_new(NULL, cap, e)) != NULL);
    return n;
}

static struct sampler_place find(struct sampler_names *n, uint64_t pc)
{
    struct sampler_place p;
    assert_ok(sampler_names_find(n, pc, &p, e));
    return p;
}

static str name_of(const struct sampler_names *n, const struct sampler_place *p, uint32_t line)
{
    assert_true(line < p->count);
    return sampler_names_function(n, p->lines[line].function)->name;
}

static void function_of_the_program_has_file_and_line(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(100);
    struct sampler_place p = find(n, (uint64_t)outer_function);
    assert_int_equal(p.count, 1);
    assert_true(str_is(name_of(n, &p, 0), "outer_function"));
    const struct sampler_function *f = sampler_names_function(n, p.lines[0].function);
    assert_true(str_ends(f->file, S("sampler_names_test.c")));
    assert_true(p.lines[0].line > 10);
    const struct sampler_module *m = sampler_names_module(n, p.module);
    assert_true(str_contains(m->file, S("sampler_names")));
    assert_in_range((uint64_t)outer_function, m->begin, m->end);
    sampler_names_free(n);
}

static void inlined_function_stands_before_its_caller(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(100);
    bool seen = false;
    assert_int_equal(outer_function(1), 2);
    for (uint64_t i = 0; i < 64 && !seen; i++) {
        struct sampler_place p = find(n, (uint64_t)outer_function + i);
        if (p.count != 2) continue;
        seen = str_is(name_of(n, &p, 0), "inlined") && str_is(name_of(n, &p, 1), "outer_function");
        assert_true(p.lines[0].line < p.lines[1].line);
    }
    assert_true(seen);
    sampler_names_free(n);
}

static void function_of_a_library_has_its_exported_name(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(100);
    struct sampler_place p = find(n, (uint64_t)strtoul + 1);
    assert_int_equal(p.count, 1);
    str name = name_of(n, &p, 0);
    if (!str_contains(name, S("strtoul"))) fail_msg("it is called %.*s", STR(name));
    assert_true(str_contains(sampler_names_module(n, p.module)->file, S(".so")));
    sampler_names_free(n);
}

static void unnamed_code_is_named_by_its_file(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(100);
    struct sampler_place p = find(n, (uint64_t)strtoul);
    uint64_t begin = sampler_names_module(n, p.module)->begin;
    p = find(n, begin);  // its ELF header
    assert_int_equal(p.count, 1);
    assert_true(str_starts(name_of(n, &p, 0), S("[lib")));
    assert_true(str_ends(name_of(n, &p, 0), S("]")));
    sampler_names_free(n);
}

static void addresses_of_nothing_have_no_name(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(100);
    static const uint64_t nowhere[] = {0, 1, 4096, UINT64_MAX, UINT64_C(1) << 63};
    for (size_t i = 0; i < COUNT(nowhere); i++) {
        struct sampler_place p = find(n, nowhere[i]);
        assert_int_equal(p.count, 0);
        assert_int_equal(p.module, UINT32_MAX);
    }
    sampler_names_free(n);
}

static void what_exceeds_the_cap_is_forgotten_and_found_again(void **state)
{
    (void)state;
    struct sampler_names *n = names_new(3);
    for (uint64_t i = 0; i < 3; i++)
        (void)find(n, (uint64_t)outer_function + i);
    sampler_names_trim(n, false);
    assert_int_equal(n->row_count, 3);
    (void)find(n, (uint64_t)outer_function + 3);
    sampler_names_trim(n, false);
    assert_int_equal(n->row_count, 0);
    assert_int_equal(sampler_names_function_count(n), 0);
    assert_true(sampler_names_module_count(n) > 0);
    struct sampler_place p = find(n, (uint64_t)outer_function);
    assert_true(str_is(name_of(n, &p, p.count - 1), "outer_function"));
    sampler_names_free(n);
}

static void memory_is_counted_and_given_back(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "names", NULL, (size_t)64 << 20);
    struct sampler_names *n = NULL;
    assert_ok((n = sampler_names_new(&b, 100, e)) != NULL);
    sampler_names_load(n);
    (void)find(n, (uint64_t)outer_function);
    (void)find(n, (uint64_t)strtoul);
    assert_true(atomic_load(&b.used) > 0);
    sampler_names_free(n);
    assert_int_equal(atomic_load(&b.used), 0);
}

static bool find_three(void *arg, err *e)
{
    (void)arg;
    struct sampler_place p;
    struct sampler_names *n = sampler_names_new(NULL, 100, e);
    bool ok = n && sampler_names_find(n, (uint64_t)outer_function, &p, e) &&
              sampler_names_find(n, (uint64_t)strtoul, &p, e) && sampler_names_find(n, 1, &p, e);
    sampler_names_free(n);
    return ok;
}

static void looking_up_survives_any_refused_memory(void **state)
{
    (void)state;
    assert_true(torture(find_three, NULL) > 0);
}

static void names_of_cxx_are_as_in_their_source(void **state)
{
    (void)state;
    static const struct {
        const char *linked;
        const char *want;  // NULL: not C++
    } cases[] = {
        {"_ZN7rocksdb2DB4OpenEv", "rocksdb::DB::Open()"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi",
         "std::vector<int, std::allocator<int> >::push_back(int const&)"},
        {"main", NULL},
        {"_Zillion", NULL},
        {"_", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *got = sampler_demangle(cases[i].linked);
        if (cases[i].want)
            assert_string_equal(got, cases[i].want);
        else
            assert_null(got);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(function_of_the_program_has_file_and_line),
        cmocka_unit_test(inlined_function_stands_before_its_caller),
        cmocka_unit_test(function_of_a_library_has_its_exported_name),
        cmocka_unit_test(unnamed_code_is_named_by_its_file),
        cmocka_unit_test(addresses_of_nothing_have_no_name),
        cmocka_unit_test(what_exceeds_the_cap_is_forgotten_and_found_again),
        cmocka_unit_test(memory_is_counted_and_given_back),
        cmocka_unit_test(looking_up_survives_any_refused_memory),
        cmocka_unit_test(names_of_cxx_are_as_in_their_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
