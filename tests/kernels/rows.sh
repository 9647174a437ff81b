# SPDX-License-Identifier: GPL-2.0-only
# What cells share: rows of programs with known call trees, as tests/truth/test_lua_live and test_v8_live have
# them: written here, recorded in the guest, judged here.
# A recording is read where it was made: the kernel's own code in the process (vdso) is of that kernel.
# A guest is some 16 times slower: it does in 8 s of processor time what this machine does in half a second.
FREQUENCY=249
LUA_SECONDS=8

# lua_prepare EDGES...
lua_prepare() {
    local edges
    for edges in "$@"; do
        python3 "$truth/lua_live_generate.py" --seed 1 --edges "$edges" "$edges.lua" "$edges.json" || fail "$edges: no program"
    done
}
# lua_record EDGES RECORDER... -- [options of luajit's]
lua_record() {
    local edges=$1 recorder=()
    shift
    while [ "$1" != -- ]; do recorder+=("$1"); shift; done
    shift
    "${recorder[@]}" -o "$edges.data" -- "$LUAJIT" "$@" "$edges.lua" $LUA_SECONDS "$edges.facts" >"$edges.log" 2>&1
    [ -s "$edges.facts" ] || fail "$edges: the program did not end well: $(tail -n 3 "$edges.log")"
    sed "s/^/$edges: /" "$edges.log"
}
# lua_script EDGES [--snapshot FILE]
lua_script() {
    "$LJPERF" script --ns -F +unwind,+uregs -i "$1.data" "${@:2}" >"$1.script" 2>"$1.script.log" ||
        fail "$1: $(tail -n 1 "$1.script.log")"
}
# lua_judge NAME EDGES goals of the judge's
lua_judge() {
    local name=$1 edges=$2
    shift 2
    python3 "$truth/lua_live_judge.py" -v 3 --name "$name-$edges" --binary "$SYSROOT$LUAJIT" "$@" \
        --truth "$edges.json" --facts "$edges.facts" "$edges.script"
}
