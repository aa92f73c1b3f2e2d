import { insertAuditEvent, type RequestSource } from '#db/audit';
import { listDevices, signOutDevice, type DeviceOwner } from '#db/devices';
import { transaction, type Db } from '#db/transaction';
import type { Clock } from '#model/clock';
import { ownClientDocument } from './client-documents.ts';
import { listReader, type ListReader, type ServerListPorts } from './server-list.ts';

/** A device, as the proxy of its person sees it. */
export interface ListedDevice {
  readonly id: string;
  /** What the proxy there calls itself. */
  readonly name: string;
  readonly system: string;
  /** Whether the request came from there. */
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
 * `DELETE /api/my/devices/{id}`. Returns whether the person had such a device; `undefined` unless a token for the list of servers
 * was sent.
 */
export async function signOutListed(
  authorization: string | undefined,
  deviceId: string,
  ports: ServerListPorts & { readonly source: RequestSource },
): Promise<boolean | undefined> {
  const reader = await deviceReader(authorization, ports);
  return reader && signOutOwnDevice(deviceId, reach(reader), ports);
}

/** Other applications may list servers, but a person did not let them see or sign out devices. */
async function deviceReader(
  authorization: string | undefined,
  ports: ServerListPorts,
): Promise<ListReader | undefined> {
  const reader = await listReader(authorization, ports);
  return reader?.clientId === ownClientDocument(ports.base).client_id ? reader : undefined;
}

/** The token opens the organizations in which the person chose servers. */
function reach({ userId, grants }: ListReader): DeviceOwner {
  return {
    userId,
    within: [...new Set(grants.map(({ serverPath }) => organizationOf(serverPath)))],
  };
}

function organizationOf(serverPath: string): string {
  return serverPath.split('/')[0] ?? '';
}

export interface SignOutDevicePorts {
  readonly db: Db;
  readonly clock: Clock;
  /** Where the request came from. */
  readonly source: RequestSource;
}

/**
 * Ends everything that a person allowed on one of their devices. The audit log of each organization has an entry.
 *
 * @returns `false` when the person has no such device with access
 */
export async function signOutOwnDevice(
  deviceId: string,
  owner: DeviceOwner,
  { db, clock, source }: SignOutDevicePorts,
): Promise<boolean> {
  const { userId } = owner;
  return transaction(db, async (tx) => {
    const ended = await signOutDevice(tx, deviceId, owner, clock.now());
    for (const organization of ended.keys()) {
      await insertAuditEvent(tx, {
        at: clock.now(),
        actor: `user:${userId}`,
        organization,
        action: 'device.sign-out',
        target: `user:${userId} ${deviceId}`,
        ...source,
        outcome: 'done',
      });
    }
    return ended.size > 0;
  });
}
