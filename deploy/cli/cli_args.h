// SPDX-License-Identifier: Apache-2.0
//
// cli_args.h - a command line read by the rows of cli.def.
//
// getopt_long reads the words. Options may stand anywhere after the command (and those of a server
// before it), as --name value, --name=value, -n value or -nvalue; letters of flags may be joined in
// one word. All words after "--" are operands, and so is "-". getopt_long's abbreviations of long
// names are refused. If an option is given twice, the last one counts, unless its argument may be
// repeated. Borrows argv. Main thread only, because getopt_long has global state.
#pragma once

#include "base/err.h"
#include "deploy/cli/cli_rows.h"

struct cli_given {
    enum cli_option option;
    const char *value;  // "" of a flag
};

struct cli_args {
    enum cli_command command;
    struct cli_given *given;
    size_t given_count;
    const char **operands;
    size_t operand_count;
};

// Is this command line for the client (a command, or an option of it)? Without arguments, or with
// settings only, it is for the server.
bool cli_args_are_ours(int argc, char **argv);

// Fails with invalid_argument: unknown command or option (with the nearest one), missing or
// superfluous value, a value that is none of the choices, too few or too many operands. Must be
// released in any case.
bool cli_args_parse(struct cli_args *a, int argc, char **argv, err *e) MUST_CHECK;
void cli_args_release(struct cli_args *a);

// The value of an option: given, or from the environment, or the default; NULL if there is none.
const char *cli_args_get(const struct cli_args *a, enum cli_option o);
bool cli_args_has(const struct cli_args *a, enum cli_option o);  // was it given?

// The values of a repeated option one by one; start with *at = 0. NULL at the end.
const char *cli_args_next(const struct cli_args *a, enum cli_option o, size_t *at);

// A whole number within bounds; *v stays as it is if there is no value. Fails naming the option.
bool cli_args_number(const struct cli_args *a, enum cli_option o, uint64_t low, uint64_t high,
                     uint64_t *v, err *e) MUST_CHECK;
// The same for a decimal fraction.
bool cli_args_fraction(const struct cli_args *a, enum cli_option o, double low, double high,
                       double *v, err *e) MUST_CHECK;
