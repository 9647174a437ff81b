# SPDX-License-Identifier: GPL-2.0-only
"""The processes of a recorder: itself, and those that read for it what strangers own."""


def readers_of(recorder):
    """Their pids, as a set."""
    found = set()
    try:
        with open('/proc/%d/task/%d/children' % (recorder, recorder), encoding='ascii') as f:
            children = f.read().split()
    except OSError:
        return found
    for pid in children:
        try:
            with open('/proc/%s/comm' % pid, encoding='utf-8') as f:
                if f.read() == 'ljperf-reader\n':
                    found.add(int(pid))
        except OSError:
            pass # it has just ended
    return found


def processes_of(recorder):
    return [recorder, *readers_of(recorder)]
