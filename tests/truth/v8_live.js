// SPDX-License-Identifier: GPL-2.0-only
// Runs call paths that v8_live.py knows, and writes down when each ran, by the clock that
// recordings have. usage: v8_live.js SECONDS FACTS [PATH...]
// Comments tell the judge lines: `@def NAME` where a function begins, `@call CALLER CALLED` where
// it calls. A name stands as it is shown.
'use strict';
const fs = require('fs');
let worker = { isMainThread: true };
try { worker = require('worker_threads'); } catch (e) { /* too old */ }

function spin(n) { // @def spin
  let s = 0;
  for (let i = 0; i < n; i++)
    s = (s * 31 + i) % 1000003; // @call spin -
  return s;
}

// Plain calls.
function plainC(n) { // @def plainC
  return spin(n) + 1; // @call plainC spin
}
function plainB(n) { // @def plainB
  return plainC(n) * 2; // @call plainB plainC
}
function viaPlain(n) { // @def viaPlain
  let s = plainB(n); // @call viaPlain plainB
  s += plainC(n); // @call viaPlain plainC
  return s;
}
// Classes: constructors, methods, accessors, private and static ones, fields.
class Base {
  constructor(n) { // @def new Base
    this.v = spin(n); // @call new Base spin
  }
}
class Derived extends Base {
  constructor(n) { // @def new Derived
    super(n); // @call new Derived new Base
  }
  method(n) { // @def Derived.method
    return spin(n) + this.v; // @call Derived.method spin
  }
  static make(n) { // @def Derived.make
    return new Derived(n); // @call Derived.make new Derived
  }
}
function viaClass(n) { // @def viaClass
  const made = Derived.make(n); // @call viaClass Derived.make
  return made.method(n); // @call viaClass Derived.method
}
// Closures that are made anew each time.
function viaClosure(n) { // @def viaClosure
  const inner = (m) => { // @def inner
    return spin(m) + n; // @call inner spin
  };
  const outer = function outer(m) { // @def outer
    return inner(m); // @call outer inner
  };
  return outer(n); // @call viaClosure outer
}
// Callbacks of builtins.
function viaSort(n) { // @def viaSort
  return [3, 1, 2].sort( // @call viaSort compare
    function compare(a, b) { // @def compare
      spin(n); // @call compare spin
      return a - b;
    })[0];
}
function viaMap(n) { // @def viaMap
  return [1, 2].map( // @call viaMap each
    function each(x) { // @def each
      return spin(n) + x; // @call each spin
    })[0];
}
function viaForEach(n) { // @def viaForEach
  let s = 0;
  new Map([[1, 2], [3, 4]]).forEach( // @call viaForEach visit
    function visit(v) { // @def visit
      s += spin(n) + v; // @call visit spin
    });
  return s;
}
function viaReplace(n) { // @def viaReplace
  return 'a-b'.replace(/-/g, // @call viaReplace swap
    function swap() { // @def swap
      return spin(n); // @call swap spin
    }).length;
}
function viaJson(n) { // @def viaJson
  return JSON.parse('[1]', // @call viaJson reviver
    function reviver(k, v) { // @def reviver
      spin(n); // @call reviver spin
      return v;
    }).length;
}
function viaFrom(n) { // @def viaFrom
  return Array.from([1, 2], // @call viaFrom item
    function item(x) { // @def item
      return spin(n) + x; // @call item spin
    })[0];
}
// Accessors, conversions, proxies, Reflect, bound functions.
const object = {
  n: 0,
  get value() { // @def get value
    return spin(this.n); // @call get value spin
  },
};
function viaGetter(n) { // @def viaGetter
  object.n = n;
  return object.value; // @call viaGetter get value
}
const proxy = new Proxy({ n: 0 }, {
  get: function trap(target) { // @def trap
    return spin(target.n); // @call trap spin
  },
  set: function setTrap(target, key, value) { target.n = value; return true; }, // @def setTrap
});
function viaProxy(n) { // @def viaProxy
  proxy.n = n; // @call viaProxy setTrap
  return proxy.value; // @call viaProxy trap
}
function viaApply(n) { // @def viaApply
  return Reflect.apply( // @call viaApply applied
    function applied(x) { // @def applied
      return spin(x) + this.n; // @call applied spin
    }, { n }, [n]);
}
function target(a, n) { // @def target
  return spin(n) + a; // @call target spin
}
const bound = target.bind(null, 1);
function viaBound(n) { // @def viaBound
  return bound(n); // @call viaBound target
}
// Generators.
function* numbers(n) { // @def numbers
  yield spin(n); // @call numbers spin
  yield spin(n); // @call numbers spin
}
function viaGenerator(n) { // @def viaGenerator
  let s = 0;
  for (const x of numbers(n)) // @call viaGenerator numbers
    s += x;
  return s;
}
// Names and source text beyond Latin-1, and a property's.
const viaДва = (n) => { // @def viaДва
  return spin(n); // @call viaДва spin
};
// eval, of a text that was seen before and of new ones.
const evaled = eval('(function inEval(n) {\n  return spin(n);\n})'); // @call inEval spin 2
function viaEval(n) { // @def viaEval
  return evaled(n); // @call viaEval inEval
}
let texts = 0;
function viaNewEval(n) { // @def viaNewEval
  texts++; // @call inNewEval spin 2
  return eval('\n(function inNewEval() { return spin(' + n + ') + ' + texts % 100 + '; })()'); // @call viaNewEval eval:1
} // @call eval:1 inNewEval 2
// Recursion: v8_live.py knows how deep.
function recurse(depth, n) { // @def recurse
  if (depth > 1)
    return recurse(depth - 1, n) + 1; // @call recurse recurse
  return spin(n); // @call recurse spin
}
function viaRecursion(n) { // @def viaRecursion
  return recurse(20, n); // @call viaRecursion recurse
}
// Deeper than a copy of the stack, but slowly.
function descend(depth, n) { // @def descend
  let s = depth % 50 ? 0 : spin(n); // @call descend spin
  if (depth > 1)
    s += descend(depth - 1, n); // @call descend descend
  return s;
}
function viaDeep(n) { // @def viaDeep
  return descend(1999, n); // @call viaDeep descend
}
// WebAssembly: run(n) spins, relay(n) calls the import.
const leb = (n) => n < 128 ? [n] : [n & 127 | 128, ...leb(n >> 7)];
const string = (s) => [...leb(Buffer.byteLength(s)), ...Buffer.from(s)];
const section = (id, bytes) => [id, ...leb(bytes.length), ...bytes];
const vector = (items) => [...leb(items.length), ...items.flat()];
const sized = (bytes) => [...leb(bytes.length), ...bytes];
const LOOP = [1, 1, 0x7f, // a local: s
  0x03, 0x40, // loop
  0x20, 1, 0x41, 31, 0x6c, 0x20, 0, 0x6a, 0x41, ...[0xc3, 0x84, 0x3d], 0x70, 0x21, 1, // s = (s * 31 + n) % 1000003
  0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, // if (--n) again
  0x20, 1, 0x0b];
const calls = (called) => [0, 0x20, 0, 0x10, called, 0x0b];
const module_ = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, ...section(1, [1, 0x60, 1, 0x7f, 1, 0x7f]),
  ...section(2, vector([[...string('env'), ...string('call'), 0, 0]])),
  ...section(3, vector([[0], [0], [0], [0]])),
  ...section(7, vector([[...string('run'), 0, 1], [...string('relay'), 0, 3]])),
  ...section(10, vector([sized(calls(2)), sized(LOOP), sized(calls(4)), sized(calls(0))])),
  ...section(0, [...string('name'), ...section(0, string('demo')),
    ...section(1, vector([[1, ...string('outer')], [2, ...string('wasmSpin ü')]]))])]);
function imported(n) { // @def imported
  return spin(n); // @call imported spin
}
let wasm = null;
function viaWasm(n) { // @def viaWasm
  return wasm.run(n); // @call viaWasm wasm:1
}
function viaImport(n) { // @def viaImport
  return wasm.relay(n); // @call viaImport wasm:3
}
function relayNothing(n) { // @def relayNothing
  let s = 0;
  for (let i = 0; i < n / 20; i++)
    s += wasm.relay(0); // @call relayNothing wasm:3
  return s;
}
function viaManyImports(n) { // @def viaManyImports
  return relayNothing(n); // @call viaManyImports relayNothing
}
// Promises.
async function viaAsync(n) { // @def viaAsync
  await null;
  return spin(n); // @call viaAsync spin
}
function viaThen(n) { // @def viaThen
  return Promise.resolve(n).then( // @call viaThen then
    function then(m) { // @def then
      return spin(m); // @call then spin
    });
}
async function* asyncNumbers(n) { // @def asyncNumbers
  yield spin(n); // @call asyncNumbers spin
}
async function viaAsyncGenerator(n) { // @def viaAsyncGenerator
  let s = 0;
  for await (const x of asyncNumbers(n)) // @call viaAsyncGenerator asyncNumbers
    s += x;
  return s;
}

const PATHS = { viaPlain, viaClass, viaClosure, viaSort, viaMap, viaForEach, viaReplace, viaJson, viaFrom, viaGetter,
  viaProxy, viaApply, viaBound, viaGenerator, viaДва, viaEval, viaNewEval, viaRecursion, viaDeep, viaWasm, viaImport,
  viaManyImports, viaAsync, viaThen, viaAsyncGenerator };
const NAMES = Object.keys(PATHS);
const clock = () => { // @def clock
  const t = process.hrtime(); 
  return t[0] * 1e9 + t[1];
};

async function main(seconds, wanted) { // @def main
  const log = new Float64Array(3 << 20), end = Date.now() + 1000 * seconds; // outside of the heap: no garbage of ours
  let nr = 0;
  wasm = new WebAssembly.Instance(new WebAssembly.Module(module_), { env: { call: imported } }).exports;
  await null; // from here on nobody has called
  let total = 0;
  while (Date.now() < end && nr + 3 * wanted.length <= log.length) {
    for (const name of wanted) {
      const path = PATHS[name], begin = clock(); // @call main clock
      const got = path(2500); // @call main -
      if (typeof got === 'object') total += await got;
      else total += got;
      log[nr++] = NAMES.indexOf(name);
      log[nr++] = begin;
      log[nr++] = clock(); // @call main clock
    }
  }
  return log.subarray(0, nr);
}

// Which thread this is, as perf numbers it.
const tid = () => Number(fs.readlinkSync('/proc/thread-self').replace(/.*\//, ''));
const facts = (log) => 'thread ' + tid() + '\n' + Array.from(log, (x, i) => i % 3 ? x : NAMES[x])
  .join(' ').replace(/(\S+ \S+ \S+) /g, '$1\n') + '\n';
if (worker.isMainThread) {
  const [seconds, file, ...names] = process.argv.slice(2);
  const wanted = names.filter((name) => name in PATHS);
  const options = { seconds: Number(seconds), wanted: wanted.length ? wanted : NAMES.filter((name) => name !== 'viaDeep') };
  const parts = [];
  const done = (text) => {
    parts.push(text);
    if (parts.length < (names.includes('worker') ? 2 : 1)) return;
    fs.writeFileSync(file, parts.join(''));
  };
  if (names.includes('worker'))
    new worker.Worker(__filename, { workerData: options }).on('message', done);
  main(options.seconds, options.wanted).then((log) => done(facts(log)));
} else {
  main(worker.workerData.seconds, worker.workerData.wanted)
    .then((log) => worker.parentPort.postMessage(facts(log)));
}
