-- SPDX-License-Identifier: GPL-2.0-only
-- Functions that the compiler inlines call C by the FFI; each C function has one caller.
local ffi = require "ffi"
ffi.cdef [[
size_t strlen(const char *); void *memchr(const void *, int, size_t);
size_t strnlen(const char *, size_t); void *memrchr(const void *, int, size_t);
void *luaL_newstate(void); void lua_close(void *);
]]
local C, n = ffi.C, 60000
local text = string.rep("x", n)
local p = ffi.cast("const char *", text)

local function f2(p)
    local size = C.strlen(p)
    return size
end
local function f1(p)
    local size = f2(p)
    return size + 1
end
local function k(p)
    local at = C.memrchr(p, 121, n)
    return at == nil
end
local function h(p)
    local size = C.strnlen(p, n)
    if size > 5 and k(p) then
        return size
    end
    return size + 2
end
-- in one file with LuaJIT, where the program has it in itself
local function made()
    local state = C.luaL_newstate()
    return state
end
local function used()
    local state = made()
    C.lua_close(state)
    return 1
end
local function run(seconds)
    local sum, stop = 0, os.clock() + seconds
    while os.clock() < stop do
        for i = 1, 200 do sum = sum + tonumber(f1(p)) end
        for i = 1, 200 do
            local at = C.memchr(p, 122, n)
            if at ~= nil then sum = sum + 1 end
        end
        for i = 1, 200 do sum = sum + tonumber(h(p)) end
        for i = 1, 10 do sum = sum + used() end
    end
    return sum
end
print(run(tonumber(arg[1])))
