# SPDX-License-Identifier: GPL-2.0-only
"""How programs that import perf script's text read it, written down from what they do: FlameGraph's
stackcollapse-perf.pl, speedscope, the Firefox Profiler. And the recording they are tried on."""
import collections, os, re, subprocess, sys

LJPERF = os.environ.get('LJPERF', 'build/ljperf')
FRAME = re.compile(r'^\s*(\w+)\s*(.+) \((.*)\)')  # stackcollapse: blanks in a module are fine
FRAME_STRICT = re.compile(r'^\s*(\w+)\s*(.+) \((\S*)\)')  # the other two
OFFSET = re.compile(r'\+0x[0-9a-f]+$')


def tidy(name):
    name = name.replace(';', ':')
    if not re.search(r'\.\(.*\)\.', name):
        name = re.sub(r'\((?!anonymous namespace\)).*', '', name)
    return name.replace('"', '').replace("'", '')


def stackcollapse(lines):
    """stack -> sum of periods, of the first event; as `stackcollapse-perf.pl` without options."""
    counts, name, stack, period, wanted = collections.Counter(), None, [], 1, None
    for line in lines:
        if line.startswith('#'):
            continue
        head = re.match(r'(\S.+?)\s+(\d+)/*(\d+)?\s+', line)
        frame = FRAME.match(line)
        if not line:
            if name is not None and len(stack):
                counts[';'.join([name] + stack[::-1])] += period
            name, stack = None, []
        elif head:
            event = re.search(r':\s*(\d+)?\s+(\S+):\s*$', line)
            if event and wanted not in (None, event.group(2)):
                continue
            wanted = event.group(2) if event else wanted
            period = int(event.group(1) or 1) if event else 1
            name = head.group(1).replace(' ', '_')
        elif frame and name is not None:
            symbol = OFFSET.sub('', frame.group(2))
            if symbol.startswith('('):
                continue
            pieces = re.sub(r'(->)+$', '', symbol).split('->')
            for i, piece in enumerate(pieces):
                if piece == '[unknown]':
                    piece = '[%s]' % (frame.group(3).split('/')[-1] if frame.group(3) != '[unknown]' else 'unknown')
                pieces[i] = tidy(piece) + ('_[i]' if i else '')
            stack.extend(reversed(pieces))
        elif not frame:
            sys.exit('stackcollapse-perf.pl does not know the line: %r' % line)
    return counts


def shown(symbol, module):
    """What fold calls the frame of an importer: an unknown function by its module."""
    if symbol == '[unknown]':
        return module if module == '[unknown]' else '[%s]' % module.split('/')[-1]
    return unescaped(symbol).replace(';', ':')


def unescaped(symbol):
    return '(' + symbol[3:] if symbol.startswith('%28') else symbol


def strict_frames(lines):
    """Outermost first, as speedscope and the Firefox Profiler take them."""
    frames = []
    for line in lines:
        m = FRAME_STRICT.match(line)
        if m and not OFFSET.sub('', m.group(2)).startswith('('):
            frames.append(shown(OFFSET.sub('', m.group(2)), m.group(3)))
    return tuple(reversed(frames))


def blocks(lines):
    block = []
    for line in lines + ['']:
        if line:
            block.append(line)
        elif block:
            yield block
            block = []


def speedscope(lines):
    """(command, pid, tid, frames) -> samples."""
    counts, wanted = collections.Counter(), None
    for head, *rest in blocks([l for l in lines if not re.match(r'\s*#', l)]):
        who = re.match(r'(\S.+?)\s+(\d+)(?:/?(\d+))?\s+', head)
        time = re.search(r'\s+(\d+\.\d+):\s+', head)
        event = re.search(r'(\S+):\s*$', head)
        if who and time and event and wanted in (None, event.group(1)):
            wanted = event.group(1)
            counts[who.group(1), who.group(2), who.group(3), strict_frames(rest)] += 1
    return counts


def firefox(lines):
    """(command, pid, tid, frames) -> samples; the name is what stands before the last number."""
    counts = collections.Counter()
    for head, *rest in blocks([l for l in lines if not l.startswith('#')]):
        when = re.match(r'(.*)\s+([\d.]+):', head)
        who = when and re.match(r'(.*)\s+(?:(\d+)/)?(\d+)\b', when.group(1).split('[')[0].rstrip())
        frames = strict_frames(rest)
        if who and frames:
            counts[who.group(1).strip(), who.group(2), who.group(3), frames] += 1
    return counts


def fold(data, *options):
    """stack -> count."""
    out = run([LJPERF, 'fold', '-i', data, *options])
    stacks = {}
    for line in out.splitlines():
        stack, count = line.rsplit(' ', 1)
        if stack in stacks:
            sys.exit('fold prints a stack twice: ' + stack)
        stacks[stack] = int(count)
    return stacks


def run(command):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        sys.exit('%s: exit %d: %s' % (command, p.returncode, p.stderr.decode()))
    return p.stdout.decode(errors='surrogateescape')


def script(data, *options):
    return run([LJPERF, 'script', '-i', data, *options]).split('\n')


def differ(what, theirs, ours):
    """Prints and counts what is not in both."""
    bad = [k for k in set(theirs) | set(ours) if theirs.get(k) != ours.get(k)]
    print('%s: %d stacks, %d differ' % (what, len(ours), len(bad)))
    for k in bad[:4]:
        print('   %s\n      importer %s, fold %s' % (k, theirs.get(k), ours.get(k)))
    return len(bad)


# Names that importers trip over, two threads whose names have blanks, system calls, generated code.
PROGRAM = r'''
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>
#define KEPT __attribute__((noinline))
static volatile long sink;
static inline __attribute__((always_inline)) void square(long i) { sink += i * i; }
KEPT static void work(long n) { for (long i = 0; i < n * 300000; i++) square(i); }
namespace {
struct Hidden {
    KEPT Hidden *operator->() { work(3); return this; }
    KEPT int operator->*(int Hidden::*) { work(2); return 1; }
    KEPT long operator()(const char *, int) const { work(3); return sink; }
    KEPT operator std::vector<std::string>() const { work(2); return {}; }
    KEPT Hidden &operator,(const Hidden &o) { work(2); return *this; }
    int field = 1;
};
template <class F> KEPT auto apply(F f) -> decltype(f(1)) { work(1); return f(1); }
}
KEPT long double operator""_km(long double d) { work(2); return d; }
template <class A, unsigned char C> struct Pair { KEPT static long of(A a) { work(2); return sizeof(a) + C; } };
extern "C" { /* renamed behind the compiler's back */
KEPT long name_semicolon(long n) { work(n); return sink + 1; }
KEPT long name_quote(long n) { work(n); return name_semicolon(n) + 1; }
KEPT long name_paren(long n) { work(n); return name_quote(n) + 1; }
KEPT long name_go(long n) { work(n); return name_paren(n) + 1; }
KEPT long name_arrow(long n) { work(n); return name_go(n) + 1; }
KEPT long name_hash(long n) { work(n); return name_arrow(n) + 1; }
}
KEPT static long generated(void) /* mov $N,%ecx; loop .; ret */
{
    static const unsigned char code[] = {0xb9, 0, 0, 0x20, 0, 0xe2, 0xfe, 0xc3};
    void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof(code));
    ((void (*)())at)();
    munmap(at, 4096);
    return 1;
}
KEPT static void system_calls(void)
{
    static char buffer[1 << 18];
    int fd = open("/dev/urandom", O_RDONLY);
    for (int i = 0; i < 4; i++) if (read(fd, buffer, sizeof(buffer)) < 0) sink++;
    close(fd);
}
static void all(void)
{
    Hidden h;
    sink += h->field + (h->*&Hidden::field) + h("x", 1);
    std::vector<std::string> names = h;
    h, h;
    sink += apply([](int x) { work(2); return x; }) + apply([&](long x) -> long { work(2); return x + names.size(); });
    sink += (long)3.0_km + Pair<std::map<int, std::string>, '('>::of({}) + Pair<int (*)(int), ';'>::of(nullptr);
    sink += name_hash(1) + generated();
    system_calls();
}
static void thread(const char *name)
{
    prctl(PR_SET_NAME, name);
    for (int i = 0; i < 14; i++) all();
}
int main()
{
    std::thread a(thread, "GC helper"), b(thread, "Web Content (x)");
    thread("main's \"own\"");
    a.join();
    b.join();
}
'''
RENAMED = {'name_semicolon': 'for;each', 'name_quote': 'say "hi" to \'them\'', 'name_paren': '(cold) path(int)',
           'name_go': 'net/http.(*Client).Do', 'name_arrow': 'Lorg/a;.outer->Lorg/b;.inner(I)V',
           'name_hash': '# not a comment'}


def record(scratch):
    """The path of a recording of PROGRAM, whose own path has a blank and parentheses; None, why."""
    home = os.path.join(scratch, 'my app (1)')
    os.mkdir(home)
    source, program, data = home + '/odd.cc', home + '/odd', scratch + '/perf.data'
    open(source, 'w').write(PROGRAM)
    run(['g++', '-O2', '-g', '-pthread', '-Wno-unused-value', '-o', program + '.plain', source])
    renames = [x for name in RENAMED.items() for x in ('--redefine-sym', '%s=%s' % name)]
    run(['objcopy', *renames, program + '.plain', program])
    p = subprocess.run(['perf', 'record', '-q', '-e', 'cpu-clock', '-F', '999', '--call-graph=dwarf,16384', '-k', 'mono',
                        '-m', '8M', '-o', data, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode:
        print('perf record does not work here:', p.stdout.decode().strip().split('\n')[-1])
        sys.exit(77)
    return data
