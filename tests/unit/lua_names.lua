-- Calls functions in every form, and at the bottom of each chain of calls tells what debug knows of
-- the stack, then waits for a line of input. Runs with Lua 5.1 to 5.5. Usage: lua_names.lua STOPS SEED
--
-- A comment "--> NAME" tells the display name of the function that is defined on its line.
local stops, seed = tonumber(arg[1]), tonumber(arg[2])
local format, type, tostring, getinfo = string.format, type, tostring, debug.getinfo
local getlocal, getupvalue, pairs = debug.getlocal, debug.getupvalue, pairs
local load = loadstring or load
local unpack = unpack or table.unpack
local mathtype = math.type or function() return "number" end

local library = {}
for name, module in pairs(package.loaded) do
    for key, value in pairs(type(module) == "table" and module or {}) do
        if type(value) == "function" then
            local full = name == "_G" and key or name .. "." .. key
            local old = library[value]
            if not old or (full:find("%.") and not old:find("%.")) or
                (full < old and not full:find("%.") == not old:find("%.")) then
                library[value] = full
            end
        end
    end
end

-- ---- what debug says -----------------------------------------------------------------------------

local function hex(s)
    return (s:gsub(".", function(c) return format("%02x", c:byte()) end))
end

local function address(v)
    return (tostring(v):match("0x(%x+)$") or "0"):gsub("^0+", "")
end

local function tell_value(v)
    local t = type(v)
    if t == "nil" then
        return "nil"
    elseif t == "boolean" then
        return "boolean " .. tostring(v)
    elseif t == "number" then
        return format("%s %.17g", mathtype(v), v)
    elseif t == "string" then
        return format("string %d %s", #v, hex(v:sub(1, 60)))
    elseif t == "table" then
        local n, meta = 0, getmetatable(v)
        for _ in next, v do
            n = n + 1
        end
        return format("table %s %d", meta and meta.__tostring and "0" or address(v), n)
    elseif t == "function" then
        local info = getinfo(v, "S")
        if info.what == "C" then
            return "cfunction " .. (library[v] or "")
        end
        return format("function %s %s %d", address(v), info.source:gsub("%s.*", ""), info.linedefined)
    elseif t == "userdata" then
        return "userdata"
    end
    return t .. " " .. address(v)
end

local function tell_level(level, out)
    local info = getinfo(level + 1, "Slnuf")
    out[#out + 1] = format("F\t%s\t%d\t%d\t%s\t%s\t%s\t%s", info.what, info.currentline, info.linedefined,
        hex(info.source), info.namewhat, hex(info.name or ""), library[info.func] or "")
    for i = 1, 250 do
        local name, value = getlocal(level + 1, i)
        if not name then
            break
        end
        if name:sub(1, 1) ~= "(" then
            out[#out + 1] = format("L\t%s\t%s", name, tell_value(value))
        end
    end
    for i = 1, _VERSION == "Lua 5.1" and 0 or 250 do
        local name, value = getlocal(level + 1, -i)
        if not name then
            break
        end
        out[#out + 1] = format("V\t%d\t%s", i, tell_value(value))
    end
    for i = 1, info.what ~= "C" and info.func and info.nups or 0 do
        local name, value = getupvalue(info.func, i)
        out[#out + 1] = format("U\t%s\t%s", name, tell_value(value))
    end
end

local function stop()
    local out, level = {}, 2
    while getinfo(level, "S") do
        tell_level(level, out)
        level = level + 1
    end
    io.write("THREAD\t", (address(coroutine.running())), "\n", table.concat(out, "\n"), "\nEND\n")
    io.flush()
    return io.read("*l")
end

-- ---- calls in every form -------------------------------------------------------------------------

local ways = {}
local function random(n)
    seed = (seed * 16807) % 2147483647
    return seed % n + 1
end

local function go(n) --> go
    if n <= 0 then
        local r = stop()
        return r
    end
    local way = ways[random(#ways)]
    local result = way(n - 1)
    return result
end

local function add(f) --> add
    ways[#ways + 1] = f
end

function global_function(n) --> global_function
    local a, b = n, n / 2
    local r = go(n)
    return r, a, b
end
add(function(n) local r = global_function(n) return r end)

local M = {}
function M.field(n, text) --> M.field
    local t = {1, 2, 3, x = text}
    local r = go(n)
    return r, t
end
function M:method(n) --> M:method
    local me = self
    local r = go(n)
    return r, me
end
M.deep = {}
M.deep.er = {}
function M.deep.er.function_of(n) --> M.deep.er.function_of
    return (go(n))
end
M.constructed = {
    one = function(n) --> M.constructed.one
        local r = go(n)
        return r
    end,
    two = {
        three = function(self, n) --> M.constructed.two:three
            return (go(n))
        end,
    },
}
add(function(n) local r = M.field(n, "some text") return r end)
add(function(n) local r = M:method(n) return r end)
add(function(n) local r = M.deep.er.function_of(n) return r end)
add(function(n) local r = M.constructed.one(n) return r end)
add(function(n) local r = M.constructed.two:three(n) return r end)
add(function(n) local key = "field" local r = M[key](n, key) return r end)

local function upvalue(n) --> upvalue
    local nothing
    local yes, no = true, false
    local r = go(n)
    return r, nothing, yes, no
end
add(function(n) local r = upvalue(n) return r end)
add(function(n)
    local function inner(m) --> inner
        local big, small, huge = 123456789012, 1e-7, 1e300
        local r = go(m)
        return r, big, small, huge
    end
    local r = inner(n)
    return r
end)

local function recursive(n, depth) --> recursive
    if depth == 0 then
        return (go(n))
    end
    local r = recursive(n, depth - 1)
    return r
end
add(function(n) local r = recursive(n, 3) return r end)

local function varargs(n, ...) --> varargs
    local count = select("#", ...)
    local r = go(n)
    return r, count
end
add(function(n) local r = varargs(n, "one", 2, nil, 4.5, {}) return r end)
add(function(n) local r = varargs(n) return r end)
add(function(n, ...) local r = (function(...) return (go(n)) end)(1, ...) return r end)

local function tail(n) --> tail
    return go(n)
end
add(function(n) local r = tail(n) return r end)
add(function(n) return tail(n) end)

add(function(n)
    local ok, r = pcall(go, n)
    return ok and r
end)
add(function(n)
    local ok, r = pcall(function() local inside = n return (go(n)), inside end)
    return ok and r
end)
add(function(n)
    local function handler(message) --> handler
        local r = go(n)
        return r, message
    end
    local ok, r = xpcall(function() error("wrong") end, handler)
    return r
end)
add(function(n)
    local ok, r = xpcall(function() local x = nil; return x.y end, function() return (go(n)) end)
    return r
end)
add(function(n)
    local done
    table.sort({2, 1}, function(a, b)
        if not done then
            done = go(n) or true
        end
        return a < b
    end)
    return done
end)
add(function(n)
    local done
    local text = ("ab"):gsub("a", function(c)
        done = go(n)
        return c
    end)
    return done, text
end)

local meta = {__tostring = function() return "object" end}
local function metamethod(n, o) --> metamethod
    return (go(n)), o
end
function meta.__index(o, k) --> meta.__index
    local n = rawget(o, 1)
    return (metamethod(n, k))
end
function meta.__newindex(o, k, v) --> meta.__newindex
    metamethod(v)
end
function meta.__add(a, b) --> meta.__add
    return (metamethod(b))
end
function meta.__concat(a, b) --> meta.__concat
    return (metamethod(#b))
end
function meta.__call(o, n) --> meta.__call
    return (metamethod(n))
end
function meta.__unm(o) --> meta.__unm
    return (metamethod(rawget(o, 1)))
end
function meta.__lt(a, b) --> meta.__lt
    return metamethod(rawget(a, 1)) and true
end
function meta.__le(a, b) --> meta.__le
    return metamethod(rawget(a, 1)) and true
end
function meta.__eq(a, b) --> meta.__eq
    return metamethod(rawget(a, 1)) and true
end
function meta.__mod(a, b) --> meta.__mod
    return (metamethod(rawget(a, 1)))
end
local function object(n)
    return setmetatable({n}, meta)
end
add(function(n) local o = object(n) local r = o.absent return r end)
add(function(n) local o, k = object(n), "name" local r = o[k] return r end)
add(function(n) local o = object(n) local r = o[n] == 1 and o[true] return r or go(n) end)
add(function(n) local o = object(n) o.absent = n return o end)
add(function(n) local o = object(n) local r = o + n return r end)
add(function(n) local o = object(n) local r = o .. ("x"):rep(n) return r end)
add(function(n) local o = object(n) local r = o(n) return r end)
add(function(n) local o = object(n) local r = -o return r end)
add(function(n) local o = object(n) local r = o < object(n) return r end)
add(function(n) local o = object(n) local r = o <= object(n) return r end)
add(function(n) local o = object(n) local r = o == object(n) return r end)
add(function(n) local o = object(n) local r = o % 3 return r end)
add(function(n) local o = object(n) if o < object(n) then return 1 end return 2 end)

add(function(n)
    local function iterator(state, last) --> iterator
        if not last then
            local r = go(n)
            return r or true
        end
    end
    for value in iterator, n do
        local seen = value
    end
end)
add(function(n)
    for i = 1, 2 do
        local inside = i * 2
        if i == 2 then
            local deeper = "block"
            do
                local deepest = go(n)
            end
        end
    end
end)
add(function(n)
    local list = {10, 20, 30, n = n}
    for key, value in pairs(list) do
        if value == 20 then
            local r = go(n)
        end
    end
end)
add(function(n)
    local r
    local i = 0
    while i < 1 do
        local step = i + 1
        r = go(n)
        i = step
    end
    repeat
        local last = r
    until true
    return r
end)
add(function(n)
    local a = n > 1 and go or M.field
    local r = a(n, "conditional")
    return r
end)
add(function(n)
    local r = coroutine.wrap(function(m) local own = m * 2 return (go(m)), own end)(n)
    return r
end)
add(function(n)
    local co = coroutine.create(function(m)
        local first = coroutine.yield(m)
        return (go(first))
    end)
    coroutine.resume(co, 1)
    local ok, r = coroutine.resume(co, n)
    return r
end)
add(function(n)
    local chunk = load("local n, go = ...\nlocal r = go(n)\nreturn r", "=made")
    local r = chunk(n, go)
    return r
end)
add(function(n)
    local chunk = load("local n, go = ... local f = function(m) return (go(m)) end return (f(n))")
    local r = chunk(n, go)
    return r
end)
add(function(n)
    local binary = string.dump(load("local n, go = ... local t = {} local r = go(n) return r", "=made"),
        true)
    local chunk = load(binary, "=binary")
    local r = chunk(n, go)
    return r
end)
add(function(n)
    local text = ("long "):rep(60)
    local odd = "a\0b\n\27\200"
    local nested = {{{1}}, [true] = 1, [1.5] = "x"}
    local f, c, co, file = metamethod, print, coroutine.create(go), io.stdout
    local r = go(n)
    return r, text, odd, nested, f, c, co, file
end)
local function made(n) --> made
    local count = 0
    return function() --> 
        count = count + 1
        return (go(n))
    end
end
add(function(n) local f = made(n) local r = f() return r end)
add(function(n)
    local t = {}
    t[1], t[2] = function() return (go(n)) end, 3
    return (t[1]())
end)

-- Forms that not all versions have.
local function try(text)
    local f = load("local add, go, object, meta, metamethod = ... " .. text, "=newer")
    if f then
        f(add, go, object, meta, metamethod)
    end
end
try [[
function meta.__idiv(a, b) return (metamethod(rawget(a, 1))) end
function meta.__band(a, b) return (metamethod(rawget(a, 1))) end
function meta.__shl(a, b) return (metamethod(rawget(a, 1))) end
function meta.__bnot(a) return (metamethod(rawget(a, 1))) end
add(function(n) local o = object(n) local r = o // 2 return r end)
add(function(n) local o = object(n) local r = o & 2 return r end)
add(function(n) local o = object(n) local r = o << 2 return r end)
add(function(n) local o = object(n) local r = ~o return r end)
add(function(n) local i, f = 3, 3.0 local r = go(n) return r, i, f end)]]
try [[
function meta.__len(o) return (metamethod(rawget(o, 1))) end
add(function(n) local o = object(n) local r = #o return r end)
add(function(n)
    local i = 0
    ::again::
    local r = go(n)
    if i > 0 then goto again end
    return r
end)
add(function(n) local _ENV = {go = go} local r = go(n) return r end)]]
try [[
function meta.__close(o) return (metamethod(rawget(o, 1))) end
add(function(n) local o <close> = object(n) local x <const> = 4 local y = x + 1 return nil end)
add(function(n) do local o <close> = object(n) end local r = 1 return r end)]]
try [[
add(function(n) local function named(a, ...t) local r = go(n) return r, t.n end
local r = named(1, 2, 3) return r end)]]

for number = 1, stops do
    local co = coroutine.create(function()
        local depth = random(9)
        go(depth)
    end)
    local ok, message = coroutine.resume(co)
    if not ok then
        io.write("FAILED\t", tostring(message), "\n")
    end
end
io.write("DONE\n")
