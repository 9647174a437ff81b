# SPDX-License-Identifier: GPL-2.0-only
"""Judges the stacks of a stored AArch64 recording (test_aarch64).

usage: aarch64_judge.py RECORDING WHOLE SCRIPT DOCTOR
       RECORDING: its name (../shared/testdata/aarch64/README.md)
       WHOLE: how many stacks must reach the entry of their thread
       SCRIPT, DOCTOR: what `ljperf script -F comm,tid,time,event,ip,sym,symoff,dso` and `ljperf doctor` printed

A whole stack must be a path that its program can take (../shared/testdata/aarch64/src): the program's own functions,
outermost first, must match its pattern. Where no generated code is, nothing may be guessed.
"""
import re
import sys

recording, whole, script, doctor = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

PLT = r'(;[\w:]+@plt)?'
TREE = (r'_start(;main(;outer(;deep(;deep){0,29}|;deep(;deep){30}(;leaf)?|;sorts(;cmp(;leaf)?)?|;va(;leaf)?)?)?' + PLT +
        r')?')
SIGNALS = (r'_start(;_init|;__do_global_dtors_aux|;main(;rec(;rec){0,10}|;rec(;rec){9};leaf|;fmt)?' + PLT +
           r'(;handler(;handler_work(;hleaf)?)?)?)?')
# From worker on: below it only what the C++ library and libgcc (the program's own, where it is static) do.
LIBRARY = r'(;(?!(worker|catcher|thrower|sorter|main|apply<))[^;]*)*'
# catcher ends with a jump to __cxa_end_catch, which apply has called then.
CXX = (r'worker(;apply<[^;]*>(;std::_Function_handler<[^;]*::_M_invoke)?(;catcher(;thrower' + LIBRARY + '|' + LIBRARY +
       ')|' + LIBRARY + ')|;sorter' + LIBRARY + '|' + LIBRARY + ')')
# JavaScript: deep has 13 levels, and mid and leaf stand only where the program calls them.
MID = r'mid(;leaf)?'
NODE = (r'work(;deep(;deep){0,11}|;deep(;deep){12}(;' + MID + r')?|;sorts(;cmp(;leaf)?)?|;each(;cb(;' + MID +
        r')?)?|;m(;get x(;' + MID + r')?)?|;get x(;' + MID + r')?|;rep(;rcb(;leaf)?)?|;rev(;leaf)?|;A)?')
PATHS = {'tree': TREE, 'tree_pac': TREE, 'ljr_tree': TREE, 'sig': SIGNALS, 'sig_pac': SIGNALS, 'ljr_sig': SIGNALS,
         'cxx': CXX, 'cxx_static_pac': CXX, 'node18': NODE}
GENERATED = {'lua_jit', 'ljr_lua', 'node18'}
ENTRY = re.compile(r'_start\+|ld-linux-aarch64\.so\.1:fn_1ae40\+|libc\.so\.6:fn_ebf50\+|thread_start\+')


class Frame:
    def __init__(self, line):
        m = re.match(r'\s*[0-9a-f]+ (.*) \(([^()]*)\)((?: \[\w+\])*)\s*$', line)
        self.symbol, self.file, self.marks = m.groups() if m else (line, '', '')
        self.name = re.sub(r'\+0x[0-9a-f]+$', '', self.symbol)


def own(frames):
    """The names of the program's own functions, outermost first."""
    if recording == 'node18':
        names = [re.match(r'(?:\w+:)?[~*^+]?(?:get )?(\S*) /share/tree\.js', f.name) for f in frames]
        return [m.group(1) if 'get ' not in m.group(0) else 'get x' for m in names if m and m.group(1)]
    return [f.name for f in frames if f.file.startswith('/share/')]


stacks = guessed = wrong = judged = 0
for text in re.split(r'\n\n+', open(script).read()):
    frames = [Frame(line) for line in text.split('\n')[1:] if line.strip()]
    if not text.strip():
        continue
    stacks += 1
    guessed += any('guess' in f.marks for f in frames)
    if recording not in PATHS or not frames or not ENTRY.search(frames[-1].symbol):
        continue
    path = ';'.join(own(frames)[::-1])
    if recording.startswith('cxx'):
        path = path[path.find('worker'):] if 'worker' in path else ''
    judged += path != ''
    if path and not re.fullmatch(PATHS[recording], path):
        wrong += 1
        if wrong < 4:
            print(f'{recording}: no path of the program: {path}\n{text}')
complete = re.search(r'^\s*(\d+)\s+[\d.]+%\s+complete', open(doctor).read(), re.M)
complete = int(complete.group(1)) if complete else 0
print(f'{recording}: {stacks} stacks, {complete} whole ({whole} wanted), {judged} paths judged, {wrong} wrong, '
      f'{guessed} with a guess')
if complete < whole or wrong or (guessed and recording not in GENERATED):
    sys.exit(1)
if recording in PATHS and judged < stacks / 3:
    sys.exit(f'{recording}: too few paths to judge')
