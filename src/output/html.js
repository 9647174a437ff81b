// SPDX-License-Identifier: GPL-2.0-only
// The page of a recording (html.c). The data is decoded once into arrays. What is shown is a function of `state`, which is also the URL's
// hash: a link reopens the same view. Trees are arrays in which parents come before their children; node 0 is the root.
'use strict';
(function () {
  const ROW = 18, FONT = '12px ui-monospace,Menlo,Consolas,monospace', CHAR = 7.25, LEAST = 0.4; // pixels
  const STRIPS = 8, TABLE = 300; // shown at first
  const PROCESS = 0, UNKNOWN = 1, KERNEL = 2, NATIVE = 3, GENERATED = 4, LUA = 5, JS = 6, WASM = 7, MANAGED = 8, RUNTIME = 9;
  const KINDS = ['process', 'no name', 'kernel', 'native', 'generated', 'Lua', 'JavaScript', 'WebAssembly', 'managed', 'runtime'];
  const TRACE = 3; // enum frame_tier
  const TIERS = ['', 'interpreted', 'baseline', 'in traces', 'Maglev', 'TurboFan', 'awaits'];
  const PROVEN = ['', 'read at another moment', 'guessed'];
  const VIEWS = {flame: 'Flame graph', icicle: 'Icicle', table: 'Table', callers: 'Callers and callees', source: 'Source'};

  // ---- the data --------------------------------------------------------------------------------

  const DIGITS = new Uint8Array(128);
  Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/').forEach((c, i) => { DIGITS[c.charCodeAt(0)] = i; });
  function numbers(text) {
    let at = 0;
    const next = () => {
      let value = 0, scale = 1, digit;
      do {
        digit = DIGITS[text.charCodeAt(at++)];
        value += (digit & 31) * scale;
        scale *= 32;
      } while (digit & 32);
      return value;
    };
    next.left = () => text.length - at;
    return next;
  }
  function decodeRows(event) {
    const next = numbers(event.rows), slice = [], thread = [], node = [], samples = [], weight = [], tier = [];
    for (let at = 0, left = event.samples; left > 0;) {
      slice.push(at += next());
      thread.push(next());
      node.push(next());
      const both = next(), nr = Math.floor(both / 8), w = next();
      tier.push(both % 8);
      samples.push(nr);
      weight.push(w ? w - 1 : event.each * nr);
      left -= nr;
    }
    return {slice: Uint16Array.from(slice), thread: Uint32Array.from(thread), node: Uint32Array.from(node),
            samples: Float64Array.from(samples), weight: Float64Array.from(weight), tier: Uint8Array.from(tier)};
  }
  function decode(r) {
    const f = numbers(r.functions), t = numbers(r.nodes), functions = [];
    for (let i = 0; i < r.nrFunctions; i++) {
      const name = r.strings[f()], module = r.strings[f()], file = f();
      functions.push({name, module, file: file ? r.strings[file - 1] : '', line: f(), kind: f()});
    }
    const parent = new Int32Array(r.nrNodes), fn = new Int32Array(r.nrNodes).fill(-1), look = new Uint8Array(r.nrNodes);
    const usual = new Uint8Array(r.nrFunctions); // the function's last look
    for (let i = 1; i < r.nrNodes; i++) {
      const head = t();
      fn[i] = head >> 2;
      parent[i] = i - (head & 1 ? t() : 1);
      look[i] = usual[fn[i]] = head & 2 ? t() : usual[fn[i]];
    }
    r.events.forEach(e => { e.decoded = decodeRows(e); e.rows = null; });
    return {functions, parent, fn, look};
  }

  const recordings = JSON.parse(document.getElementById('data').textContent);
  const now = recordings[0], base = recordings[1];
  if (now.luajit) VIEWS.luajit = 'LuaJIT';
  if (now.v8) VIEWS.v8 = 'V8';
  const decoded = decode(now), functions = decoded.functions;
  let whole = {parent: decoded.parent, fn: decoded.fn, look: decoded.look};
  if (base) addBase(decode(base));

  // Add the base's functions and nodes that the recording does not have, and number the base's rows alike.
  function addBase(b) {
    const key = f => f.name + '\0' + f.module + '\0' + f.kind, known = new Map(functions.map((f, i) => [key(f), i]));
    const number = b.functions.map(f => {
      if (!known.has(key(f))) {
        known.set(key(f), functions.length);
        functions.push(f);
      }
      return known.get(key(f));
    });
    const grown = growing(whole), map = new Int32Array(b.parent.length);
    for (let i = 1; i < b.parent.length; i++) map[i] = grown.child(map[b.parent[i]], number[b.fn[i]], b.look[i]);
    base.events.forEach(e => { e.decoded.node = e.decoded.node.map(n => map[n]); });
    whole = grown.done();
  }
  // The look of two nodes that become one: the first one's tier, the weaker proof, inlined if one is.
  function joined(a, b) { return a & 7 | Math.max(a & 24, b & 24) | (a | b) & 32; }
  // A tree that grows, from a copy of `from` or from its root; children are found by a hash of parent and function.
  function growing(from) {
    let size = 1, room = Math.max(1024, from ? 2 * from.parent.length : 0), mask = 0, slots;
    let parent = new Int32Array(room), fn = new Int32Array(room), look = new Uint8Array(room);
    const home = (p, f) => (Math.imul(p, 0x9e3779b1) ^ Math.imul(f + 1, 0x85ebca6b)) >>> 7;
    function rehash() {
      mask = 4;
      while (mask < 2 * room) mask *= 2;
      slots = new Int32Array(mask--);
      for (let i = 1; i < size; i++) {
        let at = home(parent[i], fn[i]) & mask;
        while (slots[at]) at = at + 1 & mask;
        slots[at] = i;
      }
    }
    function grow() {
      const wider = (array, type) => { const to = new type(2 * room); to.set(array); return to; };
      parent = wider(parent, Int32Array);
      fn = wider(fn, Int32Array);
      look = wider(look, Uint8Array);
      room *= 2;
      rehash();
    }
    fn[0] = -1;
    if (from) {
      parent.set(from.parent);
      fn.set(from.fn);
      look.set(from.look);
      size = from.parent.length;
    }
    rehash();
    return {
      child(p, f, l) {
        let at = home(p, f) & mask;
        for (; slots[at]; at = at + 1 & mask) {
          const known = slots[at];
          if (parent[known] !== p || fn[known] !== f) continue;
          look[known] = joined(look[known], l);
          return known;
        }
        if (size === room) {
          grow();
          for (at = home(p, f) & mask; slots[at];) at = at + 1 & mask;
        }
        parent[size] = p;
        fn[size] = f;
        look[size] = l;
        return slots[at] = size++;
      },
      done: () => ({parent: parent.slice(0, size), fn: fn.slice(0, size), look: look.slice(0, size)}),
    };
  }

  // ---- trees -----------------------------------------------------------------------------------

  let ranks; // of functions, by name
  function rank() {
    if (ranks) return ranks;
    const order = functions.map((f, i) => i).sort((a, b) => functions[a].name < functions[b].name ? -1 : functions[a].name > functions[b].name ? 1 : a - b);
    ranks = new Uint32Array(order.length);
    order.forEach((f, i) => { ranks[f] = i; });
    return ranks;
  }
  // Link each node's children in the order of their names.
  function link(tree) {
    const n = tree.parent.length, r = rank(), begins = new Uint32Array(functions.length + 1), sorted = new Uint32Array(n);
    tree.first = new Int32Array(n);
    tree.next = new Int32Array(n);
    tree.depth = new Uint16Array(n);
    for (let i = 1; i < n; i++) begins[r[tree.fn[i]] + 1]++;
    for (let i = 1; i < begins.length; i++) begins[i] += begins[i - 1];
    for (let i = 1; i < n; i++) sorted[begins[r[tree.fn[i]]]++] = i;
    for (let i = n - 2; i >= 0; i--) {
      const node = sorted[i], p = tree.parent[node];
      tree.next[node] = tree.first[p];
      tree.first[p] = node;
    }
    for (let i = 1; i < n; i++) tree.depth[i] = tree.depth[tree.parent[i]] + 1;
    return tree;
  }
  function sums(tree, self) {
    const total = self.slice();
    for (let i = total.length - 1; i > 0; i--) total[tree.parent[i]] += total[i];
    return total;
  }
  // Nodes with no outer node of the same function: a recursive function counts once.
  function outermost(tree) {
    if (tree.outer) return tree.outer;
    const inside = new Uint32Array(functions.length), outer = tree.outer = new Uint8Array(tree.parent.length);
    for (let at = tree.first[0]; at;) {
      if (!inside[tree.fn[at]]++) outer[at] = 1;
      if (tree.first[at]) {
        at = tree.first[at];
        continue;
      }
      for (inside[tree.fn[at]]--; at && !tree.next[at];) {
        at = tree.parent[at];
        if (at) inside[tree.fn[at]]--;
      }
      at = at && tree.next[at];
    }
    return outer;
  }
  const isManaged = kind => kind >= LUA && kind <= MANAGED;
  const isSystem = module => /^(\/usr)?\/lib(32|64|exec|x32)?\/|^\[/.test(module);
  // Only own code: frames of the kernel, of C around managed code, of VMs and of their own modules are left out; their time counts to the
  // nearest frame outwards that stays. A process without managed code keeps its native code, but for system libraries.
  function ownTree() {
    const n = whole.parent.length, process = new Int32Array(n), managed = new Uint8Array(n), map = new Int32Array(n), own = growing();
    for (let i = 1; i < n; i++) {
      process[i] = whole.parent[i] ? process[whole.parent[i]] : i;
      if (isManaged(functions[whole.fn[i]].kind)) managed[process[i]] = 1;
    }
    for (let i = 1; i < n; i++) {
      const f = functions[whole.fn[i]];
      const stays = f.kind === PROCESS || isManaged(f.kind) || f.kind === GENERATED ||
                    f.kind === NATIVE && !managed[process[i]] && !isSystem(f.module);
      map[i] = stays ? own.child(map[whole.parent[i]], whole.fn[i], whole.look[i]) : map[whole.parent[i]];
    }
    return Object.assign(link(own.done()), {map});
  }
  const trees = {};
  function tree() {
    const name = state.own ? 'own' : 'whole';
    if (!trees[name]) trees[name] = state.own ? ownTree() : Object.assign(link(whole), {map: null});
    return trees[name];
  }

  // ---- what is shown -----------------------------------------------------------------------------

  const DEFAULTS = {v: 'flame', e: 0, q: '', z: '', f: -1, t: '', h: -1, own: 0, s: '', src: 0, l: 0};
  let state = Object.assign({}, DEFAULTS);
  function readHash() {
    const given = new URLSearchParams(location.hash.slice(1));
    state = Object.assign({}, DEFAULTS);
    for (const k in DEFAULTS) if (given.has(k)) state[k] = typeof DEFAULTS[k] === 'number' ? parseInt(given.get(k), 10) | 0 : given.get(k);
    if (!VIEWS[state.v]) state.v = 'flame';
    if (!now.events[state.e]) state.e = 0;
    if (!functions[state.f]) state.f = -1;
    if (!now.threads[state.h]) state.h = -1;
    if (!now.sources[state.src]) state.src = 0;
  }
  function hash() {
    const out = new URLSearchParams();
    for (const k in DEFAULTS) if (state[k] !== DEFAULTS[k]) out.set(k, state[k]);
    return '#' + out;
  }
  // `typing`: one step of many, which Back takes together.
  function change(to, typing) {
    Object.assign(state, to);
    const where = location.href.replace(/#.*/, '') + hash();
    if (where !== location.href) {
      if (typing) history.replaceState(null, '', where);
      else history.pushState(null, '', where);
    }
    show();
  }
  function range() {
    const m = /^(\d+)-(\d+)$/.exec(state.t);
    return m && +m[1] <= +m[2] ? [+m[1], Math.min(+m[2], now.slices - 1)] : null;
  }
  // The weights of the rows that pass, by node of the tree.
  function selves(t, event, isNow) {
    const self = new Float64Array(t.parent.length), e = event.decoded;
    let samples = 0;
    passing(e, isNow, i => {
      self[t.map ? t.map[e.node[i]] : e.node[i]] += e.weight[i];
      samples += e.samples[i];
    });
    return {self, total: sums(t, self), samples};
  }
  // The base has other times, which no span of ours chooses, and other threads: those of the chosen one's name pass.
  function passing(e, isNow, take) {
    const span = isNow && range(), name = state.h < 0 ? '' : now.threads[state.h].comm;
    const threads = state.h < 0 ? null : isNow ? now.threads.map((t, i) => i === state.h) : base.threads.map(t => t.comm === name);
    for (let i = 0; i < e.node.length; i++)
      if ((!threads || threads[e.thread[i]]) && (!span || e.slice[i] >= span[0] && e.slice[i] <= span[1])) take(i);
  }
  function baseEvent() {
    return base && (base.events.find(e => e.name === now.events[state.e].name) || base.events[0]);
  }
  let kept = {}; // the last weights: they change with the filters only
  function weights() {
    const key = [state.e, state.t, state.h, state.own].join();
    if (kept.key !== key) {
      const t = tree();
      kept = {key, tree: t, now: now.events[state.e] ? selves(t, now.events[state.e], true) : {self: new Float64Array(t.parent.length), total: new Float64Array(t.parent.length), samples: 0},
              base: base && selves(t, baseEvent(), false)};
    }
    return kept;
  }
  function pattern() {
    try {
      return state.q ? new RegExp(state.q, /[A-Z]/.test(state.q) ? '' : 'i') : null;
    } catch (e) {
      return undefined;
    }
  }
  function matching(re) {
    return re ? Uint8Array.from(functions, f => re.test(f.name) || re.test(f.module) || re.test(f.file)) : null;
  }

  // ---- words and colours -------------------------------------------------------------------------

  function amount(x, unit) {
    const step = (value, names, by) => {
      let i = 0;
      while (value >= by && i < names.length - 1) { value /= by; i++; }
      return (value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toPrecision(3)) + ' ' + names[i];
    };
    if (unit === 'nanoseconds') return step(x, ['ns', 'µs', 'ms', 's'], 1000);
    if (unit === 'bytes') return step(x, ['B', 'KiB', 'MiB', 'GiB'], 1024);
    return Math.round(x).toLocaleString('en') + (unit === 'samples' ? ' samples' : '');
  }
  const percent = (x, all) => (all ? 100 * x / all : 0).toFixed(2) + ' %';
  const baseName = path => path.slice(path.lastIndexOf('/') + 1) || path;
  const place = f => f.file && f.name.includes(f.file) ? '' : f.file ? f.file + (f.line ? ':' + f.line : '') : f.module;
  const HUES = [[0, 0, 78], [0, 0, 68], [208, 75, 68], [18, 85, 66], [75, 50, 62], [255, 70, 76], [160, 35, 70], [185, 55, 62], [35, 45, 60], [55, 20, 66]];
  const JS_HUES = {2: [150, 50, 62], 4: [125, 50, 62], 5: [95, 60, 56], 6: [165, 25, 84]};
  function hue(kind, look) {
    const tier = look & 7;
    if (kind === LUA && tier === 3) return [285, 65, 68];
    if (kind === JS && JS_HUES[tier]) return JS_HUES[tier];
    return kind === NATIVE && look & 32 ? [48, 85, 66] : HUES[kind] || HUES[1];
  }
  const shades = [];
  function shade(fn) {
    if (shades[fn] === undefined) {
      let h = 7;
      for (const c of functions[fn].name) h = h * 31 + c.charCodeAt(0) | 0;
      shades[fn] = (h >>> 8) % 4;
    }
    return shades[fn];
  }
  function colour(fn, look) {
    const [h, s, l] = hue(functions[fn].kind, look), i = shade(fn);
    return `hsl(${h + 3 * i},${s}%,${l + 3 * i}%)`;
  }
  // The growth of a share against the base, from -1 to 1; 0 if chance explains it (two standard deviations).
  function growth(x, all, y, baseAll, samples, baseSamples) {
    const a = all ? x / all : 0, b = baseAll ? y / baseAll : 0, mean = (a + b) / 2;
    const luck = Math.sqrt(mean * (1 - mean) * (1 / Math.max(1, samples) + 1 / Math.max(1, baseSamples)));
    return Math.abs(a - b) > 2 * luck ? (a - b) / Math.max(a, b) : 0;
  }
  function growthColour(g) {
    const step = Math.ceil(Math.abs(g) * 5);
    return `hsl(${g < 0 ? 215 : 0},${step ? 60 + 6 * step : 0}%,${92 - 7 * step}%)`;
  }

  // ---- elements ----------------------------------------------------------------------------------

  function make(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const k in attributes) {
      if (k.startsWith('on')) e.addEventListener(k.slice(2), attributes[k]);
      else if (attributes[k] !== null) e.setAttribute(k, attributes[k]);
    }
    e.append(...children);
    return e;
  }
  const $ = id => document.getElementById(id);

  // ---- a pane with a graph -----------------------------------------------------------------------

  // what: {tree, now: {total, samples}, base, all, baseAll, up: whether the root is at the bottom, zoom, marks, pick(node)}
  function Pane(label) {
    const canvas = make('canvas', {tabindex: 0, role: 'img', 'aria-label': label}), filler = make('div', {});
    const box = make('div', {class: 'pane'}, canvas, filler);
    let what = null, drawn = [], hovered = -1, asked = false;
    let seen = 0, below = 0; // the box's height, and how far its lower edge is from the end

    function geometry() {
      const t = what.tree, total = what.now.total;
      let deepest = 0;
      const stack = [what.zoom];
      while (stack.length) {
        const i = stack.pop();
        if (t.depth[i] > deepest) deepest = t.depth[i];
        for (let c = t.first[i]; c; c = t.next[c]) if (total[c] * what.scale >= LEAST) stack.push(c);
      }
      return deepest + 1;
    }
    function y(depth) {
      return (what.up ? what.height - (depth + 1) * ROW : depth * ROW) - box.scrollTop;
    }
    function put(context, i, x, w) {
      const top = y(what.tree.depth[i]);
      if (top > canvas.clientHeight || top < -ROW) return;
      const fn = what.tree.fn[i];
      drawn.push({x, w, top, node: i});
      context.globalAlpha = what.tree.depth[i] < what.tree.depth[what.zoom] ? 0.5 : 1;
      context.fillStyle = fn < 0 ? what.colour || '#c7c7c7' : what.marks && what.marks[fn] ? '#e600e6'
        : what.base ? growthColour(growth(what.now.total[i], what.all, what.base.total[i], what.baseAll, what.now.samples, what.base.samples))
        : colour(fn, what.tree.look[i]);
      context.fillRect(x, top, Math.max(w - (w > 3 ? 1 : 0), LEAST), ROW - 1);
      if (what.tree.look[i] & 24 && w > 4) {
        context.setLineDash([3, 2]);
        context.strokeStyle = '#444';
        context.strokeRect(x + 0.5, top + 0.5, w - 2, ROW - 2);
      }
      if (i === hovered) {
        context.setLineDash([]);
        context.strokeStyle = getComputedStyle(document.body).color;
        context.strokeRect(x + 0.5, top + 0.5, Math.max(w - 2, 1), ROW - 2);
      }
      const room = Math.floor((w - 8) / CHAR);
      if (room < 3) return;
      const name = fn < 0 ? what.name || 'all' : functions[fn].name;
      context.fillStyle = '#111';
      context.fillText(name.length <= room ? name : name.slice(0, room - 1) + '…', x + 3, top + 13);
    }
    function draw() {
      asked = false;
      if (!what || !box.isConnected) return;
      const ratio = window.devicePixelRatio || 1, width = box.clientWidth, height = Math.max(box.clientHeight, ROW);
      what.scale = width / (what.now.total[what.zoom] || 1);
      canvas.style.height = height + 'px';
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      context.font = FONT;
      drawn = [];
      const t = what.tree, total = what.now.total;
      for (let i = t.parent[what.zoom], more = what.zoom > 0; more; more = i > 0, i = t.parent[i]) put(context, i, 0, width);
      const stack = total[what.zoom] ? [[what.zoom, 0]] : [];
      while (stack.length) {
        const [i, x] = stack.pop();
        put(context, i, x, total[i] * what.scale);
        let at = x;
        for (let c = t.first[i]; c; c = t.next[c]) {
          const w = total[c] * what.scale;
          if (w >= LEAST) stack.push([c, at]);
          at += w;
        }
      }
    }
    function ask() {
      if (!asked) requestAnimationFrame(draw);
      asked = true;
    }
    function at(event) {
      const r = canvas.getBoundingClientRect(), x = event.clientX - r.left, py = event.clientY - r.top;
      const hit = drawn.find(d => x >= d.x && x < d.x + Math.max(d.w, 1) && py >= d.top && py < d.top + ROW);
      return hit ? hit.node : -1;
    }
    function hover(node) {
      if (node === hovered) return;
      hovered = node;
      if (node >= 0) details(what, node);
      ask();
    }
    // Move the mark: to the parent, a child, or the neighbour at the same depth.
    function move(key) {
      const t = what.tree, total = what.now.total, i = hovered < 0 ? what.zoom : hovered, row = drawn.filter(d => d.top === y(t.depth[i])).sort((a, b) => a.x - b.x);
      const here = row.findIndex(d => d.node === i), inwards = what.up ? 'ArrowUp' : 'ArrowDown';
      let to = i;
      if (key === 'ArrowLeft') to = here > 0 ? row[here - 1].node : i;
      else if (key === 'ArrowRight') to = here + 1 < row.length ? row[here + 1].node : i;
      else if (key === inwards) for (let c = t.first[i], most = 0; c; c = t.next[c]) { if (total[c] > most) { most = total[c]; to = c; } }
      else to = i ? t.parent[i] : i;
      hover(to);
      const top = y(t.depth[to]);
      if (top < 0) box.scrollTop += top;
      else if (top + ROW > box.clientHeight) box.scrollTop += top + ROW - box.clientHeight;
    }
    canvas.addEventListener('mousemove', e => { hover(at(e)); canvas.title = hovered >= 0 ? title(what, hovered) : ''; });
    canvas.addEventListener('mouseleave', () => hover(-1));
    canvas.addEventListener('click', e => { const node = at(e); if (node >= 0) { details(what, node); what.pick(node); } });
    canvas.addEventListener('keydown', e => {
      if (e.key.startsWith('Arrow')) move(e.key);
      else if (e.key === 'Enter' && hovered >= 0) what.pick(hovered);
      else return;
      e.preventDefault();
    });
    box.addEventListener('scroll', () => {
      if (box.clientHeight === seen) below = box.scrollHeight - seen - box.scrollTop;
      ask();
    });
    new ResizeObserver(() => { if (what) { size(false); ask(); } }).observe(box);
    function size(fresh) {
      what.scale = box.clientWidth / (what.now.total[what.zoom] || 1);
      what.height = Math.max(geometry() * ROW, box.clientHeight);
      filler.style.height = what.height - box.clientHeight + 'px';
      seen = box.clientHeight;
      if (fresh) below = 0;
      if (what.up) box.scrollTop = box.scrollHeight - seen - below;
      else if (fresh) box.scrollTop = 0;
    }
    return {
      box, canvas,
      boxes: () => drawn.map(d => ({name: d.node && what.tree.fn[d.node] >= 0 ? functions[what.tree.fn[d.node]].name : 'all', x: d.x, w: d.w, top: d.top, marked: !!(what.marks && what.marks[what.tree.fn[d.node]])})),
      set(w) {
        const fresh = !what || what.tree !== w.tree || what.zoom !== w.zoom || what.up !== w.up;
        what = w;
        hovered = -1;
        size(fresh);
        draw();
      },
    };
  }
  function title(what, node) {
    const fn = what.tree.fn[node], event = now.events[state.e] || {unit: 'samples'}, total = what.now.total[node], look = what.tree.look[node];
    const name = fn < 0 ? what.name || 'all' : functions[fn].name, words = [];
    if (fn >= 0 && place(functions[fn])) words.push(place(functions[fn]));
    words.push(amount(total, event.unit), percent(total, what.all));
    if (what.base) words.push('was ' + percent(what.base.total[node], what.baseAll));
    if (fn >= 0 && look & 7) words.push(TIERS[look & 7]);
    if (look & 32) words.push('inlined');
    if (look & 24) words.push('in some samples ' + PROVEN[look >> 3 & 3]);
    return name + '\n' + words.join(', ');
  }
  function details(what, node) {
    const fn = what.tree.fn[node], [name, rest] = title(what, node).split('\n');
    $('details').replaceChildren(make('b', {}, name), '  ' + rest);
    $('callers').disabled = fn < 0 || functions[fn].kind === PROCESS;
    $('callers').onclick = () => change({v: 'callers', f: fn});
    $('tosource').hidden = sourceOf(fn) < 0;
    $('tosource').onclick = () => change({v: 'source', src: sourceOf(fn), l: functions[fn].line});
  }

  // ---- the views ---------------------------------------------------------------------------------

  let panes = {};
  function pane(name, label) {
    return panes[name] = panes[name] || Pane(label);
  }
  // The zoomed node, from the path of function numbers in the state.
  function zoomed(t) {
    let node = 0;
    for (const part of state.z ? state.z.split('.') : []) {
      let c = t.first[node];
      while (c && t.fn[c] !== +part) c = t.next[c];
      if (!c) return node;
      node = c;
    }
    return node;
  }
  function pathOf(t, node) {
    const path = [];
    for (; node; node = t.parent[node]) path.unshift(t.fn[node]);
    return path.join('.');
  }
  function showGraph(view, w, marks) {
    const p = pane('graph', 'Flame graph; the table has the same as text');
    if (p.box.parentNode !== view) view.replaceChildren(p.box);
    p.set({tree: w.tree, now: w.now, base: w.base, all: w.now.total[0], baseAll: w.base && w.base.total[0], up: state.v === 'flame',
           zoom: zoomed(w.tree), marks, pick: node => change({z: pathOf(w.tree, node)})});
  }
  // The trees of who calls a function, and of what it calls; sums of `now` and `base` for both.
  function around(w, fn) {
    const t = w.tree, outer = outermost(t), callers = growing(), callees = growing(), map = new Int32Array(t.parent.length).fill(-1);
    const pairs = [];
    for (let i = 1; i < t.parent.length; i++) {
      if (t.fn[i] === fn && outer[i]) map[i] = 0;
      else if (map[t.parent[i]] >= 0) map[i] = callees.child(map[t.parent[i]], t.fn[i], t.look[i]);
      if (t.fn[i] !== fn || !outer[i] || !w.now.total[i] && !(w.base && w.base.total[i])) continue;
      let at = 0;
      for (let p = t.parent[i]; p; p = t.parent[p]) at = callers.child(at, t.fn[p], t.look[p]);
      pairs.push([i, at]);
    }
    const up = link(callers.done()), down = link(callees.done());
    const of = side => {
      const above = new Float64Array(up.parent.length), below = new Float64Array(down.parent.length);
      pairs.forEach(([i, at]) => { above[at] += side.total[i]; });
      for (let i = 1; i < map.length; i++) if (map[i] >= 0) below[map[i]] += side.self[i];
      return [{total: sums(up, above), samples: side.samples}, {total: sums(down, below), samples: side.samples}];
    };
    return {up, down, now: of(w.now), base: w.base && of(w.base)};
  }
  let last = {}; // of around()
  function showCallers(view, w, marks) {
    if (state.f < 0) {
      view.replaceChildren(make('p', {class: 'more'}, 'Choose a function: in the table, or in a graph and then "Callers and callees".'));
      return;
    }
    if (last.fn !== state.f || last.w !== w) last = {fn: state.f, w, trees: around(w, state.f)};
    const f = functions[state.f], a = last.trees, above = pane('above', 'Callers of the function'), below = pane('below', 'What the function calls');
    const event = now.events[state.e], total = a.now[0].total[0];
    const line = make('div', {class: 'between', id: 'between'}, `${f.name}${place(f) && ` (${place(f)})`}: ${amount(total, event.unit)}, ${percent(total, w.now.total[0])}` +
                      (w.base ? `, was ${percent(a.base[0].total[0], w.base.total[0])}` : ''));
    view.replaceChildren(above.box, line, below.box);
    const common = {all: w.now.total[0], baseAll: w.base && w.base.total[0], zoom: 0, marks, name: f.name, colour: colour(state.f, 0)};
    const pick = t => node => { if (node && functions[t.fn[node]].kind !== PROCESS) change({f: t.fn[node]}); };
    if (sourceOf(state.f) >= 0)
      line.append(' ', make('button', {id: 'source-of', onclick: () => change({v: 'source', src: sourceOf(state.f), l: f.line})}, 'Source'));
    above.set(Object.assign({}, common, {tree: a.up, now: a.now[0], base: a.base && a.base[0], up: true, pick: pick(a.up)}));
    below.set(Object.assign({}, common, {tree: a.down, now: a.now[1], base: a.base && a.base[1], up: false, pick: pick(a.down)}));
  }
  function tableRows(w) {
    if (w.rows) return w.rows;
    const t = w.tree, outer = outermost(t), rows = new Map();
    const add = (side, self, total) => {
      for (let i = 1; i < t.parent.length; i++) {
        if (!side.total[i] || functions[t.fn[i]].kind === PROCESS) continue;
        let r = rows.get(t.fn[i]);
        if (!r) rows.set(t.fn[i], r = {fn: t.fn[i], f: functions[t.fn[i]], self: 0, total: 0, baseSelf: 0, baseTotal: 0, handler: 0, look: t.look[i]});
        r.look = joined(r.look, t.look[i]);
        r[self] += side.self[i];
        if (outer[i]) r[total] += side.total[i];
      }
    };
    add(w.now, 'self', 'total');
    if (w.base) add(w.base, 'baseSelf', 'baseTotal');
    const inside = new Uint8Array(t.parent.length); // an own function, or what it calls
    for (let i = 1; i < inside.length; i++) {
      const own = isManaged(functions[t.fn[i]].kind), outside = !inside[t.parent[i]];
      inside[i] = !outside || own ? 1 : 0;
      if (own && outside && w.now.total[i]) rows.get(t.fn[i]).handler += w.now.total[i];
    }
    const all = w.now.total[0] || 1, baseAll = w.base && w.base.total[0] || 1;
    return w.rows = Array.from(rows.values(), r => Object.assign(r, {change: r.self / all - r.baseSelf / baseAll}));
  }
  function columns(w) {
    const unit = (now.events[state.e] || {}).unit, all = w.now.total[0], baseAll = w.base && w.base.total[0];
    const c = [
      {id: 'name', name: 'Function', text: true, value: r => r.f.name},
      {id: 'place', name: 'Where', text: true, wide: true, value: r => r.f.file || r.f.module, show: r => r.f.file ? r.f.file + (r.f.line ? ':' + r.f.line : '') : baseName(r.f.module)},
      {id: 'kind', name: 'Kind', text: true, wide: true, value: r => KINDS[r.f.kind]},
      {id: 'self', name: 'Self', value: r => r.self, show: r => percent(r.self, all)},
      {id: 'selfAmount', name: '', wide: true, value: r => r.self, show: r => amount(r.self, unit)},
      {id: 'total', name: 'Total', value: r => r.total, show: r => percent(r.total, all)},
      {id: 'totalAmount', name: '', wide: true, value: r => r.total, show: r => amount(r.total, unit)},
    ];
    if (functions.some(f => isManaged(f.kind)))
      c.push({id: 'handler', name: 'As handler', wide: true, value: r => r.handler, show: r => r.handler ? percent(r.handler, all) : ''});
    if (w.base) {
      c.push({id: 'was', name: 'Self was', value: r => r.baseSelf, show: r => percent(r.baseSelf, baseAll)},
             {id: 'change', name: 'Change', value: r => Math.abs(r.change), show: r => (r.change > 0 ? '+' : '') + (100 * r.change).toFixed(2) + ' %',
              style: r => growth(r.self, all, r.baseSelf, baseAll, w.now.samples, w.base.samples)});
    }
    return c;
  }
  let tableAll = false;
  function tableRow(r, cs) {
    return make('tr', {}, ...cs.map(c => {
      const text = (c.show || c.value)(r), g = c.style ? c.style(r) : 0, style = [c.text ? 'c-' + c.id : 'n', c.wide ? 'wide' : '', g > 0 ? 'grown' : g < 0 ? 'shrunk' : ''].join(' ');
      if (c.id !== 'name') return make('td', {class: style, title: c.id === 'place' ? c.value(r) : null}, text);
      const mark = make('span', {class: 'kind'});
      mark.style.background = colour(r.fn, r.look);
      if (r.look & 24) {
        mark.style.borderStyle = 'dashed';
        mark.title = 'in some samples ' + PROVEN[r.look >> 3 & 3];
      }
      return make('td', {class: style}, mark, make('button', {onclick: () => change({v: 'callers', f: r.fn})}, text));
    }));
  }
  function showTable(view, w, marks) {
    const cs = columns(w), [by, down] = state.s ? [state.s.replace('-', ''), !state.s.startsWith('-')] : ['self', true];
    const c = cs.find(x => x.id === by) || cs[3];
    const rows = tableRows(w).filter(r => !marks || marks[r.fn]);
    rows.sort((a, b) => {
      const x = c.value(a), y = c.value(b), order = c.text ? (x < y ? -1 : x > y ? 1 : 0) : y - x;
      return (down ? order : -order) || b.self - a.self || b.total - a.total || a.fn - b.fn;
    });
    const head = make('tr', {}, ...cs.map(x => make('th', {class: (x.text ? '' : 'n') + (x.wide ? ' wide' : ''), 'aria-sort': x === c ? (down !== !c.text ? 'ascending' : 'descending') : null},
      make('button', {onclick: () => change({s: (x.id === by && down ? '-' : '') + x.id})}, x.name + (x === c ? (down ? ' ↓' : ' ↑') : '')))));
    const shown = tableAll ? rows : rows.slice(0, TABLE), body = make('tbody', {}, ...shown.map(r => tableRow(r, cs)));
    const box = make('div', {class: 'table'}, make('table', {id: 'table'}, make('thead', {}, head), body));
    if (shown.length < rows.length)
      box.append(make('button', {class: 'more', id: 'more', onclick: () => { tableAll = true; show(); }}, `Show all ${rows.length} functions`));
    view.replaceChildren(box);
  }

  // Which lines stacks go through: a tree of lines, the node where each stack's path ends, and that of its innermost frame's line.
  let lineTree;
  function linesOfStacks() {
    if (lineTree) return lineTree;
    const t = numbers(now.lines), s = numbers(now.lineStacks), n = now.nrLines, leaf = [], self = [];
    const parent = new Int32Array(n), file = new Int32Array(n).fill(-1), line = new Int32Array(n);
    for (let i = 1; i < n; i++) {
      parent[i] = i - t();
      file[i] = t();
      line[i] = t();
    }
    while (s.left() > 0) {
      let at = s();
      leaf.push(at);
      const out = s();
      for (let i = 1; i < out; i++) at = parent[at];
      self.push(out ? at : 0);
    }
    const rows = now.rowStacks.map(text => { const next = numbers(text), of = []; while (next.left() > 0) of.push(next()); return of; });
    return lineTree = {parent, file, line, leaf, self, rows};
  }
  // The lines of a source file with their weights, of the rows that pass; a stack counts once for a line.
  function sourceLines(source) {
    const weights = new Map(), text = source.text.replace(/\n$/, '').split('\n'), t = linesOfStacks(), e = now.events[state.e];
    const self = new Float64Array(t.parent.length), total = new Float64Array(t.parent.length);
    let all = 0;
    if (e) {
      passing(e.decoded, true, i => {
        const stack = t.rows[state.e][i], w = e.decoded.weight[i];
        all += w;
        self[t.self[stack]] += w;
        total[t.leaf[stack]] += w;
      });
    }
    for (let i = total.length - 1; i > 0; i--) {
      total[t.parent[i]] += total[i];
      if (t.file[i] !== state.src || !total[i]) continue;
      const w = weights.get(t.line[i]) || [0, 0];
      weights.set(t.line[i], [w[0] + self[i], w[1] + total[i]]);
    }
    return {text, weights, all};
  }
  function showSource(view) {
    const source = now.sources[state.src];
    if (!source) {
      view.replaceChildren(make('p', {class: 'more'}, 'The page holds no source file: none was found on the machine that wrote it, or --no-source was given.'));
      return;
    }
    const {text, weights, all} = sourceLines(source), choice = make('select', {id: 'sources', 'aria-label': 'File', onchange: e => change({src: +e.target.value, l: 0})},
      ...now.sources.map((s, i) => make('option', {value: i}, s.name)));
    choice.value = state.src;
    const heat = getComputedStyle(document.documentElement).getPropertyValue('--heat');
    let hottest = 0, most = -1;
    weights.forEach((w, line) => { if (w[0] > most) { most = w[0]; hottest = line; } });
    const rows = text.map((line, i) => {
      const w = weights.get(i + 1), row = make('tr', {id: 'L' + (i + 1)}, make('td', {class: 'n'}, w && w[0] ? percent(w[0], all) : ''), make('td', {class: 'n'}, w ? percent(w[1], all) : ''),
                                               make('td', {class: 'n soft'}, String(i + 1)), make('td', {class: 'code'}, line));
      if (w && all) row.style.background = `hsla(${heat},${0.06 + 0.5 * w[1] / all})`;
      return row;
    });
    const note = now.wall && source.changed * 1000 > now.wall + now.span / 1e6 ? 'changed after the recording: lines may not be those' : '';
    const head = make('tr', {}, ...['Self', 'Total', 'Line', 'Source'].map(n => make('th', {class: n === 'Source' ? '' : 'n'}, make('button', {disabled: ''}, n))));
    view.replaceChildren(make('div', {class: 'between'}, choice, ' ', make('span', {id: 'note'}, note)),
                         make('div', {class: 'table'}, make('table', {id: 'source'}, make('thead', {}, head), make('tbody', {}, ...rows))));
    const to = $('L' + (state.l || hottest));
    if (to) to.scrollIntoView({block: 'center'});
  }
  // For each node where stacks end, and each tier in which their innermost managed frame ran: take(node, tier, weight).
  function eachTier(t, take) {
    const e = now.events[state.e].decoded, n = t.parent.length, sum = new Map();
    passing(e, true, i => {
      const key = (t.map ? t.map[e.node[i]] : e.node[i]) + n * e.tier[i];
      sum.set(key, (sum.get(key) || 0) + e.weight[i]);
    });
    for (const [key, weight] of sum) if (key % n) take(key % n, Math.floor(key / n), weight);
  }
  // The functions of a VM with their weights by tier: a stack counts for its innermost function of the VM, unless one of another VM is
  // further in, and by the tier of its innermost managed frame.
  function tierRows(w, vm, isOwn, isOther) {
    const t = w.tree, rows = new Map();
    const row = fn => {
      if (!rows.has(fn)) rows.set(fn, {fn, tiers: [0, 0, 0, 0, 0, 0], why: []});
      return rows.get(fn);
    };
    vm.functions.forEach(x => { row(x.f).why = x.why; });
    eachTier(t, (i, tier, weight) => {
      let own = i;
      while (own && !isOwn(functions[t.fn[own]]) && !isOther(functions[t.fn[own]])) own = t.parent[own];
      if (own && isOwn(functions[t.fn[own]])) row(t.fn[own]).tiers[tier] += weight;
    });
    return Array.from(rows.values());
  }
  const sumOf = (r, tiers) => tiers.reduce((sum, tier) => sum + r.tiers[tier], 0);
  const byWeights = (first, second) => (a, b) => first(b) - first(a) || second(b) - second(a) || a.fn - b.fn;
  const heads = (names, numbers) => make('thead', {}, make('tr', {}, ...names.map((n, i) => make('th', {class: i < numbers ? 'n' : ''}, make('button', {disabled: ''}, n)))));
  const functionCell = fn => make('td', {class: 'c-name'}, make('button', {onclick: () => change({v: 'callers', f: fn})}, functions[fn].name + (place(functions[fn]) && ` (${place(functions[fn])})`)));
  const number = text => make('td', {class: 'n'}, text);
  // A table of functions with what share of the time they ran in which way, and why. columns: [name, weight(row)]
  function compilerTable(id, columns, rows, all) {
    const body = rows.slice(0, TABLE).map(r => make('tr', {}, ...columns.map(c => number(percent(c[1](r), all))), functionCell(r.fn),
      make('td', {class: 'why'}, ...r.why.map(line => make('div', {}, line)))));
    return make('div', {class: 'table'}, make('table', {id}, heads([...columns.map(c => c[0]), 'Function', 'Why'], columns.length), make('tbody', {}, ...body)));
  }
  const vmLines = (id, vm) => make('div', {class: 'between', id}, ...vm.vms.map(line => make('div', {}, line)));
  function showV8(view, w, marks) {
    const slow = r => sumOf(r, [0, 1, 2]), fast = r => sumOf(r, [4, 5]);
    const rows = tierRows(w, now.v8, f => f.kind === JS || f.kind === RUNTIME && f.file, f => f.kind === LUA || f.kind === WASM);
    const columns = [[1, 'Interpreted'], [2, 'Baseline'], [4, 'Maglev'], [5, 'TurboFan']].map(([tier, name]) => [name, r => r.tiers[tier]]);
    view.replaceChildren(vmLines('v8vms', now.v8),
                         compilerTable('v8', columns, rows.filter(r => !marks || marks[r.fn]).sort(byWeights(slow, fast)), w.now.total[0]));
  }
  const ENDS = {loop: () => 'its own loop', tailrec: () => 'itself, by a tail call', uprec: () => 'itself, by recursion', downrec: () => 'itself, by returning',
                root: t => 'trace ' + t.link, interpreter: () => 'the interpreter (given up)', return: () => 'the interpreter, by returning',
                stitch: t => t.calls ? `a call of ${t.calls}, which cannot be compiled` : 'a call that cannot be compiled'};
  // LuaJIT's traces. Stacks do not tell traces apart, so the shares are those of the whole recording.
  function traceTable(marks) {
    const several = new Set(now.luajit.traces.map(t => t.pid)).size > 1;
    const of = name => functions.findIndex(f => f.kind === LUA && f.name === name);
    const rows = now.luajit.traces.map(t => ({t, fn: of(t.start.function)})).filter(r => !marks || marks[r.fn]);
    const body = rows.slice(0, TABLE).map(({t, fn}) => make('tr', {}, number(t.share.toFixed(2) + ' %'), number(String(t.trace)),
      make('td', {}, t.parent ? `${t.parent} exit ${t.exit}` : ''), fn < 0 ? make('td', {class: 'c-name'}, t.start.function || '(unknown function)') : functionCell(fn),
      number(t.start.line ? String(t.start.line) : '?'),
      make('td', {class: 'why'}, (ENDS[t.ends] || (() => 'unknown'))(t) + (t.gone ? ' (thrown away meanwhile)' : '') + (several ? ` [${t.pid}]` : ''))));
    return make('div', {class: 'table'}, make('table', {id: 'traces'}, heads(['Share', 'Trace', 'From', 'Starts in', 'Line', 'Goes on to'], 2), make('tbody', {}, ...body)));
  }
  function showLuaJIT(view, w, marks) {
    const interpreted = r => sumOf(r, [0, 1, 2, 4, 5]), compiled = r => r.tiers[TRACE];
    const rows = tierRows(w, now.luajit, f => f.kind === LUA, f => f.kind === JS);
    const columns = [['Interpreted', interpreted], ['Compiled', compiled]];
    view.replaceChildren(vmLines('vms', now.luajit),
                         compilerTable('luajit', columns, rows.filter(r => !marks || marks[r.fn]).sort(byWeights(interpreted, compiled)), w.now.total[0]),
                         make('div', {class: 'between', id: 'traced'}, 'Traces, by their share of the time of LuaJIT in the whole recording'), traceTable(marks));
  }
  function sourceOf(fn) {
    return fn < 0 || !functions[fn].file ? -1 : now.sources.findIndex(s => s.name === functions[fn].file);
  }

  // ---- time --------------------------------------------------------------------------------------

  let strips = null, stripsAll = false; // {event, rows}
  function stripRows() {
    if (strips && strips.event === state.e) return strips.rows;
    const e = now.events[state.e].decoded, by = new Map(), all = {thread: -1, sum: 0, slices: new Float64Array(now.slices)};
    for (let i = 0; i < e.node.length; i++) {
      let r = by.get(e.thread[i]);
      if (!r) by.set(e.thread[i], r = {thread: e.thread[i], sum: 0, slices: new Float64Array(now.slices)});
      for (const x of [r, all]) {
        x.sum += e.weight[i];
        x.slices[e.slice[i]] += e.weight[i];
      }
    }
    strips = {event: state.e, rows: [all, ...Array.from(by.values()).sort((a, b) => b.sum - a.sum || a.thread - b.thread)]};
    return strips.rows;
  }
  function drawStrip(canvas, row) {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, columns = Math.max(1, Math.min(Math.floor(width), row.slices.length));
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d'), heat = getComputedStyle(document.documentElement).getPropertyValue('--heat'), sum = new Float64Array(columns);
    context.scale(ratio, ratio);
    row.slices.forEach((w, i) => { sum[Math.floor(i * columns / row.slices.length)] += w; });
    const most = sum.reduce((a, b) => Math.max(a, b), 0) || 1;
    for (let i = 0; i < columns; i++) {
      if (!sum[i]) continue;
      context.fillStyle = `hsla(${heat},${0.15 + 0.85 * sum[i] / most})`;
      context.fillRect(i * width / columns, 0, Math.ceil(width / columns), height);
    }
    const span = range();
    if (!span) return;
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--span');
    context.fillRect(span[0] * width / now.slices, 0, (span[1] + 1 - span[0]) * width / now.slices, height);
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--mark');
    context.fillRect(span[0] * width / now.slices, 0, 1.5, height);
    context.fillRect((span[1] + 1) * width / now.slices - 1.5, 0, 1.5, height);
  }
  function brush(canvas) {
    let from = -1;
    const slice = e => {
      const r = canvas.getBoundingClientRect();
      return Math.max(0, Math.min(now.slices - 1, Math.floor((e.clientX - r.left) / r.width * now.slices)));
    };
    const to = e => { const x = slice(e); return Math.min(from, x) + '-' + Math.max(from, x); };
    canvas.addEventListener('pointerdown', e => { from = slice(e); canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener('pointermove', e => {
      if (from < 0) return;
      state.t = to(e);
      showTime();
    });
    canvas.addEventListener('pointercancel', () => { from = -1; });
    canvas.addEventListener('pointerup', e => {
      const moved = from >= 0 && Math.abs(slice(e) - from) > 0, t = from >= 0 ? to(e) : '';
      from = -1;
      state.t = ''; // so that the step counts as a change
      change({t: moved ? t : ''});
    });
  }
  let stripCanvases = [];
  function buildStrips() {
    const rows = stripRows(), shown = stripsAll ? rows : rows.slice(0, STRIPS + 1);
    stripCanvases = shown.map(row => {
      const t = now.threads[row.thread], canvas = make('canvas', {});
      brush(canvas);
      const label = make('button', {'aria-pressed': 'false', title: t ? `only this thread: ${t.comm}, pid ${t.pid}, tid ${t.tid}` : 'all threads',
                                    onclick: () => change({h: row.thread === state.h ? -1 : row.thread})},
                         t ? `${t.comm} ${t.tid}` : 'all threads');
      return {row, canvas, label, line: make('div', {class: 'strip'}, label, canvas)};
    });
    $('strips').replaceChildren(...stripCanvases.map(s => s.line));
    $('threads').hidden = shown.length === rows.length;
    $('threads').textContent = `Show all ${rows.length - 1} threads`;
  }
  function showTime() {
    if (!now.events.length) return;
    if (!strips || strips.event !== state.e || !stripCanvases.length) buildStrips();
    stripCanvases.forEach(s => {
      s.label.setAttribute('aria-pressed', String(s.row.thread === state.h));
      drawStrip(s.canvas, s.row);
    });
    const span = range(), seconds = i => (i / now.slices * now.span / 1e9).toFixed(3);
    $('span').textContent = span ? `${seconds(span[0])} s to ${seconds(span[1] + 1)} s of ${(now.span / 1e9).toFixed(3)} s` : `${(now.span / 1e9).toFixed(3)} s: drag over a strip to see a part only`;
    $('nospan').hidden = !span && state.h < 0;
  }

  // ---- the page ----------------------------------------------------------------------------------

  function summary() {
    const ends = Object.entries(now.ends), walked = ends.reduce((a, e) => a + e[1], 0), parts = [];
    if (walked) parts.push(`stacks complete: ${percent(now.ends.complete || 0, walked)}`);
    ends.filter(e => e[0] !== 'complete').forEach(e => parts.push(`${e[0]}: ${e[1]}`));
    const all = now.events.reduce((a, e) => a + e.samples, 0);
    parts.push(`with a frame that is not exact: ${percent(now.doubtful, all)}`);
    if (now.lost) parts.push('lost while recording: ' + now.lost);
    return parts.join('; ');
  }
  function build() {
    const tab = ([id, name], i) => make('button', {role: 'tab', id: 'view-' + id, title: `key ${i + 1}`, onclick: () => change({v: id})}, name);
    const when = now.wall ? new Date(now.wall).toISOString().slice(0, 19).replace('T', ' ') + ' UTC' : '';
    document.body.append(
      make('header', {}, make('h1', {}, document.title), make('p', {id: 'summary'}),
           make('p', {class: 'long', id: 'quality'}, summary()),
           make('p', {class: 'long'}, [now.host, when, now.command].filter(Boolean).join(' · '))),
      make('div', {class: 'tools'},
           make('div', {class: 'group', role: 'tablist'}, ...Object.entries(VIEWS).map(tab)),
           make('select', {id: 'event', 'aria-label': 'Event', onchange: e => change({e: +e.target.value, z: '', f: state.f})},
                ...now.events.map((e, i) => make('option', {value: i}, e.name))),
           make('button', {id: 'own', title: 'Leave out kernel, C around managed code, VM and node: frames (o)', onclick: () => change({own: state.own ? 0 : 1, z: ''})}, 'Only my code'),
           make('input', {type: 'search', id: 'search', placeholder: 'Search: / and a regular expression', 'aria-label': 'Search', oninput: e => change({q: e.target.value}, true)}),
           make('span', {class: 'found', id: 'found'}),
           make('button', {id: 'out', title: 'Zoom out one frame', onclick: () => change({z: state.z.split('.').slice(0, -1).join('.')})}, 'Out'),
           make('button', {id: 'back', title: 'The view before (Backspace)', onclick: () => history.back()}, 'Back'),
           make('button', {id: 'reset', title: 'Everything again (Home)', onclick: () => change(Object.assign({}, DEFAULTS, {v: state.v, e: state.e}))}, 'Reset'),
           make('button', {id: 'help', title: 'Keys (?)', onclick: () => $('keys').showModal()}, '?')),
      make('div', {class: 'time'}, make('div', {id: 'strips'}),
           make('div', {class: 'range'}, make('span', {id: 'span'}), ' ', make('button', {id: 'nospan', onclick: () => change({t: '', h: -1})}, 'All times and threads'), ' ',
                make('button', {id: 'threads', onclick: () => { stripsAll = true; strips = null; showTime(); }}))),
      make('main', {id: 'view'}), legend(),
      make('footer', {}, make('span', {id: 'details', 'aria-live': 'polite'}, 'Point at a frame, or move with the arrow keys.'), make('button', {id: 'tosource', hidden: ''}, 'Source'),
           make('button', {id: 'callers', disabled: ''}, 'Callers and callees')),
      help());
  }
  function legend() {
    const line = make('div', {class: 'keys'}), used = new Set(functions.map(f => f.kind));
    if (base) {
      line.append('share: ');
      [-1, -0.5, 0, 0.5, 1].forEach(g => line.append(swatch(growthColour(g), g < 0 ? 'smaller' : g > 0 ? 'larger' : 'alike')));
    } else {
      KINDS.forEach((name, k) => { if (used.has(k) && k !== PROCESS) line.append(swatch(`hsl(${HUES[k][0]},${HUES[k][1]}%,${HUES[k][2]}%)`, name)); });
      if (whole.look.some(l => l & 32)) line.append(swatch('hsl(48,85%,66%)', 'inlined'));
      if (used.has(LUA)) line.append(swatch('hsl(285,65%,68%)', 'Lua in traces'));
      if (used.has(JS)) line.append(swatch('hsl(95,60%,56%)', 'JavaScript in TurboFan'));
      if (whole.look.some(l => (l & 7) === 6)) line.append(swatch('hsl(165,25%,84%)', 'JavaScript that awaits'));
    }
    line.append('dashed: not exact');
    return line;
  }
  function swatch(background, name) {
    const mark = make('span', {class: 'kind'});
    mark.style.background = background;
    return make('span', {}, mark, name);
  }
  function help() {
    const rows = [['1 2 3 4 5', 'flame graph, icicle, table, callers and callees, source'], ...['luajit', 'v8'].filter(v => VIEWS[v]).map(v => [String(Object.keys(VIEWS).indexOf(v) + 1), `what ${VIEWS[v]} compiled, and why not the rest`]), ['/', 'search; Esc ends it'], ['arrows, Enter', 'in a graph: move, zoom'], ['o', 'only my code'],
                  ['Backspace', 'the view before'], ['Home', 'everything again'], ['?', 'this list']];
    return make('dialog', {id: 'keys'}, make('table', {}, ...rows.map(r => make('tr', {}, make('td', {}, make('kbd', {}, r[0])), make('td', {}, r[1])))),
      make('p', {}, 'The address of this page names the view: a link to it opens the same view again.'), make('form', {method: 'dialog'}, make('button', {}, 'Close')));
  }
  function showHead(w, marks, re) {
    const e = now.events[state.e], all = w.now.total[0];
    $('summary').textContent = e ? `${Math.round(w.now.samples).toLocaleString('en')} samples of ${e.name}, ${amount(all, e.unit)}` +
      (w.now.samples === e.samples ? '' : `: ${percent(all, e.weight)} of all`) + (base ? `; compared with ${base.path}: ${Math.round(w.base.samples).toLocaleString('en')} samples, ${amount(w.base.total[0], e.unit)}` : '')
      : 'The recording has no samples with a stack.';
    for (const id in VIEWS) $('view-' + id).setAttribute('aria-selected', String(id === state.v));
    $('event').value = state.e;
    $('event').hidden = now.events.length < 2;
    $('own').setAttribute('aria-pressed', String(!!state.own));
    if ($('search').value !== state.q) $('search').value = state.q;
    $('out').disabled = !state.z || state.v !== 'flame' && state.v !== 'icicle';
    $('reset').disabled = hash() === '#' + new URLSearchParams(state.v === 'flame' ? {} : {v: state.v});
    $('found').textContent = re === undefined ? 'not a regular expression' : marks ? 'found: ' + percent(found(w, marks), all) : '';
  }
  // The weight of the stacks with a function that is found: functions within each other count once.
  function found(w, marks) {
    const t = w.tree, inside = new Uint8Array(t.parent.length);
    let sum = 0;
    for (let i = 1; i < inside.length; i++) {
      inside[i] = inside[t.parent[i]] | marks[t.fn[i]];
      if (inside[i]) sum += w.now.self[i];
    }
    return sum;
  }
  function show() {
    const w = weights(), re = pattern(), marks = matching(re), view = $('view');
    showHead(w, marks, re);
    showTime();
    if (state.v === 'table') showTable(view, w, marks);
    else if (state.v === 'callers') showCallers(view, w, marks);
    else if (state.v === 'source') showSource(view);
    else if (state.v === 'luajit') showLuaJIT(view, w, marks);
    else if (state.v === 'v8') showV8(view, w, marks);
    else showGraph(view, w, marks);
  }
  function key(e) {
    const typing = e.target.id === 'search', views = Object.keys(VIEWS);
    if (e.key === 'Escape' && (typing || state.q)) {
      change({q: ''}, true);
      $('search').blur();
    } else if (typing || e.ctrlKey || e.metaKey || e.altKey || $('keys').open || e.target.tagName === 'SELECT') {
      return;
    } else if (e.key === '/') {
      $('search').focus();
    } else if (views[+e.key - 1]) {
      change({v: views[+e.key - 1]});
    } else if (e.key === 'o') {
      $('own').click();
    } else if (e.key === 'Backspace') {
      history.back();
    } else if (e.key === 'Home') {
      $('reset').click();
    } else if (e.key === '?') {
      $('keys').showModal();
    } else {
      return;
    }
    e.preventDefault();
  }
  readHash();
  build();
  show();
  document.addEventListener('keydown', key);
  window.addEventListener('hashchange', () => { readHash(); show(); });
  window.addEventListener('popstate', () => { readHash(); show(); });
  new ResizeObserver(showTime).observe($('strips'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  window.ljperf = {panes: () => panes, state: () => state}; // for tests
})();
