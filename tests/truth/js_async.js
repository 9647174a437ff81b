// SPDX-License-Identifier: GPL-2.0-only
// Stacks of async functions, of each kind of await. work() burns time, and notes the stack that V8
// itself tells there; all of them are printed at the end, one a line. Arguments: seconds, turns of work().
'use strict';
Error.stackTraceLimit = 100;
const turns = Number(process.argv[3]) || 150000;
const seen = new Set();
function work() {
    seen.add(new Error().stack.split('\n').slice(1).map((s) => s.trim()).join(' | '));
    let x = 0;
    for (let i = 0; i < turns; i++) x += i * i % 7;
    return x;
}

// a chain of awaits
async function chain3() { await null; work(); }
async function chain2() { await chain3(); work(); }
async function chain1() { await chain2(); work(); }

// combinators
async function part() { await null; work(); }
async function all() { await Promise.all([1, part()]); work(); }
async function settledPart() { await null; work(); }
async function settled() { await Promise.allSettled([settledPart(), 2]); }
async function anyPart() { await null; work(); }
async function any() { await Promise.any([anyPart()]); }
async function racePart() { await null; work(); }
async function race() { await Promise.race([racePart(), new Promise(() => {})]); }

// then, finally, catch
async function thenPart() { await null; work(); return 3; }
async function then() { await thenPart().then((x) => work() + x).then((x) => work() - x); }
async function finallyPart() { await null; work(); }
async function withFinally() { await finallyPart().finally(() => work()); }
async function thrower() { await null; work(); throw new Error('planned'); }
async function catcher() { try { await thrower(); } catch (e) { work(); } }
async function catchCallback() { await thrower().catch(() => work()); }

// promises that are resolved by promises
async function resolver() { await null; work(); }
async function wrapped() { await new Promise((resolve) => { resolver().then(resolve); }); }
async function returned() { await null; work(); }
async function returns() { return returned(); }
async function awaitsReturns() { await returns(); }
const thenable = { then(resolve) { work(); resolve(1); } };
async function awaitsThenable() { await thenable; work(); }

// generators
async function item() { await null; work(); return 1; }
async function* inner() { yield await item(); await null; work(); yield 2; }
async function* outer() { yield* inner(); await null; work(); }
async function iterates() { for await (const v of inner()) work(v); }
async function delegates() { for await (const v of outer()) work(v); }

// methods, arrows, nameless functions
class Store {
    async read() { await null; work(); }
    static async open() { const s = new Store(); await s.read(); }
}
const arrow = async () => { await Store.open(); };
async function nameless() { await (async () => { await null; work(); })(); }

// two that wait for one
async function shared() { await null; await null; work(); }
async function waits(p) { await p; work(); }
async function several() { const p = shared(); await Promise.all([waits(p), waits(p)]); }

// deep, and from a timer
async function deep(n) { if (n) await deep(n - 1); else { await null; work(); } }
async function timer() { await new Promise((resolve) => setTimeout(resolve, 1)); work(); }
async function awaitsTimer() { await timer(); }
async function synchronous() { work(); }
async function callsAtOnce() { await null; await synchronous(); }

const kinds = [chain1, all, settled, race, then, withFinally, catcher, catchCallback, wrapped,
    awaitsReturns, awaitsThenable, iterates, delegates, arrow, nameless, several,
    function recursion() { return deep(25); }, awaitsTimer, callsAtOnce];
if (Promise.any) kinds.push(any); // Node 15
async function main() {
    const end = Date.now() + 1000 * (Number(process.argv[2]) || 3);
    while (Date.now() < end) for (const kind of kinds) await kind();
    for (const s of seen) console.log(s);
}
main();
