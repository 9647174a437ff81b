local F = {}
local O = setmetatable({}, {__index = F})
local S, R, depth = 182138, 0, 0
local load = loadstring or load
local collecting, collections = false, 0
local mark = math.sin
F.fin = function(o)
  local old = mark(1)
  local x = 1
  for i = 1, 20 do x = x + i % 5 end
  R = (R + x) % 1000003
  mark(old)
end
F.h0 = function(y)
  return (y * 3 + 1) % 11
end
F.h1 = function(y)
  return (y * 4 + 1) % 12
end
F.h2 = function(y)
  return (y * 5 + 1) % 13
end
do
F.root = function(a)
  mark(2)
  local x = 0
  mark(3)
  do
  for i = 1, 11 do x = x + i % 7 end
  end
  mark(4)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
    local outer = coroutine.wrap(function(a)
      local inner = coroutine.wrap(F.n7)
      local v = inner(a)
      return v
    end)
  mark(5)
    x = x + outer(1)
  mark(6)
  elseif r == 1 then
  mark(7)
    local _, v = pcall(F.n8, 1)
  mark(8)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(9)
    x = x + F.n9(4)
  mark(10)
  elseif r == 3 then
    local co = coroutine.wrap(F.n10)
  mark(11)
    x = x + co(1)
  mark(12)
  end
  mark(13)
  do
  for i = 1, 24 do x = x + i % 7 end
  end
  mark(14)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(15)
  return x
end
end
do
F.n7 = function(a)
  mark(16)
  local x = 0
  mark(17)
  do
  for i = 1, 55 do x = x + i % 7 end
  end
  mark(18)
  coroutine.yield(x)
  mark(19)
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n11, 1)
      return v
    end)
  mark(20)
    outer(1)
  mark(21)
  mark(22)
    local v = outer()
  mark(23)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(24)
    x = x + F.n13(1)
  mark(25)
  elseif r == 2 then
    local o = setmetatable({}, {__band = function(a, b)
      local v = F.n15(1)
      x = x + v % 3
      return v
    end})
  mark(26)
    x = x + (o & 3)
  mark(27)
  end
  mark(28)
  do
  for i = 1, 23 do x = x + i % 7 end
  end
  mark(29)
  do
  for i = 1, 47 do x = x + i % 7 end
  end
  mark(30)
  coroutine.yield(x)
  return nil
end
end
do
F.n15 = function(a)
  mark(31)
  local x = 0
  mark(32)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
    local outer = coroutine.wrap(function(a)
      local inner = coroutine.wrap(F.n17)
      local v = inner(a)
      return v
    end)
  mark(33)
    x = x + outer(1)
  mark(34)
  elseif r == 1 then
    local o = setmetatable({}, {__len = function(a)
      local v = F.n19(1)
      x = x + v % 3
      return v
    end})
  mark(35)
    x = x + #o
  mark(36)
  elseif r == 2 then
    local o = setmetatable({}, {__mod = function(a, b)
      local v = F.n21(1)
      x = x + v % 3
      return v
    end})
  mark(37)
    x = x + o % 3
  mark(38)
  elseif r == 3 then
  mark(39)
    for v in F.n22 do
  mark(40)
      x = x + v
  mark(41)
    end
  mark(42)
  end
  mark(43)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(44)
  do
  for i = 1, 2 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(45)
  return x
end
end
do
F.n8 = function(a)
  mark(46)
  local x = 0
  mark(47)
  do
  for i = 1, 11 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(48)
  do
  for i = 1, 23 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
  mark(49)
    for v in F.n24 do
  mark(50)
      x = x + v
  mark(51)
    end
  mark(52)
  elseif r == 1 then
  mark(53)
    x = x + host_enter(1)
  mark(54)
  elseif r == 2 then
    local o = setmetatable({}, {__eq = function(a, b)
      local v = F.n26(1)
      x = x + v % 3
      return v > 1
    end})
  mark(55)
    x = o == setmetatable({}, getmetatable(o)) and x or x + 1
  mark(56)
  end
  mark(57)
  do
  for i = 1, 16 do x = x + i % 7 end
  end
  mark(58)
  return x
end
end
do
F.n26 = function(a)
  mark(59)
  local x = 0
  mark(60)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(61)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 2
  if r == 0 then
    local outer = coroutine.wrap(function(a)
      local inner = coroutine.wrap(F.n28)
      local v = inner(a)
      return v
    end)
  mark(62)
    x = x + outer(1)
  mark(63)
  elseif r == 1 then
    local co = coroutine.create(F.n29)
  mark(64)
    local _, v = coroutine.resume(co, 1)
  mark(65)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(66)
  do
  for i = 1, 4 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(67)
  do
  for i = 1, 3 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(68)
  return x
end
end
do
F.n29 = function(a)
  mark(69)
  local x = 0
  mark(70)
  do
  for i = 1, 3 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
    local o = setmetatable({}, {__lt = function(a, b)
      local v = F.n33(1)
      x = x + v % 3
      return v > 1
    end})
  mark(71)
    x = o < o and x or x + 1
  mark(72)
  elseif r == 1 then
  mark(73)
    x = x + F.n34(2)
  mark(74)
  elseif r == 2 then
    local outer = coroutine.wrap(function(o)
      local v = F.n35(1)
      return v
    end)
  mark(75)
    outer(1)
  mark(76)
  mark(77)
    local v = outer()
  mark(78)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(79)
  do
  for i = 1, 2 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(80)
  return x
end
end
do
F.n35 = function(a)
  mark(81)
  local x = 0
  mark(82)
  do
  local list = {}
  for i = 1, 2 do
    table.insert(list, i * 7 % 11)
    x = x + (next(list) or 0) + select('#', i, x)
  end
  x = x + #table.concat(list, ',') % 3
  end
  mark(83)
  do
  for i = 1, 13 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(84)
  coroutine.yield(x)
  mark(85)
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
  mark(86)
    x = x + F.n38(1)
  mark(87)
  elseif r == 1 then
    local handler = function(e)
  mark(88)
      local y = type(e) == 'number' and e or 1
      for i = 1, 60 do y = y + i % 5 end
  mark(89)
      return y
    end
    local try = function()
      local v = F.n41(1)
      return v
    end
  mark(90)
    local _, v = xpcall(try, handler)
  mark(91)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(92)
    x = x + host_enter(1)
  mark(93)
  elseif r == 3 then
  mark(94)
    x = x + F.n42(1)
  mark(95)
  end
  mark(96)
  do
  for i = 1, 32 do x = x + i % 7 end
  end
  mark(97)
  do
  for i = 1, 60 do x = x + i % 7 end
  end
  mark(98)
  coroutine.yield(x)
  return nil
end
end
do
F.n42 = function(d)
  if d == 0 then
    local x = F.n43(1)
    return x
  end
  local _, y = pcall(F.n42, d - 1)
  return y + 1
end
end
do
F.n43 = function(a)
  mark(99)
  local x = 0
  mark(100)
  do
  for i = 1, 4 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
    local try = function()
      local v = F.n45(1)
      x = x + v % 3
      return v
    end
  mark(101)
    local _, v = xpcall(try, debug.traceback)
  mark(102)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(103)
    return F.n46(1)
  elseif r == 2 then
    local outer = coroutine.wrap(function(o)
      local v = o .. 'a'
      return v
    end)
  mark(104)
    outer(setmetatable({}, {__concat = F.n47}))
  mark(105)
  mark(106)
    local v = outer()
  mark(107)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 3 then
    local try = function()
      local v = F.n50(1)
      x = x + v % 3
      return v
    end
  mark(108)
    local _, v = xpcall(try, debug.traceback)
  mark(109)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(110)
  do
  for i = 1, 45 do x = x + i % 7 end
  end
  mark(111)
  return x
end
end
do
F.n50 = function(a)
  mark(112)
  local x = 0
  mark(113)
  do
  for i = 1, 12 do
    x = x + F.h0(i)
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
  mark(114)
    x = x + F.n51(1, 2, x)
  mark(115)
  elseif r == 1 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n52, 1)
      return v
    end)
  mark(116)
    outer(1)
  mark(117)
  mark(118)
    local v = outer()
  mark(119)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(120)
    local _, v = pcall(F.n54, 1)
  mark(121)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(122)
  do
  for i = 1, 5 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(123)
  return x
end
end
do
F.n54 = function(a)
  mark(124)
  local x = 0
  mark(125)
  do
  for i = 1, 25 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(126)
  do
  local list = {}
  for i = 1, 2 do
    table.insert(list, i * 7 % 11)
    x = x + (next(list) or 0) + select('#', i, x)
  end
  x = x + #table.concat(list, ',') % 3
  end
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
    local replace = function(s)
      local v = F.n57(1)
      x = x + v % 3
      return nil
    end
  mark(127)
    string.gsub('ab', '.', replace)
  mark(128)
  elseif r == 1 then
  mark(129)
    x = x + F.n58(4)
  mark(130)
  elseif r == 2 then
    local o = setmetatable({}, {__mod = function(a, b)
      local v = F.n60(1)
      x = x + v % 3
      return v
    end})
  mark(131)
    x = x + o % 3
  mark(132)
  elseif r == 3 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n61, 1)
      return v
    end)
  mark(133)
    outer(1)
  mark(134)
  mark(135)
    local v = outer()
  mark(136)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(137)
  do
  for i = 1, 6 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(138)
  do
  for i = 1, 13 do
    x = x + F.h2(i)
  end
  end
  mark(139)
  error(x, 0)
end
end
do
F.n61 = function(a)
  mark(140)
  local x = 0
  mark(141)
  do
  for i = 1, 11 do x = x + i % 7 end
  end
  mark(142)
  do
  for i = 1, 16 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(143)
  coroutine.yield(x)
  mark(144)
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
  mark(145)
    x = x + F.n63(7)
  mark(146)
  elseif r == 1 then
    local handler = function(e)
  mark(147)
      local y = type(e) == 'number' and e or 1
      for i = 1, 60 do y = y + i % 5 end
  mark(148)
      return y
    end
    local try = function()
      local v = F.n66(1)
      return v
    end
  mark(149)
    local _, v = xpcall(try, handler)
  mark(150)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(151)
    local _, v = pcall(F.n67, 1)
  mark(152)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 3 then
  mark(153)
    for v in F.n68 do
  mark(154)
      x = x + v
  mark(155)
    end
  mark(156)
  end
  mark(157)
  do
  for i = 1, 8 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(158)
  coroutine.yield(x)
  return nil
end
end
do
F.n9 = function(d)
  if d == 0 then
    local x = F.n69(1)
    return x
  end
  local _, y = pcall(F.n9, d - 1)
  return y + 1
end
end
do
F.n69 = function(a)
  mark(159)
  local x = 0
  mark(160)
  do
  for i = 1, 5 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(161)
  do
  for i = 1, 2 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
    local outer = coroutine.wrap(function(o)
      local v = F.n71(1)
      return v
    end)
  mark(162)
    outer(1)
  mark(163)
  mark(164)
    local v = outer()
  mark(165)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(166)
    x = x + F.n73(1)
  mark(167)
  elseif r == 2 then
  mark(168)
    x = x + F.chunk1_prog(F)
  mark(169)
  end
  mark(170)
  do
  local list = {}
  for i = 1, 3 do
    table.insert(list, i * 7 % 11)
    x = x + (next(list) or 0) + select('#', i, x)
  end
  x = x + #table.concat(list, ',') % 3
  end
  mark(171)
  return x
end
end
do
F.n10 = function(a)
  mark(172)
  local x = 0
  mark(173)
  do
  for i = 1, 26 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
  mark(174)
    x = x + F.n76(7)
  mark(175)
  elseif r == 1 then
  mark(176)
    x = x + O:n77(1)
  mark(177)
  elseif r == 2 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n78, 1)
      return v
    end)
  mark(178)
    outer(1)
  mark(179)
  mark(180)
    local v = outer()
  mark(181)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(182)
  do
  for i = 1, 5 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(183)
  do
  for i = 1, 15 do
    x = x + F.h2(i)
  end
  end
  mark(184)
  return x
end
end
do
F.n78 = function(a)
  mark(185)
  local x = 0
  mark(186)
  do
  for i = 1, 2 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(187)
  do
  for i = 1, 2 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(188)
  coroutine.yield(x)
  mark(189)
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
    local outer = coroutine.wrap(function(o)
      local v = F.n81(1)
      return v
    end)
  mark(190)
    outer(1)
  mark(191)
  mark(192)
    local v = outer()
  mark(193)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(194)
    x = x + F.chunk2_prog(F)
  mark(195)
  elseif r == 2 then
  mark(196)
    x = x + F.n85(1)
  mark(197)
  end
  mark(198)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(199)
  do
  for i = 1, 6 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(200)
  coroutine.yield(x)
  return nil
end
end
do
F.n85 = function(a)
  mark(201)
  local x = 0
  mark(202)
  do
  for i = 1, 3 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(203)
  do
  for i = 1, 4 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
  mark(204)
    x = x + F.n86(1)
  mark(205)
  elseif r == 1 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n87, 1)
      return v
    end)
  mark(206)
    outer(1)
  mark(207)
  mark(208)
    local v = outer()
  mark(209)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(210)
    x = x + host_enter(1)
  mark(211)
  end
  mark(212)
  do
  for i = 1, 7 do
    x = x + F.h2(i)
  end
  end
  mark(213)
  do
  for i = 1, 6 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(214)
  return x
end
end
do
F.n87 = function(a)
  mark(215)
  local x = 0
  mark(216)
  do
  for i = 1, 2 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(217)
  coroutine.yield(x)
  mark(218)
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
    local outer = coroutine.wrap(function(a)
      local inner = coroutine.wrap(F.n90)
      local v = inner(a)
      return v
    end)
  mark(219)
    x = x + outer(1)
  mark(220)
  elseif r == 1 then
  mark(221)
    x = x + F.n91(1, 2, x)
  mark(222)
  elseif r == 2 then
    local less = function(a, b)
      local v = F.n93(1)
      x = x + v % 3
      return a < b
    end
    local t = {3, 1, 2}
  mark(223)
    table.sort(t, less)
  mark(224)
  elseif r == 3 then
    local outer = coroutine.wrap(function(o)
      local v = o + 1
      return v
    end)
  mark(225)
    outer(setmetatable({}, {__add = F.n94}))
  mark(226)
  mark(227)
    local v = outer()
  mark(228)
    x = x + (type(v) == 'number' and v or 1)
  end
  mark(229)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(230)
  do
  for i = 1, 1 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(231)
  coroutine.yield(x)
  return nil
end
end
do
F.n11 = function(a)
  mark(232)
  local x = 0
  mark(233)
  do
  for i = 1, 25 do x = x + i % 7 end
  end
  mark(234)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(235)
  coroutine.yield(x)
  mark(236)
  S = S * 16807 % 2147483647
  local r = S % 3
  if r == 0 then
  mark(237)
    x = x + F.n97(1)
  mark(238)
  elseif r == 1 then
    local outer = coroutine.wrap(function(o)
      local _, v = pcall(F.n98, 1)
      return v
    end)
  mark(239)
    outer(1)
  mark(240)
  mark(241)
    local v = outer()
  mark(242)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 2 then
  mark(243)
    x = x + host_enter(1)
  mark(244)
  end
  mark(245)
  do
  for i = 1, 3 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(246)
  coroutine.yield(x)
  return nil
end
end
do
F.n98 = function(a)
  mark(247)
  local x = 0
  mark(248)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(249)
  coroutine.yield(x)
  mark(250)
  S = S * 16807 % 2147483647
  local r = S % 2
  if r == 0 then
  mark(251)
    local _, v = pcall(F.n100, 1)
  mark(252)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(253)
    x = x + F.n101(9)
  mark(254)
  end
  mark(255)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(256)
  do
  for i = 1, 5 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(257)
  coroutine.yield(x)
  return nil
end
end
do
F.n13 = function(a)
  mark(258)
  local x = 0
  mark(259)
  do
  for i = 1, 17 do x = x + i % 7 end
  end
  S = S * 16807 % 2147483647
  local r = S % 4
  if r == 0 then
  mark(260)
    local _, v = pcall(F.n102, 1)
  mark(261)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 1 then
  mark(262)
    x = x + F.n103(1)
  mark(263)
  elseif r == 2 then
  mark(264)
    local _, v = pcall(F.n104, 1)
  mark(265)
    x = x + (type(v) == 'number' and v or 1)
  elseif r == 3 then
    local less = function(a, b)
      local v = F.n106(1)
      x = x + v % 3
      return a < b
    end
    local t = {3, 1, 2}
  mark(266)
    table.sort(t, less)
  mark(267)
  end
  mark(268)
  do
  for i = 1, 5 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(269)
  return x
end
end
do
F.n17 = function(a)
  mark(270)
  local x = 0
  mark(271)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(272)
  do
  for i = 1, 144 do x = x + i % 7 end
  end
  mark(273)
  coroutine.yield(x)
  mark(274)
  mark(275)
  coroutine.yield(x)
  return nil
end
end
do
F.n19 = function(a)
  mark(276)
  local x = 0
  mark(277)
  do
  for i = 1, 22 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(278)
  return x
end
end
do
F.n106 = function(a)
  mark(279)
  local x = 0
  mark(280)
  do
  for i = 1, 160 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(281)
  return x
end
end
do
F.n104 = function(a)
  mark(282)
  local x = 0
  mark(283)
  do
  for i = 1, 146 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(284)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(285)
  return x
end
end
do
F.n103 = function(a)
  mark(286)
  local x = 0
  mark(287)
  do
  for i = 1, 108 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(288)
  do
  for i = 1, 87 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(289)
  return x
end
end
do
F.n102 = function(a)
  mark(290)
  local x = 0
  mark(291)
  do
  for i = 1, 65 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(292)
  do
  for i = 1, 233 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(293)
  error(x, 0)
end
end
do
F.n101 = function(d)
  if d == 0 then
    local x = F.n108(1)
    return x
  end
  local _, y = pcall(F.n101, d - 1)
  return y + 1
end
end
do
F.n21 = function(a)
  mark(294)
  local x = 0
  mark(295)
  do
  for i = 1, 43 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(296)
  return x
end
end
do
F.n108 = function(a)
  mark(297)
  local x = 0
  mark(298)
  do
  for i = 1, 67 do
    x = x + F.h0(i)
  end
  end
  mark(299)
  return x
end
end
do
F.n100 = function(a)
  mark(300)
  local x = 0
  mark(301)
  do
  for i = 1, 141 do x = x + i % 7 end
  end
  mark(302)
  do
  for i = 1, 143 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(303)
  error(x, 0)
end
end
do
F.n97 = function(a)
  mark(304)
  local x = 0
  mark(305)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(306)
  return x
end
end
do
F.n94 = function(a)
  mark(307)
  local x = 0
  mark(308)
  do
  for i = 1, 786 do x = x + i % 7 end
  end
  mark(309)
  do
  for i = 1, 56 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(310)
  coroutine.yield(x)
  mark(311)
  mark(312)
  coroutine.yield(x)
  return nil
end
end
do
F.n22 = function(a, b)
  if b then return nil end
  mark(313)
  local x = 0
  mark(314)
  do
  for i = 1, 115 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(315)
  do
  for i = 1, 10 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(316)
  return x
end
end
do
F.n93 = function(a)
  mark(317)
  local x = 0
  mark(318)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(319)
  do
  for i = 1, 25 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(320)
  return x
end
end
do
F.n24 = function(a, b)
  if b then return nil end
  mark(321)
  local x = 0
  mark(322)
  do
  for i = 1, 567 do x = x + i % 7 end
  end
  mark(323)
  do
  for i = 1, 500 do x = x + i % 7 end
  end
  mark(324)
  return x
end
end
do
F.n28 = function(a)
  mark(325)
  local x = 0
  mark(326)
  do
  for i = 1, 854 do x = x + i % 7 end
  end
  mark(327)
  do
  for i = 1, 531 do x = x + i % 7 end
  end
  mark(328)
  coroutine.yield(x)
  mark(329)
  mark(330)
  coroutine.yield(x)
  return nil
end
end
do
F.n91 = function(...)
  mark(331)
  local x = 0
  x = x + select('#', ...)
  mark(332)
  do
  for i = 1, 124 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(333)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(334)
  return x
end
end
do
F.n33 = function(a)
  mark(335)
  local x = 0
  mark(336)
  do
  for i = 1, 218 do
    x = x + F.h0(i)
  end
  end
  mark(337)
  do
  for i = 1, 533 do x = x + i % 7 end
  end
  mark(338)
  return x
end
end
do
F.n90 = function(a)
  mark(339)
  local x = 0
  mark(340)
  do
  for i = 1, 23 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(341)
  coroutine.yield(x)
  mark(342)
  mark(343)
  coroutine.yield(x)
  return nil
end
end
do
F.n34 = function(d)
  if d == 0 then
    local x = F.n112(1)
    return x
  end
  local _, y = pcall(F.n34, d - 1)
  return y + 1
end
end
do
F.n38 = function(a)
  mark(344)
  local x = 0
  mark(345)
  do
  for i = 1, 191 do
    x = x + F.h0(i)
  end
  end
  mark(346)
  return x
end
end
do
F.n41 = function(a)
  mark(347)
  local x = 0
  mark(348)
  do
  for i = 1, 83 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(349)
  do
  for i = 1, 55 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(350)
  error(x, 0)
end
end
do
F.n112 = function(a)
  mark(351)
  local x = 0
  mark(352)
  do
  for i = 1, 143 do
    local t = {i, i + 1, k = i}
    t[#t + 1] = x
    x = x + t[1] + t.k % 3
  end
  end
  mark(353)
  do
  for i = 1, 325 do x = x + i % 7 end
  end
  mark(354)
  return x
end
end
do
F.n45 = function(a)
  mark(355)
  local x = 0
  mark(356)
  do
  for i = 1, 805 do x = x + i % 7 end
  end
  mark(357)
  return x
end
end
do
F.n46 = function(a)
  mark(358)
  local x = 0
  mark(359)
  do
  for i = 1, 813 do x = x + i % 7 end
  end
  mark(360)
  return x
end
end
do
F.n47 = function(a)
  mark(361)
  local x = 0
  mark(362)
  do
  for i = 1, 696 do x = x + i % 7 end
  end
  mark(363)
  do
  for i = 1, 183 do x = x + i % 7 end
  end
  mark(364)
  coroutine.yield(x)
  mark(365)
  mark(366)
  coroutine.yield(x)
  return nil
end
end
do
F.n51 = function(...)
  mark(367)
  local x = 0
  x = x + select('#', ...)
  mark(368)
  do
  for i = 1, 63 do
    local f = function(y)
      return y % 9 + x % 2
    end
    x = x + f(i)
  end
  end
  mark(369)
  return x
end
end
do
F.n86 = function(a)
  mark(370)
  local x = 0
  mark(371)
  do
  for i = 1, 66 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(372)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(373)
  return x
end
end
do
F.n52 = function(a)
  mark(374)
  local x = 0
  mark(375)
  do
  for i = 1, 86 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(376)
  coroutine.yield(x)
  mark(377)
  mark(378)
  coroutine.yield(x)
  return nil
end
end
do
F.n57 = function(a)
  mark(379)
  local x = 0
  mark(380)
  do
  for i = 1, 141 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(381)
  return x
end
end
do
F.n58 = function(d)
  if d == 0 then
    local x = F.n114(1)
    return x
  end
  local _, y = pcall(F.n58, d - 1)
  return y + 1
end
end
do
F.n114 = function(a)
  mark(382)
  local x = 0
  mark(383)
  do
  for i = 1, 11 do
    local s = 'k' .. i .. x % 5
    x = x + #s + #tostring(i)
  end
  end
  mark(384)
  return x
end
end
do
F.n60 = function(a)
  mark(385)
  local x = 0
  mark(386)
  do
  for i = 1, 682 do x = x + i % 7 end
  end
  mark(387)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(388)
  return x
end
end
do
F.n63 = function(d)
  if d == 0 then
    local x = F.n115(1)
    return x
  end
  local _, y = pcall(F.n63, d - 1)
  return y + 1
end
end
do
F.n66 = function(a)
  mark(389)
  local x = 0
  mark(390)
  do
  for i = 1, 58 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(391)
  error(x, 0)
end
end
do
F.n115 = function(a)
  mark(392)
  local x = 0
  mark(393)
  do
  for i = 1, 608 do x = x + i % 7 end
  end
  mark(394)
  do
  for i = 1, 567 do x = x + i % 7 end
  end
  mark(395)
  return x
end
end
do
F.chunk2_prog = load([[
local F = ...
local v = F.n83(1)
v = v % 100
return v
]], '=chunk2_prog')
end
do
F.n67 = function(a)
  mark(396)
  local x = 0
  mark(397)
  do
  for i = 1, 157 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(398)
  error(x, 0)
end
end
do
F.n83 = function(a)
  mark(399)
  local x = 0
  mark(400)
  do
  for i = 1, 131 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(401)
  return x
end
end
do
F.n81 = function(a)
  mark(402)
  local x = 0
  mark(403)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(404)
  coroutine.yield(x)
  mark(405)
  mark(406)
  coroutine.yield(x)
  return nil
end
end
do
F.n68 = function(a, b)
  if b then return nil end
  mark(407)
  local x = 0
  mark(408)
  do
  for i = 1, 318 do
    x = x + math.floor(math.sqrt(i) * 1.5) - (i ^ 0.5) / 3
  end
  end
  mark(409)
  return x
end
end
do
F.n71 = function(a)
  mark(410)
  local x = 0
  mark(411)
  do
  for i = 1, 372 do x = x + i % 7 end
  end
  mark(412)
  coroutine.yield(x)
  mark(413)
  mark(414)
  coroutine.yield(x)
  return nil
end
end
do
F.n73 = function(a)
  mark(415)
  local x = 0
  mark(416)
  do
  for i = 1, 3 do
    setmetatable({}, {__gc = F.fin})
    x = x + i
  end
  end
  mark(417)
  return x
end
end
do
F.n74 = function(a)
  mark(418)
  local x = 0
  mark(419)
  do
  for i = 1, 620 do x = x + i % 7 end
  end
  mark(420)
  return x
end
end
do
F.n77 = function(a)
  mark(421)
  local x = 0
  mark(422)
  do
  for i = 1, 80 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(423)
  return x
end
end
do
F.n76 = function(d)
  if d == 0 then
    local x = F.n116(1)
    return x
  end
  local _, y = pcall(F.n76, d - 1)
  return y + 1
end
end
do
F.chunk1_prog = load([[
local F = ...
local v = F.n74(1)
v = v % 100
return v
]], '=chunk1_prog')
end
do
F.n116 = function(a)
  mark(424)
  local x = 0
  mark(425)
  do
  for i = 1, 26 do
    local s = string.rep('ab', i % 13)
    x = x + #s:upper()
    x = x + (s:byte(2) or 0)
  end
  end
  mark(426)
  return x
end
end
F.top = function(yields)
  local x = 0
  for i = 1, 20 do
    host_yields = yields
  mark(427)
    x = x + F.root(1)
  mark(428)
    mark(0)
    if yields then coroutine.yield(0) end
  end
  return x
end
top = F.top
