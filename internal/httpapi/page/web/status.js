// The script of the status page: it polls /status.json and draws the status. It inserts all text
// by textContent, so that no text can become HTML. It loads data only from the daemon.
'use strict';

// ---- elements ----------------------------------------------------------------------

const svgSpace = 'http://www.w3.org/2000/svg';

// The function h makes an HTML element with properties and children. A property name with a hyphen
// sets an attribute; a name that begins with "on" adds an event listener.
function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

function s(tag, props, ...children) {
  return fill(document.createElementNS(svgSpace, tag), props, children, true);
}

function fill(node, props, children, attributes) {
  for (const [name, value] of Object.entries(props || {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (attributes || name.includes('-') || name === 'role') node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

const byID = (id) => document.getElementById(id);

// The function put sets a node's text only if the text differs, so that an unchanged row causes no
// layout.
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// ---- words -------------------------------------------------------------------------

const whole = new Intl.NumberFormat('en');
const count = (n) => whole.format(n);
const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many || one + 's');
const percent = (f) => (f >= 0.9995 ? '100' : (100 * f).toFixed(1)) + ' %';
const amount = (f) => (f === null ? 'unknown' : f === 0 ? '0' : f < 0.01 ? f.toPrecision(2) : f.toFixed(2));
const money = (f) => {
  const currency = (doc && f !== null && doc.currency) || '';
  return /^[A-Z]{3}$/.test(currency) ? amount(f) + ' ' + currency : currency + amount(f);
};

function seconds(n) {
  if (n < 10) return n.toFixed(1) + ' s';
  if (n < 120) return Math.round(n) + ' s';
  if (n < 7200) return Math.round(n / 60) + ' min';
  return (n / 3600).toFixed(1) + ' h';
}

function clock(stamp) {
  const at = new Date(stamp);
  return Number.isNaN(at.getTime()) ? 'never' : at.toLocaleTimeString('en-GB');
}

function moment(stamp) {
  const at = new Date(stamp);
  return Number.isNaN(at.getTime()) ? 'never' : at.toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
}

const asOf = () => new Date(doc.as_of).getTime();
const today = () => doc.as_of.slice(0, 10);
const outcomes = (f) => f.hits + f.waited + f.misses;
const spentToday = (t) => (t.days.length > 0 && t.days[0].date === today() ? t.days[0].spent : 0);

// Targets with problems have a lower severity number, and are listed before the others.
const severity = { refused: 0, starved: 1, budget: 2, paused: 4, ok: 5, idle: 6 };
const rank = (t) => (t.marks.length > 0 ? Math.min(3, severity[t.state] ?? 0) : severity[t.state] ?? 0);
const troubled = (t) => rank(t) < 4;
const markWords = { failing: 'solves fail one after the other', mostly_rejected: 'most tokens are rejected' };

// sentence returns the reason for a target's state, and its marks.
const sentence = (t) => [t.reason, ...t.marks.map((mark) => markWords[mark] || mark)].filter(Boolean).join('; ');

// forecast describes the expected demand of an adaptive target, and the limit that applies to a
// target.
function forecast(t) {
  if (t.refill !== 'adaptive') return t.rail && t.state !== 'paused' ? 'held back by: ' + t.rail : '';
  if (t.state === 'paused') return '';
  if (t.state === 'idle' || t.want === 0) return 'no requests: no token is kept';
  let text = 'about ' + (Math.round(t.forecast * 100) / 100) + ' requests expected until a new order lands, so ' + plural(t.want, 'token') + ' wanted; ' +
    'one request in ' + (t.risk > 0 ? count(Math.max(1, Math.round(1 / t.risk))) : 'very many') + ' would find none';
  if (t.rail) text += '; held back by: ' + t.rail;
  return text;
}

// ---- the document ------------------------------------------------------------------

let doc = null; // the last document, without its targets, which are in byName
let byName = new Map();
let dirty = new Set(); // names of the targets that must be drawn again
let structure = true; // the list of targets may have changed: names, order, filter
let heldAt = ''; // as_of of the displayed document while the page is held, otherwise ''

function takeStatus(document) {
  const before = byName;
  byName = new Map(document.targets.map((t) => [t.name, t]));
  for (const name of [...before.keys(), ...byName.keys()]) dirty.add(name);
  doc = document;
  delete doc.targets;
  structure = true;
  redraw();
}

// ---- polling -----------------------------------------------------------------------

let lastAnswer = 0; // time of the last answer, by performance.now
let mode = 'connecting'; // connecting | live | away | refused

// All addresses begin with location.origin: fetch refuses a relative address if the page was opened
// with a password in its address.

// poll gets the status. The page polls every 2 s, but not while its tab is hidden, and not after a
// refusal: the browser would ask for a password each time.
let polling = false;
async function poll() {
  if (polling || document.hidden || mode === 'refused') return;
  polling = true;
  try {
    const answer = await fetch(location.origin + '/status.json?minutes=0', { signal: AbortSignal.timeout(8000) });
    if (answer.ok) {
      takeStatus(await answer.json());
      lastAnswer = performance.now();
      setMode('live');
    } else {
      setMode(answer.status === 401 || answer.status === 403 ? 'refused' : 'away');
    }
  } catch {
    setMode('away');
  } finally {
    polling = false;
  }
}

function setMode(next) {
  if (mode === next) return;
  const was = mode;
  mode = next;
  drawMode();
  if (next === 'away') announce('The daemon does not answer. The page shows the last known status.');
  if (next === 'live' && was === 'away') announce('Live again.');
}

const modeWords = {
  connecting: 'Connecting', live: 'Live', away: 'Not live', refused: 'No access',
  held: 'Held', stale: 'Redis away', // stale: the daemon answers, but it cannot read the figures
};

function drawMode() {
  const node = byID('mode');
  const shown = heldAt ? 'held' : mode === 'live' && doc && !doc.redis.ok ? 'stale' : mode;
  node.dataset.mode = shown;
  put(node, modeWords[shown]);
}

function drawClocks() {
  if (!doc) return;
  const age = (performance.now() - lastAnswer) / 1000;
  let text = 'as of ' + clock(heldAt || doc.as_of);
  if (heldAt) text = 'shows ' + clock(heldAt);
  else if (mode === 'live' && !doc.redis.ok) text = 'the figures are old';
  else if (mode === 'away') text = 'no answer, as of ' + clock(doc.as_of) + ', ' + seconds(age) + ' ago';
  else if (mode === 'refused') text = 'this key no longer has access to the status: reload the page';
  put(byID('asof'), text);
  if (!heldAt) drawRetries();
}

// announce passes a text to screen readers, at most once every 5 s.
let announced = 0;
let pending = null;
function announce(text) {
  clearTimeout(pending);
  pending = setTimeout(() => {
    announced = performance.now();
    put(byID('announce'), text);
  }, Math.max(0, announced + 5000 - performance.now()));
}

// ---- drawing -----------------------------------------------------------------------

let frame = 0;
function redraw() {
  if (!frame && !heldAt) frame = requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (!doc) return;
  drawBanner();
  drawSummary();
  drawProviders();
  drawTargets();
  drawFoot();
  drawMode();
  drawTitle();
  drawClocks();
}

// replace renders the children of a node again if the data in basis changed.
function replace(node, basis, make) {
  const key = JSON.stringify(basis);
  if (node.basis === key) return;
  node.basis = key;
  node.replaceChildren(...make());
}

function drawBanner() {
  const basis = [doc.alarms, doc.ready, doc.config, doc.notices, doc.dead_letters, doc.providers.map((p) => p.retry_at)];
  replace(byID('banner'), basis, () => {
    const boxes = doc.alarms.map((text) => h('p', { className: 'box bad', role: 'alert' }, text, retry(text)));
    if (!doc.ready && doc.alarms.length === 0) boxes.push(h('p', { className: 'box bad', role: 'alert' }, 'Not ready: the daemon is stopping or starting.'));
    if (!doc.config.ok) {
      boxes.push(h('section', { className: 'box bad', id: 'refused' }, h('h2', {}, 'The configuration file was not applied'),
        h('p', {}, 'The last valid one, of ' + moment(doc.config.loaded_at) + ', is in use.'), lines(doc.config.problems)));
    } else if (doc.config.problems.length > 0) {
      boxes.push(h('section', { className: 'box warn' }, h('h2', {}, 'About the configuration file'), lines(doc.config.problems)));
    }
    if (doc.dead_letters > 0) boxes.push(h('p', { className: 'box warn' }, plural(doc.dead_letters, 'callback') + ' could not be stored; poold retries. poold dead-letters list shows them.'));
    for (const text of doc.notices) {
      const next = retry(text);
      boxes.push(h('p', { className: next ? 'box warn' : 'box note' }, text, next));
    }
    return boxes;
  });
}

const lines = (list) => h('ul', {}, list.map((line) => h('li', {}, h('code', {}, line))));

// retry returns an element with the time of the next try, if the text names a provider that is
// down.
function retry(text) {
  const p = doc.providers.find((one) => one.state === 'down' && one.retry_at && text.includes('rovider ' + one.name + ' '));
  return p ? h('span', { className: 'retry', 'data-at': p.retry_at }) : null;
}

function drawRetries() {
  for (const node of byID('banner').querySelectorAll('.retry')) {
    const left = (new Date(node.dataset.at).getTime() - Date.now()) / 1000;
    put(node, left > 0 ? ', next try in ' + seconds(Math.ceil(left)) : ', next try now');
  }
}

let paces = []; // as_of in ms, number of targets, and their requests so far; of the last 5 minutes

// pace returns the requests a minute over the last 5 minutes, or since the page opened. In the first
// minute the result is the average of the last hour.
function pace(all) {
  const now = { at: asOf(), targets: all.length, requests: all.reduce((sum, t) => sum + t.requests, 0) };
  const last = paces.at(-1);
  if (last && (last.targets !== now.targets || last.requests > now.requests)) paces = []; // other targets have other counts
  if (last?.at !== now.at) paces.push(now);
  paces = paces.filter((one) => one.at >= now.at - 5 * 60000);
  const took = (now.at - paces[0].at) / 1000;
  return took >= 60 ? [60 * (now.requests - paces[0].requests) / took, 'over ' + seconds(took)] : [all.reduce((sum, t) => sum + t.hour.requests, 0) / 60, 'over the last hour'];
}

function drawSummary() {
  const all = [...byName.values()];
  const states = {};
  let fresh = 0, ordered = 0, spent = 0, hits = 0, done = 0;
  for (const t of all) {
    states[t.state] = (states[t.state] || 0) + 1;
    fresh += t.fresh;
    ordered += t.in_flight;
    spent += spentToday(t);
    hits += t.hour.hits;
    done += outcomes(t.hour);
  }
  const [requests, over] = pace(all);
  const bad = all.filter(troubled).length;
  const broken = all.some((t) => rank(t) < 2); // starved or refused: callers get no token
  const others = ['starved', 'refused', 'budget', 'paused', 'idle'].filter((state) => states[state]).map((state) => states[state] + ' ' + state);
  const balances = doc.providers.filter((p) => p.balance !== null);
  const tiles = [
    ['Healthy targets', count(all.length - bad) + ' of ' + count(all.length), others.join(', ') || 'all targets', broken ? 'bad' : bad > 0 ? 'warn' : 'good'],
    ['Tokens ready', count(fresh), count(ordered) + ' on order'],
    ['Requests a minute', requests.toFixed(requests > 0 && requests < 100 ? 1 : 0), over],
    ['Hit rate', done > 0 ? percent(hits / done) : '–', done > 0 ? count(done) + ' in the last hour' : 'no requests in the last hour'],
    ['Spent today', money(spent), 'since midnight UTC'],
  ];
  if (balances.length > 0) {
    const least = Math.min(...balances.map((p) => p.balance));
    tiles.push(['Balance', money(balances.reduce((sum, p) => sum + p.balance, 0)), balances.length === 1 ? 'at ' + balances[0].name : 'at ' + balances.length + ' providers', least <= 0 ? 'bad' : '']);
  }
  if (doc.budget) {
    const left = Math.max(0, doc.budget.limit - doc.budget.used);
    tiles.push(['Budget left', count(left), 'of ' + count(doc.budget.limit) + ' solves a day', left === 0 ? 'bad' : '']);
  }
  replace(byID('summary'), tiles, () => tiles.map(([name, value, more, tone]) =>
    h('div', { className: 'tile ' + (tone || '') }, h('dt', {}, name), h('dd', {}, h('strong', {}, value), h('span', {}, more)))));
}

function drawProviders() {
  replace(byID('providers'), doc.providers, () => doc.providers.map((p) => h('tr', {},
    h('th', { scope: 'row' }, p.name),
    h('td', {}, badge(p.state), p.reason ? h('span', { className: 'why' }, p.reason) : null,
      p.remedy ? h('span', { className: 'why' }, p.remedy) : null,
      mayAct && p.state === 'down' ? act('Probe now', () => ask(p, probing)) : null),
    h('td', { className: 'n' }, meter(p.in_flight, p.concurrency), h('span', {}, p.in_flight + ' of ' + p.concurrency)),
    h('td', { className: 'n' }, p.calls_per_token > 0 ? p.calls_per_token.toFixed(1) : '–'),
    h('td', { className: 'n' }, p.balance === null ? '–' : money(p.balance)),
    h('td', {}, p.callbacks ? 'by callback' : 'by polling'))));
  drawComparison();
}

// drawComparison shows how the providers compare for each type, if there are several.
function drawComparison() {
  const percent = (share) => share === null ? '–' : Math.round(100 * share) + ' %';
  const lines = doc.providers.flatMap((p) => p.types.map((t) => ({ ...t, name: p.name })));
  byID('comparison').hidden = lines.length === 0;
  replace(byID('compared'), lines, () => lines.map((t) => h('tr', {},
    h('th', { scope: 'row' }, t.name), h('td', {}, t.type),
    h('td', { className: 'n' }, percent(t.share)), h('td', { className: 'n' }, percent(t.solved)), h('td', { className: 'n' }, percent(t.accepted)),
    h('td', { className: 'n' }, t.lead_p50_s > 0 ? t.lead_p50_s.toFixed(1) + ' s' : '–'),
    h('td', { className: 'n' }, t.cost === null ? '–' : money(t.cost)))));
  replace(byID('changes'), doc.provider_changes, () => doc.provider_changes.map((c) =>
    h('li', {}, 'Most orders of ' + c.type + ' go to ' + c.to + ' instead of ' + c.from + ' since ' + moment(c.at) + '. ' + c.reason)));
}

const badge = (state) => h('span', { className: 'badge ' + state }, state);

function meter(n, of) {
  const width = of > 0 ? Math.min(100, 100 * n / of) : 0;
  return s('svg', { class: 'meter', viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    s('rect', { class: 'whole', width: 100, height: 6 }), s('rect', { class: 'used', width, height: 6 }));
}

// ---- targets -----------------------------------------------------------------------

const rows = new Map(); // target name -> its row
const mostRows = 1000; // maximum number of rows; the search finds the other targets
const search = byID('search'), problems = byID('problems'), grouped = byID('grouped'), order = byID('order');

const compare = {
  problems: (a, b) => rank(a) - rank(b),
  name: () => 0,
  hits: (a, b) => a.hour.hit_rate - b.hour.hit_rate || outcomes(b.hour) - outcomes(a.hour),
  requests: (a, b) => b.hour.requests - a.hour.requests,
  lead: (a, b) => b.lead_time_s.p50 - a.lead_time_s.p50,
  spent: (a, b) => spentToday(b) - spentToday(a),
};

function listed() {
  const wanted = search.value.trim().toLowerCase();
  const list = [...byName.values()].filter((t) => (!problems.checked || troubled(t)) &&
    (!wanted || t.name.includes(wanted) || t.owner.toLowerCase().includes(wanted) || t.state === wanted || t.type.includes(wanted)));
  const by = compare[order.value];
  return list.sort((a, b) => (grouped.checked ? a.owner.localeCompare(b.owner) : 0) || by(a, b) || (a.name < b.name ? -1 : 1));
}

function drawTargets() {
  if (structure) {
    structure = false;
    arrange();
  }
  const limit = performance.now() + 8; // after 8 ms the remaining rows wait for the next frame
  for (const name of dirty) {
    if (performance.now() > limit) {
      redraw();
      return;
    }
    dirty.delete(name);
    const t = byName.get(name), row = rows.get(name);
    if (t && row) drawRow(row, t);
  }
}

// The roles tell screen readers that this is a table, which they cannot infer from the grid layout.
const tableRow = (props, ...cells) => h('tr', { ...props, role: 'row' }, ...cells);

// arrange sorts the rows in the page. It moves only the rows that are not in their place.
function arrange() {
  const list = listed();
  const shown = list.slice(0, mostRows);
  const body = byID('targets');
  const keep = new Set(shown.map((t) => t.name));
  for (const [name, row] of rows) {
    if (keep.has(name)) continue;
    row.node.remove();
    row.detail?.node.remove();
    row.detail?.chart?.destroy();
    rows.delete(name);
  }
  const limit = performance.now() + 20;
  for (const group of body.querySelectorAll('.group')) group.remove();
  const owners = grouped.checked ? Map.groupBy(list, (t) => t.owner) : null;
  let at = body.firstElementChild, owner = null;
  for (const t of shown) {
    let row = rows.get(t.name);
    if (!row) {
      if (performance.now() > limit) { // hundreds of new rows need several frames
        structure = true;
        redraw();
        break;
      }
      row = newRow(t);
      rows.set(t.name, row);
      drawRow(row, t);
    }
    if (owners && t.owner !== owner) {
      owner = t.owner;
      body.insertBefore(subtotal(owner, owners.get(owner)), at);
    }
    // If this row is the one after `at`, the row `at` has moved down the list. That row is moved
    // when the loop reaches its target.
    if (row.node === at || at && row.node === at.nextElementSibling) at = (row.detail || row).node.nextElementSibling;
    else {
      body.insertBefore(row.node, at);
      if (row.detail) body.insertBefore(row.detail.node, at);
    }
  }
  const hidden = list.length - shown.length;
  let text = list.length === byName.size ? plural(list.length, 'target') : count(list.length) + ' of ' + plural(byName.size, 'target');
  if (hidden > 0) text += '; the first ' + count(mostRows) + ' are shown, search for the others';
  if (byName.size === 0) text = 'There are no targets.';
  put(byID('listed'), text);
  byID('none').hidden = list.length > 0;
  put(byID('none'), byName.size === 0 ? 'The configuration file has no targets.' : 'No target matches' + (search.value.trim() ? ' “' + search.value.trim() + '”' : '') + (problems.checked ? ' and has a problem.' : '.'));
  byID('panel-targets').classList.toggle('compact', byName.size > fewTargets);
}

const fewTargets = 12; // up to this number of targets, a row shows its reason in full

// subtotal returns the row above the targets of an owner, with sums over them.
function subtotal(owner, list) {
  let fresh = 0, want = 0, hits = 0, done = 0, spent = 0;
  for (const t of list) {
    fresh += t.fresh;
    want += t.want;
    hits += t.hour.hits;
    done += outcomes(t.hour);
    spent += spentToday(t);
  }
  const bad = list.filter(troubled).length;
  const cell = (className, text) => h('td', { className, role: 'cell' }, text);
  return tableRow({ className: 'group' }, h('th', { scope: 'row', role: 'rowheader' }, owner),
    cell('', plural(list.length, 'target') + (bad > 0 ? ', ' + bad + ' with a problem' : '')),
    cell('', count(fresh) + ' ready, ' + count(want) + ' wanted'),
    cell('', done > 0 ? percent(hits / done) + ' of ' + count(done) : 'no requests'),
    cell('n', ''), cell('n', spent === null || spent > 0 ? money(spent) : '–'));
}

function newRow(t) {
  const row = { name: t.name, minutes: [], hours: [], loaded: -Infinity };
  row.name_ = h('span', {}, t.name);
  row.toggle = h('button', { type: 'button', className: 'open', 'aria-expanded': 'false', onclick: () => toggle(row) }, row.name_);
  row.owner = h('small', {});
  row.state = h('span', { className: 'badge' });
  row.why = h('span', { className: 'why' });
  row.fresh = s('rect', { class: 'fresh', height: 8 });
  row.ageing = s('rect', { class: 'ageing', height: 8 });
  row.ordered = s('rect', { class: 'ordered', height: 8 });
  row.want = s('rect', { class: 'wanted', width: 1, height: 12, y: -2 });
  row.bar = s('svg', { class: 'bar', viewBox: '0 -2 100 12', preserveAspectRatio: 'none', role: 'img' },
    s('rect', { class: 'whole', width: 100, height: 8 }), row.fresh, row.ageing, row.ordered, row.want);
  row.depth = h('span', {});
  row.hits = h('span', {});
  row.good = s('path', { class: 'hit' });
  row.bad = s('path', { class: 'miss' });
  row.spark = s('svg', { class: 'spark', viewBox: '0 0 60 16', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, row.good, row.bad);
  row.lead = h('span', {});
  row.spent = h('span', {});
  const cell = (label, className, ...children) => h('td', { className, role: 'cell', 'data-label': label }, ...children);
  row.node = tableRow({ className: 'target', id: 't-' + t.name },
    h('th', { scope: 'row', role: 'rowheader' }, row.toggle, row.owner),
    cell('State', 'state', row.state, row.why),
    cell('Depth', 'depth', row.bar, row.depth),
    cell('Last hour', 'hour', row.spark, row.hits),
    cell('Lead time', 'n', row.lead),
    cell('Spent today', 'n', row.spent));
  inView.observe(row.node);
  return row;
}

function drawRow(row, t) {
  put(row.owner, t.owner);
  row.state.className = 'badge ' + (t.marks.length > 0 && severity[t.state] > 3 ? 'marked' : t.state);
  put(row.state, t.state);
  put(row.why, sentence(t));
  if (row.why.title !== sentence(t)) row.why.title = sentence(t);
  const widest = Math.max(t.depth, t.warm, t.want, t.fresh + t.in_flight, 1);
  const share = (n) => (100 * n / widest).toFixed(1);
  const ageing = Math.min(t.ageing, t.fresh);
  set(row.fresh, { width: share(t.fresh - ageing) });
  set(row.ageing, { x: share(t.fresh - ageing), width: share(ageing) });
  set(row.ordered, { x: share(t.fresh), width: share(t.in_flight) });
  set(row.want, { x: Math.min(99, 100 * t.want / widest), visibility: t.want > 0 && t.want < widest ? 'visible' : 'hidden' });
  set(row.bar, { 'aria-label': plural(t.fresh, 'token') + ' ready, ' + ageing + ' of them ageing, ' + t.in_flight + ' on order, ' + t.want + ' wanted, depth ' + t.depth });
  let depth = count(t.fresh) + (t.want === 0 ? ', none wanted' : t.fresh > t.want ? ', ' + count(t.want) + ' wanted' : ' of ' + count(t.want));
  if (t.warm > 0 && t.warm === t.want) depth += ' (warm)';
  if (t.in_flight > 0) depth += ', ' + t.in_flight + ' on order';
  if (t.waiting > 0) depth += ', ' + t.waiting + ' waiting';
  put(row.depth, depth);
  const done = outcomes(t.hour);
  put(row.hits, done > 0 ? percent(t.hour.hit_rate) + ' of ' + count(done) : 'no requests');
  drawSpark(row);
  refresh(row);
  put(row.lead, t.lead_time_s.p50 > 0 ? seconds(t.lead_time_s.p50) : '–');
  const spent = spentToday(t);
  put(row.spent, spent === null || spent > 0 ? money(spent) : '–');
  if (row.detail) drawDetail(row, t);
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
}

// countsOf returns arrays with one element for each of the last n periods of step seconds. The last
// element is the current period. The arrays contain the start times, the hits, and the requests that
// waited or missed. The argument list has only the periods with counts.
function countsOf(n, step, list) {
  const last = Math.floor(asOf() / 1000 / step);
  const zeros = () => new Array(n).fill(0);
  const at = zeros().map((_, i) => (last - n + 1 + i) * step), hits = zeros(), others = zeros();
  for (const p of list) {
    const i = n - 1 - last + Math.floor(new Date(p.at || p.date).getTime() / 1000 / step);
    if (i < 0 || i >= n) continue;
    hits[i] = p.hits;
    others[i] = p.waited + p.misses;
  }
  return { at, hits, others };
}

const hourAndMinute = (at) => at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });

// The ranges of the chart. bars is the number of bars, and step is the width of a bar in seconds.
// list returns the counts of a target t with its row, and text returns the label of a bar.
const ranges = {
  hour: { name: '1 hour', bars: 60, step: 60, list: (row) => row.minutes, text: hourAndMinute },
  day: { name: '24 hours', bars: 24, step: 3600, list: (row) => row.hours, text: hourAndMinute },
  days: { name: '7 days', bars: 7, step: 86400, list: (row, t) => t.days, text: (at) => at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }) },
};

// loadPeriods loads the counts of the last 60 minutes and 24 hours, which the polled status lacks.
async function loadPeriods(row) {
  clearTimeout(row.due);
  row.due = 0;
  if (!row.visible && !row.detail) return;
  row.loaded = performance.now();
  const { body, problem } = await load('/pool/' + encodeURIComponent(row.name));
  const t = byName.get(row.name);
  if (!row.node.isConnected || !t) return; // the row was removed meanwhile
  if (body) {
    row.minutes = body.hour.minutes;
    row.hours = body.last_day?.hours || row.hours;
  }
  drawSpark(row);
  if (!row.detail) return;
  put(row.detail.problem, problem || (body.last_day ? '' : 'Redis does not answer, so the hours are unknown.'));
  drawChart(row, t);
}

// refresh loads the counts of a row after a change, if the row is open or in the window. It waits
// until the last counts of an open row are 2 s old, and the last counts of another row a minute.
function refresh(row) {
  if (row.due || !row.visible && !row.detail) return;
  row.due = setTimeout(loadPeriods, Math.max(200, row.loaded + (row.detail ? 2000 : 60000) - performance.now()), row);
}

const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const row = rows.get(entry.target.id.slice(2));
    if (!row) continue;
    row.visible = entry.isIntersecting;
    refresh(row);
  }
});

function drawSpark(row) {
  const { hits, others } = countsOf(60, 60, row.minutes);
  const most = Math.max(1, ...hits.map((n, i) => n + others[i]));
  let good = '', bad = '';
  for (let i = 0; i < 60; i++) {
    const up = 15 * hits[i] / most, more = 15 * others[i] / most;
    if (hits[i] > 0) good += 'M' + i + ' 16v-' + up.toFixed(1) + 'h.8v' + up.toFixed(1) + 'z';
    if (others[i] > 0) bad += 'M' + i + ' ' + (16 - up).toFixed(1) + 'v-' + more.toFixed(1) + 'h.8v' + more.toFixed(1) + 'z';
  }
  set(row.good, { d: good });
  set(row.bad, { d: bad });
}

// ---- the opened row ----------------------------------------------------------------

function toggle(row) {
  if (row.detail) {
    row.detail.chart?.destroy();
    row.detail.node.remove();
    row.detail = null;
    row.toggle.setAttribute('aria-expanded', 'false');
    return;
  }
  const t = byName.get(row.name);
  if (!t) return;
  const detail = { range: 'hour', problem: h('p', { className: 'why', role: 'status' }), choice: h('p', { className: 'ranges' }), facts: h('dl', { className: 'facts' }), plot: h('div', { className: 'plot', role: 'img' }), days: h('div', {}), acts: h('div', { className: 'acts' }) };
  detail.node = tableRow({ className: 'detail' }, h('td', { colSpan: 6, role: 'cell' },
    h('div', { className: 'columns' }, h('div', {}, detail.choice, detail.plot, legend(), detail.problem, detail.days), h('div', {}, detail.facts)), detail.acts));
  detail.choice.append(...Object.entries(ranges).map(([name, range]) => h('button', { type: 'button', 'aria-pressed': String(name === detail.range), onclick: (event) => {
    detail.range = name;
    for (const button of detail.choice.children) button.setAttribute('aria-pressed', String(button === event.target));
    detail.chart?.destroy();
    detail.chart = detail.plotted = null;
    drawChart(row, byName.get(row.name));
  } }, range.name)));
  row.detail = detail;
  row.toggle.setAttribute('aria-expanded', 'true');
  row.node.after(detail.node);
  drawDetail(row, t);
  loadPeriods(row);
}

function drawDetail(row, t) {
  const d = row.detail;
  const budget = t.budget ? [t.budget.hour && used(t.budget.hour, 'an hour'), t.budget.day && used(t.budget.day, 'a day')].filter(Boolean).join(', ') : 'none of its own';
  const facts = [
    ['State', t.state + (sentence(t) ? ': ' + sentence(t) : '')],
    ['Expects', forecast(t)],
    ['Lead time', t.lead_time_s.p50 > 0 ? seconds(t.lead_time_s.p50) + ' (median), ' + seconds(t.lead_time_s.p90) + ' (90 of 100)' : ''],
    ['Next expiry', t.next_expiry_s === null ? '' : 'at ' + clock(asOf() + 1000 * Math.max(0, t.next_expiry_s))],
    ['Waiting callers', t.waiting > 0 ? count(t.waiting) : ''],
    ['Bought per served', t.bought_per_served > 0 ? t.bought_per_served.toFixed(2) : ''],
    ['Since first seen', plural(t.requests, 'request') + ': ' + count(t.hits) + ' hits, ' + count(t.waited) + ' waited, ' + count(t.misses) + ' missed'],
    ['Orders', count(t.bought) + ' bought: ' + count(t.solved) + ' solved, ' + count(t.failed) + ' failed, ' + count(t.lost) + ' lost; ' + count(t.expired) + ' expired unused'],
    ['Reports', t.accepted + t.rejected > 0 ? count(t.accepted) + ' accepted, ' + count(t.rejected) + ' rejected' : ''],
    ['Budget', budget],
    ['Identity', [t.type, t.sitekey, t.pageurl].filter(Boolean).join(', ')],
    ['Owner', t.owner],
    ['Last failures', t.last_failures.map((f) => moment(f.at) + ': ' + f.reason).join('\n')],
  ].filter(([, text]) => text);
  replace(d.facts, facts, () => facts.flatMap(([name, text]) => [h('dt', {}, name), h('dd', {}, text)]));
  replace(d.days, t.days, () => (t.days.length === 0 ? [] : [h('table', { className: 'days' },
    h('thead', {}, h('tr', {}, ['Day (UTC)', 'Requests', 'Hits', 'Waited', 'Missed', 'Bought', 'Spent'].map((text, i) => h('th', { scope: 'col', className: i ? 'n' : '' }, text)))),
    h('tbody', {}, t.days.map((day) => h('tr', {}, h('th', { scope: 'row' }, day.date),
      [count(day.requests), count(day.hits), count(day.waited), count(day.misses), count(day.bought), money(day.spent)].map((text) => h('td', { className: 'n' }, text))))))]));
  replace(d.acts, [t.state, mayAct], () => actions(t));
  drawChart(row, t);
}

const used = (u, per) => count(u.used) + ' of ' + count(u.limit) + ' ' + per;

function legend() {
  const item = (className, text) => h('span', { className }, text);
  return h('p', { className: 'legend' }, item('hit', 'hits'), item('miss', 'waited or missed'));
}

function drawChart(row, t) {
  if (!t) return;
  const d = row.detail, range = ranges[d.range];
  const { at, hits, others } = countsOf(range.bars, range.step, range.list(row, t));
  const sum = (list) => count(list.reduce((all, n) => all + n, 0));
  set(d.plot, { 'aria-label': 'Requests in the last ' + range.name + ': ' + sum(hits) + ' hits, ' + sum(others) + ' waited or missed' });
  const data = [at, hits.map((n, i) => n + others[i]), hits];
  const key = JSON.stringify(data);
  if (d.plotted === key) return;
  d.plotted = key;
  if (d.chart) {
    d.chart.setData(data);
    return;
  }
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  const bars = uPlot.paths.bars({ size: [0.8, 40] });
  const bar = (fill) => ({ paths: bars, points: { show: false }, fill: color(fill), width: 0 });
  d.chart = new uPlot({
    width: Math.max(260, Math.min(560, d.plot.clientWidth || 480)), height: 140, legend: { show: false }, cursor: { show: false },
    scales: { x: { range: (u, first, last) => [first - range.step / 2, last + range.step / 2] }, y: { range: (u, least, most) => [0, Math.max(1, most)] } },
    axes: [{ ...axis, size: 24, grid: { show: false }, splits: d.range === 'days' ? () => at : undefined, values: (u, list) => list.map((x) => range.text(new Date(1000 * x))) }, { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] }],
    series: [{}, bar('--miss'), bar('--fresh')],
  }, data, d.plot);
}

// ---- actions of the operator --------------------------------------------------------

const scopes = (document.body.dataset.scopes || '').split(' ');
const mayAct = scopes.includes('admin');
const keyed = document.body.dataset.keyed === 'yes';

function actions(t) {
  const command = 'curl -X POST ' + (keyed ? '-H "Authorization: Bearer $POOLD_KEY" ' : '') + location.origin + '/pool/' + t.name + '/token';
  const copied = h('button', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(command);
      announce('Copied.');
      put(copied, 'Copied');
    } catch {
      getSelection().selectAllChildren(copied.previousElementSibling);
    }
  } }, 'Copy');
  const list = [h('code', { className: 'command' }, command), copied];
  if (!mayAct) return list;
  return [...list, h('span', { className: 'buttons' },
    t.state === 'paused'
      ? act('Resume', () => ask(t, resuming))
      : act('Pause', () => ask(t, pausing)),
    t.state === 'refused' ? act('Try now', () => ask(t, resuming)) : null,
    act('Flush', () => ask(t, flushing)))];
}

const act = (name, onclick) => h('button', { type: 'button', onclick }, name);

const price = (t) => (t.solved > 0 ? t.spent / t.solved : 0);
const costing = (t, n) => (price(t) > 0 ? ', about ' + money(n * price(t)) + ' at the average price so far' : '');

const span = () => h('select', { name: 'for' }, [['', 'until it is resumed'], ['15m', '15 minutes'], ['1h', '1 hour'], ['4h', '4 hours'], ['24h', '24 hours']]
  .map(([value, text]) => h('option', { value }, text)));

const pausing = {
  title: (t) => 'Pause ' + t.name,
  text: (t) => {
    const pace = t.hour.requests / 60;
    let text = 'All replicas stop buying for it. ' + plural(t.fresh, 'token is', 'tokens are') + ' ready and ' + count(t.in_flight) + ' on order; poold still hands them out.';
    if (pace > 0) text += ' At the request rate of the last hour they last ' + seconds(60 * (t.fresh + t.in_flight) / pace) + '.';
    return text;
  },
  fields: () => [h('label', {}, 'For ', span()), h('label', {}, 'Reason ', h('input', { name: 'reason', maxLength: 200 }))],
  send: (t, form) => {
    const body = {};
    for (const name of ['for', 'reason']) if (form.elements[name].value.trim()) body[name] = form.elements[name].value.trim();
    return call('POST', t, '/pause', body);
  },
};
const probing = {
  title: (p) => 'Probe ' + p.name,
  text: (p) => 'Reads the balance of the provider and lets the next order through at once.' + (p.since ? ' It is down since ' + moment(p.since) + '.' : '') + (p.remedy ? ' Remedy: ' + p.remedy : ''),
  fields: () => [],
  send: (p) => send('POST', '/providers/' + encodeURIComponent(p.name) + '/probe'),
};
const resuming = {
  title: (t) => (t.state === 'refused' ? 'Try ' : 'Resume ') + t.name,
  text: (t) => t.state === 'refused' ? 'Places one order at once, to check whether the provider accepts the parameters now. Last refusal: ' + t.reason : 'Buying continues: up to ' + count(Math.max(0, t.depth - t.fresh - t.in_flight)) + ' at once' + costing(t, Math.max(0, t.depth - t.fresh - t.in_flight)) + '.',
  fields: () => [],
  send: (t) => call('POST', t, '/resume'),
};
const flushing = {
  title: (t) => 'Flush ' + t.name,
  text: (t) => 'Discards ' + plural(t.fresh, 'ready token') + costing(t, t.fresh) + '. ' + (t.state === 'paused' ? 'While the target is paused none is' : 'As many are') + ' bought again. ' + count(t.in_flight) + ' on order still land.',
  fields: () => [],
  send: (t) => call('DELETE', t, '/tokens'),
};
const reloading = {
  title: () => 'Reload the configuration file',
  text: () => 'Reads the file again. ' + plural(byName.size, 'target is', 'targets are') + ' in use now; poold stops filling targets that the file no longer has. An invalid file changes nothing.',
  fields: () => [],
  send: () => send('POST', '/-/reload'),
};

const call = (method, t, path, body) => send(method, '/pool/' + encodeURIComponent(t.name) + path, body);

async function send(method, path, body) {
  const request = { method, signal: AbortSignal.timeout(35000) };
  if (body) {
    request.headers = { 'Content-Type': 'application/json' };
    request.body = JSON.stringify(body);
  }
  const answer = await fetch(location.origin + path, request);
  if (answer.ok) return '';
  return problemOf(answer, await answer.json().catch(() => ({})));
}

// problemOf returns the text of an error document.
const problemOf = (answer, problem) => [problem.title, problem.detail, ...(problem.problems || [])].filter(Boolean).join(': ') || 'The daemon answered ' + answer.status;

// load returns the JSON of a successful response as body. Otherwise it returns a sentence about the
// failure as problem.
async function load(path) {
  try {
    const answer = await fetch(location.origin + path, { signal: AbortSignal.timeout(15000) });
    const body = await answer.json();
    return answer.ok ? { body } : { problem: problemOf(answer, body) };
  } catch {
    return { problem: 'The daemon does not answer.' };
  }
}

// ask opens a dialog that describes an action and its cost, and carries the action out if the
// operator confirms.
function ask(t, what) {
  const wrong = h('p', { className: 'wrong', role: 'alert' });
  const go = h('button', { type: 'submit', className: 'go' }, what.title(t).split(' ')[0]);
  const form = h('form', { method: 'dialog', onsubmit: async (event) => {
    if (event.submitter && event.submitter !== go) return; // the cancel button closes the dialog
    event.preventDefault();
    go.disabled = true;
    const problem = await what.send(t, form).catch((err) => String(err.message || err));
    go.disabled = false;
    put(wrong, problem);
    if (problem) return;
    announce(what.title(t) + ': done.');
    dialog.close();
    poll();
  } }, h('h2', {}, what.title(t)), h('p', {}, what.text(t)), ...what.fields(t), wrong,
    h('p', { className: 'choice' }, h('button', { type: 'submit', value: 'no', formNoValidate: true }, 'Cancel'), go));
  const dialog = h('dialog', { 'aria-label': what.title(t), onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}

// ---- the rest of the page ----------------------------------------------------------

function drawFoot() {
  const warnings = doc.config.warnings;
  replace(byID('notes'), [warnings, doc.solve, doc.dedup], () => {
    const parts = [];
    if (doc.solve && (doc.solve.guests > 0 || doc.solve.requests > 0 || doc.solve.bought > 0)) {
      const g = doc.solve;
      parts.push(h('h2', {}, 'On-demand solves'), h('p', {}, [plural(g.guests, 'identity', 'identities') + ' without a target', plural(g.requests, 'request'), count(g.bought) + ' bought', count(g.solved) + ' solved',
        count(g.misses) + ' missed', money(g.spent) + ' spent', g.budget.hour && used(g.budget.hour, 'an hour'), g.budget.day && used(g.budget.day, 'a day')].filter(Boolean).join(', ') + '.' + (g.reason ? ' ' + g.reason : '')));
    }
    if (doc.dedup && doc.dedup.requests > 0) {
      parts.push(h('h2', {}, 'Savings'), h('p', {}, count(doc.dedup.saved) + ' of ' + plural(doc.dedup.requests - doc.dedup.missed - doc.dedup.refused, 'token') +
        ' of on-demand solves in the last 7 days served further requests too: ' + doc.dedup.saved_pct.toFixed(1) + ' %. ' +
        count(doc.dedup.missed) + ' requests missed, ' + count(doc.dedup.refused) + ' were refused.'));
    }
    if (warnings.length > 0) parts.push(h('h2', {}, 'Notes on the configuration file'), lines(warnings));
    return parts;
  });
  replace(byID('replicas'), doc.replicas || [], () => ((doc.replicas || []).length < 2 ? [] : ['Replicas: ' + doc.replicas.map((r) => r.id + (r.version ? ' (' + r.version + (r.started_at ? ', since ' + moment(r.started_at) : '') + ')' : '')).join(', ') + '.']));
  put(byID('about'), 'poold ' + doc.version + ', started ' + moment(doc.started_at) + '. Redis: ' + doc.redis.mode + (doc.redis.ok ? '' : ', unavailable') + '. Configuration of ' + moment(doc.config.loaded_at) + '.');
}

let shownTrouble = null;
function drawTitle() {
  const bad = [...byName.values()].filter(troubled);
  const n = bad.length;
  const alarm = doc.alarms.length > 0 || !doc.ready || !doc.config.ok;
  document.title = (n > 0 ? '(' + n + ') ' : '') + 'poold' + (!doc.ready ? ' (not ready)' : alarm ? ' (alarm)' : '');
  const icon = '/status.svg?n=' + Math.min(n, 100) + (alarm ? '&alarm=1' : '');
  const link = byID('icon');
  if (link.getAttribute('href') !== icon) link.setAttribute('href', icon);
  const key = bad.map((t) => t.name).sort().join(' ');
  if (shownTrouble !== null && shownTrouble !== key) {
    announce(n === 0 ? 'No target has a problem any more.' : plural(n, 'target has', 'targets have') + ' a problem: ' + bad.slice(0, 5).map((t) => t.name + ', ' + t.state).join('; '));
  }
  shownTrouble = key;
}

function rearrange() {
  structure = true;
  redraw();
}

function hold() {
  const button = byID('hold');
  heldAt = heldAt ? '' : doc ? doc.as_of : '';
  button.setAttribute('aria-pressed', String(Boolean(heldAt)));
  drawMode();
  drawClocks();
  rearrange();
}

for (const node of [search, problems, grouped, order]) node.addEventListener('input', () => {
  if (heldAt) hold();
  rearrange();
});
byID('hold').addEventListener('click', hold);
if (mayAct && document.body.dataset.whole === 'yes') {
  byID('reload').hidden = false;
  byID('reload').addEventListener('click', () => ask(null, reloading));
}
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && !document.querySelector('dialog')) {
    event.preventDefault();
    search.focus();
  }
});
document.addEventListener('visibilitychange', poll);
byID('app').hidden = false;
poll();
setInterval(poll, 2000);
setInterval(drawClocks, 1000);
