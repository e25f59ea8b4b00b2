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

// ---- bash

static void bash_command(struct buf *b, enum cli_command c)
{
    const char *name = cli_commands[c].name;
    buf_printf(b, "    '%s')\n        case $prev in\n", name);
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if (!cli_option_is_for(o, c) || !o->argument[0]) continue;
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
             "        config) [ \"${COMP_WORDS[i + 1]}\" = check ] && ((i + 1 < COMP_CWORD)) && "
             "command='config check' || command=config; break ;;\n"
             "        *) command=${COMP_WORDS[i]}; break ;;\n"
             "        esac\n"
             "    done\n"
             "    case $command in\n"
             "    '') COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        str rest = {0};
        str word = str_split(str_of(cli_commands[i].name), ' ', &rest);
        buf_printf(b, "%.*s ", STR(word));
    }
    buf_z(b, "--help --version --config --check-config' -- \"$cur\")); return ;;\n"
             "    config) COMPREPLY=($(compgen -W 'check' -- \"$cur\")); return ;;\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        bash_command(b, (enum cli_command)i);
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
    if (o->argument[0]) {
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

static void zsh(struct buf *b)
{
    buf_z(b, "#compdef flametree\n# zsh completion of flametree; printed by: flametree completion "
             "zsh\n_flametree() {\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        str rest = {0};
        str word = str_split(str_of(cli_commands[i].name), ' ', &rest);
        buf_printf(b, " '%.*s:", STR(word));
        zsh_text(b, cli_commands[i].summary);
        buf_z(b, "'");
    }
    buf_z(b, ")\n    if ((CURRENT == 2)); then _describe command commands; return; fi\n"
             "    local command=${words[2]}\n    shift words; ((CURRENT--))\n"
             "    case $command in\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *name = i == CLI_CONFIG_CHECK ? "config" : cli_commands[i].name;
        buf_printf(b, "    %s) _arguments", name);
        for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
            if (cli_option_is_for(&cli_options[k], (enum cli_command)i))
                zsh_option(b, &cli_options[k]);
        }
        if (i == CLI_CONFIG_CHECK) buf_z(b, " '1:command:(check)'");
        if (takes_files((enum cli_command)i)) buf_z(b, " '*:file:_files'");
        if (cli_has_choices(cli_commands[i].operands)) {
            buf_z(b, " '1:which:(");
            put_choices(b, cli_commands[i].operands);
            buf_z(b, ")'");
        }
        buf_z(b, " ;;\n");
    }
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

static void fish_option(struct buf *b, const char *command, const struct cli_option_row *o)
{
    buf_printf(b, "complete -c flametree -n '__fish_seen_subcommand_from %s' -l %s", command,
               o->name);
    if (o->letter) buf_printf(b, " -s %c", o->letter);
    if (o->argument[0]) buf_z(b, " -r");
    if (o->argument[0] && !wants_file(o->argument)) buf_z(b, " -f");
    if (cli_has_choices(o->argument)) {
        buf_z(b, " -a '");
        put_choices(b, o->argument);
        buf_byte(b, '\'');
    }
    buf_z(b, " -d ");
    fish_text(b, o->sentence);
    buf_byte(b, '\n');
}

static void fish(struct buf *b)
{
    buf_z(b, "# fish completion of flametree; printed by: flametree completion fish\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        str second = {0};
        str word = str_split(str_of(cli_commands[i].name), ' ', &second);
        buf_printf(b, "complete -c flametree -f -n __fish_use_subcommand -a %.*s -d ", STR(word));
        fish_text(b, cli_commands[i].summary);
        buf_byte(b, '\n');
        struct buf name;
        buf_init(&name, NULL, 64);
        buf_str(&name, word);
        buf_byte(&name, '\0');
        for (size_t k = 0; name.n && k < CLI_OPTION_COUNT; k++) {
            if (cli_option_is_for(&cli_options[k], (enum cli_command)i))
                fish_option(b, name.p, &cli_options[k]);
        }
        if (second.n)
            buf_printf(b, "complete -c flametree -n '__fish_seen_subcommand_from %.*s' -a '%.*s'\n",
                       STR(word), STR(second));
        if (cli_has_choices(cli_commands[i].operands)) {
            buf_printf(b, "complete -c flametree -f -n '__fish_seen_subcommand_from %.*s' -a '",
                       STR(word));
            put_choices(b, cli_commands[i].operands);
            buf_z(b, "'\n");
        }
        buf_release(&name);
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
