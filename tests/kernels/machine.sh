# SPDX-License-Identifier: GPL-2.0-only
# What of an emulated machine depends on its processor: Debian's names, the compiler for what runs
# in it, where libraries lie, and how it is emulated. To be sourced; $machine chooses (uname -m).
machine=${machine:-$(uname -m)}
case $machine in
x86_64)
    debian=amd64
    triplet=x86_64-linux-gnu
    compiler=${CC:-gcc}
    emulator=qemu-system-x86_64
    emulator_package=qemu-system-x86
    console=ttyS0
    emulator_options=(-M q35 -cpu max)
    ;;
*)
    machine=
    ;;
esac
