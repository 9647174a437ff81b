# SPDX-License-Identifier: GPL-2.0-only
"""A program in a window of tmux, driven as by a user."""
import re, subprocess, sys, tempfile, time


class Failures(list):
    def append(self, text):
        list.append(self, text)
        print(text, flush=True)
        if len(self) > 4:  # each takes its time
            sys.exit(1)


failures = Failures()


def run(*cmd):
    return subprocess.run(cmd, capture_output=True, text=True, errors='replace')


class Terminal:
    """A tmux window with a program in it."""

    def __init__(self, where, *command, size=(100, 24), lang='C.UTF-8'):
        self.base = ['tmux', '-u', '-S', tempfile.mktemp(dir=where), '-f', '/dev/null']
        quoted = ' '.join("'%s'" % c for c in command)
        # with job control, so that it can be stopped
        script = where + '/script'
        with open(script, 'w') as f:
            f.write("set -m\ncd '%s'\nexport LC_ALL=%s\n%s 2>stderr\nwhile s=$?; [ $s = 148 ]; do\n"
                    "echo STOPPED; read x; fg >/dev/null; done\necho ENDED $s; sleep 1000\n" % (where, lang, quoted))
        p = run(*self.base, 'new-session', '-d', '-x', str(size[0]), '-y', str(size[1]), 'bash ' + script)
        if p.returncode:
            print('tmux does not work here:', p.stderr.strip())
            sys.exit(77)
        run(*self.base, 'set-option', '-g', 'escape-time', '20')

    def screen(self, *options):
        return run(*self.base, 'capture-pane', '-p', *options).stdout.rstrip('\n').split('\n')

    def place(self):
        """The cursor's line, and which line of the screen that is."""
        screen = self.screen('-e')
        for i, line in enumerate(screen):
            if re.search(r'\x1b\[[0-9;]*\b7m', line):
                return i, re.sub(r'\x1b\[[0-9;]*m', '', line).replace('\x0f', '').rstrip()
        return -1, ''

    def selected(self):
        return self.place()[1]

    def seek(self, what, pattern, is_first):
        """Put the cursor on the first line that matches, from the list's first line on."""
        self.type('Home')
        for _ in range(100):
            before = self.place()
            if is_first(before[0]):
                break
            time.sleep(0.05)
        for _ in range(100):
            if re.search(pattern, before[1]):
                return
            self.type('Down')
            for _ in range(60):
                if self.place() != before:
                    break
                time.sleep(0.02)
            before = self.place()
        failures.append('%s: no line %s to go to:\n%s' % (what, pattern, '\n'.join(self.screen())))

    def wait(self, what, test):
        """Until test(screen) holds; a failure if it does not."""
        for _ in range(200):
            screen = self.screen()
            try:
                if test(screen):
                    return screen
            except IndexError:  # a line that is not drawn yet
                pass
            time.sleep(0.05)
        failures.append('%s: not shown:\n%s' % (what, '\n'.join(screen)))
        return screen

    def type(self, *keys):
        run(*self.base, 'send-keys', *keys)

    def press(self, what, keys, want):
        """Press, and wait for a text, a compiled pattern of the whole screen, or what a function of
        the screen's lines says."""
        self.type(*(keys if isinstance(keys, list) else [keys]))
        if isinstance(want, str):
            return self.wait(what, lambda s: want in '\n'.join(s))
        return self.wait(what, want if callable(want) else lambda s: want.search('\n'.join(s)))

    def at(self, what, pattern):
        for _ in range(100):
            if re.search(pattern, self.selected()):
                return
            time.sleep(0.05)
        failures.append('%s: the cursor is on %r, not on %r:\n%s' % (
            what, self.selected(), pattern, '\n'.join(self.screen())))

    def resize(self, width, height):
        run(*self.base, 'resize-window', '-x', str(width), '-y', str(height))

    def close(self):
        run(*self.base, 'kill-server')
