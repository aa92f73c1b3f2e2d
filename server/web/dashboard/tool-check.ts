// "What can Dana see?": what a person, a key, a client or a grant may use of a server, and why.

import { clientList } from '#admin/clients';
import { keyList } from '#admin/keys';
import { personList } from '#admin/people';
import { AdministrationRefusal } from '#admin/refusal';
import { toolList, type ToolView } from '#admin/tools';
import { findClient } from '#db/clients';
import { findGrant } from '#db/grants';
import { findKey } from '#db/keys';
import { findUserByEmail } from '#db/people';
import { errorOf, errorSummary, type FieldError } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  badge,
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryText } from '#web/page-request';
import { applicationName } from '#web/consent';
import { listFilter, type ListFrame, pager } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import type { DashboardGuard, DashboardVisit, PageHandler } from './guard.ts';
import { listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted } from './questions.ts';
import { serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';
import { partNavigation, toolPath, toolTabs } from './tool-tabs.ts';
import {
  type DecidingSetting,
  hintBadge,
  kindWords,
  nameOf,
  reasonOf,
  reasonWords,
  type Subject,
} from './tool-words.ts';

const toRead = 'people.read';
const shape = {
  states: [
    { value: '', text: 'Allowed and refused' },
    { value: 'allowed', text: 'Allowed' },
    { value: 'refused', text: 'Refused' },
  ],
  columns: ['Name'],
  usual: { sort: '', order: 'asc' },
} as const;

/** The most suggestions in each list. */
const mostSuggested = 100;

/** `/servers/{server}/tools/check`: what one caller may use of a server, with the reason for each line. */
export function toolCheckRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/tools/check', toRead, showCheck);
}

const showCheck: PageHandler = async (visit, request, reply, { ports }) => {
  const { name: server } = await serverOf(visit, request);
  const asked = (queryText(request, 'who') ?? '').trim().slice(0, 2000);
  const found = asked === '' ? undefined : await checked(visit, server, asked, ports);
  const query = listQuery(request, shape);
  const { filter, state, start, end } = query.part;
  const all = found?.outcome === 'found' ? found.items : [];
  const shown = all.filter(
    ({ name, allowed }) =>
      name.toLowerCase().includes(filter.toLowerCase()) &&
      (state === '' || allowed === (state === 'allowed')),
  );
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, server, 'tools'),
    parts: toolTabs(visit, server, 'check'),
    action: `${serverPath(visit.organization, server)}/tools/check`,
    asked,
    suggestions: await suggestions(visit, server),
    errors: found?.outcome === 'unknown' ? [{ field: 'who', message: found.message }] : [],
    result:
      found?.outcome === 'found'
        ? {
            ...found,
            list: withWho(query.frame(shown.length), asked),
            items: shown.slice(start, end),
            sum: sumOf(all),
          }
        : undefined,
  };
  const href = `${serverPath(visit.organization, server)}/tools`;
  const crumbs = serverCrumbs(visit, { text: 'Tools', href }, { text: 'Check one caller' });
  return sendDashboardPage(reply, visit, toolCheckPage, data, { crumbs });
};

/** Adds the caller whose rights are shown to the links of the list. */
function withWho(frame: ListFrame, who: string): ListFrame {
  const also = new URLSearchParams({ who }).toString();
  const link = (href: string | undefined) =>
    href === undefined ? undefined : `${href}${href.includes('?') ? '&' : '?'}${also}`;
  return {
    ...frame,
    hidden: { ...frame.hidden, who },
    previous: link(frame.previous),
    next: link(frame.next),
  };
}

interface CheckedLine extends Pick<ToolView, 'kind' | 'name' | 'title' | 'shownHints'> {
  readonly allowed: boolean;
  readonly text: string;
  readonly href: string;
  readonly link: Link | undefined;
}

type Checked =
  | { readonly outcome: 'unknown'; readonly message: string }
  | {
      readonly outcome: 'found';
      readonly subject: Subject;
      /** Why the subject cannot use the server at all. */
      readonly excluded: { readonly text: string; readonly link: Link | undefined } | undefined;
      readonly items: readonly CheckedLine[];
    };

async function checked(
  visit: DashboardVisit,
  server: string,
  asked: string,
  ports: DashboardPorts,
): Promise<Checked> {
  const ids = await idsOf(visit, server, asked);
  const [as, ...others] = ids;
  if (others.length > 0) {
    const message = `Several keys or clients are called ${asked}. Enter the ID of one: ${ids.join(', ')}.`;
    return { outcome: 'unknown', message };
  }
  const none = `No member has this e-mail address, and no key or client of this server has this name or ID.`;
  if (as === undefined) return { outcome: 'unknown', message: none };
  try {
    const { items, excluded } = await visit.perform(toolList, { server, as });
    const subject = await subjectOf(as, ports);
    const linkTo = (setting: DecidingSetting, name: string) =>
      settingLink(setting, { visit, server, as, name, subject });
    const why = reasonOf(excluded);
    const nothing = { kind: 'tool', audience: null } as const;
    const out = why && reasonWords(why, subject, nothing);
    return {
      outcome: 'found',
      subject,
      excluded: out && { text: out.text, link: linkTo(out.setting, '') },
      items: items.flatMap((item) => {
        const reason = reasonOf(item.reason);
        if (item.allowed === null || !reason) return [];
        const { kind, name, title, shownHints, allowed } = item;
        const { text, setting } = reasonWords(reason, subject, item);
        const href = toolPath(visit.organization, server, item);
        return { kind, name, title, shownHints, allowed, text, href, link: linkTo(setting, name) };
      }),
    };
  } catch (refusal) {
    const isUnknown = refusal instanceof AdministrationRefusal && refusal.code === 'not_found';
    if (!isUnknown) throw refusal;
    return { outcome: 'unknown', message: none };
  }
}

/** The ids of the callers that may be meant: the text itself, or the keys and clients of the server with this name. */
async function idsOf(
  { perform }: DashboardVisit,
  server: string,
  asked: string,
): Promise<readonly string[]> {
  if (asked.includes('@') || /^(?:key_|client_|grant_|https?:)/.test(asked)) return [asked];
  const query = { server, status: 'active', text: asked, limit: 50 };
  const { items: keys } = await perform(keyList, query);
  const { items: clients } = await perform(clientList, query);
  return [
    ...keys.filter(({ name }) => name === asked).map(({ id }) => id),
    ...clients.filter(({ name }) => name === asked).map(({ clientId }) => clientId),
  ];
}

interface NamedSubject extends Subject {
  /** The person themselves, or the person of a grant. */
  readonly userId?: string | undefined;
}

async function subjectOf(as: string, { db }: DashboardPorts): Promise<NamedSubject> {
  if (as.startsWith('key_')) return { type: 'key', name: (await findKey(db, as))?.name ?? as };
  if (as.startsWith('grant_')) {
    const grant = await findGrant(db, as);
    const name = grant ? applicationName(grant) : as;
    return { type: 'grant', name, userId: grant?.userId };
  }
  if (as.startsWith('client_') || /^https?:/.test(as)) {
    return { type: 'client', name: (await findClient(db, as))?.name ?? as };
  }
  const person = await findUserByEmail(db, as);
  return { type: 'person', name: person?.email ?? as, userId: person?.id };
}

interface LinkPlace {
  readonly visit: DashboardVisit;
  readonly server: string;
  readonly as: string;
  readonly name: string;
  readonly subject: NamedSubject;
}

function settingLink(
  setting: DecidingSetting,
  { visit: { organization, may }, server, as, name, subject }: LinkPlace,
): Link | undefined {
  const home = serverPath(organization, server);
  switch (setting) {
    case 'matrix': {
      const query = new URLSearchParams({ filter: name }).toString();
      return { text: 'Who can use it', href: `${home}/tools/access?${query}` };
    }
    case 'tool':
      return {
        text: 'View the tool',
        href: toolPath(organization, server, { kind: 'tool', name }),
      };
    case 'review':
      return may('server.manage') ? { text: 'Review', href: `${home}/tools/review` } : undefined;
    case 'credential':
      if (subject.type === 'key') return { text: 'View the key', href: `${home}/keys/${as}` };
      if (subject.type === 'client' && as.startsWith('client_')) {
        return { text: 'View the client', href: `${home}/clients/${as}` };
      }
      return { text: 'View consents', href: `${dashboardPath(organization)}/consents` };
    case 'person':
      return subject.userId === undefined
        ? undefined
        : {
            text: 'View the person',
            href: `${dashboardPath(organization)}/people/${subject.userId}`,
          };
    case 'server-access':
      return { text: 'Access of the server', href: `${home}/access` };
    case 'server-settings':
      return may('server.manage') ? { text: 'Settings', href: `${home}/settings` } : undefined;
    case 'organization':
      return {
        text: 'Settings of the organization',
        href: `${dashboardPath(organization)}/settings`,
      };
    case undefined:
      return undefined;
  }
}

/** `3 of 12 tools, no prompts`. */
function sumOf(items: readonly CheckedLine[]): string {
  const kinds = [
    { of: ['tool'], one: 'tool' },
    { of: ['prompt'], one: 'prompt' },
    { of: ['resource', 'template'], one: 'resource' },
  ];
  const parts = kinds.flatMap(({ of, one }) => {
    const all = items.filter(({ kind }) => of.includes(kind));
    if (all.length === 0) return [];
    const allowed = all.filter((item) => item.allowed).length;
    return [`${allowed} of ${counted(all.length, one)}`];
  });
  return parts.join(', ');
}

/** Suggestions for the field: people by their address, keys and clients by their id. */
async function suggestions({ perform }: DashboardVisit, server: string) {
  const of = { server, status: 'active', limit: mostSuggested };
  const { items: people } = await perform(personList, { limit: mostSuggested });
  const { items: keys } = await perform(keyList, of);
  const { items: clients } = await perform(clientList, of);
  return [
    ...people.map(({ email }) => ({ value: email, text: 'Person' })),
    ...keys.map(({ id, name, hint }) => ({ value: id, text: `API key ${name} ${hint}` })),
    ...clients.map(({ clientId, name }) => ({ value: clientId, text: `OAuth client ${name}` })),
  ];
}

interface ToolCheckPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly parts: Tabs;
  readonly action: string;
  readonly asked: string;
  readonly suggestions: readonly { readonly value: string; readonly text: string }[];
  readonly errors: readonly FieldError[];
  readonly result:
    | (Omit<Extract<Checked, { outcome: 'found' }>, 'outcome'> & {
        readonly list: ListFrame;
        readonly sum: string;
      })
    | undefined;
}

/** A field for a caller, and what this caller may use. */
function toolCheckPage(data: ToolCheckPageData, frame: Frame): Html {
  const { heading, tabs, parts, action, asked, errors, result } = data;
  const error = errorOf(errors, 'who');
  const lead =
    'Choose a person, an API key or an OAuth client to see what they can use of this server, and why.';
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${partNavigation(parts)}
${errorSummary(errors)}
<form method="get" action="${action}" class="narrow-form">
<div class="field${error && ' wrong'}">
<label for="who">Person, API key or OAuth client</label>
<input id="who" name="who" list="callers" value="${asked}" required autocomplete="off" spellcheck="false" dir="auto" aria-describedby="who-help"${error && html` aria-invalid="true"`}>
<datalist id="callers">
${data.suggestions.map(({ value, text }) => html`<option value="${value}">${text}</option>`)}
</datalist>
${error && html`<p class="error">${error}</p>`}
<p class="help" id="who-help">An e-mail address, the name of a key or client of this server, or an ID. The ID of a consent shows what an application can use for its person.</p>
</div>
<div class="actions"><button class="primary">Check</button></div>
</form>
${result && resultSection(result)}`;
  return layout(
    { title: `Check one caller of ${titleText(heading)}`, width: 'text' },
    frame,
    content,
  );
}

const subjectWords = {
  person: '',
  key: 'The API key ',
  client: 'The OAuth client ',
  grant: 'The application ',
} as const;

function resultSection({
  subject,
  excluded,
  items,
  list,
  sum,
}: NonNullable<ToolCheckPageData['result']>): Html {
  const who = html`${subjectWords[subject.type]}<bdi>${subject.name}</bdi>`;
  return html`<section class="section" aria-labelledby="result-heading">
<h2 id="result-heading">What ${subject.name} can use</h2>
${
  excluded
    ? html`<p class="notice warning">${who} cannot use this server at all. ${excluded.text}${excluded.link && html` <a href="${excluded.link.href}">${excluded.link.text}</a>`}</p>`
    : html`<p>${who} can use ${sum || 'whatever the server offers: no list of it is known yet'}.</p>`
}
${listFilter(list)}
<ul class="rows checked">
${items.map(checkedLine)}
${items.length === 0 && html`<li>Nothing matches.</li>`}
</ul>
${pager(list)}
</section>`;
}

const allowedBadge: Badge = { text: 'Allowed', tone: 'good' };
const refusedBadge: Badge = { text: 'Refused', tone: 'bad' };

function checkedLine({ allowed, text, href, link, ...item }: CheckedLine): Html {
  const { kind, title, name } = item;
  return html`<li>
<div>
<p><a href="${href}"><code dir="auto">${nameOf(item)}</code></a>${kind !== 'tool' && html` <span class="soft">${kindWords[kind]}</span>`}${hintBadge(item).map((one) => html` ${badge(one)}`)}</p>
${title !== null && title !== name && html`<p class="help" dir="auto">${title}</p>`}
<p class="help">${text}${link && html` <a href="${link.href}" aria-label="${link.text}: ${nameOf(item)}">${link.text}</a>`}</p>
</div>
${badge(allowed ? allowedBadge : refusedBadge)}
</li>`;
}
