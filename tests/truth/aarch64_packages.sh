# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages for arm64, unpacked aside: apt of this machine need not know of that machine.

arm64_apt=$scratch/arm64-apt

# Ask for the list of packages, once a test.
arm64_update() {
    [ ! -e "$arm64_apt/updated" ] || return 0
    mkdir -p "$arm64_apt/lists/partial" "$arm64_apt/archives/partial"
    chmod 755 "$scratch" "$arm64_apt"
    touch "$arm64_apt/status"
    cat >"$arm64_apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$arm64_apt";
Dir::State::Lists "$arm64_apt/lists";
Dir::State::Status "$arm64_apt/status";
Dir::Cache "$arm64_apt";
Acquire::Languages "none";
END
    APT_CONFIG=$arm64_apt/conf apt-get -q update >"$arm64_apt/log" 2>&1 && touch "$arm64_apt/updated"
}

# arm64_unpacked FOLDER PACKAGE...: not 0: not to be had.
arm64_unpacked() {
    local folder=$1
    shift
    mkdir -p "$folder" "$folder.debs"
    if arm64_update && (cd "$folder.debs" && APT_CONFIG=$arm64_apt/conf apt-get -q download "$@" &&
        for p in *.deb; do dpkg -x "$p" "$folder" || exit 1; done) >"$arm64_apt/log" 2>&1; then
        rm -rf "$folder.debs"
        return 0
    fi
    tail -n 3 "$arm64_apt/log"
    return 1
}
