// SPDX-License-Identifier: GPL-2.0-only
// Allocates in known functions, as many million times as its first argument says (some 120 MB each); some of it stays. Then prints, for each function, how many
// bytes of V8's heap it has allocated, and how many of these are in use: how many of its objects, times what one takes by V8's own
// count of the heap. With the argument `worker`, a worker does all this, after another one that has ended. Ends by SIGKILL: the heap is not
// taken down. Needs --expose-gc.
'use strict';
const { Worker, isMainThread, workerData } = require('worker_threads');
const [millions, last] = isMainThread ? [+process.argv[2] || 5] : workerData;
const CACHE = 20000, RING = 40000;
const kept = { leak: null, cache: Array(CACHE).fill(null), ring: Array(RING).fill(null), moved: null, big: null };
let sink;
// Lost: 1 % of what is allocated.
function leakSite(i) { return kept.leak = { next: kept.leak, l: i, a: i, b: i, c: i, d: i, e: i, f: i }; }
// Garbage at once: the most.
function youngSite(i) { return [i, i, i, i, i, i, i, i]; }
// Lives for some time, such that it grows old, and is garbage then.
function ringSite(i) { return kept.ring[i % RING] = { r: i, a: i, b: i, c: i }; }
// A cache of a fixed size: old entries are replaced.
function cacheSite(i) { return kept.cache[i % CACHE] = { k: i, a: i, b: i, c: i }; }
// A part of it is dropped later: pages get holes, and objects move. (Which, by chance: areas are sampled that begin in regular distances.)
function movedSite(i) { return kept.moved = { next: kept.moved, m: i, a: i, b: i, c: i }; }
// Large objects: some stay.
function bigSite(i) { const o = Array(30000); if (i % 80 === 0) kept.big = (o[0] = kept.big, o); return o; }
const sites = [leakSite, youngSite, ringSite, cacheSite, movedSite, bigSite], calls = sites.map(() => 0), left = sites.map(() => 0);
// (A call of many functions: they are not inlined, where V8 would not know who allocates.)
function call(k) { sink = sites[k](++calls[k]); }
let seed = 1;
const random = () => (seed = Math.imul(seed, 1664525) + 1013904223 | 0) >>> 8;
function step(n) {
  for (let i = 0; i < n; i++) {
    const r = random() % 10000, k = r < 140 ? 0 : r < 7500 ? 1 : r < 9600 ? 2 : r < 9999 ? 3 : 5;
    call(k);
  }
}
function fragment() {
  for (let i = 0; i < 60000; i++) call(4);
  for (let o = kept.moved; o; o = o.next) while (o.next && random() % 8 < 3) o.next = o.next.next;
}
// What one object takes: the median, since a collection may come between.
function sizeOf(site) {
  const used = () => process.memoryUsage().heapUsed, n = site === bigSite ? 10 : 2000, all = [];
  for (let k = 0; k < 15; k++) {
    const before = used();
    for (let i = 1; i <= n; i++) sink = site(80 * i + 1);
    all.push((used() - before) / n);
  }
  return all.sort((a, b) => a - b)[7];
}
const length = (list, next) => { let n = 0; for (; list; list = list[next]) n++; return n; };
function end() {
  kept.ring.fill(null);
  sink = null;
  left[0] = length(kept.leak, 'next');
  left[3] = Math.min(CACHE, calls[3]);
  left[4] = length(kept.moved, 'next');
  left[5] = length(kept.big, 0);
  gc();
  const all = [...calls];
  require('fs').writeSync(1, sites.map((site, k) => { const size = sizeOf(site); return `${site.name} ${Math.round(all[k] * size)} ${Math.round(left[k] * size)} ${Math.round(size)}\n`; }).join(''));
  if (isMainThread || last) process.kill(process.pid, 'SIGKILL');
}
function run(done) {
  let times = 0, steps = 0;
  setTimeout(function turn() { // (it is probed when it runs)
    const part = (steps += 20000) / 1e6 / millions;
    if (part > 1) return done();
    if (times < 2 && part > 0.2 + 0.4 * times) { times++; fragment(); if (times === 2) gc(); }
    step(20000);
    setTimeout(turn, 15); // (what is lost steadily is told from the rest by time: most of it is to be here)
  }, 500);
}
if (isMainThread && process.argv[3] === 'worker') {
  new Worker(__filename, { workerData: [millions / 4] }).on('exit', () => new Worker(__filename, { workerData: [millions, true] }));
} else run(end);
