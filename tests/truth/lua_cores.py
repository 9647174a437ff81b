# SPDX-License-Identifier: GPL-2.0-only
"""Compares the stacks of core files of plain Lua with what their programs' generator says.

usage: lua_cores.py PROGRAMS STACKS
       PROGRAMS: a folder with treeNN.json and treeNN.lua (../shared/testdata/lua/programs)
       STACKS: output of `ljperf bt --core` for each core, behind a line "CORE BUILD PROGRAM NUMBER"

The innermost function of the tree tells all others, in order, with the line of each call. Closures that
stand on the edges' own lines, C functions and chunks stand between. A core counts as exact if its stack
ends at the process's entry, no frame is marked, each Lua frame was read, the functions of the tree and
their lines are those of the truth down to the main chunk, and each has the name of its definition.
"""
import collections
import json
import re
import sys

FRAME = re.compile(r'^\t *[0-9a-f]+ (.*) \(([^ ]*)\) \[(lua\b[^\]]*)\]$')
WHERE = re.compile(r'^(?:(.*) )?(\S+?)(?::(\d+))?$')


class Frame:
    """One Lua frame: its chunk and line of definition (0: the chunk itself), line and name."""

    def __init__(self, text, symbol, note):
        self.text = text
        words = note.split()
        self.marked = 'guess' in words or 'image' in words
        line = re.search(r'\bline=(\d+)', note)
        self.line = int(line.group(1)) if line else 0
        if symbol.startswith('main chunk '):
            self.name, self.chunk, self.first = 'main chunk', symbol[len('main chunk '):], 0
        else:
            m = WHERE.match(symbol)
            self.name, self.chunk, self.first = m.group(1) or '', m.group(2), int(m.group(3) or 0)
        self.chunk = self.chunk.rsplit('/', 1)[-1]


class Program:
    def __init__(self, folder, name):
        with open('%s/%s.json' % (folder, name)) as f:
            told = json.load(f)
        self.chunk, self.main_call, self.functions = name + '.lua', told['main_call'], told['fn']
        self.by_line = {f['line']: n for n, f in self.functions.items()}
        with open('%s/%s.lua' % (folder, name)) as f:
            self.lines = f.read().split('\n')

    def callers(self, name):
        """[(function or None for the main chunk, its lines)] that must stand below `name`."""
        want = []
        while name:
            f = self.functions[name]
            parent, lines, kind = f['parent'], [f['call']], f['kind']
            if kind == 'hook':
                lines.append(f['call'] - 1)
            if kind != 'tail':
                want.append((parent, lines))
            name = parent
        return [w for w in want if w[0]] + [(None, [self.main_call])]


def judge(program, frames, end, marked):
    """Returns what is wrong with a stack; ''."""
    own = [f for f in frames if f.chunk == program.chunk]
    if end != 'complete':
        return 'not whole: ' + end
    if not own:
        return 'no Lua frames of the program'
    tree = [f for f in own if f.first in program.by_line or f.first == 0]
    top = tree[0]
    name = program.by_line.get(top.first)
    if name and top.line and not top.first <= top.line <= program.functions[name]['end']:
        return 'leaf: line %d is not in %s' % (top.line, name)
    if name and not top.line:
        return 'leaf: %s has no line' % name
    want = program.callers(name) if name else []
    if name and program.functions[name]['kind'] == 'tail' and len(tree) == len(want) + 2:
        want.insert(0, (program.functions[name]['parent'], [program.functions[name]['call']])) # being called
    if len(tree) - 1 != len(want):
        return '%d functions of the tree, not %d' % (len(tree), len(want) + 1)
    for f, (caller, lines) in zip(tree[1:], want):
        if program.by_line.get(f.first) != caller:
            return 'caller %s, not %s' % (f.text.strip(), caller)
        if f.line not in lines:
            return '%s at line %d, not %s' % (caller, f.line, lines)
    for f in tree:
        name = program.by_line.get(f.first)
        if name and f.name not in ('F.' + name, 'F:' + name):
            return 'the name of %s is %s' % (name, f.name or 'missing')
    return 'marked' if marked else ''


def cores(path):
    """Yields (build, program, number, lines) of each core."""
    head, lines = None, []
    with open(path, errors='replace') as f:
        for line in f:
            line = line.rstrip('\n')
            if line.startswith('CORE '):
                if head:
                    yield (*head, lines)
                head, lines = line.split()[1:], []
            else:
                lines.append(line)
    if head:
        yield (*head, lines)


def read_stack(lines):
    """(Lua frames, end, whether any frame is marked)."""
    frames, end, marked = [], 'nothing was printed', False
    for line in lines:
        if line.startswith('# stack: '):
            end = line[len('# stack: '):]
        m = FRAME.match(line)
        if m and m.group(2) != '[C]' and m.group(2) != '[builtin]':
            frames.append(Frame(line, m.group(1), m.group(3)))
        marked = marked or bool(re.search(r'\[[^\]]*\b(guess|image)\b[^\]]*\]$', line))
    return frames, end, marked


def main():
    folder, path = sys.argv[1:]
    programs, exact, total = {}, collections.Counter(), collections.Counter()
    for build, name, number, lines in cores(path):
        program = programs.setdefault(name, None) or Program(folder, name)
        programs[name] = program
        total[build] += 1
        why = judge(program, *read_stack(lines))
        exact[build] += not why
        if why:
            print('%s/%s.%s: %s' % (build, name, number, why))
            if len(sys.argv) > 3 or total[build] - exact[build] <= 1:
                print('\n'.join(lines))
    for build in total:
        print('%-14s %d of %d exact' % (build, exact[build], total[build]))
    sys.exit(exact != total or not total)


if __name__ == '__main__':
    main()
