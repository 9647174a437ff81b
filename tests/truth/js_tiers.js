// SPDX-License-Identifier: GPL-2.0-only
// What V8's compilers do with functions of which each is a case. usage: js_tiers.js SECONDS, with
// --allow-natives-syntax.
'use strict';
const vm = require('vm');
const make = (name, source) => vm.runInThisContext(source, {filename: name + '.js'});

// In each life, a case that runs for the first time leaves the optimized code: V8 has no feedback for it.
// Each life is another closure of the same function.
const CASES = 8;
const again = new vm.Script(`(function again(op, x) {
switch (op) {
${Array.from({length: CASES}, (_, i) => `case ${i}: return x.a + x.b * ${i};`).join('\n')}
}
})`, {filename: 'again.js'});
// The check of the inlined function fails, once in each life.
const pair = new vm.Script(`(function pair() {
  function inner(o) {
    return o.x;
  }
  return function outer(o) {
    let s = 0;
    for (let i = 0; i < 40; i++)
      s += inner(o);
    return s;
  };
})()`, {filename: 'pair.js'});
// Four kinds of objects, one after the other; then V8 expects any.
const maps = make('maps', `(function maps(o) {
  let s = 0;
  for (let i = 0; i < 50; i++)
    s += o.x;
  return s;
})`);
// Small numbers, and then one that does not fit.
const overflow = make('overflow', `(function overflow(a, b) {
  let s = a;
  for (let i = 0; i < 50; i++)
    s = s + b;
  return s;
})`);
// More bytecode than V8 optimizes.
const big = make('big', `(function big(a) {
let s = a;
${Array.from({length: 12000}, (_, i) => `s = (s + ${i}) | 0;`).join('')}
return s;
})`);
const loop = name => make(name, `(function ${name}(n) {
  let s = 0;
  for (let i = 0; i < n; i++)
    s = (s * 31 + i) % 1000003;
  return s;
})`);
const never = loop('never'), fine = loop('fine');
%NeverOptimizeFunction(never);

let sink = 0;
const kinds = [{x: 1}, {y: 1, x: 2}, {z: 1, y: 2, x: 3}, {w: 1, x: 4}, {v: 1, x: 5}];
const of = {a: 1, b: 2};
function live(life) {
  const f = again.runInThisContext(), outer = pair.runInThisContext();
  for (let op = 0; op < CASES; op++)
    for (let i = 0; i < 5000; i++)
      sink += f(i & 1 ? op : 0, of);
  for (let i = 0; i < 3000; i++)
    sink += outer(kinds[i === 2999 ? 1 : 0]);
  for (let i = 0; i < 800; i++)
    sink += maps(kinds[(life >> 2) % kinds.length]) + overflow(i, life < 16 ? 1 : 1 << 27);
  for (let i = 0; i < 40; i++)
    sink += never(600) + fine(6000) + (i % 8 ? 0 : big(1));
}
%NeverOptimizeFunction(live); // which would take the others in
const stop = Date.now() + 1000 * Number(process.argv[2]);
let lives = 0;
while (Date.now() < stop)
  live(lives++);
console.log(`lives ${lives}`);
