import { keyCreate } from '#administration/key-operations';
import { perform } from '#administration/perform';
import type { ShownKey } from '#administration/shown-key';
import type { ShownServer } from '#administration/shown-server';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { ShownSecret } from '#pages/secret-pieces';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyOf } from './key-of.ts';
import { livePath } from './live-routes.ts';
import { rotationPage, rotationStartPage } from './rotation-page.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath } from './server-tabs.ts';

const needs = { permission: 'key.manage', section: 'servers' } as const;
const secondsADay = 86_400;
const update =
  'Put the new key where the old one is: in the assistant’s configuration, or in whatever sends it.';

/** `/servers/{server}/keys/{key}/rotate`, and `/rotation/{new key}`: the guided rotation of an API key. */
export function keyRotationRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;
  const crumbs = (organization: string, server: string) =>
    serverCrumbs(
      organization,
      server,
      { text: 'API keys', href: `${serverPath(organization, server)}/keys` },
      { text: 'Rotate' },
    );

  const show = (
    visit: DashboardVisit,
    reply: FastifyReply,
    shown: { server: ShownServer; old: ShownKey; made: ShownKey; secret: ShownSecret | undefined },
  ) => {
    const { server, old, made, secret } = shown;
    const keys = `${serverPath(visit.organization, server.name)}/keys`;
    const isInForce = old.status === 'active';
    const data = {
      heading: `Rotate the API key “${old.name}”`,
      what: 'key',
      update,
      firstUse: 'Use the application now; its first use shows here.',
      secret,
      made,
      replaced: [
        {
          hint: old.hint,
          lastUsedAt: old.lastUsedAt,
          revoke: isInForce ? `${keys}/${old.id}/revoke` : undefined,
        },
      ],
      here: `${keys}/${old.id}/rotation/${made.id}`,
      back: { text: 'To the API keys', href: keys },
      now: clock.now(),
    };
    const live = livePath(visit.organization, server.name);
    const at = { crumbs: crumbs(visit.organization, server.name), live };
    return sendDashboardPage(reply, visit, rotationPage, data, at);
  };

  door.get('/servers/:server/keys/:keyId/rotate', needs, async (visit, request, reply) => {
    const { name } = await serverOf(visit, request, ports);
    const key = await keyOf(visit, request, ports);
    const keys = `${serverPath(visit.organization, name)}/keys`;
    const heading = `Rotate the API key “${key.name}”`;
    const action = `${keys}/${key.id}/rotate`;
    const data = { heading, what: 'key', update, action, cancel: keys };
    const at = { crumbs: crumbs(visit.organization, name) };
    return sendDashboardPage(reply, visit, rotationStartPage, data, at);
  });

  door.post('/servers/:server/keys/:keyId/rotate', needs, async (visit, _form, request, reply) => {
    const { organization, actor } = visit;
    const server = await serverOf(visit, request, ports);
    const old = await keyOf(visit, request, ports);
    const days = old.expiresAt && Math.ceil((old.expiresAt - old.createdAt) / secondsADay);
    const input = {
      organization,
      server: server.name,
      name: old.name,
      scopes: old.scopes,
      ...(days && { expiresInDays: days }),
    };
    const proxy = await ports.proxy();
    const made = await perform(keyCreate, input, actor, ports);
    const url = base + server.endpoint;
    const credential = { kind: 'key', apiKey: made.key } as const;
    const keys = `${serverPath(organization, server.name)}/keys`;
    const secret = {
      label: 'New API key',
      secret: made.key,
      beside: [],
      configurations: assistantConfigurations({ name: server.name, url, credential }, proxy),
      proxy,
      done: `${keys}/${old.id}/rotation/${made.id}`,
    };
    return show(visit, reply, { server, old, made, secret });
  });

  const rotation = '/servers/:server/keys/:keyId/rotation/:newKeyId';
  door.get(rotation, needs, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const old = await keyOf(visit, request, ports);
    const made = await keyOf(visit, request, ports, 'newKeyId');
    return show(visit, reply, { server, old, made, secret: undefined });
  });
}
