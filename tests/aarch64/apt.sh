# SPDX-License-Identifier: GPL-2.0-only
# apt for Debian's arm64 packages, in a folder of its own: this machine's apt need not know of that machine. To be sourced.

# arm64_apt FOLDER [NAME]: makes the folder, whose file `conf` is for APT_CONFIG; NAME: what the folder will be called.
arm64_apt() {
    local folder
    mkdir -p "$1/lists/partial" "$1/archives/partial"
    folder=$(readlink -f "$1")
    [ -e "$folder/status" ] || : >"$folder/status"
    folder=${2:-$folder}
    cat >"$1/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "$folder";
Dir::State::Lists "$folder/lists";
Dir::State::Status "$folder/status";
Dir::Cache "$folder";
Acquire::Languages "none";
END
}
