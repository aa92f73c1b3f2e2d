import { createHash } from 'node:crypto';
import { z } from 'zod';

import type { ServerRecord } from '#organizations/server-record';
import type { AdministrationPorts } from './administration-ports.ts';
import { changeServer } from './change-server.ts';
import { checkedInput } from './checked-input.ts';
import { settingsChange } from './server-change.ts';
import { serverSettingFields } from './server-setting-fields.ts';
import { serverTarget, showLimits } from './shown-server.ts';

/** How a server presents itself, as who calls it may see and, allowed to, change it. */
export interface ServerSettings {
  readonly title: string;
  readonly description: string;
  readonly instructions: string;
  readonly hiddenTools: readonly string[];
  readonly limits: ReturnType<typeof showLimits>;
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
  const limits = showLimits(server.limits);
  const settings = { title, description, instructions, hiddenTools, limits };
  const version = createHash('sha256').update(JSON.stringify(settings)).digest('base64url');
  return { settings, version: version.slice(0, 22) };
}

/**
 * Changes settings of a server and writes it down, in one transaction; what is not given stays. `isExpected` says of the
 * version that would be changed whether it may be; no other version is, whoever else changes it at the same time.
 *
 * @returns `undefined` when it may not
 * @throws {AdministrationRefusal} `invalid` naming each field, `not_found`
 */
export async function changeServerSettings(
  { organization, name }: ServerRecord,
  given: object,
  isExpected: (version: string) => boolean,
  by: SettingsCaller,
  { together, clock }: Pick<AdministrationPorts, 'together' | 'clock'>,
): Promise<ServerRecord | undefined> {
  const data = checkedInput(changeSchema, given);
  const stale = new Error('another version');
  const change = (now: ServerRecord) => {
    if (!isExpected(serverSettings(now).version)) throw stale;
    return settingsChange(now, data);
  };
  try {
    return await together(async (stores) => {
      const changed = await changeServer({ organization, server: name }, change, stores);
      await stores.audit.append({
        actor: by.name,
        organization,
        action: 'server.update',
        target: serverTarget({ organization, server: name }),
        address: by.address,
        requestId: by.requestId,
        at: clock.now(),
        outcome: 'done',
      });
      return changed;
    });
  } catch (error) {
    if (error === stale) return undefined;
    throw error;
  }
}
