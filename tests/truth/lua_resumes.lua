-- SPDX-License-Identifier: GPL-2.0-only
-- Coroutines in coroutines: level_N enters level_N-1 and so on down to leaf.lua, each in a coroutine of
-- its own. MODE: wrap (the interpreter resumes), resume (C does, by lua_resume), call (C calls on
-- another lua_State), mixed (each in turn).
-- usage: luajit lua_resumes.lua SECONDS MODE LEVELS   (the module of lua_resumes.c on LUA_CPATH)
local seconds, mode, levels = tonumber(arg[1]), arg[2], tonumber(arg[3])
local resumes = require "resumes"
local enter = {
    wrap = function(f) coroutine.wrap(f)() end,
    resume = function(f) resumes.resume(coroutine.create(f)) end,
    call = function(f) resumes.call(f) end,
}
local order = { "wrap", "resume", "call" }
local clock = os.clock
local leaf = assert(load([[local clock = ... return function()
 local s, till = 0, clock() + 0.002
 repeat
  for i = 1, 1000 do s = (s + i * 3) % 1000003 end
 until clock() >= till
 return s
end]], "@leaf.lua"))(clock)
local text = { "local enter, leaf = ... local level_0 = leaf " } -- level_N is defined on line N
for i = 1, levels do
    text[#text + 1] = ("local function level_%d() enter[%d](level_%d) return %d end\n"):format(i, i, i - 1, i)
end
text[#text + 1] = ("return level_%d"):format(levels)
local how = {}
for i = 1, levels do how[i] = enter[mode] or enter[order[i % 3 + 1]] end
local top = assert(load(table.concat(text), "@levels.lua"))(how, leaf)
local start = clock()
while clock() - start < seconds do top() end
