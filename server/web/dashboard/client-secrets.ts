import type { FastifyReply } from 'fastify';
import { notFound } from '#admin/refusal';
import { clientRotate, clientSecretList, clientSecretRevoke } from '#admin/client-secrets';
import type { ClientView } from '#admin/clients';
import { connectionInstructions } from '#web/instructions';
import type { OneTimeSecret } from '#web/one-time-secret';
import { clientOf, isActive, type ClientSecretView } from './clients.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { rotationPage, rotationStartPage } from './rotation.ts';
import { serverCrumbs, serverPath } from './server-tabs.ts';

const client = '/servers/:server/clients/:clientId';
const toManage = 'client.manage';
const update =
  'Replace the old secret with the new one in every assistant and application that uses it. The client ID does not change.';

/** `/servers/{server}/clients/{client}/rotate`, `/rotation/{new secret}`, and revoking one secret. */
export function clientSecretRoutes(guard: DashboardGuard): void {
  guard.get(`${client}/rotate`, toManage, startRotation);
  guard.post(`${client}/rotate`, toManage, rotateSecret);
  guard.get(`${client}/rotation/:secretId`, toManage, showRotation);
  questionRoutes(guard, `${client}/secrets/:secretId/revoke`, toManage, secretRevocation);
}

function pathOf({ organization }: DashboardVisit, { server, clientId }: ClientView) {
  return `${serverPath(organization, server)}/clients/${clientId}`;
}

function crumbsOf(visit: DashboardVisit, shown: ClientView, last: string) {
  return serverCrumbs(
    visit,
    { text: 'OAuth clients', href: `${serverPath(visit.organization, shown.server)}/clients` },
    { text: shown.name, href: pathOf(visit, shown) },
    { text: last },
  );
}

async function secretsOf({ perform }: DashboardVisit, { clientId }: ClientView) {
  return (await perform(clientSecretList, { clientId })).items;
}

/** Sends the rotation page; `secret` only in the response that creates it. */
async function sendRotation(
  visit: DashboardVisit,
  reply: FastifyReply,
  shown: ClientView,
  made: ClientSecretView,
  secret: OneTimeSecret | undefined,
  ports: DashboardPorts,
) {
  const path = pathOf(visit, shown);
  const now = ports.clock.now();
  const others = (await secretsOf(visit, shown)).filter(({ id }) => id !== made.id);
  const older = others.filter(({ createdAt }) => createdAt <= made.createdAt);
  const data = {
    heading: `Rotate the secret of “${shown.name}”`,
    what: 'secret',
    update,
    firstUse: 'Use the application now. This page shows the first use of the secret.',
    secret,
    made,
    replaced: older
      .filter(
        (one) => isActive(one, now) || one.revokedAt === null || one.revokedAt >= made.createdAt,
      )
      .map((one) => ({
        hint: one.hint,
        lastUsedAt: one.lastUsedAt,
        revoke: isActive(one, now) ? `${path}/secrets/${one.id}/revoke` : undefined,
      })),
    here: `${path}/rotation/${made.id}`,
    back: { text: 'View OAuth client', href: path },
    now,
  };
  const live = livePath(visit.organization, shown.server);
  return sendDashboardPage(reply, visit, rotationPage, data, {
    crumbs: crumbsOf(visit, shown, 'Rotate'),
    live,
  });
}

const startRotation: PageHandler = async (visit, request, reply) => {
  const shown = await clientOf(visit, request);
  const cancel = pathOf(visit, shown);
  const heading = `Rotate the secret of “${shown.name}”`;
  const data = { heading, what: 'secret', update, action: `${cancel}/rotate`, cancel };
  const at = { crumbs: crumbsOf(visit, shown, 'Rotate') };
  return sendDashboardPage(reply, visit, rotationStartPage, data, at);
};

const rotateSecret: FormHandler = async (visit, _form, request, reply, { base, ports }) => {
  const shown = await clientOf(visit, request);
  const { organization } = visit;
  const { clientId, server, scopes } = shown;
  const proxy = await ports.proxy();
  const made = await visit.perform(clientRotate, { clientId });
  const { clientSecret } = made;
  const url = `${base}/mcp/${organization}/${server}`;
  const credential = { kind: 'client', clientId, clientSecret, scopes } as const;
  const secret = {
    label: 'New client secret',
    secret: clientSecret,
    beside: [{ label: 'Client ID', text: clientId }],
    instructions: connectionInstructions({ organization, name: server, url, credential }, proxy),
    done: `${pathOf(visit, shown)}/rotation/${made.id}`,
  };
  return sendRotation(visit, reply, shown, made, secret, ports);
};

const showRotation: PageHandler = async (visit, request, reply, { ports }) => {
  const shown = await clientOf(visit, request);
  const secrets = await secretsOf(visit, shown);
  const made = secrets.find(({ id }) => id === request.params['secretId']);
  if (!made) throw notFound('secret');
  return sendRotation(visit, reply, shown, made, undefined, ports);
};

const secretRevocation: Question = {
  async ask(visit, request, { ports }) {
    const shown = await clientOf(visit, request);
    const secrets = await secretsOf(visit, shown);
    const secret = secrets.find(({ id }) => id === request.params['secretId']);
    if (!secret) throw notFound('secret');
    const now = ports.clock.now();
    const others = secrets.filter((one) => one.id !== secret.id && isActive(one, now)).length;
    return {
      heading: `Revoke the secret ${secret.hint}?`,
      consequences: [
        `It stops working immediately: applications that use it as “${shown.name}” get no new tokens.`,
        others > 0
          ? 'The other secret continues to work.'
          : 'It is the only active secret. The client cannot get tokens until you rotate its secret.',
      ],
      verb: 'Revoke secret',
      cancel: pathOf(visit, shown),
      crumbs: crumbsOf(visit, shown, 'Revoke a secret'),
    };
  },
  async act(visit, request) {
    const shown = await clientOf(visit, request);
    const secretId = request.params['secretId'] ?? '';
    await visit.perform(clientSecretRevoke, { clientId: shown.clientId, secretId });
    return `${pathOf(visit, shown)}?done=secret-revoked`;
  },
};
