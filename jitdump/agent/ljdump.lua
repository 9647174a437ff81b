-- SPDX-License-Identifier: GPL-2.0-only
--
-- The LuaJIT agent: writes a jitdump of what LuaJIT's compiler makes, for ljperf and perf.
--
--     luajit -jljdump app.lua                  jit-PID.dump, in the current folder
--     luajit -jljdump=dir=/tmp,mapped app.lua
--     require("jit.ljdump").start("dir=/tmp")  in a host program; once in each VM
--
-- dir=PATH  where the file goes; else $JITDUMPDIR, else the current folder, else /tmp
-- mapped    ask perf inject to map the unwinding information, too (see ljdump(1))
-- alone     no helper VM, however much is compiled
-- quiet     no word on standard error
--
-- Every trace gets a LOAD with its machine code, one line, and CFI; and a record of our own with
-- its snapshots, from which ljperf tells the Lua functions that are inlined at an address. What the
-- records hold: docs/ljdump.md. This side copies memory and decodes next to nothing: an event
-- handler is interpreted, so each operation in it costs the program some 50 ns. A program that goes
-- on compiling gets a helper after a while: this module once more, in a VM of its own beside the
-- program's, where it is compiled.
--
-- LuaJIT tells a Lua program neither a trace's frame size nor its snapshots, so they are read from
-- the VM's own memory. Nothing is believed that was not compared with what jit.util says of the
-- same object; until then memory is read through a pipe, which refuses a bad address.

local M = {}

-- What every handler needs, and nothing that the program may replace later.
local type, tonumber, tostring, pcall, error, pairs = type, tonumber, tostring, pcall, error, pairs
local find, byte, char, match, sub = string.find, string.byte, string.char, string.match, string.sub
local format, concat, floor = string.format, table.concat, math.floor
local getenv, stderr, registry, debug_info = os.getenv, io.stderr, debug.getregistry, debug.getinfo

local RECORD = { LOAD = 0, DEBUG = 2, UNWIND = 4, LAYOUT = 0x4c4a00, FUNCTION = 0x4c4a01, TRACE = 0x4c4a02, STUBS = 0x4c4a03, FLUSH = 0x4c4a04 }
local REF_BASE = 0x8000        -- lj_ir.h REF_BIAS: constants are numbered below
local HIGH = 4294967296
local WINDOW = 0x40000         -- how much of the file is mapped at once
local CHUNKNAME_MAX = 1000     -- bytes of a chunkname that are written
local CACHE_MAX = 20000        -- names and addresses remembered before all are forgotten
local FUNCTIONS_MAX = 4000     -- and functions, which cost the garbage collector more
local HELPER_AFTER = 1000     -- traces, before a VM for the agent's own work is worth its beginning
local STOP, FLUSH, CLOSE, PATH = 1, 2, 3, 4 -- what the helper is asked for

local ffi, C, util, cast, copy, ffi_string, u8p, u32p
local vm        -- layout of this VM's objects, see discover()
local out       -- the open file
local helper    -- the VM that writes it, when this one does not any more
local helper_name
local role      -- "helper" in that VM
local said = false

local function say(quiet, ...)
  if not quiet then stderr:write("ljdump: ", format(...), "\n") end
end

-- ---- declarations ---------------------------------------------------------------------------

-- Names of our own, so that what the program declares itself does not matter.
local function declare()
  ffi.cdef[[
    struct ljdump_time { int64_t sec; int64_t nsec; };
    int ljdump_open(const char *, int, int) __asm__("open");
    int ljdump_close(int) __asm__("close");
    long ljdump_readlink(const char *, char *, size_t) __asm__("readlink");
    int ljdump_mkdir(const char *, unsigned) __asm__("mkdir");
    int ljdump_truncate(int, long) __asm__("ftruncate");
    int ljdump_reserve(int, long, long) __asm__("posix_fallocate");
    void *ljdump_map(void *, size_t, int, int, int, long) __asm__("mmap");
    int ljdump_unmap(void *, size_t) __asm__("munmap");
    int ljdump_advise(void *, size_t, int) __asm__("madvise");
    int ljdump_pipe(int *, int) __asm__("pipe2");
    long ljdump_write(int, const void *, size_t) __asm__("write");
    long ljdump_read(int, void *, size_t) __asm__("read");
    int ljdump_pid(void) __asm__("getpid");
    size_t ljdump_span(const char *, const char *) __asm__("strcspn");
    long ljdump_syscall(long) __asm__("syscall");
    int ljdump_clock(int, struct ljdump_time *) __asm__("clock_gettime");

    void *ljdump_vm_open(void) __asm__("luaL_newstate");
    void ljdump_vm_libraries(void *) __asm__("luaL_openlibs");
    int ljdump_vm_load(void *, const char *) __asm__("luaL_loadfile");
    void ljdump_vm_string(void *, const char *, size_t) __asm__("lua_pushlstring");
    void ljdump_vm_value(void *, int) __asm__("lua_pushvalue");
    int ljdump_vm_call(void *, int, int, int) __asm__("lua_pcall");
    const char *ljdump_vm_text(void *, int, size_t *) __asm__("lua_tolstring");
    void ljdump_vm_top(void *, int) __asm__("lua_settop");
    void ljdump_vm_close(void *) __asm__("lua_close");
    struct ljdump_request { uint32_t what, trace; };

    struct __attribute__((packed)) ljdump_function {
      uint32_t id, size; uint64_t time;
      uint64_t bytecode; uint32_t instructions, first_line, lines, width, name_size, chunk_size;
    };
    struct __attribute__((packed)) ljdump_trace { uint32_t id, size; uint64_t time, index; };
    struct __attribute__((packed)) ljdump_load {
      uint32_t id, size; uint64_t time; uint32_t pid, tid; uint64_t vma, address, code_size, index;
    };
    /* What stands before a trace's name and code: UNWINDING_INFO, DEBUG_INFO, the LOAD's head. */
    struct __attribute__((packed)) ljdump_head {
      uint32_t unwind_id, unwind_size; uint64_t unwind_time, data, header, mapped;
      uint8_t cie[48];
      uint32_t length, cie_offset; int32_t start; uint32_t range; uint8_t none, rules[31];
      uint32_t end;
      uint8_t version[4]; int32_t frame; uint32_t count; int32_t code, entry;
      uint32_t debug_id, debug_size; uint64_t debug_time, debug_address, rows, row; uint32_t line, discriminator;
      uint8_t file[64];
      uint32_t id, size; uint64_t time; uint32_t pid, tid; uint64_t vma, address, code_size, index;
    };
  ]]
end

local function libraries_load()
  ffi, util = require("ffi"), require("jit.util")
  C, cast, copy, ffi_string = ffi.C, ffi.cast, ffi.copy, ffi.string
  u8p, u32p = ffi.typeof("uint8_t *"), ffi.typeof("uint32_t *")
  if not pcall(ffi.typeof, "struct ljdump_request") then declare() end -- its last
end

-- ---- the file -------------------------------------------------------------------------------

-- The file is mapped, shared, a window at a time: no system call a trace, and what was written
-- survives any death of the process. Behind the last record stand zeros, until the VM is closed.
-- Its blocks are reserved first: a full disk must not kill the program.

-- It is opened anew each time, as a program that becomes a daemon closes what it does not know, and
-- the number then is another file's.

local function with_file(action, from, size)
  local fd = C.ljdump_open(out.path, 0x80002, 0) -- O_RDWR O_CLOEXEC
  if fd < 0 then error("the dump is not there any more", 0) end
  local failed, result = action(fd, from, size)
  C.ljdump_close(fd)
  if failed then error(failed, 0) end
  return result
end

local function file_map(fd, page, size)
  if C.ljdump_reserve(fd, page, size) ~= 0 then return "no room for the dump" end
  return nil, C.ljdump_map(nil, size, 3, 0x8001, fd, page) -- and its pages made: a fault each costs more
end

local function file_cut(fd, size)
  C.ljdump_truncate(fd, size)
end

local function window_move(need)
  local page = out.at - out.at % 4096
  local size = need + 8192 > WINDOW and need + 12288 - need % 4096 or WINDOW
  local map = with_file(file_map, page, size)
  if cast("intptr_t", map) == -1 then error("the dump cannot be mapped", 0) end
  if out.map then C.ljdump_unmap(out.map, out.map_size) end
  out.map, out.map_size, out.base, out.limit = map, size, page, page + size - 16 -- always room for a FLUSH
  out.bytes = cast(u8p, map)
end

-- A pointer to `size` bytes of the file, zeros so far; they count when out.at has moved on.
local function room(size)
  if out.at + size > out.limit then window_move(size) end
  return out.bytes + (out.at - out.base)
end

local function now()
  C.ljdump_clock(1, out.time)
  local t = out.time32
  return (t[0] + t[1] * HIGH) * 1e9 + t[2]
end

-- perf knows the file by an executable mapping of it, named .../jit-PID.dump.
local function file_try(path)
  local fd = C.ljdump_open(path, 0x800c2, 420) -- O_RDWR O_CREAT O_EXCL O_CLOEXEC; 0644
  if fd < 0 then return nil end
  local name = ffi.new("char[4096]")
  local size = C.ljdump_readlink("/proc/self/fd/" .. fd, name, 4095)
  out.at, out.limit, out.map, out.path = 0, 0, nil, size > 0 and ffi_string(name, size) or path
  local ok = pcall(window_move, 4096)
  local marker = ok and C.ljdump_map(nil, 4096, 5, 2, fd, 0)
  C.ljdump_close(fd)
  if ok and cast("intptr_t", marker) ~= -1 then
    out.marker = marker
    return true
  end
  os.remove(path) -- a full disk, or one that nothing may be executed from
  return nil
end

-- Every VM has a file: a second one of a process stands in a folder of its own.
local function file_create(dir, pid)
  local name = format("/jit-%d.dump", pid)
  if file_try(dir .. name) then return true end
  for i = 1, 1000 do
    local folder = format("%s/jit-%d-%d", dir, pid, i)
    if C.ljdump_mkdir(folder, 493) == 0 then return file_try(folder .. name) or os.remove(folder) and nil end
    local probe = C.ljdump_open(folder, 0x90000, 0) -- O_DIRECTORY O_CLOEXEC: is it there?
    if probe < 0 then return nil end
    C.ljdump_close(probe)
  end
end

-- A page that is zero in the child of a fork; without one (Linux before 4.14) the pid is asked.
local function fork_watch()
  local page = C.ljdump_map(nil, 4096, 3, 0x22, -1, 0)
  out.watch = nil
  if cast("intptr_t", page) == -1 then return end
  if C.ljdump_advise(page, 4096, 18) ~= 0 then -- MADV_WIPEONFORK
    C.ljdump_unmap(page, 4096)
    return
  end
  out.watch = cast(u8p, page)
  out.watch[0] = 1
end

local function forked()
  if out.watch then return out.watch[0] == 0 end
  return C.ljdump_pid() ~= out.pid
end

-- What the file's state is beside its place; the heads' constant parts that depend on the process.
local function out_create(pid, options)
  local time = ffi.new("struct ljdump_time")
  out = { time = time, time32 = cast(u32p, time), pid = pid, options = options, functions = {}, cached = 0, stubs = 0, index = 0, at = 0, limit = 0 }
  out.tid = tonumber(C.ljdump_syscall(186))
  vm.head.pid, vm.head.tid, vm.head.mapped = pid, out.tid, options.mapped and vm.head.data or 0
end

local function file_begin(options)
  local pid = C.ljdump_pid()
  out_create(pid, options)
  local dirs = { options.dir or getenv("JITDUMPDIR") or ".", "/tmp" }
  if not file_create(dirs[1], pid) and (options.dir or not file_create(dirs[2], pid)) then
    error(format("no file can be made and mapped executable in %s", options.dir or concat(dirs, " or ")), 0)
  end
  local h = cast(u32p, room(40))
  h[0], h[1], h[2], h[3], h[4], h[5] = 0x4A695444, 1, 40, 62, 0, pid
  cast("uint64_t *", h)[3] = now()
  out.at = 40
  fork_watch()
end

local function file_release()
  if out.map then C.ljdump_unmap(out.map, out.map_size) end
  if out.watch then C.ljdump_unmap(out.watch, 4096) end
  out.map, out.watch = nil, nil
end

-- Of the records' end; the child of a fork only lets go.
local function file_end()
  file_release()
  if out.pid == C.ljdump_pid() then with_file(file_cut, out.at) end
end

-- ---- reading the VM -------------------------------------------------------------------------

-- Through a pipe: a bad address is an error, not a crash. Nil, or `size` bytes as a string.
local probe_pipe
local function read_safely(address, size)
  if not probe_pipe then
    probe_pipe = ffi.new("int[2]")
    if C.ljdump_pipe(probe_pipe, 0x80000) ~= 0 then error("no pipe", 0) end
  end
  local wrote = tonumber(C.ljdump_write(probe_pipe[1], cast("void *", address), size))
  if wrote <= 0 then return nil end
  local bytes = ffi.new("uint8_t[?]", wrote)
  local got = tonumber(C.ljdump_read(probe_pipe[0], bytes, wrote))
  return got == size and ffi_string(bytes, size) or nil
end

local function probe_end()
  if not probe_pipe then return end
  C.ljdump_close(probe_pipe[0])
  C.ljdump_close(probe_pipe[1])
  probe_pipe = nil
end

local function number_at(bytes, offset, size)
  local v = 0
  for i = size, 1, -1 do v = v * 256 + byte(bytes, offset + i) end
  return v
end

local function address_told(object)
  return tonumber(match(tostring(object), "0x%x+"))
end

-- The same in a few operations: an object's address stands in what refers to it, here a table's array.
local box, box_slot, box_high = { false }, nil, 0
local function address_of(object)
  if not box_slot then return address_told(object) end
  box[1] = object
  return box_slot[0] + box_slot[1] % 0x8000 * box_high
end

-- Where that array stands: the field never moved; it is tried with what is known.
local function find_box(m)
  local array = number_at(read_safely(address_told(box), 24), m.pointer == 8 and 16 or 8, m.pointer)
  box[1] = find_box
  local slot = array % 8 == 0 and read_safely(array + 8, 8)
  local high = m.pointer == 8 and HIGH or 0
  if slot and number_at(slot, 0, 4) + number_at(slot, 4, 4) % 0x8000 * high == address_told(find_box) then
    box_slot, box_high = cast(u32p, array + 8), high
  end
end

-- Offsets inside objects, by mode; these never changed (LuaJIT 2.0 to 2026). What did change,
-- J->trace, the string header and the snapshots, is found in the objects themselves.
local MODES = {
  [true] = { pointer = 8, l_g = 0x10, f_ffid = 0xa, f_pc = 0x20, p_bc = 0x68, p_sizebc = 0xc, p_k = 0x20, p_sizept = 0x38, p_flags = 0x3d,
    p_params = 0xa, p_chunk = 0x40, p_first = 0x48, p_lines = 0x4c, p_lineinfo = 0x50, p_varinfo = 0x60, p_print = 0x28, gct = 9,
    t_size = 0x78, t_nsnap = { { 0xa, 0x2c, 4 }, { 0x2c, 0x2e, 2 } }, t_ir = 0x20, t_nk = 0x28, t_snap = 0x30, t_map = 0x38, t_startpt = 0x40,
    t_startpc = 0x48, t_szmcode = 0x54, t_mcode = 0x58, t_spadjust = 0x66, t_traceno = 0x68, t_link = 0x6a, t_root = 0x6c },
  [false] = { pointer = 4, l_g = 8, f_ffid = 6, f_pc = 0x10, p_bc = 0x40, p_sizebc = 8, p_k = 0x10, p_sizept = 0x20, p_flags = 0x25,
    p_params = 6, p_chunk = 0x28, p_first = 0x2c, p_lines = 0x30, p_lineinfo = 0x34, p_varinfo = 0x3c, p_print = 0x18, gct = 5,
    t_size = 0x60, t_nsnap = { { 6, 0x1c, 4 }, { 0x1c, 0x1e, 2 } }, t_ir = 0x10, t_nk = 0x18, t_snap = 0x20, t_map = 0x28, t_startpt = 0x30,
    t_startpc = 0x34, t_szmcode = 0x3c, t_mcode = 0x40, t_spadjust = 0x4e, t_traceno = 0x50, t_link = 0x52, t_root = 0x54 },
}

-- Holds the layout of functions, prototypes and strings against what jit.util says of one.
local function check_functions(m)
  local sample = util.funcinfo(file_begin)
  local func, proto = address_of(file_begin), address_of(sample.proto)
  local f = read_safely(func, m.f_pc + m.pointer)
  local p = read_safely(proto, m.p_bc)
  if not (f and p and byte(p, m.gct + 1) == 7 and byte(f, m.gct + 1) == 8 and number_at(f, m.f_pc, m.pointer) == proto + m.p_bc and
      number_at(p, m.p_sizebc, 4) == sample.bytecodes and number_at(p, m.p_first, 4) == sample.linedefined and
      number_at(p, m.p_first, 4) + number_at(p, m.p_lines, 4) == sample.lastlinedefined and byte(p, m.p_params + 1) == sample.params) then
    error("this LuaJIT lays functions out in a way that is not known", 0)
  end
  local chunk, source = number_at(p, m.p_chunk, m.pointer), sample.source
  for _, at in pairs(m.pointer == 8 and { { 0x14, 0x18 }, { 0x10, 0x18 } } or { { 0x10, 0x14 }, { 0xc, 0x10 } }) do
    local s = read_safely(chunk, at[2] + #source)
    if s and number_at(s, at[1], 4) == #source and sub(s, at[2] + 1) == source then m.s_len, m.s_text = at[1], at[2] end
  end
  if not m.s_len then error("this LuaJIT lays strings out in a way that is not known", 0) end
end

-- Opcodes of what names functions, out of code whose instructions are known.
local function find_opcodes(m)
  local function op(f, at) return util.funcbc(f, at) % 256 end
  local global = loadstring("function G() end", "=")
  local field = loadstring("local t t.x = function() end", "=")
  local upvalue = loadstring("local u return function() u = function() end end", "=")()
  m.FUNCF = op(upvalue, 0)
  m.FNEW, m.GSET, m.TSETS, m.USETV = op(global, 1), op(global, 2), op(field, 3), op(upvalue, 2)
  m.TGETS = op(loadstring("local t return t.x", "="), 2)
  m.UGET = op(loadstring("local u return function() return u end", "=")(), 1)
  m.GGET = op(loadstring("return x", "="), 1)
  m.fnew = char(m.FNEW)
  if op(field, 2) ~= m.FNEW or op(upvalue, 1) ~= m.FNEW then m.fnew = nil end -- no names, then
end

-- Builtins by number, as their libraries call them.
local function find_builtins(m)
  m.builtins = {}
  local function add(prefix, t)
    for name, f in pairs(t) do
      local id = type(name) == "string" and type(f) == "function" and match(tostring(f), "builtin#(%d+)")
      if id and not m.builtins[tonumber(id)] then m.builtins[tonumber(id)] = prefix .. name end
    end
  end
  for _, lib in pairs{ "string", "table", "math", "io", "os", "coroutine", "debug", "bit", "jit" } do
    local t = package.loaded[lib]
    if type(t) == "table" then add(lib .. ".", t) end
  end
  add("", _G)
end

-- The array of traces: the pointer in the VM's state that leads to trace `tr`, whose code is known.
-- Beside it stands that of the exit stubs' groups, which a helper has to read itself.
local function find_traces(m, tr)
  local code, address = util.tracemc(tr)
  local stub = util.traceexitstub(0)
  local g = number_at(read_safely(address_of(coroutine.create(find_traces)), 0x18), m.l_g, m.pointer)
  local state = code and g % 8 == 0 and read_safely(g, 0xf08) or ""
  for at = 0x200, #state - 16, 8 do
    local array = number_at(state, at, 8)
    local slot = array % 8 == 0 and array > 0 and array < 0x7fffffffffff and number_at(state, at + 12, 4) > tr and
      read_safely(array + tr * m.pointer, m.pointer)
    local t = slot and number_at(slot, 0, m.pointer)
    local bytes = t and t > 0 and t % 8 == 0 and read_safely(t, m.t_size)
    if bytes and byte(bytes, m.gct + 1) == 9 and number_at(bytes, m.t_mcode, 8) == address and
        number_at(bytes, m.t_szmcode, 4) == #code and number_at(bytes, m.t_traceno, 2) == tr then
      for behind = 0x200, #state - 128, 8 do
        if stub and stub > 0 and number_at(state, behind, 8) == stub then m.stubs_at = g + behind end
      end
      return g + at, bytes
    end
  end
end

-- Which snapshots this version has: their number and sizes must add up.
local function find_snapshots(m, bytes)
  local size = number_at(bytes, m.t_map, 8) - number_at(bytes, m.t_snap, 8)
  for _, at in pairs(m.t_nsnap) do
    local nr = number_at(bytes, at[1], 2)
    local each = nr > 0 and size / nr
    if each == 12 or each == 8 then
      local first = read_safely(number_at(bytes, m.t_snap, 8), each)
      local kind = each == 8 and 0 or first and number_at(first, 6, 2) ~= 0 and 1 or 2
      if first and (kind == 0) == (at[3] == 2) then
        m.t_nsnap, m.t_nmap, m.nmap_size = at[1], at[2], at[3]
        m.snap_size, m.snap_mapofs_size = each, kind == 0 and 2 or 4
        m.snap_mcofs, m.snap_nent = kind == 2 and 6 or 0, kind == 0 and 6 or kind == 1 and 8 or 10
        return true
      end
    end
  end
end

local CIE = "\0\0\0\0\1zR\0\1\120\16\1\27\12\7\96\144\1\134\2\131\3\143\4\142\5\140\10\141"

-- Records whose constant parts are filled in once.
local function heads_create(m)
  local h = ffi.new("struct ljdump_head")
  local function at(field) return ffi.offsetof(h, field) end
  m.head, m.own, m.load, m.func = h, ffi.new("struct ljdump_trace"), ffi.new("struct ljdump_load"), ffi.new("struct ljdump_function")
  m.head_size, m.frame_size, m.start_at = ffi.sizeof(h), at("version") - at("cie"), at("start") - at("cie")
  h.unwind_id, h.unwind_size, h.data, h.header = RECORD.UNWIND, at("debug_id"), m.frame_size + 20, 20
  -- Registers where BC_JLOOP and the interpreter's entry saved them: CFA = rsp + 96 + spadjust.
  cast(u32p, h.cie)[0] = 44
  copy(h.cie + 4, CIE .. char(m.pointer == 8 and 11 or 9), #CIE + 1)
  h.length, h.cie_offset = at("end") - at("cie_offset"), at("cie_offset") - at("cie")
  copy(h.version, "\1\27\3\59", 4)
  h.frame, h.count, h.entry = -(m.frame_size + 4), 1, at("length") - at("cie") - m.frame_size
  h.debug_id, h.debug_size, h.rows = RECORD.DEBUG, at("id") - at("debug_id"), 1
  h.id = RECORD.LOAD
  m.own.id, m.func.id = RECORD.TRACE, RECORD.FUNCTION
end

-- ---- functions ------------------------------------------------------------------------------

-- Memory that stands; only for objects that the VM itself refers to.
local function pointer_at(at)
  at = cast(u32p, at)
  return vm.pointer == 8 and at[0] + at[1] * HIGH or at[0]
end

local function string_at(address, most)
  local n = cast(u32p, address + vm.s_len)[0]
  return ffi_string(cast(u8p, address + vm.s_text), n < most and n or most), n
end

-- What makes a prototype itself: its p_print bytes from p_chunk on, which are its chunk, its lines,
-- and where its debug information stands, inside of it. A stripped one has but the chunk.
local function write_function(bytecode, instructions, first, lines, width, lineinfo, name, chunk)
  local h, size = vm.func, width * (instructions > 0 and instructions - 1 or 0)
  local before = ffi.sizeof(h) + #name + #chunk + size
  local whole = before + 4 * instructions
  local p = room(whole)
  h.size, h.time, h.bytecode = whole, out.when, bytecode
  h.instructions, h.first_line, h.lines, h.width = instructions, first, lines, width
  h.name_size, h.chunk_size = #name, #chunk
  copy(p + ffi.sizeof(h), name, #name)
  copy(p + (ffi.sizeof(h) + #name), chunk, #chunk)
  if size > 0 then copy(p + (before - size), lineinfo, size) end
  if instructions > 0 then copy(p + before, cast(u8p, bytecode), 4 * instructions) end
  copy(p, h, ffi.sizeof(h))
  out.at = out.at + whole
end

-- The chunkname is kept with what was written: so its address stays its own, and equal prints are of
-- the same function. One that is a whole source text is not: such functions are written each time.
local function write_proto(proto, at, print)
  local chunk, whole = string_at(pointer_at(at + vm.p_chunk), CHUNKNAME_MAX)
  local sizebc, first = cast(u32p, at + vm.p_sizebc)[0], cast(u32p, at + vm.p_first)[0]
  local lines, lineinfo = cast(u32p, at + vm.p_lines)[0], pointer_at(at + vm.p_lineinfo)
  local width = lineinfo == 0 and 0 or lines < 256 and 1 or lines < 65536 and 2 or 4
  local f = { chunk = chunk, bytecode = proto + vm.p_bc, last = sizebc - 2, first = first, width = width, name = vm.names[print], print = print,
    at = at + vm.p_chunk, lineinfo = cast(width < 2 and u8p or width == 2 and "uint16_t *" or u32p, lineinfo) }
  write_function(f.bytecode, sizebc, first, lines, width, f.lineinfo, f.name or "", chunk)
  if out.cached > FUNCTIONS_MAX then out.functions, out.cached = {}, 0 end
  if whole <= CHUNKNAME_MAX then out.functions[proto], out.cached = f, out.cached + 1 end
  return f
end

-- A prototype that is written: now, or before, and is the same still.
local function function_of(proto)
  local f = out.functions[proto]
  if f and f.print and ffi_string(f.at, vm.p_print) == f.print then return f end
  local at = cast(u8p, proto)
  return write_proto(proto, at, ffi_string(at + vm.p_chunk, vm.p_print))
end

local function line_of(f, pc)
  local at = (pc - f.bytecode) / 4 - 1
  if f.width == 0 or at < 0 or at > f.last then return f.first > 0 and f.first < 0xffffffff and f.first or 0 end
  return f.first + f.lineinfo[at]
end

-- ---- names, where functions are made --------------------------------------------------------

-- Live locals of a prototype, from its debug information: {name, first, end}, in order.
local FIXED = { "(for index)", "(for limit)", "(for step)", "(for generator)", "(for state)", "(for control)" }
local function variables(proto)
  local start = pointer_at(proto + vm.p_varinfo)
  local list, at, pc = {}, 1, 0
  if start == 0 then return list end
  local s = ffi_string(cast(u8p, start), proto + cast(u32p, proto + vm.p_sizept)[0] - start)
  local function uleb()
    local _, last, v = find(s, "^([\128-\255]*[%z\1-\127])", at)
    local n = 0
    for i = #v, 1, -1 do n = n * 128 + byte(v, i) % 128 end
    at = last + 1
    return n
  end
  while at <= #s and byte(s, at) ~= 0 do
    local name = FIXED[byte(s, at)]
    local _, last = find(s, "^[^%z]*%z", at)
    if name then at = at + 1 else name, at = sub(s, at, last - 1), last + 1 end
    pc = pc + uleb()
    list[#list + 1] = { name, pc, pc + uleb() }
  end
  return list
end

local function local_at(list, slot, pc)
  for i = 1, #list do
    local v = list[i]
    if v[2] > pc then return nil end
    if pc < v[3] then
      if slot == 0 then return v[1], v[2] end
      slot = slot - 1
    end
  end
end

-- What stands in a slot at `pc`, as the source calls it: `M`, `M.sub`. Looks back over the few
-- instructions that fetch it.
local function slot_name(pt, bc, list, slot, pc, depth)
  local name = local_at(list, slot, pc)
  if name then return name end
  for at = pc - 1, pc > 4 and pc - 4 or 1, -1 do
    local ins = bc[at]
    local op, a, d = ins % 256, floor(ins / 256) % 256, floor(ins / 65536)
    if a == slot then
      if op == vm.UGET then return util.funcuvname(pt, d) end
      if op == vm.GGET then return util.funck(pt, -d - 1) end
      if op ~= vm.TGETS or depth > 4 then return nil end
      local owner = slot_name(pt, bc, list, floor(d / 256), at, depth + 1)
      local key = util.funck(pt, -(d % 256) - 1)
      return owner and owner .. "." .. key
    end
  end
end

-- The name that the instruction behind FNEW gives the function.
local function stored_name(pt, bc, list, at, method)
  local slot, ins = floor(bc[at] / 256) % 256, bc[at + 1]
  local op, a, d = ins % 256, floor(ins / 256) % 256, floor(ins / 65536)
  if op == vm.GSET and a == slot then return util.funck(pt, -d - 1) end
  if op == vm.USETV and d == slot then return util.funcuvname(pt, a) end
  if op == vm.TSETS and a == slot then
    local owner = slot_name(pt, bc, list, floor(d / 256), at, 0)
    local key = util.funck(pt, -(d % 256) - 1)
    return owner and owner .. (method and ":" or ".") .. key or key
  end
  local name, from = local_at(list, slot, at + 1)
  return from == at + 1 and name or nil
end

local function name_keep(print, name)
  if vm.nr_names >= CACHE_MAX then vm.names, vm.nr_names = {}, 0 end
  vm.names[print], vm.nr_names = name, vm.nr_names + 1
end

local function name_children(pt)
  local proto = address_of(pt)
  if cast(u8p, proto + vm.p_flags)[0] % 2 == 0 then return end -- no PROTO_CHILD
  local size = cast(u32p, proto + vm.p_sizebc)[0]
  local bc, k = cast(u32p, proto + vm.p_bc), pointer_at(proto + vm.p_k)
  local s, list = ffi_string(bc, size * 4), nil
  local at = find(s, vm.fnew, 1, true)
  while at do
    if at % 4 == 1 and at + 7 <= #s then
      list = list or variables(proto)
      local pc = (at - 1) / 4
      local child = pointer_at(k - (floor(bc[pc] / 65536) + 1) * vm.pointer)
      local var = pointer_at(child + vm.p_varinfo)
      local method = cast(u8p, child + vm.p_params)[0] > 0 and var ~= 0 and ffi_string(cast(u8p, var), 5) == "self\0"
      local name = stored_name(pt, bc, list, pc, method)
      if type(name) == "string" then
        local keep = helper and helper_name or name_keep
        keep(ffi_string(cast(u8p, child + vm.p_chunk), vm.p_print), name)
      end
    end
    at = find(s, vm.fnew, at + 1, true)
  end
end

-- ---- traces ---------------------------------------------------------------------------------

local function trace_pointer(tr)
  if tr >= vm.size[0] then return nil end
  if vm.pointer == 8 then
    local t = vm.traces[0][tr]
    return t ~= nil and t or nil
  end
  local t = vm.traces[0][tr]
  return t ~= 0 and cast(u8p, t) or nil
end

local function uleb(n)
  local s = ""
  while n > 127 do s, n = s .. char(n % 128 + 128), floor(n / 128) end
  return s .. char(n)
end

-- Where a trace's frame has got its size: at the store of the trace's number into vmstate, which
-- follows the adjustment of rsp at once. 0: not found. A root trace begins with the adjustment.
local function head_end(code, size, tr, grown, root)
  if root == 0 and grown <= 128 and cast(u32p, code)[0] == 0xc48348 + (256 - grown) * 0x1000000 then return 4 end
  local s = ffi_string(code, size < 96 and size or 96)
  local store = vm.pointer == 8 and "\65\199\134" or "\199\4\37"
  local at = find(s, store, 1, true)
  while at and not (at + 10 <= #s and cast(u32p, code + (at + #store + 3))[0] == tr) do at = find(s, store, at + 1, true) end
  return at and at - 1 or 0
end

-- Where it has given it back: before the jump that it ends with; nil: it ends in its own loop.
local function tail_start(code, size, spadjust)
  if size >= 9 and spadjust < 128 and cast(u32p, code + (size - 9))[0] == 0xc48348 + spadjust * 0x1000000 then return size - 5 end
  local tail = size < 32 and size or 32
  local s = ffi_string(code + (size - tail), tail)
  local add = spadjust < 128 and "\72\131\196" .. char(spadjust) or
    "\72\129\196" .. char(spadjust % 256, floor(spadjust / 256)) .. "\0\0"
  local at = find(s, add, 1, true)
  local jump = at and byte(s, at + #add)
  return (jump == 0xe9 or jump == 0xff) and size - tail + at - 1 + #add or nil
end

local EMPTY = ("\0"):rep(31)
local ROW, LAST = {}, {} -- rules by frame size: short strings, made once

-- The rules behind the common ones. `before`: the frame's size where a side trace is entered.
local function rules(code, size, tr, spadjust, before, root, loop)
  local head, r = 0, ""
  if before > 0 then r = ROW[before] or "\14" .. uleb(96 + before) end
  if spadjust ~= before then
    head = head_end(code, size, tr, spadjust - before, root)
    ROW[spadjust] = ROW[spadjust] or "\14" .. uleb(96 + spadjust)
    r = r .. (head > 0 and "\2" .. char(head) or "") .. ROW[spadjust]
  end
  local tail = loop == 0 and tail_start(code, size, spadjust)
  if tail then
    tail = tail - head
    r = r .. "\4" .. char(tail % 256, floor(tail / 256) % 256, floor(tail / 65536), 0) .. "\14\96"
  end
  return r
end

local function write_load(address, size, name)
  local l = vm.load
  local whole = ffi.sizeof(l) + #name + 1 + size
  local p = room(whole)
  l.id, l.size, l.time, l.pid, l.tid = RECORD.LOAD, whole, out.when, out.pid, out.tid
  l.vma, l.address, l.code_size, l.index = address, address, size, out.index
  copy(p + ffi.sizeof(l), name)
  copy(p + (ffi.sizeof(l) + #name + 1), cast(u8p, address), size)
  copy(p, l, ffi.sizeof(l))
  out.at, out.index = out.at + whole, out.index + 1
end

local function stub_address(group)
  if role ~= "helper" then return util.traceexitstub(group * 32) end
  local at = cast(u32p, vm.stubs_at + group * 8)
  return at[0] + at[1] * HIGH
end

-- Exit stubs are shared, in groups of 32: 4 bytes each; their common tail differs in size and is left out.
local function write_stubs(nr)
  while out.stubs * 32 < nr and out.stubs < 16 do
    local address = stub_address(out.stubs)
    if not address or address == 0 then return end
    local p = cast(u32p, room(32))
    p[4], p[5], p[6], p[7] = out.stubs * 32, 32, address % HIGH, floor(address / HIGH)
    p[0], p[1] = RECORD.STUBS, 32
    out.at = out.at + 32
    write_load(address, 128, format("EXIT_%d-%d", out.stubs * 32, out.stubs * 32 + 31))
    out.stubs = out.stubs + 1
  end
end

local function builtin_of(object, ffid)
  local f = out.functions[object]
  if f and f.ffid == ffid then return end
  f = { ffid = ffid }
  write_function(object, 0, 0, 0, 0, nil, vm.builtins[ffid] or "", ffid == 1 and "=[C]" or "=[builtin]")
  out.functions[object] = f
  out.cached = out.cached + 1
end

-- Whether an object of this kind stands there; asked once for each address.
local function is_object(object, kind)
  if vm.objects[object] == kind then return true end
  local head = object % 8 == 0 and object > 0 and object < 0x7fffffffffff and read_safely(object, 16)
  probe_end()
  if not head or byte(head, vm.gct + 1) ~= kind then return false end
  if vm.nr_objects > CACHE_MAX then vm.objects, vm.nr_objects = {}, 0 end
  vm.objects[object], vm.nr_objects = kind, vm.nr_objects + 1
  return true
end

-- A function object's prototype is written, or the builtin that it is.
local function write_closure(object)
  local head = cast(u8p, object)
  local ffid = head[vm.f_ffid]
  if ffid ~= 0 then return builtin_of(object, ffid) end
  function_of(pointer_at(head + vm.f_pc) - vm.p_bc)
end

-- Prototypes (IRT_PROTO, 7) and functions (IRT_FUNC, 8) among a trace's constants: with the start's,
-- all whose bytecode it may execute. The values of numbers stand among them and may look like one, so
-- the object is looked at. The first tells the opcode of such constants (IR_KGC).
local function write_constants(s, kind)
  local needle = vm.kgc and vm.kgc[kind] or char(kind)
  local at = find(s, needle, 1, true)
  while at do
    if at % 8 == 5 then
      local object
      if vm.pointer == 8 then
        local a, b, c, d, e, f = byte(s, at + 4, at + 9)
        object = f and a + b * 0x100 + c * 0x10000 + d * 0x1000000 + e * HIGH + f * 0x10000000000 or 0
      else
        local a, b, c, d = byte(s, at - 4, at - 1)
        object = a + b * 0x100 + c * 0x10000 + d * 0x1000000
      end
      if is_object(object, kind) then
        local op = byte(s, at + 1)
        vm.kgc = vm.kgc or { [7] = char(7, op), [8] = char(8, op) }
        if kind == 7 then function_of(object) else write_closure(object) end
      end
    end
    at = find(s, needle, at + 1, true)
  end
end

-- Compiled, a load is a load.
local function make_loads(fields)
  local loads = {}
  for i = 1, #fields do
    local at, size = fields[i][2], fields[i][3]
    local low, high = format("cast(u%d, t + %d)[0]", size == 2 and 16 or 32, at), format(" + cast(u16, t + %d)[0] * 4294967296", at + 4)
    loads[i] = low .. (size == 6 and high or "")
  end
  return loadstring("local cast, u16, u32 = ... return function(t) return " .. concat(loads, ", ") .. " end", "=ljdump")(cast,
    ffi.typeof("uint16_t *"), u32p)
end

-- A function that takes a trace's first bytes apart: interpreted, one call for all fields, as each
-- operation on foreign memory costs as much as that.
local function make_fields(m)
  local fields = { { "nk", m.t_nk, 4 }, { "ir", m.t_ir, 4 }, { "snap", m.t_snap, 4 }, { "map", m.t_map, 4 }, { "nmap", m.t_nmap, m.nmap_size },
    { "nsnap", m.t_nsnap, 2 }, { "pt", m.t_startpt, m.pointer == 8 and 6 or 4 }, { "pc", m.t_startpc, m.pointer == 8 and 6 or 4 },
    { "size", m.t_szmcode, 4 }, { "mcode", m.t_mcode, 6 }, { "loop", m.t_mcode + 8, 4 }, { "spadjust", m.t_spadjust, 2 }, { "number", m.t_traceno, 2 }, { "root", m.t_root, 2 } }
  local bytes, sums, first, last = {}, {}, m.t_size, 0
  for i = 1, #fields do
    local name, at, size = fields[i][1], fields[i][2], fields[i][3]
    local sum = {}
    for j = 0, size - 1 do
      bytes[at + j] = name .. j
      sum[j + 1] = name .. j .. (j > 0 and format(" * %.0f", 256 ^ j) or "")
    end
    sums[i] = concat(sum, " + ")
    first, last = at < first and at or first, at + size - 1 > last and at + size - 1 or last
  end
  if role == "helper" then return make_loads(fields) end
  local names = {}
  for i = first, last do names[#names + 1] = bytes[i] or "_" end
  local f = loadstring(format("local byte = ... return function(s) local %s = byte(s, %d, %d) return %s end", concat(names, ", "), first + 1,
    last + 1, concat(sums, ", ")), "=ljdump")(byte)
  jit.off(f)
  return f
end

local CONTROL = ""
for i = 1, 31 do CONTROL = CONTROL .. char(i) end

local function file_of(chunk)
  local first = byte(chunk, 1)
  if first == 64 or first == 61 then return sub(chunk, 2) end -- @ =
  local size = tonumber(C.ljdump_span(chunk, CONTROL))
  return '[string "' .. (size == #chunk and size <= 48 and chunk or sub(chunk, 1, size < 45 and size or 45) .. "...") .. '"]'
end

-- What is said of a start function in every trace: its label, and the file as a field of 64 bytes.
local function describe(f)
  local builtin = f.first == 0xffffffff -- in Lua, but part of LuaJIT
  local file = builtin and "[builtin:" .. f.chunk .. "]" or file_of(f.chunk)
  f.label = builtin and " " .. file or format(" %s%s:%d", f.name and f.name .. "@" or "", file, f.first)
  file = #file > 63 and "..." .. sub(file, -60) or file
  f.file = file .. ("\0"):rep(64 - #file)
end

-- The frame size a side trace is entered with: its parent's, which REF_BASE names.
local function entry_spadjust(t, base)
  local h16 = cast("uint16_t *", t + base)
  local parent = trace_pointer(h16[0])
  return parent and cast("uint16_t *", parent + vm.t_spadjust)[0]
end

-- The records of trace `tr`, whose object of `object` bytes stands at `t`, after what they refer to. A
-- function of its own: one with loops in it is never compiled from its head.
local function record_write(tr, t, start, constants, object, spadjust, root, pc, size, mcode, loop)
  if not start.label then describe(start) end
  local before = 0
  if root ~= 0 and spadjust > 0 then before = entry_spadjust(t, vm.t_size + constants) or spadjust end

  local h, name = vm.head, "TRACE_" .. tr .. start.label
  local fixed, rest, behind = vm.head_size, #name + 1 + size, (size + 7) - (size + 7) % 8
  local p = room(24 + object + fixed + rest)
  h.unwind_time, h.debug_time, h.time = out.when, out.when, out.when
  h.start, h.range, h.code = -(behind + vm.start_at), size, -(behind + vm.frame_size)
  if spadjust > 0 or h.rules[0] ~= 0 then
    copy(h.rules, EMPTY, 31)
    if spadjust > 0 then
      local code = cast(u8p, mcode)
      local r = rules(code, size, tr, spadjust, before, root, loop)
      copy(h.rules, r, #r)
    end
  end
  h.debug_address, h.row, h.line = mcode, mcode, line_of(start, pc)
  if vm.described ~= start then
    copy(h.file, start.file, 64)
    vm.described = start
  end
  h.size, h.vma, h.address, h.code_size, h.index = 56 + rest, mcode, mcode, size, out.index
  local own = vm.own
  own.size, own.index = 24 + object, out.index
  copy(p + 24, t, object)
  local q = p + (24 + object)
  copy(q + fixed, name)
  copy(q + (fixed + #name + 1), cast(u8p, mcode), size)
  copy(q, h, fixed)
  copy(p, own, 24)
  out.at, out.index = out.at + 24 + object + fixed + rest, out.index + 1
end

-- Trace `tr`, whose object stands at `t`: our own record is that object as it is, then come those
-- that perf knows.
local function trace_write(tr, t)
  local nk, ir, snap, map, nmap, nsnap, pt, pc, size, mcode, loop, spadjust, number, root = vm.fields(role == "helper" and t or ffi_string(t, vm.t_size))
  if number ~= tr then return end
  local constants = (REF_BASE - nk) * 8
  -- The object is one block: head, constants and instructions, snapshots, their map.
  local before_snap = (snap - ir - nk * 8) % HIGH
  local object = vm.t_size + before_snap + (map - snap) % HIGH + nmap * 4
  if object > 0x200000 or before_snap < constants then return end
  write_stubs(nsnap)
  local start = function_of(pt)
  if constants > 0 then
    local s = ffi_string(t + vm.t_size, constants)
    write_constants(s, 7)
    write_constants(s, 8)
  end
  record_write(tr, t, start, constants, object, spadjust, root, pc, size, mcode, loop)
end

local function write_layout(m)
  local p, at = cast(u32p, room(16 + 4 * 32)), 4
  local list = { m.pointer, m.t_size, m.t_ir, m.t_nk, m.t_nsnap, m.t_snap, m.t_map, m.t_nmap, m.nmap_size, m.t_startpt, m.t_startpc, m.t_spadjust,
    m.t_traceno, m.t_link, m.t_root, m.snap_size, m.snap_mapofs_size, m.snap_mcofs, m.snap_nent, m.FUNCF }
  for i = 1, #list do p[3 + i] = list[i] end
  p[1] = 16 + 4 * #list
  p[0] = RECORD.LAYOUT
  out.at = out.at + 16 + 4 * #list
end

local function traces_open(m)
  m.traces = cast(m.pointer == 8 and "uint8_t ***" or "uint32_t **", m.traces_at)
  m.size = cast(u32p, m.traces_at + 12)
  m.fields = make_fields(m)
end

local function discover(tr)
  local traces, bytes = find_traces(vm, tr)
  local known = traces and find_snapshots(vm, bytes)
  probe_end()
  if not known then error("this LuaJIT lays traces out in a way that is not known", 0) end
  vm.traces_at = traces
  traces_open(vm)
end

-- All there are: at the start, and in the child of a fork, whose file is another.
local function write_all()
  local first
  for tr = 1, 500 do
    first = first or util.traceinfo(tr) and tr
  end
  if not vm.traces and not first then return end
  if not vm.traces then discover(first) end
  write_layout(vm)
  out.layout = true
  for tr = 1, vm.size[0] - 1 do
    local t = trace_pointer(tr)
    if t then trace_write(tr, t) end
  end
end

local function set_now()
  out.when = now()
  if out.index < out.when then out.index = out.when end
end

local function follow_fork()
  local options = out.options
  file_end()
  C.ljdump_unmap(out.marker, 4096)
  file_begin(options)
  set_now()
  write_all()
end

local function on_stop(tr)
  if forked() then return follow_fork() end
  set_now()
  if not out.layout then
    if not vm.traces then discover(tr) end
    write_layout(vm)
    out.layout = true
  end
  local t = trace_pointer(tr)
  if t then trace_write(tr, t) end
end

-- Everything that was loaded ends here. Each record before it has left room for one.
local function write_flush()
  if out.at == out.flushed then return end -- jit.flush() in a loop: nothing was loaded since
  local p = cast(u32p, out.bytes + (out.at - out.base))
  cast("uint64_t *", p)[1] = now()
  p[0], p[1] = RECORD.FLUSH, 16
  out.at, out.stubs = out.at + 16, 0
  out.flushed = out.at
end

local function on_flush()
  if forked() then follow_fork() end
  write_flush()
end

-- What was loaded ends: code that is not told any more may take its place.
local function finish()
  out.closed = true
  if not forked() then write_flush() end
  file_end()
end

-- ---- the helper -----------------------------------------------------------------------------

-- Numbers, strings, truths and tables of these as Lua's text; what else there is stays here.
local function literal(value)
  if type(value) == "number" then return format("%.17g", value) end
  if type(value) == "string" then return format("%q", value) end
  if type(value) == "boolean" then return tostring(value) end
  if type(value) ~= "table" then return nil end
  local list = {}
  for k, v in pairs(value) do
    local text = literal(v)
    if text then list[#list + 1] = format("[%s]=%s", literal(k), text) end
  end
  return "{" .. concat(list, ",") .. "}"
end

local function helper_failure(state)
  local text = C.ljdump_vm_text(state, -1, nil)
  local why = text ~= nil and ffi_string(text) or "the helper failed"
  C.ljdump_vm_top(state, 2)
  return why
end

-- A VM beside the program's, in which this module is compiled; it goes on with the file. Where there
-- is none (the host does not export Lua's functions, no memory), everything stays as it is.
local function helper_open()
  local source = match(debug_info(helper_open, "S").source, "^@(.*)")
  local state = source and C.ljdump_vm_open() or nil
  if state == nil then return end
  local request = ffi.new("struct ljdump_request")
  local known = { request = tonumber(cast("intptr_t", cast("void *", request))), marker = tonumber(cast("intptr_t", out.marker)), path = out.path, at = out.at,
    pid = out.pid, options = out.options, index = out.index, stubs = out.stubs, layout = out.layout, flushed = out.flushed, source = source }
  local layout = {}
  for k, v in pairs(vm) do layout[k] = k ~= "objects" and v or nil end
  local text = "return " .. literal({ out = known, vm = layout })
  C.ljdump_vm_libraries(state)
  local ok = C.ljdump_vm_load(state, source) == 0
  if ok then
    C.ljdump_vm_string(state, "helper", 6)
    C.ljdump_vm_string(state, text, #text)
    ok = C.ljdump_vm_call(state, 2, 2, 0) == 0
  end
  if not ok then return C.ljdump_vm_close(state) end
  file_release()
  helper = { state = state, request = request }
  out.functions, vm.names, vm.objects = {}, {}, {}
end

local function helper_ask(what, trace)
  local request, state = helper.request, helper.state
  request.what, request.trace = what, trace
  C.ljdump_vm_value(state, 1)
  if C.ljdump_vm_call(state, 0, 0, 0) ~= 0 then error(helper_failure(state), 0) end
end

local function helper_path()
  local state = helper.state
  helper.request.what = PATH
  C.ljdump_vm_value(state, 1)
  local path = C.ljdump_vm_call(state, 0, 1, 0) == 0 and ffi_string(C.ljdump_vm_text(state, -1, nil)) or nil
  C.ljdump_vm_top(state, 2)
  return path
end

function helper_name(print, name)
  local state = helper.state
  C.ljdump_vm_value(state, 2)
  C.ljdump_vm_string(state, print, #print)
  C.ljdump_vm_string(state, name, #name)
  if C.ljdump_vm_call(state, 2, 0, 0) ~= 0 then error(helper_failure(state), 0) end
end

-- In the helper: takes over what helper_open() gave; a function that serves, and one for names. Its
-- own traces are told by another instance of this module, as any VM's.
local function helper_main(text)
  role = "helper"
  local given = loadstring(text)()
  libraries_load()
  vm = given.vm
  vm.objects, vm.nr_objects = {}, 0
  heads_create(vm)
  local known = given.out
  out_create(known.pid, known.options)
  for k, v in pairs(known) do out[k] = v end
  out.marker = cast("void *", known.marker)
  fork_watch()
  traces_open(vm)
  room(4096)
  local request = cast("struct ljdump_request *", known.request)
  require("jit.opt").start("maxrecord=20000", "maxirconst=4000", "maxsnap=2000") -- one long way, and seldom another
  collectgarbage("setpause", 400) -- its few megabytes
  local dir = known.options.dir
  loadfile(known.source)("jit.ljdump").start("quiet", "alone", dir and "dir=" .. dir)
  return function()
    local what = request.what
    if what == STOP then on_stop(request.trace)
    elseif what == FLUSH then on_flush()
    elseif what == CLOSE then finish() end
    return out.path
  end, name_keep
end

-- ---- events ---------------------------------------------------------------------------------

-- LuaJIT keeps one handler an event: what was attached before, or will be later, is called by ours.
local handlers = {}
local attach

local function close()
  if not helper then return finish() end
  local ending = helper
  out.closed, helper = true, nil
  ending.request.what = CLOSE
  C.ljdump_vm_value(ending.state, 1)
  C.ljdump_vm_call(ending.state, 0, 0, 0)
  C.ljdump_vm_close(ending.state)
end

local function give_up(why)
  if not said then say(out.options.quiet, "%s; nothing more is written", tostring(why)) end
  said = true
  pcall(close)
end

local function stopped(tr)
  if helper then return helper_ask(STOP, tr) end
  on_stop(tr)
  out.stops = (out.stops or 0) + 1
  if out.stops == HELPER_AFTER and vm.stubs_at and not out.options.alone then pcall(helper_open) end
end

local function flushed()
  if helper then return helper_ask(FLUSH, 0) end
  on_flush()
end

local function on_trace(what, tr, func, pc, parent, exit)
  if (what == "stop" or what == "flush") and not out.closed then
    local ok, why = pcall(what == "stop" and stopped or flushed, tr)
    if not ok then give_up(why) end
  end
  if handlers.trace then return handlers.trace(what, tr, func, pc, parent, exit) end
end

local function on_bc(pt)
  if not out.closed and vm.fnew then
    local ok, why = pcall(name_children, pt)
    if not ok then give_up(why) end
  end
  if handlers.bc then return handlers.bc(pt) end
end

local function attach_first(handler, event)
  local before = {}
  for k, f in pairs(registry()._VMEVENTS or {}) do before[k] = f end
  attach(handler, event)
  for k, f in pairs(registry()._VMEVENTS or {}) do
    if f == handler then handlers[event] = before[k] end
  end
end

local function attach_later(handler, event)
  if event == "trace" or event == "bc" then
    handlers[event] = handler
  elseif event == nil and (handler == handlers.trace or handler == handlers.bc) then
    for k, f in pairs(handlers) do
      if f == handler then handlers[k] = nil end
    end
  else
    return attach(handler, event)
  end
end

local function on_close()
  if not out.closed then pcall(close) end
end

-- ---- beginning ------------------------------------------------------------------------------

local function options_of(...)
  local options = {}
  for i = 1, select("#", ...) do
    local word = tostring((select(i, ...)))
    local key, value = match(word, "^(%w+)=(.*)$")
    if word == "mapped" or word == "quiet" or word == "alone" then
      options[word] = true
    elseif key == "dir" then
      options.dir = value
    else
      error(format("option %s: there are dir=PATH, mapped, alone and quiet", word), 0)
    end
  end
  return options
end

local function begin(options)
  local jit = require("jit")
  if jit.arch ~= "x64" or jit.os ~= "Linux" then error(format("only x64 Linux is known, this is %s %s", jit.arch, jit.os), 0) end
  local there
  there, ffi = pcall(require, "ffi")
  if not there then error("this LuaJIT has no FFI library, without which no file can be announced to perf", 0) end
  there, util = pcall(require, "jit.util")
  if not there then error("this LuaJIT has no jit.util library", 0) end
  libraries_load()
  vm = {}
  for k, v in pairs(MODES[ffi.abi("gc64")]) do vm[k] = v end
  vm.names, vm.nr_names, vm.objects, vm.nr_objects = {}, 0, {}, 0
  heads_create(vm)
  check_functions(vm)
  find_box(vm)
  find_opcodes(vm)
  find_builtins(vm)
  probe_end()
  attach = jit.attach
  if not (pcall(attach, on_close, "ljdump") and attach(on_close) == nil) then error("this LuaJIT has no VM events (jit.attach fails)", 0) end
  file_begin(options)
  set_now()
  write_all()
  attach_first(on_trace, "trace")
  attach_first(on_bc, "bc")
  jit.attach = attach_later
  vm.sentinel = newproxy(true)
  getmetatable(vm.sentinel).__gc = on_close
end

-- The program runs on whatever happens here.
function M.start(...)
  if out then return true end -- one file a VM
  local ok, options = pcall(options_of, ...)
  local why = options
  if ok then ok, why = pcall(begin, options) end
  if not ok then
    if out and out.map and not out.closed then pcall(file_end) end
    out = nil
    say(ok == nil or type(options) == "table" and options.quiet, "%s; nothing is written, the program runs on", tostring(why))
  end
  return ok, out and out.path
end

-- The file's name: another one after a fork, when something has been compiled.
function M.path()
  if not helper then return out and out.path end
  return helper_path()
end

local as, given = ...
if as == "helper" then return helper_main(given) end

if jit then jit.off(true, true) end -- neither hot nor compiled: it would change what it shows

return M
