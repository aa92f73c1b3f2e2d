import type { FastifyReply } from 'fastify';
import { keyCreate, keyList, keyRead, keyRevoke, keyRotate, type KeyView } from '#admin/keys';
import { notFound } from '#admin/refusal';
import type { ServerView } from '#admin/servers';
import type { EpochSeconds } from '#model/clock';
import { findKeyOrigins, type KeyOrigin } from '#db/keys';
import type { Db } from '#db/transaction';
import { html, type Html } from '#web/html';
import { connectionInstructions } from '#web/instructions';
import { type Badge, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { type OneTimeSecret, oneTimeSecretPage } from '#web/one-time-secret';
import { queryChoice } from '#web/page-request';
import { type Cell, copyable, factList, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { keyWords, selectionWords } from '#web/tool-choice';
import { lastCalls } from './calls.ts';
import { type ActorName, findActorNames } from './actors.ts';
import { sendExclusion } from './closed-server.ts';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import { scopeList, scopeWords } from './scope-words.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { choosableTools, selectedNames } from './known-tools.ts';
import { listQuery, renewedPart, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { rotationOf, rotationPage, rotationsAmong, rotationStartPage } from './rotation.ts';
import { isExcluded, serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';
import { checkPath } from './tool-tabs.ts';

/** The API keys of a server: listing, generating, rotating and revoking them. */
export function keyRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/keys', toRead, showKeys);
  guard.get('/servers/:server/keys/:keyId', toRead, showKey);
  formRoutes(guard, '/servers/:server/new-key', toManage, newKey);
  questionRoutes(guard, '/servers/:server/keys/:keyId/revoke', toManage, revocation);
  guard.get('/servers/:server/keys/:keyId/rotate', toManage, startRotation);
  guard.post('/servers/:server/keys/:keyId/rotate', toManage, rotateKey);
  guard.get('/servers/:server/keys/:keyId/rotation/:newKeyId', toManage, showRotation);
}

const toRead = 'key.read';
export const toManage = 'key.manage';
/** The columns of key lists, without the actions. */
export const keyColumns = [
  { text: 'Name', sort: 'name' },
  { text: 'Key' },
  { text: 'Scopes' },
  { text: 'Last used', sort: 'last_used_at' },
  { text: 'Created', sort: 'created_at' },
  { text: 'Created by' },
  { text: 'Expires', sort: 'expires_at' },
] as const;

const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'Active' },
    { value: 'expired', text: 'Expired' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [...keyColumns, { text: 'Actions' }],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  made: 'The API key is active.',
  tools: 'Saved. The change takes effect on the next call.',
  revoked: 'The API key is revoked. It no longer works.',
};

const showKeys: PageHandler = async (visit, request, reply, { ports }) => {
  if (isExcluded(visit)) return sendExclusion(visit, reply, 'keys', ports);
  const server = await serverOf(visit, request);
  const { organization } = visit;
  const home = serverPath(organization, server.name);
  const query = listQuery(request, shape);
  const { items, total } = await visit.perform(keyList, { ...query.input, server: server.name });
  const generate = { text: 'Generate API key', href: `${home}/new-key` };
  const action = visit.may('key.manage') ? generate : undefined;
  const describe = await keyDescriptions(items, ports.clock.now(), ports.db);
  const rows = items.map((key) => {
    const of = `${key.name} ${key.hint}`;
    const path = `${home}/keys/${key.id}`;
    const actions = [
      { text: 'Tools', href: `${path}/tools`, of },
      { text: 'Rotate', href: `${path}/rotate`, of },
      { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
    ];
    const isActive = key.status === 'active';
    const cell = { kind: 'actions', actions: isActive && action ? actions : [] } as const;
    return {
      id: key.id,
      isOver: !isActive,
      cells: [...keyCells(key, describe(key), path), cell],
    };
  });
  const list = {
    heading: visit.server,
    caption: `API keys of ${server.name}`,
    action,
    tabs: serverTabs(visit, server.name, 'keys'),
    notice: queryChoice(request, 'done', notices),
    query,
    rows,
    total,
    none: `No API keys yet. An assistant or a script can use this server with an API key.${action ? '' : ' Administrators create them here.'}`,
    noneLikeThat: 'No API keys match.',
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'API keys' });
  const live = livePath(organization, server.name);
  return sendListPage(reply, visit, list, { crumbs, live });
};

/** The age at which the list recommends a rotation. */
const rotateAfterDays = 90;

/** The details of a key that pages show in addition to its own fields. */
export interface KeyDescription {
  readonly badges: readonly Badge[];
  /** A sentence about the rotation that the key is part of. */
  readonly rotation: string | undefined;
  /** The name of the actor who created it; '' if unknown. */
  readonly createdBy: string;
}

/** Describes keys, including their creators and rotations from the database. */
async function keyDescriptions(
  keys: readonly KeyView[],
  now: EpochSeconds,
  db: Db,
): Promise<(key: KeyView) => KeyDescription> {
  const ids = keys.map(({ id }) => id);
  const origins = await findKeyOrigins(db, ids, now);
  const actors = [...origins.values()].map(({ createdBy }) => createdBy);
  const nameOf = await findActorNames(db, actors);
  return (key) => describeKey(key, origins.get(key.id), nameOf);
}

/** Describes the keys of an agent, of which the newest replaces all others. */
export async function agentKeyDescriptions(
  keys: readonly KeyView[],
  now: EpochSeconds,
  db: Db,
): Promise<(key: KeyView) => KeyDescription> {
  const describe = await keyDescriptions(keys, now, db);
  const rotated = rotationsAmong(
    'key',
    keys.filter(({ status }) => status === 'active'),
  );
  return (key) => {
    const rotation = rotated(key);
    const badges = rotation && [rotation.badge];
    return { ...describe(key), ...(badges && { badges }), rotation: rotation?.words };
  };
}

function describeKey(
  key: KeyView,
  origin: KeyOrigin | undefined,
  nameOf: ActorName,
): KeyDescription {
  const { replaces, replacedBy } = key.status === 'active' ? (origin ?? {}) : {};
  const rotation = rotationOf({
    what: 'key',
    replaces,
    replacedBy,
    expires: key.expiresAt !== null,
  });
  const { createdBy } = origin ?? {};
  return {
    badges: rotation ? [rotation.badge] : keyBadges(key),
    rotation: rotation?.words,
    createdBy: createdBy === undefined ? '' : nameOf(createdBy),
  };
}

function keyBadges({ status, ageDays, suspended }: KeyView): readonly Badge[] {
  if (status === 'revoked') return [{ text: 'Revoked', tone: 'plain' }];
  if (status === 'expired') return [{ text: 'Expired', tone: 'care' }];
  if (suspended) return [{ text: 'Suspended', tone: 'bad' }];
  return ageDays >= rotateAfterDays ? [{ text: 'Rotation due', tone: 'care' }] : [];
}

/** A row of `keyColumns`; the name links to `href`. */
export function keyCells(
  key: KeyView,
  { badges, rotation, createdBy }: KeyDescription,
  href?: string,
): readonly Cell[] {
  const scopes = key.agent === null ? key.scopes.map(scopeName).join(', ') : 'Connect the agent';
  return [
    { kind: 'name', text: key.name, badges, note: rotation, ...(href && { href }) },
    { kind: 'hint', text: key.hint },
    { kind: 'text', text: scopes },
    timeCell(key.lastUsedAt, 'Never'),
    timeCell(key.createdAt),
    { kind: 'text', text: createdBy },
    timeCell(key.expiresAt, 'Never'),
  ];
}

/** `tools:read` for `mcp:tools:read`, because all scopes have the same prefix. */
function scopeName(scope: string): string {
  return scope.replace(/^mcp:/, '');
}

const showKey: PageHandler = async (visit, request, reply, { ports }) => {
  if (isExcluded(visit)) return sendExclusion(visit, reply, 'keys', ports);
  const { organization, server } = visit;
  const data = await keyData(visit, request, ports);
  const keys = { text: 'API keys', href: `${serverPath(organization, server.name)}/keys` };
  const crumbs = serverCrumbs(visit, keys, { text: data.heading });
  const live = livePath(organization, server.name);
  return sendDashboardPage(reply, visit, keyPage, data, { crumbs, live });
};

async function keyData(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { organization } = visit;
  const { name: server } = await serverOf(visit, request);
  const key = await keyOf(visit, request);
  const list = `${serverPath(organization, server)}/keys`;
  const isManaged = key.status === 'active' && visit.may('key.manage');
  const describe = await keyDescriptions([key], ports.clock.now(), ports.db);
  const { badges, rotation, createdBy } = describe(key);
  return {
    heading: key.name,
    badges,
    rotation,
    keyId: key.id,
    facts: [
      { label: 'Key', cell: { kind: 'hint', text: key.hint } as const },
      { label: 'Tools', text: selectionWords(key.tools) },
      { label: 'Last used', cell: timeCell(key.lastUsedAt, 'Never') },
      { label: 'Created', cell: timeCell(key.createdAt) },
      ...(createdBy ? [{ label: 'Created by', text: createdBy }] : []),
      { label: 'Expires', cell: timeCell(key.expiresAt, 'Never') },
      ...(key.revokedAt === null ? [] : [{ label: 'Revoked', cell: timeCell(key.revokedAt) }]),
    ],
    scopes: key.scopes.map(scopeWords),
    names: selectedNames(key.tools),
    check: visit.may('people.read') ? checkPath(organization, server, key.id) : undefined,
    notice: queryChoice(request, 'done', notices),
    manage: isManaged
      ? {
          tools: `${list}/${key.id}/tools`,
          rotate: `${list}/${key.id}/rotate`,
          revoke: `${list}/${key.id}/revoke`,
        }
      : undefined,
    calls: await lastCalls(visit, { credential: key.id }, { kind: 'key', subject: key.id }, ports),
    here: request.url,
    now: ports.clock.now(),
  };
}

type KeyPageData = Awaited<ReturnType<typeof keyData>>;

/** An API key: its scopes, when it was used, and the id that the audit log has for it. */
function keyPage(data: KeyPageData, frame: Frame): Html {
  const { heading, badges, rotation, keyId, facts, scopes, manage, here, now } = data;
  const action = manage && { text: 'Rotate', href: manage.rotate };
  const content = html`${pageHeading({ heading, badges, action })}
${statusNotice(data.notice)}
${copyable(keyId, 'the id of the key')}
${rotation && html`<p>${rotation}</p>`}
${renewedPart(here, factList(facts, now))}
<section class="section" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">Scopes</h2>
${scopeList(scopes)}
${data.names}
${data.check !== undefined && html`<p><a href="${data.check}">Check which tools this key can use</a></p>`}
${manage && html`<div class="actions"><a class="button" href="${manage.tools}">Change tools</a><a class="button danger" href="${manage.revoke}" data-question>Revoke</a></div>`}
</section>
${data.calls}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

/**
 * The key that the path parameter `name` identifies. It must belong to the server in the path.
 *
 * @throws {AdministrationRefusal} `not_found`
 */
export async function keyOf(
  { perform }: DashboardVisit,
  { params }: DashboardRequest,
  name: 'keyId' | 'newKeyId' = 'keyId',
) {
  const key = await perform(keyRead, { keyId: params[name] ?? '' });
  if (key.server !== params['server']) throw notFound('key');
  return key;
}

const newKey: FormRoutes = {
  form: formFor(keyCreate),
  async page(visit, request, { ports }) {
    const { name: server } = await serverOf(visit, request);
    const items = await choosableTools(visit, server, ports);
    const keys = `${serverPath(visit.organization, server)}/keys`;
    return {
      heading: 'Generate API key',
      lead: `Anyone with this key can use ${titleText(visit.server)}. The next page shows the key once.`,
      refused: 'Not generated yet',
      verb: 'Generate API key',
      cancel: keys,
      crumbs: serverCrumbs(visit, { text: 'API keys', href: keys }, { text: 'Generate' }),
      shownFields: { here: { tools: { tools: { items, words: keyWords } } } },
    };
  },
  async act(visit, entered, request, reply, { base, ports }) {
    const server = await serverOf(visit, request);
    const { organization } = visit;
    const proxy = await ports.proxy();
    const made = await visit.perform(keyCreate, { ...entered, server: server.name });
    const url = base + server.endpoint;
    const credential = { kind: 'key', apiKey: made.key } as const;
    const data = {
      heading: `API key ${made.name}`,
      next: `Anyone with this key can use ${titleText(visit.server)}.`,
      secret: {
        label: 'API key',
        secret: made.key,
        beside: [{ label: 'Endpoint', text: url }],
        instructions: connectionInstructions(
          { organization, name: server.name, url, credential },
          proxy,
        ),
        done: `${serverPath(organization, server.name)}/keys?done=made`,
      },
    };
    const crumbs = serverCrumbs(visit, { text: 'API key' });
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  },
};

const revocation: Question = {
  async ask(visit, request, { ports }) {
    const server = await serverOf(visit, request);
    const key = await keyOf(visit, request);
    const used =
      key.lastUsedAt === null ? 'It has never been used.' : usedLately(key, ports.clock.now());
    const home = `${serverPath(visit.organization, server.name)}/keys`;
    return {
      heading: `Revoke the API key “${key.name}”?`,
      consequences: [
        `${key.hint} stops working immediately.`,
        used,
        'This cannot be undone. Anyone who still needs access needs a new key.',
      ],
      verb: 'Revoke key',
      cancel: home,
      crumbs: serverCrumbs(visit, { text: 'API keys', href: home }, { text: 'Revoke' }),
    };
  },
  async act(visit, request) {
    const { server, id: keyId } = await keyOf(visit, request);
    const { organization } = visit;
    await visit.perform(keyRevoke, { keyId });
    return `${serverPath(organization, server ?? '')}/keys?done=revoked`;
  },
};

function usedLately({ lastUsedAt }: { lastUsedAt: number | null }, now: number): string {
  const days = Math.floor((now - (lastUsedAt ?? now)) / 86_400);
  if (days >= 7) return `It was last used ${days} days ago.`;
  return 'It was used in the last 7 days. Applications that use it lose access.';
}

const update = 'Replace the old key with the new one in every assistant and script that uses it.';

function rotationCrumbs(visit: DashboardVisit) {
  const href = `${serverPath(visit.organization, visit.server.name)}/keys`;
  return serverCrumbs(visit, { text: 'API keys', href }, { text: 'Rotate' });
}

/** Sends the rotation page. `secret` is set only in the response to the request that creates the new key. */
function sendRotation(
  visit: DashboardVisit,
  reply: FastifyReply,
  shown: {
    server: ServerView;
    old: KeyView;
    made: KeyView;
    secret: OneTimeSecret | undefined;
  },
  { clock }: DashboardPorts,
) {
  const { server, old, made, secret } = shown;
  const keys = `${serverPath(visit.organization, server.name)}/keys`;
  const isActive = old.status === 'active';
  const data = {
    heading: `Rotate the API key “${old.name}”`,
    what: 'key',
    update,
    firstUse: 'Use the application now. This page shows the first use of the key.',
    secret,
    made,
    replaced: [
      {
        hint: old.hint,
        lastUsedAt: old.lastUsedAt,
        revoke: isActive ? `${keys}/${old.id}/revoke` : undefined,
      },
    ],
    here: `${keys}/${old.id}/rotation/${made.id}`,
    back: { text: 'View API keys', href: keys },
    now: clock.now(),
  };
  const live = livePath(visit.organization, server.name);
  const at = { crumbs: rotationCrumbs(visit), live };
  return sendDashboardPage(reply, visit, rotationPage, data, at);
}

const startRotation: PageHandler = async (visit, request, reply) => {
  const { name } = await serverOf(visit, request);
  const key = await keyOf(visit, request);
  const keys = `${serverPath(visit.organization, name)}/keys`;
  const heading = `Rotate the API key “${key.name}”`;
  const action = `${keys}/${key.id}/rotate`;
  const data = { heading, what: 'key', update, action, cancel: keys };
  const at = { crumbs: rotationCrumbs(visit) };
  return sendDashboardPage(reply, visit, rotationStartPage, data, at);
};

const rotateKey: FormHandler = async (visit, _form, request, reply, { base, ports }) => {
  const { organization } = visit;
  const server = await serverOf(visit, request);
  const old = await keyOf(visit, request);
  const proxy = await ports.proxy();
  const made = await visit.perform(keyRotate, { keyId: old.id });
  const url = base + server.endpoint;
  const credential = { kind: 'key', apiKey: made.key } as const;
  const keys = `${serverPath(organization, server.name)}/keys`;
  const secret = {
    label: 'New API key',
    secret: made.key,
    instructions: connectionInstructions(
      { organization, name: server.name, url, credential },
      proxy,
    ),
    done: `${keys}/${old.id}/rotation/${made.id}`,
  };
  return sendRotation(visit, reply, { server, old, made, secret }, ports);
};

const showRotation: PageHandler = async (visit, request, reply, { ports }) => {
  const server = await serverOf(visit, request);
  const old = await keyOf(visit, request);
  const made = await keyOf(visit, request, 'newKeyId');
  return sendRotation(visit, reply, { server, old, made, secret: undefined }, ports);
};
