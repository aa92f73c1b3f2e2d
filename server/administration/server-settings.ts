import { createHash } from 'node:crypto';
import { z } from 'zod';

import type { ServerSettings } from '#organizations/server-directory';
import type { ServerRecord } from '#organizations/server-record';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal } from './administration-refusal.ts';
import { invalidInput } from './invalid-input.ts';
import { serverSettingFields } from './server-setting-fields.ts';
import { ownServer } from './shown-server.ts';

/** A caller of a server's endpoint who was let in there. */
export interface SettingsCaller {
  /** `key:…`, `client:…` */
  readonly name: string;
  readonly address: string | undefined;
  readonly requestId: string | undefined;
}

const changeSchema = z.strictObject(serverSettingFields);

/** A server's settings, and a version that is another after each change. */
export function serverSettings(server: ServerRecord): {
  readonly settings: ServerSettings;
  readonly version: string;
} {
  const { title = '', description = '', instructions = '', hiddenTools } = server;
  const settings = { title, description, instructions, hiddenTools };
  const version = createHash('sha256').update(JSON.stringify(settings)).digest('base64url');
  return { settings, version: version.slice(0, 22) };
}

/**
 * Changes settings of a server and writes it down; what is not given stays. Only a server that still is as it was
 * read: somebody else, of another process too, may have changed it since.
 *
 * @throws {AdministrationRefusal} `invalid` naming each field, `conflict`, `not_found`
 */
export async function changeServerSettings(
  server: ServerRecord,
  given: object,
  by: SettingsCaller,
  ports: Pick<AdministrationPorts, 'serverDirectory' | 'organizations' | 'audit' | 'clock'>,
): Promise<ServerRecord> {
  const { success, data, error } = changeSchema.safeParse(given);
  if (!success) throw invalidInput(error);
  const { organization, name, id } = server;
  const { title, description, instructions, hiddenTools } = data;
  const change = {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hiddenTools }),
  };
  if (!(await ports.serverDirectory.update(id, change, serverSettings(server).settings))) {
    await ownServer(organization, name, ports);
    const why = 'the settings have changed since: read them again';
    throw new AdministrationRefusal('conflict', why);
  }
  await ports.audit.append({
    actor: by.name,
    organization,
    action: 'server.update',
    target: `server:${organization}/${name}`,
    address: by.address,
    requestId: by.requestId,
    at: ports.clock.now(),
    outcome: 'done',
  });
  return ownServer(organization, name, ports);
}
