# SPDX-License-Identifier: GPL-2.0-only
"""Stops Node of AArch64 at random instructions, and judges its stacks (v8_stops).

usage: v8_stops.py LJPERF QEMU ROOT STOPS WORK OPTION...
       ROOT has usr/bin/node; OPTIONs are node's. WORK: a scratch folder. With $KEEP, cores of wrong stops stay in that folder.

`ljperf bt` must print the stack of each core whole, and the functions of tree.js must be a path that it can take, each with
its line.
"""
import collections
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'truth'))
from aarch64_machine import done_with, is_marked, random_cores, stack_of, summary # noqa: E402

ljperf, qemu, root, stops, work = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
# (All is done by one thread: the emulator's stub tells of the others' signals, too.)
arguments = sys.argv[6:] + ['--single-threaded', '--v8-pool-size=0', os.path.join(here, 'tree.js')]
BELOW = (r'(;(deep;){0,12}deep(;mid(;leaf)?)?|;sorts(;cmp(;leaf)?)?|;each(;cb(;mid(;leaf)?)?)?|;A|;m(;x(;mid(;leaf)?)?)?'
         r'|;rep(;rcb(;leaf)?)?|;rx|;rev(;leaf)?)?')
PATH = re.compile('main(;work' + BELOW + ')?')


def functions(thread):
    """The names of tree.js's functions, outermost first, and whether each has a line."""
    names, lines = [], True
    for f in thread['frames']:
        if f['kind'] == 'native' or 'tree.js' not in (f.get('file') or f.get('module') or ''):
            continue
        name = f.get('function') or re.sub(r' .*', '', f['symbol'] or '?')
        names.append('main' if 'tree.js' in name else re.sub(r'.*[. ]', '', name))
        lines &= bool(f.get('line'))
    return ';'.join(reversed(names)), lines


counts, bad = collections.Counter(), 0
for core in random_cores(stops, work, qemu, root, 'usr/bin/node', arguments, ready='begun', warm=2, pause=0.05, of_a_process=60, large=True):
    thread = stack_of(ljperf, root, core)
    path, lines = functions(thread)
    right = PATH.fullmatch(path) and lines
    what = 'not whole' if thread['stack'] != 'complete' else 'right' if right else 'wrong'
    counts[what + (', marked' if is_marked(thread) else '')] += 1
    if what != 'right' and bad < 5:
        bad += 1
        print(what, thread['stack'], path, 'all lines' if lines else 'a line is missing', [f['symbol'] for f in thread['frames'][:5]])
    done_with(core, what != 'right')
print(summary(' '.join(['node'] + sys.argv[6:]), counts))
# 99 % right, of few stops all; none wrong without a mark.
sys.exit(bool(counts['wrong'] or counts['right'] + counts['right, marked'] < stops * 0.99))
