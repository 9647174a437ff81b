# SPDX-License-Identifier: GPL-2.0-only
# Debian's packages for arm64, unpacked aside: apt of this machine need not know of that machine. What was downloaded is kept
# as lua_packages.sh keeps it.

. "$(dirname "${BASH_SOURCE[0]}")/lua_packages.sh" # once
arm64_folder=$packages/arm64-apt
. "$(dirname "${BASH_SOURCE[0]}")/../aarch64/apt.sh"

# Ask for the list of packages. (The folder gets its name when the list is there.)
arm64_update() { arm64_apt . && APT_CONFIG=$PWD/conf apt-get -q update && arm64_apt . "$arm64_folder"; }
arm64_download() { APT_CONFIG=$arm64_folder/conf apt-get -q download "$@"; }

# arm64_unpacked FOLDER PACKAGE...: not 0: not to be had.
arm64_unpacked() {
    local folder=$1 p debs
    shift
    debs=$packages/arm64-$(echo "$*" | sha1sum | cut -c1-12)
    once "$arm64_folder" arm64_update || { tail -n 3 "$arm64_folder.log"; return 1; }
    once "$debs" arm64_download "$@" || { tail -n 3 "$debs.log"; return 1; }
    mkdir -p "$folder"
    for p in "$debs"/*.deb; do dpkg -x "$p" "$folder" || return 1; done
}
