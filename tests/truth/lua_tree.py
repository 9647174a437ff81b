#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Judges ljperf script's text of a recording of lua_tree.lua: TEXT LINES [--show N], where LINES is what
the program printed. A function's name says who called it: t_1_2 is called by t_1 only, t by the
main chunk; each has a line of its own, which tells it and its closures. Prints counts of the samples of the
program's loop; exits 1 when the shares miss --whole (exact or marked), --wrong, --missing, --entry."""
import argparse, collections, re, sys

FRAME = re.compile(r'^\s+[0-9a-f]+ (.+) \((.*?)\)( \[(.*)\])?$')
NODE = re.compile(r'(?:^| )tree:(\d+)$')


def judge(frames, nodes, host):
    """whole, marked (right but not exact), wrong, wrong-marked, missing or none (not in the loop)"""
    names, marked, missing = [], False, False
    for symbol, module, note in frames:
        words = (note or '').split()
        if 'image' in words or 'guess' in words:
            marked = True
        if symbol == '[lua: not recorded]':
            missing = True
        m = NODE.search(symbol)
        name = m and nodes[int(m.group(1))]
        if m and names[-1:] != [name]:
            names.append(name)
        if symbol.startswith('main chunk ') and 'tree.lua' in symbol:
            names.append('main')
    if missing and names:
        return 'missing'
    if not names or names == ['main']:
        return 'none' if not missing else 'missing'
    path = names[0]
    want = []
    while path != 'main':
        want.append(path)
        path = path.rpartition('_')[0] or 'main'
    if not host:
        want.append('main')
    right = names == want
    return ('whole' if not marked else 'marked') if right else ('wrong-marked' if marked else 'wrong')


def samples(path):
    with open(path, errors='surrogateescape') as f:
        for block in f.read().split('\n\n'):
            lines = [l for l in block.split('\n') if l]
            if not lines:
                continue
            frames = []
            for line in lines[1:]:
                m = FRAME.match(line)
                if m:
                    frames.append((re.sub(r'\+0x[0-9a-f]+$', '', m.group(1)), m.group(2), m.group(4)))
            yield lines, frames


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('text')
    ap.add_argument('lines')
    ap.add_argument('--show', type=int, default=0)
    ap.add_argument('--whole', type=float, default=0)
    ap.add_argument('--wrong', type=float, default=100)
    ap.add_argument('--missing', type=float, default=100)
    ap.add_argument('--entry', type=float, default=0)
    ap.add_argument('--least', type=int, default=0)
    ap.add_argument('--host', action='store_true', help='t is called from C, by no main chunk')
    a = ap.parse_args()
    with open(a.lines) as f:
        nodes = {int(line.split()[0]): line.split()[1] for line in f}
    n = collections.Counter()
    for lines, frames in samples(a.text):
        # (a stack that ends early does not reach lua_pcall, and counts all the same)
        if not any(s.startswith('lua_pcall') or (note or '').startswith('lua') for s, _, note in frames):
            continue  # the interpreter starts or ends
        what = judge(frames, nodes, a.host)
        if what == 'none':
            n['outside'] += 1
            continue
        n[what] += 1
        n['entry'] += frames[-1][0].startswith(('_start', 'clone3', '__clone3', '__clone'))
        if what in ('wrong', 'missing') and n['shown'] < a.show:
            n['shown'] += 1
            print('\n'.join(lines), '\n', what)
    total = sum(n[k] for k in ('whole', 'marked', 'wrong', 'wrong-marked', 'missing'))
    share = {k: 100 * n[k] / max(total, 1)
             for k in ('whole', 'marked', 'wrong', 'wrong-marked', 'missing', 'entry')}
    print(total, 'samples:', ', '.join('%s %.3f%%' % kv for kv in share.items()),
          '; outside the tree', n['outside'])
    # one sample is no share: of a few hundred it would be more than any limit
    ok = (total >= a.least and share['whole'] + share['marked'] >= a.whole and
          n['wrong'] <= max(1, total * a.wrong / 100) and share['missing'] <= a.missing and share['entry'] >= a.entry)
    sys.exit(not ok)


main()
