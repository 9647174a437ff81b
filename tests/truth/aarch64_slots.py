# SPDX-License-Identifier: GPL-2.0-only
"""Steps through LuaJIT's slots for callbacks, and from there into it, instruction by instruction (test_aarch64_luajit).

usage: aarch64_slots.py LJPERF QEMU ROOT STEPS WORK PROGRAM ARGUMENTS...
       PROGRAM: a path below ROOT; it runs lua_edges_ffi.lua. STEPS: in each slot that is called. WORK: a scratch folder.

Each core's stack must be whole, its frame 0 in the slot, and what C called back from: C's library for two of the three calls.
"""
import collections
import os
import struct
import sys

from aarch64_machine import PC, Machine, is_marked, read_mappings, stack_of, write_core

ljperf, qemu, root, steps, work = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
FIRST, SLOT = 8 * 4, 0x52800009 # of a page; movz w9, #slot
USED = 2 # the last slots that the program makes


def slots_of(pid):
    """The addresses of all slots: pages that begin with "ldr x11" and the two words behind."""
    found = []
    with open('/proc/%d/mem' % pid, 'rb', 0) as memory:
        for start, end, rights, _, path in read_mappings(pid):
            if path or rights[0] != 'r':
                continue
            memory.seek(start)
            try:
                page = memory.read(4096)
            except OSError:
                continue
            if page[:4] != struct.pack('<I', 0x5800008b):
                continue
            words = struct.unpack('<1024I', page)
            found += [start + 4 * i for i in range(FIRST // 4, 1024, 2) if words[i] & 0xffe0001f == SLOT]
    return found


def own_path(thread):
    return [f.get('function') or (f['symbol'] or '?').split(' ')[0] for f in thread['frames'] if f['kind'] != 'native']


def judge(thread, pc, slots):
    """What is wrong with a stack; '': nothing."""
    frames = thread['frames']
    if thread['stack'] != 'complete':
        return 'not whole'
    in_slots = slots[0] // 4096 == pc // 4096
    if in_slots and frames[0]['kind'] != 'native':
        return 'frame 0 is not the slot'
    names = own_path(thread)
    caller = next((n for n in names if n in ('sorts', 'finds', 'direct')), None)
    if not caller:
        return 'no caller: ' + ';'.join(names)
    below = frames[1 if in_slots else 0]['module'] or ''
    if in_slots and ('luajit' if caller == 'direct' else 'libc.so') not in below:
        return 'the slot of %s was called by %s' % (caller, below)
    return 'marked' if is_marked(thread) else ''


counts, callers = collections.Counter(), collections.Counter()
with Machine(qemu, root, sys.argv[6], sys.argv[7:]) as machine:
    machine.wait_for('begun')
    machine.run(0.2)
    slots = slots_of(machine.pid)
    core = os.path.join(work, 'slot.core')
    for slot in slots[40:40 + USED]:
        for _ in range(6): # calls
            machine.command('Z0,%x,4' % slot)
            machine.command('c')
            machine.command('z0,%x,4' % slot)
            for _ in range(steps):
                pc = machine.registers()[PC]
                write_core(core, machine, root)
                thread = stack_of(ljperf, root, core)
                what = judge(thread, pc, slots)
                if what and counts[what] < 2:
                    print(hex(pc), what, [(f['symbol'], f['module']) for f in thread['frames']][:5])
                counts[what or ('in the slot' if pc // 4096 == slot // 4096 else 'in LuaJIT')] += 1
                machine.command('s')
    os.unlink(core)
print('%s %s: %d slots, %s' % (sys.argv[6], ' '.join(sys.argv[7:-1]), len(slots), ', '.join('%d %s' % (n, w) for w, n in counts.items())))
sys.exit(bool(set(counts) - {'in the slot', 'in LuaJIT'} or counts['in the slot'] < 5 * USED))
