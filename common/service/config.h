// SPDX-License-Identifier: Apache-2.0
//
// config.h - settings as rows: one list of rows per section is the source of the struct, the
// parser,
// --help, /config, docs/config.md and the chart's comments.
//
// A section is a file of rows, such as ingester/config.def:
//
//     ROW(head_memory, BYTES, "1GiB", "64MiB", "", false, "Memory for ... .")
//      (key, type, default, lowest, highest ("" = none), reloadable, sentence)
//
// and a struct whose fields have the names of the keys:
//
//     struct ingester_config {
//     #define ROW(key, type, ...) CONFIG_##type key;
//     #include "ingester/config.def"
//     #undef ROW
//     };
//
// A setting ingester.head_memory is section.key in YAML, --ingester.head_memory on the command
// line, and FLAMETREE_INGESTER_HEAD_MEMORY in the environment. A flag takes precedence over the
// environment, that over the file, that over the default. Unknown and repeated keys are errors with
// file and line. Snapshots are immutable. SIGHUP swaps in a new one if it is valid; rows that are
// not reloadable keep their value, which is logged.
#pragma once

#include "service/yaml_node.h"

typedef bool CONFIG_BOOL;
typedef int64_t CONFIG_INT;
typedef double CONFIG_FLOAT;
typedef uint64_t CONFIG_BYTES;      // "64MiB", "10MB", "4096"
typedef int64_t CONFIG_DURATION;    // nanoseconds; "250ms", "1h30m", "31d"
typedef const char *CONFIG_STRING;  // never NULL
typedef struct {
    const char *const *v;
    size_t n;
} CONFIG_LIST;  // of strings; YAML sequence, or comma separated
typedef const struct yaml_node
    *CONFIG_NODE;  // any YAML; flags and environment give it as text; or NULL

enum config_type {
    CONFIG_T_BOOL,
    CONFIG_T_INT,
    CONFIG_T_FLOAT,
    CONFIG_T_BYTES,
    CONFIG_T_DURATION,
    CONFIG_T_STRING,
    CONFIG_T_LIST,
    CONFIG_T_NODE
};

struct config_row {
    const char *key;
    enum config_type type;
    const char *fallback;  // default, as text
    const char *low;
    const char *high;
    bool reload;
    const char *sentence;
    size_t offset;  // in the section's struct
};

struct config_ignored {
    const char *key;
    const char
        *instead;  // what does here what the key is for; NULL: nothing, or nothing need do it
};

struct config_section {
    const char *name;  // "ingester"
    const struct config_row *rows;
    size_t row_count;
    size_t size;  // of the struct

    // Called when all rows are read, to check them together and to derive other fields, in the same
    // arena; or NULL. Faults name file and line (yaml_node_fail).
    bool (*finish)(void *to, struct arena *a, err *e);

    // Keys that are accepted and have no effect, which is logged once per process. Ends with one
    // without a key.
    const struct config_ignored *without_effect;
};

// The rows of a section are an array made from the same file:
//
//     static const struct config_row rows[] = {
//     #define ROW(...) CONFIG_ROW(struct ingester_config, __VA_ARGS__)
//     #include "ingester/config.def"
//     #undef ROW
//     };
//     const struct config_section ingester_section =
//         CONFIG_SECTION("ingester", rows, struct ingester_config);
#define CONFIG_ROW(owner, key_, type_, fallback_, low_, high_, reload_, sentence_) \
    {.key = #key_,                                                                 \
     .type = CONFIG_T_##type_,                                                     \
     .fallback = (fallback_),                                                      \
     .low = (low_),                                                                \
     .high = (high_),                                                              \
     .reload = (reload_),                                                          \
     .sentence = (sentence_),                                                      \
     .offset = offsetof(owner, key_)},

#define CONFIG_SECTION(name_, rows_, type_)                                                 \
    {                                                                                       \
        .name = (name_), .rows = (rows_), .row_count = COUNT(rows_), .size = sizeof(type_), \
    }

struct config;  // all sections of a process, with the current snapshot

// The arguments of the command line that are no settings.
struct config_args {
    const char *file;  // --config FILE, or NULL
    bool check;        // --check-config
    bool help;
    bool version;
    bool print_config_docs;   // --print-config-docs: docs/config.md
    bool print_metrics_docs;  // --print-metrics-docs: docs/metrics.md
};

// The sections are borrowed; their names are distinct. Before config_load nothing can be read.
struct config *config_new(const struct config_section *const *sections, size_t n);
void config_free(struct config *c);

// Reads flags, environment and file. Fails with invalid_argument naming the key, its source (file
// and line), the bound and the value. With --help, --version or --print-* only flags are read. argv
// is borrowed until config_free.
bool config_load(struct config *c, int argc, char **argv, struct config_args *args,
                 err *e) MUST_CHECK;

// Reads file and environment again (flags are kept). On failure the old snapshot stays.
bool config_reload(struct config *c, err *e) MUST_CHECK;

// The current struct of a section; NULL if the process has no such section. Valid until
// config_free: old snapshots are kept, because reloads are rare and a snapshot is small, so readers
// need no reference counts. Any thread.
const void *config_section(const struct config *c, const char *name);

// A duration of another service, to be compared with an own setting. False: this process does not
// have that service.
bool config_other_duration(const struct config *c, str section, str key, int64_t *ns);

// The limits of tenants for this config (tenant.h), or NULL. To be set before other threads read.
struct tenants;
void config_set_tenants(struct config *c, struct tenants *t);
struct tenants *config_tenants(const struct config *c);

// The name of the environment variable of a setting, by number. False, and nothing is written, from
// config_variable_count on.
size_t config_variable_count(const struct config *c);
bool config_variable(const struct config *c, size_t number, char *name, size_t size);

// The number of times that settings were read. Code that caches values derived from them compares
// it.
uint64_t config_version(const struct config *c);

// Effective settings as YAML that --config reads; secrets (keys ending in _secret, _password, _key)
// as "<hidden>".
void config_print(const struct config *c, struct buf *out);

// The same for settings that differ from their defaults; and all settings with their defaults. Fail
// with resource_exhausted.
bool config_print_diff(const struct config *c, struct buf *out, err *e) MUST_CHECK;
bool config_print_defaults(const struct config *c, struct buf *out, err *e) MUST_CHECK;
void config_print_help(const struct config *c, struct buf *out);
void config_print_markdown(const struct config *c, struct buf *out);  // docs/config.md

// Reads a map into a struct by the section's rows, then calls the section's finish. Errors name
// file, line and path: unknown and repeated keys, bad values, keys without value. Fields whose keys
// are not given stay as they are in `to`. The section need not belong to a config: rules in a list
// are read in this way.
bool config_read(const struct config_section *s, const struct yaml_node *map, void *to,
                 struct arena *a, err *e) MUST_CHECK;

// The defaults of all rows, without finish.
bool config_defaults(const struct config_section *s, void *to, struct arena *a, err *e) MUST_CHECK;

// The values of a section's struct as lines "key: value", each after `indent`; secrets hidden. With
// `than` only rows that differ from it.
void config_print_section(const struct config_section *s, const void *of, const void *than,
                          const char *indent, struct buf *out);

// The parsers of values, for the overrides file and flags elsewhere.
bool config_bytes(str text, uint64_t *v, err *e) MUST_CHECK;
bool config_duration(str text, int64_t *ns, err *e) MUST_CHECK;
