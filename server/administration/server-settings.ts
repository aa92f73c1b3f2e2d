import { createHash } from 'node:crypto';
import { z } from 'zod';

import type { ServerRecord } from '#organizations/server-record';
import type { AdministrationPorts } from './administration-ports.ts';
import { invalidInput } from './invalid-input.ts';
import { serverSettingFields } from './server-setting-fields.ts';
import { ownServer } from './shown-server.ts';

/** How a server presents itself, as who calls it may see and, allowed to, change it. */
export interface ServerSettings {
  readonly title: string;
  readonly description: string;
  readonly instructions: string;
  readonly hiddenTools: readonly string[];
}

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
 * Changes settings of a server and writes it down; what is not given stays.
 *
 * @throws {AdministrationRefusal} `invalid` naming each field, `not_found`
 */
export async function changeServerSettings(
  { organization, name, id }: ServerRecord,
  given: object,
  by: SettingsCaller,
  ports: Pick<AdministrationPorts, 'serverDirectory' | 'organizations' | 'audit' | 'clock'>,
): Promise<ServerRecord> {
  const { success, data, error } = changeSchema.safeParse(given);
  if (!success) throw invalidInput(error);
  const { title, description, instructions, hiddenTools } = data;
  await ports.serverDirectory.update(id, {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hiddenTools }),
  });
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
