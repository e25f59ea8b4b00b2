// SPDX-License-Identifier: Apache-2.0
//
// Scripts that complete commands, options and choices; where a file is wanted, names of files.
#include "deploy/flametree/cli_help.h"

static bool wants_file(const char *argument)
{
    return str_contains(str_of(argument), S("FILE"));
}

// Do all commands' words of this kind complete as files?
static bool takes_files(enum cli_command c)
{
    return wants_file(cli_commands[c].operands);
}

static void put_choices(struct buf *b, const char *argument)
{
    str rest = str_of(argument);
    str choice = {0};
    for (bool first = true; cli_choice_next(&rest, &choice); first = false) {
        if (!first) buf_byte(b, ' ');
        buf_str(b, choice);
    }
}

// What a command does; of several with one first word, which they are.
static void put_summary(struct buf *b, enum cli_command c, void (*put)(struct buf *b, const char *))
{
    bool alone = c + 1 == CLI_COMMAND_COUNT || cli_command_words((enum cli_command)(c + 1)).is_head;
    if (alone) {
        put(b, cli_commands[c].summary);
        return;
    }
    struct buf seconds;
    buf_init(&seconds, NULL, 200);
    cli_put_seconds(&seconds, cli_command_words(c).first, ", ");
    buf_byte(&seconds, '\0');
    if (seconds.n) put(b, seconds.p);
    buf_release(&seconds);
}

// ---- bash

static void bash_command(struct buf *b, enum cli_command c)
{
    const char *name = cli_commands[c].name;
    buf_printf(b, "    '%s')\n        case $prev in\n", name);
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if (!cli_option_is_for(o, c) || !o->argument[0] || cli_is_optional(o->argument)) continue;
        buf_printf(b, "        --%s", o->name);
        if (o->letter) buf_printf(b, " | -%c", o->letter);
        buf_z(b, ") ");
        if (cli_has_choices(o->argument)) {
            buf_z(b, "COMPREPLY=($(compgen -W '");
            put_choices(b, o->argument);
            buf_z(b, "' -- \"$cur\"))");
        } else if (wants_file(o->argument)) {
            buf_z(b, "COMPREPLY=($(compgen -f -- \"$cur\"))");
        } else {
            buf_z(b, ":");
        }
        buf_z(b, "; return ;;\n");
    }
    buf_z(b, "        esac\n        words='");
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_option_is_for(&cli_options[i], c)) buf_printf(b, "--%s ", cli_options[i].name);
    }
    buf_z(b, "'\n        operands='");
    if (cli_has_choices(cli_commands[c].operands)) put_choices(b, cli_commands[c].operands);
    if (c == CLI_HELP) {
        for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
            buf_printf(b, "%s ", cli_commands[i].name);
    }
    buf_printf(b, "'\n        files=%s ;;\n", takes_files(c) ? "1" : "");
}

// 'config check' | ...
static void bash_pairs(struct buf *b)
{
    bool any = false;
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_words((enum cli_command)i).second.n == 0) continue;
        buf_printf(b, "%s'%s'", any ? " | " : "", cli_commands[i].name);
        any = true;
    }
}

static void bash(struct buf *b)
{
    buf_z(b, "# bash completion of flametree; printed by: flametree completion bash\n"
             "_flametree() {\n"
             "    local cur prev command words operands files i\n"
             "    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=\n"
             "    COMPREPLY=()\n"
             "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "        case ${COMP_WORDS[i]} in\n"
             "        -*) ;;\n"
             "        *)\n"
             "            command=${COMP_WORDS[i]}\n"
             "            ((i + 1 < COMP_CWORD)) && case \"$command ${COMP_WORDS[i + 1]}\" in\n"
             "            ");
    bash_pairs(b);
    buf_z(b, ") command+=\" ${COMP_WORDS[i + 1]}\" ;;\n"
             "            esac\n"
             "            break ;;\n"
             "        esac\n"
             "    done\n"
             "    case $command in\n"
             "    '') COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head) buf_printf(b, "%.*s ", STR(w.first));
    }
    buf_z(b, "--help --version --config --check-config' -- \"$cur\")); return ;;\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head && w.second.n) {
            buf_printf(b, "    %.*s) COMPREPLY=($(compgen -W '", STR(w.first));
            cli_put_seconds(b, w.first, " ");
            buf_z(b, "' -- \"$cur\")); return ;;\n");
        }
        bash_command(b, (enum cli_command)i);
    }
    buf_z(b, "    *) return ;;\n"
             "    esac\n"
             "    case $cur in\n"
             "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
             "    *)\n"
             "        COMPREPLY=($(compgen -W \"$operands\" -- \"$cur\"))\n"
             "        [ -z \"$files\" ] || COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
             "    esac\n"
             "}\n"
             "complete -o filenames -F _flametree flametree\n");
}

// ---- zsh

// Text inside '...[...]': quotes end the word, brackets and colons the part.
static void zsh_text(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_z(b, "'\\''");
        else if (strchr("[]:\\", *text))
            buf_printf(b, "\\%c", *text);
        else
            buf_byte(b, (unsigned char)*text);
    }
}

static void zsh_option(struct buf *b, const struct cli_option_row *o)
{
    const char *repeat = cli_is_repeated(o->argument) ? "*" : "";
    if (o->letter)
        buf_printf(b, " '%s'{-%c,--%s}'[", repeat, o->letter, o->name);
    else
        buf_printf(b, " '%s--%s[", repeat, o->name);
    zsh_text(b, o->sentence);
    buf_byte(b, ']');
    if (o->argument[0] && !cli_is_optional(o->argument)) {
        buf_z(b, ":");
        zsh_text(b, cli_has_choices(o->argument) ? o->name : o->argument);
        buf_z(b, ":");
    }
    if (cli_has_choices(o->argument)) {
        buf_z(b, "(");
        put_choices(b, o->argument);
        buf_z(b, ")");
    } else if (wants_file(o->argument)) {
        buf_z(b, "_files");
    }
    buf_byte(b, '\'');
}

static void zsh_command(struct buf *b, enum cli_command c)
{
    buf_printf(b, "    '%s') _arguments", cli_commands[c].name);
    for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
        if (cli_option_is_for(&cli_options[k], c)) zsh_option(b, &cli_options[k]);
    }
    if (takes_files(c)) buf_z(b, " '*:file:_files'");
    if (cli_has_choices(cli_commands[c].operands)) {
        buf_z(b, " '1:which:(");
        put_choices(b, cli_commands[c].operands);
        buf_z(b, ")'");
    }
    buf_z(b, " ;;\n");
}

static void zsh(struct buf *b)
{
    buf_z(b, "#compdef flametree\n# zsh completion of flametree; printed by: flametree completion "
             "zsh\n_flametree() {\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (!w.is_head) continue;
        buf_printf(b, " '%.*s:", STR(w.first));
        put_summary(b, (enum cli_command)i, zsh_text);
        buf_z(b, "'");
    }
    buf_z(b, ")\n    if ((CURRENT == 2)); then _describe command commands; return; fi\n"
             "    local command=${words[2]}\n    shift words; ((CURRENT--))\n"
             "    case $command in\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head && w.second.n) {
            buf_printf(b, "    %.*s)\n        if ((CURRENT == 2)); then compadd ", STR(w.first));
            cli_put_seconds(b, w.first, " ");
            buf_printf(b,
                       "; return; fi\n        command=\"%.*s ${words[2]}\"\n"
                       "        shift words; ((CURRENT--)) ;;\n",
                       STR(w.first));
        }
    }
    buf_z(b, "    esac\n    case $command in\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        zsh_command(b, (enum cli_command)i);
    buf_z(b, "    esac\n}\n_flametree \"$@\"\n");
}

// ---- fish

static void fish_text(struct buf *b, const char *text)
{
    buf_byte(b, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') buf_byte(b, '\\');
        buf_byte(b, (unsigned char)*text);
    }
    buf_byte(b, '\'');
}

// The condition that this command was given.
static void fish_given(struct buf *b, struct cli_words w)
{
    buf_printf(b, "__fish_seen_subcommand_from %.*s", STR(w.first));
    if (w.second.n) buf_printf(b, "; and __fish_seen_subcommand_from %.*s", STR(w.second));
}

static void fish_option(struct buf *b, struct cli_words w, const struct cli_option_row *o)
{
    buf_z(b, "complete -c flametree -n '");
    fish_given(b, w);
    buf_printf(b, "' -l %s", o->name);
    if (o->letter) buf_printf(b, " -s %c", o->letter);
    bool flag = !o->argument[0] || cli_is_optional(o->argument);
    if (!flag) buf_z(b, " -r");
    if (!flag && !wants_file(o->argument)) buf_z(b, " -f");
    if (cli_has_choices(o->argument)) {
        buf_z(b, " -a '");
        put_choices(b, o->argument);
        buf_byte(b, '\'');
    }
    buf_z(b, " -d ");
    fish_text(b, o->sentence);
    buf_byte(b, '\n');
}

// The first word of a command, and of a command of two words those that may follow.
static void fish_head(struct buf *b, enum cli_command c)
{
    struct cli_words w = cli_command_words(c);
    buf_printf(b, "complete -c flametree -f -n __fish_use_subcommand -a %.*s -d ", STR(w.first));
    put_summary(b, c, fish_text);
    buf_byte(b, '\n');
    if (w.second.n == 0) return;
    buf_printf(b,
               "complete -c flametree -f -n '__fish_seen_subcommand_from %.*s; and not "
               "__fish_seen_subcommand_from ",
               STR(w.first));
    cli_put_seconds(b, w.first, " ");
    buf_z(b, "' -a '");
    cli_put_seconds(b, w.first, " ");
    buf_z(b, "'\n");
}

static void fish(struct buf *b)
{
    buf_z(b, "# fish completion of flametree; printed by: flametree completion fish\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head) fish_head(b, (enum cli_command)i);
        for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
            if (cli_option_is_for(&cli_options[k], (enum cli_command)i))
                fish_option(b, w, &cli_options[k]);
        }
        if (!cli_has_choices(cli_commands[i].operands)) continue;
        buf_z(b, "complete -c flametree -f -n '");
        fish_given(b, w);
        buf_z(b, "' -a '");
        put_choices(b, cli_commands[i].operands);
        buf_z(b, "'\n");
    }
}

bool cli_completion_print(struct buf *b, str shell)
{
    if (str_is(shell, "bash"))
        bash(b);
    else if (str_is(shell, "zsh"))
        zsh(b);
    else if (str_is(shell, "fish"))
        fish(b);
    else
        return false;
    return true;
}
