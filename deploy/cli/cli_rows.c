// SPDX-License-Identifier: Apache-2.0
//
// cli_rows.c - cli.def expanded into tables, and the row that is most like a misspelt word.
#include "deploy/cli/cli_rows.h"

#define ON(id) (UINT64_C(1) << CLI_##id)
#define RANGED \
    (ON(QUERY) | ON(SERIES) | ON(LABELS) | ON(TYPES) | ON(DIFF) | ON(EXPORT) | ON(IMPORT))
#define REMOTE                                                                           \
    (RANGED | ON(PUSH) | ON(TOP) | ON(READY) | ON(STREAM_LS) | ON(STREAM_SHOW) |         \
     ON(STREAM_FORGET) | ON(STREAM_FORGOTTEN) | ON(STREAM_RECOVER) | ON(STREAM_REMOVE) | \
     ON(PLACE) | ON(DELETE) | ON(TENANT_DELETE) | ON(DELETIONS))

#define BLOCKS (ON(BLOCK_LS) | ON(BLOCK_SHOW) | ON(BLOCK_VERIFY))

#define FILES (ON(FLAME) | ON(CONVERT))

#define COPIES (ON(BACKUP) | ON(RESTORE))

#define MANIFESTS (ON(MANIFEST_SHOW) | ON(MANIFEST_VERIFY))

// "auto|pprof|...": --format of push offers what works.
static const char push_formats[] = "auto"
#define WORKS_0(name)
#define WORKS_1(name)                        "|" name
#define FORMAT(id, name, ending, works, ...) WORKS_##works(name)
#include "decode/formats.def"
    ;

#define WORD_MAX 32  // longer words are like none of ours

const struct cli_command_row cli_commands[CLI_COMMAND_COUNT] = {
#define COMMAND(id, name, operands, summary, text) {name, operands, summary, text},
#include "deploy/cli/cli.def"
};

const struct cli_option_row cli_options[CLI_OPTION_COUNT] = {
#define OPTION(id, commands, name, letter, argument, fallback, variable, sentence) \
    {commands, name, letter, argument, fallback, variable, sentence},
#include "deploy/cli/cli.def"
};

const struct cli_example_row cli_examples[] = {
#define EXAMPLE(command, line, what) {CLI_##command, line, what},
#include "deploy/cli/cli.def"
};
const size_t cli_example_count = COUNT(cli_examples);

const struct cli_status_row cli_statuses[] = {
#define STATUS(number, when) {number, when},
#include "deploy/cli/cli.def"
};
const size_t cli_status_count = COUNT(cli_statuses);

const struct cli_variable_row cli_variables[] = {
#define VARIABLE(name, sentence) {name, sentence},
#include "deploy/cli/cli.def"
};
const size_t cli_variable_count = COUNT(cli_variables);

static_assert(CLI_COMMAND_COUNT <= 64, "a command is a bit");

bool cli_option_is_common(enum cli_option o)
{
    // The table has them at its end.
    assert(o < CLI_OPTION_COUNT);
    return o >= OPT_URL;
}

struct cli_words cli_command_words(enum cli_command c)
{
    assert(c < CLI_COMMAND_COUNT);
    struct cli_words w = {0};
    str before = {0};
    w.first = str_split(str_of(cli_commands[c].name), ' ', &w.second);
    if (c > 0) before = str_split(str_of(cli_commands[c - 1].name), ' ', &(str){0});
    // Commands with the same first word lie side by side in the table.
    w.is_head = !str_eq(before, w.first);
    return w;
}

void cli_put_seconds(struct buf *b, str first, const char *between)
{
    assert(first.n > 0);
    bool any = false;
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.second.n == 0 || !str_eq(w.first, first)) continue;
        if (any) buf_z(b, between);
        buf_str(b, w.second);
        any = true;
    }
}

bool cli_choice_next(str *rest, str *choice)
{
    if (!rest->p) return false;
    // str_split leaves a rest without a pointer behind the last part, which ends the next call.
    *choice = str_split(*rest, '|', rest);
    return true;
}

struct nearest {
    const char *name;
    unsigned distance;
};

static void consider(struct nearest *best, str text, const char *name)
{
    str n = str_of(name);
    // The distance takes time with the product of the lengths.
    if (text.n == 0 || text.n > WORD_MAX || n.n > WORD_MAX) return;
    unsigned d = str_distance(text, n);
    if (text.n >= 3 && str_starts(n, text)) d = 1;  // an abbreviation
    // A third of the letters may be wrong, and one in short words; more is no help but a guess. Of
    // equals the first in the table counts.
    if (d > 1 + MIN(text.n, n.n) / 3 || (best->name && d >= best->distance)) return;
    *best = (struct nearest){name, d};
}

const char *cli_nearest_command(str text)
{
    struct nearest best = {0};
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        consider(&best, text, cli_commands[i].name);
    return best.name;
}

const char *cli_nearest_option(enum cli_command c, str text)
{
    assert(c < CLI_COMMAND_COUNT);
    struct nearest best = {0};
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_option_is_for(&cli_options[i], c)) consider(&best, text, cli_options[i].name);
    }
    return best.name;
}
