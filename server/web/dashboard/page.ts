import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { ExportFormat } from '#audit/export-audit';
import type { EpochSeconds } from '#model/clock';
import { pageAssets } from '#web/assets';
import type { Crumb, Link, Page } from '#web/layout';
import type { SurroundingsOf } from '#web/page-errors';
import { sendPage } from '#web/page-request';
import { currentMemberOf, type CurrentPersonPorts } from '#web/page-session';
import {
  type DashboardVisit,
  membershipOf,
  type MembershipPorts,
  type NavigationOf,
} from './guard.ts';

/** The options that differ between pages of the dashboard. */
export interface DashboardPageOptions {
  /** The breadcrumb after the organization; the last entry is the page itself. */
  readonly crumbs: readonly Crumb[];
  /** As in `PageOptions`. */
  readonly status?: number | undefined;
  /** The stream that announces changes to the live parts of the page; see `live.ts`. */
  readonly live?: string | undefined;
}

/** Sends a page in the dashboard's layout. */
export function sendDashboardPage<Data extends object>(
  reply: FastifyReply,
  { person, titled, others, mayCreate, navigation }: DashboardVisit,
  page: Page<Data>,
  data: Data,
  { crumbs, status, live }: DashboardPageOptions,
): FastifyReply {
  return sendPage(reply, page, data, {
    person,
    status,
    scripts: dashboardScripts(),
    live,
    dashboard: { organization: titled, others, mayCreate, navigation, crumbs },
  });
}

/** A file that is written while it is sent. */
interface ExportedFile {
  /** The name of the file, to which the day and the format are added. */
  readonly name: string;
  readonly format: ExportFormat;
  readonly now: EpochSeconds;
  /** Yields the text. Stops when the signal aborts, because the reader disconnected. Absent for a request for the headers alone. */
  readonly pieces?: (signal: AbortSignal) => AsyncIterable<string>;
}

/** Sends a file for download. */
export function sendExport(
  reply: FastifyReply,
  { name, format, now, pieces }: ExportedFile,
): FastifyReply {
  const day = new Date(now * 1000).toISOString().slice(0, 10);
  const type = format === 'csv' ? 'text/csv' : 'application/jsonl';
  const reading = new AbortController();
  reply.raw.once('close', () => reading.abort());
  return reply
    .headers(fileHeaders(`${name}-${day}.${format}`, type))
    .send(pieces ? Readable.from(pieces(reading.signal)) : '');
}

/** The headers of a text that is downloaded as a file. */
export function fileHeaders(fileName: string, type: string) {
  return {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Disposition': `attachment; filename="${fileName}"`,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  };
}

/** Links to the same file in each format. */
export function exportLinks(hrefOf: (format: ExportFormat) => string): readonly Link[] {
  return [
    { text: 'Export as CSV', href: hrefOf('csv') },
    { text: 'Export as JSON lines', href: hrefOf('jsonl') },
  ];
}

/** Paths of the ES modules behind every page of the dashboard. */
export function dashboardScripts(): readonly string[] {
  const { htmx, copy, dashboard } = pageAssets();
  return [htmx.path, copy.path, dashboard.path];
}

/**
 * The surroundings of a dashboard error page: for members of the organization in the path, its navigation; for others
 * nothing, so that the response does not reveal whether the organization exists.
 */
export function errorSurroundings(
  base: string,
  navigationOf: NavigationOf,
  ports: CurrentPersonPorts & MembershipPorts,
): SurroundingsOf {
  const currentPerson = currentMemberOf(base, ports);
  return async (request) => {
    const organization = organizationIn(request.url);
    const person = await currentPerson(request);
    if (!person || organization === undefined) return undefined;
    const membership = await membershipOf(person, organization, ports);
    if (!membership || membership.missing) return undefined;
    const { titled, role, others, mayCreate } = membership;
    const navigation = navigationOf(request.routeOptions.url, organization, role);
    return {
      person,
      scripts: dashboardScripts(),
      dashboard: { organization: titled, others, mayCreate, navigation, crumbs: [] },
    };
  };
}

/** `acme` of `/dashboard/acme/servers`. */
function organizationIn(url: string): string | undefined {
  return /^\/dashboard\/([^/?]+)/.exec(url)?.[1];
}
