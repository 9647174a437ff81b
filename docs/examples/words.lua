-- SPDX-License-Identifier: GPL-2.0-only
-- The demo's program: makes text, counts its words, sorts them and packs them, so that LuaJIT's
-- interpreter, its traces, its string and table code and its garbage collector all have work.

local syllables = { "ka", "lo", "mi", "ne", "ru", "sa", "to", "vi" }
local seed = 42

local function random(n)
    seed = (seed * 16807) % 2147483647
    return seed % n + 1
end

local function make_word()
    local parts = {}
    for i = 1, 1 + random(3) do
        parts[i] = syllables[random(#syllables)]
    end
    return table.concat(parts)
end

local function make_text(words)
    local text = {}
    for i = 1, words do
        text[i] = make_word()
    end
    return table.concat(text, " ")
end

local function count_words(text)
    local counts = {}
    for word in text:gmatch("%a+") do
        counts[word] = (counts[word] or 0) + 1
    end
    return counts
end

local function by_count(counts)
    local list = {}
    for word, n in pairs(counts) do
        list[#list + 1] = { word = word, n = n }
    end
    table.sort(list, function(a, b)
        return a.n > b.n or (a.n == b.n and a.word < b.word)
    end)
    return list
end

local function pack(list)
    local out = {}
    for i, entry in ipairs(list) do
        out[i] = string.format("%s=%d", entry.word:upper():reverse(), entry.n)
    end
    return table.concat(out, ";")
end

-- a tight numeric loop: one trace
local function checksum(text)
    local a, b = 1, 0
    for i = 1, #text do
        a = (a + text:byte(i)) % 65521
        b = (b + a) % 65521
    end
    return b * 65536 + a
end

local total = 0
for round = 1, tonumber(arg and arg[1]) or 40 do
    local text = make_text(20000)
    total = total + checksum(text) + checksum(pack(by_count(count_words(text))))
end
print(("checksum %.0f"):format(total))
