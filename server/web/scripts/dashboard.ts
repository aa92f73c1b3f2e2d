import { timeForms, timeLanguage } from '#web/times';

/** A page with many changes is renewed at most this often. */
const renewEveryMs = 2000;

/**
 * The ES module of the dashboard. Every page also works without it. It opens confirmation pages as dialogs, and refreshes
 * live parts when the server announces a change. htmx fetches the new content and swaps it in.
 */
export const dashboardScript = `const htmx = window.htmx;
const say = document.createElement('p');
say.className = 'unseen';
say.setAttribute('role', 'status');
document.body.append(say);

// A secret is not shown again by a reload or by going back.
const secret = document.querySelector('[data-secret]');
if (secret) {
  history.replaceState(null, '', secret.dataset.secret);
  const stored = document.querySelector('#stored');
  addEventListener('beforeunload', (event) => { if (!stored.checked) event.preventDefault(); });
}

for (const menu of document.querySelectorAll('details.switcher')) {
  document.addEventListener('click', ({ target }) => { if (!menu.contains(target)) menu.open = false; });
  menu.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });
}
document.querySelector('.side [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });

// Shows a confirmation page as a dialog over the current page.
document.addEventListener('click', async (event) => {
  const link = event.target.closest?.('a[data-question]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-labelledby', 'question-heading');
  dialog.addEventListener('close', () => { dialog.remove(); link.focus(); });
  document.body.append(dialog);
  await htmx.ajax('GET', link.href, { source: dialog, target: dialog, select: '#question', swap: 'innerHTML' });
  if (!dialog.querySelector('#question')) return location.assign(link.href);
  dialog.querySelector('[data-cancel]').addEventListener('click', (click) => { click.preventDefault(); dialog.close(); });
  dialog.showModal();
});

// Searches in a dialog, from the link in the header or with Ctrl-K. The page of the search has a form of its own.
const find = document.querySelector('a[data-find]');
if (find) {
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  const hint = find.querySelector('kbd');
  hint.textContent = isMac ? '\\u2318K' : 'Ctrl K';
  hint.hidden = false;
  const openFind = () => {
    // A dialog that was closed just now is removed a moment later.
    const here = document.querySelector('main .find-form input, dialog[open] .find-form input');
    if (here) return void here.select();
    if (document.querySelector('dialog[open]')) return;
    const before = document.activeElement;
    const dialog = document.createElement('dialog');
    dialog.className = 'find';
    dialog.setAttribute('aria-label', 'Search');
    const form = document.createElement('form');
    form.action = find.href;
    form.setAttribute('role', 'search');
    form.className = 'find-form';
    const input = document.createElement('input');
    Object.assign(input, { type: 'search', name: 'q', maxLength: 100, autocomplete: 'off', spellcheck: false, dir: 'auto', placeholder: 'Servers, people, keys, pages' });
    input.setAttribute('aria-label', 'Search for');
    form.append(input);
    const hits = document.createElement('div');
    hits.className = 'hits';
    dialog.append(form, hits);
    document.body.append(dialog);
    dialog.addEventListener('close', () => { dialog.remove(); before?.focus?.(); });
    dialog.addEventListener('click', ({ target }) => { if (target === dialog) dialog.close(); });
    const links = () => [...hits.querySelectorAll('a')];
    let asking = new AbortController();
    let waiting;
    /** The text whose results are shown: Enter opens the first of them, and otherwise the page that searches. */
    let shown = '';
    const ask = async () => {
      asking.abort();
      asking = new AbortController();
      const { signal } = asking;
      const text = input.value.trim();
      shown = '';
      if (text.length < 2) return hits.replaceChildren();
      try {
        const response = await fetch(find.href + '?' + new URLSearchParams({ q: text }), { signal });
        if (!response.ok || response.redirected) return location.assign(find.href);
        const page = new DOMParser().parseFromString(await response.text(), 'text/html');
        if (signal.aborted) return;
        hits.replaceChildren(...page.querySelector('#hits').childNodes);
        shown = text;
        say.textContent = links().length === 1 ? 'One result.' : links().length + ' results.';
      } catch {}
    };
    input.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(ask, 150); });
    form.addEventListener('submit', (event) => {
      const [first] = links();
      if (!first || shown !== input.value.trim()) return;
      event.preventDefault();
      location.assign(first.href);
    });
    dialog.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        // Browsers would first clear the field.
        event.preventDefault();
        return dialog.close();
      }
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [input, ...links()];
      all[Math.min(all.length - 1, Math.max(0, all.indexOf(document.activeElement) + step))].focus();
    });
    dialog.showModal();
    input.focus();
  };
  find.addEventListener('click', (event) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    openFind();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key.toLowerCase() !== 'k' || event.altKey || event.shiftKey || !(isMac ? event.metaKey : event.ctrlKey)) return;
    event.preventDefault();
    openFind();
  });
}

// A choice in a filter takes effect immediately. With the keyboard, Apply does that: arrow keys pass over values that are not meant.
let pointed;
document.addEventListener('pointerdown', ({ target }) => { pointed = target.closest?.('form.filter select') ?? undefined; });
document.addEventListener('keydown', () => { pointed = undefined; });
document.addEventListener('change', ({ target }) => { if (pointed && target === pointed) target.form.requestSubmit(); });

// A row of the matrix is for everyone or for groups.
document.addEventListener('change', ({ target }) => {
  const row = target.checked && target.closest('.matrix tr');
  if (!row) return;
  const others = row.querySelectorAll(target.closest('.everyone') ? '.of-group :checked' : '.everyone :checked');
  for (const box of others) box.checked = false;
  if (others.length > 0) say.textContent = target.closest('.everyone') ? 'The groups are unticked.' : 'Everyone is unticked.';
});

// After a session ended, show the sign-in page instead of a fragment of it.
document.addEventListener('htmx:before:response', (event) => {
  const { raw } = event.detail.ctx.response;
  if (!raw.redirected && raw.ok) return;
  event.preventDefault();
  location.reload();
});

// Times in the viewer's time zone instead of UTC.
const forms = ${JSON.stringify(timeForms)};
const timeIn = (form, time) => new Intl.DateTimeFormat('${timeLanguage}', forms[form]).format(new Date(time));
const localize = () => {
  for (const one of document.querySelectorAll('[data-form]')) {
    one.textContent = timeIn(one.dataset.form, one.dateTime ?? one.dataset.at);
  }
  for (const one of document.querySelectorAll('time[title]')) one.title = timeIn('exact', one.dateTime);
  for (const bar of document.querySelectorAll('.bar')) {
    bar.setAttribute('aria-label', bar.querySelector('.readout').textContent);
  }
  for (const note of document.querySelectorAll('[data-zone]')) {
    note.textContent = 'Times are in your time zone, ' + Intl.DateTimeFormat().resolvedOptions().timeZone + '.';
  }
};
localize();
document.addEventListener('htmx:after:swap', localize);

// What is chosen in a form is counted again as boxes are ticked, instead of with a button.
for (const sum of document.querySelectorAll('[data-count]')) {
  const form = sum.closest('form');
  const [words, button] = [sum.querySelector('p'), sum.querySelector('button')];
  let asking = new AbortController();
  let waiting;
  const count = async () => {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    const body = new URLSearchParams(new FormData(form));
    body.set('count', '1');
    try {
      const response = await fetch(form.action, { method: 'POST', body, signal });
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const counted = page.querySelector('[data-count] p');
      if (signal.aborted) return;
      button.hidden = counted !== null;
      if (counted) words.textContent = counted.textContent;
    } catch { if (!signal.aborted) button.hidden = false; }
  };
  button.hidden = true;
  form.addEventListener('change', () => { clearTimeout(waiting); waiting = setTimeout(count, 150); });
}

// The arrow keys move from bar to bar of a plot; one of them is in the order of the Tab key.
document.addEventListener('keydown', (event) => {
  const bar = event.target.closest?.('.bar');
  if (!bar) return;
  const bars = [...bar.parentNode.querySelectorAll('.bar')];
  const steps = { ArrowLeft: bars.indexOf(bar) - 1, ArrowRight: bars.indexOf(bar) + 1, Home: 0, End: bars.length - 1 };
  const next = bars[steps[event.key]];
  if (!next) return;
  event.preventDefault();
  bar.setAttribute('tabindex', '-1');
  next.setAttribute('tabindex', '0');
  next.focus();
});

// A search that takes long goes on until the page is full, the search is over or the reader stops it.
const search = async () => {
  const found = document.querySelector('#found');
  const noticeOf = (part) => part.querySelector('[data-search]');
  let isStopped = false;
  const stop = new AbortController();
  const halt = () => { isStopped = true; stop.abort(); for (const one of found.querySelectorAll('[data-stop]')) one.hidden = true; };
  found.addEventListener('click', ({ target }) => { if (target.closest?.('[data-stop]')) halt(); });
  addEventListener('pagehide', halt);
  const rows = () => found.querySelectorAll('tbody tr').length;
  while (!isStopped && noticeOf(found) && rows() < Number(noticeOf(found).dataset.search)) {
    noticeOf(found).querySelector('[data-stop]').hidden = false;
    const next = await more(noticeOf(found).querySelector('a').href, stop.signal);
    if (isStopped) return;
    if (!next) break;
    const body = found.querySelector('tbody');
    if (body) body.append(...next.querySelectorAll('tbody tr'));
    else found.firstElementChild.replaceWith(next.firstElementChild);
    const notice = noticeOf(next);
    if (notice) noticeOf(found).replaceChildren(...notice.childNodes);
    else noticeOf(found).remove();
    const older = next.querySelector('[rel=next]');
    if (older) found.querySelector('.pager').prepend(older);
    localize();
  }
  halt();
  if (!noticeOf(found)) say.textContent = 'The search is complete.';
};
const more = async (href, signal) => {
  try {
    const response = await fetch(href, { signal });
    if (!response.ok || response.redirected) return undefined;
    return new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('#found');
  } catch { return undefined; }
};
if (document.querySelector('[data-search]')) search();

const live = document.querySelector('[data-live]');
let before;
const rowsOf = (root) => new Map([...root.querySelectorAll('[data-row]')].map((row) => [row.id, row.textContent.replace(/\\s+/g, ' ')]));
const withoutTimes = (text) => text.replace(/just now|\\d+ \\w+ ago|in \\d+ \\w+/g, '');
document.addEventListener('htmx:before:swap', ({ detail }) => {
  if (detail.ctx.sourceElement?.matches?.('[data-renew]')) before = rowsOf(document);
});
document.addEventListener('htmx:after:swap', () => {
  if (!before) return;
  let changed = 0;
  for (const [id, text] of rowsOf(document)) {
    if (before.has(id) && withoutTimes(before.get(id)) === withoutTimes(text)) continue;
    changed += 1;
    const row = document.getElementById(id);
    row.classList.add('fresh');
    setTimeout(() => row.classList.remove('fresh'), 2000);
  }
  before = undefined;
  if (changed) say.textContent = changed === 1 ? 'One entry changed.' : changed + ' entries changed.';
});

// Only a visible page keeps a stream: browsers allow six connections to a host.
if (live) {
  let stream;
  let waiting;
  let renewedAt = 0;
  let isInterrupted = false;
  const state = document.querySelector('[data-live-state]');
  const report = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  // Rows must not move while a person reads or selects them. Only pages that report their state are held, and renewed at intervals.
  const heldBy = () => {
    const part = state && document.querySelector('#renewed');
    const selection = getSelection();
    if (!part) return '';
    if (!selection.isCollapsed && selection.containsNode(part, true)) return 'New calls wait while you select text.';
    return part.getBoundingClientRect().top < 0 ? 'Scroll up to see new calls.' : '';
  };
  const renew = () => {
    clearTimeout(waiting);
    const held = heldBy();
    const wait = held ? 500 : state ? renewedAt + ${renewEveryMs} - Date.now() : 0;
    if (held) report(held);
    if (wait > 0) return void (waiting = setTimeout(renew, wait));
    renewedAt = Date.now();
    report('New calls appear here automatically.');
    document.body.dispatchEvent(new Event('written'));
  };
  const listen = () => {
    stream = new EventSource(live.dataset.live);
    stream.addEventListener('open', () => {
      report('New calls appear here automatically.');
      if (isInterrupted) renew();
      isInterrupted = false;
    });
    stream.addEventListener('error', () => {
      isInterrupted = true;
      const isOver = stream.readyState === EventSource.CLOSED;
      report(isOver ? 'New calls no longer appear by themselves. Reload the page to see them.' : 'Connection lost. New calls appear once it is back.');
    });
    stream.addEventListener('written', renew);
    stream.addEventListener('over', () => { stream.close(); location.reload(); });
  };
  listen();
  document.addEventListener('visibilitychange', () => {
    stream.close();
    clearTimeout(waiting);
    if (document.visibilityState !== 'visible') return;
    renew();
    listen();
  });
  addEventListener('pagehide', () => stream.close());
}
`;
