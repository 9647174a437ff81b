# SPDX-License-Identifier: GPL-2.0-only
# What of an emulated machine depends on its processor: Debian's names, the compiler for what runs
# in it, where its files and libraries lie, where ljperf is built for it, and how it is emulated. To be sourced;
# $machine chooses (uname -m).
machine=${machine:-$(uname -m)}
sysroot= build=build node_seconds=4 # of processor time for the program in JavaScript
all_kernels=(5.10 5.15 6.1 6.12 newest)
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
aarch64)
    debian=arm64
    triplet=aarch64-linux-gnu
    sysroot=${LJPERF_AARCH64:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ljperf-aarch64}/root
    build=build-aarch64
    node_seconds=12
    all_kernels=(6.1 6.12 6.12-16k) # (the last one: pages of 16 KiB)
    compiler="aarch64-linux-gnu-gcc --sysroot=$sysroot"
    emulator=qemu-system-aarch64
    emulator_package=qemu-system-arm
    console=ttyAMA0
    emulator_options=(-M virt,gic-version=3 -cpu max,pauth-impdef=on,sve=off)
    ;;
*)
    machine=
    ;;
esac
