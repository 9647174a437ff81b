# SPDX-License-Identifier: GPL-2.0-only
"""Compares `ljperf bt --locals --json` of a Lua program that waits with what its debug library says.

usage: lua_plain_names.py LJPERF LUA PROGRAM STOPS [core]

PROGRAM is tests/unit/lua_names.lua. With `core`, each stop is a core that gdb writes.
"""
import json
import os
import subprocess
import sys
import tempfile


def unhex(text):
    return bytes.fromhex(text).decode("utf-8", "replace")


def shown(source):
    """A chunk's name up to what cannot differ: the output cuts source text as Lua does."""
    return source[1:] if source[:1] in "@=" else '[string "' + source[:12].split("\n")[0]


def told_value(text):
    """A value in the program's words, as far as JSON has it: (type, value)."""
    kind, _, rest = text.partition(" ")
    if kind == "nil":
        return "nil", None
    if kind == "boolean":
        return "boolean", rest == "true"
    if kind in ("integer", "float", "number"):
        return "number", float(rest)
    if kind == "string":
        length, _, digits = rest.partition(" ")
        return "string", (int(length), digits)
    if kind == "table":
        address, count = rest.split()
        return "table", (int(address, 16), int(count))
    if kind == "function":
        return "function", int(rest.split()[0], 16)
    return ("function" if kind == "cfunction" else kind), None


def same_value(variable, text):
    kind, want = told_value(text)
    if variable["type"] != kind:
        return False
    if kind == "number":
        return float(variable["value"]) == want
    if kind in ("nil", "boolean"):
        return variable["value"] == want
    if kind == "string":  # bytes that are no UTF-8 are written in another way
        length, digits = want
        try:
            plain = bytes.fromhex(digits).decode("ascii")
        except UnicodeDecodeError:
            return True
        return variable["value"][:60] == plain or not plain.isprintable()
    if kind == "table":
        address, count = want
        if address and int(variable["address"], 16) != address:
            return False
        return variable["elements"] + variable["nr_fields"] == count
    if kind == "function" and want:
        return int(variable["address"], 16) == want
    return True


class Stop:
    """What the program told of a stop: its Lua functions, innermost first, each with its variables."""

    def __init__(self, lines):
        self.calls = []
        call = None
        for line in lines:
            fields = line.split("\t")
            if fields[0] == "F":
                call = None
                if fields[1] not in ("C", "tail"):
                    call = {"line": int(fields[2]), "defined": int(fields[3]), "source": unhex(fields[4]),
                            "name": unhex(fields[6]), "variables": []}
                    self.calls.append(call)
            elif fields[0] in "LVU" and call:
                call["variables"].append((fields[0], fields[1], "\t".join(fields[2:])))


def compare_call(frame, call, is_51):
    """Returns what is wrong with a frame."""
    wrong = []
    if frame.get("line", 0) != max(call["line"], 0):
        wrong.append("line %s, told %d" % (frame.get("line"), call["line"]))
    defined = frame.get("defined", {})
    if defined.get("line", 0) != max(call["defined"], 0):
        wrong.append("defined on %s, told %d" % (defined.get("line"), call["defined"]))
    if call["source"] != "=?" and not frame.get("file", "").startswith(shown(call["source"])):
        wrong.append("file %s, told %s" % (frame.get("file"), call["source"]))
    name = call["name"] if call["name"] != "?" else ""
    if frame.get("called_as", "") != name:
        wrong.append("called as %s, told %s" % (frame.get("called_as"), name))
    if frame["provenance"] != "exact":
        wrong.append(frame["provenance"])
    roles = {"local": "L", "vararg": "V", "upvalue": "U"}
    got = [v for v in frame.get("variables", [])
           if v["role"] in roles and not (is_51 and v["role"] == "vararg")]
    if len(got) != len(call["variables"]):
        wrong.append("%d variables, told %d" % (len(got), len(call["variables"])))
    for variable, (letter, label, text) in zip(got, call["variables"]):
        name = str(variable["number"]) if letter == "V" else variable.get("name", "")
        if roles[variable["role"]] != letter or (name != label and label[:1] != "("):
            wrong.append("%s %s, told %s %s" % (variable["role"], name, letter, label))
        elif not same_value(variable, text):
            wrong.append("%s is %s, told %s" % (label, variable, text))
    return wrong


def stack(ljperf, pid, core, folder):
    at = ["-p", str(pid)]
    if core:
        subprocess.run(["gdb", "-q", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex",
                        "gcore %s/core" % folder, "-p", str(pid)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        at = ["--core", folder + "/core"]
    out = subprocess.run([ljperf, "bt", *at, "--locals", "--depth", "0", "--json"], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)["threads"][0]


def main():
    ljperf, lua, program, stops = sys.argv[1:5]
    is_51 = "5.1" in subprocess.run([lua, "-v"], stderr=subprocess.STDOUT, stdout=subprocess.PIPE,
                                    text=True).stdout
    child = subprocess.Popen([lua, program, stops, "11"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, errors="replace")
    nr = calls = bad = 0
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for line in child.stdout:
            line = line.rstrip("\n")
            lines.append(line)
            if line != "END":
                continue
            nr += 1
            while "S" not in open("/proc/%d/stat" % child.pid).read().rsplit(")", 1)[1].split()[0]:
                pass
            stop = Stop(lines)
            thread = stack(ljperf, child.pid, "core" in sys.argv[5:], folder)
            frames = [f for f in thread["frames"] if f["kind"] == "lua" and "line" in f or
                      f.get("tier") == "interp"]
            wrong = [] if thread["stack"] == "complete" else ["the stack is " + thread["stack"]]
            # The innermost is the function that waits; those behind the told ones are of the
            # threads that have resumed this one.
            for frame, call in zip(frames[1:], stop.calls):
                calls += 1
                wrong += [frame["symbol"] + ": " + text for text in compare_call(frame, call, is_51)]
            if len(frames) <= len(stop.calls):
                wrong.append("%d functions, told %d" % (len(frames) - 1, len(stop.calls)))
            for text in wrong[:10]:
                print("stop %d: %s" % (nr, text))
            bad += bool(wrong)
            lines = []
            child.stdin.write("\n")
            child.stdin.flush()
    done = lines and lines[-1] == "DONE"
    print("%s: %d stops, %d functions, %d stops differ" % (lua, nr, calls, bad))
    sys.exit(bool(bad) or not done or nr < int(stops))


main()
