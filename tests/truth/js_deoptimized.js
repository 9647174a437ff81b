// SPDX-License-Identifier: GPL-2.0-only
// Optimized code that ceases to be used while a call of it is under way: V8 has that call return to
// a place where the code has no line. usage: js_deoptimized.js SECONDS, with --allow-natives-syntax.
// `outer` of deoptimized.js calls `poke` in line 6 and nothing but `poke` spins.
'use strict';
function spin(ms) {
  const end = Date.now() + ms;
  let s = 0;
  while (Date.now() < end) for (let i = 0; i < 2000; i++) s = (s * 31 + i) % 1000003;
  return s;
}
function poke(to, n) {
  if (n !== -1) return 1;
  %DeoptimizeFunction(to.end);
  return spin(80);
}
%NeverOptimizeFunction(poke);
function make() {
  const to = {};
  const outer = new Function('to', 'poke', `
return function outer(n) {
  let s = n;
  s += poke(to, n);
  for (let i = 0; i < 3; i++)
    s += n * i;
  s += helper(s);
  if (s % 7 === 0)
    s += helper(s + 1);
  return s;
};
function helper(x) { return Math.sqrt(x) | 0; }
//# sourceURL=deoptimized.js
`)(to, poke);
  return { to, outer };
}
const stop = Date.now() + 1000 * Number(process.argv[2]);
while (Date.now() < stop) {
  const { to, outer } = make(), until = Date.now() + 100;
  while (Date.now() < until) for (let i = 0; i < 100; i++) outer(i);
  to.end = outer;
  outer(-1);
}
