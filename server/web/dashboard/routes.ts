import { takeRawBodies } from '#http/body';
import type { FastifyInstance } from 'fastify';
import { notFound } from '#admin/refusal';
import { pageErrors } from '#web/page-errors';

import { personGuard } from '#web/page-session';
import { agentKeyRoutes } from './agent-keys.ts';
import { agentRoutes } from './agents.ts';
import { auditRoutes } from './audit.ts';
import { clientFormRoutes } from './client-form.ts';
import { clientSecretRoutes } from './client-secrets.ts';
import { clientRoutes } from './clients.ts';
import { consentRoutes } from './consents.ts';
import { groupRoutes } from './groups.ts';
import { dashboardGuard } from './guard.ts';
import { invitationRoutes } from './invitations.ts';
import { keyRoutes } from './keys.ts';
import { liveRoutes, LiveStreams } from './live.ts';
import { nodeRoutes } from './nodes.ts';
import { organizationRoutes, settingsRoutes } from './organizations.ts';
import { overviewRoutes } from './overview.ts';
import { ownConnectionRoutes } from './own-connection.ts';
import { errorSurroundings } from './page.ts';
import { peopleRoutes } from './people.ts';
import type { DashboardOptions } from './ports.ts';
import { serverAccessRoutes } from './server-access.ts';
import { serverSettingsRoutes } from './server-settings.ts';
import { serverRoutes } from './servers.ts';
import { singleSignOnRoutes } from './single-sign-on.ts';
import { tokenRoutes } from './tokens.ts';
import { toolRoutes } from './tools.ts';
import { tryRoutes } from './try.ts';
import { upstreamAccessRoutes } from './upstream-access.ts';
import { usageRoutes } from './usage.ts';
import { webhookRoutes } from './webhooks.ts';

/** The pages of an organization. */
const guardedRoutes = [
  overviewRoutes,
  serverRoutes,
  serverSettingsRoutes,
  serverAccessRoutes,
  clientRoutes,
  clientFormRoutes,
  clientSecretRoutes,
  keyRoutes,
  tryRoutes,
  toolRoutes,
  upstreamAccessRoutes,
  ownConnectionRoutes,
  agentRoutes,
  agentKeyRoutes,
  peopleRoutes,
  invitationRoutes,
  consentRoutes,
  groupRoutes,
  usageRoutes,
  auditRoutes,
  singleSignOnRoutes,
  settingsRoutes,
  webhookRoutes,
];

const maxFormBytes = 128 * 1024;

/** The dashboard: every page by which people manage an organization. */
export function dashboardRoutes(app: FastifyInstance, options: DashboardOptions): void {
  const { base, ports } = options;
  takeRawBodies(app, maxFormBytes);
  const forPerson = personGuard(app, ports, options);
  const guard = dashboardGuard(forPerson, options);
  app.setErrorHandler(pageErrors(base, ports, errorSurroundings(base, guard.sectionOf, ports)));
  const streams = new LiveStreams({
    changes: ports.changes,
    clock: ports.clock,
    failed: (err) => app.log.error({ err }, 'live pages not notified'),
  });
  organizationRoutes(forPerson);
  nodeRoutes(forPerson, options, streams);
  tokenRoutes(forPerson);
  for (const routes of guardedRoutes) routes(guard, options);
  liveRoutes(app, guard, streams);
  app.get('/dashboard/*', async () => {
    throw notFound('page');
  });
}
