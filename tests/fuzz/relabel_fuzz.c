// SPDX-License-Identifier: Apache-2.0
//
// Relabelling rules and a label set, as lines of fields between tabs: "r action sources separator
// regex target replacement modulus" and "l name value". Properties: what was sorted and free of
// repetition stays so; keep and drop with the same regex disagree; labeldrop and labelkeep share
// the set between them; a rule that removes or filters does nothing when run again.
#include "fuzz/bound.h"
#include "model/relabel.h"

#include <stdlib.h>

#define MANY 16

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Sixteen rules, each with a program of the largest size, compiled a few times.
FUZZ_BOUND_MS(2000);

struct input {
    struct relabel_config rules[MANY];
    str sources[MANY][MANY];
    label set[MANY];
    size_t rule_count;
    size_t label_count;
};

static void read_rule(struct input *in, str line)
{
    struct relabel_config *c = &in->rules[in->rule_count];
    str *sources = in->sources[in->rule_count++];
    str *fields[] = {&c->action, NULL, &c->separator, &c->regex, &c->target_label, &c->replacement};
    *c = (struct relabel_config){.source_labels = sources};
    for (size_t i = 0; i < COUNT(fields) && line.p; i++) {
        str field = str_split(line, '\t', &line);
        if (fields[i] && field.n) *fields[i] = field;
        while (!fields[i] && field.n && c->source_count < MANY) {
            sources[c->source_count++] = str_split(field, ',', &field);
        }
    }
    c->has_modulus = line.p && str_u64(line, &c->modulus);
}

static void read_input(struct input *in, str text)
{
    while (text.n) {
        str line = str_split(text, '\n', &text);
        str kind = str_split(line, '\t', &line);
        if (str_is(kind, "r") && in->rule_count < MANY) read_rule(in, line);
        if (!str_is(kind, "l") || in->label_count == MANY) continue;
        label one = {.name = str_split(line, '\t', &line), .value = line};
        bool there = labels_has((labels){in->set, in->label_count}, one.name);
        if (!there && one.value.n) in->set[in->label_count++] = one;
    }
    labels_sort(in->set, in->label_count);
}

static bool relabel(struct arena *a, const struct relabel_config *c, size_t n, labels in,
                    labels *out, bool *keep)
{
    struct relabel_rules rules;
    size_t at = 0;
    err e = {0};
    return relabel_compile(a, c, n, &rules, &at, &e) && relabel_run(a, &rules, in, out, keep, &e);
}

static void check_set(labels ls)
{
    for (size_t i = 0; i < ls.n; i++) {
        CHECK(ls.v[i].value.n > 0);
        CHECK(i == 0 || str_cmp(ls.v[i - 1].name, ls.v[i].name) < 0);
    }
}

static void check_filters(struct arena *a, const struct relabel_config *c, labels in)
{
    struct relabel_config keep = *c;
    struct relabel_config drop = *c;
    labels out;
    bool kept = false;
    bool not_dropped = false;
    keep.action = S("keep");
    drop.action = S("drop");
    if (!relabel(a, &keep, 1, in, &out, &kept) || !relabel(a, &drop, 1, in, &out, &not_dropped))
        return;
    CHECK(kept != not_dropped);
    CHECK(labels_eq(in, out));
}

static void check_names(struct arena *a, str regex, labels in)
{
    struct relabel_config drop = {.action = S("labeldrop"), .regex = regex};
    struct relabel_config keep = {.action = S("labelkeep"), .regex = regex};
    labels dropped;
    labels kept;
    labels again;
    bool yes = false;
    if (!relabel(a, &drop, 1, in, &dropped, &yes) || !relabel(a, &keep, 1, in, &kept, &yes)) return;
    CHECK(dropped.n + kept.n == in.n);
    if (!relabel(a, &drop, 1, dropped, &again, &yes)) return;
    CHECK(labels_eq(dropped, again));
    if (relabel(a, &drop, 1, kept, &again, &yes)) CHECK(again.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct input in = {0};
    arena_init(&a, NULL, 64 << 20);
    read_input(&in, str_make(data, size));
    labels set = {in.set, in.label_count};
    labels out;
    bool keep = false;
    if (relabel(&a, in.rules, in.rule_count, set, &out, &keep) && keep) check_set(out);
    for (size_t i = 0; i < in.rule_count; i++) {
        check_filters(&a, &in.rules[i], set);
        check_names(&a, in.rules[i].regex, set);
    }
    check_set(set);
    arena_release(&a);
    return 0;
}
