#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What hotspot makes of an injected recording: its parser's output (hotspot-perfparser, which names frames by
elfutils) against ljperf script's, frames counted by name. Compared are managed functions and V8's builtins.

perfparser.py PARSED SCRIPT FOLDER"""
import collections, re, struct, sys

LOCATION, SYMBOL, STRING, SAMPLE, TRACEPOINT = 3, 4, 5, 13, 14


class Reader:
    """Qt's stream: big-endian numbers, arrays of bytes behind their length."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, form):
        values = struct.unpack_from('>' + form, self.data, self.at)
        self.at += struct.calcsize('>' + form)
        return values

    def bytes(self):
        size, = self.get('I')
        size = 0 if size == 0xffffffff else size
        self.at += size
        return self.data[self.at - size:self.at]


def parsed(path):
    """Each frame's (name, module), innermost first, a list a sample."""
    data = open(path, 'rb').read()
    at = data.index(b'QPERFSTREAM\0') + 16
    strings, parents, symbols, samples = {}, {}, {}, []
    while at + 4 <= len(data):
        size, = struct.unpack_from('<i', data, at)
        message = Reader(data[at + 4:at + 4 + size])
        at += 4 + size
        kind, = message.get('b')
        if kind == STRING:
            number, = message.get('i')
            strings[number] = message.bytes().decode('utf-8', 'replace')
        elif kind == LOCATION:
            number, _, _, _, _, _, parent = message.get('iQiIiii')
            parents[number] = parent
        elif kind == SYMBOL:
            number, name, module = message.get('iii')
            symbols[number] = name, module
        elif kind in (SAMPLE, TRACEPOINT):
            message.get('IIQI')
            nr, = message.get('I')
            samples.append(message.get('%di' % nr))

    def frame(location):
        while location in parents and location not in symbols:
            location = parents[location]
        name, module = symbols.get(location, (-1, -1))
        return strings.get(name, ''), strings.get(module, '')

    return [[frame(f) for f in s] for s in samples]


def main():
    hotspot, script, folder = sys.argv[1:]
    there, ours, unnamed = collections.Counter(), collections.Counter(), 0
    samples = parsed(hotspot)
    for frames in samples:
        for name, module in frames:
            if module in ('lua', 'lua-image', 'lua-guess', 'js', 'js-image', 'js-guess') or name.startswith('Builtins_'):
                there[name] += 1
                unnamed += not name
    nr = 0
    for line in open(script, errors='replace'):
        nr += line[:1] not in '\t \n'
        m = re.match(r'^\t *[0-9a-f]+ (.*)\+0x[0-9a-f]+ \((.*)\)$', line.rstrip('\n'))
        if m and (m.group(2).startswith(folder) or m.group(1).startswith('Builtins_')):
            ours[m.group(1)] += 1
    differ = sum(abs(there[n] - ours[n]) for n in set(there) | set(ours))
    builtins = sum(n for name, n in ours.items() if name.startswith('Builtins_'))
    print('hotspot: %d samples, %d managed frames and builtins (%d of these), %d differ, %d without a name' %
          (len(samples), sum(ours.values()), builtins, differ, unnamed))
    for name in sorted(set(there) | set(ours), key=lambda n: -abs(there[n] - ours[n]))[:5]:
        if there[name] != ours[name]:
            print('  %r: %d, not %d' % (name, there[name], ours[name]))
    sys.exit(len(samples) != nr or not ours or unnamed or differ > 0.001 * sum(ours.values()))


main()
