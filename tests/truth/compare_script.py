#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares two perf-script texts of one recording, sample by sample: PEER OURS.

Prints a table of counts as JSON. A stack is complete when its outermost frame is an entry point
or a thread's start. Options: --min-equal PERCENT: fail below that share of samples whose user
frames (addresses) are equal where the peer's stack is complete, not counting those where the peer
left frames out of the same path; --show N: print differences."""
import argparse, collections, itertools, json, re, sys

ENTRY = re.compile(r'^(_start|__?clone3?|clone3?|ret_from_fork\w*|_dl_start_user)(@|$)')
FRAME = re.compile(r'^\s+([0-9a-f]+) (.+) \((.*?)\)( \[.*\])?$')
INLINED = re.compile(r'^\s+([0-9a-f]+) (.+) \(inlined\)$')


def samples(path):
    head, frames = None, []
    with open(path, errors='surrogateescape') as f:
        for line in f:
            line = line.rstrip('\n')
            if not line:
                if head is not None:
                    yield head, frames
                head, frames = None, []
            elif head is None:
                head = line
            elif line[0] in '\t ':
                frames.append(line)
    if head is not None:
        yield head, frames


def parse(lines):
    out = []
    for line in lines:
        m = FRAME.match(line)
        if m:
            sym = re.sub(r'\+0x[0-9a-f]+$', '', m.group(2))
            out.append((int(m.group(1), 16), sym, m.group(3), m.group(2)))
    return out


def user(frames):
    # perf ends some stacks it lost with an address of all ones, or one that is in no mapping
    frames = [f for f in frames if not (f[0] >= 1 << 63)]
    while frames and frames[-1][2] == '[unknown]':
        frames = frames[:-1]
    return frames


def managed_as_native(ours, peer):
    """Lua that was not recorded is one frame in place of the interpreter's own: the same place."""
    return [peer[i] if f[2] == '[lua]' and i < len(peer) else f for i, f in enumerate(ours)]


def subsequence(a, b):
    it = iter(b)
    return all(x in it for x in a)


def complete(frames):
    return bool(frames) and bool(ENTRY.match(frames[-1][1]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('peer')
    ap.add_argument('ours')
    ap.add_argument('--min-equal', type=float)
    ap.add_argument('--show', type=int, default=0)
    a = ap.parse_args()
    n = collections.Counter()
    kinds = collections.Counter()
    for (ph, pf), (oh, of) in itertools.zip_longest(samples(a.peer), samples(a.ours),
                                                    fillvalue=('(missing)', [])):
        n['samples'] += 1
        if ph.split() != oh.split():
            n['heads_differ'] += 1
            if a.show and n['heads_differ'] <= 3:
                print('HEAD', ph, '|', oh)
        n['frames_peer'] += len(pf)
        n['text_equal'] += pf == of
        p, o = user(parse(pf)), user(parse(of))
        o = managed_as_native(o, p)
        pc, oc = complete(p), complete(o)
        n['peer_complete'] += pc
        n['ours_complete'] += oc
        pa, oa = [f[0] for f in p], [f[0] for f in o]
        if pc:
            n['addresses_equal_where_complete'] += pa == oa
            # perf skips a caller where it falls back to frame pointers, and stops at clone3
            n['peer_left_frames_out'] += pa != oa and oc and subsequence(pa, oa)
        elif len(oa) < len(pa):
            n['ours_shorter_where_peer_incomplete'] += 1
        for x, y in zip(p, o):
            if x[0] == y[0]:
                n['frames_compared'] += 1
                n['symbols_equal'] += x[3] == y[3]
                n['modules_equal'] += x[2] == y[2]
                if x[3] != y[3]:
                    kinds['symbol %s | %s' % (x[3], y[3])] += 1
                if x[2] != y[2]:
                    kinds['module %s | %s' % (x[2], y[2])] += 1
        if pa != oa:
            i = next((i for i, (x, y) in enumerate(zip(pa, oa)) if x != y), min(len(pa), len(oa)))
            at = lambda s: s[i][1] + ' ' + s[i][2] if i < len(s) else 'END'
            kinds['frame %d: after %s: %s | %s%s' % (i, p[i - 1][1] if i else '-', at(p), at(o),
                                                     ' (peer complete)' if pc else '')] += 1
            if a.show and n['shown'] < a.show:
                n['shown'] += 1
                print(ph)
                for x, y in itertools.zip_longest(pf, of, fillvalue=''):
                    print('%-70s|%s' % (x[:70], y))
                print()
    print(json.dumps(n, indent=1))
    for k, v in kinds.most_common(25 if a.show else 8):
        print('%7d %s' % (v, k))
    explained = n['addresses_equal_where_complete'] + n['peer_left_frames_out']
    share = 100.0 * n['addresses_equal_where_complete'] / max(1, n['peer_complete'])
    print('equal where the peer is complete: %.3f%%; complete: peer %.2f%%, ours %.2f%%' % (
        share, 100.0 * n['peer_complete'] / max(1, n['samples']),
        100.0 * n['ours_complete'] / max(1, n['samples'])))
    if a.min_equal is not None:
        wrong = []
        if 100.0 * explained < a.min_equal * n['peer_complete']:
            wrong.append('too few equal stacks where the peer is complete')
        if share < 99 and n['peer_complete'] >= 200:
            wrong.append('the peer leaves frames out too often')
        if n['ours_complete'] < n['peer_complete']:
            wrong.append('fewer complete stacks than the peer')
        if n['heads_differ']:
            wrong.append('%d heads of samples differ' % n['heads_differ'])
        if n['ours_shorter_where_peer_incomplete']:
            wrong.append('%d stacks end earlier than the peer\'s' % n['ours_shorter_where_peer_incomplete'])
        for w in wrong:
            print('WRONG:', w)
        sys.exit(1 if wrong else 0)


main()
