import type { FastifyReply } from 'fastify';

import { keyCreate, keyRevoke } from '#administration/key-operations';
import { perform } from '#administration/perform';
import { defaultKeyScopes, type Scope } from '#credentials/scope';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { FieldError } from '#pages/page';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyFormPage } from './key-form-page.ts';
import { keyOf } from './key-of.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { checkedScopes, scopeOptions } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath } from './server-tabs.ts';
import { shownOncePage } from './shown-once-page.ts';

const manage = { permission: 'key.manage', section: 'servers' } as const;
const labels = {
  name: { field: 'name', label: 'The name' },
  scopes: { field: 'scopes', label: 'What it may do' },
  expiresInDays: { field: 'expiry', label: 'The end' },
};

/** `/servers/{server}/new-key`, and revoking one of its keys. */
export function keyRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

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
      const proxy = await ports.proxy();
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
          configurations: assistantConfigurations({ name: server.name, url, credential }, proxy),
          proxy,
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
