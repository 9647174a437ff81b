// SPDX-License-Identifier: GPL-2.0-only
// A program for bench/diff: rounds of several kinds of work until SECONDS of processor time are used.
// "slow" does the work of one function, checksum, more often. Usage: node work.js SECONDS [slow]
'use strict';
const seconds = +process.argv[2] || 1, slow = process.argv[3] === 'slow';
const text = 'the quick brown fox jumps over the lazy dog '.repeat(40), part = text.slice(0, text.length / 8);

function checksum(s) {
  let h = 5381;
  for (let i = 0; i < s.length; i++) h = (Math.imul(h, 33) + s.charCodeAt(i)) >>> 0;
  return h;
}
function countWords(s) {
  let n = 0;
  for (const w of s.split(' ')) if (w.length) n++;
  return n;
}
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function sortItems(n) {
  const t = [];
  for (let i = 0; i < n; i++) t.push(Math.random());
  t.sort((a, b) => a - b);
  return t[0];
}
class Point {
  constructor(x, y) { this.x = x; this.y = y; }
  length() { return Math.sqrt(this.x * this.x + this.y * this.y); }
}
function points(n) {
  const all = [];
  for (let i = 0; i < n; i++) all.push(new Point(i, n - i));
  return all.reduce((sum, p) => sum + p.length(), 0);
}
function parse(n) {
  return JSON.parse(JSON.stringify(Array.from({length: n}, (_, i) => ({id: i, name: 'n' + i})))).length;
}

function round() {
  let sum = 0;
  for (let i = 0; i < (slow ? 53 : 40); i++) sum += checksum(part);
  return sum + countWords(text) * 3 + fib(15) + sortItems(150) + points(400) + parse(60);
}

let total = 0;
const used = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1e6; };
while (used() < seconds) total += round();
