import type { ShownKey } from '#administration/shown-key';
import type { Badge, Cell } from '#pages/table';

/** How old a key may grow before the list asks to rotate it. */
export const rotateAfterDays = 90;

/** What the list says of a key's state. */
export function keyBadges({ status, ageDays }: ShownKey): readonly Badge[] {
  if (status === 'revoked') return [{ text: 'revoked', tone: 'plain' }];
  if (status === 'expired') return [{ text: 'expired', tone: 'care' }];
  return ageDays >= rotateAfterDays ? [{ text: 'rotate', tone: 'care' }] : [];
}

/** The columns that keys have wherever they are listed, but for the actions. */
export const keyColumns = [
  { text: 'Name', sort: 'name' },
  { text: 'Key' },
  { text: 'Last used', sort: 'last_used_at' },
  { text: 'Created', sort: 'created_at' },
  { text: 'Expires', sort: 'expires_at' },
] as const;

/** A row of `keyColumns`; the name leads to `href`, where there is more about the key. */
export function keyCells(key: ShownKey, href?: string): readonly Cell[] {
  return [
    { kind: 'name', text: key.name, badges: keyBadges(key), ...(href && { href }) },
    { kind: 'hint', text: key.hint },
    { kind: 'time', at: key.lastUsedAt ?? undefined, otherwise: 'never' },
    { kind: 'time', at: key.createdAt, otherwise: '' },
    { kind: 'time', at: key.expiresAt ?? undefined, otherwise: 'never' },
  ];
}
