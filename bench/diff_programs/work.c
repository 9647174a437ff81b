/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program for bench/diff: rounds of several kinds of work until SECONDS of processor time are
 * used. `slow` does the work of one function, checksum(), more often. Usage: work SECONDS [slow].
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION __attribute__((noinline, noipa)) static
enum { TEXT = 1 << 14, ITEMS = 600, SIDE = 28 };
static char text[TEXT];

FUNCTION uint32_t checksum(const char *s, size_t n)
{
    uint32_t h = 2166136261U;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619U;
    return h;
}

FUNCTION size_t count_words(const char *s, size_t n)
{
    size_t words = 0;
    for (size_t i = 1; i < n; i++)
        words += s[i - 1] == ' ' && s[i] != ' ';
    return words;
}

FUNCTION int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

FUNCTION int sort_items(unsigned seed)
{
    int items[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        items[i] = (int)((seed = seed * 1103515245U + 12345U) >> 8);
    qsort(items, ITEMS, sizeof(*items), compare);
    return items[ITEMS / 2];
}

FUNCTION double multiply(double scale)
{
    static double a[SIDE][SIDE], b[SIDE][SIDE];
    double sum = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double x = 0;
            for (int k = 0; k < SIDE; k++)
                x += a[i][k] * b[k][j] + scale;
            sum += b[i][j] = x * 1e-9;
        }
    return sum;
}

struct cell {
    struct cell *next;
    char room[56];
};

FUNCTION size_t chain(int n)
{
    struct cell *head = NULL;
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        struct cell *c = malloc(sizeof(*c) + (size_t)(i % 7) * 64);
        memset(c->room, i, sizeof(c->room));
        c->next = head;
        head = c;
    }
    while (head) {
        struct cell *next = head->next;
        sum += (size_t)head->room[3];
        free(head);
        head = next;
    }
    return sum;
}

FUNCTION size_t print_numbers(int n)
{
    char line[64];
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += (size_t)snprintf(line, sizeof(line), "%d %x %.3f", i, i * 77, i * 0.125);
    return sum;
}

FUNCTION size_t round_of_work(unsigned seed, int slow)
{
    size_t sum = 0;
    for (int i = 0; i < (slow ? 23 : 16); i++)
        sum += checksum(text + i, TEXT / 16);
    for (int i = 0; i < 3; i++)
        sum += count_words(text, TEXT);
    sum += (size_t)sort_items(seed) + (size_t)multiply(seed) + chain(700) + print_numbers(180);
    return sum;
}

int main(int argc, char **argv)
{
    double end = argc > 1 ? atof(argv[1]) : 1;
    int slow = argc > 2 && strcmp(argv[2], "slow") == 0;
    unsigned seed = (unsigned)time(NULL);
    size_t sum = 0;
    for (int i = 0; i < TEXT; i++)
        text[i] =
            (char)((seed = seed * 1103515245U + 12345U) >> 28 ? 'a' + (seed >> 16) % 26 : ' ');
    while ((double)clock() < end * CLOCKS_PER_SEC)
        sum += round_of_work(seed++, slow);
    return sum == 1;
}
