# SPDX-License-Identifier: GPL-2.0-only
"""How programs read what `ljperf export` writes, written down from the formats' descriptions: every reader
gives {stack as fold names it: weight}. And the recordings they are tried on."""
import collections, gzip, json, os, re, subprocess, sys
import importers

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, '..', '..', 'src', 'output')
FILES = {'pprof': 'p.pb.gz', 'otlp': 'p.otlp', 'otlp-json': 'p.otlp.json', 'speedscope': 'p.speedscope.json', 'firefox': 'p.firefox.json', 'chrome': 'p.cpuprofile',
         'callgrind': 'callgrind.out.p', 'json': 'p.jsonl', 'folded': 'p.folded'}


def write(data, scratch, *options):
    """Export `data` in every format; {format: path}."""
    paths = {f: os.path.join(scratch, n) for f, n in FILES.items()}
    for f, path in paths.items():
        importers.run([importers.LJPERF, 'export', '--quiet', '-i', data, '--format', f, '-o', path, *options])
    return paths


SPECIAL = re.compile(r'\[(vdso|vvar|vsyscall|uprobes|heap|stack)\]') # mappings without a file


def named(name):
    """A function as fold names it: one without a name by its module in brackets, as FlameGraph does, whatever the module is called."""
    if SPECIAL.fullmatch(name):
        name = '[%s]' % name
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


# OpenTelemetry's profiles, v1.10 and later: {message: {number: (name, kind)}}; kind: a message, or how its bytes are read.
OTLP = {
    'ProfilesData': {1: ('resourceProfiles', '*ResourceProfiles'), 2: ('dictionary', 'ProfilesDictionary')},
    'ProfilesDictionary': {1: ('mappingTable', '*Mapping'), 2: ('locationTable', '*Location'), 3: ('functionTable', '*Function'),
                           4: ('linkTable', '*Link'), 5: ('stringTable', '*string'), 6: ('attributeTable', '*KeyValueAndUnit'),
                           7: ('stackTable', '*Stack')},
    'ResourceProfiles': {1: ('resource', 'Resource'), 2: ('scopeProfiles', '*ScopeProfiles'), 3: ('schemaUrl', 'string')},
    'ScopeProfiles': {1: ('scope', 'InstrumentationScope'), 2: ('profiles', '*Profile'), 3: ('schemaUrl', 'string')},
    'InstrumentationScope': {1: ('name', 'string'), 2: ('version', 'string')},
    'Resource': {1: ('attributes', '*KeyValue')},
    'KeyValue': {1: ('key', 'string'), 2: ('value', 'AnyValue')},
    'AnyValue': {1: ('stringValue', 'string'), 3: ('intValue', 'int64')},
    'Profile': {1: ('sampleType', 'ValueType'), 2: ('samples', '*Sample'), 3: ('timeUnixNano', 'fixed64'), 4: ('durationNano', 'int64'),
                5: ('periodType', 'ValueType'), 6: ('period', 'int64')},
    'ValueType': {1: ('typeStrindex', 'int32'), 2: ('unitStrindex', 'int32')},
    'Sample': {1: ('stackIndex', 'int32'), 2: ('attributeIndices', '*int32'), 3: ('linkIndex', 'int32'), 4: ('values', '*int64'),
               5: ('timestampsUnixNano', '*fixed64')},
    'Mapping': {1: ('memoryStart', 'int64'), 2: ('memoryLimit', 'int64'), 3: ('fileOffset', 'int64'), 4: ('filenameStrindex', 'int32'),
                5: ('attributeIndices', '*int32')},
    'Stack': {1: ('locationIndices', '*int32')},
    'Location': {1: ('mappingIndex', 'int32'), 2: ('address', 'int64'), 3: ('lines', '*Line'), 4: ('attributeIndices', '*int32')},
    'Line': {1: ('functionIndex', 'int32'), 2: ('line', 'int64'), 3: ('column', 'int64')},
    'Function': {1: ('nameStrindex', 'int32'), 2: ('systemNameStrindex', 'int32'), 3: ('filenameStrindex', 'int32'), 4: ('startLine', 'int64')},
    'KeyValueAndUnit': {1: ('keyStrindex', 'int32'), 2: ('value', 'AnyValue'), 3: ('unitStrindex', 'int32')},
    'Link': {1: ('traceId', 'bytes'), 2: ('spanId', 'bytes')},
}


def varint(raw, at):
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def otlp_value(kind, raw):
    """What JSON has for the bytes of a field whose length is given."""
    if kind in OTLP:
        return read_message(kind, raw)
    return raw.decode() if kind == 'string' else raw.hex()


def otlp_number(kind, value):
    return value if kind == 'int32' else str(value)


def read_message(message, raw):
    """A message of the wire as its JSON is."""
    d, at = {}, 0
    while at < len(raw):
        tag, at = varint(raw, at)
        name, kind = OTLP[message][tag >> 3]
        values, many = [], kind.startswith('*')
        kind = kind.lstrip('*')
        if tag & 7 == 0:
            value, at = varint(raw, at)
            values.append(otlp_number(kind, value))
        elif tag & 7 == 1:
            values.append(otlp_number(kind, int.from_bytes(raw[at:at + 8], 'little')))
            at += 8
        elif tag & 7 == 2:
            size, at = varint(raw, at)
            part, at = raw[at:at + size], at + size
            if kind.startswith('int') or kind == 'fixed64': # packed
                i = 0
                while i < len(part):
                    value, i = varint(part, i) if kind != 'fixed64' else (int.from_bytes(part[i:i + 8], 'little'), i + 8)
                    values.append(otlp_number(kind, value))
            else:
                values.append(otlp_value(kind, part))
        else:
            sys.exit('wire type %d in %s' % (tag & 7, message))
        if many:
            d.setdefault(name, []).extend(values)
        elif name in d:
            sys.exit('%s.%s stands twice' % (message, name))
        else:
            d[name] = values[0]
    return d


def check_otlp(d):
    """What receivers and profcheck ask for: entry 0 of every table is empty, indexes are in range, and more."""
    tables = d['dictionary']
    nr = {t[:-5]: len(tables[t]) for t in tables}
    for t in tables:
        zero = {'traceId': '00' * 16, 'spanId': '00' * 8} if t == 'linkTable' else '' if t == 'stringTable' else {}
        if tables[t][0] != zero:
            sys.exit('%s[0] is %r' % (t, tables[t][0]))
    for t in 'stringTable', 'attributeTable', 'stackTable':
        all_of = [json.dumps(v) for v in tables[t]]
        if len(set(all_of)) != len(all_of):
            sys.exit('%s has an entry twice' % t)
    used = {t: {0} for t in nr}

    def use(table, index):
        if not 0 <= index < nr[table]:
            sys.exit('%s %d of %d' % (table, index, nr[table]))
        used[table].add(index)
    def walk(m):
        for k, v in m.items():
            target = re.fullmatch('(string|attribute|stack|location|function|mapping|link|[a-z]+)(Strindex|Index|Indices)', k)
            if target and k != 'attributes':
                table = 'string' if target.group(2) == 'Strindex' else target.group(1)
                for index in v if isinstance(v, list) else [v]:
                    use(table, index)
            for inner in v if isinstance(v, list) else [v]:
                if isinstance(inner, dict):
                    walk(inner)
    walk(d)
    for t in nr:
        if len(used[t]) != nr[t]:
            sys.exit('%s: entries that nothing refers to: %r' % (t, sorted(set(range(nr[t])) - used[t])[:5]))


def read_otlp(path):
    """({(service, type, unit): counts}, kinds of frames, the message)"""
    d = json.load(open(path)) if path.endswith('.json') else read_message('ProfilesData', open(path, 'rb').read())
    check_otlp(d)
    tables = d['dictionary']
    strings = tables['stringTable']
    attribute = [(strings[a['keyStrindex']], a['value'].get('stringValue')) if a else None for a in tables['attributeTable']]
    kinds, totals = collections.Counter(), {}
    names = [[strings[tables['functionTable'][line['functionIndex']]['nameStrindex']] for line in l.get('lines', [])]
             for l in tables['locationTable']]
    for l in tables['locationTable'][1:]:
        own = dict(attribute[i] for i in l['attributeIndices'])
        kinds.update(own['profile.frame.type'].split())
        kinds['[%s]' % own.get('ljperf.provenance', 'exact')] += 1
    for resource in d['resourceProfiles']:
        facts = {a['key']: a['value']['stringValue'] for a in resource['resource']['attributes']}
        for profile in resource['scopeProfiles'][0]['profiles']:
            t = profile['sampleType']
            counts = totals.setdefault((facts['service.name'], strings[t['typeStrindex']], strings[t['unitStrindex']]), collections.Counter())
            begin, lasts = int(profile['timeUnixNano']), int(profile['durationNano'])
            for s in profile['samples']:
                own = dict(attribute[i] for i in s.get('attributeIndices', []))
                times = [int(x) for x in s.get('timestampsUnixNano', [])]
                if bool(times) == bool(s.get('values')) or len(s.get('values', [0])) != 1:
                    sys.exit('a sample has %d times and %r' % (len(times), s.get('values')))
                if any(not begin <= x < begin + lasts for x in times):
                    sys.exit('a sample is outside of its profile\'s time')
                frames = [f for l in tables['stackTable'][s['stackIndex']]['locationIndices'] for f in names[l]]
                counts[stack(own.get('thread.name', ''), reversed(frames))] += len(times) or int(s['values'][0])
    return totals, kinds, d


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
