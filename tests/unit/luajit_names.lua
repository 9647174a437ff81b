-- SPDX-License-Identifier: GPL-2.0-only
-- Calls in every form, and chunks of every name. At the bottom of each stands probe(), which prints
-- what debug.getinfo says of the stack, then waits: the test reads the same stack from outside.
-- "--@ NAME" at the end of a line: the display name that the function defined there must have
-- ("-": none, so that what callers call it is shown).
local io, debug, string, table = io, debug, string, table
local getinfo, format, stdin, stdout = debug.getinfo, string.format, io.stdin, io.stdout

local function escape(s) --@ escape
  return (string.gsub(s, "[%c|%%]", function(c) return format("%%%02X", string.byte(c)) end))
end

-- Library functions by what they are, not by what they are called.
local library = {}
for name, t in pairs(package.loaded) do
  for key, f in pairs(type(t) == "table" and t or {}) do
    if type(f) == "function" and (name ~= "_G" or not library[f]) then
      library[f] = (name == "_G" and "" or name .. ".") .. key
    end
  end
end
for key, f in pairs(getmetatable(stdin)) do
  if type(f) == "function" then library[f] = "file:" .. key end
end

-- All of them with their numbers.
local funcinfo = require("jit.util").funcinfo
for _, name in ipairs({ "ffi", "jit.profile", "string.buffer", "table.new", "table.clear",
                        "table.nkeys", "table.isarray", "table.isempty", "table.clone", "thread.exdata" }) do
  local ok, t = pcall(require, name)
  if ok and type(t) == "function" then library[t] = name end
  for key, f in pairs(ok and type(t) == "table" and t or {}) do
    if type(f) == "function" then library[f] = name .. "." .. key end
  end
end
for f, name in pairs(library) do
  local number = funcinfo(f).ffid
  if number and number > 1 then stdout:write(format("builtin|%d|%s\n", number, name)) end
end

local function stack(case) --@ stack
  local level = 2
  while true do
    local i = getinfo(level, "nSlf")
    if not i then break end
    stdout:write(format("frame|%s|%s|%s|%s|%d|%d|%s\n", i.what, i.namewhat or "", i.name or "",
                        escape(i.short_src), i.currentline, i.linedefined, library[i.func] or ""))
    level = level + 1
  end
  stdout:write("case|", case, "\n")
  stdout:flush()
end

local function probe(case) stack(case); stdin:read("*l") end --@ probe
_G.probe = probe

-- forms of calls -------------------------------------------------------------------------------
function globalfunction() probe("global function"); return 1 end --@ globalfunction
local function localfunction() probe("local function"); return 1 end --@ localfunction
local M = {}
function M.field() probe("field"); return 1 end --@ M.field
function M:method() probe("method"); return 1 end --@ M:method
M.assigned = function() probe("assigned field"); return 1 end --@ M.assigned
M.inner = { deep = { deepest = 1 } }
function M.inner.deep.func() probe("nested field"); return 1 end --@ M.inner.deep.func
local constructed = {
  one = function() probe("constructor one"); return 1 end, --@ constructed.one
  two = function() probe("constructor two"); return 1 end, --@ constructed.two
  nested = { three = function() probe("nested constructor"); return 1 end }, --@ constructed.nested.three
}
G = { stored = function() probe("global's constructor"); return 1 end } --@ G.stored
local a1, a2 = function() probe("first of two"); return 1 end, --@ a1
  function() probe("second of two"); return 1 end --@ a2
local late
late = function() probe("late local"); return 1 end --@ late
local array = { function() probe("array element"); return 1 end } --@ -
local function callslocal() local x = localfunction; x(); return 1 end --@ callslocal
local function upvalues() localfunction(); late(); return M.field() end --@ upvalues
local function vararg(...) probe("vararg"); return ... end --@ vararg
local function varargcalls(...) local n = vararg(...); return n end --@ varargcalls
local function tailcallee() probe("tail call"); return 1 end --@ tailcallee
local function tailcaller() return tailcallee() end --@ tailcaller
local function recursive(n) if n == 0 then probe("recursion") else recursive(n - 1) end return n end --@ recursive
local function takes(f) f(); return 1 end --@ takes
local function multiline(a, b) probe("call over lines"); return a, b end --@ multiline

local function forms() --@ forms
  globalfunction()
  localfunction()
  M.field()
  M:method()
  M.assigned()
  M.inner.deep.func()
  constructed.one()
  constructed.two()
  constructed.nested.three()
  G.stored()
  a1() a2()
  late()
  array[1]()
  local key = "field"
  M[key]()
  callslocal()
  upvalues()
  varargcalls(1, 2, 3)
  local t = tailcaller()
  recursive(5);
  (function() probe("called where defined"); return t end)() --@ -
  takes(function() probe("argument"); return 1 end) --@ -
  multiline(
    1,
    2)
  local either = t and M.field or M.assigned
  either();
  (t and a1 or a2)()
end

-- through library functions ----------------------------------------------------------------------
local function throws() error("on purpose") end --@ throws
local function handler(e) probe("error handler"); return e end --@ handler
local function compare(a, b) if a == 3 or b == 3 then probe("sort") end return a < b end --@ compare
local function replace(s) probe("gsub"); return s end --@ replace
local function each(k, v) probe("foreach") end --@ each
local function iterator(s, i) if i < 1 then probe("iterator"); return i + 1 end end --@ iterator

local function libraries() --@ libraries
  pcall(localfunction)
  pcall(M.method, M)
  xpcall(localfunction, handler)
  xpcall(throws, handler)
  table.sort({ 1, 3, 2 }, compare)
  string.gsub("x", "x", replace)
  table.foreach({ 1 }, each)
  for i in iterator, nil, 0 do localfunction() end
  local ok = pcall(pcall, localfunction)
end

-- metamethods ------------------------------------------------------------------------------------
local meta = {
  __index = function(t, k) probe("__index"); return k end, --@ meta.__index
  __newindex = function(t, k, v) probe("__newindex") end, --@ meta.__newindex
  __call = function(self, x) probe("__call"); return x end, --@ meta:__call
  __add = function(a, b) probe("__add"); return 1 end, --@ meta.__add
  __unm = function(a) probe("__unm"); return 1 end, --@ meta.__unm
  __concat = function(a, b) probe("__concat"); return "x" end, --@ meta.__concat
  __eq = function(a, b) probe("__eq"); return true end, --@ meta.__eq
  __lt = function(a, b) probe("__lt"); return true end, --@ meta.__lt
  __le = function(a, b) probe("__le"); return true end, --@ meta.__le
  __tostring = function(a) probe("__tostring"); return "object" end, --@ meta.__tostring
}

local function metamethods() --@ metamethods
  local o, p = setmetatable({}, meta), setmetatable({}, meta)
  local x = o.anything
  o.anything = 1
  x = o(1)
  x = o + p
  x = -o
  x = o .. "x"
  x = o == p
  x = o < p
  x = o <= p
  x = tostring(o)
  return x
end

-- chunks -----------------------------------------------------------------------------------------
local function chunk(source, name, ...) --@ chunk
  local f = assert(loadstring(source, name))
  f(...)
end

local function chunks() --@ chunks
  local body = "local probe = ...; local function inside() probe('chunk'); return 1 end inside() return 1"
  chunk(body, "@a/file.lua", probe)
  chunk(body, "=a name", probe)
  chunk(body, "=content_by_lua(nginx.conf:64)", probe)
  chunk(body, "source text", probe)
  chunk(body, nil, probe)
  chunk("\n\n" .. body, nil, probe)
  chunk(body, "first line\nsecond line", probe)
  chunk(body, string.rep("x", 48), probe)
  chunk(body, string.rep("x", 49), probe)
  chunk(body, "@" .. string.rep("long/", 30) .. "end.lua", probe)
  chunk(body, "=" .. string.rep("long ", 30), probe)
  chunk(body, "", probe)
  local dumped = string.dump(assert(loadstring(body, "@dumped.lua")), true)
  chunk(dumped, "=stripped", probe)
  chunk(dumped, "@stripped.lua", probe)
  chunk(string.dump(assert(loadstring(body, "@kept.lua"))), "=other", probe)
  local lines = {}
  for i = 1, 300 do lines[i] = "local x" .. i % 100 .. " = " .. i .. (i % 100 == 0 and " do" or "") end
  chunk("local probe = ...; do " .. string.rep("\n", 300) .. "probe('line 301')" .. string.rep("\n", 70000) ..
        "probe('line 70301') end", "@tall.lua", probe)
end

-- coroutines -------------------------------------------------------------------------------------
local function body(x) probe("coroutine"); coroutine.yield(x); localfunction(); return 1 end --@ body
local function outer(x) --@ outer
  local co = coroutine.create(body)
  coroutine.resume(co, x)
  coroutine.resume(co, x)
  return 1
end

local function coroutines() --@ coroutines
  coroutine.wrap(body)(1)
  local co = coroutine.wrap(outer)
  co(2)
end

forms()
libraries()
metamethods()
chunks()
stdout:write("coroutines\n")
coroutines()
stdout:write("end\n")
