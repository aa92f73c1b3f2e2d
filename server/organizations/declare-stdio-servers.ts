import { randomBytes } from 'node:crypto';

import type { Clock } from '#clock/clock';
import type { OrganizationStore } from './organization-store.ts';
import type { ServerDirectory } from './server-directory.ts';
import { parseServerPath } from './slug.ts';

export interface DeclareStdioServersPorts {
  readonly organizations: OrganizationStore;
  readonly serverDirectory: Pick<ServerDirectory, 'update'>;
  readonly clock: Clock;
}

/**
 * Makes the servers whose commands the operator configured, and sends the calls of those that are there to
 * their command. Nobody else can: such an upstream is no choice in the dashboard, the API or a command.
 *
 * @returns the paths of those that were made or changed
 * @throws {Error} when there is no such organization
 */
export async function declareStdioServers(
  paths: Iterable<string>,
  { organizations, serverDirectory, clock }: DeclareStdioServersPorts,
): Promise<string[]> {
  const changed: string[] = [];
  for (const path of paths) {
    const at = parseServerPath(path);
    const owner = at && (await organizations.byName(at.organization));
    if (!at || !owner) {
      throw new Error(
        `--stdio-servers names ${path}, and there is no such organization: latchkey-server organization create ${at?.organization ?? 'ORG'}`,
      );
    }
    const known = await organizations.serverByName(at.organization, at.server);
    if (known?.upstream.kind === 'stdio') continue;
    const upstream = { kind: 'stdio' } as const;
    if (known) await serverDirectory.update(known.id, { upstream });
    else {
      const id = `server_${randomBytes(12).toString('hex')}`;
      const made = { id, organizationId: owner.id, name: at.server, upstream };
      await organizations.addServer({ ...made, createdAt: clock.now() });
    }
    changed.push(path);
  }
  return changed;
}
