import { listDevices, signOutDevice, type DeviceOwner } from '#db/devices';
import { transaction } from '#db/transaction';
import { partsOf } from '#model/slug';
import { note, type NotePorts } from './audit-notes.ts';
import { ownClientDocument } from './client-documents.ts';
import { listReader, type ListReader, type ServerListPorts } from './server-list.ts';

/** A device, as the proxy of its person sees it. */
export interface ListedDevice {
  readonly id: string;
  /** What the proxy there calls itself. */
  readonly name: string;
  readonly system: string;
  /** Whether the request came from this device. */
  readonly current: boolean;
  readonly applications: readonly { readonly assistant?: string; readonly server: string }[];
  readonly signed_in_at: number;
  readonly last_used_at: number | null;
}

/** `GET /api/my/devices`: the devices of the person. `undefined` unless our proxy sent a token for the list of servers. */
export async function deviceList(
  authorization: string | undefined,
  ports: ServerListPorts,
): Promise<{ readonly devices: readonly ListedDevice[] } | undefined> {
  const reader = await deviceReader(authorization, ports);
  if (!reader) return undefined;
  const own = reader.grants[0]?.device?.id;
  const devices = await listDevices(ports.db, reach(reader), ports.clock.now());
  return {
    devices: devices.map(({ id, name, system, since, lastUsedAt, grants }) => ({
      id,
      name,
      system,
      current: id === own,
      applications: grants.map(({ assistant, serverPath: server }) => ({
        ...(assistant !== undefined && { assistant }),
        server,
      })),
      signed_in_at: since,
      last_used_at: lastUsedAt ?? null,
    })),
  };
}

/**
 * `DELETE /api/my/devices/{id}`. Returns whether the person had such a device; `undefined` unless our proxy sent a token for the
 * list of servers.
 */
export async function signOutListed(
  authorization: string | undefined,
  deviceId: string,
  ports: ServerListPorts & NotePorts,
): Promise<boolean | undefined> {
  const reader = await deviceReader(authorization, ports);
  return reader && signOutOwnDevice(deviceId, reach(reader), ports);
}

/** `undefined` for other applications: a person let them list servers, but not see or sign out devices. */
async function deviceReader(
  authorization: string | undefined,
  ports: ServerListPorts,
): Promise<ListReader | undefined> {
  const reader = await listReader(authorization, ports);
  return reader?.clientId === ownClientDocument(ports.base).client_id ? reader : undefined;
}

/** The token opens the organizations in which the person chose servers. */
function reach({ userId, grants }: ListReader): DeviceOwner {
  const within = new Set(grants.map(({ serverPath }) => partsOf(serverPath).organization));
  return { userId, within: [...within] };
}

/**
 * Ends everything that a person allowed on one of their devices. The audit log of each organization has an entry.
 *
 * @returns `false` when the person has no such device with access
 */
export async function signOutOwnDevice(
  deviceId: string,
  owner: DeviceOwner,
  ports: NotePorts,
): Promise<boolean> {
  const actor = `user:${owner.userId}`;
  const about = { actor, action: 'device.sign-out', target: `${actor} ${deviceId}` };
  return transaction(ports.db, async (tx) => {
    const ended = await signOutDevice(tx, deviceId, owner, ports.clock.now());
    for (const organization of ended.keys()) {
      await note({ ...about, organization, outcome: 'done' }, { ...ports, db: tx });
    }
    return ended.size > 0;
  });
}
