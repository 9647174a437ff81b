# SPDX-License-Identifier: GPL-2.0-only
"""Stops a program of AArch64 at random instructions, and judges its stacks (test_aarch64_luajit).

usage: aarch64_stops.py LJPERF QEMU ROOT STOPS WORK PROGRAM ARGUMENTS...
       PROGRAM: a path below ROOT; it runs lua_edges.lua or lua_edges_ffi.lua. WORK: a scratch folder. With $KEEP, cores of wrong stops
       stay in that folder.

`ljperf bt` must print the stack of each core whole, and its Lua functions must be a path that the program can take.
"""
import collections
import os
import re
import subprocess
import sys

from aarch64_machine import done_with, random_cores, summary

ljperf, qemu, root, stops, work = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
program, arguments = sys.argv[6], sys.argv[7:]

# ---- paths ------------------------------------------------------------------------------------------------------

# The paths below work. `leaf` and `mid` may be left out wherever they are called: the stop was before or behind the call.
# A function that has ended with a call of another is not on the stack.
MID = r'(;mid(;leaf|;tostring(;\S+)?)?)?'
LEAF = r'(;leaf)?'
BELOW = (
    r'|(;deep){1,6}|(;deep){6}' + MID + r'|(;deep){7}|;meta(;mt\.__(index|concat)' + MID + r'|;mt\.__add|;mid(;leaf|;tostring(;\S+)?)?'
    r'|;mt\.__(lt|len|newindex|eq)' + LEAF + r'|;mt[.:]__call' + LEAF + r'|;obj' + LEAF + r')?'
    r'|;sorts(;table\.sort(;cmp' + LEAF + r')?)?|;gs(;string\.gsub(;gsf(;leaf)?|;string\.upper)?)?|;va(;select)?|;va' + MID +
    r'|;pc(;pcall(;pcf(' + MID + r'|;error))?)?|;xp(;xpcall(;pcf(' + MID + r'|;error(;handler' + LEAF + r')?)|;handler' + LEAF + r')?)?'
    r'|;coro((;co|;coroutine\.wrap_aux)(;co_body(' + MID + r'|;coroutine\.yield))?)?'
    r'|;coco(;coroutine\.create|;coroutine\.resume(;outer_co(;coroutine\.create|;coroutine\.resume(;inner_co' + MID + r')?)?)?)?'
    r'|;it(;iter' + LEAF + r'|;\(for iterator\)' + LEAF + r')?')
# Those of the program with an FFI. A called back function is below the call of C.
META = r';ffi\.\w+\.__\w+'
CMP = META + r'(;cmp(;leaf|' + META + r')?)?'
FIND = META + r'(;find(;mid(;leaf|;tostring(;\S+)?)?|' + META + r')?)?'
SORTS = r';sorts(;fill(' + META + r')?|' + CMP + r')?'
FFI = (SORTS + r'|;(finds|direct)(' + FIND + r')?|;parses(' + META + r'|;tonumber)?|(;nested){1,4}|(;nested){3}' + SORTS)
CALLS_BACK = '_ffi' in arguments[-1]
PATH = re.compile(r'main chunk(;work(' + (FFI if CALLS_BACK else BELOW) + r')?)?')


def lua_path(text):
    """The names of the Lua frames, outermost first, whether one of them is marked, and whether each function that C calls back
    has its caller: C's library, or LuaJIT."""
    names, marked, callers, called_back = [], False, True, None
    for line in text.split('\n'):
        m = re.match(r'\t\s*[0-9a-f]+ (.*) \(([^()]*|\[builtin\])\) \[lua ([^\]]*)\]((?: \[\w+\])*)', line)
        if m:
            callers &= called_back is None or 'direct' in m.group(1)
            names.append(re.sub(r' \S*lua_edges(_ffi)?\.lua(:\d+)?$', '', m.group(1)))
            marked |= bool(m.group(4)) or 'guess' in line
            called_back = names[-1] if CALLS_BACK and names[-1] in ('cmp', 'find') else None
        elif called_back and line.endswith(')'):
            callers &= 'libc.so' in line or (called_back == 'find' and 'luajit' in line)
            called_back = None
    return ';'.join(reversed(names)), marked, callers


counts, bad = collections.Counter(), 0
# (100 stops of a process: the JIT compiler does other things in the next. It runs first, out of io.flush().)
for core in random_cores(stops, work, qemu, root, program, arguments, ready='begun', of_a_process=100):
    out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', core], capture_output=True, text=True).stdout
    path, marked, callers = lua_path(out)
    whole = '# stack: complete' in out
    right = whole and callers and PATH.fullmatch(path)
    counts['right' if right else 'not whole' if not whole else 'marked' if marked else 'wrong'] += 1
    if not right and bad < 5:
        bad += 1
        print(f'{path}\n{out}')
    done_with(core, not right)
print(summary(' '.join([program] + arguments[:-1] + [os.path.basename(arguments[-1])]), counts))
# 99.5 % right, of few stops all; none wrong without a mark.
sys.exit(bool(counts['wrong'] or counts['right'] < stops * 0.995))
