/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf dump: print the records of a recording, decoded, in file order; counts; the header. */
#include "base/vec.h"
#include "cmd/common.h"
#include "perfdata/perfdata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, COUNTED_TYPES = 128 };

struct dump {
    const char *input;
    bool argument; /* the recording was given as an argument */
    bool json, stats, header, raw;
    struct terminal_options text;
};

struct count {
    uint64_t records, bytes;
};

struct counts {
    struct count types[COUNTED_TYPES + 1]; /* the last one counts all other types */
    struct count *events;
    size_t nr_events;
};

static int fail(const struct error *err, int status)
{
    fprintf(stderr, "ljperf dump: %s\n", err->text);
    return status;
}

/* ---- --stats ------------------------------------------------------------------------------ */

static void count_record(const struct perfdata *pd, struct counts *c, const struct record *rec)
{
    uint32_t type = rec->type < COUNTED_TYPES ? rec->type : COUNTED_TYPES;
    uint32_t size = perfdata_record_size(pd, rec);
    c->types[type].records++;
    c->types[type].bytes += size;
    if (rec->type == PERF_RECORD_SAMPLE && rec->event < c->nr_events) {
        c->events[rec->event].records++;
        c->events[rec->event].bytes += size;
    }
}

static void print_count(const char *what, const char *name, struct count n, bool json,
                        const char **between)
{
    if (!n.records)
        return;
    if (json)
        printf("%s{\"%s\":\"%s\",\"records\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", *between, what,
               name, n.records, n.bytes);
    else
        printf("%-28s %12" PRIu64 " %15" PRIu64 "\n", name, n.records, n.bytes);
    *between = ",";
}

/* Escape an event name for JSON: the name may contain any byte. The caller frees the result. */
static char *json_name(const char *name)
{
    char *copy = malloc(6 * strlen(name) + 1), *to = copy;
    for (; copy && *name; name++) {
        unsigned char b = (unsigned char)*name;
        if (b < ' ' || b == '"' || b == '\\' || b >= 0x7f)
            to += sprintf(to, "\\u%04x", b);
        else
            *to++ = (char)b;
    }
    if (copy)
        *to = 0;
    return copy;
}

static void print_events(const struct perfdata *pd, const struct counts *c, bool json)
{
    const char *between = "";
    for (size_t i = 0; i < c->nr_events; i++) {
        const char *name = perfdata_event(pd, i)->name;
        char *escaped = json ? json_name(name) : NULL;
        print_count("event", escaped ? escaped : name, c->events[i], json, &between);
        free(escaped);
    }
}

static void print_counts(const struct perfdata *pd, const struct counts *c, bool json)
{
    const char *between = "";
    if (json)
        fputs("{\"types\":[", stdout);
    else
        printf("%-28s %12s %15s\n", "type", "records", "bytes");
    for (uint32_t i = 0; i <= COUNTED_TYPES; i++) {
        char unknown[24];
        const char *name = perfdata_record_name(i);
        snprintf(unknown, sizeof(unknown), i < COUNTED_TYPES ? "TYPE_%u" : "TYPE_%u and above", i);
        print_count("type", name ? name : unknown, c->types[i], json, &between);
    }
    if (json)
        fputs("],\"events\":[", stdout);
    else
        printf("\n%-28s %12s %15s\n", "event", "samples", "bytes");
    print_events(pd, c, json);
    if (json)
        puts("]}");
}

/* ---- losses ------------------------------------------------------------------------------- */

static int report_loss(const struct perfdata *pd)
{
    const struct perfdata_loss *l = perfdata_loss(pd);
    const struct {
        uint64_t nr;
        const char *what;
    } losses[] = {{l->records_bad, "records with contradictory fields were skipped"},
                  {l->records_unknown, "records are of unknown types"},
                  {l->samples_no_event, "samples belong to no event"},
                  {l->samples_lost, "samples were lost while recording"},
                  {l->records_lost, "records of mappings and processes were lost while recording"},
                  {perfdata_lost_unknown(l), "samples or records were lost while recording"}};
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (losses[i].nr)
            fprintf(stderr, "ljperf dump: %" PRIu64 " %s\n", losses[i].nr, losses[i].what);
    if (l->damage.kind == ERROR_NONE) {
        if (l->bytes_unread)
            fprintf(stderr,
                    "ljperf dump: the recorder was killed; %" PRIu64
                    " bytes at the end are not a whole record\n",
                    l->bytes_unread);
        return 0;
    }
    fprintf(stderr, "ljperf dump: %s; %" PRIu64 " bytes were not read\n", l->damage.text,
            l->bytes_unread);
    return EXIT_BAD_INPUT;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int take_batch(struct perfdata *pd, const struct dump *d, const struct record_batch *batch,
                      struct counts *counts)
{
    for (size_t i = 0; i < batch->nr; i++) {
        if (d->stats)
            count_record(pd, counts, &batch->records[i]);
        else if (perfdata_print_record(pd, &batch->records[i], d->json, stdout) < 0 ||
                 putchar('\n') == EOF)
            return -1;
    }
    return 0;
}

static int dump_records(struct perfdata *pd, const struct dump *d, struct error *err)
{
    struct record_batch batch = {0};
    struct counts counts = {.nr_events = perfdata_nr_events(pd)};
    int r = 0;
    counts.events = calloc(counts.nr_events + 1, sizeof(*counts.events));
    if (!counts.events)
        return error_no_memory(err);
    do {
        r = perfdata_read(pd, BATCH, &batch, err);
        if (r == 0 && take_batch(pd, d, &batch, &counts) < 0) {
            /* A reader that has gone, as `head` does, is not an error. */
            r = errno == EPIPE ? 1 : error_system(err, errno, "cannot write the output");
        }
        if (r == 0 && !batch.nr)
            break;
        perfdata_release(pd, &batch);
    } while (r == 0);
    if (r == 0 && d->stats)
        print_counts(pd, &counts, d->json);
    free(counts.events);
    record_batch_free(&batch);
    return r < 0 ? -1 : 0;
}

static int run(const struct dump *d)
{
    const struct perfdata_options options = {.unordered = true, .raw = d->raw};
    struct perfdata *pd;
    struct unpacked *unpacked;
    struct error err = {0};
    if (unpack(d->input, &unpacked, &err) < 0)
        return fail(&err, EXIT_BAD_INPUT);
    const char *input = unpacked ? unpacked_recording(unpacked) : d->input;
    if (perfdata_open(input, &options, &pd, &err) < 0) {
        unpacked_free(unpacked);
        return fail(&err, EXIT_BAD_INPUT);
    }
    int r = 0, status = 0;
    if (d->header)
        (void)perfdata_print_header(pd, stdout); /* errors are noticed at the end */
    else
        r = dump_records(pd, d, &err);
    if (r == 0)
        r = common_end_output(stdout, NULL, &err);
    if (r < 0)
        status = fail(&err, EXIT_BAD_INPUT);
    else
        status = report_loss(pd);
    perfdata_close(pd);
    unpacked_free(unpacked);
    return status;
}

/* ---- options ------------------------------------------------------------------------------ */

static int take_argument(void *target, char *text, struct error *err)
{
    struct dump *d = target;
    if (d->argument)
        return error_set(err, ERROR_FORMAT,
                         "unexpected argument `%.100s'; only one recording can be dumped", text);
    d->argument = true;
    d->input = text;
    return 0;
}

static const struct option_row rows[] = {
    {ROW_STRING('i', "input", "FILE", struct dump, input,
                "Read this recording, or - for standard input (perf.data).")},
    {ROW_FLAG(0, "json", struct dump, json, "Print one JSON object a line.")},
    {ROW_FLAG(0, "stats", struct dump, stats,
              "Only count: records and bytes by type, samples by event.")},
    {ROW_FLAG(0, "header", struct dump, header,
              "Print only the header, as perf script --header-only does.")},
    {ROW_FLAG(0, "raw", struct dump, raw,
              "Also print the records that only serve the reader (COMPRESSED, FINISHED_ROUND), and "
              "records of unknown type.")},
    TERMINAL_PAGER_ROWS(struct dump, text),
    {ROW_HELP},
    {0},
};

const struct option_set dump_command_line = {
    .name = "ljperf dump",
    .usage = "[options] [FILE]",
    .about = "Prints each record of a recording: its offset, size, time, type and fields.\n",
    .sections = {{.rows = rows}},
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
    .argument_name = "FILE",
};

int cmd_dump(int argc, char **argv)
{
    struct dump d = {.input = "perf.data", .text.color = COLOR_NEVER};
    struct options_parsed parsed;
    int status = command_line_parse(&dump_command_line, (void *const[]){&d}, argc, argv, &parsed);
    if (status >= 0)
        return status;
    struct terminal *t = terminal_open(&d.text);
    return terminal_close(t, run(&d));
}
