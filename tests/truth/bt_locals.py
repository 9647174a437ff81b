# SPDX-License-Identifier: GPL-2.0-only
"""usage: bt_locals.py LJPERF STOPS SEED LUA [ARGUMENT...]: runs bt_locals.lua, and compares each account of the debug
library with what ljperf bt --locals says of the process at that moment: names and values, in order."""
import json, os, re, subprocess, sys

ljperf, stops, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
here = os.path.dirname(os.path.abspath(__file__))
counts = {'stops': 0, 'frames': 0, 'local': 0, 'vararg': 0, 'upvalue': 0, 'fields': 0}
wrong = []


def text(v, key):
    """The bytes of a member, which is written in hex when it is not UTF-8."""
    if key + '_hex' in v:
        return bytes.fromhex(v[key + '_hex'])
    return v.get(key, '').encode()


def number(v):
    return float(v)


def same_number(a, b):
    a, b = number(a), number(b)
    return (a != a and b != b) or (a == b and str(a) == str(b))


def same_written(a, b):
    """Keys are written with fewer digits."""
    return abs(number(a) - number(b)) <= 1e-13 * abs(number(a))


def key_of(field):
    return ('w' + text(field, 'key').decode('latin1')) if field.get('key_is_written') else 's' + text(field, 'key').hex()


def is_same_key(want, got):
    if want[0] != got[0]:
        return False
    if want == got:
        return True
    if want[0] == 's':
        return False
    if ': 0x' in got:
        return int(got.split(': 0x')[1], 16) == int(want[1:].split(':')[0], 16)
    try:
        return same_written(want[1:], got[1:])
    except ValueError:
        return False


def is_same(want, got, deep=True):
    kind, _, rest = want.partition(':')
    if got.get('reason') == 'the position of a loop over a table':
        return kind == 'userdata'
    if got['type'].replace('light ', '') != kind or got.get('provenance'):
        return False
    if kind == 'number':
        return same_number(rest, got['value'])
    if kind == 'string':
        return bytes.fromhex(rest) == text(got, 'value') and not got.get('cut')
    if kind == 'nil':
        return got['value'] is None
    if kind == 'boolean':
        return got['value'] == (rest == 'true')
    if kind == 'function':
        return got.get('native') is True if rest == 'C' else text(got, 'defined').decode().split(' ')[-1] == re.sub(':0$', '', rest)
    if kind == 'cdata':
        return text(got, 'class').decode() == rest
    if kind == 'table' and deep:
        address, nr, fields = rest.split(':', 2)
        fields = fields.split(',') if fields else []
        if int(address, 16) not in (0, int(got['address'], 16)) or got['elements'] + got['nr_fields'] != int(nr):
            return False
        listed = got.get('fields', [])
        if got.get('name') == '_ENV':  # its fields are not listed
            return not listed
        counts['fields'] += len(listed)
        if len(listed) != len(fields):
            return False
        left = [(key_of(f), f) for f in listed]
        for field in fields:
            k, _, v = field.partition('=')
            found = [(i, f) for i, (key, f) in enumerate(left) if is_same_key(k, key) and is_same(v, f, False)]
            if not found:
                return False
            del left[found[0][0]]
        return True
    address = int(rest.split(':')[0], 16)
    return address in (0, int(got.get('address', '0'), 16))


def compare(account, document, is_part):
    frames = [f for f in document['threads'][0]['frames'] if f['kind'] == 'lua' and f.get('file') and
              f['file'] != '[builtin]' and f.get('defined', {}).get('file') != '[C]']
    frames = frames[1:]  # probe(), which the account leaves out
    if len(frames) != len(account) and not (is_part and len(frames) > len(account)):
        wrong.append('%d Lua frames, the debug library has %d: %s / %s' % (
            len(frames), len(account), [(f['symbol'], f.get('line')) for f in frames], [a['at'] for a in account]))
        return
    for want, got in zip(account, frames):
        counts['frames'] += 1
        at = want['at']
        if at[2] != str(got.get('line', -1)):
            wrong.append('frame %s: line %s' % (at, got.get('line')))
        for role in ('local', 'vararg', 'upvalue'):
            has = [v for v in got.get('variables', []) if v['role'] == role or
                   (role == 'local' and v['role'] == 'temporary' and 'name' in v)]  # "(for index)"
            if role == 'vararg' and not want['has_varargs']:
                continue
            if len(has) != len(want[role]):
                wrong.append('frame %s: %s %s, not %s (%s)' % (at, role, [v.get('name') for v in has], [n for n, _ in want[role]],
                                                             got.get('variables_unknown')))
                continue
            for (name, value), v in zip(want[role], has):
                counts[role] += 1
                named = str(v['number']) if role == 'vararg' else v.get('name', '')
                if named != name or not is_same(value, v):
                    wrong.append('frame %s: %s %s is %s, not %s' % (at, role, name, str(v)[:300], value[:300]))


command = sys.argv[4:] + [os.path.join(here, 'bt_locals.lua'), seed, str(stops)]
lua = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
has_varargs = 'lua5.1' not in os.path.basename(os.path.realpath(sys.argv[4]))
account, is_part = [], False
for line in lua.stdout:
    words = line.decode('latin1').rstrip('\n').split('\t')
    if words[0] == 'frame':
        account.append({'at': words[1:], 'local': [], 'vararg': [], 'upvalue': [], 'has_varargs': has_varargs})
    elif words[0] == 'stop':
        out = subprocess.run([ljperf, 'bt', '-p', str(lua.pid), '--locals', '--temporaries', '--json', '--strings', '4000', '--fields', '1000'],
                             stdout=subprocess.PIPE)
        if out.returncode:
            sys.exit('bt failed')
        compare(account, json.loads(out.stdout, parse_int=lambda s: -0.0 if s == '-0' else int(s)), is_part)
        counts['stops'] += 1
        account, is_part = [], False
        lua.stdin.write(b'\n')
        lua.stdin.flush()
    elif words[0] == 'more':  # of the main coroutine, which this Lua does not name
        is_part = True
    elif words[0] in ('local', 'vararg', 'upvalue'):
        account[-1][words[0]].append((words[1], words[2]))
lua.stdin.close()
if lua.wait():
    wrong.append('the program ended with %d' % lua.returncode)
print('%s: %d stops, %d frames, %d locals, %d varargs, %d upvalues, %d fields, %d wrong' % (
    ' '.join(os.path.basename(a) for a in sys.argv[4:]), counts['stops'], counts['frames'], counts['local'], counts['vararg'],
    counts['upvalue'], counts['fields'], len(wrong)))
for w in wrong[:10]:
    print('   ', w[:700])
sys.exit(bool(wrong) or counts['stops'] < stops)
