import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { SecretStore } from '#keychain/secret-store';

/** How this computer identifies itself to a Latchkey server, which uses it to group sign-ins and never to grant access. */
export type Device = {
  /** 22 characters of base64url, the same for all connections of this user. */
  id: string;
  name: string;
  system: string;
};

/** The account in the keychain. It must not change: the server groups sign-ins by the id. */
const deviceAccount = 'device id';
const wellFormed = /^[\w-]{22}$/;
/** A Latchkey server ignores longer names. */
const maxNameLength = 100;
const systems: Partial<Record<NodeJS.Platform, string>> = {
  darwin: 'macOS',
  linux: 'Linux',
  win32: 'Windows',
};

/** The device of this user and computer. Its id is made once and kept in `store`. */
export async function ownDevice(
  store: SecretStore,
  platform: NodeJS.Platform,
  hostName: string = hostname(),
): Promise<Device> {
  const name = hostName.replace(/\.(local|lan|home)$/i, '').slice(0, maxNameLength);
  const system = systems[platform] ?? platform;
  return { id: await deviceId(store), name: name.trim() || system, system };
}

/** The device as parameters of an authorization request. They are our own; other servers ignore them. RFC 6749 §3.1 */
export function deviceParameters({ id, name, system }: Device): Record<string, string> {
  return { device_id: id, device_name: name, device_system: system };
}

async function deviceId(store: SecretStore): Promise<string> {
  const known = await store.get(deviceAccount);
  if (known !== undefined && wellFormed.test(known)) return known;
  await store.set(deviceAccount, randomBytes(16).toString('base64url'));
  // Another process may have stored an id at the same time. Both processes then use the id that was written last.
  return (await store.get(deviceAccount)) ?? '';
}
