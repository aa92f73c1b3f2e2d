import type { z } from 'zod';

import type { shownSecret } from '#administration/shown-client';
import type { Table } from '#pages/table';

/** A secret of a client by its hint. */
export type ShownClientSecret = z.output<typeof shownSecret>;

/** Whether a secret proves something at `now`. */
export function isInForce(
  { expiresAt, revokedAt }: Pick<ShownClientSecret, 'expiresAt' | 'revokedAt'>,
  now: number,
): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > now);
}

/** The secrets of a client as a table, the newest first. `path` is the client's page. */
export function secretTable(
  secrets: readonly ShownClientSecret[],
  { path, may, now }: { path: string; may: boolean; now: number },
): Table {
  const active = secrets.filter((secret) => isInForce(secret, now)).length;
  return {
    caption: 'Client secrets',
    columns: ['Secret', 'Last used', 'Created', 'Expires', 'Actions'].map((text) => ({ text })),
    rows: secrets.map((secret) => {
      const { id, hint, expiresAt, revokedAt } = secret;
      const isOver = !isInForce(secret, now);
      const revoke = {
        text: 'Revoke',
        href: `${path}/secrets/${id}/revoke`,
        of: hint,
        danger: true,
      };
      const word = revokedAt === null ? 'expired' : 'revoked';
      return {
        id,
        isOver,
        cells: [
          { kind: 'name', text: hint, badges: isOver ? [{ text: word, tone: 'plain' }] : [] },
          { kind: 'time', at: secret.lastUsedAt ?? undefined, otherwise: 'never' },
          { kind: 'time', at: secret.createdAt, otherwise: '' },
          { kind: 'time', at: expiresAt ?? undefined, otherwise: 'never' },
          // The last one goes with the client itself.
          { kind: 'actions', actions: may && !isOver && active > 1 ? [revoke] : [] },
        ],
      };
    }),
    empty: { text: 'It has no secret.' },
    now,
  };
}
