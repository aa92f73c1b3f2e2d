import type { FastifyInstance } from 'fastify';

import { notFound } from '#administration/administration-refusal';
import { pageErrors } from '#http/page-errors';
import { takeForms } from '#http/page-form';
import { agentListRoutes } from './agent-list-routes.ts';
import { agentRoutes } from './agent-routes.ts';
import { agentKeyRoutes } from './agent-key-routes.ts';
import { clientFormRoutes } from './client-form-routes.ts';
import { clientListRoutes } from './client-list-routes.ts';
import { clientRoutes } from './client-routes.ts';
import { clientSecretRoutes } from './client-secret-routes.ts';
import { dashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyListRoutes } from './key-list-routes.ts';
import { keyRoutes } from './key-routes.ts';
import { keyPageRoutes } from './key-page-routes.ts';
import { keyRotationRoutes } from './key-rotation-routes.ts';
import { auditRoutes } from './audit-routes.ts';
import { consentListRoutes } from './consent-list-routes.ts';
import { errorSurroundings } from './error-surroundings.ts';
import { groupRoutes } from './group-routes.ts';
import { inviteRoutes } from './invite-routes.ts';
import { liveRoutes } from './live-routes.ts';
import { LiveStreams } from './live-streams.ts';
import { newServerRoutes } from './new-server-routes.ts';
import { organizationRoutes } from './organization-routes.ts';
import { peopleRoutes } from './people-routes.ts';
import { personRoutes } from './person-routes.ts';
import { serverAccessRoutes } from './server-access-routes.ts';
import { serverListRoutes } from './server-list-routes.ts';
import { serverRoutes } from './server-routes.ts';
import { serverSettingsRoutes } from './server-settings-routes.ts';
import { ownConnectionRoutes } from './own-connection-routes.ts';
import { overviewRoutes } from './overview-routes.ts';
import { tokenRoutes } from './token-routes.ts';
import { toolRoutes } from './tool-routes.ts';
import { tryRoutes } from './try-routes.ts';
import { upstreamAccessRoutes } from './upstream-access-routes.ts';
import { usageRoutes } from './usage-routes.ts';
import { settingsRoutes } from './settings-routes.ts';
import { webhookListRoutes } from './webhook-list-routes.ts';
import { webhookRoutes } from './webhook-routes.ts';

const maxFormBytes = 128 * 1024;

/** The dashboard: every page by which people look after what is theirs. */
export function dashboardRoutes(app: FastifyInstance, options: DashboardOptions): void {
  const { base, ports } = options;
  takeForms(app, maxFormBytes);
  const door = dashboardDoor(app, options);
  app.setErrorHandler(pageErrors(base, ports, errorSurroundings(base, door.sectionOf, ports)));
  const streams = new LiveStreams({
    changes: ports.changes,
    clock: ports.clock,
    failed: (err) => app.log.error({ err }, 'live pages not told'),
  });
  organizationRoutes(app, options);
  tokenRoutes(app, options);
  serverListRoutes(door, options);
  newServerRoutes(door, options);
  serverRoutes(door, options);
  serverSettingsRoutes(door, options);
  clientListRoutes(door, options);
  clientFormRoutes(door, options);
  clientRoutes(door, options);
  clientSecretRoutes(door, options);
  keyListRoutes(door, options);
  keyRoutes(door, options);
  keyPageRoutes(door, options);
  keyRotationRoutes(door, options);
  agentListRoutes(door, options);
  agentRoutes(door, options);
  agentKeyRoutes(door, options);
  overviewRoutes(door, options);
  usageRoutes(door, options);
  tryRoutes(door, options);
  toolRoutes(door, options);
  serverAccessRoutes(door, options);
  upstreamAccessRoutes(door, options);
  ownConnectionRoutes(door, options);
  peopleRoutes(door, options);
  inviteRoutes(door, options);
  personRoutes(door, options);
  groupRoutes(door, options);
  consentListRoutes(door, options);
  settingsRoutes(door, options);
  webhookListRoutes(door, options);
  webhookRoutes(door, options);
  auditRoutes(door, options);
  liveRoutes(app, door, { ports, streams });
  app.get('/dashboard/*', async () => {
    throw notFound('page');
  });
}
