import { createHash } from 'node:crypto';

/** Stands for a MAC under the master key: anyone could compute it, but each text has its own. */
export function fakeMac(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
