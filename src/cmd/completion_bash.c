/* SPDX-License-Identifier: GPL-2.0-only */
/* The completion script for bash. It needs bash 4.4 and nothing else. */
#include "cmd/completion.h"
#include "cmd/cmd.h"
#include "cmd/common.h"

static const char head[] = "# bash completion for ljperf. Made by: ljperf completion bash\n";

/* Sets COMPREPLY. _ljperf_options and _ljperf_value, which follow it, hold the tables. */
static const char code[] =
    "\n"
    "# Offers words; of a list, words for its last item.\n"
    "_ljperf_words() { # CURRENT LIST WORD...\n"
    "    local item=$1 before= list=$2\n"
    "    shift 2\n"
    "    [[ -z $list || $item != *,* ]] || { before=${item%,*}, item=${item##*,}; }\n"
    "    [[ -z $list || $item != [+-]* ]] || { before+=${item:0:1} item=${item:1}; }\n"
    "    [[ -z $list ]] || compopt -o nospace 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$*\" -- \"$item\")\n"
    "}\n"
    "\n"
    "_ljperf_paths() { # CURRENT -f|-d\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen \"$2\" -- \"$1\")\n"
    "}\n"
    "\n"
    "_ljperf() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} option= attached= command= program= i\n"
    "    local kind= list= optional= words=\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
    "    done\n"
    "    if [[ -z $command ]]; then\n"
    "        _ljperf_options ljperf\n"
    "        [[ $cur == -* ]] || words=$_ljperf_commands\n"
    "        _ljperf_words \"$cur\" '' $words\n"
    "        return\n"
    "    fi\n"
    "    # The command that is recorded begins with the first word that is neither an option nor a "
    "value.\n"
    "    if _ljperf_runs \"$command\"; then\n"
    "        for ((i++; i < COMP_CWORD; i++)); do\n"
    "            case ${COMP_WORDS[i]} in\n"
    "            --) program=$((i + 1)); break ;;\n"
    "            =) i=$((i + 1)) ;;\n"
    "            -*) _ljperf_value \"$command\" \"${COMP_WORDS[i]}\"\n"
    "                [[ -z $kind || -n $optional || ${COMP_WORDS[i + 1]} == = ]] || i=$((i + 1)) "
    ";;\n"
    "            *) program=$i; break ;;\n"
    "            esac\n"
    "        done\n"
    "    fi\n"
    "    if [[ -n $program && $COMP_CWORD -gt $program ]]; then\n"
    "        _ljperf_paths \"$cur\" -f\n"
    "        return\n"
    "    elif [[ -n $program ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
    "        return\n"
    "    fi\n"
    "    # --name=value is one word or three, as COMP_WORDBREAKS has it.\n"
    "    if [[ $cur == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 1]} attached=1 cur=\n"
    "    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 2]} attached=1\n"
    "    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == -* ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    fi\n"
    "    kind= list= optional= words=\n"
    "    [[ -z $option ]] || _ljperf_value \"$command\" \"$option\"\n"
    "    [[ -z $optional || -n $attached ]] || kind=\n"
    "    [[ $cur != -* || -n $attached || -n $list ]] || kind=\n"
    "    case $kind in\n"
    "    words) _ljperf_words \"$cur\" \"$list\" $words ;;\n"
    "    files) _ljperf_paths \"$cur\" -f ;;\n"
    "    directories) _ljperf_paths \"$cur\" -d ;;\n"
    "    any) ;;\n"
    "    *)\n"
    "        _ljperf_options \"$command\"\n"
    "        if [[ $cur == -* ]]; then\n"
    "            _ljperf_words \"$cur\" '' $words\n"
    "        elif [[ $arguments == files ]]; then\n"
    "            _ljperf_paths \"$cur\" -f\n"
    "        elif [[ $arguments == command ]]; then\n"
    "            mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
    "        else\n"
    "            _ljperf_words \"$cur\" '' $arguments $words\n"
    "        fi ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "complete -F _ljperf ljperf perf-lj\n";

static void put_names(const struct option_set *set, struct text *out)
{
    for (const struct option_section *s = set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            if (row->hidden)
                continue;
            if (row->name)
                text_printf(out, " --%s", row->name);
            else
                text_printf(out, " -%c", row->letter);
        }
}

static void put_arguments(const struct option_set *set, struct text *out)
{
    if (set->arguments == ARGUMENTS_COMMAND)
        text_string(out, "command");
    else if (completion_kind(set->argument_name, false) == COMPLETE_FILES)
        text_string(out, "files");
    for (size_t i = 0; set->argument_words && set->argument_words[i]; i++)
        text_printf(out, "%s%s", i ? " " : "", set->argument_words[i]);
}

static void put_options(const char *command, const struct option_set *set, struct text *out)
{
    text_printf(out, "    %s)\n        arguments='", command);
    put_arguments(set, out);
    text_string(out, "' words='");
    put_names(set, out);
    text_string(out, "' ;;\n");
}

/* Append the case of an option that takes a value. `command` may be a pattern. */
static void put_value(const char *command, const struct option_row *row, struct text *out)
{
    static const char *const kinds[] = {[COMPLETE_NOTHING] = "any",
                                        [COMPLETE_FILES] = "files",
                                        [COMPLETE_DIRECTORIES] = "directories",
                                        [COMPLETE_WORDS] = "words"};
    if (!row->argument)
        return;
    text_string(out, "    ");
    if (row->name)
        text_printf(out, "%s:--%s", command, row->name);
    if (row->letter)
        text_printf(out, "%s%s:-%c", row->name ? "|" : "", command, row->letter);
    text_printf(out, ") kind=%s", kinds[completion_of_row(row)]);
    if (row->list)
        text_string(out, " list=1");
    if (row->place == VALUE_ATTACHED)
        text_string(out, " optional=1");
    if (completion_of_row(row) == COMPLETE_WORDS) {
        text_string(out, " words='");
        completion_put_words(row, out);
        text_char(out, '\'');
    }
    text_string(out, " ;;\n");
}

/* Append the cases of all commands. The common options stand once, last: a command's own option of
 * the same name comes first. */
static void put_values(struct text *out)
{
    for (const struct command *c = commands; c->name; c++)
        for (const struct option_section *s = c->command_line->sections; s->rows; s++)
            for (const struct option_row *row = s->rows; !option_row_is_end(row); row++)
                if (s->rows != common_rows)
                    put_value(c->name, row, out);
    for (const struct option_row *row = common_rows; !option_row_is_end(row); row++)
        put_value("*", row, out);
}

void completion_put_bash(struct text *out)
{
    text_string(out, head);
    text_string(out, "_ljperf_commands='");
    for (const struct command *c = commands; c->name; c++)
        text_printf(out, "%s%s", c == commands ? "" : " ", c->name);
    text_string(out, "'\n\n# Whether a command runs another one.\n_ljperf_runs() {\n    [[ ");
    const char *between = "";
    for (const struct command *c = commands; c->name; c++)
        if (c->command_line->arguments == ARGUMENTS_COMMAND) {
            text_printf(out, "%s$1 == %s", between, c->name);
            between = " || ";
        }
    text_string(out, " ]]\n}\n\n# Sets the options and the kind of arguments of a command.\n"
                     "_ljperf_options() {\n    arguments= words=\n    case $1 in\n");
    put_options("ljperf", &main_command_line, out);
    for (const struct command *c = commands; c->name; c++)
        put_options(c->name, c->command_line, out);
    text_string(
        out, "    esac\n}\n\n# Sets what the value of an option is; it has none: kind is empty.\n"
             "_ljperf_value() { # COMMAND OPTION\n"
             "    kind= list= optional= words=\n    case $1:$2 in\n");
    put_values(out);
    text_string(out, "    esac\n}\n");
    text_string(out, code);
}
