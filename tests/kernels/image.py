# SPDX-License-Identifier: GPL-2.0-only
"""Writes what a guest boots from: archives in cpio's "newc" form, which the kernel unpacks as its root.
Several may stand one behind the other.

usage: image.py root ARCHIVE TRIPLET SYSROOT [PATH | PATH=FILE]...
         SYSROOT: of the machine's files; empty: this machine's
         PATH   a file, link or folder below SYSROOT, at the same path there, so that recordings made there
                are read here; the libraries that a program needs come along
         =FILE  of the content of FILE
       image.py modules ARCHIVE FOLDER MODULE...
         of a kernel package's files in FOLDER: the modules and what they need, as /modules/NN-NAME, in the
         order in which they are loaded; those built into the kernel are left out
"""
import lzma
import os
import re
import stat
import subprocess
import sys


class Archive:
    def __init__(self, path):
        self.out = open(path, 'wb')
        self.names = set()

    def add(self, name, mode, data=b'', device=(0, 0)):
        """Entries are written once; the folders of `name` must have been."""
        name = name.strip('/')
        if name in self.names:
            return False
        self.names.add(name)
        self._write(name, mode, data, device)
        return True

    def _write(self, name, mode, data, device):
        text = name.encode() + b'\0'
        numbers = (len(self.names), mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(text), 0)
        head = b'070701' + b''.join(b'%08x' % n for n in numbers) + text
        self.out.write(head + b'\0' * (-len(head) % 4) + data + b'\0' * (-len(data) % 4))

    def folders(self, path):
        for i, letter in enumerate(path):
            if letter == '/' and i:
                self.add(path[:i], stat.S_IFDIR | 0o755)

    def close(self):
        self._write('TRAILER!!!', 0, b'', (0, 0))
        self.out.write(b'\0' * (-self.out.tell() % 512))
        self.out.close()


class Root:
    """Files below a folder (sysroot; empty: this machine's), links as links, with the libraries they need."""

    def __init__(self, archive, triplet, sysroot):
        self.archive = archive
        self.sysroot = sysroot
        self.libraries = [f'/lib/{triplet}', f'/usr/lib/{triplet}', '/lib64', '/lib', '/usr/lib', '/usr/local/lib']

    def here(self, path):
        """Where this machine has a file of the root."""
        return self.sysroot + path

    def target(self, link):
        return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(self.here(link))))

    def place(self, path):
        """The path without links in its folders, each of which is added as it is."""
        done = ''
        for part in path.strip('/').split('/')[:-1]:
            folder = done + '/' + part
            while os.path.islink(self.here(folder)):
                self.link(folder)
                folder = self.place(self.target(folder))
            self.archive.folders(folder + '/')
            done = folder
        return done + '/' + os.path.basename(path)

    def link(self, path):
        self.archive.add(path, stat.S_IFLNK | 0o777, os.readlink(self.here(path)).encode())

    def add(self, path):
        path = self.place(os.path.normpath(path))
        if path.strip('/') in self.archive.names:
            return
        if os.path.islink(self.here(path)):
            self.link(path)
            self.add(self.target(path))
        elif os.path.isdir(self.here(path)):
            self.archive.add(path, stat.S_IFDIR | 0o755)
            for name in sorted(os.listdir(self.here(path))):
                self.add(os.path.join(path, name))
        else:
            self.add_file(path, self.here(path))

    def add_file(self, path, source):
        self.archive.folders(path)
        with open(source, 'rb') as file:
            data = file.read()
        self.archive.add(path, stat.S_IFREG | (os.stat(source).st_mode & 0o777), data)
        if data[:4] == b'\x7fELF':
            self.needs(path, source)

    def needs(self, path, source):
        text = subprocess.run(['readelf', '-l', '-d', source], capture_output=True, text=True, check=False).stdout
        for loader in re.findall(r'program interpreter: (\S+)\]', text):
            self.add(loader)
        beside = [p.replace('$ORIGIN', os.path.dirname(path)) for r in re.findall(r'R(?:UN)?PATH.*\[(.*)\]', text) for p in r.split(':')]
        for name in re.findall(r'NEEDED.*\[(.*)\]', text):
            for folder in beside + self.libraries:
                if os.path.exists(self.here(os.path.join(folder, name))):
                    self.add(os.path.join(folder, name))
                    break
            else:
                sys.exit(f'{source} needs {name}, which is not in {" ".join(self.libraries)}')


def write_root(path, triplet, sysroot, *wanted):
    archive = Archive(path)
    root = Root(archive, triplet, sysroot)
    for folder in ('dev', 'proc', 'sys', 'run', 'root', 'mnt', 'results', 'modules'):
        archive.add(folder, stat.S_IFDIR | 0o755)
    for folder in ('tmp', 'var/tmp'):
        archive.folders(folder)
        archive.add(folder, stat.S_IFDIR | 0o1777)
    archive.add('dev/console', stat.S_IFCHR | 0o600, device=(5, 1))
    for item in wanted:
        place, _, source = item.partition('=')
        if source:
            root.add_file(place, source)
        else:
            root.add(place)
    archive.close()


def write_modules(path, folder, *wanted):
    files, order = {}, []
    for directory, _, names in os.walk(folder):
        for name in names:
            if '.ko' in name:
                files[name.split('.ko')[0].replace('-', '_')] = os.path.join(directory, name)

    def load(name):
        if name not in files or name in (n for n, _ in order):
            return
        with (lzma.open if files[name].endswith('.xz') else open)(files[name], 'rb') as file:
            data = file.read()
        for needs in re.findall(rb'\0(?:depends=|softdep=pre: )([^\0]*)\0', data.replace(b'\0', b'\0\0')):
            for other in re.split('[, ]', needs.decode()):
                load(other.replace('-', '_'))
        order.append((name, data))

    for name in wanted:
        load(name)
    archive = Archive(path)
    archive.add('modules', stat.S_IFDIR | 0o755)
    for i, (name, data) in enumerate(order):
        archive.add(f'modules/{i:02}-{name}', stat.S_IFREG | 0o644, data)
    archive.close()


if __name__ == '__main__':
    {'root': write_root, 'modules': write_modules}[sys.argv[1]](*sys.argv[2:])
