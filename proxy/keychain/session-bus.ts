import type { Host } from '#host';

/** What tells where the session bus of a Linux host is. */
export interface SessionBusHost extends Pick<Host, 'env' | 'parentPid'> {
  readonly userId: number;
  readonly exists: (path: string) => boolean;
  /** A file's text; `undefined` when it cannot be read. */
  readonly readText: (path: string) => string | undefined;
}

const mostAncestors = 16;

/**
 * The D-Bus address of the keyring's session, for a process whose own environment does not say. MCP's
 * SDKs hand a server they start six variables, and this is none of them; the assistant itself, or who
 * started it, has it. Without either, systemd's user bus.
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
    // The name of a program stands in parentheses and may hold any character, so look behind the last.
    const status = readText(`/proc/${pid}/stat`) ?? '';
    pid = Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
  }
  return undefined;
}
