-- SPDX-License-Identifier: GPL-2.0-only
-- A program for bench/diff: rounds of several kinds of work until SECONDS of processor time are used.
-- "slow" does the work of one function, checksum, more often. Usage: luajit work.lua SECONDS [slow]
local seconds, slow = tonumber(arg[1]) or 1, arg[2] == "slow"
local text = ("the quick brown fox jumps over the lazy dog "):rep(20)
local part = text:sub(1, #text / 8)
math.randomseed(os.time())

local function checksum(s)
  local h = 5381
  for i = 1, #s do h = (h * 33 + s:byte(i)) % 4294967296 end
  return h
end
local function count_words(s)
  local n = 0
  for _ in s:gmatch("%a+") do n = n + 1 end
  return n
end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function sort_items(n)
  local t = {}
  for i = 1, n do t[i] = math.random(100000) end
  table.sort(t, function(a, b) return a < b end)
  return t[1]
end
local Point = {}
Point.__index = Point
function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end
function Point:length() return math.sqrt(self.x * self.x + self.y * self.y) end
local function points(n)
  local sum, all = 0, {}
  for i = 1, n do all[i] = Point.new(i, n - i) end
  for i = 1, n do sum = sum + all[i]:length() end
  return sum
end
local function join(n)
  local t = {}
  for i = 1, n do t[#t + 1] = ("%d:%x"):format(i, i * 7) end
  return #table.concat(t, ",")
end

local function round()
  local sum = 0
  for _ = 1, slow and 33 or 22 do sum = sum + checksum(part) end
  sum = sum + count_words(text) * 3 + fib(15) + sort_items(150) + points(400) + join(150)
  return sum
end

local total, clock = 0, os.clock
local stop = clock() + seconds
while clock() < stop do total = total + round() end
