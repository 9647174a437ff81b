// SPDX-License-Identifier: GPL-2.0-only
// Allocates in known functions, in no regular order, for the seconds of its first argument. Prints the bytes of V8's heap that it has
// allocated (by V8's own count, as far as node tells); with the argument `oracle`: what share of them each function has, by V8's
// sampling profiler.
'use strict';
const [seconds, oracle] = [+process.argv[2] || 3, process.argv[3] === 'oracle'];
let sink;
function siteObject(i) { return { a: i, b: i }; }
function siteArray(i) { return [i, i, i, i]; }
function siteBig(i) { return new Array(64); }
function siteString(i) { return 'x' + i; }
function siteClosure(i) { return () => i; }
const plan = [].concat(Array(10).fill(siteObject), Array(6).fill(siteArray), siteBig, siteString, Array(3).fill(siteClosure));
let seed = 1, rounds = 0;
function round(n) {
  for (let i = 0; i < n; i++) {
    seed = Math.imul(seed, 1664525) + 1013904223 | 0;
    sink = plan[(seed >>> 8) % plan.length](i); // too many functions to be inlined
  }
  rounds += n;
}
function main() {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) round(2000);
}
// Bytes of one round: no collection may come between.
function measure() {
  const used = () => process.memoryUsage().heapUsed;
  const few = [];
  for (let k = 0; k < 25; k++) {
    const before = used();
    round(2000);
    few.push(used() - before);
  }
  return few.sort((a, b) => a - b)[12] / 2000;
}
if (!oracle) {
  main();
  const bytes = measure();
  console.log(Math.round(bytes * rounds));
} else {
  const session = new (require('inspector').Session)();
  session.connect();
  session.post('HeapProfiler.startSampling', { samplingInterval: 32768, includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true });
  main();
  session.post('HeapProfiler.stopSampling', (error, result) => {
    const bytes = {};
    const walk = (node) => {
      const name = node.callFrame.functionName;
      if (name.startsWith('site')) bytes[name] = (bytes[name] || 0) + node.selfSize;
      node.children.forEach(walk);
    };
    walk(result.profile.head);
    for (const name of Object.keys(bytes).sort()) console.log(name, bytes[name]);
  });
}
