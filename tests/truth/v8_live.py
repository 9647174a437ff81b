# SPDX-License-Identifier: GPL-2.0-only
"""Stacks of v8_live.js in ljperf's text, against what the program wrote down while it ran.

usage: v8_live.py [options] PROGRAM FACTS SCRIPT
       SCRIPT: output of `ljperf script --ns -F +unwind`

The program notes when each of its paths began and ended, so it is known in which one a sample was;
what calls what there, and in which line, is in the program's text and in PATHS. All samples within
a path count, and the JavaScript functions of the program in them are compared from the outermost
one on: as deep as the stack goes it must be one of the path's chains. One of:
  exact       every frame's function, its place, and the line of each call, unmarked, to the entry
  marked      right, some frames marked as not exact
  lineless    right, but the line of a call is not told
  missing     a function is missing, and the stack says so
  incomplete  the stack does not reach the entry
  marked-wrong, wrong   a frame is wrong; some are marked, or none
"""
import argparse
import bisect
import collections
import re
import sys

# The calls below main of each path, the longest ones; `:` begins one that has no caller.
PATHS = {
    'viaPlain': ['viaPlain plainB plainC spin', 'viaPlain plainC spin'],
    'viaClass': ['viaClass Derived.make new+Derived new+Base spin', 'viaClass Derived.method spin'],
    'viaClosure': ['viaClosure outer inner spin'],
    'viaSort': ['viaSort compare spin'],
    'viaMap': ['viaMap each spin'],
    'viaForEach': ['viaForEach visit spin'],
    'viaReplace': ['viaReplace swap spin'],
    'viaJson': ['viaJson reviver spin'],
    'viaFrom': ['viaFrom item spin'],
    'viaGetter': ['viaGetter get+value spin'],
    'viaProxy': ['viaProxy setTrap', 'viaProxy trap spin'],
    'viaApply': ['viaApply applied spin'],
    'viaBound': ['viaBound target spin'],
    'viaGenerator': ['viaGenerator numbers spin'],
    'viaДва': ['viaДва spin'],
    'viaEval': ['viaEval inEval spin'],
    'viaNewEval': ['viaNewEval eval:1 inNewEval spin'],
    'viaRecursion': ['viaRecursion' + 20 * ' recurse' + ' spin'],
    'viaDeep': ['viaDeep' + n * ' descend' + ' spin' for n in range(50, 2000, 50)] + ['viaDeep' + 1999 * ' descend'],
    'viaWasm': ['viaWasm wasm:1 wasm:2'],
    'viaImport': ['viaImport wasm:3 wasm:4 imported spin'],
    'viaManyImports': ['viaManyImports relayNothing wasm:3 wasm:4 imported spin'],
    'viaAsync': ['viaAsync', ': viaAsync spin'],
    'viaThen': ['viaThen', ': then spin'],
    'viaAsyncGenerator': ['viaAsyncGenerator asyncNumbers spin', ': viaAsyncGenerator asyncNumbers'],
}
CHAINS = {path: [tuple(f.replace('+', ' ') for f in (c[2:] if c[0] == ':' else 'main ' + c).split()) for c in chains]
          for path, chains in PATHS.items()}
WASM_NAMES = {2: 'wasmSpin ü', 1: 'outer'}
CALL_BYTES = {'wasm:1': 0x3d, 'wasm:3': 0x66, 'wasm:4': 0x6d} # of each function's only call, as node's stack traces have it
MINIFIED = {'wasm:1', 'wasm:2', 'wasm:3', 'wasm:4', 'eval:1', 'inEval', 'inNewEval'}
SHOWN = 12 # frames of a stack
NEIGHBOUR = 300000 # ns: a processor may be taken away between an interruption and its time
VERDICTS = ['exact', 'marked', 'lineless', 'missing', 'incomplete', 'marked-wrong', 'wrong']
FRAME = re.compile(r'^\t *([0-9a-f]+) (.*) \(([^()]*)\) \[((?:js|wasm)\b[^\]]*)\]$')
HEAD = re.compile(r'^(.*?) +(\d+) .*?(\d+)\.(\d{9}): +\d+ +\S')


def read_program(path):
    """Lines where functions begin, and where they call."""
    defined, calls = {}, collections.defaultdict(set)
    for number, text in enumerate(open(path, encoding='utf-8'), 1):
        m = re.search(r'// @def (.*)$', text)
        if m:
            defined[m.group(1)] = number
        m = re.search(r'// @call (.*?)(?: (\d+))?$', text)
        if m:
            words = m.group(1).split()
            caller = ' '.join(words[:2]) if words[0] in ('new', 'get') else words[0]
            calls[caller, m.group(1)[len(caller) + 1:]].add(int(m.group(2) or number))
    return defined, calls


def read_facts(path):
    """{tid: [(begin, end, path)]}"""
    threads, tid = collections.defaultdict(list), None
    for text in open(path, encoding='utf-8'):
        words = text.split()
        if words[0] == 'thread':
            tid = int(words[1])
        else:
            threads[tid].append((int(words[1]), int(words[2]), words[0]))
    return threads


class Frame:
    __slots__ = ('name', 'line', 'at', 'marked', 'unknown', 'own', 'text')

    def __init__(self, text, program):
        self.text = text
        m = FRAME.match(text)
        symbol, module, note = m.group(2), m.group(3), m.group(4)
        words = note.split()
        self.marked = 'guess' in words or 'image' in words
        self.unknown = symbol.startswith(('[js:', '[wasm:')) or symbol == '?'
        at = re.search(r'line=(\d+)|byte=0x([0-9a-f]+)', note)
        self.at = int(at.group(1)) if at and at.group(1) else int(at.group(2), 16) if at else 0
        self.own = program in module or module.startswith('wasm:') or self.unknown
        self.line = 0
        wasm = re.match(r'(?:(.*) )?wasm:\S*:wasm-function\[(\d+)\]$', symbol)
        js = re.match(r'(?:(.*) )?\S*?(:<eval>)?:(\d+):(\d+)$', symbol)
        if wasm:
            self.name = 'wasm:' + wasm.group(2)
            own = WASM_NAMES.get(int(wasm.group(2)))
            if wasm.group(1) != ('demo.' + own if own else 'demo'):
                self.name = 'misnamed ' + symbol
        elif js:
            self.name = js.group(1) or ('eval:' + js.group(3) if js.group(2) else '')
            self.line = int(js.group(3))
        else:
            self.name = symbol


def read_samples(path, program):
    cache, head, end, frames, native = {}, None, '', [], False
    for text in open(path, encoding='utf-8', errors='replace'):
        text = text.rstrip('\n')
        if text.startswith('\t'):
            if text not in cache:
                cache[text] = Frame(text, program) if FRAME.match(text) else None
            if cache[text]:
                frames.append((cache[text], native))
            native = True
        elif text.startswith('# stack: '):
            end = text[9:]
        elif text:
            head, end, frames, native = HEAD.match(text), '', [], False
        elif head:
            # the first frame is innermost if nothing native stood before it
            innermost = bool(frames) and not frames[0][1]
            yield int(head.group(2)), int(head.group(3) + head.group(4)), end, [f for f, _ in frames], innermost
            head = None


class Judge:
    def __init__(self, program, arguments):
        self.defined, self.calls = read_program(program)
        self.arguments = arguments
        self.ends = {}
        lines = sorted(self.defined.values()) + [10 ** 9]
        for name, line in self.defined.items():
            self.ends[name] = lines[bisect.bisect_right(lines, line)]
        for (caller, _), at in self.calls.items(): # what is behind an inner function is the outer's, too
            self.ends[caller] = max(self.ends.get(caller, 0), max(at) + 4)

    def place(self, f):
        return f.name.startswith('wasm:') or f.line == (2 if f.name == 'inNewEval' else 1) \
            if f.name in MINIFIED else f.line == self.defined.get(f.name)

    def follows(self, frames, path):
        """frames: outermost first. None: right; else why not."""
        names = tuple(f.name for f in frames)
        if names != ('main', 'clock') and not any(names == chain[:len(names)] for chain in CHAINS[path]):
            return 'wrong'
        if not all(self.place(f) for f in frames):
            return 'wrong'
        lineless = False
        for caller, called in zip(frames, frames[1:]):
            if caller.name.startswith('wasm:'):
                lineless |= not caller.at
                if caller.at not in (0, CALL_BYTES.get(caller.name)):
                    return 'wrong'
                continue
            lines = self.calls.get((caller.name, called.name)) or self.calls[caller.name, '-']
            if not lines:
                raise KeyError((caller.name, called.name))
            if not caller.at:
                lineless = True
            elif caller.at not in lines:
                return 'wrong'
        leaf = frames[-1] if frames else None
        if leaf and leaf.name in self.defined and leaf.at and \
                not self.defined[leaf.name] <= leaf.at <= self.ends[leaf.name]:
            return 'wrong'
        return 'lineless' if lineless else None

    def verdict(self, frames, end, paths):
        """frames: innermost first."""
        if end != 'complete':
            return 'incomplete'
        own = [f for f in frames if f.own][::-1]
        if own and not own[0].name and own[0].line == 1 and not own[0].unknown: # the file's own code
            own = own[1:]
        if any(f.unknown for f in frames):
            return 'missing'
        marked = any(f.marked for f in frames)
        whys = [self.follows(own, path) for path in paths]
        if None in whys:
            return 'marked' if marked else 'exact'
        if 'lineless' in whys:
            return 'lineless'
        return 'marked-wrong' if marked else 'wrong'


def paths_at(records, time):
    """The paths that ran then, or just before."""
    i = bisect.bisect_right(records, (time, 1 << 62, '')) - 1
    if i < 0 or (i + 1 == len(records) and time > records[i][1]):
        return []
    paths = [records[i][2]]
    if i and time - records[i][0] < NEIGHBOUR:
        paths.append(records[i - 1][2])
    if i + 1 < len(records) and time > records[i][1]: # the next one's first instant
        paths.append(records[i + 1][2])
    return paths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('-v', type=int, default=0, help='show N samples of each fault')
    parser.add_argument('--name', default='')
    parser.add_argument('--exact-min', type=float, default=99, help='%% of samples with JavaScript innermost')
    parser.add_argument('--wrong-max', type=float, default=0.05, help='%%')
    parser.add_argument('--true-min', type=float, default=0, help='%% exact or marked')
    parser.add_argument('--complete-min', type=float, default=99.8, help='%% of all stacks')
    parser.add_argument('--samples-min', type=int, default=100)
    parser.add_argument('program')
    parser.add_argument('facts')
    parser.add_argument('script')
    a = parser.parse_args()
    judge = Judge(a.program, a)
    facts = read_facts(a.facts)
    program = a.program.rsplit('/', 1)[-1]
    every, inner = collections.Counter(), collections.Counter()
    faults, stacks, complete, ends = collections.defaultdict(collections.Counter), 0, 0, collections.Counter()
    for tid, time, end, frames, innermost in read_samples(a.script, program):
        stacks += 1
        complete += end == 'complete'
        if end != 'complete':
            ends[re.sub('pc 0x[0-9a-f]*', 'pc', end) if 'pc' in end else end] += 1
        paths = paths_at(facts[tid], time) if tid in facts else []
        if not paths:
            continue
        v = judge.verdict(frames, end, paths)
        every[v] += 1
        inner[v] += innermost
        if v not in ('exact',):
            faults[v][paths[0], tuple(f.text for f in frames if f.own)] += 1
    total = sum(inner.values()) or 1
    share = {v: 100 * inner[v] / total for v in VERDICTS}
    all_share = {v: 100 * every[v] / (sum(every.values()) or 1) for v in VERDICTS}
    print(f'{a.name}: {sum(inner.values())} samples with JavaScript innermost: ' +
          ', '.join(f'{share[v]:.2f} % {v}' for v in VERDICTS if inner[v]) +
          f'; of {sum(every.values())} in all: ' + ', '.join(f'{all_share[v]:.2f} % {v}' for v in VERDICTS if every[v]) +
          f'; {100 * complete / (stacks or 1):.2f} % of {stacks} stacks complete')
    for v in VERDICTS:
        for (path, texts), n in faults[v].most_common(a.v):
            print(f'--- {v}, {n} times, in {path}')
            print('\n'.join(texts[:SHOWN] + ('...',) * (len(texts) > SHOWN)))
    if a.v:
        for end, n in ends.most_common(8):
            print(f'--- {n} stacks: {end}')
    bad = [text for text, is_bad in (
        (f'fewer than {a.samples_min} samples', sum(inner.values()) < a.samples_min),
        (f'fewer than {a.exact_min} % exact', share['exact'] < a.exact_min),
        (f'fewer than {a.true_min} % true', share['exact'] + share['marked'] < a.true_min),
        (f'more than {a.wrong_max} % wrong', all_share['wrong'] > a.wrong_max),
        (f'fewer than {a.complete_min} % complete', 100 * complete / (stacks or 1) < a.complete_min)) if is_bad]
    if bad:
        print(f'{a.name}: {"; ".join(bad)}')
    sys.exit(bool(bad))


main()
