// SPDX-License-Identifier: GPL-2.0-only
// What a flame graph does in a browser: zoom, search, details. The picture stands without it: each
// frame is a <g>, whose data-f is its start and weight, with a <title> (first line: the function's name; second:
// what there is to say), a <rect> and, where it fits, a <text>.
'use strict';
(function () {
  var svg = document.documentElement, margin = 10, charWidth = 7.25;
  var width = +svg.getAttribute('data-width') - 2 * margin;
  var direction = +svg.getAttribute('data-direction');
  var typing = null, shown = null; // the pattern that is being typed, and the one that is shown

  function element(id) { return document.getElementById(id); }
  function toggle(node, name, on) { node.classList.toggle(name, on); }
  function say(id, text) { element(id).textContent = text; }

  var frames = Array.from(document.querySelectorAll('#frames g')).map(function (g) {
    var v = g.getAttribute('data-f').split(' '), r = g.querySelector('rect');
    var lines = g.querySelector('title').textContent.split('\n');
    return {g: g, rect: r, text: g.querySelector('text'), start: +v[0], weight: +v[1],
            y: +r.getAttribute('y'), name: lines[0], says: lines.join('  ')};
  });
  var root = frames[0], zoomed = root;

  // Columns of a character: those of East Asia are two wide.
  function columns(c) {
    var code = c.codePointAt(0);
    return code >= 0x2e80 && code < 0x1f000 || code >= 0x1f300 || code >= 0x1100 && code < 0x1160 ? 2 : 1;
  }
  function fit(name, room) {
    var all = Array.from(name), used = 0, keep = 0;
    for (var i = 0; i < all.length; i++) {
      used += columns(all[i]);
      if (used <= room - 2) keep = i + 1;
    }
    return room < 3 ? '' : used <= room ? name : all.slice(0, keep).join('') + '..';
  }
  // Both edges are rounded, so that none sticks out of its parent or over its neighbour.
  function place(f, left, right) {
    var x = Math.round(left * 100) / 100, w = Math.round(right * 100) / 100 - x;
    f.rect.setAttribute('x', x.toFixed(2));
    f.rect.setAttribute('width', w.toFixed(2));
    var label = fit(f.name, Math.floor((w - 6) / charWidth));
    if (!f.text && label) {
      f.text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      f.text.setAttribute('y', f.y + 12);
      f.g.appendChild(f.text);
    }
    if (f.text) {
      f.text.setAttribute('x', (x + 3).toFixed(2));
      f.text.textContent = label;
    }
  }
  function zoom(z) {
    var scale = width / z.weight;
    frames.forEach(function (f) {
      var deeper = (f.y - z.y) * direction >= 0;
      var inside = deeper && f.start >= z.start && f.start + f.weight <= z.start + z.weight;
      var above = !deeper && f.start <= z.start && f.start + f.weight >= z.start + z.weight;
      toggle(f.g, 'hidden', !inside && !above);
      toggle(f.g, 'above', above);
      var left = f.start - z.start;
      if (above) place(f, margin, margin + width);
      else if (inside) place(f, margin + left * scale, margin + (left + f.weight) * scale);
    });
    zoomed = z;
    toggle(element('reset'), 'hidden', z === root);
  }

  // Mark what matches, and say its share: frames within each other count once.
  function find(pattern) {
    var re = null, end = -1, sum = 0;
    if (pattern) {
      try {
        re = new RegExp(pattern);
      } catch (error) {
        say('found', 'not a regular expression: ' + pattern);
        return;
      }
    }
    frames.filter(function (f) {
      var hit = re !== null && f !== root && re.test(f.name);
      toggle(f.g, 'found', hit);
      return hit;
    }).sort(function (a, b) { return a.start - b.start || b.weight - a.weight; }).forEach(function (f) {
      var from = Math.max(f.start, end), to = f.start + f.weight;
      if (to > from) {
        sum += to - from;
        end = to;
      }
    });
    shown = re && pattern;
    say('found', re ? 'Found: ' + (100 * sum / root.weight).toFixed(2) + '%' : '');
  }

  function show_typing() {
    say('search', typing === null ? shown ? 'Search: ' + shown : 'Search' : 'Search: ' + typing + '\u2502');
    toggle(element('search'), 'typing', typing !== null);
  }
  function search(pattern) {
    typing = pattern;
    find(pattern);
    show_typing();
  }
  function end_search(keep) {
    if (!keep) find('');
    typing = null;
    show_typing();
  }

  function type(e) {
    if (e.key === 'Escape') end_search(false);
    else if (e.key === 'Enter') end_search(true);
    else if (e.key === 'Backspace') search(Array.from(typing).slice(0, -1).join(''));
    else if (Array.from(e.key).length === 1 && !e.ctrlKey && !e.metaKey) search(typing + e.key);
    else return;
    e.preventDefault();
  }
  window.addEventListener('keydown', function (e) {
    var find_key = (e.ctrlKey || e.metaKey) && e.key === 'f';
    if (find_key || typing === null && e.key === '/') {
      search(typing || '');
      e.preventDefault();
    } else if (typing !== null) {
      type(e);
    } else if (e.key === 'Escape') {
      if (element('found').textContent) end_search(false);
      else zoom(root);
    }
  });
  window.addEventListener('paste', function (e) {
    if (typing !== null) search(typing + e.clipboardData.getData('text').split('\n')[0]);
  });

  frames.forEach(function (f) {
    f.g.addEventListener('click', function () { zoom(f); });
    f.g.addEventListener('mouseover', function () { say('details', f.says); });
    f.g.addEventListener('mouseout', function () { say('details', ''); });
  });
  element('reset').addEventListener('click', function () { zoom(root); });
  element('search').addEventListener('click', function () { search(shown || ''); });
})();
