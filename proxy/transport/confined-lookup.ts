import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { HttpError } from './http-error.ts';
import { mayName, networkOfAddress, networkOfHost, type Network } from './network.ts';

/** All addresses of a name, as `dns.lookup` gives them. */
export type AddressLookup = (
  hostname: string,
  options: LookupAllOptions,
  found: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** @throws {HttpError} `network` when the host is an address, or this machine, further inside than `within` */
export function refuseInside({ hostname }: URL, within: Network): void {
  const to = networkOfHost(hostname);
  if (to !== undefined && !mayName(within, to)) throw tooFarInside(hostname, to);
}

/**
 * Looks names up as Node does, but for the addresses that are further inside than `within`: what was checked is
 * what is dialled, whatever the name resolves to a moment later.
 */
export function confinedLookup(within: Network, resolve: AddressLookup = lookup): LookupFunction {
  return (hostname, options, found) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return found(error, '');
      const allowed = addresses.filter(({ address }) => mayName(within, networkOfAddress(address)));
      const [first] = allowed;
      const [refused] = addresses;
      if (!first) {
        const to = networkOfAddress(refused?.address ?? '0.0.0.0');
        return found(tooFarInside(hostname, to), '');
      }
      if (options.all) found(null, allowed);
      else found(null, first.address, first.family);
    });
  };
}

function tooFarInside(hostname: string, to: Network): HttpError {
  const where = to === 'loopback' ? 'this machine' : 'a private network';
  return new HttpError('network', `${hostname} is on ${where}`);
}
