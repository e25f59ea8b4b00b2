// SPDX-License-Identifier: Apache-2.0
//
// relabel.h - relabelling rules, as in Prometheus.
//
// A rule joins the values of its source labels with a separator and does what its action says:
//
//     replace            if the regex matches, target = replacement, both with $1 and ${name}
//                        of the match; an empty result removes the target
//     lowercase uppercase  target = the joined values in that case
//     hashmod            target = last 8 bytes of the MD5 of the joined values, modulo modulus
//     keep drop          the set is dropped unless, or if, the regex matches
//     keepequal dropequal  the same, comparing the joined values with the target's value
//     labelmap           a label whose name matches is copied to the name that replacement gives
//     labeldrop labelkeep  labels whose name matches, or does not, are removed
//
// Regexes match whole values in linear time (base/regex.h), so a rule takes time linear in the set.
// A label set is sorted by name. A name that a rule sets is there once, even if it was there
// several times before.
//
// Rules are compiled once and then only read: any number of threads may run them.
#pragma once

#include "model/label.h"

// A rule as it is in the configuration. Strings that are not given have p == NULL.
struct relabel_config {
    str action;  // not given: replace
    const str *source_labels;
    size_t source_count;
    str separator;  // not given: ;
    str regex;      // not given: (.*)
    bool has_modulus;
    uint64_t modulus;
    str target_label;
    str replacement;  // not given: $1
};

struct relabel_rule;

struct relabel_rules {
    const struct relabel_rule *v;
    size_t n;
};

// Whether the default rules run before or behind a tenant's own, or not at all.
enum relabel_position {
    RELABEL_DEFAULTS_FIRST,
    RELABEL_DEFAULTS_LAST,
    RELABEL_DEFAULTS_DISABLED
};

// "first" (also empty), "last" or "disabled". Fails with invalid_argument.
bool relabel_position_parse(str text, enum relabel_position *out, err *e) MUST_CHECK;

// Compiles rules into the arena, which owns everything, copies of the strings included. Fails with
// invalid_argument, naming field and value, with *at the rule; or with resource_exhausted.
bool relabel_compile(struct arena *a, const struct relabel_config *rules, size_t n,
                     struct relabel_rules *out, size_t *at, err *e) MUST_CHECK;

// `rules` with Pyroscope's default rules (names of godeltaprof, wall time that is CPU time) before
// or behind them: the rules of the setting ingestion_relabeling_rules.
bool relabel_with_defaults(struct arena *a, const struct relabel_rules *rules,
                           enum relabel_position where, struct relabel_rules *out,
                           err *e) MUST_CHECK;

// Whether they only keep and drop, as rules for sample types must. If not, *at is the first rule
// that does something else.
bool relabel_only_filters(const struct relabel_rules *rules, size_t *at);

// Limits of the texts that rules make, joined source labels included: of one text, and of all texts
// for one set.
#define RELABEL_TEXT_MAX ((size_t)64 << 10)
#define RELABEL_ALL_MAX  ((size_t)4 << 20)

// Runs rules over a sorted set. *out is sorted and in the arena, or the given set if nothing was
// changed; *keep is false if a rule dropped the set, and then *out means nothing. Fails with
// invalid_argument if a text gets too long, or resource_exhausted.
bool relabel_run(struct arena *a, const struct relabel_rules *rules, labels in, labels *out,
                 bool *keep, err *e) MUST_CHECK;

// Letters in the other case, by Unicode's simple mappings of one character to one. Bytes that are
// not UTF-8 stay. Empty if the arena is exhausted.
str relabel_lower(struct arena *a, str s);
str relabel_upper(struct arena *a, str s);
