# SPDX-License-Identifier: GPL-2.0-only
"""Runs a script on a redis-server again and again, until it has used SECONDS of processor time; then shuts it down.

usage: redis_eval.py SOCKET SCRIPT SECONDS
"""
import socket
import sys


class Redis:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile('rb')

    def send(self, *words):
        text = [w.encode() for w in words]
        self.socket.sendall(b'*%d\r\n' % len(text) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in text))

    def call(self, *words):
        self.send(*words)
        line = self.answers.readline().rstrip()
        if line[:1] == b'-':
            raise SystemExit('redis: ' + line.decode(errors='replace'))
        if line[:1] == b'$':
            return self.answers.read(int(line[1:]) + 2).decode()
        return line.decode()


def used(redis):
    words = dict(w.split(':', 1) for w in redis.call('INFO', 'cpu').split('\r\n') if ':' in w)
    return float(words['used_cpu_user']) + float(words['used_cpu_sys'])


def main():
    path, script, seconds = sys.argv[1], open(sys.argv[2]).read(), float(sys.argv[3])
    redis = Redis(path)
    begun = used(redis)
    while used(redis) < begun + seconds:
        for _ in range(20):
            redis.call('EVAL', script, '0')
    redis.send('SHUTDOWN', 'NOSAVE')


if __name__ == '__main__':
    main()
