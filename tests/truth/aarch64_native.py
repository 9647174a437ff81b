# SPDX-License-Identifier: GPL-2.0-only
"""Stops native programs of AArch64 at random instructions, and compares their stacks with gdb's (test_aarch64_native).

usage: aarch64_native.py LJPERF QEMU GDB ROOT STOPS WORK PROGRAM ARGUMENTS...
       PROGRAM: a path below ROOT; it must run for long. WORK: a scratch folder. With $KEEP, cores whose stacks differ stay
       in that folder. GDB may be path=REGEX: functions of the program, outermost first, joined by ";", are compared with
       that instead (gdb 13 does not end in a signal handler under qemu).

Where gdb's stack ends before the program's entry, it is compared as far as it goes (`shorter`), and must be rare.
"""
import collections
import json
import os
import re
import subprocess
import sys

from aarch64_machine import done_with, is_marked, random_cores, stack_of, summary

ljperf, qemu, gdb, root, stops, work = sys.argv[1:4] + [os.path.abspath(sys.argv[4]), int(sys.argv[5]), sys.argv[6]]
program, arguments = sys.argv[7], sys.argv[8:]
here = os.path.dirname(os.path.abspath(__file__))


def theirs(paths):
    with open(os.path.join(work, 'cores'), 'w') as f:
        f.write('\n'.join(paths))
    environment = dict(os.environ, SYSROOT=root, PROGRAM=os.path.join(root, program), CORES=f.name)
    out = subprocess.run([gdb, '-nx', '-batch', '-x', os.path.join(here, 'aarch64_gdb.py')], env=environment, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    got = dict(json.loads(line[4:]) for line in out.stdout.split('\n') if line.startswith('PCS '))
    if len(got) != len(paths):
        raise SystemExit('gdb: ' + out.stderr[-300:])
    return got


def judge_by_path(thread, regex):
    """The program's own functions, outermost first, must be a path that it can take."""
    path = ';'.join(reversed([f['symbol'] or '?' for f in thread['frames'] if f['module'] == '/' + program]))
    return ('right' if thread['stack'] == 'complete' and re.fullmatch(regex, path) else 'wrong'), path


def judge_by_gdb(thread, want):
    pcs = [int(f['pc'], 16) for f in thread['frames'] if not f.get('inlined')]
    same = all(a == b for a, b in zip(pcs, want))
    if thread['stack'] != 'complete':
        what = 'not whole'
    elif same and len(pcs) == len(want):
        what = 'equal'
    else:
        what = 'shorter in gdb' if same and len(pcs) > len(want) else 'different'
    return what, '%s, gdb: %s' % tuple([hex(p) if isinstance(p, int) else p for p in row] for row in (pcs, want))


counts, shown = collections.Counter(), 0
paths = list(random_cores(stops, work, qemu, root, program, arguments, warm=0.4))
by_path = gdb[5:] if gdb.startswith('path=') else None
gdbs = {} if by_path else theirs(paths)
for path in paths:
    thread = stack_of(ljperf, root, path)
    what, told = judge_by_path(thread, by_path) if by_path else judge_by_gdb(thread, gdbs[path])
    what += ', marked' if is_marked(thread) else ''
    counts[what] += 1
    good = what in ('equal', 'right', 'shorter in gdb')
    if not good and shown < 3:
        shown += 1
        print(what, thread['stack'], told)
    done_with(path, not good)
print(summary(program, counts))
shorter = counts['shorter in gdb']
sys.exit(counts['equal'] + counts['right'] + shorter < len(paths) or shorter > len(paths) / 20 + 2)
