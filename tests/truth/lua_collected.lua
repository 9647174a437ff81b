-- SPDX-License-Identifier: GPL-2.0-only
-- Finalizers and concatenations of several operands: each calls a function leaf_KIND, which is
-- where samples are. Only what allocates in a part is there to call the collector in it, which is run to
-- its end between the parts.
--
-- usage: lua_collected.lua SECONDS    of processor time a part
local ffi = require("ffi")
local seconds = tonumber(arg[1])
local result = 0

local function leaf_proxy(n)
  for i = 1, n do result = (result * 3 + i) % 100003 end
end
local function leaf_cdata(n)
  for i = 1, n do result = (result * 3 + i) % 100003 end
end
local function leaf_concat(n)
  for i = 1, n do result = (result * 3 + i) % 100003 end
end
local function leaf_right(n)
  for i = 1, n do result = (result * 3 + i) % 100003 end
end
local function leaf_chain(n)
  for i = 1, n do result = (result * 3 + i) % 100003 end
end

-- userdata with __gc
local function finalize_proxy()
  leaf_proxy(200)
  result = result + 1
end
local pattern = newproxy(true)
getmetatable(pattern).__gc = finalize_proxy
local function churn_proxy(n)
  for i = 1, n do
    newproxy(pattern)
  end
end

-- cdata with a finalizer, of which machine code makes new ones
local pair = ffi.typeof("int[2]")
local function finalize_cdata(p)
  leaf_cdata(200 + p[0])
  result = result + 1
end
local function churn_cdata(n)
  local last
  for i = 1, n do
    last = ffi.gc(pair(i % 7, 2), finalize_cdata)
  end
  return last
end

-- a .. b .. c where the middle, the last, or a result of __concat has the metamethod
local function join(a, b)
  leaf_concat(100)
  return "joined"
end
local middle = setmetatable({}, { __concat = join })
local function concat_middle(a)
  local s = "a" .. a .. middle .. "b" .. a
  return #s
end
local last = setmetatable({}, { __concat = function(a, b)
  leaf_right(100)
  return "right"
end })
local function concat_last(a)
  local s = a .. "x" .. a .. last
  return #s
end
local chain = {}
local function link(a, b)
  leaf_chain(100)
  return chain
end
setmetatable(chain, { __concat = link })
local function concat_chain(a)
  local s = a .. "x" .. chain .. a
  return s == chain
end

local function work(part, ...)
  local stop = os.clock() + seconds
  while os.clock() < stop do
    for i = 1, 20 do part(...) end
  end
  collectgarbage()
  collectgarbage()
end
work(churn_proxy, 50)
work(churn_cdata, 50)
work(concat_middle, "m")
work(concat_last, "l")
work(concat_chain, "c")
print(result)
