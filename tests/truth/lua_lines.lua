-- SPDX-License-Identifier: GPL-2.0-only
-- Functions that share a line: each has its own name, or none. What is called by which is told by the
-- innermost function, of which each part has its own.
--
-- usage: lua_lines.lua SECONDS    of processor time a part
local seconds = tonumber(arg[1])
local function spin_nested() local e, s = os.clock() + seconds, 0 repeat for i = 1, 300 do s = (s * 31 + i) % 1000003 end until os.clock() > e return s end
local function spin_get() local e, s = os.clock() + seconds, 0 repeat for i = 1, 300 do s = (s * 31 + i) % 1000003 end until os.clock() > e return s end
local function spin_add() local e, s = os.clock() + seconds, 0 repeat for i = 1, 300 do s = (s * 31 + i) % 1000003 end until os.clock() > e return s end
local made = {}
function made.outer() (function() (function() (function() spin_nested() return 1 end)() return 1 end)() return 1 end)() return 1 end
local get = {x = function(t) t = t.x() return 1 end, y = function(t) t = t.y() return 1 end}
local add = {one = function(f) f = f(1.5) return 1 end, two = function(f) f = f(2.5) return 1 end}
made.outer()
get.x({x = function() return 1 end})
get.y({y = spin_get})
add.one(function() return 1 end)
add.two(spin_add)
