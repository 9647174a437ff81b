// SPDX-License-Identifier: GPL-2.0-only
// speedscope.js BUNDLE FILE: reads perf script's text with speedscope's own importer, taken out of
// its program for browsers, and prints {profile: [stack (outermost first, names by \n)]} as JSON.
'use strict';
const fs = require('fs');
let code = fs.readFileSync(process.argv[2], 'utf8');

// Its names are shortened: the importer is the function that splits lines and makes "pid: " names;
// what prepares its classes stands right behind it.
const at = code.indexOf('`pid: ${');
const start = at < 0 ? -1 : code.lastIndexOf('function ', at);
const name = start < 0 ? null : /^function (\w+)\(\w+\)\{/.exec(code.slice(start, start + 80));
const prepare = start < 0 ? null : /\}var (\w+)=\w+\(\(\)=>\{"use strict"/.exec(code.slice(at, at + 2000));
if (!name || !prepare) throw new Error('this speedscope is built in another way; see the version the test asks for');
code = code.slice(0, start) + `globalThis.importer={get read(){return ${name[1]}},get prepare(){return ${prepare[1]}}};` +
    code.slice(start);
try {
    (0, eval)(code);
} catch (e) {
    if (!globalThis.importer) throw e; // there is no browser: the part that draws fails, and is not wanted
}
globalThis.importer.prepare();
const text = fs.readFileSync(process.argv[3], 'latin1');
const group = globalThis.importer.read({splitLines: () => text.split('\n'), firstChunk: () => text});
const out = {};
for (const p of group.profiles) {
    const stacks = new Set();
    for (const leaf of p.samples) {
        const names = [];
        for (let n = leaf; n && n.frame && !n.isRoot(); n = n.parent) names.push(n.frame.name);
        stacks.add(names.reverse().join('\n'));
    }
    out[p.getName()] = [...stacks];
}
process.stdout.write(JSON.stringify(out));
