import { createHmac } from 'node:crypto';

/**
 * What agents know callers by: the same text for the same principal and server, another for every other, and
 * nothing that tells who it is. `key` is 32 bytes.
 */
export function callerNames(key: Buffer): (owner: string) => string {
  return (owner) => createHmac('sha256', key).update(owner).digest('base64url').slice(0, 32);
}
