import { membersIn } from '#gateway/json-parts';
import { replaced } from '#gateway/splice';
import { withMembers } from '#gateway/with-members';
import type { ResponseMessage } from './answer-message.ts';
import { cursorBehind, keyBefore } from './list-cursor.ts';
import { entriesOf, nextCursorOf, type ListKind } from './merged-list.ts';

const mostEntries = 100;

/** A page of a list of ours. */
export interface OwnPage {
  /** As JSON text. */
  readonly entries: readonly string[];
  /** The keys of all entries that were listed to make it. */
  readonly known: ReadonlySet<string>;
  /** The cursor of the next; `undefined` on the last. */
  readonly next: string | undefined;
  /** The page as a response, with a cursor to what follows. */
  message(cursor?: string): Buffer;
}

/**
 * The page of `all` behind a cursor, by the order of their keys: whatever is added or goes away meanwhile, no other entry
 * is left out or comes twice. A list that comes in pages already is its own page.
 *
 * @throws {GatewayRefusal} `bad_params` for a cursor that we never gave
 */
export function ownPage(all: ResponseMessage, kind: ListKind, cursor: string | undefined): OwnPage {
  const listed = entriesOf(all, kind);
  const known = new Set(listed.keys());
  const after = kind.isPaged || cursor === undefined ? '' : keyBefore(cursor);
  const behind = [...listed]
    .filter(([key]) => key > after)
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  const page = kind.isPaged ? [...listed] : behind.slice(0, mostEntries);
  const last = page.at(-1)?.[0];
  const goesOn = page.length < behind.length && last !== undefined;
  const entries = page.map(([, entry]) => entry);
  return {
    entries,
    known,
    next: kind.isPaged ? nextCursorOf(all) : goesOn ? cursorBehind(last) : undefined,
    message: (next) => pageMessage(all, entries, kind, next),
  };
}

function pageMessage(
  { message, result }: ResponseMessage,
  entries: readonly string[],
  { member }: ListKind,
  next: string | undefined,
): Buffer {
  const list = result && membersIn(message, result).get(member);
  const cursor = next !== undefined && { nextCursor: JSON.stringify(next) };
  return replaced(message, [
    ...(list ? [{ span: list, text: `[${entries.join(',')}]` }] : []),
    ...(cursor ? withMembers(message, result, cursor) : []),
  ]);
}
