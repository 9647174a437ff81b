-- SPDX-License-Identifier: GPL-2.0-only
-- Loops and functions that LuaJIT cannot compile, each for a reason of its own, beside some that it can. The program logs what the
-- compiler tells it (jit.attach), and at the end what became of it (jit.util): that is the truth for test_traces.
local log_path, seconds = arg[1], tonumber(arg[2])
local util = require "jit.util"
local planted = {}

function planted.closure(n)                  -- makes closures in the loop
  local s = 0
  for i = 1, n do
    local x = i
    local f = function() x = x + 1 return x end
    s = s + f()
  end
  return s
end
function planted.leaving(n)                  -- an inner loop that ends at once
  local s = 0
  for i = 1, n do
    for j = 1, 3 do s = s + j end
  end
  return s
end
function planted.unstable(n)                 -- a variable that changes its type
  local x, s = 1, 0
  for i = 1, n do
    if type(x) == "number" then x = "a" else x = 1 end
    s = s + 1
  end
  return s
end
local function refused(i) return i % 3 end
jit.off(refused)
function planted.calls_off(n)                -- calls a function with jit.off()
  local s = 0
  for i = 1, n do s = s + refused(i) end
  return s
end
function planted.off(n)
  local s = 0
  for i = 1, n do s = s + i % 5 end
  return s
end
jit.off(planted.off)
function planted.errors(n)                   -- throws while it is recorded
  local s = 0
  for i = 1, n do
    if not pcall(error, i) then s = s + 1 end
  end
  return s
end
function planted.builtin(n)                  -- a builtin without a compiled form: 2.0 gives up, 2.1 stitches
  local s = 0
  for i = 1, n do s = s + #string.dump(refused) end
  return s
end
local function recursive(n, k)
  if n == 0 then return k end
  return recursive(n - 1, k) + recursive(n - 1, k + 1)
end
function planted.recursion(n)
  local s = 0
  for i = 1, n do s = s + recursive(5, i) end
  return s
end
function planted.fine(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end
function planted.branches(n)
  local s = 0
  for i = 1, n do
    if i % 3 == 0 then s = s + 1 elseif i % 5 == 0 then s = s - 1 else s = s * 2 % 1000 end
  end
  return s
end

local events, started = {}, {}
local function line_of(func, pc)
  local info = util.funcinfo(func, pc)
  return info.currentline or -1, info.linedefined or -1
end
local function note(what, tr, func, pc, otr, oex)
  if what == "start" then
    local line, defined = line_of(func, pc)
    started[tr] = {line = line, defined = defined, root = not otr, func = func, pc = pc}
  elseif what == "abort" then
    local s, line, defined = started[tr], line_of(func, pc)
    local detail = type(oex) == "function" and (util.funcinfo(oex).ffid or "C") or oex or ""
    local key = ("abort %d %d %s %d %d %s %s"):format(s.defined, s.line, s.root and "root" or "side", defined, line, otr, detail)
    events[key] = (events[key] or 0) + 1
  elseif what == "flush" then
    events.flush = (events.flush or 0) + 1
  end
end
jit.off(note, true)
jit.attach(note, "trace")

local functions = {}
local function mark(f)                       -- its instructions: which are blocked
  local info = util.funcinfo(f)
  for pc = 0, info.bytecodes - 1 do
    local op = util.funcbc(f, pc) % 256
    functions[#functions + 1] = ("op %d %d %d %d"):format(info.linedefined, pc, util.funcinfo(f, pc).currentline or -1, op)
  end
end
jit.off(mark)
local function finish()
  jit.attach(note)
  local out = io.open(log_path, "w")
  for key, count in pairs(events) do out:write(key, " x ", count, "\n") end
  for _, f in pairs(planted) do mark(f) end
  mark(recursive)
  for _, line in ipairs(functions) do out:write(line, "\n") end
  for tr = 1, 65535 do
    local info = util.traceinfo(tr)
    local s = started[tr]
    if info and s then
      out:write(("trace %d %s %d %d %d\n"):format(tr, info.linktype or "?", info.link or 0, s.defined, s.line))
    elseif not info and tr > 20000 then
      break
    end
  end
  out:close()
end
jit.off(finish, true)
local function rest(until_)                  -- the last look at the compiler comes while this runs
  local n = 0
  while os.clock() < until_ do n = n + 1 end
  return n
end
jit.off(rest)
local function many(n)                       -- more traces than are allowed
  for i = 1, n do
    local f = loadstring("local s = 0 for i = 1, 200 do s = s + i % " .. i .. " end return s", "=many")
    for k = 1, 3 do f() end
  end
end

local began = os.clock()
local result = 0
while os.clock() - began < seconds do
  for name, f in pairs(planted) do result = result + f(name == "fine" and 200000 or name == "builtin" and 300 or 5000) end
  if arg[3] then many(20) end
end
finish()
rest(os.clock() + 1.7)
io.stderr:write(result, "\n")
