import type { FastifyReply } from 'fastify';

import { notFound } from '#administration/administration-refusal';
import { keyCreate, keyList, keyRead, keyRevoke } from '#administration/key-operations';
import { perform } from '#administration/perform';
import { defaultKeyScopes, type Scope } from '#credentials/scope';
import { queryText } from '#http/query-text';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { FieldError } from '#pages/page';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyCells, keyColumns } from './key-rows.ts';
import { keyFormPage } from './key-form-page.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { checkedScopes, scopeOptions } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { sendListPage } from './send-list-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { shownOncePage } from './shown-once-page.ts';

const look = { permission: 'key.read', section: 'servers' } as const;
const manage = { permission: 'key.manage', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'In force' },
    { value: 'expired', text: 'Expired' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [...keyColumns, { text: 'Actions' }],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const labels = {
  name: { field: 'name', label: 'The name' },
  scopes: { field: 'scopes', label: 'What it may do' },
  expiresInDays: { field: 'expiry', label: 'The end' },
};
const notices: Readonly<Record<string, string>> = {
  made: 'The API key is in force.',
  revoked: 'The API key is revoked and opens nothing any more.',
};

/** `/servers/{server}/keys`, `/new-key`, and revoking one. */
export function keyRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server/keys', look, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const home = serverPath(organization, server.name);
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization, server: server.name };
    const { items, total } = await perform(keyList, wanted, actor, ports);
    const generate = { text: 'Generate API key', href: `${home}/new-key` };
    const action = visit.may('key.manage') ? generate : undefined;
    const rows = items.map((key) => {
      const of = `${key.name} ${key.hint}`;
      const path = `${home}/keys/${key.id}`;
      const actions = [
        { text: 'Rotate', href: `${path}/rotate`, of },
        { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
      ];
      const isActive = key.status === 'active';
      const cell = { kind: 'actions', actions: isActive && action ? actions : [] } as const;
      return { id: key.id, isOver: !isActive, cells: [...keyCells(key, path), cell] };
    });
    const list = {
      heading: server.title || server.name,
      caption: `API keys of ${server.name}`,
      action,
      tabs: serverTabs(visit, server.name, 'keys'),
      notice: notices[queryText(request, 'done') ?? ''],
      query,
      rows,
      total,
      none: 'No API keys yet. A key opens this server for an assistant or a script that can send one header.',
      noneLikeThat: 'No API key is like that.',
      now: clock.now(),
    };
    const crumbs = serverCrumbs(organization, server.name, { text: 'API keys' });
    const live = livePath(organization, server.name);
    return sendListPage(reply, visit, list, { crumbs, live });
  });

  const form = async (
    visit: DashboardVisit,
    request: DashboardRequest,
    reply: FastifyReply,
    typed: { name: string; scopes: readonly Scope[]; expiry: string; errors: FieldError[] },
  ) => {
    const { name: server } = await serverOf(visit, request, ports);
    const home = serverPath(visit.organization, server);
    const data = {
      server,
      action: `${home}/new-key`,
      cancel: `${home}/keys`,
      name: typed.name,
      scopes: scopeOptions(typed.scopes),
      expiries: ['', '30', '90', '180', '365'].map((value) => ({
        value,
        text: value === '' ? 'Never' : `In ${value} days`,
        isChosen: value === typed.expiry,
      })),
      errors: typed.errors,
    };
    const crumbs = serverCrumbs(
      visit.organization,
      server,
      { text: 'API keys', href: `${home}/keys` },
      { text: 'Generate' },
    );
    const status = typed.errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, keyFormPage, data, { crumbs, status });
  };

  door.get('/servers/:server/new-key', manage, async (visit, request, reply) =>
    form(visit, request, reply, { name: '', scopes: defaultKeyScopes, expiry: '', errors: [] }),
  );

  door.post('/servers/:server/new-key', manage, async (visit, sent, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const typed = {
      name: sent.get('name') ?? '',
      scopes: checkedScopes(sent),
      expiry: sent.get('expiry') ?? '',
    };
    const { name, scopes, expiry } = typed;
    try {
      const input = {
        organization,
        server: server.name,
        name,
        scopes,
        ...(expiry && { expiresInDays: expiry }),
      };
      const made = await perform(keyCreate, input, actor, ports);
      const url = base + server.endpoint;
      const credential = { kind: 'key', apiKey: made.key } as const;
      const data = {
        heading: `API key ${made.name}`,
        next: `It opens ${server.name} from now on.`,
        secret: {
          label: 'API key',
          secret: made.key,
          beside: [{ label: 'Endpoint', text: url }],
          configurations: assistantConfigurations({ name: server.name, url, credential }),
          done: `${serverPath(organization, server.name)}/keys?done=made`,
        },
      };
      const crumbs = serverCrumbs(organization, server.name, { text: 'API key' });
      return sendDashboardPage(reply, visit, shownOncePage, data, { crumbs });
    } catch (refusal) {
      const errors = refusedForm(refusal, labels);
      return form(visit, request, reply, { ...typed, errors });
    }
  });

  questionRoutes(door, '/servers/:server/keys/:keyId/revoke', manage, {
    async ask(visit, request) {
      const server = await serverOf(visit, request, ports);
      const key = await keyOf(visit, request, ports);
      const used = key.lastUsedAt === null ? 'It was never used.' : usedLately(key, clock.now());
      const home = `${serverPath(visit.organization, server.name)}/keys`;
      return {
        heading: `Revoke the API key “${key.name}”?`,
        consequences: [
          `${key.hint} opens ${server.name} no more, from this moment on.`,
          used,
          'There is no way back. Whoever still needs access gets a new key.',
        ],
        verb: 'Revoke the key',
        cancel: home,
        crumbs: serverCrumbs(
          visit.organization,
          server.name,
          { text: 'API keys', href: home },
          { text: 'Revoke' },
        ),
      };
    },
    async act(visit, request) {
      const { server, id: keyId } = await keyOf(visit, request, ports);
      const { organization, actor } = visit;
      await perform(keyRevoke, { organization, keyId }, actor, ports);
      return `${serverPath(organization, server ?? '')}/keys?done=revoked`;
    },
  });
}

function usedLately({ lastUsedAt }: { lastUsedAt: number | null }, now: number): string {
  const days = Math.floor((now - (lastUsedAt ?? now)) / 86_400);
  if (days >= 7) return `It was last used ${days} days ago.`;
  return 'It was used in the last 7 days: whatever uses it loses access now.';
}

/** The key that the path names, if the server that the path names has it. */
export async function keyOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardOptions['ports'],
  name: 'keyId' | 'newKeyId' = 'keyId',
) {
  const input = { organization, keyId: params[name] ?? '' };
  const key = await perform(keyRead, input, actor, ports);
  if (key.server !== params['server']) throw notFound('key');
  return key;
}
