# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command, and writes to FILE what it used: "SECONDS MIB DELAY".

usage: usage.py FILE COMMAND...
       SECONDS  of processor time
       MIB      the most memory at a time
       DELAY    the percentage of its life that one of its threads was ready to run and had no processor: of the
                thread of which that is most. 0 where the kernel does not tell.
Of both, what COMMAND has started counts for the first two only; for DELAY, too, if it is a recorder's process that reads.
"""
import os
import resource
import subprocess
import sys
import time

from recorder_processes import processes_of


def delays(pid):
    """Seconds that each thread has waited for a processor."""
    found = {}
    try:
        for tid in os.listdir('/proc/%d/task' % pid):
            with open('/proc/%d/task/%s/schedstat' % (pid, tid)) as f:
                found[tid] = int(f.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        pass
    return found


def main():
    began, waited = time.monotonic(), {}
    child = subprocess.Popen(sys.argv[2:])
    while child.poll() is None:
        for pid in processes_of(child.pid):
            waited.update(delays(pid))
        time.sleep(0.05)
    used, life = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    with open(sys.argv[1], 'w') as f:
        f.write('%.2f %d %d\n' % (used.ru_utime + used.ru_stime, used.ru_maxrss // 1024,
                                  100 * max(waited.values(), default=0) / max(life, 0.1)))
    sys.exit(child.returncode)


if __name__ == '__main__':
    main()
