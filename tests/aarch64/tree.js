// SPDX-License-Identifier: GPL-2.0-only
// A tree of calls that v8_stops.py knows. Runs until it is killed.
let sink = 0;
function leaf(n) { let x = 0; for (let i = 0; i < n; i++) x += i % 7; sink += x; return x; }
function mid(n) { const r = leaf(n); const s = String(r) + 'x'; return s.length + r; }
function deep(k, n) { if (k === 0) return mid(n); const r = deep(k - 1, n); return r + 1; }
function cmp(a, b) { leaf(5); return a - b; }
function sorts() { const t = []; for (let i = 0; i < 60; i++) t.push((i * 7919) % 101); t.sort(cmp); return t[0]; }
function each() { [1, 2, 3, 4].forEach(function cb(v) { mid(20 + v); }); }
class A { get x() { return mid(20); } m() { return this.x + 1; } }
function rep() { return 'hello world'.replace(/\w+/g, function rcb(w) { leaf(10); return w.toUpperCase(); }); }
function rev(k, v) { leaf(3); return v; }
// (Calls of a compiled regular expression, which makes a frame of its own kind.)
function rx() { let n = 0; for (let i = 0; i < 40; i++) n += /(a|aa)+c|b(b+)d/.test('aaaaaaaabaab') ? 1 : 2; return n; }
function work() { deep(12, 40); sorts(); each(); new A().m(); rep(); rx(); JSON.parse(JSON.stringify({a: [1, 2, 3]}), rev); }
console.log('begun');
for (;;) work();
