# SPDX-License-Identifier: GPL-2.0-only
"""Functions of a program by self time: node's own profiler (a .cpuprofile) against `ljperf script`'s
text, of two runs of the same work.

Usage: js_profile.py PROFILE SCRIPT [N [FILE [NAME:LOW:HIGH]...]]: of functions of FILE only, and of ours
those named have to have a share between LOW and HIGH percent. Prints the N (20) functions of JavaScript with most self time
of each side with their shares of the time in JavaScript, and last "AGREE a of n, largest difference
d": how many of node's n largest (of 1 % at least) are among ours with a share within 3 percent points
and a third, and the farthest. What a function's callees in C++ and builtins take is its own, as with
node's profiler.
"""
import collections
import json
import re
import statistics
import sys

FRAME = re.compile(r'\t *[0-9a-f]+ (.*) \((\S*)\) \[js ?([^\]]*)\]$')
PLACE = re.compile(r'(?:(.*) )?([^ ]*):(\d+):(\d+)$')


def file_name(path):
    return re.sub(r'^file://', '', path).rsplit('/', 1)[-1]


def of_node(path, only):
    """{(file, line): (share, name)}; lines from 1."""
    with open(path, encoding='utf-8') as f:
        profile = json.load(f)
    nodes = {n['id']: n['callFrame'] for n in profile['nodes']}
    times = collections.Counter()
    deltas = [max(delta, 0) for delta in profile['timeDeltas']]
    longest = 3 * statistics.median(deltas) # what is longer, others had the processor
    for node, delta in zip(profile['samples'], deltas):
        times[node] += min(delta, longest)
    parents = {child: n['id'] for n in profile['nodes'] for child in n.get('children', [])}
    got, names = collections.Counter(), {}
    for node, time in times.items():
        frame = nodes[node]
        while not frame['url'] and not frame['functionName'].startswith('('): # C++, called by its parent
            node = parents[node]
            frame = nodes[node]
        if not frame['url']: # (program), (idle), (garbage collector): not JavaScript
            continue
        key = file_name(frame['url']), frame['lineNumber'] + 1
        if only and key[0] != only:
            continue
        got[key] += time
        names[key] = frame['functionName']
    total = sum(got.values()) or 1
    return {k: (t / total, names[k]) for k, t in got.items()}


def of_script(path, only):
    got, names, js, unnamed = collections.Counter(), {}, 0, 0
    with open(path, encoding='utf-8', errors='replace') as f:
        for block in f.read().split('\n\n'):
            frames = [m.groups() for m in map(FRAME.match, block.split('\n')) if m]
            if not frames or 'GarbageCollect' in block.split('\t', 2)[-1] or '::Heap::' in block:
                continue
            js += 1
            place = PLACE.match(frames[0][0])
            if not place:
                unnamed += 1
                continue
            key = file_name(place.group(2)), int(place.group(3))
            if only and key[0] != only:
                continue
            got[key] += 1
            names[key] = place.group(1) or ''
    total = sum(got.values()) or 1
    return {k: (n / total, names[k]) for k, n in got.items()}, js, unnamed


def main():
    top = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    only = sys.argv[4] if len(sys.argv) > 4 else None
    theirs = of_node(sys.argv[1], only)
    ours, js, unnamed = of_script(sys.argv[2], only)
    order = lambda of: sorted(of, key=lambda k: -of[k][0])[:top]
    a, b = order(theirs), order(ours)
    print('%-52s %6s %6s' % ('by node --cpu-prof', 'node', 'here'))
    for k in a:
        print('%-52s %5.1f%% %5.1f%%' % ('%s %s:%d' % (theirs[k][1] or '?', *k), 100 * theirs[k][0],
                                         100 * ours.get(k, (0,))[0]))
    print('\n%-52s %6s %6s' % ('by ljperf', 'node', 'here'))
    for k in b:
        print('%-52s %5.1f%% %5.1f%%' % ('%s %s:%d' % (ours[k][1] or '?', *k),
                                         100 * theirs.get(k, (0,))[0], 100 * ours[k][0]))
    large = [k for k in a if theirs[k][0] >= 0.01]
    far = {k: abs(theirs[k][0] - ours.get(k, (0,))[0]) for k in large}
    agree = [k for k in large if far[k] <= 0.03 + theirs[k][0] / 3]
    print('\n%d samples in JavaScript, %d of no known function; %d of the %d in both lists' %
          (js, unnamed, len(set(a) & set(b)), top))
    print('AGREE %d of %d, largest difference %.1f' %
          (len(agree), len(large), 100 * max(far.values(), default=0)))
    for name, low, high in (want.split(':') for want in sys.argv[5:]):
        share = 100 * sum(s for s, n in ours.values() if n == name)
        if not int(low) <= share <= int(high):
            sys.exit('%s has %.1f %%, not %s to %s' % (name, share, low, high))


main()
