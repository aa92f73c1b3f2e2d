import { z } from 'zod';

import type { PlacedApiKey } from '#credentials/key-directory';
import { allScopes } from '#credentials/scope';
import type { EpochSeconds } from '#clock/clock';
import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';

const secondsADay = 86_400;

/** A key as every surface shows it. */
export const shownKey = z
  .object({
    id: z.string(),
    name: z.string(),
    server: z.string().nullable().describe('The server that it opens'),
    agent: z.string().nullable().describe('The agent that it is for'),
    hint: z.string().describe('Prefix and last four characters'),
    scopes: z.array(z.enum(allScopes)),
    status: z.enum(['active', 'expired', 'revoked']),
    ageDays: z.int().describe('Whole days since it was made'),
    createdAt: fields.at,
    expiresAt: fields.maybeAt,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'Key' });

/** Times in seconds since 1970, `null` for what never was. */
export type ShownKey = z.output<typeof shownKey>;

/** A key as it is kept, as every surface shows it at `now`: its hint, never itself. */
export function showKey(key: PlacedApiKey, now: EpochSeconds): ShownKey {
  const { expiresAt, revokedAt } = key;
  const isExpired = expiresAt !== undefined && expiresAt <= now;
  return {
    id: key.id,
    name: key.name,
    server: key.server ?? null,
    agent: key.agent ?? null,
    hint: key.hint,
    scopes: [...key.scopes],
    status: revokedAt !== undefined ? 'revoked' : isExpired ? 'expired' : 'active',
    ageDays: Math.max(0, Math.floor((now - key.createdAt) / secondsADay)),
    createdAt: key.createdAt,
    expiresAt: expiresAt ?? null,
    lastUsedAt: key.lastUsedAt ?? null,
    revokedAt: revokedAt ?? null,
  };
}

/** A key of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownKey(
  organization: string,
  keyId: string,
  { keyDirectory }: Pick<AdministrationPorts, 'keyDirectory'>,
): Promise<PlacedApiKey> {
  const key = await keyDirectory.byId(keyId);
  if (key?.organization === organization) return key;
  throw notFound('key');
}
