// SPDX-License-Identifier: GPL-2.0-only
// Runs a flame graph's script in a DOM just large enough for it, clicks and searches, and checks
// what a reader would see. Usage: node flamegraph_dom.js FILE.svg FUNCTION
'use strict';
const fs = require('fs'), vm = require('vm'), assert = require('assert');
const svg = fs.readFileSync(process.argv[2], 'utf8'), wanted = process.argv[3];
const plain = s => s.replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&quot;/g, '"').replace(/&amp;/g, '&');

class Node {
  constructor(tag, attributes, text) {
    Object.assign(this, {tag, attributes: {}, textContent: text || '', children: [], on: {}});
    for (const [, k, v] of (attributes || '').matchAll(/([\w-]+)="([^"]*)"/g)) this.attributes[k] = plain(v);
    const classes = new Set((this.attributes.class || '').split(' ').filter(Boolean));
    this.classList = {toggle: (c, on) => on ? classes.add(c) : classes.delete(c), contains: c => classes.has(c)};
  }
  getAttribute(k) { return k in this.attributes ? this.attributes[k] : null; }
  setAttribute(k, v) { this.attributes[k] = String(v); }
  appendChild(n) { this.children.push(n); }
  querySelector(tag) { return this.children.find(c => c.tag === tag) || null; }
  addEventListener(what, f) { this.on[what] = f; }
}

const root = new Node('svg', svg.match(/<svg ([^>]*)>/)[1]);
const frames = [...svg.matchAll(/<g (class="[^"]*" data-f="[^"]*")>(.*?)<\/g>/gs)].map(([, attributes, inside]) => {
  const g = new Node('g', attributes);
  for (const [, tag, a, text] of inside.matchAll(/<(title|rect|text)([^>]*?)(?:\/>|>(.*?)<\/\1>)/gs))
    g.appendChild(new Node(tag, a, plain(text || '')));
  return g;
});
const named = {};
for (const [, a] of svg.matchAll(/<text (id="[^>]*)>/g)) {
  const n = new Node('text', a);
  named[n.getAttribute('id')] = n;
}
const keys = {};
vm.runInNewContext(svg.match(/<!\[CDATA\[(.*)\]\]>/s)[1], {
  document: {documentElement: root, getElementById: id => named[id],
    querySelectorAll: () => frames, createElementNS: (ns, tag) => new Node(tag)},
  window: {addEventListener: (what, f) => { keys[what] = f; }},
});

const span = g => g.getAttribute('data-f').split(' ').map(Number);
const name = g => g.querySelector('title').textContent.split('\n')[0];
const hidden = g => g.classList.contains('hidden');
const rect = g => ['x', 'width'].map(k => +g.querySelector('rect').getAttribute(k));
// the same, in the hundredths of a pixel that are written: whole numbers
const edges = g => { const [x, w] = rect(g).map(v => Math.round(v * 100)); return [x, x + w]; };
// each frame stands within the one below it, and none over its neighbour
const nested = () => {
  const below = [], end = {};
  for (const g of frames.filter(f => !hidden(f))) {
    const y = +g.querySelector('rect').getAttribute('y'), [left, right] = edges(g);
    while (below.length && (below[below.length - 1].y - y) * direction <= 0) below.pop();
    const b = below[below.length - 1];
    assert(!b || (b.left <= left && right <= b.right), name(g) + ' sticks out');
    assert(!(end[y] > left), name(g) + ' stands over its neighbour');
    end[y] = right;
    below.push({y, left, right});
  }
};
const direction = -root.getAttribute('data-direction');
nested();
const drawn = frames.map(g => rect(g).join());
const full = +root.getAttribute('data-width') - 20;
const target = frames.find(g => name(g) === wanted);
assert(target, wanted + ' is not drawn');

target.on.mouseover();
assert(named.details.textContent.startsWith(wanted + '  '));
target.on.click();
const [start, weight] = span(target);
assert(rect(target)[0] === 10 && Math.abs(rect(target)[1] - full) < 0.01);
assert(!named.reset.classList.contains('hidden'));
for (const g of frames) {
  const [s, w] = span(g), beside = s + w <= start || s >= start + weight;
  if (beside) assert(hidden(g), name(g) + ' stands beside what was zoomed to');
}
nested();
assert(frames.some(hidden) && frames.filter(g => !hidden(g)).length > 1);
named.reset.on.click();
assert(!frames.some(hidden) && named.reset.classList.contains('hidden'));
frames.forEach((g, i) => rect(g).forEach((v, k) =>
  assert(Math.abs(v - drawn[i].split(',')[k]) < 0.011, name(g) + ' does not come back to its place')));

const press = (key, more) => keys.keydown(Object.assign({key, preventDefault() {}}, more));
const type = text => { for (const c of text) press(c); press('Enter'); };
press('f', {ctrlKey: true});
type('^' + wanted.replace(/[^\w ]/g, '\\$&') + '$');
const hits = frames.filter(g => g.classList.contains('found'));
assert(hits.length && hits.every(g => name(g) === wanted));
// the share: intervals of all hits, laid over each other
let sum = 0, end = -1;
for (const [s, w] of hits.map(span).sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
  if (s >= end) { sum += w; end = s + w; }
}
assert.strictEqual(named.found.textContent, 'Found: ' + (100 * sum / span(frames[0])[1]).toFixed(2) + '%');
assert(named.search.textContent.startsWith('Search: ^'));
press('/');
type('(');
assert(named.found.textContent.startsWith('not a regular expression'), 'a bad pattern is not told');
press('Escape');
assert(!frames.some(g => g.classList.contains('found')) && named.found.textContent === '');
assert.strictEqual(named.search.textContent, 'Search');
target.on.click();
assert(frames.some(hidden));
press('Escape');
assert(!frames.some(hidden), 'Escape does not reset the zoom');
