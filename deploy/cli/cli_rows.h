// SPDX-License-Identifier: Apache-2.0
//
// cli_rows.h - the rows of cli.def as tables. Pure.
#pragma once

#include "base/buf.h"

enum cli_command {
#define COMMAND(id, ...) CLI_##id,
#include "deploy/cli/cli.def"
    CLI_COMMAND_COUNT
};

enum cli_option {
#define OPTION(id, ...) OPT_##id,
#include "deploy/cli/cli.def"
    CLI_OPTION_COUNT
};

struct cli_command_row {
    const char *name;      // one or two words
    const char *operands;  // as shown
    const char *summary;
    const char *text;
};

struct cli_option_row {
    uint64_t commands;  // bit of each command that takes it
    const char *name;   // without "--"
    char letter;        // or 0
    const char *argument;
    const char *fallback;
    const char *variable;  // of the environment, or ""
    const char *sentence;
};

struct cli_example_row {
    enum cli_command command;
    const char *line;
    const char *what;
};

struct cli_status_row {
    int number;
    const char *when;
};

struct cli_variable_row {
    const char *name;
    const char *sentence;
};

extern const struct cli_command_row cli_commands[CLI_COMMAND_COUNT];
extern const struct cli_option_row cli_options[CLI_OPTION_COUNT];
extern const struct cli_example_row cli_examples[];
extern const size_t cli_example_count;
extern const struct cli_status_row cli_statuses[];
extern const size_t cli_status_count;
extern const struct cli_variable_row cli_variables[];
extern const size_t cli_variable_count;

static inline bool cli_option_is_for(const struct cli_option_row *o, enum cli_command c)
{
    return (o->commands >> c & 1) != 0;
}

// Commands of two words with the same first word are neighbours in the table, as `block ls` and
// `block show`.
struct cli_words {
    str first;
    str second;    // empty of a command of one word
    bool is_head;  // the first row with this first word
};
struct cli_words cli_command_words(enum cli_command c);

// The second words of a first word, as "ls|show|verify" with `between` for '|'; empty if it has
// none.
void cli_put_seconds(struct buf *b, str first, const char *between);

// Is it an option of all requests to a server? Help shows those separately.
bool cli_option_is_common(enum cli_option o);

// Takes the first choice of "a|b|c" off *rest. False at the end, or if it is no list of choices.
bool cli_choice_next(str *rest, str *choice);
static inline bool cli_has_choices(const char *argument)
{
    return strchr(argument, '|') != NULL;
}
// May the flag have a value after "="?
static inline bool cli_is_optional(const char *argument)
{
    return argument[0] == '[';
}
static inline bool cli_is_repeated(const char *argument)
{
    return str_ends(str_of(argument), S("..."));
}

// The command, or the option of a command, whose name is most similar to `text`; NULL if none is.
// For "did you mean".
const char *cli_nearest_command(str text);
const char *cli_nearest_option(enum cli_command c, str text);
