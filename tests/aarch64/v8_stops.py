# SPDX-License-Identifier: GPL-2.0-only
"""Stops Node of AArch64 at random instructions, and judges its stacks (v8_stops).

usage: v8_stops.py LJPERF QEMU ROOT STOPS WORK OPTION...
       ROOT has usr/bin/node; OPTIONs are node's. WORK: a scratch folder. With $KEEP, cores of wrong stops stay in that folder.

`ljperf bt` must print the stack of each core whole, and the functions of tree.js must be a path that it can take, each with
its line.
"""
import collections
import json
import os
import random
import re
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'truth'))
from aarch64_machine import Machine, write_core # noqa: E402

ljperf, qemu, root, stops, work = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
# (All is done by one thread: the emulator's stub tells of the others' signals, too.)
arguments = sys.argv[6:] + ['--single-threaded', '--v8-pool-size=0', os.path.join(here, 'tree.js')]
BELOW = (r'(;(deep;){0,12}deep(;mid(;leaf)?)?|;sorts(;cmp(;leaf)?)?|;each(;cb(;mid(;leaf)?)?)?|;A|;m(;x(;mid(;leaf)?)?)?'
         r'|;rep(;rcb(;leaf)?)?|;rev(;leaf)?)?')
PATH = re.compile('main(;work' + BELOW + ')?')
A_PROCESS = 60


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


counts, judged, bad = collections.Counter(), 0, 0
name = os.path.join(work, 'stop.core')
while judged < stops:
    with Machine(qemu, root, 'usr/bin/node', arguments, by_instruction=False) as machine:
        machine.wait_for('begun')
        machine.run(random.random() * 4)
        for _ in range(min(A_PROCESS, stops - judged)):
            if not machine.run(random.random() * 0.05):
                raise SystemExit('node has ended')
            write_core(name, machine, root, all_code=True)
            out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', name, '--json'], capture_output=True, text=True).stdout
            thread = json.loads(out)['threads'][0]
            path, lines = functions(thread)
            marked = any(f.get('provenance', 'exact') != 'exact' for f in thread['frames'])
            whole, right = thread['stack'] == 'complete', PATH.fullmatch(path) and lines
            judged += 1
            what = 'not whole' if not whole else 'right' if right else 'wrong'
            counts[what + (', marked' if marked else '')] += 1
            if what != 'right' and bad < 5:
                bad += 1
                print(what, thread['stack'], path, 'all lines' if lines else 'a line is missing', [f['symbol'] for f in thread['frames'][:5]])
                if 'KEEP' in os.environ:
                    os.rename(name, os.path.join(os.environ['KEEP'], 'v8-%d.core' % judged))
print('node %s: %d stops: %s' % (' '.join(sys.argv[6:]), judged, ', '.join(f'{n} {what}' for what, n in sorted(counts.items()))))
# 99 % right, of few stops all; none wrong without a mark.
sys.exit(bool(counts['wrong'] or counts['right'] + counts['right, marked'] < judged * 0.99))
