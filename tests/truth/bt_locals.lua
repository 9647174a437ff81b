-- SPDX-License-Identifier: GPL-2.0-only
-- A program that stops itself again and again, each time in other functions, and tells what the debug library says of the
-- variables of all Lua functions above: usage: SEED STOPS. Any Lua from 5.1 on. After each account it waits for a line.
local seed, stops = tonumber(arg[1]), tonumber(arg[2])
local has_ffi, ffi = pcall(require, "ffi")
local unpack = unpack or table.unpack
local F, edges = {}, {}

local function random(n)
  seed = (seed * 16807) % 2147483647
  return seed % n + 1
end

local Point = {__name = "Point", __index = function(t, k) return F.descend(t.depth - 1, k) end}
local big = {}
for i = 1, 300 do big[i] = i * i end
big.name = "big"
local threads = coroutine.create(function() end)
local userdata = newproxy and newproxy() or io.stdout

local makers = {
  function() return nil end,
  function() return random(2) == 1 end,
  function() return random(1000) - 500 end,
  function() return (random(1000) - 500) / 7 end,
  function() return ({1 / 0, -1 / 0, 0 / 0, 1e300, -0.0, 2 ^ 53, 5e-324, 3.0})[random(8)] end,
  function() return ({"", "plain", "line\nbreak\0zero", "gr\195\188n", "\255\254bad", ("long"):rep(900)})[random(6)] end,
  function() return {random(9), "x", {1, 2}, a = random(9), [random(99) + 0.5] = true, [false] = "no"} end,
  function() return {} end,
  function() return big end,
  function() return print end,
  function() return F.descend end,
  function() return function() return seed end end,
  function() return threads end,
  function() return userdata end,
  function() return setmetatable({x = 1, depth = 0}, Point) end,
  function() return has_ffi and ffi.new("int64_t", -random(99)) or 7 end,
}
local function value() return makers[random(#makers)]() end

-- ---- the account ----
local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end
local has_p = pcall(string.format, "%p", io.stdout)
-- In hexadecimal; 0: this Lua does not tell it.
local function address(v)
  if has_p then return (("%p"):format(v):gsub("^0x", "")) end
  if type(v) == "userdata" and getmetatable(v) then return "0" end
  local mt = type(v) == "table" and getmetatable(v)
  if mt then setmetatable(v, nil) end
  local s = tostring(v):match("0x(%x+)%)?$") or "0"
  if mt then setmetatable(v, mt) end
  return s
end
local function written(v)
  local t = type(v)
  if t == "number" then
    return ("number:%s"):format(v ~= v and "nan" or v == 1 / 0 and "inf" or v == -1 / 0 and "-inf" or ("%.17g"):format(v))
  elseif t == "string" then
    return "string:" .. hex(v)
  elseif t == "nil" or t == "boolean" then
    return t .. ":" .. tostring(v)
  elseif t == "function" then
    local i = debug.getinfo(v, "S")
    return i.what == "C" and "function:C" or ("function:%s:%d"):format(i.short_src, i.linedefined)
  elseif t == "cdata" then
    return "cdata:" .. tostring(v)
  end
  return t .. ":" .. address(v)
end
local function told(v)
  if type(v) ~= "table" then return written(v) end
  local fields, nr = {}, 0
  for k, x in next, v do
    nr = nr + 1
    fields[nr] = (type(k) == "string" and "s" .. hex(k) or "w" .. written(k):gsub("^%a+:", "")) .. "=" .. written(x)
  end
  return ("table:%s:%d:%s"):format(address(v), nr, table.concat(fields, ","))
end

-- The functions of a coroutine (nil: of the one that runs) from a level on.
local function account_of(thread, level)
  while true do
    local i
    if thread then i = debug.getinfo(thread, level, "Slnfu") else i = debug.getinfo(level, "Slnfu") end
    if not i then break end
    if i.what ~= "C" and i.what ~= "tail" and i.func then
      print("frame", i.short_src, i.linedefined, i.currentline)
      for n = 1, 250 do
        local name, v
        if thread then name, v = debug.getlocal(thread, level, n) else name, v = debug.getlocal(level, n) end
        if not name then break end
        if name:sub(1, 2) ~= "(*" and not (name:sub(1, 1) == "(" and name:find("temporary")) then
          print("local", name, told(v))
        end
      end
      for n = 1, 250 do
        local ok, name, v
        if thread then ok, name, v = pcall(debug.getlocal, thread, level, -n)
        else ok, name, v = pcall(debug.getlocal, level + 1, -n) end -- (pcall is one more level)
        if not ok or not name then break end
        print("vararg", n, told(v))
      end
      for n = 1, 250 do
        local name, v = debug.getupvalue(i.func, n)
        if not name then break end
        print("upvalue", name, told(v))
      end
    end
    level = level + 1
  end
end

local resumers = {} -- of coroutines; false: the main one, which has no name in this Lua
local function account()
  account_of(nil, 4)
  local co, is_main = coroutine.running()
  while co and not is_main and resumers[co] ~= nil do
    co = resumers[co]
    if not co then print("more") return end
    account_of(co, 0)
  end
end

local function probe()
  account()
  print("stop")
  io.stdout:flush()
  if not io.read("*l") then os.exit(0) end
end

-- ---- the functions ----
function F.descend(depth, ...)
  if depth <= 0 then probe() return 0 end
  local r = edges[random(#edges)](depth - 1, ...)
  return r
end
local descend = F.descend

edges[#edges + 1] = function(depth, a, b)
  local x, y = value(), value()
  do
    local inner = value()
    if random(2) == 1 then local deeper = inner; local r = descend(depth, x); return r, deeper end
  end
  local after = value()
  local r = descend(depth, y, a)
  return r, after, b
end
edges[#edges + 1] = function(depth, ...)
  local n, first = select("#", ...), ...
  local r = F.descend(depth, value(), value(), nil, value())
  return r, n, first
end
edges[#edges + 1] = function(depth, a)
  local sum = 0
  for i = 1, 3 do
    local v = value()
    if i == 2 then local r = descend(depth, v); sum = sum + (r or 0) end
  end
  for i = 1.5, 9 do if i > 2 then descend(depth, i); break end end
  return sum, a
end
edges[#edges + 1] = function(depth)
  local r
  for k, v in pairs({one = value(), two = 2}) do
    local both = k
    r = descend(depth, v)
    if r then return r, both end
  end
end
edges[#edges + 1] = function(depth, a)
  local open, other = value(), value()
  local function closure(x)
    local here = open
    local r = descend(depth, other, here)
    other = x
    return r
  end
  return closure(a), open
end
edges[#edges + 1] = function(depth, a)
  local kept = value()
  local ok, r = pcall(function(...) local p = kept; local r = descend(depth, ...); return r, p end, a, value())
  assert(ok, r)
  return r
end
edges[#edges + 1] = function(depth, a)
  local parent = coroutine.running() or false
  local co = coroutine.wrap(function(x, ...)
    local y = value()
    resumers[coroutine.running()] = parent
    coroutine.yield(1)
    local r = descend(depth, x, y)
    return r, ...
  end)
  co(value(), 1, nil)
  local r = co()
  return r, a
end
edges[#edges + 1] = function(depth)
  local t = {3, 1, 2}
  local done
  table.sort(t, function(x, y)
    if not done then done = true; local r = descend(depth, x) end
    return x < y
  end)
  return 1
end
edges[#edges + 1] = function(depth)
  local s = ("abc"):gsub("b", function(c) local r = descend(depth, c); return nil end)
  return 1, s
end
edges[#edges + 1] = function(depth, a)
  local object = setmetatable({depth = depth}, Point)
  local r = object.missing
  return 1, r, a
end
edges[#edges + 1] = function(depth, a, b, c)
  a, b = b, a
  return edges[1](depth, a, c)
end
edges[#edges + 1] = function(depth, ...)
  local load = loadstring or load
  local chunk = load("local d, f, v = ... local w = v local r = f(d, w) return r", "=chunk")
  local r = chunk(depth, descend, value())
  return r, ...
end

for i = 1, stops do
  local at = value()
  descend(random(8), at)
end
