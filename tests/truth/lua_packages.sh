# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages of plain Lua and of programs that embed it, unpacked aside: installing them would change
# the machine. Needs lib.sh. LUA_PACKAGES: a folder that keeps them from test to test: tests/run gives one to all. A folder is
# unpacked once: who comes meanwhile waits. So FOLDER names one list of PACKAGEs.
packages=${LUA_PACKAGES:-$scratch/packages}
mkdir -p "$packages"

# unpacked FOLDER PACKAGE...: of this Debian; false: not to be had.
unpacked() {
    once "$packages/$1" download "${@:2}"
}
# once FOLDER FUNCTION ARGUMENT...: what the function puts into the folder it is in; nothing is left of a failure.
once() {
    local folder=$1
    (
        flock 9
        [ ! -d "$folder" ] || exit 0
        mkdir -p "$folder.new" && chmod 755 "$folder.new" && (cd "$folder.new" && "${@:2}" >>"$folder.log" 2>&1) &&
            mv "$folder.new" "$folder" && exit 0
        rm -rf "$folder.new"
        exit 1
    ) 9>"$folder.lock"
}
download() { apt-get -q download "$@" && unpack_debs; }
unpack_debs() {
    local p
    for p in *.deb; do dpkg -x "$p" . && rm "$p" || return 1; done
}
# only_fetched: ends a test of which only what it takes from the network is wanted (tests/run fetches before it tests).
only_fetched() { [ -z "${FETCH_ONLY-}" ] || exit 0; }

# unpacked_of_sid FOLDER PACKAGE...: of Debian unstable, of which apt here need not know.
unpacked_of_sid() {
    once "$packages/$1" download_of_sid "${@:2}"
}
download_of_sid() {
    local apt uri folder=$PWD
    # From where this machine has its own packages.
    uri=$(grep -rhoE '(https?|file)://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1 | tr -d ' ')
    [ -n "$uri" ] || return 1
    mkdir -p apt/lists/partial apt/archives/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri sid main" >apt/list
    apt=(-q -o Dir::Etc::SourceList="$folder/apt/list" -o Dir::Etc::SourceParts=/nonexistent -o Dir::State::Lists="$folder/apt/lists"
        -o Dir::Cache="$folder/apt" -o Acquire::Languages=none)
    apt-get "${apt[@]}" update && apt-get "${apt[@]}" download "$@" && unpack_debs && rm -rf apt
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
