import type { FastifyInstance } from 'fastify';

import { mayDo } from '#administration/permission';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { SessionStore } from '#people/session-store';
import type { DashboardDoor, DashboardDoorOptions } from './dashboard-door.ts';
import type { LiveStreams } from './live-streams.ts';
import { membershipOf } from './membership-of.ts';

/** The stream for the pages of an organization, or of one server of it. */
export function livePath(organization: string, server?: string): string {
  const query = server === undefined ? '' : `?server=${server}`;
  return `${dashboardPath(organization)}/live${query}`;
}

/** What the stream is decided by and kept in. */
export interface LiveRoutesOptions {
  readonly ports: DashboardDoorOptions['ports'] & {
    readonly sessions: Pick<SessionStore, 'use' | 'list'>;
  };
  readonly streams: LiveStreams;
}

/** `GET /dashboard/{organization}/live`: server-sent events that say when to look again. */
export function liveRoutes(
  app: FastifyInstance,
  door: DashboardDoor,
  { ports, streams }: LiveRoutesOptions,
): void {
  const { sessions, clock } = ports;
  const needs = { permission: 'server.read', section: 'servers' } as const;

  door.get('/live', needs, async ({ person, organization }, request, reply) => {
    const { id: sessionId, userId } = person.session;
    // What the door asked, asked again; but `use` would keep a session alive for as long as a page is open.
    const isAllowed = async () => {
      const mine = await sessions.list(userId, clock.now());
      if (!mine.some(({ id }) => id === sessionId)) return false;
      const membership = await membershipOf(person, organization, ports);
      return membership?.isProved === true && mayDo(membership.role, needs.permission);
    };
    const server = queryText(request, 'server');
    const topic = { sessionId, userId, organization, server, isAllowed };
    const isOpen = await streams.open(topic, () => {
      reply.hijack();
      return reply.raw;
    });
    return isOpen ? reply : reply.code(503).send();
  });

  app.addHook('preClose', async () => streams.close());
}
