/* SPDX-License-Identifier: GPL-2.0-only */
/* The completion script for fish. */
#include "cmd/completion.h"
#include "cmd/cmd.h"

#include <stdio.h>

static void put_value(const struct option_row *row, struct text *out)
{
    switch (completion_of_row(row)) {
    case COMPLETE_FILES:
        text_string(out, " -r -F");
        return;
    case COMPLETE_DIRECTORIES:
        text_string(out, " -x -a '(__fish_complete_directories)'");
        return;
    case COMPLETE_WORDS:
        text_string(out, row->list ? " -x -a '(__fish_complete_list , \"printf \\'%s\\\\n\\' "
                                   : " -x -a '");
        completion_put_words(row, out);
        text_string(out, row->list ? "\")'" : "'");
        return;
    case COMPLETE_NOTHING:
    default:
        text_string(out, " -x");
    }
}

static void put_rows(const char *condition, const struct option_set *set, struct text *out)
{
    for (const struct option_section *s = set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            if (row->hidden)
                continue;
            text_printf(out, "complete -c ljperf -n '%s'", condition);
            if (row->letter)
                text_printf(out, " -s %c", row->letter);
            if (row->name)
                text_printf(out, " -l %s", row->name);
            if (row->argument && row->place == VALUE_REQUIRED)
                put_value(row, out);
            text_string(out, " -d '");
            completion_put_summary(row->help, out);
            text_string(out, "'\n");
        }
}

/* Append the options whose value is the next word: the command that is run does not begin there. */
static void put_valued(const struct option_set *set, struct text *out)
{
    for (const struct option_section *s = set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            if (!row->argument || row->place != VALUE_REQUIRED)
                continue;
            if (row->letter)
                text_printf(out, " -%c", row->letter);
            if (row->name)
                text_printf(out, " --%s", row->name);
        }
}

static void put_arguments(const char *condition, const struct option_set *set, struct text *out)
{
    if (set->arguments == ARGUMENTS_COMMAND) {
        text_printf(out,
                    "complete -c ljperf -n '%s' -x -a '(__fish_complete_subcommand --fcs-skip=2",
                    condition);
        put_valued(set, out);
        text_string(out, ")'\n");
    } else if (completion_kind(set->argument_name, false) == COMPLETE_FILES)
        text_printf(out, "complete -c ljperf -n '%s' -F\n", condition);
    for (size_t i = 0; set->argument_words && set->argument_words[i]; i++)
        text_printf(out, "complete -c ljperf -n '%s' -a %s\n", condition, set->argument_words[i]);
}

void completion_put_fish(struct text *out)
{
    text_string(out, "# fish completion for ljperf. Made by: ljperf completion fish\n"
                     "complete -c ljperf -f\n"
                     "complete -c perf-lj -w ljperf\n");
    put_rows("__fish_use_subcommand", &main_command_line, out);
    for (const struct command *c = commands; c->name; c++) {
        text_printf(out, "complete -c ljperf -n __fish_use_subcommand -a %s -d '", c->name);
        completion_put_summary(c->summary, out);
        text_string(out, "'\n");
    }
    for (const struct command *c = commands; c->name; c++) {
        char condition[96];
        snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s", c->name);
        put_rows(condition, c->command_line, out);
        put_arguments(condition, c->command_line, out);
    }
}
