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
function fielded(f) { class Fields { static other = 1; field = f(); } return new Fields(); }
function statics(f) { class Statics { other = 1; static field = f(); } return Statics; }
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
// WebAssembly: `outer` is exported and calls function 2, that an unnamed one, that the import.
const leb = (n) => n < 128 ? [n] : [n & 127 | 128, ...leb(n >> 7)];
const string = (s) => [...leb(Buffer.byteLength(s)), ...Buffer.from(s)];
const section = (id, bytes) => [id, ...leb(bytes.length), ...bytes];
const vector = (items) => [...leb(items.length), ...items.flat()];
const body = (called) => [6, 0, 0x20, 0, 0x10, called, 0x0b];
const code = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, ...section(1, [1, 0x60, 1, 0x7f, 1, 0x7f]),
  ...section(2, vector([[...string('env'), ...string('call'), 0, 0]])),
  ...section(3, vector([[0], [0], [0]])), ...section(7, vector([[...string('run'), 0, 1]])),
  ...section(10, vector([body(2), body(3), body(0)])),
  ...section(0, [...string('name'), ...section(0, string('demo')),
    ...section(1, vector([[1, ...string('outer')], [2, ...string('inner ünï')]]))])]);
function wasmed(f) {
  let call = () => 0;
  const module = new WebAssembly.Module(code);
  const { run } = new WebAssembly.Instance(module, { env: { call: (x) => call(x) } }).exports;
  if (hot) for (let i = 0; i < 1000000; i++) run(i);
  call = () => { f(); return 0; };
  run(0);
}
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
      json(() => replaced(() => mapped(() => proxied(() => applied(() => generated(() => fielded(() => statics(() => Derived.make(
        () => obj.method(() => obj['with space'](() => wasmed(() => añadirДва(() => {
          if (hot) warm(60000);
          else new Derived(() => 0).viaPrivate(() => { new Derived(() => 0).getter; });
        }))))
      )))))))));
    });
  });
});
