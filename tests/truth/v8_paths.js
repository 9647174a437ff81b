// SPDX-License-Identifier: GPL-2.0-only
// Runs for a while through call paths that test_v8_record knows. `spin` takes the time.
'use strict';
function spin(n) {
  let s = 0;
  for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003;
  return s;
}
class Base { constructor(n) { this.v = spin(n); } }
class Derived extends Base { method(n) { return spin(n) + this.v; } }
function viaClass(n) { return new Derived(n).method(n); }
function viaSort(n) { return [3, 1, 2].sort(function compare(a, b) { spin(n); return a - b; })[0]; }
function viaMap(n) { return [1, 2].map(function each(x) { return spin(n) + x; })[0]; }
function viaReplace(n) { return 'a-b'.replace(/-/g, function swap() { return spin(n); }).length; }
function viaJson(n) { return JSON.parse('[1]', function reviver(k, v) { spin(n); return v; }).length; }
const object = { get value() { return spin(this.n); }, n: 0 };
function viaGetter(n) { object.n = n; return object.value; }
function* numbers(n) { yield spin(n); yield spin(n); }
function viaGenerator(n) { let s = 0; for (const x of numbers(n)) s += x; return s; }
const viaДва = (n) => spin(n);
const proxy = new Proxy({ n: 0 }, { get: function trap(target) { return spin(target.n); },
  set: function setTrap(target, key, value) { target.n = value; return true; } });
function viaProxy(n) { proxy.n = n; return proxy.value; }
function viaApply(n) { return Reflect.apply(function applied(x) { return spin(x) + this.n; }, { n }, [n]); }
const evaled = eval('(function inEval(n) { return spin(n); })');
function viaEval(n) { return evaled(n); }
async function viaAsync(n) { await null; return spin(n); }
async function main() {
  const end = Date.now() + 1000 * Number(process.argv[2] || 2), n = 20000;
  let total = 0;
  while (Date.now() < end) {
    total += viaClass(n) + viaSort(n) + viaMap(n) + viaReplace(n) + viaJson(n) + viaGetter(n) +
      viaGenerator(n) + viaДва(n) + viaProxy(n) + viaApply(n) + viaEval(n);
    total += await viaAsync(n);
  }
  return total;
}
// With a second argument it then says so, and stays.
main().then(() => {
  if (process.argv[3]) {
    console.log('done');
    setTimeout(() => {}, 1e8);
  }
});
