# SPDX-License-Identifier: GPL-2.0-only
"""A program of AArch64 under qemu-user, which is stopped at random instructions through qemu's gdb stub, and goes on.

qemu runs it instruction by instruction (-singlestep), so that it can stop at each. The program's memory is the
emulator's own, at the same addresses: /proc/PID/mem has it.
"""
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

REGISTERS = 33 # x0 to x30, sp, pc
SP, PC = 31, 32
SIGNATURE = 0x7f << 48 # bits of an address that may be signed, for addresses of 48 bits
SIGINT = 2 # in the stub's protocol


class Machine:
    def __init__(self, qemu, root, program, arguments, environment=None):
        path = os.path.join(root, program.lstrip('/'))
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen([qemu, '-singlestep', '-g', str(port), '-L', root, path] + arguments,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        self.pid, self.buffer, self.stopped = self.process.pid, b'', True
        for _ in range(100):
            try:
                self.socket = socket.create_connection(('127.0.0.1', port))
                break
            except OSError:
                time.sleep(0.05)
        self.socket.settimeout(30)
        self.command('qSupported')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.socket.close()

    # ---- the stub's protocol ----

    def send(self, text):
        self.socket.sendall(b'$' + text.encode() + b'#%02x' % (sum(text.encode()) & 255))

    def packet(self):
        """Take a packet of what was received; None: it is not whole."""
        m = re.search(rb'\$([^#]*)#..', self.buffer)
        if not m:
            return None
        self.buffer = self.buffer[m.end():]
        self.socket.sendall(b'+')
        return m.group(1).decode('latin-1')

    def receive_more(self):
        more = self.socket.recv(1 << 16)
        if not more:
            raise SystemExit('qemu has ended')
        self.buffer += more

    def receive(self):
        while True:
            got = self.packet()
            if got is not None:
                return got
            self.receive_more()

    def command(self, text):
        self.send(text)
        return self.receive()

    # ---- running ----

    def wait_for(self, line):
        """Run until the program has printed a line."""
        self.send('c')
        while self.process.stdout.readline().decode().strip() != line:
            if self.process.poll() is not None:
                raise SystemExit('the program has ended')
        if not self.stop():
            raise SystemExit('the program has ended')

    def pass_signals(self, seconds):
        """For that long, deliver the program's own signals, for each of which the stub stops it. Returns False if it ended."""
        end = time.monotonic() + seconds
        while True:
            got = self.packet()
            if got is None:
                if not select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
                    return True
                self.receive_more()
            elif got[:1] not in 'TS':
                return False
            else:
                self.send('C' + got[1:3])

    def stop(self):
        """Returns False if the program has ended."""
        self.process.send_signal(signal.SIGINT) # the stub tells of it, and the program gets none
        while True:
            got = self.receive()
            if got[:1] not in 'TS':
                return False
            if int(got[1:3], 16) == SIGINT:
                return True
            self.send('C' + got[1:3])

    def run(self, seconds):
        """Run for about that long, and stop. Returns False if the program has ended."""
        self.send('c')
        return self.pass_signals(seconds) and self.stop()

    def step(self):
        """Run one instruction."""
        self.command('s')

    def registers(self):
        data = bytes.fromhex(self.command('g')[:16 * REGISTERS])
        return struct.unpack('<%dQ' % REGISTERS, data)

    def auxv(self):
        data = self.command('qXfer:auxv:read::0,1000')[1:].encode('latin-1')
        return re.sub(rb'}(.)', lambda m: bytes([m.group(1)[0] ^ 0x20]), data, flags=re.S)


# ---- cores --------------------------------------------------------------------------------------------------------

PAGE = 4096
PT_LOAD, PT_NOTE = 1, 4
NT_PRSTATUS, NT_AUXV, NT_FILE, NT_ARM_PAC_MASK = 1, 6, 0x46494c45, 0x406
READ, WRITE, RUN = 4, 2, 1


def mappings(machine, sp):
    """start, end, flags, offset, path of the program's mappings: those around its stack, not the emulator's own."""
    found = []
    for line in open('/proc/%d/maps' % machine.pid):
        fields = line.split(None, 5)
        start, end = (int(x, 16) for x in fields[0].split('-'))
        if start >> 36 != sp >> 36 or fields[1][0] != 'r':
            continue
        path = fields[5].strip() if len(fields) > 5 else ''
        path = path if path.startswith('/') else ''
        flags = READ | (WRITE if fields[1][1] == 'w' else 0)
        # The emulator runs no code there: what is not written in anonymous memory is code.
        flags |= RUN if not path and not flags & WRITE else 0
        found.append((start, end, flags, int(fields[2], 16), path))
    return found


def note(kind, data, owner=b'CORE\0\0\0\0'):
    return struct.pack('<III', len(owner.rstrip(b'\0')) + 1, len(data), kind) + owner + data + b'\0' * (-len(data) % 4)


def write_core(name, machine, root):
    """Write a core as Linux does. Files of `root` are named as seen in it."""
    values = machine.registers()
    maps = mappings(machine, values[SP])
    status = bytearray(392)
    struct.pack_into('<I', status, 32, machine.pid)
    struct.pack_into('<%dQ' % REGISTERS, status, 112, *values)
    files = [m for m in maps if m[4]]
    named = struct.pack('<QQ', len(files), PAGE) + b''.join(struct.pack('<QQQ', m[0], m[1], m[3] // PAGE) for m in files) + \
        b''.join((m[4][len(root):] if m[4].startswith(root + '/') else m[4]).encode() + b'\0' for m in files)
    notes = note(NT_PRSTATUS, bytes(status)) + note(NT_AUXV, machine.auxv()) + note(NT_FILE, named) + \
        note(NT_ARM_PAC_MASK, struct.pack('<QQ', SIGNATURE, SIGNATURE), b'LINUX\0\0\0')
    at = 64 + 56 * (len(maps) + 1)
    table = [struct.pack('<IIQQQQQQ', PT_NOTE, 0, at, 0, 0, len(notes), 0, 4)]
    data = at + len(notes)
    pieces = []
    with open('/proc/%d/mem' % machine.pid, 'rb', 0) as memory:
        for start, end, flags, _, path in maps:
            memory.seek(start)
            piece = memory.read(end - start)
            flags |= RUN if path and not flags & WRITE else 0
            table.append(struct.pack('<IIQQQQQQ', PT_LOAD, flags, data, start, 0, len(piece), end - start, PAGE))
            data += len(piece)
            pieces.append(piece)
    head = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 4, 183, 1, 0, 64, 0, 0, 64, 56, len(table), 0, 0, 0)
    with open(name, 'wb') as f:
        f.write(b''.join([head] + table + [notes] + pieces))
