-- SPDX-License-Identifier: GPL-2.0-only
-- Two chunks of one name and one size are made in turn, each few ms, mostly at the same place: they
-- call on other lines, or define functions of other names. Which of them runs the leaf tells: the one
-- calls a.lua, the other b.lua.
-- usage: luajit lua_made.lua SECONDS SECONDS_OF_EACH lines|names
local seconds, every, what = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local function leaf(name)
    return assert(load([[return function(n)
 local s = 0
 for i = 1, n do
  s = (s + i * 3) % 1000003
 end
 return s
end]], "@" .. name))()
end
local leaves = { leaf("a.lua"), leaf("b.lua") }
local texts = {
    lines = {
        "local f=...\nreturn function(n)\n local y = f(n)\n\n\n return y+1\nend",
        "local f=...\nreturn function(n)\n\n\n local y = f(n)\n return y+1\nend",
    },
    names = {
        "local f=...\nlocal M={}\nfunction M.fa(n)\n local y = f(n)\n return y+1\nend\nreturn M.fa",
        "local f=...\nlocal M={}\nfunction M.fb(n)\n local y = f(n)\n return y-1\nend\nreturn M.fb",
    },
}
local clock = os.clock
local function run(which)
    local chunk = load(texts[what][which], "@made.lua") -- lives on: it tells the function's name
    local made, sum = chunk(leaves[which]), 0
    local till = clock() + every
    repeat
        for i = 1, 20 do sum = sum + made(100 + i) end
    until clock() >= till
    return sum, chunk
end
local start, which = clock(), 1
while clock() - start < seconds do
    run(which)
    which = 3 - which
    collectgarbage()
    collectgarbage()
end
