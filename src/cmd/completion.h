/* SPDX-License-Identifier: GPL-2.0-only */
/* Completion scripts for shells, made of the tables of options. */
#ifndef CMD_COMPLETION_H
#define CMD_COMPLETION_H

#include "base/options.h"

/* What a shell offers as a value or an argument. */
enum completion { COMPLETE_NOTHING, COMPLETE_FILES, COMPLETE_DIRECTORIES, COMPLETE_WORDS };

/* Returns what is offered for a value or an argument of this name; `words`: it has a list of words.
 */
enum completion completion_kind(const char *name, bool words);

/* Returns what is offered as the row's value. */
enum completion completion_of_row(const struct option_row *row);

/* Append the words that a row's value may be, separated by blanks. */
void completion_put_words(const struct option_row *row, struct text *out);

/* Append the first clause of a help text, without characters that shells quote by, as a short
 * description. */
void completion_put_summary(const char *help, struct text *out);

/* Append a script for one shell. */
void completion_put_bash(struct text *out);
void completion_put_zsh(struct text *out);
void completion_put_fish(struct text *out);

#endif
