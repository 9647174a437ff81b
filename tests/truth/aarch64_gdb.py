# SPDX-License-Identifier: GPL-2.0-only
"""Prints the frames of cores, as gdb sees them. Run by gdb-multiarch: gdb -batch -x aarch64_gdb.py, with $SYSROOT, $PROGRAM
and $CORES (a file with a path on each line). For each core one line of JSON: the pc of each frame with code of its own."""
import json
import os

import gdb

for setting in 'pagination off', 'debuginfod enabled off', 'confirm off', 'backtrace past-main on', 'backtrace past-entry on', \
        'backtrace limit 500', 'sysroot ' + os.environ['SYSROOT']:
    gdb.execute('set ' + setting)
for path in open(os.environ['CORES']).read().split():
    pcs = []
    try:
        # (What it has read of one core must not serve for the next.)
        for command in 'core-file', 'file', 'file ' + os.environ['PROGRAM'], 'core-file ' + path, 'maintenance flush dcache':
            gdb.execute(command, to_string=True)
        frame = gdb.newest_frame()
        while frame:
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                pcs.append(frame.pc())
            frame = frame.older()
    except (gdb.error, RuntimeError) as e:
        pcs.append(str(e))
    print('PCS ' + json.dumps([path, pcs]), flush=True)
