import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';

/** The sources for the address of the session bus on Linux. */
export interface SessionBusHost {
  readonly env: NodeJS.ProcessEnv;
  readonly parentPid: number;
  readonly userId: number;
  readonly exists: (path: string) => boolean;
  /** The text of a file; `undefined` if it cannot be read. */
  readonly readText: (path: string) => string | undefined;
}

const mostAncestors = 16;

/**
 * The D-Bus address of the keyring's session, for a process whose environment does not contain it. The MCP SDKs pass only six
 * variables to the servers that they start; the assistant or one of its parent processes has the address. Otherwise, this is
 * the user bus of systemd.
 *
 * D-Bus specification, "Well-known Message Bus Instances"
 */
export function sessionBusAddress(host: SessionBusHost): string | undefined {
  const { env, userId, exists } = host;
  if (env['DBUS_SESSION_BUS_ADDRESS']) return env['DBUS_SESSION_BUS_ADDRESS'];
  const sockets = [env['XDG_RUNTIME_DIR'], `/run/user/${userId}`]
    .filter((folder) => folder !== undefined)
    .map((folder) => `${folder}/bus`);
  const socket = sockets.find(exists);
  return inherited(host) ?? (socket && `unix:path=${socket}`);
}

/** The address in the environment of the nearest ancestor that has one. */
function inherited({ parentPid, readText }: SessionBusHost): string | undefined {
  let pid = parentPid;
  for (let generation = 0; generation < mostAncestors && pid > 1; generation++) {
    const environment = readText(`/proc/${pid}/environ`)?.split('\0') ?? [];
    const found = environment.find((entry) => entry.startsWith('DBUS_SESSION_BUS_ADDRESS='));
    if (found) return found.slice(found.indexOf('=') + 1);
    // The program's name is in parentheses and may contain any character, so the fields begin after the last parenthesis.
    const status = readText(`/proc/${pid}/stat`) ?? '';
    pid = Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
  }
  return undefined;
}

/** Puts the address of the session bus into the environment, where the keychain's library looks for it. */
export function findSessionBus({
  env,
  parentPid,
}: Pick<SessionBusHost, 'env' | 'parentPid'>): void {
  const readable = (path: string) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined; // The file belongs to another user, or is gone.
    }
  };
  const userId = userInfo().uid;
  const address = sessionBusAddress({
    env,
    parentPid,
    userId,
    exists: existsSync,
    readText: readable,
  });
  if (address) env['DBUS_SESSION_BUS_ADDRESS'] = address;
}
