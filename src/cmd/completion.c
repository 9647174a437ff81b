/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf completion: print a completion script for a shell, or the table of all options. */
#include "cmd/completion.h"
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "output/output.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum completion completion_kind(const char *name, bool words)
{
    if (words)
        return COMPLETE_WORDS;
    if (name && (strcmp(name, "FILE") == 0 || strcmp(name, "BASE NEW") == 0))
        return COMPLETE_FILES;
    return name && strcmp(name, "DIR") == 0 ? COMPLETE_DIRECTORIES : COMPLETE_NOTHING;
}

enum completion completion_of_row(const struct option_row *row)
{
    return completion_kind(row->argument, row->words || row->word_list);
}

void completion_put_words(const struct option_row *row, struct text *out)
{
    for (size_t i = 0; row->words && row->words[i]; i++)
        text_printf(out, "%s%s", i ? " " : "", row->words[i]);
    for (const char *c = row->word_list ? row->word_list() : ""; *c; c++)
        text_char(out, *c == ',' ? ' ' : *c);
}

void completion_put_summary(const char *help, struct text *out)
{
    size_t size = 0;
    while (help[size] && !strchr(":;(", help[size]) &&
           (help[size] != '.' || (help[size + 1] && help[size + 1] != ' ')))
        size++;
    while (size && help[size - 1] == ' ')
        size--;
    for (size_t i = 0; i < size; i++)
        if (!strchr("'\"`$\\[]", help[i]))
            text_char(out, help[i]);
}

/* ---- the table ----------------------------------------------------------------------------- */

static void put_rows(const char *command, const struct option_set *set, struct text *out)
{
    for (const struct option_section *s = set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            const char letter[] = {'-', row->letter, 0};
            const char *argument = row->argument ? row->argument : "";
            bool optional = row->argument && row->place != VALUE_REQUIRED;
            text_printf(out, "%s\t%s%s\t%s\t%s%s%s\t%s\t%s\n", command, row->name ? "--" : "",
                        row->name ? row->name : "", row->letter ? letter : "", optional ? "[" : "",
                        argument, optional ? "]" : "", row->hidden ? "hidden" : "shown",
                        s->target == 1 ? "common" : "own");
        }
}

/* Append one line an option: command, long name, letter, argument, whether --help shows it, and
 * whether it is a common option. */
static void put_list(struct text *out)
{
    put_rows("ljperf", &main_command_line, out);
    for (const struct command *c = commands; c->name; c++)
        put_rows(c->name, c->command_line, out);
}

/* ---- the command --------------------------------------------------------------------------- */

struct completion_command {
    const char *what;
};

static const char *const whats[] = {"bash", "zsh", "fish", "list", NULL};

static int take_what(void *target, char *text, struct error *err)
{
    struct completion_command *c = target;
    for (size_t i = 0; whats[i]; i++)
        if (!c->what && strcmp(text, whats[i]) == 0) {
            c->what = whats[i];
            return 0;
        }
    return error_set(err, ERROR_FORMAT,
                     "unexpected argument `%.60s'; expected bash, zsh, fish or list", text);
}

static const struct option_row rows[] = {{ROW_HELP}, {0}};

const struct option_set completion_command_line = {
    .name = "ljperf completion",
    .usage = "bash|zsh|fish|list",
    .about =
        "Prints a script that makes the shell complete commands, options and values of ljperf:\n"
        "  bash: source <(ljperf completion bash)\n"
        "  zsh:  source <(ljperf completion zsh)     after compinit\n"
        "  fish: ljperf completion fish | source\n"
        "make install puts the scripts where the shells look for them. list prints all options\n"
        "as a table with tabs, for programs.\n",
    .sections = {{.rows = rows}},
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_what,
    .argument_words = whats,
};

int cmd_completion(int argc, char **argv)
{
    struct completion_command c = {0};
    struct options_parsed parsed;
    struct error err = {0};
    struct text out = {0};
    bool closed = false;
    int status =
        command_line_parse(&completion_command_line, (void *const[]){&c}, argc, argv, &parsed);
    if (status >= 0)
        return status;
    if (!c.what) {
        error_set(&err, ERROR_FORMAT, "no shell is named: give bash, zsh or fish");
        return command_line_error(&completion_command_line, NULL, &err);
    }
    if (strcmp(c.what, "bash") == 0)
        completion_put_bash(&out);
    else if (strcmp(c.what, "zsh") == 0)
        completion_put_zsh(&out);
    else if (strcmp(c.what, "fish") == 0)
        completion_put_fish(&out);
    else
        put_list(&out);
    if (text_write(&out, STDOUT_FILENO, &closed, &err) < 0) {
        fprintf(stderr, "ljperf completion: %s\n", err.text);
        status = EXIT_BAD_INPUT;
    }
    text_free(&out);
    return status < 0 ? 0 : status;
}
