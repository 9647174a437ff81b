# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages of plain Lua and of programs that embed it, unpacked aside: installing them would change
# the machine. Needs lib.sh. LUA_PACKAGES: a folder that keeps them from test to test.
packages=${LUA_PACKAGES:-$scratch/packages}
mkdir -p "$packages"

# unpacked FOLDER PACKAGE...: of this Debian; false: not to be had.
unpacked() {
    local folder=$packages/$1
    shift
    [ ! -d "$folder" ] || return 0
    mkdir -p "$folder.new" && chmod 755 "$folder.new" &&
        (cd "$folder.new" && apt-get -q download "$@" >>../log 2>&1 && for p in *.deb; do dpkg -x "$p" . || exit 1; done) &&
        mv "$folder.new" "$folder" && return 0
    rm -rf "$folder.new"
    return 1
}

# unpacked_of_sid FOLDER PACKAGE...: of Debian unstable, of which apt here need not know.
unpacked_of_sid() {
    local folder=$packages/$1 apt uri
    shift
    [ ! -d "$folder" ] || return 0
    # From where this machine has its own packages.
    uri=$(grep -rhoE '(https?|file)://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1 | tr -d ' ')
    [ -n "$uri" ] || return 1
    mkdir -p "$folder.new/apt/lists/partial" "$folder.new/apt/archives/partial" && chmod 755 "$folder.new"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri sid main" >"$folder.new/apt/list"
    apt=(-q -o Dir::Etc::SourceList="$folder.new/apt/list" -o Dir::Etc::SourceParts=/nonexistent -o Dir::State::Lists="$folder.new/apt/lists"
        -o Dir::Cache="$folder.new/apt" -o Acquire::Languages=none)
    (cd "$folder.new" && apt-get "${apt[@]}" update && apt-get "${apt[@]}" download "$@" &&
        for p in *.deb; do dpkg -x "$p" . || exit 1; done && rm -rf apt) >>"$packages/log" 2>&1 &&
        mv "$folder.new" "$folder" && return 0
    rm -rf "$folder.new"
    return 1
}

# lua_of VERSION: sets $interpreter (a command), $library and $loader (a command before a program that uses the
# library). False: that Lua is not to be had. 5.5 is unstable's, with its C library and loader.
lua_of() {
    local v=$1 root=$packages/lua$1
    case $v in
    5.[1-4])
        unpacked "lua$v" "lua$v" "liblua$v-0" || return 1
        interpreter=("$root/usr/bin/lua$v") loader=() ;;
    *)
        unpacked_of_sid "lua$v" "lua$v" "liblua$v-0" libc6 libgcc-s1 libstdc++6 gcc-16-base || return 1
        loader=("$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu")
        interpreter=("${loader[@]}" "$root/usr/bin/lua$v") ;;
    esac
    library=$(readlink -f "$root/usr/lib/x86_64-linux-gnu/liblua$v.so.0")
    [ -f "$library" ]
}
