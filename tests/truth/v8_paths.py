# SPDX-License-Identifier: GPL-2.0-only
"""Stacks of v8_paths.js in `ljperf script`'s text (standard input), against the program's text.

A stack whose innermost frame is spin's must be one of the paths below up to main. Prints how many
of them there were, how many were whole and true, and how many showed a name that is wrong and
not marked; fails below 95 % (a recorder that gets no processor reads late, and leaves names out) and
above 0.05 %.
"""
import re
import sys

PATHS = [['new Base', 'new Derived', 'viaClass'], ['Derived.method', 'viaClass'], ['compare', 'viaSort'],
         ['each', 'viaMap'], ['swap', 'viaReplace'], ['reviver', 'viaJson'],
         ['get value', 'viaGetter'], ['numbers', 'viaGenerator'], ['viaДва'],
         ['trap', 'viaProxy'], ['applied', 'viaApply'], ['inEval', 'viaEval']]
PATHS = [p + ['main'] for p in PATHS] + [['viaAsync']]
LINES = {name: i for i, text in enumerate(open(sys.argv[1], encoding='utf-8'), 1)
         for name in re.findall(r'(?:function\*? |class |const |get )([\w]+)', text)}

LINES['inEval'] = 1 # of the text that was evaluated
samples = whole = wrong = 0
for block in sys.stdin.read().split('\n\n'):
    frames = []
    for text in block.split('\n'):
        m = re.match(r'\t *[0-9a-f]+ (.*) \((\S*)\) \[js ?([^\]]*)\]$', text)
        if m:
            symbol, file, words = m.groups()
            place = re.match(r'(.*?) ?([^ ]*):(\d+):(\d+)$', symbol)
            name, line = (place.group(1), int(place.group(3))) if place else ('?', 0)
            frames.append((name, line, 'v8_paths.js' in file, words.split()))
    own = [f for f in frames if f[2] or f[0] == '?']
    if not own or own[0][0] != 'spin':
        continue
    samples += 1
    names = [f[0] for f in own[1:]]
    marked = any(w in ('guess', 'image') for f in own for w in f[3])
    lines = all(f[1] == LINES[f[0]] for f in [(re.sub('^new ', '', f[0]), f[1]) for f in own] if f[0] in LINES)
    # after its first await main goes on without a caller, as viaAsync does
    if lines and any(names[:len(p)] == p for p in PATHS):
        whole += 1
    elif '?' not in names and not marked:
        wrong += 1
        print('wrong:', own)
print(f'{samples} samples in JavaScript, {whole} true, {wrong} wrong and not marked')
sys.exit(samples < 100 or whole < 0.95 * samples or wrong > 0.0005 * samples)
