-- What tests/truth/test_lua_discover runs under gdb: most opcodes, many calls out of the interpreter.
local mt = {__index = function(t, k) return k .. "!" end, __add = function(a, b) return 1 end,
            __concat = function(a, b) return "c" end, __lt = function() return true end,
            __eq = function() return true end, __call = function(self, x) return x end,
            __len = function() return 3 end, __newindex = function(t, k, v) rawset(t, k, v) end}
local function varargs(...) local a, b = ... return select("#", ...), a, b end
local function tail(n) if n == 0 then return varargs(1, 2, 3) end return tail(n - 1) end
local function each(t) local s = 0 for k, v in pairs(t) do s = s + (tonumber(v) or 0) end return s end
local out = {}
for round = 1, 3000 do
    local o, p = setmetatable({}, mt), setmetatable({}, mt)
    local t = {1, 2, 3, x = round, [round] = "v" .. round}
    t.y, t[round + 1] = o.name, -round
    local s = o + p, #t, o < p, o == p
    s = o .. p .. round
    local f = function(z) t.n = (t.n or 0) + z; return function() return round end end
    for i = 1, 5 do f(i)() end
    table.sort(t, function(a, b) return tostring(a) < tostring(b) end)
    out[#out + 1] = tail(3) + each(t) + #string.rep("x", round % 7)
    local co = coroutine.wrap(function(a) for i = 1, 3 do a = a + (coroutine.yield(a) or 1) end return o(a) end)
    co(1) co(2) co(3)
    pcall(function() local x = nil; return x.y end)
    out[1] = (round * 3 % 7 - 2 ^ 2 / 4) < 5 and not (round == 4)
    local r = 0
    while r < 3 do r = r + 1 end
    repeat r = r - 1 until r <= 0
end
