#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""One translation unit of the benchmark program: many template instances, so that twelve of them
make a program with some 60 MB of debug information. Usage: make_cpp.py NUMBER > unit.cc"""
import sys

k=int(sys.argv[1])
print('#include <map>\n#include <unordered_map>\n#include <regex>\n#include <functional>\n#include <variant>\n#include <sstream>\n#include <memory>\n#include <algorithm>\n#include <set>\n#include <deque>\n#include <future>')
print('namespace unit%d {'%k)
for i in range(30):
    print('''struct T%(i)d { int a; std::string s; bool operator<(const T%(i)d &o) const { return a < o.a; } };
static long f%(i)d(long n) { std::map<std::string, std::vector<T%(i)d>> m; std::set<T%(i)d> st; std::deque<std::shared_ptr<T%(i)d>> dq;
 for (int j = 0; j < n; j++) { T%(i)d t{int(j * %(p)d %% 101), std::to_string(j)}; m[t.s.substr(0,1)].push_back(t); st.insert(t); dq.push_back(std::make_shared<T%(i)d>(t)); }
 long sum = 0; for (auto &e : m) { std::sort(e.second.begin(), e.second.end()); sum += e.second[0].a; }
 std::unordered_map<int, std::function<long(T%(i)d)>> fs; fs[1] = [sum](T%(i)d t) { return sum + t.a; };
 std::variant<int, T%(i)d> v = *st.begin(); return fs[1](std::get<1>(v)) + (long)dq.size(); }'''%dict(i=i,p=7919+i*2+k))
print('}')
print('long unit%d_run(long n) { long s = 0;'%k + ''.join('s += unit%d::f%d(n);'%(k,i) for i in range(30)) + ' return s; }')
