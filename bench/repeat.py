#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes a large recording from a small one: its samples and rounds again and again, each time later,
until SIZE bytes, and its features. Usage: repeat.py IN OUT SIZE."""
import struct, sys

source, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = memoryview(open(source, 'rb').read())
attrs, _, start, length = struct.unpack_from('<QQQQ', data, 24)
sample_type = struct.unpack_from('<Q', data, attrs + 24)[0]
time_at = 8 + 8 * bin(sample_type & (1 << 16 | 1 | 2)).count('1')  # behind IDENTIFIER, IP, TID
samples, others, at = [], [], start
while at < start + length:
    kind, _, n = struct.unpack_from('<IHH', data, at)
    (samples if kind in (9, 68) else others).append((at, n))
    at += n
times = [struct.unpack_from('<Q', data, a + time_at)[0] for a, n in samples if n > 8]
first, last = min(times), max(times)
with open(target, 'wb') as f:
    f.write(data[:start])
    for a, n in others:
        f.write(data[a:a + n])
    turn = 0
    while f.tell() < size:
        turn += 1
        for a, n in samples:
            record = bytearray(data[a:a + n])
            if n == 8:  # FINISHED_ROUND
                f.write(record)
                continue
            struct.pack_into('<Q', record, time_at, struct.unpack_from('<Q', record, time_at)[0] + turn * (last - first + 1000))
            f.write(record)
        f.write(struct.pack('<IHH', 68, 0, 8))
    end = f.tell()
    # a table of (offset, size), one a feature, and what it points to
    tail = bytearray(data[start + length:])
    for i in range(sum(bin(b).count('1') for b in data[72:104])):
        where, n = struct.unpack_from('<QQ', tail, 16 * i)
        struct.pack_into('<QQ', tail, 16 * i, where - (start + length) + end, n)
    f.write(tail)
    f.seek(48)
    f.write(struct.pack('<Q', end - start))
