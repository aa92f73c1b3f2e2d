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
    report('New calls appear here by themselves.');
    document.body.dispatchEvent(new Event('written'));
  };
  const listen = () => {
    stream = new EventSource(live.dataset.live);
    stream.addEventListener('open', () => {
      report('New calls appear here by themselves.');
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
