// SPDX-License-Identifier: GPL-2.0-only
// Drives a flame graph in headless Chromium as a reader would. Usage: node flamegraph_browser.js
// PLAYWRIGHT CHROMIUM FILE.svg FUNCTION [SCREENSHOT-PREFIX]
'use strict';
const assert = require('assert');
const [playwright, executablePath, file, wanted, shots] = process.argv.slice(2);

(async () => {
  const browser = await require(playwright).chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});
  const errors = [];
  for (const colorScheme of ['light', 'dark']) {
    const page = await browser.newPage({colorScheme, viewport: {width: 1220, height: 800}});
    page.on('pageerror', e => errors.push(e.message));
    page.on('console', m => { if (m.type() === 'error') errors.push(m.text()); });
    page.on('request', r => { if (!r.url().startsWith('file:')) errors.push('asks for ' + r.url()); });
    const shoot = async name => { if (shots) await page.screenshot({path: `${shots}-${colorScheme}-${name}.png`}); };
    const text = id => page.locator('#' + id).textContent();
    const boxes = () => page.evaluate(() => Array.from(document.querySelectorAll('#frames g:not(.hidden)'), g => {
      const r = g.querySelector('rect').getBoundingClientRect();
      return [g.querySelector('title').textContent.split('\n')[0], r.x, r.width, g.classList.contains('found')];
    }));
    const started = Date.now();
    await page.goto('file://' + file);
    const all = await boxes();
    if (shots) console.log(colorScheme, all.length, 'frames, loaded in', Date.now() - started, 'ms');
    await shoot('whole');
    const at = all.findIndex(b => b[0] === wanted);
    assert(at > 0, wanted + ' is not drawn');
    const box = page.locator('#frames g').nth(at).locator('rect');

    await box.hover({force: true});
    assert((await text('details')).startsWith(wanted + '  '), 'no details: ' + await text('details'));
    assert((await page.locator('#frames g').nth(at).locator('title').textContent()).includes('%'));
    await box.click({force: true});
    const zoomed = await boxes();
    const wide = zoomed.find(b => b[0] === wanted);
    assert(zoomed.length < all.length && Math.abs(wide[2] - 1180) < 1, 'zoom: ' + wide);
    assert(zoomed.every(b => b[1] >= 9 && b[1] + b[2] <= 1191), 'frames stick out');
    await shoot('zoomed');
    await page.locator('#reset').click();
    const again = await boxes();
    assert(again.length === all.length && again.every((b, i) => Math.abs(b[1] - all[i][1]) < 0.02 && Math.abs(b[2] - all[i][2]) < 0.02),
      'reset does not bring back the picture');

    await page.keyboard.press('/');
    await page.keyboard.type('^' + wanted + '$');
    assert(/^Found: \d+\.\d\d%$/.test(await text('found')), await text('found'));
    await page.keyboard.press('Enter');
    const found = (await boxes()).filter(b => b[3]);
    assert(found.length && found.every(b => b[0] === wanted), 'search marks ' + found.length);
    await shoot('searched');
    await page.keyboard.press('Escape');
    assert(!(await boxes()).some(b => b[3]) && await text('found') === '');
    await page.keyboard.press('Control+f');
    await page.keyboard.type('(');
    assert((await text('found')).startsWith('not a regular expression'));
    await page.keyboard.press('Escape');
    await box.click({force: true});
    assert((await boxes()).length < all.length);
    await page.keyboard.press('Escape');
    assert.strictEqual((await boxes()).length, all.length);
    await page.close();
  }
  await browser.close();
  assert.deepStrictEqual(errors, []);
})().catch(e => { console.error(e); process.exit(1); });
