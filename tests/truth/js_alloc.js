// SPDX-License-Identifier: GPL-2.0-only
// Allocates in known functions, in no regular order, for the seconds of its first argument. Prints how many bytes of V8's heap each
// function has allocated: how often it was called, times what a call takes by V8's own count of the heap. With the argument `oracle`:
// the same by V8's sampling profiler (Node 20 or later).
'use strict';
const [seconds, oracle] = [+process.argv[2] || 3, process.argv[3] === 'oracle'];
let sink;
function siteObject(i) { return { a: i, b: i }; }
function siteArray(i) { return [i, i, i, i]; }
function siteBig(i) { return new Array(64); }
function siteString(i) { return 'x' + i; }
function siteClosure(i) { return () => i; }
const plan = [].concat(Array(10).fill(siteObject), Array(6).fill(siteArray), siteBig, siteString, Array(3).fill(siteClosure));
const calls = plan.map(() => 0);
let seed = 1;
function round(n) {
  for (let i = 0; i < n; i++) {
    seed = Math.imul(seed, 1664525) + 1013904223 | 0;
    const k = (seed >>> 8) % plan.length;
    calls[k]++;
    sink = plan[k](i); // too many functions to be inlined
  }
}
function main() {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) round(2000);
}
// Returns the bytes that a call takes: the median, since a collection may come between.
function sizeOf(site) {
  const used = () => process.memoryUsage().heapUsed, CALLS = 10000, all = [];
  for (let k = 0; k < 31; k++) {
    const before = used();
    for (let i = 0; i < CALLS; i++) sink = site(i);
    all.push((used() - before) / CALLS);
  }
  return all.sort((a, b) => a - b)[15];
}
if (!oracle) {
  main();
  const bytes = new Map();
  plan.forEach((site, k) => bytes.set(site, (bytes.get(site) || 0) + calls[k]));
  for (const [site, nr] of bytes) console.log(site.name, Math.round(nr * sizeOf(site)));
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
