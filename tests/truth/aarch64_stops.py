# SPDX-License-Identifier: GPL-2.0-only
"""Stops a program of AArch64 at random instructions, and judges its stacks (test_aarch64_luajit).

usage: aarch64_stops.py LJPERF QEMU ROOT STOPS WORK PROGRAM ARGUMENTS...
       PROGRAM: a path below ROOT; it runs lua_edges.lua. WORK: a scratch folder.

qemu-user runs the program instruction by instruction. A signal at a random moment lets it write a core file of the
program, to which this adds what Linux's core files have and qemu's have not: which files are mapped. `ljperf bt` must
print the stack whole, and its Lua functions must be a path that the program can take.
"""
import collections
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ljperf, qemu, root, stops, work = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
program, arguments = sys.argv[6], sys.argv[7:]

# ---- which files are mapped -------------------------------------------------------------------------------------

PAGE = 4096
PT_LOAD, PT_NOTE = 1, 4


def segments(data):
    """type, flags, offset, address, physical address, bytes in the file, bytes, alignment"""
    at, = struct.unpack_from('<Q', data, 32)
    size, number = struct.unpack_from('<HH', data, 54)
    return [list(struct.unpack_from('<IIQQQQQQ', data, at + i * size)) for i in range(number)]


def down(x):
    return x & ~(PAGE - 1)


def up(x):
    return down(x + PAGE - 1)


def files():
    """The ELF files of the root: a program and the libraries that it loads."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not re.match(r'luajit|libluajit|ld-linux|libc\.so|libm\.so|libgcc_s', name):
                continue
            head = open(path, 'rb').read(PAGE)
            if head[:4] == b'\x7fELF':
                found.append(('/' + os.path.relpath(path, root), [p for p in segments(head) if p[0] == PT_LOAD]))
    return found


def mapped(core, known):
    """NT_FILE's entries. The core has no text: a file is known by the sizes of its segments."""
    loads = [p for p in segments(core) if p[0] == PT_LOAD]
    starts = {p[3] for p in loads}
    maps = []
    for load in loads:
        for name, parts in known:
            bias = load[3] - down(parts[0][3])
            if not load[1] & 1 or len(parts) < 2 or up(parts[0][3] + parts[0][6]) - down(parts[0][3]) != load[6] or \
                    down(parts[1][3]) + bias not in starts:
                continue
            maps += [(down(p[3]) + bias, up(p[3] + p[5]) + bias, down(p[2]) // PAGE, name) for p in parts]
            break
    return sorted(maps)


def add_files(core, known):
    """The core with a note NT_FILE, and with its table of segments at the end."""
    maps = mapped(core, known)
    text = struct.pack('<QQ', len(maps), PAGE) + b''.join(struct.pack('<QQQ', *m[:3]) for m in maps) + \
        b''.join(m[3].encode() + b'\0' for m in maps)
    text += b'\0' * (-len(text) % 4)
    note = struct.pack('<III', 5, len(text), 0x46494c45) + b'CORE\0\0\0\0' + text
    out, table = bytearray(core), segments(core)
    notes = next(p for p in table if p[0] == PT_NOTE)
    old = core[notes[2]:notes[2] + notes[5]]
    old += b'\0' * (-len(old) % 4)
    notes[2], notes[5] = len(out), len(old) + len(note)
    out += old + note
    out += b'\0' * (-len(out) % 8)
    struct.pack_into('<Q', out, 32, len(out))
    return bytes(out) + b''.join(struct.pack('<IIQQQQQQ', *p) for p in table)


# ---- stops ------------------------------------------------------------------------------------------------------

def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def is_whole(core):
    """qemu's core may have been cut: its table of segments must be in it."""
    return len(core) >= 64 and struct.unpack_from('<Q', core, 32)[0] + 56 * struct.unpack_from('<H', core, 56)[0] <= len(core)


def stop(seconds):
    """The bytes of a core of the program, `seconds` after it has begun; None: there is none."""
    folder = tempfile.mkdtemp(dir=work)
    try:
        p = subprocess.Popen([qemu, '-singlestep', '-L', root, os.path.join(root, program.lstrip('/'))] + arguments,
                             cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limit)
        p.stdout.readline()
        time.sleep(seconds)
        p.send_signal(signal.SIGABRT)
        p.communicate()
        cores = [n for n in os.listdir(folder) if re.match(r'qemu_.*\.core$', n)]
        core = open(os.path.join(folder, cores[0]), 'rb').read() if cores else b''
        return core if is_whole(core) else None
    finally:
        shutil.rmtree(folder)


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
PATH = re.compile(r'main chunk(;work(' + BELOW + r'))?')


def lua_path(text):
    """The names of the Lua frames, outermost first, and whether one of them is marked."""
    names, marked = [], False
    for line in text.split('\n'):
        m = re.match(r'\t\s*[0-9a-f]+ (.*) \(([^()]*|\[builtin\])\) \[lua ([^\]]*)\]((?: \[\w+\])*)', line)
        if m:
            names.append(re.sub(r' \S*lua_edges\.lua(:\d+)?$', '', m.group(1)))
            marked |= bool(m.group(4)) or 'guess' in line
    return ';'.join(reversed(names)), marked


known, counts, bad = files(), collections.Counter(), 0
judged = tries = 0
while judged < stops and tries < 6 * stops + 6:
    tries += 1
    core = stop(0.2 + random.random())
    if core is None:
        counts['no core'] += 1
        continue
    name = os.path.join(work, 'stop.core')
    open(name, 'wb').write(add_files(core, known))
    out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', name], capture_output=True, text=True).stdout
    path, marked = lua_path(out)
    whole = '# stack: complete' in out
    judged += 1
    right = whole and PATH.fullmatch(path)
    counts['right' if right else 'not whole' if not whole else 'marked' if marked else 'wrong'] += 1
    if not right and bad < 5:
        bad += 1
        print(f'{path}\n{out}')
print(f'{program} {" ".join(a for a in arguments if a.startswith("-"))}: {judged} stops: ' +
      ', '.join(f'{n} {what}' for what, n in sorted(counts.items())))
# 99.5 % right, of few stops all; none wrong without a mark.
if judged < stops or counts['wrong'] or counts['right'] < judged * 0.995:
    sys.exit(1)
