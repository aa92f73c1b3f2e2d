import { setupCommand } from '#config/connection';
import { UsageError } from '#config/errors';
import type { DeviceListView, MyDevice } from '#connections/accounts-service';
import type { Connections } from '#connections/connections';
import { deviceListView } from '#connections/server-list-views';
import type { Command } from './command.ts';
import { connectionsOf } from './command-host.ts';
import { listsAt, noLists, signedOut } from './servers.ts';

/** `latchkey devices`. */
export const devicesCommand: Command = {
  name: 'devices',
  operands: '[URL]',
  summary: 'list the computers on which you are signed in, and sign one out',
  about: `Asks each Latchkey server that latchkey setup connected, or the one at URL, on which computers you use its servers. With
--sign-out, the access of Latchkey on that computer ends immediately, for example after you lost a laptop.`,
  flags: {
    'sign-out': { value: 'ID', doc: 'sign out the device with this id' },
    json: { doc: 'print one JSON object: {"lists":[{"url":…,"devices":[…]}]}' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir', 'proxy', 'ca-file'],
  examples: ['latchkey devices', 'latchkey devices --sign-out device_…'],
  async run({ operands: [url], flags, options: given }, host) {
    const connections = connectionsOf(host, given);
    const lists = await listsAt(url, connections);
    const [id] = flags.get('sign-out') ?? [];
    if (id !== undefined) {
      host.print(`signed out ${await signOut(id, lists, connections)}`);
      return 0;
    }
    const shown: DeviceListView[] = [];
    for (const list of lists) shown.push(await deviceListView(list, signedOut, connections));
    if (flags.has('json')) host.print(listsJson(shown));
    else if (lists.length === 0) for (const line of await noLists(connections)) host.advise(line);
    else for (const line of listLines(shown)) host.advise(line);
    return shown.some(({ problem }) => problem !== undefined) ? 1 : 0;
  },
};

/** Signs the device out at the server that knows it. Returns the name of the device. */
async function signOut(
  id: string,
  lists: readonly string[],
  connections: Connections,
): Promise<string> {
  for (const list of lists) {
    const device = (await connections.devices(list)).find((one) => one.id === id);
    if (device && (await connections.signOutDevice(list, id))) return device.name;
  }
  if (lists.length === 0)
    throw new UsageError(
      'no Latchkey server is known on this computer',
      'name its address: latchkey devices https://latchkey.example.com',
    );
  throw new UsageError(`you have no device ${id}`, 'latchkey devices lists them');
}

function listLines(lists: readonly DeviceListView[]): string[] {
  return lists.flatMap(({ url, devices, problem }) => {
    if (problem !== undefined) return [`${url}: ${problem}`, `  hint: ${setupCommand(url)}`];
    const width = Math.max(0, ...devices.map(({ name }) => name.length));
    return [
      url,
      ...devices.flatMap((device) => [
        `  ${device.name.padEnd(width)}  ${device.id}  ${deviceWords(device)}`,
      ]),
      ...(devices.length === 0 ? ['  no devices'] : []),
    ];
  });
}

function deviceWords({ system, isCurrent, assistants, servers, lastUsedAt }: MyDevice): string {
  const used = lastUsedAt === undefined ? 'never used' : `last used ${day(lastUsedAt)}`;
  const parts = [isCurrent ? 'this computer' : '', system, assistants.join(', ')];
  const count = servers.length === 1 ? '1 server' : `${servers.length} servers`;
  return [...parts.filter(Boolean), count, used].join(', ');
}

/** `2026-05-03`, in UTC. */
function day(at: number): string {
  return new Date(at * 1000).toISOString().slice(0, 10);
}

function listsJson(lists: readonly DeviceListView[]): string {
  return JSON.stringify({
    lists: lists.map(({ url, devices, problem }) => ({
      url,
      ...(problem !== undefined && { problem }),
      devices: devices.map((device) => ({
        id: device.id,
        name: device.name,
        system: device.system,
        current: device.isCurrent,
        assistants: device.assistants,
        servers: device.servers,
        signed_in_at: device.signedInAt,
        last_used_at: device.lastUsedAt ?? null,
      })),
    })),
  });
}
