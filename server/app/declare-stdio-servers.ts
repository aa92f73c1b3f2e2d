import { randomBytes } from 'node:crypto';

import { insertAuditEvent } from '#db/audit';
import { findOrganization, insertOrganization } from '#db/organizations';
import { findServer, insertServer, updateServer } from '#db/servers';
import { type Db, transaction } from '#db/transaction';
import type { Clock } from '#model/clock';
import { parseServerPath } from '#model/slug';
import { newTargetId } from '#secrets/secrets';

export interface DeclareStdioServersPorts {
  readonly db: Db;
  readonly clock: Clock;
  /** The organization of the demo, which this start creates; `undefined` without a demo. */
  readonly demo: string | undefined;
}

/**
 * Creates the servers whose commands the operator configured, and updates existing ones. The configuration is the
 * only way to set a command: dashboard, API and command line cannot. At the first start with the demo, its organization
 * does not exist yet, and is created.
 *
 * @returns the paths of the servers that were created or changed
 * @throws {Error} if an organization does not exist
 */
export async function declareStdioServers(
  paths: Iterable<string>,
  { db, clock, demo }: DeclareStdioServersPorts,
): Promise<string[]> {
  const changed: string[] = [];
  for (const path of paths) {
    const at = parseServerPath(path);
    if (demo !== undefined && at?.organization === demo) await createOrganization(demo, db, clock);
    const owner = at && (await findOrganization(db, at.organization));
    if (!at || !owner) {
      throw new Error(
        `--stdio-servers names ${path}, but the organization does not exist: latchkey-server organization create ${at?.organization ?? 'ORG'}`,
      );
    }
    const known = await findServer(db, at.organization, at.server);
    if (known?.target.upstream.kind === 'stdio') continue;
    const upstream = { kind: 'stdio' } as const;
    if (known) await updateServer(db, known.id, { upstream });
    else {
      const id = `server_${randomBytes(12).toString('hex')}`;
      const targetId = newTargetId();
      const made = { id, targetId, organizationId: owner.id, name: at.server, upstream };
      await insertServer(db, { ...made, createdAt: clock.now() });
    }
    changed.push(path);
  }
  return changed;
}

async function createOrganization(name: string, db: Db, clock: Clock): Promise<void> {
  const id = `org_${randomBytes(12).toString('hex')}`;
  await transaction(db, async (tx) => {
    if (!(await insertOrganization(tx, { id, name, createdAt: clock.now() }))) return;
    await insertAuditEvent(tx, {
      at: clock.now(),
      actor: 'operator',
      organization: name,
      action: 'organization.create',
      target: `organization:${name}`,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
  });
}
