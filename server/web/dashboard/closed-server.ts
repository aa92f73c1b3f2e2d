// The notice for people who are in none of the groups that a server is restricted to.

import type { FastifyReply } from 'fastify';
import { findOrganization } from '#db/organizations';
import { catalogueOf } from '#oauth/catalogue';
import { html, type Html } from '#web/html';
import { type Frame, layout, type Link, pageHeading, tabNavigation, type Tabs } from '#web/layout';
import { type Titled, titleText } from '#web/titles';
import type { DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { serverCrumbs, serverPath, type ServerTab, serverTabs } from './server-tabs.ts';

/** The next step of a person who cannot use a server. */
export interface Exclusion {
  readonly next: string | undefined;
  readonly link: Link | undefined;
}

/** What a person can do about a server that is closed to them; `undefined` if it is not. */
export async function exclusionOf(
  { person, organization, server, may }: DashboardVisit,
  ports: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<Exclusion | undefined> {
  if (!server.isClosed) return undefined;
  const home = serverPath(organization, server.name);
  if (may('server.manage')) {
    return { next: undefined, link: { text: 'View access', href: `${home}/access` } };
  }
  const found = await findOrganization(ports.db, organization);
  const listed = found && (await catalogueOf(person.user.id, found, ports));
  const askable = listed?.askable.find(({ name }) => name === server.name);
  if (!askable) return { next: 'Ask an administrator.', link: undefined };
  if (askable.request?.status !== 'open') {
    return { next: undefined, link: { text: 'Ask for access', href: `${home}/ask` } };
  }
  return {
    next: 'You asked for access. The answer appears under Your servers.',
    link: { text: 'Withdraw request', href: `${home}/ask/withdraw` },
  };
}

export function exclusionNotice({ next, link }: Exclusion, what = 'this server'): Html {
  return html`<div class="notice warning">
<p>You cannot use ${what}: it is restricted to groups that you are not in.${next && ` ${next}`}</p>
${link && html`<p><a class="button" href="${link.href}">${link.text}</a></p>`}
</div>`;
}

/** Sends the notice instead of a page of a server that is closed to the person. */
export async function sendExclusion(
  visit: DashboardVisit,
  reply: FastifyReply,
  tab: ServerTab,
  ports: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<FastifyReply> {
  const { server: heading } = visit;
  const tabs = serverTabs(visit, heading.name, tab);
  const isAboutTools = tab === 'tools' || tab === 'try';
  const data = {
    heading,
    tabs,
    what: isAboutTools ? 'any tool of this server' : 'this server',
    exclusion: await exclusionOf(visit, ports),
  };
  return sendDashboardPage(reply, visit, exclusionPage, data, { crumbs: serverCrumbs(visit) });
}

interface ExclusionPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  /** What the person cannot use. */
  readonly what: string;
  readonly exclusion: Exclusion | undefined;
}

function exclusionPage({ heading, tabs, what, exclusion }: ExclusionPageData, frame: Frame): Html {
  const content = html`${pageHeading({ heading })}
${tabNavigation(tabs)}
${exclusion && exclusionNotice(exclusion, what)}`;
  return layout({ title: titleText(heading), width: 'table' }, frame, content);
}
