import type { ServerRecord } from '#organizations/server-record';

/** The page of a server on which a person connects their account at its upstream. */
export function accountPath(server: Pick<ServerRecord, 'organization' | 'name'>): string {
  return `/dashboard/${server.organization}/servers/${server.name}/account`;
}
