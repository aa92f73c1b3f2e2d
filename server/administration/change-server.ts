import type { ServerChange } from '#organizations/server-directory';
import type { ServerRecord } from '#organizations/server-record';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal } from './administration-refusal.ts';
import { ownServer } from './shown-server.ts';

const mostTries = 20;

/**
 * Changes a server by what `change` makes of it as it is now, and gives it as it is then. Whatever it was made
 * from is still there when it is written: where somebody else was quicker, `change` is asked again.
 *
 * @throws {AdministrationRefusal} `not_found`, `conflict`, and whatever `change` throws
 */
export async function changeServer(
  at: { readonly organization: string; readonly server: string },
  change: (now: ServerRecord) => ServerChange,
  ports: Pick<AdministrationPorts, 'serverDirectory' | 'organizations'>,
): Promise<ServerRecord> {
  for (let tries = 0; tries < mostTries; tries++) {
    const now = await ownServer(at.organization, at.server, ports);
    const isDone = await ports.serverDirectory.update(now.id, change(now), now.revision);
    if (isDone) return ownServer(at.organization, at.server, ports);
  }
  throw new AdministrationRefusal('conflict', 'others change this server just now: try again');
}

/** @throws {AdministrationRefusal} `conflict` when the server is not at the revision that somebody read, where they say which */
export function checkRevision(now: ServerRecord, read: number | undefined): void {
  if (read === undefined || read === now.revision) return;
  const why = 'the server was changed meanwhile: read it again, then change it';
  throw new AdministrationRefusal('conflict', why);
}
