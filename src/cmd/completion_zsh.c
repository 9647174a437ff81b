/* SPDX-License-Identifier: GPL-2.0-only */
/* The completion script for zsh: arguments of its function _arguments. */
#include "cmd/completion.h"
#include "cmd/cmd.h"

static void put_value(const struct option_row *row, struct text *out)
{
    text_printf(out, "%s%s:", row->place == VALUE_REQUIRED ? ":" : "::", row->argument);
    switch (completion_of_row(row)) {
    case COMPLETE_FILES:
        text_string(out, "_files");
        break;
    case COMPLETE_DIRECTORIES:
        text_string(out, "_files -/");
        break;
    case COMPLETE_WORDS:
        text_printf(out, row->list ? "_values -s , %s " : "(", row->argument);
        completion_put_words(row, out);
        text_string(out, row->list ? "" : ")");
        break;
    case COMPLETE_NOTHING:
    default:
        text_char(out, ' ');
    }
}

/* Append one name of an option as an argument of _arguments. An option with a value may be
 * repeated. */
static void put_spec(const struct option_row *row, bool letter, struct text *out)
{
    text_printf(out, " \\\n            '%s", row->argument ? "*" : "");
    if (letter)
        text_printf(out, "-%c%s", row->letter,
                    !row->argument                 ? ""
                    : row->place == VALUE_ATTACHED ? "-"
                                                   : "+");
    else
        text_printf(out, "--%s%s", row->name,
                    !row->argument                 ? ""
                    : row->place == VALUE_ATTACHED ? "=-"
                                                   : "=");
    text_char(out, '[');
    completion_put_summary(row->help, out);
    text_char(out, ']');
    if (row->argument)
        put_value(row, out);
    text_char(out, '\'');
}

static void put_specs(const struct option_set *set, struct text *out)
{
    for (const struct option_section *s = set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            if (row->hidden)
                continue;
            if (row->letter)
                put_spec(row, true, out);
            if (row->name)
                put_spec(row, false, out);
        }
}

static void put_command(const struct command *c, struct text *out)
{
    const struct option_set *set = c->command_line;
    text_printf(out, "    %s)\n        _arguments -s -S", c->name);
    put_specs(set, out);
    if (set->arguments == ARGUMENTS_COMMAND)
        text_string(out, " \\\n            '(-)1:command:_command_names -e'"
                         " \\\n            '*::arguments:_normal'");
    else if (set->argument_words) {
        text_string(out, " \\\n            '1:argument:(");
        for (size_t i = 0; set->argument_words[i]; i++)
            text_printf(out, "%s%s", i ? " " : "", set->argument_words[i]);
        text_string(out, ")'");
    } else if (completion_kind(set->argument_name, false) == COMPLETE_FILES)
        text_string(out, " \\\n            '*:recording:_files'");
    else if (set->arguments == ARGUMENTS_TAKEN)
        text_string(out, " \\\n            '*:argument: '");
    text_string(out, " ;;\n");
}

void completion_put_zsh(struct text *out)
{
    text_string(out, "#compdef ljperf perf-lj\n"
                     "# zsh completion for ljperf. Made by: ljperf completion zsh\n"
                     "_ljperf() {\n"
                     "    local context curcontext=\"$curcontext\" state line\n"
                     "    local -A opt_args\n"
                     "    local -a known\n"
                     "    known=(\n");
    for (const struct command *c = commands; c->name; c++) {
        text_printf(out, "        '%s:", c->name);
        completion_put_summary(c->summary, out);
        text_string(out, "'\n");
    }
    text_string(out, "    )\n    _arguments -C -S");
    put_specs(&main_command_line, out);
    text_string(out,
                " \\\n            '1:command:->command' \\\n            '*::argument:->argument'\n"
                "    case $state in\n"
                "    command) _describe -t commands command known; return ;;\n"
                "    argument) ;;\n"
                "    *) return ;;\n"
                "    esac\n"
                "    case $words[1] in\n");
    for (const struct command *c = commands; c->name; c++)
        put_command(c, out);
    text_string(out, "    esac\n}\n\n"
                     "# In a directory of $fpath this file is the function; else it is sourced.\n"
                     "if [[ $funcstack[1] == _ljperf ]]; then\n"
                     "    _ljperf \"$@\"\n"
                     "else\n"
                     "    compdef _ljperf ljperf perf-lj\n"
                     "fi\n");
}
