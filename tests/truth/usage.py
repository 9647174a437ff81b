# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command, and writes to FILE what it used: processor time and the most memory. usage: usage.py FILE COMMAND..."""
import resource
import subprocess
import sys

got = subprocess.run(sys.argv[2:], check=False).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], 'w') as f:
    f.write('%.2f s, %d MiB\n' % (used.ru_utime + used.ru_stime, used.ru_maxrss // 1024))
sys.exit(got)
