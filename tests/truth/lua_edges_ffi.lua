-- SPDX-License-Identifier: GPL-2.0-only
-- A known tree of calls in which C calls Lua by FFI callbacks, and Lua calls C by the FFI: aarch64_stops.py has its paths. It
-- says when they begin, and runs for ever.
local ffi = require "ffi"
ffi.cdef [[
void qsort(void *, size_t, size_t, int (*)(const int *, const int *));
void *bsearch(const void *, const void *, size_t, size_t, int (*)(const int *, const int *));
unsigned long strtoul(const char *, char **, int);
]]
local C, sink = ffi.C, 0
local function leaf(n) local x = 0; for i = 1, n do x = x + i % 7 end; sink = sink + x; return x end
local function mid(n) local r = leaf(n); local s = tostring(r) .. "x"; return #s + r end
local function cmp(a, b) local r = leaf(5); return a[0] - b[0] end
local function find(a, b) local r = mid(6); return a[0] - b[0] end
local numbers = ffi.new("int[24]")
-- Many slots, so that those used are not the first.
local kept = {}
for i = 1, 40 do kept[i] = ffi.cast("int (*)(const int *, const int *)", function() return i end) end
local cmp_slot = ffi.cast("int (*)(const int *, const int *)", cmp)
local find_slot = ffi.cast("int (*)(const int *, const int *)", find)
local function fill() for i = 0, 23 do numbers[i] = (i * 7919) % 101 end return 1 end
local function sorts() fill(); C.qsort(numbers, 24, 4, cmp_slot); return numbers[0] end
local function finds() local at = C.bsearch(numbers + 5, numbers, 24, 4, find_slot); return at ~= nil end
local function direct() local r = find_slot(numbers, numbers + 1); return r end
local function parses() local a = 0; for i = 1, 20 do a = a + tonumber(C.strtoul("123456", nil, 10)) end; return a end
local function nested(k) if k == 0 then return sorts() end; local r = nested(k - 1); return r + 1 end
local function work() sorts(); finds(); direct(); parses(); nested(3) end
jit.off(sorts) jit.off(finds) jit.off(direct) -- (a callback out of a trace is an error of LuaJIT's)
io.write("begun\n")
io.flush()
while true do work() end
