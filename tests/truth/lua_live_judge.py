# SPDX-License-Identifier: GPL-2.0-only
"""Compares ljperf's stacks of a generated Lua program with what the program and its generator say.

usage: lua_live_judge.py [-v N] --binary LUAJIT --truth JSON --facts FILE [...] SCRIPT
       SCRIPT: output of `ljperf script --ns -F +unwind,+uregs`
On AArch64 RBX, as it is called here, is x21.

Who is right:
- callers: the generator. The innermost function of the tree tells all others, the line of each call
  and how deep recursions are;
- the innermost: the machine. In the interpreter's code (but for what handles a trace's exit before it
  loads RBX) RBX is the next bytecode instruction, whose
  function and line the program printed of itself; in machine code the trace at the instruction
  pointer tells what was recorded into it, and where it goes on ("next": its last instructions
  prepare for that line). The interpreter is the binary's longest entry of unwind
  information with its frame: of 80 bytes; on AArch64 with d15 saved 160 bytes below its end.

All samples of the program's main loop count. One of:
  exact       every frame right and unmarked, to the entry
  marked      right, some frames marked as not exact
  leaf        the innermost function is right, the stack says that its callers are missing
  marked-wrong, wrong   a frame is wrong; from the leaf to it one is marked, or none
  missing     Lua is missing, and the stack says so or shows none
  incomplete  the stack does not reach the entry
What a host does between two entries into Lua (its stack shows no call of lua_pcall or lua_resume, nor is it
in the interpreter) is not of the main loop: it is counted apart.
"""
import argparse
import bisect
import collections
import json
import re
import subprocess
import sys

FRAME = re.compile(r'^\t *([0-9a-f]+) (.*) \(([^ ]*)\)(?: \[(.*)\])?$')
HEAD = re.compile(r'^(.*?) +(\d+) .*?(\d+)\.(\d{9}): +\d+ +\S')
VERDICTS = ['exact', 'marked', 'leaf', 'missing', 'incomplete', 'marked-wrong', 'wrong']
OUTSIDE = 'outside'
HOST_FUNCTIONS = ('host_enter', '') # between a VM and the one that it was entered from
NO_LINE = 'trace, no line'
ANOTHER_LINE = 'trace, another line' # than the trace was recorded of
INTERPRETER_BYTES_MIN = 8192
INTERPRETER_FRAME = re.compile(r'DW_CFA_def_cfa_offset: 80|DW_CFA_offset_extended: r79 \(v15\) at cfa-160')
CHANCE = 2 # samples of a short run that prove nothing


class Frame:
    __slots__ = ('lua', 'node', 'builtin', 'line', 'marked', 'unknown', 'text', 'name', 'trace')

    def __init__(self, text, nodes):
        self.text = text
        match = FRAME.match(text)
        symbol, note = (match.group(2), match.group(4) or '') if match else (text, '')
        words = note.split()
        self.lua = 'lua' in words or symbol.startswith('[lua')
        self.marked = 'image' in words or 'guess' in words
        self.trace = 'trace=' in note
        self.line, self.node, self.builtin, self.unknown, self.name = 0, None, None, False, symbol
        if not self.lua:
            return
        for word in words:
            if word.startswith('line='):
                self.line = int(word[5:].split(':')[0])
        if match.group(3) == '[builtin]':
            self.builtin = symbol
        elif symbol == '[C]': # the host's only one
            self.builtin = 'host_enter'
        elif symbol.startswith('main chunk '):
            self.node = nodes.get((symbol[len('main chunk '):], 0))
        else:
            where = symbol.rsplit(' ', 1)[-1].rsplit(':', 1)
            if len(where) == 2 and where[1].isdigit():
                self.node = nodes.get((where[0].rsplit('/', 1)[-1], int(where[1])))
                self.name = symbol.split(' ')[0] if ' ' in symbol else ''
            elif ' ' in symbol: # a chunk's own code that has a name
                self.node = nodes.get((symbol.rsplit(' ', 1)[1], 0))
        self.unknown = self.node is None and self.builtin is None


class Sample:
    __slots__ = ('tid', 'time', 'ip', 'rbx', 'frames', 'end', 'text')


def read_samples(path, nodes, frame_of=Frame):
    cache = {}
    sample = None
    with open(path, errors='replace') as f:
        for line in f:
            line = line.rstrip('\n')
            if line.startswith('\t'):
                frame = cache.get(line)
                if frame is None:
                    frame = cache[line] = frame_of(line, nodes)
                sample.frames.append(frame)
            elif line.startswith('# stack: '):
                sample.end = line[9:]
            elif line.startswith(' ABI:'):
                registers = dict(word.split(':', 1) for word in line.split())
                sample.ip = int(registers.get('IP', registers.get('pc', '0')), 16)
                sample.rbx = int(registers.get('BX', registers.get('x21', '0')), 16)
            elif HEAD.match(line):
                if sample:
                    yield sample
                m = HEAD.match(line)
                sample = Sample()
                sample.tid, sample.time = int(m.group(2)), int(m.group(3)) * 10**9 + int(m.group(4))
                sample.ip = sample.rbx = 0
                sample.frames, sample.end, sample.text = [], '', line
    if sample:
        yield sample


# ---- what is true -----------------------------------------------------------------------------


class Truth:
    """All programs' nodes by (file, line of definition)."""

    def __init__(self, paths):
        self.nodes, self.source, self.by_name = {}, {}, {}
        for path in paths:
            with open(path) as f:
                told = json.load(f)
            self.source[told['file']] = told['lines']
            names = {}
            for name, node in told['nodes'].items():
                node['name'], node['program'] = name, told['file']
                names[name] = node
                self.nodes[(node['file'], node['first'])] = self.by_name[(told['file'], name)] = node
            for node in names.values():
                for up in node['ups']:
                    up['parent'] = names[up['parent']]

    def text(self, node, line):
        lines = self.source[node['program']]
        return lines[line - 1] if node['file'] == node['program'] and 0 < line <= len(lines) else ''


class Facts:
    """What one run said of itself: bytecode, traces, mappings, times."""

    def __init__(self, path):
        self.protos, self.traces, self.loop, self.maps = [], [], None, []
        self.runs = collections.defaultdict(list)
        vm = 0
        with open(path) as f:
            for line in f:
                word, rest = line.rstrip('\n').split(' ', 1)
                if word == 'proto':
                    source, first, _, address, lines = rest.rsplit(' ', 4)
                    start = int(address) + 0x68 # sizeof(GCproto), GC64
                    lines = [int(n) for n in lines.split(',')]
                    self.protos.append((start, start + 4 * len(lines), (source[1:], int(first)), lines))
                elif word == 'trace':
                    number, address, size, time, at = rest.split(' ', 4)
                    where, goes = set(), set()
                    for w in at.split('|') if at else ():
                        place = w[5:] if w.startswith('next ') else w
                        source, first, line = place.rsplit(':', 2)
                        (where if place is w else goes).add((source[1:], int(first), int(line)))
                    self.traces.append([int(address), int(size), int(time), 1 << 63, int(number), where, goes])
                elif word == 'flush':
                    for trace in self.traces[vm:]:
                        trace[3] = min(trace[3], int(rest))
                elif word == 'loop':
                    self.loop = tuple(int(n) for n in rest.split())
                elif word == 'run': # of a host's thread
                    tid, begin, end = (int(n) for n in rest.split())
                    self.runs[tid].append((begin, end))
                elif word == 'vm': # what follows is another's
                    vm = len(self.traces)
                elif word == 'map':
                    self.maps.append(rest.split())
        self.protos.sort()
        for runs in self.runs.values():
            runs.sort()
        self.starts = [p[0] for p in self.protos]

    def counts(self, sample):
        """Whether a sample lies in the main loop."""
        if self.loop:
            return self.loop[0] <= sample.time <= self.loop[1]
        runs = self.runs.get(sample.tid, [])
        i = bisect.bisect_right(runs, (sample.time, 1 << 63)) - 1
        return i >= 0 and sample.time <= runs[i][1]

    def bytecode(self, pc):
        """(function, line, position, line of pc itself) of the instruction before pc."""
        i = bisect.bisect_right(self.starts, pc) - 1
        if i < 0 or pc > self.protos[i][1]:
            return None
        start, _, function, lines = self.protos[i]
        position = (pc - start) // 4 - 1
        following = lines[position + 1] if position + 1 < len(lines) else None
        return function, lines[position] if position > 0 else None, position, following

    def machine_code(self, ip, time):
        """What was recorded into the traces that hold ip, and where they go on; None: no trace."""
        found = None
        for start, size, begin, end, _, where, goes in self.traces:
            if start <= ip < start + size and begin - 1000000 <= time <= end + 1000000:
                found = (found[0] | where, found[1] | goes) if found else (where, goes)
        return found


def exit_handler(binary, start, offset, size):
    """Where a trace's exit is handled, before RBX is loaded: it holds what the trace left in it, or what
    it was when the trace was entered. All registers are pushed first; at the end what loads RBX jumps
    over the first instruction of another entry."""
    with open(binary, 'rb') as f:
        f.seek(offset)
        code = f.read(size)
    first = code.find(bytes.fromhex('41554154415341524151415057565548'))
    last = code.find(bytes.fromhex('eb05488d4c2410'), max(first, 0))
    if first < 0: # AArch64: sub sp, sp, #512, ... ldr x21, [sp, #8]
        first = code.find(bytes.fromhex('ff0308d1'))
        last = code.find(bytes.fromhex('f50740f9'), max(first, 0)) + 4
    if first < 0 or not 0 < last - first < 512:
        raise SystemExit('%s: no exit handler found' % binary)
    return start + first, start + last


def helpers(binary, start, offset, size):
    """Where the helpers begin that traces call, too: a trace keeps what it likes in x21. On x86-64 there
    are none."""
    with open(binary, 'rb') as f:
        f.seek(offset)
        code = f.read(size)
    first = code.find(bytes.fromhex('0300014a7f000071')) # AArch64's lj_vm_modi: eor w3, w0, w1; cmp w3, #0
    return start + (size if first < 0 else first)


def interpreter_range(binary, maps):
    """Addresses of the interpreter's code in the process, out of the binary's unwind information; of its
    part that handles a trace's exit; and where its helpers begin."""
    text = subprocess.run(['readelf', '--wide', '--debug-dump=frames', binary], capture_output=True,
                          text=True).stdout
    best, current = (0, 0), None
    for line in text.split('\n'):
        m = re.search(r' FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)', line)
        if m:
            current = (int(m.group(1), 16), int(m.group(2), 16))
        elif INTERPRETER_FRAME.search(line) and current and current[1] - current[0] > best[1] - best[0]:
            best = current
    if best[1] - best[0] < INTERPRETER_BYTES_MIN:
        raise SystemExit('%s: no interpreter found' % binary)
    name, shift = binary.rsplit('/', 1)[-1], 0
    load = subprocess.run(['readelf', '-lW', binary], capture_output=True, text=True).stdout
    for w in (line.split() for line in load.split('\n')):
        if w[:1] == ['LOAD'] and int(w[2], 16) <= best[0] < int(w[2], 16) + int(w[5], 16):
            shift = int(w[1], 16) - int(w[2], 16)
    for m in maps:
        if len(m) >= 6 and m[5].rsplit('/', 1)[-1] == name and m[1][2] == 'x':
            base = int(m[0].split('-')[0], 16) - int(m[2], 16) + shift
            return (base + best[0], base + best[1]) + \
                exit_handler(binary, base + best[0], best[0] + shift, best[1] - best[0]) + \
                (helpers(binary, base + best[0], best[0] + shift, best[1] - best[0]),)
    raise SystemExit('%s is not mapped' % binary)


# ---- judging ----------------------------------------------------------------------------------


class Wrong(Exception):
    """args: why, index of the frame at fault in the list of Lua frames."""


def match_one(lua, i, up):
    """Whether lua[i+1..] begins as `up` says; returns the caller's index or None."""
    i += 1
    for name in up['via']:
        if i >= len(lua) or not lua[i].builtin or not builtin_is(lua[i].builtin, name):
            return None
        i += 1
    if i >= len(lua) or lua[i].node is not up['parent'] or lua[i].line != up['line']:
        return None
    return i


def builtin_is(shown, name):
    if name == 'ffi':
        return shown.startswith('ffi')
    return shown == name or shown == name + '_aux'


def step_recursion(lua, i, node, match):
    """lua[i] is a function that calls itself: the index of its outermost frame."""
    rec = node['rec']
    levels = 0
    while True:
        j = match(lua, i, {'via': rec['via'], 'parent': node, 'line': rec['line']})
        if j is None or levels > rec['depth']:
            break
        levels += 1
        i = j
    return i, levels


def check_callers(lua, top, truth, match=match_one):
    """Raises Wrong where the callers of the tree function lua[top] are not the true ones; `match`: whether
    what follows a frame is one of its callers."""
    i = top
    while True:
        node = lua[i].node
        if node.get('wild'):
            rest = next((j for j in range(i + 1, len(lua)) if lua[j].node), None)
            if rest is None:
                return # on a state of its own
            i = top = rest
            continue
        if node.get('rec'):
            # (the line of the innermost function of a trace is a snapshot's: where its exit goes on)
            at_bottom = lua[i].line == node['rec']['bottom'] and not (i == top and lua[i].trace)
            first = i
            i, levels = step_recursion(lua, i, node, match)
            if levels > node['rec']['depth'] or (at_bottom and levels != node['rec']['depth']):
                raise Wrong('recursion of %d levels, not %d' % (levels, node['rec']['depth']), i)
            if not at_bottom and first != top and lua[first].line != node['rec']['line']:
                raise Wrong('a line that calls nobody', first)
        if not node['ups']:
            if i + 1 == len(lua):
                return
            below = next((k for k in range(i + 1, len(lua)) if lua[k].builtin not in HOST_FUNCTIONS), None)
            if node['name'] != 'top' or not below or not lua[below].node or \
               'host_enter' not in truth.text(lua[below].node, lua[below].line):
                raise Wrong('frames below %s' % node['name'], i + 1)
            i = below # another VM
            continue
        for up in node['ups']:
            j = match(lua, i, up)
            if j is not None:
                break
        else:
            raise Wrong('not the caller of %s' % node['name'], min(i + 1, len(lua) - 1))
        i = j


def leading(lua):
    """Index of the innermost frame of a function of the program."""
    return next((i for i, f in enumerate(lua) if f.node), None)


def check_leaf(lua, top, sample, facts, interpreter, truth):
    """Raises Wrong where the machine says another innermost function; returns how it was told."""
    f = lua[top]
    node = f.node
    last = node['last'] or 1 << 30
    if f.line and not node['first'] <= f.line <= last:
        raise Wrong('a line outside its function', top)
    for k in range(top):
        word = re.sub('_aux$', '', re.split('[.:]', lua[k].builtin or '')[-1])
        text = truth.text(node, f.line)
        if lua[k].builtin and not lua[k].builtin.startswith('ffi') and text and word not in text:
            return 'builtin'
    if interpreter[2] <= sample.ip < interpreter[3]:
        return 'exit handler'
    if interpreter[4] <= sample.ip < interpreter[1] and f.trace:
        return 'helper of a trace'
    if interpreter[0] <= sample.ip < interpreter[1]:
        told = facts.bytecode(sample.rbx)
        if not told:
            return ''
        function, line, position, following = told
        if (node['file'], node['first']) == function:
            # (behind a trace's exit RBX is the next instruction itself)
            if line and f.line and f.line != line and not (facts.traces and f.line == following):
                raise Wrong('line %d where RBX says %d' % (f.line, line), top)
            return 'rbx' if f.line else 'no line'
        callee = truth.nodes.get(function)
        if callee and position < 0 and any(u['parent'] is node and u['line'] == f.line for u in callee['ups']):
            return 'rbx of the callee' # about to be entered
        for k in range(top + 1, len(lua)):
            if lua[k].node: # entering or leaving `top`
                if (lua[k].node['file'], lua[k].node['first']) == function and lua[k].line == line:
                    return 'rbx of the caller'
                break
        raise Wrong('RBX says %s:%d line %s' % (*function, line or 0), top)
    where, goes = facts.machine_code(sample.ip, sample.time) or (None, None)
    if where:
        if not any((node['file'], node['first']) == w[:2] for w in where):
            raise Wrong('the trace holds no such function, but {%s}' % sorted({w[:2] for w in where}), top)
        if not f.line:
            return NO_LINE
        place = (node['file'], node['first'], f.line)
        return 'trace' if place in where else 'trace, next' if place in goes else ANOTHER_LINE
    return ''


def judge_leaf(sample, lua, unknown, facts, interpreter, truth):
    """The same of a stack with an unknown frame: what stands above it counts, too."""
    lua = lua[:lua.index(unknown)]
    top = leading(lua)
    if top is None:
        return 'missing', unknown.name, ''
    try:
        return 'leaf', '', check_leaf(lua, top, sample, facts, interpreter, truth)
    except Wrong as e:
        return ('marked-wrong' if any(f.marked for f in lua) else 'wrong'), 'leaf: ' + e.args[0], ''


def judge(sample, facts, interpreter, truth):
    """(verdict, why, how the leaf was told)."""
    lua = [f for f in sample.frames if f.lua]
    if sample.end != 'complete':
        return 'incomplete', sample.end, ''
    if not lua:
        entered = any(f.name.startswith(('lua_pcall+', 'lua_resume+')) for f in sample.frames[1:])
        outside = facts.runs and not entered and not interpreter[0] <= sample.ip < interpreter[1]
        return (OUTSIDE if outside else 'missing'), 'no Lua frames', ''
    unknown = [f for f in lua if f.unknown]
    if unknown:
        return judge_leaf(sample, lua, unknown[0], facts, interpreter, truth)
    marked = any(f.marked for f in sample.frames)
    told = ''
    try:
        top = leading(lua)
        if top is None:
            raise Wrong('builtins only', len(lua) - 1)
        told = check_leaf(lua, top, sample, facts, interpreter, truth)
        check_callers(lua, top, truth)
        if sample.frames[-1].lua:
            raise Wrong('no native frame below', len(lua) - 1)
    except Wrong as e:
        why, at = e.args
        bad = lua[at]
        seen = sample.frames[:next(k for k, f in enumerate(sample.frames) if f is bad) + 1]
        return ('marked-wrong' if any(f.marked for f in seen) else 'wrong'), why, told
    return ('marked' if marked else 'exact'), '', told


def show(sample, verdict, why):
    print('--- %s: %s; ip %x rbx %x' % (verdict, why, sample.ip, sample.rbx))
    print(sample.text, '#', sample.end)
    for frame in sample.frames:
        print(frame.text)


def parser_of_goals():
    parser = argparse.ArgumentParser()
    parser.add_argument('-v', type=int, default=0, help='show so many samples of each fault')
    parser.add_argument('--name', default='')
    parser.add_argument('--truth', action='append', required=True)
    parser.add_argument('--facts', action='append', required=True)
    parser.add_argument('--exact-min', type=float, default=99.5, help='percent')
    parser.add_argument('--told-min', type=float, default=0, help='percent that are exact, marked or leaf')
    parser.add_argument('--wrong-max', type=float, default=0.05, help='percent')
    parser.add_argument('--missing-max', type=float, default=0.5, help='percent')
    parser.add_argument('--incomplete-max', type=float, default=0.5, help='percent')
    parser.add_argument('--line-max', type=float, default=0.05, help='percent of unmarked lines that a trace was not recorded of')
    parser.add_argument('--no-line-max', type=float, default=0.3, help='percent of traces without a line')
    parser.add_argument('script')
    return parser


def main():
    parser = parser_of_goals()
    parser.add_argument('--binary', required=True)
    options = parser.parse_args()
    truth = Truth(options.truth)
    facts = Facts(options.facts[0])
    interpreter = interpreter_range(options.binary, facts.maps)
    counts, whys, tolds, shown, lines = (collections.Counter() for _ in range(5))
    outside = 0
    for sample in read_samples(options.script, truth.nodes):
        if not facts.counts(sample):
            continue
        verdict, why, told = judge(sample, facts, interpreter, truth)
        if verdict == OUTSIDE:
            outside += 1
            continue
        counts[verdict] += 1
        tolds[told or 'nobody'] += 1
        if verdict in ('exact', 'leaf'):
            lines[told] += 1
        if verdict not in ('exact', 'marked', 'leaf'):
            key = verdict + ': ' + re.sub(r'0x[0-9a-f]+|\d+|\{.*', '#', why)
            whys[key] += 1
        elif verdict == 'marked' or told in ('no line', NO_LINE, ANOTHER_LINE, 'builtin'):
            key = verdict + ' ' + told
            whys[key] += 1
        else:
            continue
        shown[key] += 1
        if shown[key] <= options.v:
            show(sample, verdict, why or told)
    if outside:
        print('    %d samples between two entries into Lua' % outside)
    report(options, counts, whys, tolds, lines)


def report(options, counts, whys, tolds, lines):
    total = sum(counts.values())
    if not total:
        raise SystemExit('%s: no sample of the main loop' % options.name)
    share = {v: 100.0 * counts[v] / total for v in VERDICTS}
    print('%-24s %6d samples: %s' % (options.name, total,
          ', '.join('%.3f %% %s' % (share[v], v) for v in VERDICTS if counts[v])))
    print('    the leaf was told by: ' + ', '.join('%s %d' % x for x in tolds.most_common()))
    for why, n in whys.most_common():
        print('    %6d %s' % (n, why))
    missed = []
    if share['exact'] < options.exact_min:
        missed.append('exact %.3f %% < %g %%' % (share['exact'], options.exact_min))
    told = share['exact'] + share['marked'] + share['leaf']
    if told < options.told_min:
        missed.append('told %.3f %% < %g %%' % (told, options.told_min))
    if share['wrong'] > options.wrong_max:
        missed.append('wrong %.3f %% > %g %%' % (share['wrong'], options.wrong_max))
    if share['missing'] > options.missing_max:
        missed.append('missing %.3f %% > %g %%' % (share['missing'], options.missing_max))
    if share['incomplete'] > options.incomplete_max:
        missed.append('incomplete %.3f %% > %g %%' % (share['incomplete'], options.incomplete_max))
    for what, limit in (ANOTHER_LINE, options.line_max), (NO_LINE, options.no_line_max):
        if lines[what] > CHANCE and 100.0 * lines[what] / total > limit:
            missed.append('%s %.3f %% > %g %%' % (what, 100.0 * lines[what] / total, limit))
    if missed:
        print('    MISSED: ' + '; '.join(missed))
        sys.exit(1)


if __name__ == '__main__':
    main()
