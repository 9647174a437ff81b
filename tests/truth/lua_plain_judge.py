# SPDX-License-Identifier: GPL-2.0-only
"""Compares ljperf's stacks of a program of lua_plain_generate.py with what is true.

usage: lua_plain_judge.py [-v N] --truth JSON... --facts FILE (--data PERF.DATA | --marks FILE) SCRIPT
       SCRIPT  output of `ljperf script --ns -F +unwind`
       FACTS   what lua_mark.c says: where each thread's mark is
       MARKS   lines "TID TIME PREVIOUS MARK" in place of a recording

Who is right:
- the innermost function and its line: the program. Each sample's copy of the native stack, read here out
  of the recording itself, holds the number of the place that the program has passed last; the generator
  knows which functions may run, on which lines, until the next place;
- callers: the generator. The innermost function tells all others, the line of each call, C functions
  between and how deep recursions are.

Verdicts are those of lua_live_judge.py. Samples with no mark, or with mark 0, are not of the tree. What a host
does between two entries into Lua is counted apart, and so are samples whose copied stack does not reach the mark.
"""
import collections
import mmap
import re
import struct
import sys

import lua_live_judge as live

MAGIC, BITS = 0x4c4d, 24
LIBRARY = re.compile(r'^(?:(?:string|table|coroutine|debug|math|os|io|utf8|bit32|package|core|redis)\.\w+|pcall|xpcall|error|'
                     r'assert|select|tostring|tonumber|type|next|pairs|ipairs|setmetatable|getmetatable|rawget|rawset|rawequal|'
                     r'rawlen|load|loadstring|collectgarbage|unpack|newproxy|print|require|dofile|loadfile|getfenv|setfenv|host_enter)$')
ENTRIES = ('lua_pcall+', 'lua_pcallk+', 'lua_resume+', 'lua_call+', 'lua_callk+')


class Frame(live.Frame):
    """A frame of plain Lua; `builtin`: a C function that Lua has called, '' if nobody names it."""

    def __init__(self, text, nodes):
        super().__init__(text, nodes)
        match = live.FRAME.match(text)
        symbol, module, note = match.groups()[1:] if match else (text, '', '')
        words = (note or '').split()
        self.lua = words[:1] == ['lua'] or symbol.startswith('[lua')
        self.tail = symbol.startswith('(tail call)')
        if not self.lua:
            name = re.sub(r'\+0x[0-9a-f]+$', '', symbol)
            self.builtin = name if LIBRARY.match(name) else None
            self.node, self.unknown = None, False
        elif module in ('[builtin]', '[C]') or symbol == '[C]':
            self.builtin, self.node, self.unknown = '' if symbol == '[C]' or not LIBRARY.match(symbol) else symbol, None, False


# ---- marks ----------------------------------------------------------------------------------------


class Recording:
    """The marks of a perf.data's samples: {(tid, time): (previous, mark)}; None: the copied stack ends before it."""
    SAMPLE, ATTR_SIZE_MIN = 9, 96

    def __init__(self, path, places):
        self.marks = {}
        with open(path, 'rb') as f:
            data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        if data[:8] != b'PERFILE2':
            raise SystemExit('%s is no perf.data' % path)
        _, attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from('<6Q', data, 8)
        self.events, self.only = {}, None
        for at in range(attrs_at, attrs_at + attrs_size, attr_size):
            sample_type, = struct.unpack_from('<Q', data, at + 24)
            registers, = struct.unpack_from('<Q', data, at + 80)
            ids_at, ids_size = struct.unpack_from('<QQ', data, at + attr_size - 16)
            for i in range(ids_at, ids_at + ids_size, 8):
                self.events[struct.unpack_from('<Q', data, i)[0]] = (sample_type, registers)
            self.only = self.only or (sample_type, registers)
        at, end = data_at, data_at + data_size
        while at + 8 <= end:
            kind, _, size = struct.unpack_from('<IHH', data, at)
            if size < 8:
                raise SystemExit('%s: a record of %d bytes' % (path, size))
            if kind == self.SAMPLE:
                self.take(data, at + 8, places)
            at += size

    def take(self, data, at, places):
        kind, registers = self.only
        if kind & 1 << 16: # its identifier comes first
            kind, registers = self.events[struct.unpack_from('<Q', data, at)[0]]
            at += 8
        at += 8 if kind & 1 else 0
        _, tid = struct.unpack_from('<II', data, at)
        time, = struct.unpack_from('<Q', data, at + 8)
        at += 16
        for bit, size in (3, 8), (6, 8), (9, 8), (7, 8), (8, 8):
            at += size if kind & 1 << bit else 0
        if not kind & 1 << 13 or kind & 1 << 4 or tid not in places:
            return
        if kind & 1 << 5:
            at += 8 + 8 * struct.unpack_from('<Q', data, at)[0]
        if kind & 1 << 10:
            at += 4 + struct.unpack_from('<I', data, at)[0]
        if kind & 1 << 11:
            raise SystemExit('a sample with branches')
        abi, = struct.unpack_from('<Q', data, at)
        sp = struct.unpack_from('<Q', data, at + 8 + 8 * bin(registers & 0x7f).count('1'))[0] if abi else 0
        at += 8 + (8 * bin(registers).count('1') if abi else 0)
        size, = struct.unpack_from('<Q', data, at)
        if size:
            size = min(size, struct.unpack_from('<Q', data, at + 8 + size)[0])
        offset = places[tid] - sp
        if 0 <= offset <= size - 8:
            word, = struct.unpack_from('<Q', data, at + 8 + offset)
            if word >> 48 == MAGIC:
                self.marks[(tid, time)] = (word >> BITS & (1 << BITS) - 1, word & (1 << BITS) - 1)
        elif sp and offset > 0:
            self.marks[(tid, time)] = None


def read_places(path):
    with open(path) as f:
        return {int(tid): int(address, 16) for word, tid, address in map(str.split, f) if word == 'mark'}


def read_marks(path):
    with open(path) as f:
        return {(int(tid), int(time)): (int(before), int(now)) for tid, time, before, now in map(str.split, f)}


# ---- judging --------------------------------------------------------------------------------------


class Truth(live.Truth):
    def __init__(self, paths):
        super().__init__(paths)
        self.marks = {}
        for path in paths:
            with open(path) as f:
                told = live.json.load(f)
            for k, places in enumerate(told['marks']):
                found = collections.defaultdict(list)
                for name, first, last in places:
                    found[(told['file'], name)].append((first, last))
                self.marks[(told['file'], k)] = found


def match_callers(items, i, up):
    """As live.match_one, but C functions need not be there, or may have no name."""
    names, j = [], i + 1
    while j < len(items) and items[j].builtin is not None:
        names.append(items[j].builtin)
        j += 1
    if j >= len(items) or items[j].node is not up['parent'] or items[j].line != up['line']:
        return None
    via = list(up['via'])
    for name in names:
        while via and name and not live.builtin_is(name, via[0]):
            via.pop(0)
        if not via:
            return None
        via.pop(0)
    return j


def check_place(items, top, file, mark, truth):
    """Raises Wrong where the mark says another innermost function, or line; returns how it was told."""
    before, now = mark
    places = truth.marks.get((file, now), {})
    wild = [name for (_, name) in places if truth.by_name[(file, name)].get('wild')]
    i = top
    if wild:
        if items[top].node['name'] not in wild:
            raise live.Wrong('not in %s' % wild[0], top)
        places = truth.marks.get((file, before), {})
        if any(truth.by_name[p].get('wild') for p in places) or not before:
            return 'wild in wild'
    while i < len(items) and not (items[i].node and items[i].node.get('marked') and not items[i].node.get('wild')):
        i += 1
    if i == len(items):
        raise live.Wrong('no function of the tree', len(items) - 1)
    node, line = items[i].node, items[i].line
    ranges = places.get((file, node['name']))
    if not ranges:
        raise live.Wrong('%s, where the mark says %s' % (node['name'], sorted({n for _, n in places})), i)
    if line and not any(first <= line <= last for first, last in ranges):
        raise live.Wrong('line %d of %s, where the mark says %s' % (line, node['name'], ranges), i)
    return 'mark of wild' if wild else 'mark' if line else 'no line'


def check_top(items, top, truth):
    """Whether the C functions that the innermost Lua function has called stand on its line."""
    node, line = items[top].node, items[top].line
    text = truth.text(node, line)
    for f in items[:top]:
        word = f.builtin and re.split('[.:]', f.builtin)[-1]
        if word and text and word not in text and not (word == 'sin' and 'mark' in text) and not node.get('wild'):
            return False
    return True


def judge(sample, mark, truth, names):
    items = [f for f in sample.frames if (f.lua or f.builtin is not None) and not f.tail]
    if sample.end != 'complete':
        return 'incomplete', sample.end, ''
    if not any(f.lua for f in items):
        entered = any(f.name.startswith(ENTRIES) for f in sample.frames)
        return ('missing' if entered else live.OUTSIDE), 'no Lua frames', ''
    unknown = next((f for f in items if f.unknown), None)
    if unknown:
        return 'missing', 'unknown: ' + unknown.name, ''
    told = ''
    try:
        top = live.leading(items)
        if top is None:
            raise live.Wrong('C functions only', len(items) - 1)
        last = max(i for i, f in enumerate(items) if f.node)
        items = items[:last + 1]
        told = check_place(items, top, items[top].node['program'], mark, truth)
        live.check_callers(items, top, truth, match_callers)
        if not check_top(items, top, truth):
            raise live.Wrong('a C function that is not on its line', 0)
        if sample.frames[-1].lua:
            raise live.Wrong('no native frame below', len(items) - 1)
    except live.Wrong as e:
        why, at = e.args
        seen = sample.frames[:next(k for k, f in enumerate(sample.frames) if f is items[at]) + 1]
        return ('marked-wrong' if any(f.marked for f in seen) else 'wrong'), why, told
    for f in items:
        if f.node and f.node['first'] and f.node['defs']:
            name = f.name.replace(':', '.')
            right = name in f.node['defs']
            # (Lua before 5.3.4 itself takes a finalizer for the metamethod of the instruction at which it runs)
            called = f.node.get('wild') and name.startswith('__') or name in [d.rsplit('.', 1)[-1] for d in f.node['defs']] + f.node.get('called', [])
            names['right' if right else 'called' if called else 'wrong' if f.name else 'unnamed'] += 1
            if f.name and not right and not called:
                names['%s is not %s' % (f.name, f.node['defs'])] += 1
    marked = any(f.marked for f in sample.frames)
    return ('marked' if marked else 'exact'), '', told


def main():
    parser = live.parser_of_goals()
    parser.add_argument('--data')
    parser.add_argument('--marks')
    parser.add_argument('--all', action='store_true', help='every mark must have its sample')
    options = parser.parse_args()
    truth = Truth(options.truth)
    marks = read_marks(options.marks) if options.marks else Recording(options.data, read_places(options.facts[0])).marks
    counts, whys, tolds, shown, names, outside = (collections.Counter() for _ in range(6))
    for sample in live.read_samples(options.script, truth.nodes, Frame):
        mark = marks.get((sample.tid, sample.time), (0, 0))
        if mark is None:
            outside['samples whose copied stack ends before the mark'] += 1
            continue
        if not mark[1]:
            outside['samples outside of the tree'] += 1
            continue
        verdict, why, told = judge(sample, mark, truth, names)
        if verdict == live.OUTSIDE:
            outside['samples between two entries into Lua'] += 1
            continue
        counts[verdict] += 1
        tolds[told or 'nobody'] += 1
        if verdict in ('exact',):
            continue
        key = verdict + ': ' + re.sub(r'0x[0-9a-f]+|\d+|\{.*|\[.*', '#', why)
        whys[key] += 1
        shown[key] += 1
        if shown[key] <= options.v:
            print('--- %s: %s; mark %d, before %d' % (verdict, why, mark[1], mark[0]))
            print(sample.text, '#', sample.end)
            print('\n'.join(f.text for f in sample.frames))
    for what, n in outside.items():
        print('    %d %s' % (n, what))
    print('    definitions: %d named so, %d as callers do, %d by place, %d otherwise' %
          tuple(names[k] for k in ('right', 'called', 'unnamed', 'wrong')))
    for what, n in names.most_common(8):
        if ' is not ' in what:
            print('    %6d %s' % (n, what))
    live.report(options, counts, whys, tolds, collections.Counter({live.NO_LINE: tolds['no line']}))
    if names['wrong'] * 2000 > sum(names[k] for k in ('right', 'called', 'unnamed', 'wrong')):
        print('    MISSED: names')
        sys.exit(1)


if __name__ == '__main__':
    main()
