import { GatewayRefusal } from '#gateway/gateway-refusal';
import { elementsIn, membersIn, stringAt } from '#gateway/json-parts';
import { replaced } from '#gateway/splice';
import type { Span } from '#gateway/strict-json';
import { withMembers } from '#gateway/with-members';
import type { ResponseMessage } from './answer-message.ts';
import { theirCursor } from './list-cursor.ts';

/** What a method lists, and the member by which two entries are the same. */
export interface ListKind {
  readonly member: string;
  readonly key: string;
  /** Whether the skills give it in pages themselves. */
  readonly isPaged: boolean;
}

export const lists: Readonly<Record<string, ListKind>> = {
  'resources/list': { member: 'resources', key: 'uri', isPaged: false },
  'resources/templates/list': { member: 'resourceTemplates', key: 'uriTemplate', isPaged: false },
  'skills/list': { member: 'skills', key: 'uri', isPaged: true },
};

/**
 * An upstream's page with the entries of `ours` before its own; of two with the same key ours stays. Every other
 * byte of it stays, but that nobody keeps it for longer than ours can be kept.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export function mergedList(
  theirs: ResponseMessage,
  ours: readonly string[],
  isOurs: (key: string) => boolean,
  kind: ListKind,
): Buffer {
  const { message, result } = theirs;
  if (!result) return message;
  const list = membersIn(message, result).get(kind.member);
  if (!list || message[list.start] !== 0x5b) throw unreadable();
  const kept = elementsIn(message, list).flatMap((entry) => {
    const key = stringAt(message, membersIn(message, entry).get(kind.key));
    return key !== undefined && isOurs(key)
      ? []
      : [message.toString('utf8', entry.start, entry.end)];
  });
  return replaced(message, [
    { span: list, text: `[${[...ours, ...kept].join(',')}]` },
    ...uncached(message, result),
    ...told(theirs),
  ]);
}

/** The entries of a list, as JSON text by their keys. */
export function entriesOf(
  { message, result }: ResponseMessage,
  { member, key }: ListKind,
): Map<string, string> {
  const list = result && membersIn(message, result).get(member);
  if (!list) return new Map();
  return new Map(
    elementsIn(message, list).map((entry) => [
      stringAt(message, membersIn(message, entry).get(key)) ?? '',
      message.toString('utf8', entry.start, entry.end),
    ]),
  );
}

/** The cursor that a page names, or `undefined` on the last. */
export function nextCursorOf({ message, result }: ResponseMessage): string | undefined {
  return result && stringAt(message, membersIn(message, result).get('nextCursor'));
}

function uncached(message: Buffer, result: Span) {
  const members = membersIn(message, result);
  const ttlMs = members.get('ttlMs');
  const scope = members.get('cacheScope');
  return [
    ...(ttlMs ? [{ span: ttlMs, text: '0' }] : []),
    ...(scope ? [{ span: scope, text: '"private"' }] : []),
  ];
}

/** Its cursor as the caller is to send it back. */
function told(theirs: ResponseMessage) {
  const { message, result } = theirs;
  const next = nextCursorOf(theirs);
  if (next === undefined || theirCursor(next) === next) return [];
  return withMembers(message, result, { nextCursor: JSON.stringify(theirCursor(next)) });
}

function unreadable(): GatewayRefusal {
  return new GatewayRefusal('upstream_failed', { detail: 'its list cannot be read' });
}
