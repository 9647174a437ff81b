// SPDX-License-Identifier: GPL-2.0-only
// A call path through most ways in which JavaScript calls JavaScript. `print`: shows node's own
// stack trace of it; else it stops there.
'use strict';
const fs = require('fs');
const print = process.argv[2] === 'print', hot = process.argv[3] === 'hot';
function block() {
  if (print) { Error.stackTraceLimit = 200; console.log(new Error('x').stack); process.exit(0); }
  fs.writeSync(1, 'ready\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
class Base { constructor(f) { f(); } }
class Derived extends Base {
  static make(f) { return new Derived(f); }
  #priv(f) { f(); }
  viaPrivate(f) { this.#priv(f); }
  get getter() { block(); return 1; }
}
const obj = { method(f) { f(); }, 'with space': function (f) { f(); } };
function *gen(f) { yield 1; f(); yield 2; }
const añadirДва = (f) => f();
function sorted(f) { [2, 1].sort((a, b) => { f(); return a - b; }); }
function json(f) { JSON.parse('{"a":1}', function reviver(k, v) { f(); return v; }); }
function replaced(f) { 'abc'.replace(/b/, (m) => { f(); return m; }); }
function mapped(f) { [1].map(function (x) { return f(); }); }
function proxied(f) { new Proxy({}, { get(t, k) { f(); return 1; } }).x; }
function applied(f) { Reflect.apply(f, null, []); }
function evaled(f) { return eval('(function inEval() { f(); })()'); }
function generated(f) { const g = gen(f); g.next(); g.next(); }
async function asynced(f) { await null; f(); }
// Functions that optimizing compilers inline into each other, around a call that they cannot.
const stops = [() => 1, () => 2, () => 3, () => block()];
const adder = { third(i) { return stops[i](i) + 1; } };
const second = (i) => adder.third(i) * 2;
function first(end) {
  let sum = 0;
  for (let i = 0; i < end; i++) sum += second(i);
  return sum;
}
function warm(last) {
  let sum = 0;
  for (let i = 0; i <= last; i++)
    sum += first(i === last ? 4 : 3);
  return sum;
}
asynced(() => {
  evaled(() => {
    sorted(() => {
      json(() => replaced(() => mapped(() => proxied(() => applied(() => generated(() => Derived.make(
        () => obj.method(() => obj['with space'](() => añadirДва(() => {
          if (hot) warm(60000);
          else new Derived(() => 0).viaPrivate(() => { new Derived(() => 0).getter; });
        })))
      )))))));
    });
  });
});
