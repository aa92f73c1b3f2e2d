import type { FastifyReply } from 'fastify';

import { sendPage } from '#http/send-page';
import type { Crumb } from '#pages/dashboard-frame';
import type { Page } from '#pages/page';
import { closedSections } from './closed-sections.ts';
import type { DashboardVisit } from './dashboard-door.ts';
import { dashboardScripts } from './dashboard-scripts.ts';

/** What differs between pages of the dashboard. */
export interface DashboardPageOptions {
  /** What follows the organization in the breadcrumb; the last one is the page itself. */
  readonly crumbs: readonly Crumb[];
  /** 200 unless given. */
  readonly status?: number;
  /** The stream that says when the page's live parts changed; see `live-routes.ts`. */
  readonly live?: string | undefined;
}

/** Answers with a page in the dashboard's shell. */
export function sendDashboardPage<Data extends object>(
  reply: FastifyReply,
  { person, organization, role, others, section }: DashboardVisit,
  page: Page<Data>,
  data: Data,
  { crumbs, status = 200, live }: DashboardPageOptions,
): FastifyReply {
  return sendPage(reply, page, data, {
    person,
    status,
    scripts: dashboardScripts(),
    dashboard: { organization, others, section, closed: closedSections(role), crumbs, live },
  });
}
