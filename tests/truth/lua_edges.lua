-- SPDX-License-Identifier: GPL-2.0-only
-- A known tree of calls with coroutines in coroutines, metamethods, pcall, errors, callbacks of builtins,
-- iterators, varargs and tail calls: aarch64_stops.py has its paths. It says when they begin, and runs for ever.
local sink = 0
local function leaf(n) local x = 0; for i = 1, n do x = x + i % 7 end; sink = sink + x; return x end
local function mid(n) local r = leaf(n); local s = tostring(r) .. "x"; return #s + r end
local function deep(k, n) if k == 0 then return mid(n) end; local r = deep(k - 1, n); return r + 1 end
local mt = { __index = function(t, k) return mid(20) + k end, __add = function(a, b) return mid(10) end, __lt = function(a, b) leaf(5); return true end, __call = function(self, n) local r = leaf(n) return r end, __concat = function(a, b) local r = mid(5) return "c" end, __len = function() local r = leaf(4) return r end, __newindex = function(t, k, v) local r = leaf(6) end, __eq = function(a, b) leaf(3); return true end }
local obj, obj2 = setmetatable({}, mt), setmetatable({}, mt)
local function meta() local a = obj[3] + 1; a = a + (obj + 1); if obj < obj2 then a = a + 1 end; a = a + obj(7); local s = obj .. "x"; obj.q = 3; if obj == obj2 then a = a + 1 end; return a end
local function cmp(a, b) local r = leaf(5); return a < b end
local function sorts() local t = {}; for i = 1, 20 do t[i] = (i * 7919) % 101 end; table.sort(t, cmp); return t[1] end
local function gsf(w) leaf(10); return w:upper() end
local function gs() local s = string.gsub("hello world of lua", "%w+", gsf); return s end
local function va(...) local a = select("#", ...); local r = mid(30); return a + r end
local function pcf(n) local r = mid(n); if n == 7 then error("x") end; return r end
local function pc() local ok, r = pcall(pcf, 30); local ok2 = pcall(pcf, 7); return r end
local function handler(e) local r = leaf(8); return r end
local function xp() local ok, r = xpcall(pcf, handler, 7); return 1 end
local function co_body(n) while true do local r = mid(n); coroutine.yield(r) end end
local co = coroutine.wrap(co_body)
local function coro() local r = co(30); return r end
local function inner_co(n) local r = mid(n); return r end
local function outer_co(n) local c = coroutine.create(inner_co); local ok, r = coroutine.resume(c, n); return r end
local function coco() local c = coroutine.create(outer_co); local ok, r = coroutine.resume(c, 9); return r end
local function iter(s, i) if i < 4 then leaf(4); return i + 1 end end
local function it() local a = 0; for i in iter, nil, 0 do a = a + i end; return a end
local function work() deep(6, 20); meta(); sorts(); gs(); va(1, 2, 3); pc(); xp(); coro(); coco(); it() end
io.write("begun\n")
io.flush()
while true do work() end
