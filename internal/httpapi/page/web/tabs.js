// The tabs of the status page for events and for spending, beside the list of targets. Each tab
// loads its data when it opens; the fragment of the address names the open tab. Like status.js,
// whose functions it uses, this script inserts all text by textContent.
'use strict';

const tabs = { targets: null, events: null, money: null }; // name -> the function that loads the tab
let tab = 'targets';

function openTab(name) {
  tab = name in tabs ? name : 'targets';
  for (const one of Object.keys(tabs)) {
    byID('panel-' + one).hidden = one !== tab;
    byID('tab-' + one).setAttribute('aria-current', one === tab ? 'page' : 'false');
  }
  tabs[tab]?.();
}

const empty = (text) => h('p', { className: 'none' }, text);

// ---- events ------------------------------------------------------------------------

let changes = []; // the shown events, the newest first
let older = ''; // value of the parameter before for the next page; '' = all events are shown

const gravity = (kind) => (/_(refused|down|fault|used_up|failover)$|^dead_letters$/.test(kind) ? 'bad' : /_(paused|flushed|stopped)$/.test(kind) ? 'busy' : 'ok');

async function loadEvents(before) {
  const { body, problem } = await load('/events?limit=100' + (before ? '&before=' + before : ''));
  if (problem) {
    byID('events').replaceChildren(empty(problem));
    return;
  }
  changes = before ? [...changes, ...body.events] : body.events;
  older = body.next || '';
  replace(byID('events'), [changes, older], () => (changes.length === 0 ? [empty('No event in the last 30 days.')] : [
    h('table', { className: 'list' },
      h('thead', {}, h('tr', {}, ['Time (UTC)', 'Event', 'What happened', 'By'].map((text) => h('th', { scope: 'col' }, text)))),
      h('tbody', {}, changes.map((e) => h('tr', {}, h('td', { className: 'when' }, moment(e.at).replace(' UTC', '')),
        h('td', {}, h('span', { className: 'badge ' + gravity(e.kind) }, e.kind.replaceAll('_', ' '))),
        h('td', {}, e.text, Object.entries(e.details || {}).map(([name, items]) => h('span', { className: 'why' }, name + ': ' + items.join(', ')))),
        h('td', {}, e.actor))))),
    older ? act('Older events', () => loadEvents(older)) : null].filter(Boolean)));
}
tabs.events = () => loadEvents('');
setInterval(() => {
  if (tab === 'events' && !document.hidden && changes.length <= 100) loadEvents('');
}, 10000);

// ---- money -------------------------------------------------------------------------

const number = (name, title) => ({ name, title, text: (line) => (line[name] === null ? 'unknown' : count(line[name])), className: 'n' });
const word = (name, title) => ({ name, title, text: (line) => line[name] || '–', className: '' });
const spentColumn = { title: 'Spent', text: (line) => (line.spent === null ? 'unknown' : money(line.spent)) + (line.unpriced > 0 ? ', ' + count(line.unpriced) + ' without a price' : ''), className: 'n' };
const orderColumns = [number('orders', 'Orders'), number('solved', 'Solved'), number('failed', 'Failed'), number('lost', 'Lost'), number('handed_out', 'Handed out'), number('expired', 'Expired'), spentColumn];
const columns = {
  owner: [word('owner', 'Owner'), ...orderColumns],
  target: [word('target', 'Target'), word('owner', 'Owner'), ...orderColumns],
  key: [word('key', 'Key'), number('handed_out', 'Handed out'), number('accepted', 'Accepted'), number('rejected', 'Rejected'), number('bought', 'Bought for it'), spentColumn],
};
const spendBy = byID('spend-by'), spendDays = byID('spend-days'), spendPer = byID('spend-per');

function spendPath() {
  const from = new Date(Date.now() - (Number(spendDays.value) - 1) * 86400000).toISOString().slice(0, 10);
  return '/history/usage?by=' + spendBy.value + '&from=' + from + (spendPer.checked ? '&per=day' : '');
}

async function loadMoney() {
  const { body, problem } = await load(spendPath());
  if (problem) {
    byID('money').replaceChildren(empty(problem));
    byID('spend-sum').textContent = '';
    return;
  }
  const lines = spendPer.checked ? body.lines.toReversed() : body.lines;
  const shown = [...(spendPer.checked ? [word('date', 'Day (UTC)')] : []), ...columns[body.by]];
  put(byID('spend-sum'), money(body.lines.reduce((sum, line) => sum + (line.spent || 0), 0)) + ' from ' + body.first + ' to ' + body.last);
  byID('money').replaceChildren(lines.length === 0 ? empty('No order ended in these days.') : h('table', { className: 'list' },
    h('thead', {}, h('tr', {}, shown.map((c) => h('th', { scope: 'col', className: c.className }, c.title)))),
    h('tbody', {}, lines.map((line) => h('tr', {}, shown.map((c) => h('td', { className: c.className }, c.text(line))))))));
}
tabs.money = loadMoney;
for (const node of [spendBy, spendDays, spendPer]) node.addEventListener('input', loadMoney);

// The file comes from the daemon in one piece. The daemon limits the number of days, and thereby
// the size of the file.
byID('spend-csv').addEventListener('click', async () => {
  try {
    const answer = await fetch(location.origin + spendPath(), { headers: { Accept: 'text/csv' }, signal: AbortSignal.timeout(30000) });
    if (!answer.ok) return loadMoney(); // loadMoney shows the reason
    const url = URL.createObjectURL(await answer.blob());
    h('a', { href: url, download: 'poold-spend-by-' + spendBy.value + '.csv' }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  } catch {
    byID('money').replaceChildren(empty('The daemon does not answer.'));
  }
});

byID('tabs').hidden = false;
addEventListener('hashchange', () => openTab(location.hash.slice(1)));
openTab(location.hash.slice(1));
