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
import random
import re
import subprocess
import sys

from aarch64_machine import Machine, write_core

ljperf, qemu, gdb, root, stops, work = sys.argv[1:4] + [os.path.abspath(sys.argv[4]), int(sys.argv[5]), sys.argv[6]]
program, arguments = sys.argv[7], sys.argv[8:]
A_PROCESS = 50
here = os.path.dirname(os.path.abspath(__file__))


def make_cores():
    paths = []
    while len(paths) < stops:
        with Machine(qemu, root, program, arguments) as machine:
            machine.run(0.2 + random.random() * 0.3) # behind the loader
            for _ in range(min(A_PROCESS, stops - len(paths))):
                if not machine.run(random.random() * 0.02):
                    break # the program has ended
                paths.append(os.path.join(work, '%d.core' % len(paths)))
                write_core(paths[-1], machine, root)
    return paths


def ours(path):
    out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', path, '--json'], capture_output=True, text=True).stdout
    thread = json.loads(out)['threads'][0]
    frames = [f for f in thread['frames'] if not f.get('inlined')]
    return thread['stack'], [int(f['pc'], 16) for f in frames], {f.get('provenance', 'exact') for f in frames}


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


def own_functions(path):
    """The program's own functions, outermost first."""
    out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', path, '--json'], capture_output=True, text=True).stdout
    thread = json.loads(out)['threads'][0]
    names = [f['symbol'] or '?' for f in thread['frames'] if f['module'] == '/' + program]
    return thread['stack'], ';'.join(reversed(names)), [f for f in thread['frames'] if f.get('provenance', 'exact') != 'exact']


def judge_by_path(paths, regex):
    counts = collections.Counter()
    for path in paths:
        stack, names, marked = own_functions(path)
        right = stack == 'complete' and re.fullmatch(regex, names)
        what = 'right' if right and not marked else 'right, marked' if right else 'wrong, marked' if marked else 'wrong'
        counts[what] += 1
        if what != 'right':
            print(what, stack, names)
            if 'KEEP' in os.environ:
                os.rename(path, os.path.join(os.environ['KEEP'], os.path.basename(program) + '-' + os.path.basename(path)))
    print('%s: %d stops: %s' % (program, len(paths), ', '.join('%d %s' % (n, what) for what, n in sorted(counts.items()))))
    sys.exit(counts['right'] < len(paths))


counts = collections.Counter()
paths = make_cores()
if gdb.startswith('path='):
    judge_by_path(paths, gdb[5:])
gdbs = theirs(paths)
shown = 0
for path in paths:
    stack, pcs, marks = ours(path)
    want = gdbs[path]
    same = [a == b for a, b in zip(pcs, want)]
    if all(same) and len(pcs) == len(want):
        what = 'equal' if stack == 'complete' else 'equal, but ' + stack
        what += ', marked' if marks & {'guess', 'image'} else ''
    elif all(same) and len(pcs) > len(want) and stack == 'complete':
        what = 'shorter in gdb'
    else:
        what = 'different, marked' if marks & {'guess', 'image'} else 'different'
    counts[what] += 1
    if what not in ('equal', 'shorter in gdb') and shown < 3:
        shown += 1
        print(what, stack, ['%x' % p for p in pcs], ['%x' % p if isinstance(p, int) else p for p in want])
        if 'KEEP' in os.environ:
            os.rename(path, os.path.join(os.environ['KEEP'], os.path.basename(program) + '-' + os.path.basename(path)))
    elif os.path.exists(path):
        os.unlink(path)
print('%s: %d stops: %s' % (program, len(paths), ', '.join('%d %s' % (n, what) for what, n in sorted(counts.items()))))
sys.exit(counts['equal'] + counts['shorter in gdb'] < len(paths) or counts['shorter in gdb'] > len(paths) / 20 + 2)
