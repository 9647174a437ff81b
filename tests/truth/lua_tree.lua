-- SPDX-License-Identifier: GPL-2.0-only
-- A call tree in which each function's name says who called it: t_1_2_3 is called by t_1_2 only.
-- The edges are of all kinds. Runs for arg[1] seconds; prints the line and name of each function,
-- which stands in that line with the closures that belong to it.
local seconds = arg and tonumber(arg[1]) or 0 -- in a host of its own it calls t itself
local fanout, depth = 4, 5

local edges = {
    "%s(n)",
    "local ok, v = pcall(%s, n) s = s + v",
    "local ok, v = xpcall(function() return %s(n) end, print) s = s + v",
    "s = s + coroutine.wrap(%s)(n)",
    "local o = setmetatable({}, {__index = function(_, k) return %s(k) end}) s = s + o[n]",
    "table.sort({3, 1, 2}, function(a, b) if a == 1 then %s(n) end return a < b end)",
    "string.gsub('a', '.', function() %s(n) end)",
    "for v in function(_, c) if not c then return %s(n) end end do s = s + v end",
}
local out, kind = {}, 0
local function emit(name, level)
    local body = {}
    if level < depth then
        for i = 1, level < 2 and fanout or 2 do
            local child = name .. "_" .. i
            kind = kind % #edges + 1
            body[#body + 1] = string.format(edges[kind], child)
            emit(child, level + 1)
        end
    end
    out[#out + 1] = string.format("function %s(n) local s = 0 for i = 1, 40 do s = s + i %% (n + 1) "
        .. "end %s return s end", name, table.concat(body, " "))
    print(#out, name)
end
emit("t", 0)
local f = assert(loadstring(table.concat(out, "\n"), "=tree"))
f()
io.stdout:flush()
local t0 = os.clock()
while os.clock() - t0 < seconds do for i = 1, 10 do t(i) end end
