// SPDX-License-Identifier: Apache-2.0
//
// Relabelling rules as a tenant's limits have them: YAML to compiled rules, faults with their line.
#include "lib/arena.h"
#include "model/relabel.h"
#include "service/limits.h"

static bool read_limits(const char *yaml, struct limits *l, err *e)
{
    struct yaml_node *root = NULL;
    *l = (struct limits){0};
    return yaml_node_parse(str_of(yaml), "o.yaml", &arena, &root, e) &&
           config_defaults(&limits_section, l, &arena, e) &&
           config_read(&limits_section, root, l, &arena, e);
}

static const struct {
    const char *name;
    const char *yaml;
    size_t rules;
    size_t type_rules;
} good[] = {
    {"none", "max_label_name_length: 5\n", 5, 0},
    {"disabled", "ingestion_relabeling_default_rules_position: disabled\n", 0, 0},
    {"two and five",
     "ingestion_relabeling_rules:\n"
     "  - {action: drop, source_labels: [__name__, span_name], separator: /, regex: a/b}\n"
     "  - {action: hashmod, source_labels: [a], modulus: 7, target_label: m}\n"
     "ingestion_relabeling_default_rules_position: last\n",
     7, 0},
    {"types", "sample_type_relabeling_rules: [{action: keep, source_labels: [__type__]}]\n", 5, 1},
    {"empty lists", "ingestion_relabeling_rules: []\nsample_type_relabeling_rules: []\n", 5, 0},
};

static void rules_are_compiled_with_the_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct limits l;
        err why = {0};
        if (!read_limits(good[i].yaml, &l, &why)) fail_msg("%s: %s", good[i].name, why.msg);
        if (l.relabel->n != good[i].rules || l.relabel_types->n != good[i].type_rules) {
            fail_msg("%s: %zu and %zu", good[i].name, l.relabel->n, l.relabel_types->n);
        }
    }
}

#define RULES "ingestion_relabeling_rules:\n  - {action: drop}\n  - "

static const struct {
    const char *name;
    const char *yaml;
    const char *message;  // a part
} bad[] = {
    {"no list", "ingestion_relabeling_rules: x\n", "must be a list of rules"},
    {"no map", RULES "drop\n", "[1]: must be a rule"},
    {"unknown key", RULES "{acton: drop}\n", "[1].acton: unknown key"},
    {"line", RULES "action: drop\n    regex: (\n",
     "o.yaml:3: ingestion_relabeling_rules[1]: regex: "
     "error parsing regexp: missing ): ("},
    {"unknown action", RULES "{action: flip}\n", "[1]: action: unknown relabel action \"flip\""},
    {"sources", RULES "{source_labels: a}\n", "[1].source_labels: must be a list of label names"},
    {"source", RULES "{source_labels: [[a]]}\n", "[1].source_labels[0]: must be a label name"},
    {"sources twice", RULES "{source_labels: [a, b, c], source_labels: [d]}\n",
     "[1].source_labels: given twice"},
    {"modulus twice", RULES "{modulus: 1, modulus: 2}\n", "[1].modulus: given twice"},
    {"modulus", RULES "{modulus: -1}\n", "[1].modulus: must be a whole number"},
    {"text", RULES "{regex: [a]}\n", "[1].regex: must be a text"},
    {"position", "ingestion_relabeling_default_rules_position: middle\n",
     "ingestion_relabeling_default_rules_position: \"middle\" is not first, last or disabled"},
    {"types", "sample_type_relabeling_rules:\n  - {target_label: a}\n",
     "o.yaml:2: sample_type_relabeling_rules[0]: action: sample types can only be dropped or kept"},
};

static void faults_are_told_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct limits l;
        err why = {0};
        if (read_limits(bad[i].yaml, &l, &why)) fail_msg("%s is taken", bad[i].name);
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
        if (!strstr(why.msg, bad[i].message)) fail_msg("%s: %s", bad[i].name, why.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(rules_are_compiled_with_the_limits),
        ARENA_TEST(faults_are_told_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
