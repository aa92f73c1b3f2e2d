import { listUsableServers } from '#db/server-access';
import { storedSentence } from '#model/call-contents';
import { displayName, html, type Html } from '#web/html';
import { badge, dashboardPath, layout, pageHeading, type Frame } from '#web/layout';
import { titleMarkup, titleText } from '#web/titles';
import { activityPath } from './calls.ts';
import type { DashboardVisit } from './guard.ts';
import { healthOfAll, serverBadge } from './health.ts';
import type { DashboardPorts } from './ports.ts';
import { applicationsOf, serverPath } from './servers.ts';

const mostOwnServers = 100;

/** The servers that the person may use, each with its status. */
export async function ownServers(
  { organization, titled, person }: DashboardVisit,
  ports: DashboardPorts,
) {
  const servers = await listUsableServers(ports.db, person.user.id, organization, mostOwnServers);
  const health = await healthOfAll(servers, ports);
  const applications = await applicationsOf(person.user.id, ports.clock.now(), ports);
  return {
    own: `${dashboardPath(organization)}/applications`,
    servers: servers.map((server) => {
      const status = health.get(server.id);
      return {
        server,
        href: serverPath(organization, server.name),
        status: status && serverBadge(status),
        applications: applications.get(`${organization}/${server.name}`),
        stored: storedSentence(titleText(titled), server.contents),
        activity: activityPath(organization, { endpoint: server.id }),
      };
    }),
  };
}

type YourServersPageData = Awaited<ReturnType<typeof ownServers>>;

/** The start page of a person who administers nothing: a card for each server that they may use. */
export function yourServersPage({ servers, own }: YourServersPageData, frame: Frame): Html {
  const heading = 'Your servers';
  const lead =
    servers.length === 0
      ? 'You cannot use any server yet. Ask an administrator of the organization for access.'
      : 'Connect your AI assistant to a server to use its tools.';
  const content = html`${pageHeading({ heading, lead })}
<ul class="cards" id="servers" data-row>
${servers.map(
  ({ server, href, status, applications, stored, activity }) => html`<li class="card">
<div class="card-head">
<h2>${titleMarkup(server)}</h2>
${status && badge(status)}
</div>
${server.description && html`<p class="soft" dir="auto">${displayName(server.description, 240)}</p>`}
<p class="soft" dir="auto">${applications === undefined ? 'You do not use it yet.' : `You use it with ${applications}.`}</p>
${stored !== undefined && html`<p class="soft" dir="auto">${stored}</p>`}
<p><a class="button" href="${href}#connect-heading" aria-label="Connect to ${titleText(server)}">Connect</a> ${applications !== undefined && html`<a href="${activity}" aria-label="Your calls to ${titleText(server)}">Your calls</a>`}</p>
</li>`,
)}
</ul>
<p><a href="${own}">Applications that act for you here</a></p>`;
  return layout({ title: heading, width: 'table' }, frame, content);
}
