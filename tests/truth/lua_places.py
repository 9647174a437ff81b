# SPDX-License-Identifier: GPL-2.0-only
"""Compares what `ljperf doctor --vm` says of a Lua with the debug information of the same file.

Run by gdb: gdb -batch -x lua_places.py LUA, with the doctor's output in the file $LJPERF_DOCTOR and the program
to run in $LJPERF_SCRIPT. gdb stops the program in the interpreter and in functions that it calls; DWARF tells the
variables L, pc and nexeccalls there, gdb's own unwinder the CFA and the registers. Offsets of fields are
compared with the types in DWARF. Prints a line of counts, and a line for each thing that is not right.
"""
import os
import random
import re

import gdb

STOPS = int(os.environ.get("LJPERF_STOPS", "50"))
wrong = []


def say_wrong(text):
    wrong.append(text)
    if len(wrong) <= 20:
        print("WRONG:", text)


def place_of(text):
    return int(text, 16) if text[0] in "+-" else text


def read_doctor(path):
    """Returns (places by name, fields by structure, execute's address and size, body, text of strings, calls)."""
    sites = {}
    places, fields, execute, body, text = {}, {}, None, 0, None
    for line in open(path):
        if m := re.match(r"  interpreter \(luaV_execute\) at (0x\w+), (\d+) bytes", line):
            execute = (int(m[1], 16), int(m[2]))
        elif m := re.match(r"    from (0x\w+) on; before", line):
            body = int(m[1], 16)
        elif m := re.match(r"    (0x\w+):( L in (?:the slot at CFA)?([-+\w]+))?( pc in (?:the slot at CFA)?([-+\w]+))?( pc saved)?$", line):
            sites[int(m[1], 16)] = (m[3] and place_of(m[3]), m[5] and place_of(m[5]), bool(m[6]))
        elif m := re.match(r"  text of a string at (0x\w+)", line):
            text = int(m[1], 16)
        elif m := re.match(r"  (L|bytecode pc|nexeccalls): (.*)", line):
            found = []
            for p in re.finditer(r"(?:the slot at CFA([+-]0x\w+)|\b(r\w+))( \(only [^)]*\))? \(\d+ \w+\)", m[2]):
                found.append((int(p[1], 16) if p[1] else p[2], not p[3]))
            places[m[1]] = found
        elif m := re.match(r"  (lua_State|CallInfo|global_State|Proto|Table): (.*)", line):
            fields[m[1]] = {f.split()[0]: int(f.split()[1], 16) for f in m[2].split(", ")}
    return places, fields, execute, body, text, sites


def check_fields(fields, text):
    nr = 0
    for structure, named in fields.items():
        for name, offset in named.items():
            member = name
            if name in ("previous", "next") and structure == "CallInfo" and "tailcalls" in named:
                continue
            try:
                real = int(gdb.parse_and_eval(f"(unsigned long)&(({structure} *)0)->{member}"))
            except gdb.error as e:
                say_wrong(f"{structure}.{name}: {e}")
                continue
            nr += 1
            if real != offset:
                say_wrong(f"{structure}.{name}: {offset:#x}, DWARF says {real:#x}")
    for expression in ("(unsigned long)&((TString *)0)->contents", "sizeof(UTString)", "sizeof(TString)"):
        try:
            real = int(gdb.parse_and_eval(expression))
        except gdb.error:
            continue
        nr += 1
        if real != text:
            say_wrong(f"text of a string: {text:#x}, DWARF says {real:#x}")
        break
    return nr


def word(address):
    return int(gdb.parse_and_eval(f"*(unsigned long *){address & (1 << 64) - 1:#x}"))


def value_of(frame, cfa, place):
    if isinstance(place, str):
        return int(frame.read_register(place).cast(gdb.lookup_type("unsigned long")))
    return word(cfa + place)


def variable(frame, name):
    """The value that DWARF gives; None: it gives none here."""
    try:
        v = frame.read_var(name)
        return None if v.is_optimized_out else int(v) & (1 << 64) - 1
    except (ValueError, gdb.error):
        return None


def is_thread(address):
    """clang's DWARF names another register than L's at some calls: what is there is no thread."""
    try:
        return word(address + 8) & 0x3f == 8
    except gdb.error:
        return False


class Counts:
    def __init__(self):
        self.by = {}

    def note(self, what, right, detail):
        c = self.by.setdefault(what, [0, 0, []])
        c[0] += right
        c[1] += 1
        if not right and len(c[2]) < 5:
            c[2].append(detail)


def look(frame, leaf, told, counts):
    places, execute, body, bias, sites = told
    pc = frame.pc() - bias
    if pc - execute[0] < execute[1] and pc <= body and leaf:
        return
    older = frame.older()
    if not older:
        return
    cfa = int(older.read_register("rsp"))
    kind = "leaf" if leaf else "inner"
    site_state, site_pc, saved = sites.get(pc, (None, None, False)) if not leaf else (None, None, False)
    real = variable(frame, "L")
    if real and is_thread(real):
        values = [value_of(frame, cfa, p) for p, survives in places["L"] if leaf or survives]
        if site_state is not None:
            values = [value_of(frame, cfa, site_state)]
        counts.note(f"L {kind}", real in values, f"{pc:#x}")
        counts.note(f"L {kind} best", bool(values) and real == values[0], f"{pc:#x}")
    real = variable(frame, "pc")
    if real and "bytecode pc" in places and not saved:
        values = [value_of(frame, cfa, p) for p, survives in places["bytecode pc"] if leaf or survives][:None if leaf else 1]
        if not places["bytecode pc"][0][1] and not leaf:
            values = []
        if site_pc is not None:
            values = [value_of(frame, cfa, site_pc)]
        # The walker believes only an address within the function's code: a register that is lent there is no pc.
        values = [v for v in values if site_pc is not None or abs(real - v) < 1 << 12]
        if values:
            counts.note(f"pc {kind}{' told' if site_pc is not None else ''}", real in values, f"{pc:#x} ({', '.join(f'{real - v:+d}' for v in values)})")
    real = variable(frame, "nexeccalls")
    if real is not None and "nexeccalls" in places:
        value = value_of(frame, cfa, places["nexeccalls"][0][0]) & 0xffffffff
        counts.note(f"nexeccalls {kind}", value == real & 0xffffffff, f"{pc:#x}")


def main():
    random.seed(24)
    places, fields, execute, body, text, sites = read_doctor(os.environ["LJPERF_DOCTOR"])
    for setting in ("pagination off", "confirm off", "disable-randomization on", "width 0"):
        gdb.execute("set " + setting)
    nr_fields = check_fields(fields, text)
    static = int(gdb.parse_and_eval("(unsigned long)&luaV_execute"))
    if static != execute[0]:
        say_wrong(f"execute: {execute[0]:#x}, the symbol is at {static:#x}")
    gdb.execute("tbreak luaV_execute", to_string=True)
    gdb.execute(f"set args {os.environ['LJPERF_SCRIPT']} >/dev/null")
    gdb.execute("run", to_string=True)
    bias = int(gdb.parse_and_eval("(unsigned long)&luaV_execute")) - static
    code = gdb.selected_inferior().architecture().disassemble(static + bias, static + bias + execute[1] - 1)
    for i in random.sample(code, min(len(code), 3 * STOPS)):
        gdb.Breakpoint(f"*{i['addr']:#x}", temporary=True)
    called = {m[1] for i in code if (m := re.match(r"call\w* +(0x\w+)", i["asm"]))}
    for target in sorted(called):
        gdb.Breakpoint("*" + target)
    counts = Counts()
    for _ in range(4 * STOPS):
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().threads():
            break
        for b in gdb.breakpoints() or ():
            if not b.temporary:
                b.ignore_count = min(4 * b.hit_count, random.randrange(150))
        frame, leaf = gdb.newest_frame(), True
        while frame:
            if frame.name() == "luaV_execute" and frame.type() == gdb.NORMAL_FRAME:
                look(frame, leaf, (places, execute, body, bias, sites), counts)
            leaf = False
            frame = frame.older()
    print(f"{nr_fields} fields", *(f"{w}: {c[0]}/{c[1]}" for w, c in sorted(counts.by.items())), sep="; ")
    # A leaf may stand where a register is lent for a few instructions, and where DWARF and the code disagree
    # on when pc steps.
    least = {"L inner": 1, "L inner best": 0, "L leaf": 0.93, "L leaf best": 0, "pc inner": 0.97, "pc inner told": 0.97, "pc leaf": 0.5,
             "nexeccalls inner": 1, "nexeccalls leaf": 0.95}
    for what, (right, nr, details) in counts.by.items():
        if nr >= 20 and right < least[what] * nr:
            say_wrong(f"{what}: {right} of {nr}, not at {' '.join(details)}")
    if counts.by.get("L inner", [0, 0])[1] < STOPS:
        say_wrong("too few stops")
    print("ok" if not wrong else f"{len(wrong)} wrong")
    if gdb.selected_inferior().threads():
        gdb.execute("kill", to_string=True)


main()
