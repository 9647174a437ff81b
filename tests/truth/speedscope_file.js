// SPDX-License-Identifier: GPL-2.0-only
// speedscope_file.js BUNDLE FILE: reads a file as speedscope does that is dropped on its page, and
// prints {profile: {stack (outermost first, names by \n): weight}} as JSON.
'use strict';
const fs = require('fs');
const path = require('path');
let code = fs.readFileSync(process.argv[2], 'utf8');

// Names are shortened, those of a module's exports are not; what prepares the module's classes
// stands right behind it.
const exported = /importProfilesFromArrayBuffer:\(\)=>([$\w]+)/.exec(code);
const start = exported ? code.indexOf(`async function ${exported[1]}(`) : -1;
const prepare = start < 0 ? null : /\}var ([$\w]+)=[$\w]+\(\(\)=>\{"use strict"/.exec(code.slice(start));
if (!prepare) throw new Error('this speedscope is built in another way; see the version the test asks for');
code = code.slice(0, start) +
    `globalThis.importer={get read(){return ${exported[1]}},get prepare(){return ${prepare[1]}}};` + code.slice(start);
console.log = () => {};
try {
    (0, eval)(code);
} catch (e) {
    if (!globalThis.importer) throw e; // there is no browser: the part that draws fails, and is not wanted
}
globalThis.importer.prepare();

function stacks(profile) {
    const out = {};
    profile.samples.forEach((leaf, i) => {
        const names = [];
        for (let n = leaf; n && n.frame && !n.isRoot(); n = n.parent) names.push(n.frame.name);
        const stack = names.reverse().join('\n');
        out[stack] = (out[stack] || 0) + profile.weights[i];
    });
    return out;
}

(async () => {
    const bytes = fs.readFileSync(process.argv[3]);
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    const group = await globalThis.importer.read(path.basename(process.argv[3]), buffer);
    if (!group) throw new Error('speedscope does not know this file');
    const out = {};
    for (const p of group.profiles) out[p.getName()] = stacks(p);
    process.stdout.write(JSON.stringify(out));
})().catch(e => { console.error(e); process.exit(1); });
