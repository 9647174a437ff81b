# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages for arm64, unpacked aside: apt of this machine need not know of that machine.

# arm64_unpacked FOLDER PACKAGE...: not 0: not to be had.
arm64_unpacked() {
    local folder=$1 apt
    shift
    apt=$(mktemp -d)
    chmod 755 "$apt"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/debs" "$folder"
    touch "$apt/status"
    cat >"$apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::Status "$apt/status";
Dir::Cache "$apt";
Acquire::Languages "none";
END
    (cd "$apt/debs" && export APT_CONFIG=$apt/conf && apt-get -q update && apt-get -q download "$@" &&
        for p in *.deb; do dpkg -x "$p" "$folder" || exit 1; done) >"$apt/log" 2>&1
    local status=$?
    [ $status = 0 ] || tail -n 3 "$apt/log"
    rm -rf "$apt"
    return $status
}
