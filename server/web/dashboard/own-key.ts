import type { FastifyReply } from 'fastify';

import { AdministrationRefusal, notFound } from '#admin/refusal';
import { ownConnectionRead, type OwnConnectionView } from '#admin/upstream-connections';
import { insertAuditEvent } from '#db/audit';
import { findOrganization } from '#db/organizations';
import {
  findPersonKey,
  notePersonKeyProved,
  notePersonKeyRefused,
  replacePersonKey,
} from '#db/person-keys';
import { findServer } from '#db/servers';
import type { EpochSeconds } from '#model/clock';
import { keyHint, keyPlace, keyProblem } from '#model/person-keys';
import { keyPurpose, requiresKey, type KeyedTarget } from '#upstreams/credentials/person-keys';
import type { KeyTrial } from '#upstreams/inspect';
import { errorSummary, type FieldError, hiddenField, postForm, textField } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
} from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { factList, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import type { DashboardGuard, DashboardRequest, DashboardVisit, FormHandler } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';
import { ownCallsFact } from './servers.ts';

// A person's own key at the MCP server behind an endpoint. Only a form that the person sends in their own session can store a key. Neither
// an administrator nor a link can.

const notices: Readonly<Record<string, string>> = {
  proved: 'Key saved. The MCP server accepts it. Go back to your assistant and try again.',
  listed: 'Key saved. Go back to your assistant and try again.',
  works: 'The MCP server accepts your key.',
  disconnected: 'Key removed.',
};

/** `/servers/{server}/account/key`: enters a key, or tries the stored one again. */
export function ownKeyRoutes(guard: DashboardGuard): void {
  guard.post('/servers/:server/account/key', 'server.read', enterKey);
  guard.post('/servers/:server/account/key/try', 'server.read', tryAgain);
}

/** A person's view of the key that a server requires from them. */
export type OwnKey = OwnConnectionView & { readonly key: NonNullable<OwnConnectionView['key']> };

interface Shown {
  readonly own: OwnKey;
  readonly ports: DashboardPorts;
  readonly errors: readonly FieldError[];
}

export async function sendOwnKey(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { status = 200, ...shown }: Shown & { readonly status?: number },
): Promise<FastifyReply> {
  const data = await ownKeyData(visit, request, shown);
  const crumbs = serverCrumbs(visit, { text: 'Your key' });
  return sendDashboardPage(reply, visit, ownKeyPage, data, { crumbs, status });
}

async function ownKeyData(
  visit: DashboardVisit,
  request: DashboardRequest,
  { own, ports, errors }: Shown,
) {
  const { organization, person } = visit;
  const record = await findServer(ports.db, organization, own.server);
  const home = serverPath(organization, own.server);
  const isAgent = record?.target.upstream.kind === 'agent';
  const { key } = own;
  const state = stateOf(own);
  return {
    heading: visit.server,
    tabs: serverTabs(visit, own.server, 'connect'),
    notice: queryChoice(request, 'done', notices),
    state,
    key,
    isAgent,
    // Whether an administrator chose a tool with which a key is tried.
    hasTool: record?.target.personKey?.tool !== undefined,
    facts: [
      { label: isAgent ? 'Sent to the agent' : 'Sent to', text: key.place },
      { label: 'In the header', text: key.header },
      { label: 'Used for calls of', text: person.user.email },
      ...(key.hint === null ? [] : [{ label: 'Key', text: key.hint }]),
      ...(own.createdAt === null ? [] : [{ label: 'Entered', cell: timeCell(own.createdAt) }]),
      ...(state === 'none'
        ? []
        : [{ label: 'Last used', cell: timeCell(key.lastUsedAt, 'Not used yet') }]),
      ...(key.refusedAt === null ? [] : [{ label: 'Refused', cell: timeCell(key.refusedAt) }]),
      ...(record ? [ownCallsFact(visit, record.id)] : []),
    ],
    place: (record && keyPlace(record.target.upstream)) ?? '',
    action: `${home}/account/key`,
    remove: `${home}/account/disconnect`,
    errors,
    now: ports.clock.now(),
  };
}

type KeyPageState = 'none' | 'proved' | 'unproved' | 'refused';

function stateOf({ state, key }: OwnKey): KeyPageState {
  if (state === 'none') return 'none';
  if (state === 'ended') return 'refused';
  return key.provedAt === null ? 'unproved' : 'proved';
}

/** The server for which the person enters a key; `undefined` if it requires none. @throws {AdministrationRefusal} `not_found`, `forbidden` */
async function keyedFor(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const name = request.params['server'] ?? '';
  const record = await findServer(ports.db, visit.organization, name);
  if (!record) throw notFound('server');
  if (visit.server.isClosed) {
    const words = `${name} is restricted to certain groups: ask an administrator to add you to one`;
    throw new AdministrationRefusal('forbidden', words);
  }
  const { target } = record;
  return requiresKey(target) ? { record, target } : undefined;
}

const enterKey: FormHandler = async (visit, form, request, reply, options) => {
  const { ports } = options;
  const page = `${serverPath(visit.organization, request.params['server'] ?? '')}/account`;
  const keyed = await keyedFor(visit, request, ports);
  if (!keyed) return seeOther(reply, page);
  const { record, target } = keyed;
  const { label } = target.personKey;
  const wrong = (message: string) => showAgain(visit, request, reply, message, options);
  if (form.get('place') !== keyPlace(target.upstream)) {
    return wrong(
      'The server was changed in the meantime. Check where the key is sent, then enter it again.',
    );
  }
  // A copied key often ends with a line break.
  const entered = (form.get('key') ?? '').trim();
  const problem = keyProblem(entered);
  if (problem !== undefined) return wrong(`${label} ${problem}.`);
  const userId = visit.person.user.id;
  const before = await findPersonKey(ports.db, { targetId: target.id, userId });
  const trial = await ports.tryKey(record, userId, entered);
  const proved = trial.outcome === 'proved' ? ports.clock.now() : undefined;
  if (trial.outcome === 'refused' || trial.outcome === 'failed') {
    await noteConnection('connection.enter-key', 'refused', visit, request, ports);
    return wrong(
      `${problemOf(trial)} ${before ? 'Your key before it is kept.' : 'It was not saved.'}`,
    );
  }
  const isStored = await store(target, entered, {
    userId,
    replaces: before?.version,
    provedAt: proved,
    organization: visit.organization,
    ports,
  });
  if (!isStored) {
    await noteConnection('connection.enter-key', 'refused', visit, request, ports);
    return wrong('The server or your key was changed in the meantime. Try again.');
  }
  await noteConnection('connection.enter-key', 'done', visit, request, ports);
  return seeOther(reply, `${page}?done=${trial.outcome}`);
};

/** Stores a key that was tried; `false` if the server or the stored key has changed since. */
async function store(
  target: KeyedTarget,
  key: string,
  {
    userId,
    replaces,
    provedAt,
    organization,
    ports,
  }: {
    readonly userId: string;
    readonly replaces: number | undefined;
    readonly provedAt: EpochSeconds | undefined;
    readonly organization: string;
    readonly ports: DashboardPorts;
  },
): Promise<boolean> {
  const place = keyPlace(target.upstream);
  const found = await findOrganization(ports.db, organization);
  if (place === undefined || !found) return false;
  const of = { targetId: target.id, userId, place };
  return replacePersonKey(ports.db, {
    ...of,
    organizationId: found.id,
    sealedKey: ports.sealing.seal(keyPurpose(of), key),
    hint: keyHint(key),
    setAt: ports.clock.now(),
    provedAt,
    replaces,
  });
}

/** Tries the stored key again, for example after an administrator has chosen a tool for that. */
const tryAgain: FormHandler = async (visit, _form, request, reply, options) => {
  const { ports } = options;
  const page = `${serverPath(visit.organization, request.params['server'] ?? '')}/account`;
  const keyed = await keyedFor(visit, request, ports);
  const userId = visit.person.user.id;
  const found = keyed && (await findPersonKey(ports.db, { targetId: keyed.target.id, userId }));
  if (!found || found.place !== keyPlace(keyed.target.upstream)) return seeOther(reply, page);
  const key = ports.sealing.open(keyPurpose(found), found.sealedKey);
  const trial = await ports.tryKey(keyed.record, userId, key);
  switch (trial.outcome) {
    case 'proved':
      await notePersonKeyProved(ports.db, found, ports.clock.now());
      return seeOther(reply, `${page}?done=works`);
    case 'listed':
      return seeOther(reply, page);
    case 'refused':
      await notePersonKeyRefused(ports.db, found, ports.clock.now());
      return seeOther(reply, page);
    case 'failed':
      return showAgain(visit, request, reply, problemOf(trial), options);
  }
};

async function showAgain(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  message: string,
  { ports }: DashboardOptions,
): Promise<FastifyReply> {
  const own = await visit.perform(ownConnectionRead, { server: request.params['server'] ?? '' });
  if (!isOwnKey(own))
    return seeOther(reply, `${serverPath(visit.organization, own.server)}/account`);
  return sendOwnKey(visit, request, reply, {
    own,
    ports,
    errors: [{ field: 'key', message }],
    status: 422,
  });
}

export function isOwnKey(own: OwnConnectionView): own is OwnKey {
  return own.key !== null;
}

function problemOf(trial: Extract<KeyTrial, { outcome: 'refused' | 'failed' }>): string {
  return trial.outcome === 'refused'
    ? 'The MCP server refuses this key.'
    : `The key could not be tried: ${trial.reason}`;
}

/** Refusals are counted: another site can make a browser repeat a sign-in endlessly, and a person can repeat a wrong key. */
export function noteConnection(
  action: 'connection.create' | 'connection.enter-key',
  outcome: 'done' | 'refused',
  { organization, actor, person }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  const happened = {
    actor: `user:${person.user.id}`,
    organization,
    action,
    target: `server:${organization}/${params['server'] ?? ''}`,
    address: actor.address,
    requestId: actor.requestId,
  };
  if (outcome === 'refused') return ports.refusals.note(happened);
  return insertAuditEvent(ports.db, { ...happened, at: ports.clock.now(), outcome });
}

type OwnKeyData = Awaited<ReturnType<typeof ownKeyData>>;

const badges: Readonly<Record<KeyPageState, readonly Badge[]>> = {
  none: [],
  proved: [{ text: 'Works', tone: 'good' }],
  unproved: [{ text: 'Not checked yet', tone: 'care' }],
  refused: [{ text: 'Refused', tone: 'bad' }],
};

/** A person's own key at the MCP server behind an endpoint. */
function ownKeyPage(data: OwnKeyData, frame: Frame): Html {
  const { heading, tabs, state, errors } = data;
  const lead = 'Your own key for the MCP server behind this endpoint.';
  const title = errors.length > 0 ? 'Not saved' : `Your key for ${titleText(heading)}`;
  const content = html`${pageHeading({ heading, lead, badges: badges[state] })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${errorSummary(errors)}
${state !== 'none' && presentSection(data, frame)}
${entrySection(data, frame)}`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The key that is stored. */
function presentSection(data: OwnKeyData, frame: Frame): Html {
  const { state, key, facts, action, remove, hasTool, now } = data;
  const canTry = state !== 'proved' && (hasTool || state === 'refused');
  return html`<section class="group" aria-labelledby="present-heading">
<h2 id="present-heading">Your ${key.label}</h2>
<ul class="consequences">
${presentWords(data).map((text) => html`<li>${text}</li>`)}
</ul>
${factList(facts, now)}
<div class="actions">
${canTry && postForm(frame, { action: `${action}/try` }, html`<button>Try it again</button>`)}
<a class="button danger" href="${remove}" data-question>Remove key</a>
</div>
</section>`;
}

function presentWords({ state, key, hasTool }: OwnKeyData): string[] {
  const previous =
    'Your previous key is kept until this one is known to work. It is used if the MCP server rejects this one (401).';
  return [
    ...(state === 'refused'
      ? [
          'The MCP server refuses this key. It may have expired or been revoked, or it may lack a permission. Enter a new one below.',
        ]
      : []),
    ...(state === 'proved' ? ['The MCP server has accepted it.'] : []),
    ...(state === 'unproved'
      ? [
          hasTool
            ? 'Not checked yet: the administrators chose a tool to try keys with, and this key has not been tried with it. Try it again.'
            : 'Not checked yet: the MCP server listed its tools, which many servers do with any key. Your first call shows whether it works.',
        ]
      : []),
    ...(key.hasPrevious ? [previous] : []),
  ];
}

/** The form for a key. */
function entrySection(data: OwnKeyData, frame: Frame): Html {
  const { state, key, isAgent, hasTool, facts, action, errors, now } = data;
  const { label, helpUrl, place } = key;
  const isFirst = state === 'none';
  const where = isAgent
    ? `It is sent through the agent ${place} only. Whoever operates that agent can read it.`
    : `It is sent to ${place} only.`;
  const tried = hasTool
    ? 'When you save it, Latchkey tries it with a tool that only reads.'
    : 'When you save it, Latchkey lists the tools of the MCP server with it.';
  const [error] = errors;
  const fields = html`${hiddenField('place', data.place)}
${textField({
  name: 'key',
  label,
  type: 'password',
  autocomplete: 'off',
  error: error?.message,
  focus: isFirst && errors.length === 0,
  help: 'Stored encrypted. No one can see it again, not even you or an administrator.',
  attributes: html`spellcheck="false" autocapitalize="none" maxlength="4000"`,
})}
<div class="actions"><button class="${(isFirst || state === 'refused') && 'primary'}">Try and save</button></div>`;
  return html`<section class="section" aria-labelledby="entry-heading">
<h2 id="entry-heading">${isFirst ? `Enter your ${label}` : 'Replace it'}</h2>
<ul class="consequences">
<li>${where}</li>
<li>Only your own calls to this server use it, including those of applications that act for you.</li>
<li>${tried}${!isFirst && ' Your current key is kept until the new one is known to work.'}</li>
</ul>
${
  helpUrl !== null &&
  html`<p><a href="${helpUrl}" rel="noopener noreferrer external" target="_blank">Where to get it (${new URL(helpUrl).host})</a></p>`
}
${isFirst && factList(facts, now)}
${postForm(frame, { action, novalidate: true }, fields)}
</section>`;
}
