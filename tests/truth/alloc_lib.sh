# SPDX-License-Identifier: GPL-2.0-only
# What the tests of record --alloc share. `mean`: of the recordings, in bytes.

# sum FUNCTION <folded: the weights of the stacks that have it.
sum() { awk -v of=";$1(;| )" '$0 ~ of { s += $NF } END { printf "%.0f\n", s }'; }
folded() { "$LJPERF" fold --event "$2" -i "$1" ${3:+--weight "$3"} >folded 2>fold.log || fail "fold: $(cat fold.log)"; }
# near WHAT GOT BYTES BLOCKS: within four and a half standard deviations. A block of n bytes is a sample with p = 1 - exp(-n / mean), and
# then stands for n / p bytes.
near() {
    awk -v what="$1" -v got="$2" -v bytes="$3" -v blocks="$4" -v mean="$mean" '
        BEGIN {
            n = blocks ? bytes / blocks : 0; p = 1 - exp(-n / mean)
            sd = blocks ? sqrt(blocks * (1 - p) / p) * n : 0
            printf "%s: %d of %d bytes, %.1f standard deviations\n", what, got, bytes, sd ? (got - bytes) / sd : 0
            d = got - bytes; exit (d < 0 ? -d : d) > 4.5 * sd
        }' || fail "$1: $2 bytes, not $3"
}
record() { # FILE OPTIONS... -- COMMAND
    local out=$1
    shift
    "$LJPERF" record -v -F 49 -e cpu-clock -m 64M -o "$out" "$@" >truth 2>log || fail "$(cat log)"
    grep -q ' 0 lost because the rings were full (-m), 0 not followed' log || fail "$(cat log)"
}
# judge NAME FILE: truth has lines FUNCTION BYTES BLOCKS [BYTES_LEFT BLOCKS_LEFT].
judge() {
    local of bytes blocks bytes_left blocks_left
    folded "$2" malloc
    cp folded all.folded
    folded "$2" malloc inuse_space
    while read -r of bytes blocks bytes_left blocks_left; do
        near "$1, $of" "$(sum "$of[^;]*" <all.folded)" "$bytes" "$blocks"
        [ -z "$bytes_left" ] || near "$1, $of, in use" "$(sum "$of[^;]*" <folded)" "$bytes_left" "$blocks_left"
    done <truth
    "$LJPERF" script -i "$2" --event malloc -F sym 2>script.log | grep -q '\[image\]\|\[guess\]' && fail "$1: stacks are not exact"
    true
}
