# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages for arm64, unpacked aside: apt of this machine need not know of that machine.

arm64_folder=$scratch/arm64-apt
. "$(dirname "${BASH_SOURCE[0]}")/../aarch64/apt.sh"
arm64_apt "$arm64_folder"

# Ask for the list of packages, once a test.
arm64_update() {
    [ ! -e "$arm64_folder/updated" ] || return 0
    APT_CONFIG=$arm64_folder/conf apt-get -q update >"$arm64_folder/log" 2>&1 && touch "$arm64_folder/updated"
}

# arm64_unpacked FOLDER PACKAGE...: not 0: not to be had.
arm64_unpacked() {
    local folder=$1
    shift
    mkdir -p "$folder" "$folder.debs"
    if arm64_update && (cd "$folder.debs" && APT_CONFIG=$arm64_folder/conf apt-get -q download "$@" &&
        for p in *.deb; do dpkg -x "$p" "$folder" || exit 1; done) >"$arm64_folder/log" 2>&1; then
        rm -rf "$folder.debs"
        return 0
    fi
    tail -n 3 "$arm64_folder/log"
    return 1
}
