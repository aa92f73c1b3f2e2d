import { GatewayRefusal } from '#gateway/gateway-refusal';
import { isSkillUri } from './skill-uri.ts';

const ours = 'latchkey-skills:';
const theirs = 'latchkey-upstream:';

/** Where a list goes on: behind an entry of ours, or where the upstream's own cursor says. */
export type ListPlace =
  | { readonly of: 'ours'; readonly cursor: string | undefined }
  | { readonly of: 'theirs'; readonly cursor: string };

/** The place that a caller's cursor names; without one, the beginning. */
export function listPlace(cursor: string | undefined): ListPlace {
  if (cursor === undefined) return { of: 'ours', cursor };
  if (cursor.startsWith(ours)) return { of: 'ours', cursor: cursor.slice(ours.length) };
  const isWrapped = cursor.startsWith(theirs);
  return { of: 'theirs', cursor: isWrapped ? cursor.slice(theirs.length) : cursor };
}

/** A cursor into our own pages, as the caller gets it. */
export function ourCursor(cursor: string): string {
  return ours + cursor;
}

/** An upstream's cursor as the caller gets it: the same, but where it reads like one of ours, as another gateway's does. */
export function theirCursor(cursor: string): string {
  return cursor.startsWith(ours) || cursor.startsWith(theirs) ? theirs + cursor : cursor;
}

/** The cursor to what comes behind the entry with this key. */
export function cursorBehind(key: string): string {
  return Buffer.from(key).toString('base64url');
}

/** The key that a cursor lies behind. @throws {GatewayRefusal} `bad_params` for what we never gave */
export function keyBefore(cursor: string): string {
  const key = Buffer.from(cursor, 'base64url').toString();
  if (isSkillUri(key) && cursorBehind(key) === cursor) return key;
  throw new GatewayRefusal('bad_params', { detail: 'the cursor is none of this list' });
}
