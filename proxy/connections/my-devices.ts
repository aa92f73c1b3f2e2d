// The devices of a person at a Latchkey server: the computers on which they signed in with Latchkey. They can end the access of each.
import { isObject } from 'latchkey-mcp/json-value';
import { OAuthError } from '#auth/errors';
import type { BoundHost } from './connections-host.ts';
import { askList } from './my-servers.ts';

/** A computer of the person. Latchkey on that computer reports its name. */
export type MyDevice = {
  id: string;
  name: string;
  system: string;
  /** Whether it is this computer. */
  isCurrent: boolean;
  /** The names of the assistants that use servers there; empty for those that did not say. */
  assistants: readonly string[];
  /** The servers that it uses, as `organization/server`. */
  servers: readonly string[];
  /** Seconds since 1970. */
  signedInAt: number;
  lastUsedAt?: number;
};

/**
 * The devices of the person, as their server lists them now.
 *
 * @throws {TokenError} `signed_out` if they have to sign in first
 */
export async function readDevices(list: string, host: BoundHost): Promise<readonly MyDevice[]> {
  const url = devicesUrl(list);
  const { status, json } = await askList(list, { url, method: 'GET' }, host);
  if (status !== 200)
    throw new OAuthError('refused', `${url} answered ${status}`, { endpoint: url, status });
  const devices = isObject(json) ? json['devices'] : undefined;
  return (Array.isArray(devices) ? devices.filter(isObject) : []).flatMap(parseDevice);
}

/**
 * Ends the access of a device. @returns `false` if the person has no such device
 *
 * @throws {TokenError} `signed_out` if they have to sign in first
 */
export async function signOutDevice(list: string, id: string, host: BoundHost): Promise<boolean> {
  const url = `${devicesUrl(list)}/${encodeURIComponent(id)}`;
  const { status } = await askList(list, { url, method: 'DELETE' }, host);
  if (status === 200 || status === 404) return status === 200;
  throw new OAuthError('refused', `${url} answered ${status}`, { endpoint: url, status });
}

function devicesUrl(list: string): string {
  return new URL('/api/my/devices', list).href;
}

/** Reads one device. Ignores unknown members, and a device without an id or a time of sign-in. */
function parseDevice(one: Record<string, unknown>): MyDevice[] {
  const { id, name, system, applications, signed_in_at: signedInAt } = one;
  const lastUsedAt = one['last_used_at'];
  if (typeof id !== 'string' || typeof signedInAt !== 'number') return [];
  const used = Array.isArray(applications) ? applications.filter(isObject) : [];
  const each = (key: string) => [
    ...new Set(used.map((of) => of[key]).filter((value) => typeof value === 'string')),
  ];
  return [
    {
      id,
      name: typeof name === 'string' ? name : id,
      system: typeof system === 'string' ? system : '',
      isCurrent: one['current'] === true,
      assistants: each('assistant'),
      servers: each('server'),
      signedInAt,
      ...(typeof lastUsedAt === 'number' && { lastUsedAt }),
    },
  ];
}
