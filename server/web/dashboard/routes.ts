import { takeRawBodies } from '#http/body';
import type { FastifyInstance } from 'fastify';
import { notFound } from '#admin/refusal';
import { pageErrors } from '#web/page-errors';

import { memberGuard, personGuard } from '#web/page-session';
import { accessRequestRoutes } from './access-requests.ts';
import { activityRoutes, liveCallRoutes } from './activity.ts';
import { agentKeyRoutes } from './agent-keys.ts';
import { agentRoutes } from './agents.ts';
import { askAccessRoutes } from './ask-access.ts';
import { auditRoutes } from './audit.ts';
import { clientFormRoutes } from './client-form.ts';
import { clientSecretRoutes } from './client-secrets.ts';
import { clientRoutes } from './clients.ts';
import { collectionRoutes } from './collections.ts';
import { consentRoutes } from './consents.ts';
import { deployRoutes } from './deploy.ts';
import { deployServerRoutes } from './deploy-server.ts';
import { deviceRoutes, personDeviceRoutes } from './device-sign-out.ts';
import { groupRoutes } from './groups.ts';
import { dashboardGuards, type NavigationEntry } from './guard.ts';
import { invitationRoutes } from './invitations.ts';
import { inviteSeveralRoutes } from './invite-several.ts';
import { keyToolRoutes } from './key-tools.ts';
import { keyRoutes } from './keys.ts';
import { mailRoutes } from './mail.ts';
import { liveRoutes, LiveStreams } from './live.ts';
import { nodeRoutes } from './nodes.ts';
import { noticeRoutes } from './notices.ts';
import { organizationClientRoutes } from './organization-clients.ts';
import { organizationRoutes, settingsRoutes } from './organizations.ts';
import { overviewRoutes } from './overview.ts';
import { ownApplicationToolRoutes } from './own-application-tools.ts';
import { ownApplicationRoutes } from './own-applications.ts';
import { ownConnectionRoutes } from './own-connection.ts';
import { errorSurroundings } from './page.ts';
import { outboundRoutes } from './outbound.ts';
import { ownerlessRoutes } from './ownerless.ts';
import { offboardingRoutes } from './offboarding.ts';
import { peopleRoutes } from './people.ts';
import { personRoutes } from './person.ts';
import type { DashboardOptions } from './ports.ts';
import { provisioningRoutes } from './provisioning.ts';
import { searchRoutes } from './search.ts';
import { serverAccessRoutes } from './server-access.ts';
import { serverSettingsRoutes } from './server-settings.ts';
import { serverRoutes } from './servers.ts';
import { signInSettingsRoutes } from './sign-in-settings.ts';
import { singleSignOnRoutes } from './single-sign-on.ts';
import { tokenRoutes } from './tokens.ts';
import { toolAccessRoutes } from './tool-access.ts';
import { toolCheckRoutes } from './tool-check.ts';
import { toolReviewRoutes } from './tool-review.ts';
import { toolPageRoutes } from './tool.ts';
import { toolRoutes } from './tools.ts';
import { tryRoutes } from './try.ts';
import { upstreamAccessRoutes } from './upstream-access.ts';
import { usageRoutes } from './usage.ts';
import { webhookRoutes } from './webhooks.ts';
import { yourServersRoutes } from './your-servers.ts';

/** The entries of an organization's navigation, in order, each with the routes of the pages that belong to it. */
export const navigation: readonly NavigationEntry[] = [
  { text: 'Overview', path: '', routes: [overviewRoutes] },
  {
    text: 'Servers',
    path: '/servers',
    routes: [
      serverRoutes,
      serverSettingsRoutes,
      serverAccessRoutes,
      collectionRoutes,
      clientRoutes,
      clientFormRoutes,
      clientSecretRoutes,
      keyRoutes,
      keyToolRoutes,
      tryRoutes,
      toolRoutes,
      toolAccessRoutes,
      toolReviewRoutes,
      toolPageRoutes,
      toolCheckRoutes,
      upstreamAccessRoutes,
      ownConnectionRoutes,
    ],
  },
  { text: 'Deploy', path: '/deploy', routes: [deployRoutes, deployServerRoutes] },
  { text: 'OAuth clients', path: '/clients', routes: [organizationClientRoutes] },
  { text: 'Agents', path: '/agents', routes: [agentRoutes, agentKeyRoutes] },
  {
    text: 'People',
    path: '/people',
    routes: [
      peopleRoutes,
      personRoutes,
      personDeviceRoutes,
      offboardingRoutes,
      invitationRoutes,
      inviteSeveralRoutes,
      consentRoutes,
      ownerlessRoutes,
      accessRequestRoutes,
    ],
  },
  { text: 'Groups', path: '/groups', routes: [groupRoutes] },
  { text: 'Usage', path: '/usage', routes: [usageRoutes] },
  { text: 'Activity', path: '/activity', routes: [activityRoutes] },
  {
    text: 'My applications',
    path: '/applications',
    routes: [
      ownApplicationRoutes,
      ownApplicationToolRoutes,
      deviceRoutes,
      yourServersRoutes,
      askAccessRoutes,
    ],
  },
  { text: 'Audit log', path: '/audit', routes: [auditRoutes] },
  {
    text: 'Sign-in',
    path: '/sign-in',
    routes: [signInSettingsRoutes, singleSignOnRoutes, provisioningRoutes],
  },
  {
    text: 'Settings',
    path: '/settings',
    routes: [settingsRoutes, webhookRoutes, mailRoutes, noticeRoutes],
  },
];

/** Enough for a percent-encoded list of a thousand people to invite. */
const maxFormBytes = 512 * 1024;

/** Registers all pages of the dashboard: those of organizations, nodes and personal tokens. */
export function dashboardRoutes(app: FastifyInstance, options: DashboardOptions): void {
  const { base, ports } = options;
  takeRawBodies(app, maxFormBytes);
  const forPerson = personGuard(app, ports, options);
  const forMember = memberGuard(app, ports, options);
  const { within, navigationOf } = dashboardGuards(forMember, navigation, options);
  app.setErrorHandler(pageErrors(base, ports, errorSurroundings(base, navigationOf, ports)));
  const streams = new LiveStreams({
    changes: ports.changes,
    clock: ports.clock,
    failed: (err) => app.log.error({ err }, 'live pages not notified'),
  });
  organizationRoutes(forMember, forPerson);
  nodeRoutes(forPerson, options, streams);
  outboundRoutes(forPerson);
  tokenRoutes(forPerson);
  for (const entry of navigation) {
    for (const routes of entry.routes) routes(within(entry), options);
  }
  searchRoutes(within(undefined));
  liveRoutes(app, within(undefined), streams);
  liveCallRoutes(within(undefined), streams);
  app.get('/dashboard/*', async () => {
    throw notFound('page');
  });
}
