import type { Crumb } from '#pages/dashboard-frame';
import { serverPath } from './server-tabs.ts';

/** The breadcrumb of a page of a server: the server, and what follows it. */
export function serverCrumbs(
  organization: string,
  server: string,
  ...more: readonly Crumb[]
): readonly Crumb[] {
  return [{ text: server, href: serverPath(organization, server) }, ...more];
}
