import {
  providerSetup,
  type ProviderSetup,
  type ResolveTxt,
} from '#server/accounts/provider-setup';
import type { Clock } from '#server/model/clock';
import { masterKey } from '#server/secrets/master-key';

const sealing = masterKey(new Uint8Array(32));

/** The DNS records of a test: the values of each name, or the code of an error. */
export type TxtRecords = Map<string, readonly string[] | string>;

/** A provider setup that reaches providers only on loopback, and finds only these DNS records. */
export function loopbackProviders(clock: Clock, records: TxtRecords = new Map()): ProviderSetup {
  const resolveTxt: ResolveTxt = async (name) => {
    const found = records.get(name) ?? 'ENOTFOUND';
    if (typeof found === 'string') throw Object.assign(new Error(found), { code: found });
    return found.map((value) => [value.slice(0, 5), value.slice(5)]);
  };
  return providerSetup({
    base: 'http://127.0.0.1:8787',
    sealing,
    guard: {
      allowedHosts: ['127.0.0.1'],
      resolve: () => Promise.reject(new Error('no test resolves a name')),
    },
    resolveTxt,
    clock,
  });
}
