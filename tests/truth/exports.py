# SPDX-License-Identifier: GPL-2.0-only
"""How programs read what `ljperf export` writes, written down from the formats' descriptions: every reader
gives {stack as fold names it: weight}. And the recordings they are tried on."""
import collections, gzip, json, os, re, subprocess, sys
import importers

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, '..', '..', 'src', 'output')
FILES = {'pprof': 'p.pb.gz', 'speedscope': 'p.speedscope.json', 'firefox': 'p.firefox.json', 'chrome': 'p.cpuprofile',
         'callgrind': 'callgrind.out.p', 'json': 'p.jsonl', 'folded': 'p.folded'}


def write(data, scratch, *options):
    """Export `data` in every format; {format: path}."""
    paths = {f: os.path.join(scratch, n) for f, n in FILES.items()}
    for f, path in paths.items():
        importers.run([importers.LJPERF, 'export', '--quiet', '-i', data, '--format', f, '-o', path, *options])
    return paths


def named(name):
    """A function as fold names it."""
    if name.startswith('[') and name.endswith(']') and not name.endswith(': not recorded]'):
        name = '[' + re.sub(r'[ ()]', lambda m: '%%%02X' % ord(m.group()), name[1:-1]) + ']'
    return name.replace(';', ':')


def stack(comm, frames):
    return ';'.join([comm.replace(' ', '_').replace(';', ':')] + [named(f) for f in frames])


# ---- one reader a format ------------------------------------------------------------------------

def read_json(path):
    counts = collections.Counter()
    for line in open(path):
        s = json.loads(line)
        names = [f['symbol'] or '[%s]' % (f['module'] or 'unknown').split('/')[-1] for f in s['frames']]
        if names:
            counts[stack(s['comm'], [n[1:-1] if n.startswith('[[') else n for n in reversed(names)])] += s['period']
    return counts


def read_speedscope(path):
    d, counts = json.load(open(path)), collections.Counter()
    for p in d['profiles']:
        if p['type'] != 'sampled' or len(p['samples']) != len(p['weights']) or p['endValue'] != sum(p['weights']):
            sys.exit('a profile of speedscope\'s is not as its schema says')
        comm = re.fullmatch(r'(.*) pid: \d+ tid: \d+', p['name']).group(1)
        for sample, weight in zip(p['samples'], p['weights']):
            counts[stack(comm, [d['shared']['frames'][i]['name'] for i in sample])] += weight
    return counts


def read_chrome(path):
    """Counts by the nodes' own, and microseconds by the samples'."""
    d = json.load(open(path))
    nodes = {n['id']: n for n in d['nodes']}
    parents = {c: n['id'] for n in d['nodes'] for c in n['children']}
    if len(nodes) != len(d['nodes']) or len(parents) != len(nodes) - 1:
        sys.exit('the nodes of the .cpuprofile are no tree')
    counts, times = collections.Counter(), collections.Counter()

    def path_of(at):
        names = []
        while at in parents:
            names.append(nodes[at]['callFrame']['functionName'])
            at = parents[at]
        names.reverse()
        return stack(re.sub(r' \d+/\d+$', '', names[0]), names[1:]) if names else ''
    paths = {i: path_of(i) for i in nodes}
    for i, n in nodes.items():
        if n['hitCount']:
            counts[paths[i]] += n['hitCount']
        if sum(t['ticks'] for t in n.get('positionTicks', [])) > n['hitCount']:
            sys.exit('more ticks than hits')
    for at, lasts in zip(d['samples'], d['timeDeltas'][1:] + [0]):
        if lasts < 0:
            sys.exit('time goes back')
        if not paths[at].startswith('(idle)'):
            times[paths[at]] += lasts
    if sum(d['timeDeltas']) != d['endTime'] - d['startTime']:
        sys.exit('the time of all samples is not the profile\'s')
    return counts, times


def read_firefox(path):
    """As the profiler's call tree sums samples."""
    d, counts = json.load(open(path)), collections.Counter()
    shared, strings = d['shared'], d['shared']['stringArray']
    for table in ('stackTable', 'frameTable', 'funcTable', 'resourceTable', 'sources', 'nativeSymbols'):
        for name, column in shared[table].items():
            if name != 'length' and len(column) != shared[table]['length']:
                sys.exit('%s.%s: %d, not %d' % (table, name, len(column), shared[table]['length']))
    prefix, frame, func = shared['stackTable']['prefix'], shared['stackTable']['frame'], shared['frameTable']['func']
    if any(p is not None and p >= i for i, p in enumerate(prefix)):
        sys.exit('a stack stands before its prefix')
    for t in d['threads']:
        samples = t['samples']
        if any(len(samples[k]) != samples['length'] for k in ('stack', 'time', 'weight') if samples[k]):
            sys.exit('samples are not as many as they say')
        if samples['time'] != sorted(samples['time']):
            sys.exit('samples are not in order')
        for i, at in enumerate(samples['stack']):
            names = []
            while at is not None:
                names.append(strings[shared['funcTable']['name'][func[frame[at]]]])
                at = prefix[at]
            counts[stack(t['name'], reversed(names))] += round(samples['weight'][i] * 1e6) if samples['weight'] else 1
    return counts


def parse_proto(text):
    """protoc's text: {field: [values]}, messages within messages."""
    root = collections.defaultdict(list)
    at = [root]
    for line in text.split('\n'):
        line = line.strip()
        if line.endswith(' {'):
            inner = collections.defaultdict(list)
            at[-1][line[:-2]].append(inner)
            at.append(inner)
        elif line == '}':
            at.pop()
        elif line:
            field, value = line.split(': ', 1)
            if value.startswith('"'):
                value = re.sub(rb'\\([0-7]{3}|.)', unescape, value[1:-1].encode()).decode()
                at[-1][field].append(value)
            else:
                at[-1][field].append(value == 'true' if value in ('true', 'false') else int(value))
    return root


def unescape(m):
    e = m.group(1)
    return bytes([int(e, 8)]) if len(e) == 3 else {b'n': b'\n', b't': b'\t', b'r': b'\r'}.get(e, e)


def one(message, field):
    return message[field][0] if message[field] else 0


def read_pprof(path):
    """(counts by each sample type, the labels of each sample as {key: value}, the profile)"""
    with gzip.open(path) as f:
        raw = f.read()
    p = subprocess.run(['protoc', '--decode=pprof.Profile', '--proto_path=' + PROTO, 'pprof.proto'], input=raw,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        sys.exit('protoc: ' + p.stderr.decode())
    d = parse_proto(p.stdout.decode())
    strings = d['string_table']
    if strings[0] != '':
        sys.exit('the first string is not ""')
    functions = {one(f, 'id'): strings[one(f, 'name')] for f in d['function']}
    mappings = {one(m, 'id'): m for m in d['mapping']}
    locations = {}
    for l in d['location']:
        locations[one(l, 'id')] = [functions[one(line, 'function_id')] for line in l['line']]
        m = mappings[one(l, 'mapping_id')] if one(l, 'mapping_id') else None
        if m and not one(m, 'memory_start') <= one(l, 'address') < one(m, 'memory_limit'):
            sys.exit('an address outside of its mapping')
    types = [(strings[one(t, 'type')], strings[one(t, 'unit')]) for t in d['sample_type']]
    counts, labels = {t: collections.Counter() for t in types}, []
    for s in d['sample']:
        own = {strings[one(l, 'key')]: strings[one(l, 'str')] if l['str'] else one(l, 'num') for l in s['label']}
        frames = [f for l in s['location_id'] for f in locations[l]]
        labels.append((own, frames))
        for t, v in zip(types, s['value']):
            counts[t][stack(own['thread'], reversed(frames))] += v
    return counts, labels, d


def annotated(path, *options):
    """function -> cost, as callgrind_annotate sums it; recursions (NAME'2) are functions of their own."""
    out = importers.run(['callgrind_annotate', '--threshold=100', '--auto=no', '--show-percs=no', *options, path])
    counts = {}
    body = out.split('file:function\n', 1)[1].split('\n', 1)[1]
    for line in body.split('\n'):
        m = re.match(r'\s*([\d,]+)  (.*?)( \[.*\])?$', line)
        if m and not line.startswith('-'):
            counts[m.group(2)] = int(m.group(1).replace(',', ''))
    return counts
