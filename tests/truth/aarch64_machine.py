# SPDX-License-Identifier: GPL-2.0-only
"""A program of AArch64 under qemu-user, which is stopped at random instructions through qemu's gdb stub, and goes on.

qemu runs it instruction by instruction (-singlestep), so that it can stop at each; programs that are large faster, and then
some instructions one by one. The program's memory is the
emulator's own, at the same addresses: /proc/PID/mem has it.
"""
import ctypes
import json
import os
import random
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
STEPS = 24
TGKILL = 234 # of x86-64
SIGINT = 2 # in the stub's protocol


def read_mappings(pid):
    """start, end, rights, offset, path; '' where no file is mapped."""
    found = []
    for line in open('/proc/%d/maps' % pid):
        fields = line.split(None, 5)
        start, end = (int(x, 16) for x in fields[0].split('-'))
        path = fields[5].strip() if len(fields) > 5 else ''
        found.append((start, end, fields[1], int(fields[2], 16), path if path.startswith('/') else ''))
    return found


class Machine:
    def __init__(self, qemu, root, program, arguments, by_instruction=True):
        path = os.path.join(root, program.lstrip('/'))
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        self.by_instruction = by_instruction
        options = ['-singlestep'] if by_instruction else []
        self.process = subprocess.Popen([qemu] + options + ['-g', str(port), '-L', root, path] + arguments,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid, self.buffer, self.stopped = self.process.pid, b'', True
        for _ in range(100):
            try:
                self.socket = socket.create_connection(('127.0.0.1', port))
                break
            except OSError:
                time.sleep(0.05)
        self.socket.settimeout(30)
        self.command('qSupported')
        # The emulator's, and the program's stack before it begins. (Its file may be at a fixed address.)
        self.own = {m[:2] for m in read_mappings(self.pid) if not m[4].startswith(os.path.abspath(root) + '/')}

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
        seen = b''
        while line.encode() + b'\n' not in seen:
            if not self.pass_signals(0.02):
                raise SystemExit('the program has ended')
            if select.select([self.process.stdout], [], [], 0)[0]:
                seen += os.read(self.process.stdout.fileno(), 1 << 12)
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
        # To the first thread. The stub tells of it, and the program gets none.
        ctypes.CDLL(None).syscall(TGKILL, self.pid, self.pid, signal.SIGINT)
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
        if not self.pass_signals(seconds) or not self.stop():
            return False
        # qemu stops between blocks of instructions: go some steps into one.
        for _ in range(0 if self.by_instruction else random.randrange(STEPS)):
            self.command('s')
        return True

    def processor_time(self):
        """Seconds that the emulator has run."""
        with open('/proc/%d/stat' % self.pid) as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

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


def mappings(machine, sp, all_code):
    """start, end, flags, offset, path of the program's mappings: those around its stack, and what has come since it began."""
    found = []
    for start, end, rights, offset, path in read_mappings(machine.pid):
        if rights[0] != 'r' or (start >> 36 != sp >> 36 and (start, end) in machine.own):
            continue
        flags = READ | (WRITE if rights[1] == 'w' else 0)
        # The emulator runs no code there: what is not written in anonymous memory is code. (V8 18's is written, too.)
        flags |= RUN if not path and (all_code or not flags & WRITE) else 0
        found.append((start, end, flags, offset, path))
    return found


def note(kind, data, owner=b'CORE\0\0\0\0'):
    return struct.pack('<III', len(owner.rstrip(b'\0')) + 1, len(data), kind) + owner + data + b'\0' * (-len(data) % 4)


def write_core(name, machine, root, all_code=False):
    """Write a core as Linux does. Files of `root` are named as seen in it. `all_code`: code may be in writable memory."""
    values = machine.registers()
    maps = mappings(machine, values[SP], all_code)
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
            try: # (Linux leaves out what a file has, too; gdb-multiarch does not find it in a root)
                piece = b'' if all_code and path and not flags & WRITE else memory.read(end - start)
            except OSError: # behind a file's end, for example: a core lacks it, too
                piece = b''
            flags |= RUN if path and not flags & WRITE else 0
            table.append(struct.pack('<IIQQQQQQ', PT_LOAD, flags, data, start, 0, len(piece), end - start, PAGE))
            data += len(piece)
            pieces.append(piece)
    head = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 4, 183, 1, 0, 64, 0, 0, 64, 56, len(table), 0, 0, 0)
    with open(name, 'wb') as f:
        f.write(b''.join([head] + table + [notes] + pieces))


# ---- stops --------------------------------------------------------------------------------------------------------

def random_cores(number, work, qemu, root, program, arguments, ready=None, warm=0.1, pause=0.02, of_a_process=50, large=False):
    """Yields paths of cores of random stops, which the next one may overwrite. `ready`: a line that the program prints when
    its paths begin; `warm`: seconds of processor time that it runs then; `pause`: seconds at most between two stops; `large`: stops are some
    steps behind the beginning of a block, and code may be in writable memory."""
    made, failures = 0, 0
    while made < number:
        before = made
        with Machine(qemu, root, program, arguments, by_instruction=not large) as machine:
            if ready:
                machine.wait_for(ready)
            begun = machine.processor_time()
            machine.run(warm * (0.5 + random.random()))
            while machine.processor_time() - begun < warm * 0.5 and machine.run(warm * 0.1): # (this machine may be busy)
                pass
            while made < min(before + of_a_process, number) and machine.run(random.random() * pause):
                path = os.path.join(work, '%d.core' % made)
                write_core(path, machine, root, all_code=large)
                made += 1
                yield path
        failures += made == before
        if failures > 10:
            raise SystemExit('%s ends before it can be stopped' % program)


def stack_of(ljperf, root, path):
    """What bt says of a core's thread."""
    out = subprocess.run([ljperf, 'bt', '--symfs', root, '--core', path, '--json'], capture_output=True, text=True).stdout
    return json.loads(out)['threads'][0]


def is_marked(thread):
    return any(f.get('provenance', 'exact') != 'exact' for f in thread['frames'])


def done_with(path, wrong):
    """Remove a core; $KEEP: one that is wrong stays in that folder."""
    if wrong and 'KEEP' in os.environ:
        os.rename(path, os.path.join(os.environ['KEEP'], os.path.basename(path)))
    else:
        os.unlink(path)


def summary(name, counts):
    return '%s: %d stops: %s' % (name, sum(counts.values()), ', '.join('%d %s' % (n, what) for what, n in sorted(counts.items())))
