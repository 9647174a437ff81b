// SPDX-License-Identifier: GPL-2.0-only
// Makes V8 count memory outside of its heap, through zlib, some hundred times and slowly.
'use strict';
const zlib = require('zlib');
let left = 40;
function foo() { const deflate = new zlib.DeflateRaw(); deflate.close(); return left; }
function bar() { return foo() + 1; }
function tick() {
  for (let i = 0; i < 5; i++) bar();
  if (--left) setTimeout(tick, 8);
}
tick();
