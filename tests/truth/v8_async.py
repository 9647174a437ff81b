#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Judge stacks of js_async.js: v8_async.py STACKS < `ljperf script --async`.

(V8 up to 13 does not follow thenables, V8 9 and before not Promise.allSettled(): there the source
says who awaits.)

STACKS is what the program printed: the stacks that V8 itself told where the time was burnt. A sample
in work() is right if its JavaScript frames are one of these: the same functions, awaiting where V8
says they await, and of those that await the same line and column.
Prints one line with counts; exit code 1: a stack is wrong without a mark, or too few are right."""
import collections
import os
import re
import sys

FRAME = re.compile(r'at (async )?(?:(.*) \()?((?:file://)?/[^()]*):(\d+):(\d+)\)?$')


def told(line):
    """One stack as V8 told it: (name, is awaiting, place), innermost first."""
    out = []
    for text in line.split(' | '):
        m = FRAME.match(text)
        if not m or not m[3].endswith('js_async.js'):
            continue
        name = (m[2] or '').split('.')[-1].removeprefix('async ')
        out.append((name, bool(m[1]), (int(m[4]), int(m[5])) if m[1] else None))
    return tuple(out)


def name_of(symbol):
    name = symbol.split(' ')[0] if not symbol.startswith('/') else ''
    return name.split('.')[-1]


def samples(lines):
    """(JavaScript frames, is marked, is cut) of each sample."""
    frames, marked, cut, any_frame = [], False, False, False
    for line in list(lines) + ['\n']:
        if line == '\n':
            if any_frame:
                yield tuple(frames), marked, cut
            frames, marked, cut, any_frame = [], False, False, False
            continue
        any_frame = True
        m = re.match(r'\t\s*[0-9a-f]+ (.*) \((.*)\) \[js(.*)\]$', line.rstrip('\n'))
        if not m:
            continue
        if 'js: not recorded' in line:
            cut = True
            continue
        if not m[2].endswith('js_async.js'):
            continue
        symbol, note = m[1], m[3]
        awaits = note.startswith(' async')
        if awaits:
            symbol = symbol.removeprefix('async').strip()
        at = re.search(r'line=(\d+):(\d+)', note)
        frames.append((name_of(symbol), awaits,
                       (int(at[1]), int(at[2])) if awaits and at else None))
        marked |= bool(re.search(r' (image|guess)\b', note))


# Functions that V8 may not follow: who awaits them.
AWAITED_BY = {'then': 'awaitsThenable', 'settledPart': 'settled'}


def place_of_await(function):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'js_async.js')
    for nr, line in enumerate(open(source), 1):
        if re.match(r'async function %s\(' % function, line):
            return nr, line.index('await ') + 1
    raise SystemExit('%s is not in the source' % function)


def completed(stack, main_place):
    """The stack with what V8 has left out."""
    by = AWAITED_BY.get(stack[-1][0]) if len(stack) == 2 else None
    return stack + ((by, True, place_of_await(by)), ('main', True, main_place)) if by else stack


def main():
    truth = {told(line.rstrip('\n')) for line in open(sys.argv[1])}
    truth = {t for t in truth if t and t[0][0] == 'work'}
    main_place = next(t[-1][2] for t in truth if t[-1][0] == 'main')
    truth = {completed(t, main_place) for t in truth}
    count = collections.Counter()
    kinds, wrongs = set(), collections.Counter()
    for frames, marked, cut in samples(sys.stdin):
        names = [f[0] for f in frames]
        if 'work' not in names:
            continue
        frames = frames[names.index('work'):]
        count['all'] += 1
        if frames in truth:
            count['right, marked' if marked or cut else 'right'] += 1
            kinds.add(frames)
        elif cut:
            count['cut'] += 1
        else:
            count['wrong, marked' if marked else 'wrong'] += 1
            wrongs[frames] += 1
    for frames, nr in wrongs.most_common(int(os.environ.get('SHOW', '3'))):
        print('   wrong %d times: %s' % (nr, ' < '.join(
            ('async ' if f[1] else '') + (f[0] or '?') + (':%d:%d' % f[2] if f[2] else '') for f in frames)))
    print('%d samples, %s; %d of %d stacks' % (
        count['all'], ', '.join('%d %s' % (v, k) for k, v in sorted(count.items()) if k != 'all'),
        len(kinds), len(truth)))
    few = count['right'] < float(os.environ.get('MIN', '0.99')) * count['all']
    return count['all'] < int(os.environ.get('LEAST', '300')) or count['wrong'] > 0.0005 * count['all'] or few or len(kinds) < 0.9 * len(truth)


sys.exit(main())
