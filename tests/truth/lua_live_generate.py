# SPDX-License-Identifier: GPL-2.0-only
"""Writes a Lua program with a known call tree, and what is true of it.

Every function is called from one known place (a tail call: on behalf of one known place), so that
the innermost function of a stack tells all callers, with the line of each call; recursions have
one depth each. How functions reach each other ("edges") is chosen by --edges.

usage: lua_live_generate.py --seed N --edges plain|mixed|jit [--nodes N] [--host] PROGRAM TRUTH

PROGRAM runs `seconds` long and writes to a file what only it can know (see PROLOGUE):
    luajit PROGRAM SECONDS FACTS
With --host it only defines its functions and returns the topmost one, which may yield, and one that
tells the facts, for lua_live_host.c.
TRUTH is JSON: {"file", "nodes": {name: {first, last, ups: [{parent, line, via}], wild, rec}}, "lines"}.
  ups   how the function may have been called: the caller, its line, builtins between (innermost first)
  wild  called from anywhere (finalizers, handlers of events)
  rec   {depth, line, bottom, via}: calls itself at `line`, `depth` times, and others at `bottom` only
"""
import argparse
import json
import random

PROLOGUE = r"""
local F = {}
local O = setmetatable({}, {__index = F})
local S, R = SEED, 0
local ffi = require 'ffi'
local jutil = require 'jit.util'
ffi.cdef [[
typedef struct { long sec, nsec; } ljp_time;
int clock_gettime(int clock, ljp_time *t);
void qsort(void *base, size_t n, size_t w, int (*cmp)(const int *, const int *));
]]
local clock_buffer = ffi.new('ljp_time')
local function now(clock)
  ffi.C.clock_gettime(clock, clock_buffer)
  return tonumber(clock_buffer.sec) * 1e9 + tonumber(clock_buffer.nsec)
end
local sort_array = ffi.new('int[3]', 2, 1, 3)
local collected = setmetatable({}, {__mode = 'k'})
"""

# Events of the compiler and where bytecode lies, told by the program of itself.
EPILOGUE_FACTS = r"""
local facts = {}
local function say(...) facts[#facts + 1] = string.format(...) end
local function address(object) return tonumber((string.format('%p', object):gsub('^0x', '')), 16) end
local function tell_proto(proto)
  local info = jutil.funcinfo(proto)
  local lines = {}
  for pc = 0, info.bytecodes - 1 do lines[pc + 1] = jutil.funcinfo(proto, pc).currentline end
  say('proto %s %d %d %.0f %s', info.source, info.linedefined, info.lastlinedefined,
      address(info.proto or proto), table.concat(lines, ','))
  for i = 1, info.gcconsts do
    local child = jutil.funck(proto, -i)
    if type(child) == 'proto' then tell_proto(child) end
  end
end
-- What is recorded into a trace; first[trace]: what its recording began with. Behind its last guard a trace
-- prepares for where it goes on: the other trace's begin, or the instruction behind the last one ("next").
local seen, last, first = {}, nil, {}
local function where(func, pc)
  local info = type(func) == 'function' and jutil.funcinfo(func, pc)
  return info and info.currentline and info.source .. ':' .. info.linedefined .. ':' .. info.currentline
end
local function on_record(tr, func, pc)
  local at = where(func, pc)
  first[tr] = first[tr] or at
  if at then
    seen[at] = true
    last = {func, pc}
  end
end
local function on_trace(what, tr, func, pc)
  if what == 'start' then
    seen, last, first[tr] = {}, nil, nil
    local at = where(func, pc)
    if at then seen[at] = true end
  elseif what == 'stop' then
    local mcode, start = jutil.tracemc(tr)
    local at = {}
    for k in pairs(seen) do at[#at + 1] = k end
    local link = jutil.traceinfo(tr).link
    local goes = link ~= 0 and first[link] or link == 0 and last and where(last[1], last[2] + 1)
    if goes and not seen[goes] then at[#at + 1] = 'next ' .. goes end
    say('trace %d %.0f %d %.0f %s', tr, start % 2 ^ 48, #mcode, now(1), table.concat(at, '|'))
  elseif what == 'flush' then
    say('flush %.0f', now(1))
  end
end
"""


class Program:
    def __init__(self, options):
        self.random = random.Random(options.seed)
        self.edges = EDGES[options.edges] + ([edge_host] if options.host else [])
        self.may_yield = options.host and options.edges == 'plain' # no C in between
        self.file = options.program.rsplit('/', 1)[-1]
        self.host = options.host
        self.lines = []
        self.nodes = {}
        self.left = options.nodes
        self.chunks = 0
        self.queue = []
        self.helpers = []
        for text in PROLOGUE.replace('SEED', str(options.seed * 7919 % 2147483629 + 1)).strip('\n').split('\n'):
            self.emit(text)

    def emit(self, text):
        """Append a line; returns its number."""
        self.lines.append(text)
        return len(self.lines)

    def node(self, name, **more):
        self.nodes[name] = dict({'first': 0, 'last': 0, 'ups': [], 'file': self.file}, **more)
        return self.nodes[name]

    def up(self, name, parent, line, via=()):
        self.nodes[name]['ups'].append({'parent': parent, 'line': line, 'via': list(via)})

    def new_child(self, **how):
        """A function that is still to be written; `how` says what its caller expects of it."""
        self.left -= 1
        name = 'n%d' % len(self.nodes)
        self.node(name)
        self.queue.append((name, how))
        return name


# ---- work: what functions do themselves ----------------------------------------------------------

def work_arithmetic(p, who, n):
    p.emit('  for i = 1, %d do x = x + i %% 7 end' % n)


def work_float(p, who, n):
    p.emit('  for i = 1, %d do' % (n // 2 + 1))
    p.emit('    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3')
    p.emit('  end')


def work_string(p, who, n):
    p.emit('  for i = 1, %d do' % (n // 10 + 1))
    p.emit("    local s = string.rep('ab', i % 13)")
    p.emit('    x = x + #s:upper()')
    p.emit('    x = x + (s:byte(2) or 0)')
    p.emit('  end')


def work_concat(p, who, n):
    p.emit('  for i = 1, %d do' % (n // 10 + 1))
    p.emit("    local s = 'k' .. i .. x % 5")
    p.emit('    x = x + #s + #tostring(i)')
    p.emit('  end')


def work_table(p, who, n):
    p.emit('  for i = 1, %d do' % (n // 6 + 1))
    p.emit('    local t = {i, i + 1, k = i}')
    p.emit('    t[#t + 1] = x')
    p.emit('    x = x + t[1] + t.k % 3')
    p.emit('  end')


def work_insert(p, who, n):
    p.emit('  local list = {}')
    p.emit('  for i = 1, %d do' % (n // 8 + 1))
    p.emit('    table.insert(list, i * 7 % 11)')
    p.emit("    x = x + (next(list) or 0) + select('#', i, x)")
    p.emit('  end')
    p.emit("  x = x + #table.concat(list, ',') % 3")


def work_closure(p, who, n):
    p.emit('  for i = 1, %d do' % (n // 12 + 1))
    child = who + 'f%d' % len(p.nodes)
    first = p.emit('    local f = function(y)')
    p.node(child, first=first)
    p.emit('      return y % 9 + x % 2')
    p.nodes[child]['last'] = p.emit('    end')
    p.up(child, who, p.emit('    x = x + f(i)'))
    p.emit('  end')


def work_helper(p, who, n):
    name = p.random.choice(p.helpers)
    p.emit('  for i = 1, %d do' % (n // 4 + 1))
    p.up(name, who, p.emit('    x = x + F.%s(i)' % name))
    p.emit('  end')


def work_finalizer(p, who, n):
    p.emit('  for i = 1, 3 do')
    p.emit("    local u = ffi.gc(ffi.new('int[2]', i), F.fin)")
    p.emit('    x = x + u[0]')
    p.emit('  end')


WORK = [work_arithmetic, work_arithmetic, work_float, work_string, work_concat, work_table, work_insert,
        work_closure, work_helper]

# ---- edges: how a function reaches another ---------------------------------------------------------


def edge_direct(p, who):
    child = p.new_child()
    p.up(child, who, p.emit('    x = x + F.%s(1)' % child))


def edge_method(p, who):
    child = p.new_child()
    p.up(child, who, p.emit('    x = x + O:%s(1)' % child))


def edge_vararg(p, who):
    child = p.new_child(vararg=True)
    p.up(child, who, p.emit('    x = x + F.%s(1, 2, x)' % child))


def edge_pcall(p, who):
    child = p.new_child()
    p.up(child, who, p.emit('    local _, v = pcall(F.%s, 1)' % child), ['pcall'])
    p.emit('    x = x + v')


def edge_error(p, who):
    child = p.new_child(throws=True)
    p.up(child, who, p.emit('    local _, v = pcall(F.%s, 1)' % child), ['pcall'])
    p.emit('    x = x + v')


def edge_xpcall(p, who):
    child = p.new_child()
    p.up(child, who, p.emit('    local _, v = xpcall(F.%s, F.handler, 1)' % child), ['xpcall'])
    p.emit('    x = x + v')


def edge_xpcall_error(p, who):
    child = p.new_child(throws=True, handled=True)
    p.up(child, who, p.emit('    local _, v = xpcall(F.%s, F.handler, 1)' % child), ['xpcall'])
    p.emit('    x = x + v')


def edge_wrap(p, who):
    child = p.new_child()
    p.emit('    local co = coroutine.wrap(F.%s)' % child)
    p.up(child, who, p.emit('    x = x + co(1)'), ['coroutine.wrap'])


def edge_resume(p, who):
    child = p.new_child()
    p.emit('    local co = coroutine.create(F.%s)' % child)
    p.up(child, who, p.emit('    local _, v = coroutine.resume(co, 1)'), ['coroutine.resume'])
    p.emit('    x = x + v')


def edge_generator(p, who):
    child = p.new_child(yields=True)
    p.up(child, who, p.emit('    for v in coroutine.wrap(F.%s) do' % child), ['coroutine.wrap'])
    p.emit('      x = x + v')
    p.emit('    end')


def closure(p, who, head, tail, result):
    """A closure within `who` that calls a child; returns its name."""
    name, child = who + 'c%d' % len(p.nodes), None
    p.node(name, first=p.emit('    ' + head))
    child = p.new_child()
    p.up(child, name, p.emit('      local v = F.%s(1)' % child))
    p.emit('      x = x + v % 3')
    p.emit('      return ' + result)
    p.nodes[name]['last'] = p.emit('    ' + tail)
    return name


def edge_nested_coroutine(p, who):
    name = who + 'o%d' % len(p.nodes)
    p.node(name, first=p.emit('    local outer = coroutine.wrap(function(a)'))
    child = p.new_child(yields=True)
    p.emit('      local inner = coroutine.wrap(F.%s)' % child)
    p.up(child, name, p.emit('      local v = inner(a)'), ['coroutine.wrap'])
    p.emit('      return v')
    p.nodes[name]['last'] = p.emit('    end)')
    p.up(name, who, p.emit('    x = x + outer(1)'), ['coroutine.wrap'])


METAMETHODS = [('index', 't, k', 'v', 'x = x + o.q'), ('add', 'a, b', 'v', 'x = x + (o + 1)'),
               ('call', 'self, a', 'v', 'x = x + o(1)'), ('concat', 'a, b', 'v', "x = x + (o .. 'a')"),
               ('lt', 'a, b', 'v > 1', 'x = o < o and x or x + 1'),
               ('le', 'a, b', 'v > 1', 'x = o <= o and x or x + 1'),
               ('newindex', 't, k, y', 'v', 'o.q = 1'), ('unm', 'a', 'v', 'x = x + -o'),
               ('mod', 'a, b', 'v', 'x = x + o % 3'), ('pow', 'a, b', 'v', 'x = x + o ^ 2')]


def edge_metamethod(p, who):
    what, parameters, result, use = p.random.choice(METAMETHODS)
    name = closure(p, who, 'local o = setmetatable({}, {__%s = function(%s)' % (what, parameters), 'end})', result)
    p.up(name, who, p.emit('    ' + use))


def edge_sort(p, who):
    name = closure(p, who, 'local less = function(a, b)', 'end', 'a < b')
    p.emit('    local t = {3, 1, 2}')
    p.up(name, who, p.emit('    table.sort(t, less)'), ['table.sort'])


def edge_gsub(p, who):
    name = closure(p, who, 'local replace = function(s)', 'end', 'nil')
    p.up(name, who, p.emit("    string.gsub('ab', '.', replace)"), ['string.gsub'])


def edge_qsort(p, who):
    child, back, call = p.new_child(), who + 'b', who + 'q'
    while back in p.nodes:
        back, call = back + 'b', call + 'q'
    p.queue.append((back, {'qsort': (child, call)}))
    p.node(back)
    p.node(call)
    p.up(call, who, p.emit('    x = x + F.%s(1)' % call))


def edge_iterator(p, who):
    child = p.new_child(iterates=True)
    p.up(child, who, p.emit('    for v in F.%s do' % child))
    p.emit('      x = x + v')
    p.emit('    end')


def edge_recursion(p, who):
    depth = p.random.randint(1, 40)
    child = p.new_child(recurses=depth)
    p.up(child, who, p.emit('    x = x + F.%s(%d)' % (child, depth)))


def edge_recursion_pcall(p, who):
    depth = p.random.randint(1, 9)
    child = p.new_child(recurses=depth, protected=True)
    p.up(child, who, p.emit('    x = x + F.%s(%d)' % (child, depth)))


def edge_tail(p, who):
    p.up(p.new_child(), who, None) # no frame of `who` remains: resolved at the end
    p.emit('    return F.%s(1)' % p.queue[-1][0])


def edge_host(p, who):
    """A host's function that runs another VM, or does nothing."""
    p.emit('    x = x + host_enter(1)')


def edge_chunk(p, who):
    p.chunks += 1
    # (programs of one host have chunks of their own names: their functions are told by them)
    child, file = p.new_child(), 'chunk%d_%s' % (p.chunks, p.file.split('.')[0])
    name = file
    p.node(name, file=file, last=4)
    p.queue.append((name, {'chunk': child}))
    p.up(child, name, 2)
    p.up(name, who, p.emit('    x = x + F.%s(F)' % name))


EDGES = {
    'plain': [edge_direct, edge_direct, edge_method, edge_vararg, edge_tail, edge_recursion, edge_chunk],
    'mixed': [edge_direct, edge_method, edge_vararg, edge_pcall, edge_error, edge_xpcall, edge_xpcall_error,
              edge_wrap, edge_resume, edge_generator, edge_nested_coroutine, edge_metamethod, edge_metamethod,
              edge_sort, edge_gsub, edge_qsort, edge_iterator, edge_recursion, edge_recursion_pcall, edge_tail,
              edge_chunk],
    'jit': [edge_direct, edge_method, edge_vararg, edge_pcall, edge_metamethod, edge_metamethod, edge_recursion,
            edge_recursion_pcall, edge_tail, edge_iterator],
}

# ---- functions -------------------------------------------------------------------------------------


def write_work(p, name, least, most):
    for _ in range(p.random.randint(1, 2)):
        kind = p.random.choice(WORK + ([work_finalizer] if 'fin' in p.nodes else []))
        p.emit('  do')
        kind(p, name, p.random.randint(least, most))
        p.emit('  end')


def write_branches(p, name, fan, may_tail):
    """Calls one of `fan` children, the one that the generator of numbers says."""
    edges = [e for e in p.edges if may_tail or e is not edge_tail]
    p.emit('  S = S * 16807 % 2147483647')
    p.emit('  local r = S %% %d' % fan)
    for i in range(fan):
        p.emit('  %s r == %d then' % ('elseif' if i else 'if', i))
        p.random.choice(edges)(p, name)
    p.emit('  end')


def write_recursion(p, name, how):
    node = p.nodes[name]
    node['first'] = p.emit('F.%s = function(d)' % name)
    p.emit('  if d == 0 then')
    child = p.new_child()
    bottom = p.emit('    local x = F.%s(1)' % child)
    p.up(child, name, bottom)
    p.emit('    return x')
    p.emit('  end')
    if how.get('protected'):
        line, via = p.emit('  local _, y = pcall(F.%s, d - 1)' % name), ['pcall']
    else:
        line, via = p.emit('  local y = F.%s(d - 1)' % name), []
    node['rec'] = {'depth': how['recurses'], 'line': line, 'bottom': bottom, 'via': via}
    p.emit('  return y + 1')
    node['last'] = p.emit('end')


def write_qsort(p, name, how):
    child, call = how['qsort']
    p.nodes[name]['first'] = p.emit('F.%s = function(a, b)' % name)
    p.up(child, name, p.emit('  local v = F.%s(1)' % child))
    p.emit('  R = R + v')
    p.emit('  return a[0] - b[0]')
    p.nodes[name]['last'] = p.emit('end')
    p.emit("local callback = ffi.cast('int (*)(const int *, const int *)', F.%s)" % name)
    p.nodes[call]['first'] = p.emit('F.%s = function(x)' % call)
    p.emit('  R = 0')
    p.up(name, call, p.emit('  ffi.C.qsort(sort_array, 3, 4, callback)'), ['ffi'])
    p.emit('  return R')
    p.nodes[call]['last'] = p.emit('end')
    p.emit('jit.off(F.%s)' % call)


def write_chunk(p, name, how):
    p.emit('F.%s = loadstring([[' % name)
    for text in ['local F = ...', 'local v = F.%s(1)' % how['chunk'], 'v = v % 100', 'return v']:
        p.emit(text)
    p.emit("]], '=%s')" % name)
    # (the long bracket's first newline is skipped: the chunk's first line is "local F")


def write_function(p, name, how):
    p.emit('do')
    if 'recurses' in how:
        write_recursion(p, name, how)
    elif 'qsort' in how:
        write_qsort(p, name, how)
    elif 'chunk' in how:
        write_chunk(p, name, how)
    else:
        write_ordinary(p, name, how)
    p.emit('end')


def write_ordinary(p, name, how):
    node = p.nodes[name]
    parameters = '...' if how.get('vararg') else 'a, b' if how.get('iterates') else 'a'
    node['first'] = p.emit('F.%s = function(%s)' % (name, parameters))
    if how.get('iterates'):
        p.emit('  if b then return nil end')
    p.emit('  local x = 0')
    if how.get('vararg'):
        p.emit("  x = x + select('#', ...)")
    inner = p.left > 0
    write_work(p, name, *((10, 60) if inner else (100, 900)))
    if how.get('yields'):
        p.emit('  coroutine.yield(x)')
    if p.may_yield and p.random.random() < 0.2:
        p.emit('  if host_yields then coroutine.yield(0) end')
    if inner:
        write_branches(p, name, p.random.randint(2, 4), not how.get('yields'))
        write_work(p, name, 10, 60)
    if how.get('throws'):
        line = p.emit('  error(x, 0)')
        if how.get('handled'):
            p.up('handler', name, line, ['error'])
    elif how.get('yields'):
        p.emit('  coroutine.yield(x)')
        p.emit('  return nil')
    else:
        p.emit('  return x')
    node['last'] = p.emit('end')


def write_helpers(p):
    for i in range(3):
        name = 'h%d' % i
        p.helpers.append(name)
        node = p.node(name, first=p.emit('F.%s = function(y)' % name))
        p.emit('  return (y * %d + 1) %% %d' % (i + 3, i + 11))
        node['last'] = p.emit('end')
    node = p.node('handler', first=p.emit('F.handler = function(e)'))
    p.emit("  local x = type(e) == 'number' and e or error(e)")
    p.emit('  for i = 1, 30 do x = x + i % 5 end')
    p.emit('  return x')
    node['last'] = p.emit('end')


def write_finalizer(p):
    node = p.node('fin', first=p.emit('F.fin = function(u)'), wild=True)
    p.emit('  local x = u[0]')
    p.emit('  for i = 1, 20 do x = x + i % 5 end')
    p.emit('  R = R + x')
    node['last'] = p.emit('end')


def write_top(p):
    """What a host calls: may yield to it in between, when it says so."""
    node = p.node('top', first=p.emit('F.top = function(yields)'))
    p.emit('  local x = 0')
    p.emit('  for i = 1, 20 do')
    p.emit('    host_yields = yields')
    p.up('root', 'top', p.emit('    x = x + F.root(1)'))
    p.emit('    if yields then coroutine.yield(0) end')
    p.emit('  end')
    p.emit('  return x')
    node['last'] = p.emit('end')


def write_main(p):
    for text in EPILOGUE_FACTS.strip('\n').split('\n'):
        number = p.emit(text)
        for name in ('where', 'on_record', 'on_trace', 'tell_proto', 'say', 'address'):
            if text.startswith('local function %s(' % name):
                p.node(name, first=number, last=number + 99, wild=True)
    p.emit('tell_proto(debug.getinfo(1, "f").func)')
    p.emit("for name, f in pairs(F) do if name:match('^chunk') then tell_proto(f) end end")
    p.emit("if jit.status() then jit.attach(on_trace, 'trace') jit.attach(on_record, 'record') end")
    p.node('now', wild=True, first=next(i + 1 for i, t in enumerate(p.lines) if t.startswith('local function now')))
    p.nodes['now']['last'] = p.nodes['now']['first'] + 3
    if p.host:
        p.emit("return F.top, function() return table.concat(facts, '\\n') end")
        return
    p.emit('local seconds = tonumber(arg[1])')
    p.emit('local began = now(1)')
    p.emit('while now(2) < seconds * 1e9 do')
    p.emit('  for i = 1, 20 do')
    p.up('root', 'main', p.emit('    R = R + F.root(1)'))
    p.emit('  end')
    p.emit('end')
    p.emit("say('loop %.0f %.0f', began, now(1))")
    p.emit("for map in io.lines('/proc/self/maps') do say('map %s', map) end")
    p.emit("local file = io.open(arg[2], 'w')")
    p.emit("file:write(table.concat(facts, '\\n'), '\\n')")
    p.emit('file:close()')


def resolve_tails(nodes):
    """A tail-called function stands where its caller would have."""
    def ups(name, seen):
        found = []
        for up in nodes[name]['ups']:
            if up['line'] is not None:
                found.append(up)
            elif up['parent'] not in seen:
                found += ups(up['parent'], seen | {name})
        return found
    for node in nodes.values():
        node['tail_of'] = [u['parent'] for u in node['ups'] if u['line'] is None]
    resolved = {name: ups(name, set()) for name in nodes}
    for name, found in resolved.items():
        nodes[name]['ups'] = found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--edges', choices=EDGES, required=True)
    parser.add_argument('--nodes', type=int, default=60)
    parser.add_argument('--host', action='store_true')
    parser.add_argument('program')
    parser.add_argument('truth')
    options = parser.parse_args()
    p = Program(options)
    p.node('main', first=0)
    if options.edges == 'mixed':
        write_finalizer(p)
    write_helpers(p)
    p.node('root')
    p.queue.append(('root', {}))
    while p.queue:
        name, how = p.queue.pop(-1 if p.random.random() < 0.6 else 0)
        write_function(p, name, how)
    if p.host:
        write_top(p)
    write_main(p)
    resolve_tails(p.nodes)
    for node in p.nodes.values():
        if node.get('rec') and any(u['parent'] == 'main' for u in node['ups']):
            raise SystemExit('the root must not recurse')
    with open(options.program, 'w') as f:
        f.write('\n'.join(p.lines) + '\n')
    with open(options.truth, 'w') as f:
        json.dump({'file': p.file, 'nodes': p.nodes, 'lines': p.lines}, f)


if __name__ == '__main__':
    main()
