// SPDX-License-Identifier: Apache-2.0
//
// label.h - labels, label sets, and matchers over them.
//
// A label set is a sorted array of (name, value), names unique, both UTF-8, values not empty. It is
// a value that owns nothing; its memory belongs to the arena or table that made it. A series is a
// label set with __profile_type__. The fingerprint is XXH64 over name 0xff value 0xff of each label
// in order; sets with equal fingerprints are still compared label by label.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/regex.h"

typedef struct {
    str name;
    str value;
} label;

typedef struct {
    const label *v;
    size_t n;
} labels;

#define LABEL_PROFILE_TYPE "__profile_type__"
#define LABEL_SERVICE      "service_name"
#define LABEL_NAME         "__name__"
#define LABEL_SAMPLED      "__sampled__"

// Sorts by name in place; equal names keep their order (validation finds them).
void labels_sort(label *v, size_t n);

// The value of a name; empty if absent, as matchers have it.
str labels_get(labels ls, str name);
bool labels_has(labels ls, str name);

// The place of a name in sorted labels, or where it would be; of equal names the first.
size_t labels_place(labels ls, str name);

int label_order(const void *a, const void *b);  // for qsort: by name, then value
int labels_cmp(labels a, labels b);             // label by label in that order
bool labels_eq(labels a, labels b);
uint64_t labels_fingerprint(labels ls);

// The hash for tables, with a secret key: fingerprints have none, and clients could make sets with
// equal ones.
uint64_t labels_hash(labels ls);

// {a="b", c="d"} with values quoted as Go quotes strings; for messages.
void labels_print(labels ls, struct buf *out);

// "s" as Go's %q prints it: with escapes for quotes, controls, bytes that are not UTF-8, and
// invisible characters.
void label_quote(str s, struct buf *out);

// The wire form: each label as a message of name and value (LabelPair, Label, Annotation) in
// `field`; or all labels as one message with these in its field 1 (Labels).
void labels_put(labels ls, struct buf *out, uint32_t field);
void labels_put_set(labels ls, struct buf *out, uint32_t field);

// Reads one message of a label; and a message Labels, sorted, with its array in the arena. Strings
// borrow from the bytes. Names may come twice, values may be empty.
bool label_decode(str bytes, label *out, err *e) MUST_CHECK;
bool labels_decode_set(struct arena *a, str bytes, labels *out, err *e) MUST_CHECK;

// A copy in the arena, strings included.
labels labels_copy(struct arena *a, labels ls);

// Whether it is a name as old versions of Prometheus have it: [a-zA-Z_][a-zA-Z0-9_]*
bool label_name_is_legacy(str name);

// ---- matchers
enum matcher_op {
    MATCH_EQ,
    MATCH_NEQ,
    MATCH_RE,
    MATCH_NRE
};

struct matcher {
    enum matcher_op op;
    str name;
    str value;
    const struct regex *re;  // of MATCH_RE and MATCH_NRE, owned by the arena
    size_t at;               // of its value in the text that was parsed; for messages
};

// Limits of a query's matchers. Both numbers are checked before the first regex is compiled.
struct selector_most {
    int64_t matchers;  // 0: any number
    int64_t regexes;   // matchers with =~ or !~; 0: any number
    const char *matchers_setting;
    const char *regexes_setting;
    // Whether to go on. Asked before a regex is compiled and, depending on their cost, between
    // values that are matched. NULL: always.
    bool (*alive)(const void *arg, err *e);
    const void *arg;
};

// All of them must hold.
struct selector {
    struct matcher *v;
    size_t n;
    size_t cap;                        // room in v; selector_add's
    const struct selector_most *most;  // borrowed; NULL: no limits
};

// A PromQL vector selector without range or offset: [metric]{name op "value", ...}; quotes ", ' or
// `; ops = != =~ !~; quoted UTF-8 names; "{}" is everything; the empty text is an error. A metric
// name becomes __name__="metric". Fails with invalid_argument naming position and reason. Matchers
// are appended to *sel; memory is the arena's, and regexes count against the arena's budget. A
// pattern that *sel has already is not compiled again.
bool selector_parse(struct arena *a, str text, struct selector *sel, err *e) MUST_CHECK;
bool selector_add(struct arena *a, struct selector *sel, enum matcher_op op, str name, str value,
                  err *e) MUST_CHECK;

// One more matcher, compiled already, whose memory outlives *sel.
bool selector_add_known(struct arena *a, struct selector *sel, const struct matcher *m,
                        err *e) MUST_CHECK;

// Whether the value matches. For many values: asks `alive` now and then, and fails with its error,
// or with resource_exhausted.
bool matcher_test(const struct selector *sel, const struct matcher *m, str value, bool *matches,
                  err *e) MUST_CHECK;
