-- SPDX-License-Identifier: GPL-2.0-only
-- Programs of many kinds in one: errors in pipelines of coroutines, metamethods in chains, callbacks of
-- library functions and of C, deep recursion, varargs, loaded chunks. Each ends in a function of its
-- own, lf.KIND, which in the first round notes what LuaJIT itself says of the stack (line by line
-- "KIND FILE:DEFINED:LINE ...", innermost first) for the file arg[2]; then they run for arg[1] seconds.
local ffi = require("ffi")
local noting, truth = true, {}
local function note(kind)
  local t, level = {}, 3
  while true do
    local i = debug.getinfo(level, "Sl")
    if not i then break end
    if i.what ~= "C" then t[#t + 1] = i.short_src:match("[^/]*$") .. ":" .. i.linedefined .. ":" .. i.currentline end
    level = level + 1
  end
  truth[#truth + 1] = kind .. " " .. table.concat(t, " ")
end
-- The loop is on the line of the definition, in a chunk of its own.
local function leaf(kind)
  return assert(loadstring("local note, noting = ...\nlocal x = 0\nreturn function(n) if noting() then note('" .. kind ..
    "') end for i = 1, n or 300 do x = (x * 3 + i) % 100003 end return x end", "=leaf_" .. kind))(
    function(k) note(k) end, function() return noting end)
end
local lf = {}
for kind in ([[
  buf call cb cdata codeep concat concat3 cosort deep eqm errm foreach gsub gsubnest gsubt idx io iter
  len loaded lt mixed nest newi pairs pcerr reader resume2 selfcall setfenv1 sort sortco tailc tailm
  tailpc thr tos un upv va vamid wrap xp]]):gmatch("%S+") do lf[kind] = leaf(kind) end

-- coroutine.wrap pipelines with errors and pcall
local function producer() for i = 1, 5 do lf.wrap(); coroutine.yield(i) end error("end", 0) end
local function filter(src) return coroutine.wrap(function()
  while true do
    local ok, v = pcall(src)
    if not ok then
      lf.pcerr()
      return nil end
    coroutine.yield(v * 2)
  end end) end
local function pipeline() local s = 0
  local f = filter(coroutine.wrap(producer))
  while true do local v = f()
    if not v then break end
    s = s + v end
  return s end
local has_buf, buffer = pcall(require, "string.buffer")
local function bufs() local r = 0
  if has_buf then local b = buffer.new(); for i = 1, 20 do b:put("x", i) end r = #b:tostring() end
  local y = lf.buf(); return r + y end
-- ffi callback inside qsort
ffi.cdef [[ void qsort(void *, size_t, size_t, int (*)(const int *, const int *)); ]]
local cb = ffi.cast("int (*)(const int *, const int *)", function(a, b)
  lf.cb(100)
  return a[0] - b[0] end)
local arr = ffi.new("int[8]", 8, 3, 5, 1, 7, 2, 6, 4)
local function qs() arr[0] = 8; arr[7] = 1
  ffi.C.qsort(arr, 8, 4, cb)
  return arr[0] end
jit.off(qs)
-- metamethod chains
local m3 = { __index = function(t, k) local r = lf.idx(); return r end }
local m2 = { __index = setmetatable({}, m3) }
local m1 = setmetatable({}, { __index = setmetatable({}, m2), __call = function(self, n) local r = lf.call(n); return r end,
  __lt = function(a, b) local r = lf.lt(); return r > 3 end,
  __concat = function(a, b) local r = lf.concat(); return "c" end,
  __eq = function(a, b) local r = lf.eqm(); return false end,
  __newindex = function(t, k, v) local r = lf.newi(); return r end,
  __unm = function(a) local r = lf.un(); return r end })
local m1b = setmetatable({}, getmetatable(m1))
local function metas() local r = 0
  local a = m1.foo
  local b = m1(200)
  local c = m1 < m1b
  local d = m1 .. "x"
  local e = m1 == m1b
  m1.bar = 1
  local g = -m1
  return a end
-- deep non-tail recursion
local function deep(n) if n == 0 then local r = lf.deep(2000); return r end
  local r = deep(n - 1)
  return r + 1 end
local function deeps() local r = deep(240); return r end
-- varargs
local function va(...) local a, b = select("#", ...), lf.va(200)
  if a > 3 then return b end
  local r = va(b, ...)
  return r, ... end
local function vas() local r = va(1); return r end
-- loaded chunks
local chunk = assert(loadstring("local lf = ...\nlocal function inner(a)\n local r = lf(300)\n return r\nend\nlocal z = inner(3)\nreturn z", "=chunked"))
local function chunks() local r = chunk(lf.loaded); return r end
-- sort comparators, gsub, foreach
local words = {}
local function sorts() for i = 1, 8 do words[i] = (i * 7) % 11 end
  table.sort(words, function(a, b)
    lf.sort(100)
    return a < b end)
  local r = string.gsub("abc", ".", function(c)
    lf.gsub(100)
    return c end)
  return r end
local function fe() table.foreach({ 1, 2 }, function(k, v)
    lf.foreach(100)
  end) return 1 end
-- io/os
local devnull = io.open("/dev/null", "w")
local function ios() devnull:write("x", 1, "\n"); local t = os.time()
  local d = os.date("%Y"); local r = lf.io(200)
  return r end
-- iterators (generic for with closures), stateful
local function range(n) local i = 0
  return function() i = i + 1
    if i > n then return nil end
    lf.iter(100)
    return i end end
local function iters() local s = 0
  for v in range(4) do
    s = s + v
  end return s end
-- xpcall with handler and error in nested function
local function thrower(n) if n == 0 then local t = nil; return t.x end
  local r = thrower(n - 1); return r end
local function handler(e) local r = lf.xp(300); return e end
local function xps() local ok, e = xpcall(thrower, handler, 5)
  return e end
-- nested pcall in pcall in coroutine in pcall
local function nest3() local r = lf.nest(300); return r end
local function nest2() local ok, r = pcall(nest3); return r end
local function nests() local ok, r = pcall(nest2)
  return r end
local function co_rec(n) if n == 0 then local r = lf.codeep(500); return r end
  local r = coroutine.wrap(co_rec)(n - 1)
  return r end
local function codeeps() local r = co_rec(6); return r end
-- cdata metatype
local P = ffi.metatype("struct { int x; }", {
  __add = function(a, b) local r = lf.cdata(200); return a end,
  __index = { get = function(self) local r = lf.mixed(200); return r end } })
local function cdatas() local p = P(1)
  local q = p + p
  local r = p:get()
  return r end
local ts = setmetatable({}, { __tostring = function(s) local r = lf.tos(200); return "o" end })
local function tos() local a = tostring(ts) .. "x"
  local r = a .. tostring(ts)
  return r end
local function fmt() local a = string.format("%s", tostring(ts))
  return a end
local function readers() local parts, i = { "return ", "1", nil }, 0
  local f = load(function()
    i = i + 1
    lf.reader(200)
    return parts[i] end)
  local v = f()
  return v end
local function cosort() local t = { 5, 2, 4, 1 }
  local w = coroutine.wrap(function(a, b)
    while true do
      lf.cosort(100)
      a, b = coroutine.yield(a < b)
    end end)
  table.sort(t, function(a, b)
    local r = w(a, b)
    return r end)
  return t[1] end
local rep = setmetatable({}, { __index = function(t, k)
  local r = lf.gsubt(100)
  return "y" end })
local function gsubt() local r = string.gsub("abcd", "%w", rep)
  return r end
local em = setmetatable({}, { __add = function(a, b)
  local r = lf.errm(200)
  error("x", 0) end })
local function adder() local r = em + 1
  return r end
local function errm() local ok, e = pcall(adder)
  return e end
local function gn() local r = string.gsub("ab", ".", function(c)
    local q = string.gsub("xy", ".", function(d)
      lf.gsubnest(80)
      return d end)
    return q end)
  return r end
local lm = setmetatable({}, { __len = function(t) local r = lf.len(100); return 3 end })
local function mklen() local r = getmetatable(lm).__len(lm)
  return r end
local function mkupv() local n = 0
  return function() n = n + 1
    lf.upv(100)
    return n end end
local u1, u2 = mkupv(), mkupv()
local function upv() local a = u1()
  local b = u2()
  return a + b end
local function vm(a, ...) local t = { ... }
  local r = lf.vamid(100) + #t
  return r, ... end
local function vamid() local a, b = vm(1, vm(2, 3, 4))
  return a end
local function tc3(n) local r = lf.tailc(200); return r end
local function tc2(n) return tc3(n) end
local function tc1(n) if n > 3 then return tc2(n) end return tc1(n + 1) end
local function tailc() local r = tc1(1)
  return r end
local obj = { v = 1 }
function obj:m3(...) local r = lf.tailm(150); return r end
function obj:m2(...) return self:m3(self.v, ...) end
function obj:m1(...) return self:m2(...) end
local function tailm() local r = obj:m1(1, 2)
  return r end
local function body() local r = lf.resume2(150)
  local v = coroutine.yield(r)
  local s = lf.resume2(150)
  return s end
local function resume2() local co = coroutine.create(body)
  local ok, v = coroutine.resume(co)
  local ok2, w = coroutine.resume(co, 1)
  return w end
local function tp(n) return pcall(lf.tailpc, n) end
local function tailpc() local ok, r = tp(200)
  return r end
local cc = setmetatable({}, { __call = function(self, n) if n == 0 then local r = lf.selfcall(200); return r end
  local r = self(n - 1)
  return r end })
local function selfcall() local r = cc(5)
  return r end
local cat = setmetatable({}, { __concat = function(a, b) local r = lf.concat3(100); return "z" end })
local function concat3() local r = "a" .. 1 .. cat .. "b"
  return r end
local envf = setfenv(function() local r = g1(150)
  return r end, { g1 = lf.setfenv1 })
local function env() local r = envf()
  return r end
local function thr3() local r = lf.thr(100); error({}) end
local function thr2() local ok, e = xpcall(thr3, function(e)
    lf.thr(100)
    return e end)
  error(e) end
local function thr() local ok, e = pcall(thr2)
  local r = lf.thr(100)
  return r end
local function sortco() local w = coroutine.wrap(function()
    local t = { 3, 1, 2 }
    table.sort(t, function(a, b)
      lf.sortco(100)
      return a < b end)
    coroutine.yield(t[1])
    return 1 end)
  local a = w()
  local b = w()
  return a end
local itm = setmetatable({}, { __call = function(self, s, c)
    lf.pairs(100)
    if c < 3 then return c + 1 end end })
local function pairsy() local n = 0
  for k in itm, nil, 0 do
    n = n + k
  end return n end

local all = {
  pipeline, bufs, qs, metas, deeps, vas, chunks, sorts, fe, ios, iters, xps,
  nests, codeeps, cdatas, tos, fmt, readers, cosort, gsubt, errm, gn, mklen, upv,
  vamid, tailc, tailm, resume2, tailpc, selfcall, concat3, env, thr, sortco, pairsy,
}
local function round() for i = 1, #all do
    local f = all[i]
    local r = f()
  end end
round()
noting = false
local f = assert(io.open(arg[2], "w"))
f:write(table.concat(truth, "\n"), "\n")
f:close()
local stop = os.clock() + tonumber(arg[1])
while os.clock() < stop do
  for i = 1, 20 do round() end
end
