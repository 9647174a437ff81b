# SPDX-License-Identifier: GPL-2.0-only
"""JavaScript frames of `ljperf bt` against node's own stack trace of the same path.

v8_frames.py STACK BT [TIER...]: every frame of the trace that has a place must be there, in order,
with its name, file, line and column (of WebAssembly: the function's number, and the byte). Of the innermost one
the name and file are compared only, since node prints at one line and stops at another. TIER: a
tier that must occur. Prints how many frames were compared.
"""
import re
import sys


def want(path):
    for text in open(path, encoding='utf-8'):
        at = re.match(r'\s+at (.*)$', text)
        if not at:
            continue
        text = at.group(1)
        m = re.match(r'(?:(.*) )?\(?(wasm:[^ ]*):wasm-function\[(\d+)\]:0x([0-9a-f]+)', text)
        if m:
            yield m.group(1) or '', m.group(2), int(m.group(3)), int(m.group(4), 16)
            continue
        m = re.match(r'(.*?) ?\(?(?:eval at .*\), )?([^ ()]*):(\d+):(\d+)\)?$', text)
        if not m:
            continue  # Array.map (<anonymous>)
        name, file, line, column = m.groups()
        name = re.sub(r'^async | \[as .*\]$', '', name)
        evaled = 'eval at ' in text
        name = '' if name in ('eval', 'Object.<anonymous>', '<anonymous>') else name
        yield name, '<eval>' if evaled else file, int(line), int(column)


def same_name(ours, nodes):
    """Node puts before a name what the receiver is an instance of (a class is a Function to old
    versions), and only where it can tell; ours is the class in whose text the function stands."""
    if ours == nodes:
        return True
    ours_class, _, own = ours.rpartition('.')
    nodes_class, _, name = nodes.rpartition('.')
    if 'new ' in ours + nodes or not ours or own != name:
        return False
    return nodes_class in ('', 'Object', 'Function') or not ours_class and nodes_class not in CLASSES


def got(path):
    for text in open(path, encoding='utf-8'):
        m = re.match(r'\t *[0-9a-f]+ (.*) \(([^ ]*)\) \[wasm ?([^\]]*)\]$', text)
        if m:
            symbol, file, words = m.groups()
            at = re.match(r'(?:(.*) )?([^ ]*):wasm-function\[(\d+)\]$', symbol)
            byte = re.search(r'byte=0x([0-9a-f]+)', words)
            exact = not re.search(r'\b(guess|image)\b', words)
            yield ((at.group(1) or '' if exact else 'unproven') if at else '?', file,
                   int(at.group(3)) if at else 0, int(byte.group(1), 16) if byte else 0, 'wasm')
            continue
        m = re.match(r'\t *[0-9a-f]+ (.*) \(([^ ]*)\) \[js ([^\]]*)\]$', text)
        if not m:
            if ' [js' in text:
                yield '?', text.strip(), 0, 0, ''
            continue
        symbol, file, words = m.groups()
        at = re.search(r'line=(\d+):(\d+)', words)
        name = re.sub(r' ?[^ ]*$', '', symbol)
        if re.search(r'\b(guess|image)\b', words):
            name = 'unproven ' + name
        yield (name, '<eval>' if file.endswith('<eval>') else file,
               int(at.group(1)) if at else 0, int(at.group(2)) if at else 0, words.split()[0])


CLASSES = ('Base', 'Derived')
wanted, frames = list(want(sys.argv[1])), list(got(sys.argv[2]))
for i, w in enumerate(wanted):
    g = frames[i] if i < len(frames) else ('none', '', 0, 0, '')
    if not same_name(g[0], w[0]) or g[1] != w[1] or (i and g[2:4] != w[2:4]):
        sys.exit(f'frame {i}: {g}, but node says {w}')
if len(frames) != len(wanted) or not wanted:
    sys.exit(f'{len(frames)} frames, but node says {len(wanted)}')
for tier in sys.argv[3:]:
    if tier not in [g[4] for g in frames]:
        sys.exit(f'no frame is {tier}')
print(len(frames))
