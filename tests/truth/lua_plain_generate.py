# SPDX-License-Identifier: GPL-2.0-only
"""Writes a program for plain Lua 5.1 to 5.5 with a known call tree, and what is true of it.

As in lua_live_generate.py, every function is called from one known place, so that the innermost
function of a stack tells all callers, with the line of each call. Here the program tells, too, where it
is: at each of its places it calls mark(K), which is math.sin, which lua_mark.c replaces. So the leaf's
truth is in each sample's own copy of the native stack: K tells functions and lines that may be
the innermost ones until the next mark.

usage: lua_plain_generate.py --version 51..55 --seed N --kind KIND [--nodes N] PROGRAM TRUTH
       KIND  script  runs by itself:      lua PROGRAM SECONDS
             oracle  the same, but mark() writes the stack as debug.getinfo has it, in the form of `ljperf
                     script`, and the marks:    lua PROGRAM SECONDS STACKS MARKS
             host    defines the global function top(yields), for lua_plain_host.cc
             redis   a script for EVAL
             haproxy registers the action "tree"
TRUTH is JSON: {"file", "nodes": {name: {file, first, last, ups, wild, marked, rec, defs}}, "lines", "marks"}
  ups    how the function may have been called: [{parent, line, via: [C functions, innermost first]}]
  wild   called from anywhere (finalizers, hooks)
  defs   names that its definition gives it; none: it has no name there
  called  names that its caller gives it, but for the definition's last word
  marks  {K: [[function, first line, last line]]}
"""
import argparse
import json
import random
import re

import lua_live_generate as live

PROLOGUE = r"""
local F = {}
local O = setmetatable({}, {__index = F})
local S, R, depth = SEED, 0, 0
local load = loadstring or load
local collecting, collections = false, 0
"""

ORACLE = r"""
local stacks, marks = io.open(arg[2], 'w'), io.open(arg[3], 'w')
local now, before, count = 0, 0, 0
local base, own = {}, {} -- of a coroutine: what stands below it; functions that only watch
local function stack(level)
  local out = {}
  while true do
    local i = debug.getinfo(level, 'Slnf')
    if not i then break end
    local text = '\t0 %s:%d (x) [lua line=%d]\n'
    if i.what == 'C' then text = '\t0 %s ([C]) [lua C]\n'
    elseif i.what == 'tail' then text = '\t0 (tail call) ([C]) [lua]\n'
    end
    if i.what == 'C' then text = text:format(i.name or '?')
    elseif i.what == 'main' then text = '\t0 main chunk ' .. i.short_src .. ' (x) [lua line=' .. i.currentline .. ']\n'
    elseif i.what ~= 'tail' then text = text:format(i.short_src, i.linedefined, i.currentline) end
    if not own[i.func or 0] then out[#out + 1] = text end
    level = level + 1
  end
  local co, main = coroutine.running()
  if co and not main then out[#out + 1] = base[co] end
  return table.concat(out)
end
local function mark(k)
  local old = now
  before, now, count = now, k, count + 1
  if k == 0 or (count > 3000 and count % 37 ~= 0) then return old end
  local number, last = count, before
  local text = stack(3)
  stacks:write(('prog 1 1.%09d: 1 x:\n# stack: complete\n%s\t0 main (x)\n\n'):format(number, text))
  marks:write(('1 %d %d %d\n'):format(1e9 + number, last, k))
  return old
end
local create, resume = coroutine.create, coroutine.resume
coroutine.resume = function(co, ...)
  base[co] = '\t0 coroutine.resume ([C]) [lua C]\n' .. stack(3)
  return resume(co, ...)
end
coroutine.wrap = function(f)
  local co = create(f)
  local function pass(ok, ...)
    if not ok then error((...), 0) end
    return ...
  end
  local function run(...)
    base[co] = '\t0 coroutine.wrap ([C]) [lua C]\n' .. stack(3)
    return pass(resume(co, ...))
  end
  own[run], own[pass] = true, true
  return run
end
own[mark], own[stack], own[coroutine.resume], own[coroutine.wrap] = true, true, true, true
"""

# (the oracle's mark() is a function of Lua, in the middle of which a hook would run)
TICKING = {'script': "debug.sethook(F.tick, '', 997)", 'oracle': 'debug.sethook()'}
ROOM = 34000 # bytes of native stack, of the 64 KiB that a sample copies


class Program(live.Program):
    def __init__(self, options):
        self.random = random.Random(options.seed)
        self.version, self.kind = options.version, options.kind
        self.edges = [e for e, since, kinds in EDGES if self.version >= since and (not kinds or self.kind in kinds)]
        self.file = 'user_script' if self.kind == 'redis' else options.program.rsplit('/', 1)[-1]
        self.lines, self.nodes, self.queue, self.helpers = [], {}, [], []
        self.left, self.chunks = options.nodes, 0
        self.marks, self.open, self.calls, self.exits, self.entries = [[]], {}, [], {}, {}
        self.room = ROOM
        self.plain = self.passes_on = True # nothing but Lua calls on the way here, to the next child
        for text in PROLOGUE.replace('SEED', str(options.seed * 7919 % 2147483629 + 1)).strip('\n').split('\n'):
            self.emit(text)
        for text in ORACLE.strip('\n').split('\n') if self.kind == 'oracle' else ['local mark = math.sin']:
            self.emit(text)

    def new_child(self, cost=800, **how):
        """A function that is still to be written; `cost`: of its call, in native stack."""
        return super().new_child(room=self.room - cost, plain=self.passes_on, **how)

    # Marks. `open`: those of a function that may be the current one at this point of its text, each
    # with the line from which on.

    def mark(self, who, result=''):
        k = len(self.marks)
        line = self.emit('  %smark(%d)' % (result, k))
        self.marks.append([])
        self.close(who, line)
        self.open[who] = [(k, line)]
        return k, line

    def close(self, who, line):
        for k, since in self.open.get(who, []):
            self.marks[k].append((who, since, line))

    def enter(self, who):
        """The mark at a function's beginning."""
        self.open[who] = []
        k, line = self.mark(who)
        self.nodes[who]['marked'] = True
        self.entries.setdefault(who, []).append((who, self.nodes[who]['first'], line))
        return k

    def leave(self, who):
        """The mark before a function returns, throws or yields."""
        k, _ = self.mark(who)
        self.exits.setdefault(who, []).append(k)

    def before(self, who):
        return self.mark(who)[0]

    def after(self, who, child, befores, first, tail=False):
        """Behind a call of `child`, which began at line `first` behind the marks `befores`."""
        last = first if tail else self.mark(who)[1]
        self.calls.append((who, befores, first, last, child, tail))


# ---- edges: how a function reaches another. Each leaves x a number. -------------------------------


def call_with(p, who, child, text, via=(), result='    x = x + '):
    k = p.before(who)
    line = p.emit(result + text)
    p.up(child, who, line, via)
    p.after(who, child, [k], line)


def protected_with(p, who, child, text, via):
    k = p.before(who)
    line = p.emit('    local _, v = ' + text)
    p.up(child, who, line, via)
    p.after(who, child, [k], line)
    p.emit("    x = x + (type(v) == 'number' and v or 1)")


def closure(p, who, head, tail, result, defs=()):
    """A function within `who`, which calls a child; returns its name. It has no marks."""
    name = who + 'c%d' % len(p.nodes)
    p.node(name, first=p.emit('    ' + head), defs=list(defs))
    child = p.new_child(1600)
    p.up(child, name, p.emit('      local v = F.%s(1)' % child))
    p.nodes[name]['only'] = child
    p.emit('      x = x + v % 3')
    p.emit('      return ' + result)
    p.nodes[name]['last'] = p.emit('    ' + tail)
    return name


def edge_direct(p, who):
    child = p.new_child()
    call_with(p, who, child, 'F.%s(1)' % child)


def edge_method(p, who):
    child = p.new_child()
    call_with(p, who, child, 'O:%s(1)' % child)


def edge_vararg(p, who):
    child = p.new_child(vararg=True)
    call_with(p, who, child, 'F.%s(1, 2, x)' % child)


def edge_pcall(p, who):
    child = p.new_child(1600)
    protected_with(p, who, child, 'pcall(F.%s, 1)' % child, ['pcall'])


def edge_error(p, who):
    child = p.new_child(1600, throws=True)
    protected_with(p, who, child, 'pcall(F.%s, 1)' % child, ['pcall'])


def edge_xpcall(p, who):
    name = closure(p, who, 'local try = function()', 'end', 'v', ['try'])
    protected_with(p, who, name, 'xpcall(try, debug.traceback)' if p.kind != 'redis' else 'xpcall(try, tostring)',
                   ['xpcall'])


def edge_handler(p, who):
    """A function that throws, and what handles that in place."""
    handler = who + 'h%d' % len(p.nodes)
    node = p.node(handler, first=p.emit('    local handler = function(e)'), defs=['handler'])
    p.enter(handler)
    p.emit("      local y = type(e) == 'number' and e or 1")
    p.emit('      for i = 1, 60 do y = y + i % 5 end')
    p.leave(handler)
    p.emit('      return y')
    node['last'] = p.emit('    end')
    p.close(handler, node['last'])
    name = who + 'c%d' % len(p.nodes)
    p.node(name, first=p.emit('    local try = function()'), defs=['try'])
    child = p.new_child(1600, throws=True, handler=handler)
    p.up(child, name, p.emit('      local v = F.%s(1)' % child))
    p.nodes[name]['only'] = child
    p.emit('      return v')
    p.nodes[name]['last'] = p.emit('    end')
    protected_with(p, who, name, 'xpcall(try, handler)', ['xpcall'])


def edge_wrap(p, who):
    child = p.new_child(1600)
    p.emit('    local co = coroutine.wrap(F.%s)' % child)
    call_with(p, who, child, 'co(1)', ['coroutine.wrap'])


def edge_resume(p, who):
    child = p.new_child(1600)
    p.emit('    local co = coroutine.create(F.%s)' % child)
    protected_with(p, who, child, 'coroutine.resume(co, 1)', ['coroutine.resume'])


def edge_generator(p, who):
    child = p.new_child(1600, yields=True)
    first = p.before(who)
    line = p.emit('    for v in coroutine.wrap(F.%s) do' % child)
    p.up(child, who, line, ['coroutine.wrap'])
    p.mark(who)
    p.emit('      x = x + v')
    again = p.before(who)
    p.marks[again].append((who, line, line))
    p.emit('    end')
    p.after(who, child, [first, again], line)


def edge_nested_coroutine(p, who):
    name = who + 'c%d' % len(p.nodes)
    p.node(name, first=p.emit('    local outer = coroutine.wrap(function(a)'))
    child = p.new_child(2400, yields=True)
    p.emit('      local inner = coroutine.wrap(F.%s)' % child)
    p.up(child, name, p.emit('      local v = inner(a)'), ['coroutine.wrap'])
    p.nodes[name]['only'] = child
    p.emit('      return v')
    p.nodes[name]['last'] = p.emit('    end)')
    call_with(p, who, name, 'outer(1)', ['coroutine.wrap'])


def resumed_edge(p, who, inner, child, via, setup=(), more=''):
    """A coroutine whose `inner` expression calls `child`, which yields; it is resumed later."""
    name = who + 'c%d' % len(p.nodes)
    p.node(name, first=p.emit('    local outer = coroutine.wrap(function(o)'))
    for text in setup:
        p.emit('      ' + text)
    p.up(child, name, p.emit('      ' + inner), via)
    p.nodes[name]['only'] = child
    p.emit('      return v')
    p.nodes[name]['last'] = p.emit('    end)')
    k = p.before(who)
    line = p.emit('    outer(%s)' % (more or '1'))
    p.up(name, who, line, ['coroutine.wrap'])
    p.after(who, name, [k], line)
    k = p.before(who)
    line = p.emit('    local v = outer()')
    p.up(name, who, line, ['coroutine.wrap'])
    p.after(who, name, [k], line)
    p.emit("    x = x + (type(v) == 'number' and v or 1)")


def edge_yield_direct(p, who):
    child = p.new_child(1600, yields=True)
    resumed_edge(p, who, 'local v = F.%s(1)' % child, child, [])


def edge_yield_pcall(p, who):
    child = p.new_child(2400, yields=True)
    resumed_edge(p, who, 'local _, v = pcall(F.%s, 1)' % child, child, ['pcall'])


def edge_yield_metamethod(p, who):
    child = p.new_child(2400, yields=True)
    event, use = p.random.choice([('add', 'o + 1'), ('index', 'o.q'), ('concat', "o .. 'a'"), ('unm', '-o')])
    p.nodes[child]['called'] = [event, '__' + event]
    resumed_edge(p, who, 'local v = ' + use, child, [],
                 more='setmetatable({}, {__%s = F.%s})' % (event, child))


def edge_yield_iterator(p, who):
    child = p.new_child(2400, yields=True, iterates=True)
    name = who + 'c%d' % len(p.nodes)
    resumed_edge(p, who, 'local v = 0 for w in F.%s do v = v + w end' % child, child, [])


METAMETHODS = [('index', 't, k', 'v', 'x = x + o.q', 51), ('add', 'a, b', 'v', 'x = x + (o + 1)', 51),
               ('call', 'self, a', 'v', 'x = x + o(1)', 51), ('concat', 'a, b', 'v', "x = x + (o .. 'a')", 51),
               ('lt', 'a, b', 'v > 1', 'x = o < o and x or x + 1', 51),
               ('le', 'a, b', 'v > 1', 'x = o <= o and x or x + 1', 51),
               ('eq', 'a, b', 'v > 1', 'x = o == setmetatable({}, getmetatable(o)) and x or x + 1', 51),
               ('newindex', 't, k, y', 'v', 'o.q = 1', 51), ('unm', 'a', 'v', 'x = x + -o', 51),
               ('mod', 'a, b', 'v', 'x = x + o % 3', 51), ('pow', 'a, b', 'v', 'x = x + o ^ 2', 51),
               ('len', 'a', 'v', 'x = x + #o', 52), ('idiv', 'a, b', 'v', 'x = x + o // 3', 53),
               ('band', 'a, b', 'v', 'x = x + (o & 3)', 53), ('shl', 'a, b', 'v', 'x = x + (1 << o)', 53),
               ('bnot', 'a', 'v', 'x = x + ~o', 53)]


def edge_metamethod(p, who):
    what, parameters, result, use, _ = p.random.choice([m for m in METAMETHODS if m[4] <= p.version])
    name = closure(p, who, 'local o = setmetatable({}, {__%s = function(%s)' % (what, parameters), 'end})', result,
                   ['__' + what, 'o.__' + what])
    call_with(p, who, name, use, result='    ')


def edge_sort(p, who):
    name = closure(p, who, 'local less = function(a, b)', 'end', 'a < b', ['less'])
    p.emit('    local t = {3, 1, 2}')
    call_with(p, who, name, 'table.sort(t, less)', ['table.sort'], '    ')


def edge_gsub(p, who):
    room, p.room = p.room, p.room - 9000
    name = closure(p, who, 'local replace = function(s)', 'end', 'nil', ['replace'])
    p.room = room
    call_with(p, who, name, "string.gsub('ab', '.', replace)", ['string.gsub'], '    ')


def edge_iterator(p, who):
    child = p.new_child(iterates=True)
    first = p.before(who)
    line = p.emit('    for v in F.%s do' % child)
    p.up(child, who, line)
    p.mark(who)
    p.emit('      x = x + v')
    again = p.before(who)
    p.marks[again].append((who, line, line))
    p.emit('    end')
    p.after(who, child, [first, again], line)


def edge_recursion(p, who):
    depth = p.random.randint(1, 40)
    child = p.new_child(recurses=depth)
    call_with(p, who, child, 'F.%s(%d)' % (child, depth))


def edge_recursion_pcall(p, who):
    depth = p.random.randint(1, 9)
    child = p.new_child(6000, recurses=depth, protected=True)
    call_with(p, who, child, 'F.%s(%d)' % (child, depth))


def edge_tail(p, who):
    child = p.new_child()
    p.up(child, who, None) # no frame of `who` remains: resolved at the end
    k = p.before(who)
    line = p.emit('    return F.%s(1)' % child)
    p.after(who, child, [k], line, tail=True)


def edge_hook(p, who):
    name = closure(p, who, 'local hooked = function() debug.sethook()', 'end', '0', ['hooked'])
    k = p.before(who)
    line = p.emit("    debug.sethook(hooked, 'l')")
    p.up(name, who, line)
    p.up(name, who, p.emit('    x = x + 1'))
    p.after(who, name, [k], line)
    p.emit(TICKING[p.kind])


def edge_finalizer(p, who):
    name = closure(p, who, 'local fin = function()', 'end', '0', ['fin'])
    p.emit('    collections = collections + 1')
    p.emit('    if not collecting and collections % 8 == 0 then')
    p.emit('      collecting = true')
    k = p.before(who)
    line = p.emit('      do setmetatable({}, {__gc = fin}) end collectgarbage()')
    p.up(name, who, line)
    p.up(name, who, line, ['collectgarbage'])
    p.after(who, name, [k], line)
    p.emit('      collecting = false')
    p.emit('    end')
    p.open[who] += [(k, line) for k, _ in p.marks_before_if]


def edge_close(p, who):
    name = closure(p, who, 'local close = function()', 'end', '0', ['close'])
    call_with(p, who, name, 'do local g <close> = setmetatable({}, {__close = close}) x = x + 1 end', result='    ')


def edge_close_error(p, who):
    name = closure(p, who, 'local close = function()', 'end', '0', ['close'])
    thrower = who + 'c%d' % len(p.nodes)
    p.node(thrower, first=p.emit('    local throw = function()'), defs=['throw'])
    p.emit('      local g <close> = setmetatable({}, {__close = close})')
    p.emit('      error(1, 0)')
    p.nodes[thrower]['last'] = p.emit('    end')
    k = p.before(who)
    line = p.emit('    pcall(throw)')
    p.up(name, who, line, ['pcall'])
    p.up(thrower, who, line, ['pcall'])
    p.after(who, name, [k], line)


def edge_host(p, who):
    """A host's function that runs another state, or does nothing."""
    k = p.before(who)
    line = p.emit('    x = x + host_enter(1)')
    p.marks[k].append((who, line, p.mark(who)[1]))


def edge_chunk(p, who):
    p.chunks += 1
    child, name = p.new_child(1600), 'chunk%d_%s' % (p.chunks, p.file.split('.')[0])
    p.node(name, file=name, last=4, only=child)
    p.queue.append((name, {'chunk': child}))
    p.up(child, name, 2)
    call_with(p, who, name, 'F.%s(F)' % name)


# What a coroutine may be yielded through, to the host that has resumed it.
YIELDABLE = (edge_direct, edge_method, edge_vararg, edge_recursion, edge_tail, edge_chunk)
OWN = ('script', 'oracle', 'host') # kinds whose programs may do everything
# (haproxy's count hook yields out of whatever coroutine is running, even out of one of the program's own)
SWITCHES = (*OWN, 'redis')
EDGES = [(edge_direct, 51, ()), (edge_direct, 51, ()), (edge_method, 51, ()), (edge_vararg, 51, ()), (edge_pcall, 51, ()),
         (edge_error, 51, ()), (edge_xpcall, 51, ()), (edge_handler, 51, ()), (edge_wrap, 51, SWITCHES), (edge_resume, 51, SWITCHES),
         (edge_generator, 51, SWITCHES), (edge_nested_coroutine, 51, SWITCHES), (edge_yield_direct, 51, SWITCHES),
         (edge_yield_pcall, 52, SWITCHES), (edge_yield_metamethod, 52, SWITCHES), (edge_yield_iterator, 52, SWITCHES),
         (edge_metamethod, 51, ()), (edge_metamethod, 51, ()), (edge_metamethod, 51, ()), (edge_sort, 51, ()),
         (edge_gsub, 51, ()), (edge_iterator, 51, ()), (edge_recursion, 51, ()), (edge_recursion_pcall, 51, ()),
         (edge_tail, 51, ()), (edge_hook, 51, ('script', 'oracle')), (edge_chunk, 51, ()),
         (edge_finalizer, 52, ('script', 'oracle')), (edge_close, 54, ()), (edge_close_error, 54, ()),
         (edge_host, 51, ('host',))]

# ---- functions -------------------------------------------------------------------------------------


def work_finalizer(p, who, n):
    p.emit('  for i = 1, 3 do')
    if p.version == 51:
        p.emit('    getmetatable(newproxy(true)).__gc = F.fin')
    else:
        p.emit('    setmetatable({}, {__gc = F.fin})')
    p.emit('    x = x + i')
    p.emit('  end')


WORK = [w for w in live.WORK]


def write_work(p, name, least, most):
    for _ in range(p.random.randint(1, 2)):
        kind = p.random.choice(WORK + ([work_finalizer] if 'fin' in p.nodes else []))
        p.mark(name)
        p.emit('  do')
        kind(p, name, p.random.randint(least, most))
        p.emit('  end')


def choose_edge(p, may_tail):
    poor = p.room < 12000
    edges = [e for e in p.edges if (may_tail or e is not edge_tail) and not (poor and e in (edge_gsub, edge_recursion_pcall))]
    if p.room < 4000:
        edges = [edge_direct, edge_method, edge_vararg]
    return p.random.choice(edges)


def write_branches(p, name, fan, may_tail):
    """Calls one of `fan` children, the one that the generator of numbers says."""
    p.emit('  S = S * 16807 % 2147483647')
    p.emit('  local r = S %% %d' % fan)
    outside, behind = p.open[name], []
    for i in range(fan):
        line = p.emit('  %s r == %d then' % ('elseif' if i else 'if', i))
        if i == 0:
            p.close(name, line)
        p.open[name] = p.marks_before_if = [(k, line) for k, _ in outside]
        edge = choose_edge(p, may_tail)
        p.passes_on = p.plain and edge in YIELDABLE
        edge(p, name)
        p.close(name, len(p.lines) + 1)
        behind += p.open[name]
    line = p.emit('  end')
    p.open[name] = [(k, line) for k, _ in behind]


def write_recursion(p, name, how):
    node = p.nodes[name]
    node['first'] = p.emit('F.%s = function(d)' % name)
    p.emit('  if d == 0 then')
    child = p.new_child()
    bottom = p.emit('    local x = F.%s(1)' % child)
    p.up(child, name, bottom)
    node['only'] = child
    p.emit('    return x')
    p.emit('  end')
    if how.get('protected'):
        line, via = p.emit('  local _, y = pcall(F.%s, d - 1)' % name), ['pcall']
    else:
        line, via = p.emit('  local y = F.%s(d - 1)' % name), []
    node['rec'] = {'depth': how['recurses'], 'line': line, 'bottom': bottom, 'via': via}
    p.emit('  return y + 1')
    node['last'] = p.emit('end')


def write_chunk(p, name, how):
    p.emit('F.%s = load([[' % name)
    for text in ['local F = ...', 'local v = F.%s(1)' % how['chunk'], 'v = v % 100', 'return v']:
        p.emit(text)
    p.emit("]], '=%s')" % name)


def write_yield(p, name):
    p.leave(name)
    line = p.emit('  coroutine.yield(x)')
    p.entries[name].append((name, line, p.mark(name)[1]))


def write_host_yield(p, name):
    """What a host may ask for; it saves the mark itself."""
    p.emit('  if host_yields then coroutine.yield(0) end')


def write_end(p, name, how):
    p.leave(name)
    if how.get('throws'):
        line = p.emit('  error(x, 0)')
        if how.get('handler'):
            p.up(how['handler'], name, line, ['error'])
            p.calls.append((name, p.exits[name][-1:], line, line, how['handler'], False))
            p.nodes[how['handler']]['unwinds'] = name
    elif how.get('yields') and not how.get('iterates'):
        p.emit('  coroutine.yield(x)')
        p.entries[name].append((name, len(p.lines), len(p.lines) + 1))
        p.emit('  return nil')
    else:
        p.emit('  return x')


def write_ordinary(p, name, how):
    node = p.nodes[name]
    parameters = '...' if how.get('vararg') else 'a, b' if how.get('iterates') else 'a'
    node['first'] = p.emit('F.%s = function(%s)' % (name, parameters))
    if how.get('iterates'):
        p.emit('  if b then return nil end')
    p.enter(name)
    p.emit('  local x = 0')
    if how.get('vararg'):
        p.emit("  x = x + select('#', ...)")
    inner = p.left > 0
    write_work(p, name, *((10, 60) if inner else (100, 900)))
    if how.get('yields'):
        write_yield(p, name)
    if p.kind == 'host' and p.plain and p.random.random() < 0.3:
        write_host_yield(p, name)
    if inner:
        write_branches(p, name, p.random.randint(2, 4), not (how.get('yields') or how.get('throws')))
        write_work(p, name, 10, 60)
    write_end(p, name, how)
    node['last'] = p.emit('end')
    p.close(name, node['last'])


def write_function(p, name, how):
    p.room = how.get('room', ROOM)
    p.plain = p.passes_on = how.get('plain', True)
    p.emit('do')
    if 'recurses' in how:
        write_recursion(p, name, how)
    elif 'chunk' in how:
        write_chunk(p, name, how)
    else:
        write_ordinary(p, name, how)
    p.emit('end')


def write_helpers(p):
    for i in range(3):
        name = 'h%d' % i
        p.helpers.append(name)
        node = p.node(name, first=p.emit('F.%s = function(y)' % name))
        p.emit('  return (y * %d + 1) %% %d' % (i + 3, i + 11))
        node['last'] = p.emit('end')


def write_wild(p, name, parameters):
    node = p.node(name, first=p.emit('F.%s = function(%s)' % (name, parameters)), wild=True, marked=True)
    k, line = p.mark(name, 'local old = ')
    p.emit('  local x = 1')
    p.emit('  for i = 1, 20 do x = x + i % 5 end')
    p.emit('  R = (R + x) % 1000003')
    p.emit('  mark(old)')
    node['last'] = p.emit('end')
    p.close(name, node['last'])


def write_top(p):
    """What a host calls: may yield to it in between, when it says so."""
    node = p.node('top', first=p.emit('F.top = function(yields)'), marked=True)
    p.open['top'] = []
    p.emit('  local x = 0')
    p.emit('  for i = 1, %d do' % (3 if p.kind in ('redis', 'haproxy') else 20))
    if p.kind == 'host':
        p.emit('    host_yields = yields')
    call_with(p, 'top', 'root', 'F.root(1)')
    p.emit('    mark(0)')
    if p.kind == 'host':
        p.emit('    if yields then coroutine.yield(0) end')
    p.emit('  end')
    p.emit('  return x')
    node['last'] = p.emit('end')
    p.close('top', node['last'])
    p.emit({'host': 'top = F.top', 'redis': 'local x = F.top()',
            'haproxy': "core.register_action('tree', {'http-req'}, function(txn) local x = F.top() return x end)"}[p.kind])
    if p.kind == 'redis':
        p.up('top', 'main', len(p.lines))
        p.emit('return math.floor(x)')
    elif p.kind == 'haproxy':
        p.node('action', first=len(p.lines), last=len(p.lines))
        p.up('top', 'action', len(p.lines))


def write_main(p):
    if p.kind not in ('script', 'oracle'):
        write_top(p)
        return
    p.open['main'] = []
    p.nodes['main']['marked'] = True
    p.emit('local seconds = tonumber(arg[1])')
    p.emit(TICKING[p.kind])
    p.emit('while os.clock() < seconds do')
    p.emit('  for i = 1, 20 do')
    call_with(p, 'main', 'root', 'F.root(1)', result='    R = (R * 3) % 1000003 + ')
    p.emit('  end')
    p.close('main', p.emit('end'))
    for k, _ in p.open['main']: # around the loop
        p.marks[k].append(('main', len(p.lines) - 6, len(p.lines)))
    p.emit('mark(0)')
    p.emit('debug.sethook()')
    p.emit("print('done')")


# ---- what is true ---------------------------------------------------------------------------------


def marked_below(p, name):
    while not p.nodes[name].get('marked'):
        name = p.nodes[name]['only']
    return name


def returns_of(p, name, seen=()):
    """Where the control may be once a marked function has left, before the next mark."""
    found = []
    for who, _, first, last, child, tail in p.calls:
        if marked_below(p, child) != name or name in seen:
            continue
        found += p.entries.get(name, []) # called again by what stands between
        found += returns_of(p, who, (*seen, name)) if tail else [(who, first, last)]
    if 'unwinds' in p.nodes[name]: # a handler
        found += returns_of(p, p.nodes[name]['unwinds'], seen)
    return found


def finish(p):
    for who, befores, _, _, child, _ in p.calls:
        for k in befores:
            p.marks[k] += p.entries.get(marked_below(p, child), [])
    for name, exits in p.exits.items():
        found = returns_of(p, name)
        for k in exits:
            p.marks[k] += found
    live.resolve_tails(p.nodes)
    for node in p.nodes.values():
        text = p.lines[node['first'] - 1] if node['first'] and node['file'] == p.file else ''
        found = re.match(r'\s*(?:local )?([\w.]+) = function', text)
        node.setdefault('defs', [found.group(1)] if found else [])
    for k, places in enumerate(p.marks):
        p.marks[k] = sorted(set(places))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--version', type=int, required=True)
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--kind', choices=(*OWN, 'redis', 'haproxy'), default='script')
    parser.add_argument('--nodes', type=int, default=60)
    parser.add_argument('program')
    parser.add_argument('truth')
    options = parser.parse_args()
    p = Program(options)
    p.node('main', first=0)
    write_wild(p, 'fin', 'o')
    if p.kind in ('script', 'oracle'):
        write_wild(p, 'tick', 'event')
    if p.kind in ('redis', 'haproxy'):
        del p.nodes['fin'] # no newproxy, or no finalizers there
    write_helpers(p)
    p.node('root')
    p.queue.append(('root', {}))
    while p.queue:
        name, how = p.queue.pop(-1 if p.random.random() < 0.6 else 0)
        write_function(p, name, how)
    write_main(p)
    finish(p)
    with open(options.program, 'w') as f:
        f.write('\n'.join(p.lines) + '\n')
    with open(options.truth, 'w') as f:
        json.dump({'file': p.file, 'nodes': p.nodes, 'lines': p.lines, 'marks': p.marks}, f)


if __name__ == '__main__':
    main()
