-- SPDX-License-Identifier: GPL-2.0-only
-- Functions that were called by a tail call stand above a call that names another function. What
-- made them is gone, so that nothing but calls could name them. Each line of text is one function,
-- of the chunk it is called after.
local function load(name, text, ...) return assert(loadstring(text, "=" .. name))(...) end
local body = "local x = 0; for i = 1, n do x = (x * 3 + i) % 100003 end; return x end"
local M, class, object = {}, {}, nil

-- Called by tail calls only: a local's, a field's, a global's, a method's, one's behind two others; and
-- metamethods'.
local hidden = {}
for _, name in ipairs { "tail_local", "tail_field", "tail_global", "tail_method", "tail_twice", "tail_add",
  "tail_concat", "tail_lt", "tail_index", "tail_newindex", "tail_call" } do
  hidden[name] = load(name, "return function(n) " .. body)
end
local caller = "local f = ...; return function(n) return f(n) end"
local as_local = load("caller_local", caller, hidden.tail_local)
M.as_field = load("caller_field", caller, hidden.tail_field)
as_global = load("caller_global", caller, hidden.tail_global)
class.as_method = load("caller_method", "local f = ...; return function(self, n) return f(n) end", hidden.tail_method)
M.as_twice = load("caller_first", caller, load("caller_second", caller, hidden.tail_twice))

-- Called by their names.
local direct_local = load("local", "return function(n) " .. body)
M.direct_field = load("field", "return function(n) " .. body)
direct_global = load("global", "return function(n) " .. body)
class.direct_method = load("method", "return function(self, n) " .. body)
local inherited = { __index = { direct_inherited = load("inherited", "return function(self, n) " .. body) } }
local function calls(direct_argument, n) local r = direct_argument(n) return r end
local argument = { load("argument", "return function(n) " .. body) }

-- Operators of objects. Numbers of steps go with them.
local function operator(of) return load("caller_" .. of, "local f = ...; return function() return f(2000) end", hidden["tail_" .. of]) end
local tails = setmetatable({}, { __add = operator "add", __concat = operator "concat", __lt = operator "lt",
  __index = operator "index", __newindex = operator "newindex", __call = operator "call" })
local function own(name) return load(name, "return function() local n = 2000; " .. body) end
local owns = setmetatable({}, { __sub = own "sub", __concat = own "concat", __le = own "le", __index = own "index",
  __newindex = own "newindex", __unm = own "unm", __call = own "callable", __eq = own "eq" })
local other = setmetatable({}, getmetatable(owns))
local direct_callable = owns

class.__index = class
object = setmetatable({ super = setmetatable({}, inherited) }, class)
hidden = nil
collectgarbage()
collectgarbage()
local stop = os.clock() + tonumber(arg[1])
while os.clock() < stop do
  local n, x = 2000, 0
  x = x + as_local(n)
  x = x + M.as_field(n)
  x = x + as_global(n)
  x = x + object:as_method(n)
  x = x + M.as_twice(n)
  x = x + direct_local(n)
  x = x + M.direct_field(n)
  x = x + direct_global(n)
  x = x + object:direct_method(n)
  x = x + object.super:direct_inherited(n)
  x = x + calls(argument[1], n)
  x = x + (tails + 1)
  x = x + (n .. tails)
  if tails < tails then x = x + 1 end
  x = x + tails.field
  tails.field = x
  x = x + tails(n)
  x = x + (1 - owns)
  x = x + (owns .. "text")
  if owns <= owns then x = x + 1 end
  x = x + owns[n]
  owns.field = x
  x = x + -owns
  x = x + direct_callable(n)
  if owns == other then x = x + 1 end
end
