# SPDX-License-Identifier: GPL-2.0-only
"""The processes of a recorder: itself, those that read for it what strangers own, and those that open files for these."""


def children_of(parent, name):
    """The pids of a process's children of this name, as a set."""
    found = set()
    try:
        with open('/proc/%d/task/%d/children' % (parent, parent), encoding='ascii') as f:
            children = f.read().split()
    except OSError:
        return found
    for pid in children:
        try:
            with open('/proc/%s/comm' % pid, encoding='utf-8') as f:
                if f.read() == name + '\n':
                    found.add(int(pid))
        except OSError:
            pass # it has just ended
    return found


def readers_of(recorder):
    return children_of(recorder, 'ljperf-reader')


def brokers_of(recorder):
    return {broker for reader in readers_of(recorder) for broker in children_of(reader, 'ljperf-broker')}


def processes_of(recorder):
    return [recorder, *readers_of(recorder), *brokers_of(recorder)]
