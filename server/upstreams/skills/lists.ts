// Lists of resources and skills: pages of the skills in a folder, followed by those of the upstream.

import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamAnswer, UpstreamRequest, UpstreamSend } from '#gateway/upstream';
import { type Span } from 'latchkey-mcp/json';
import {
  changedObject,
  elementsIn,
  memberEdits,
  membersIn,
  replaced,
  stringAt,
} from 'latchkey-mcp/json-edit';
import { type Envelope } from 'latchkey-mcp/message';
import {
  isUnknownMethod,
  readResponse,
  requestSkills,
  wholeAnswer,
  type ResponseMessage,
} from './responses.ts';
import type { SkillFolder } from './skill-folder.ts';
import { isSkillUri } from './skill-uri.ts';

export interface ListKind {
  readonly member: string;
  /** The member that identifies an entry. */
  readonly key: string;
  /** Whether the skills extension splits the list into pages itself. */
  readonly isPaged: boolean;
}

export const lists: Readonly<Record<string, ListKind>> = {
  'resources/list': { member: 'resources', key: 'uri', isPaged: false },
  'resources/templates/list': { member: 'resourceTemplates', key: 'uriTemplate', isPaged: false },
  'skills/list': { member: 'skills', key: 'uri', isPaged: true },
};

/**
 * Answers a page of a list: the entries of the skills first, then the upstream's. The last page of the skills and the
 * first of the upstream are one page; entries of the upstream that the skills also list are left out.
 *
 * MCP 2025-11-25 pagination
 *
 * @throws {GatewayRefusal} `bad_params` for an unknown cursor, `upstream_unreadable`
 */
export async function listWithSkills(
  next: UpstreamSend,
  request: UpstreamRequest,
  { envelope, kind }: { envelope: Envelope; kind: ListKind },
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const body = Buffer.from(request.body ?? []);
  const position = parseCursor(cursorIn(body, envelope));
  const isUpstream = position.in === 'upstream';
  const at = (of: string | undefined) => withCursor(body, envelope, of);
  const cursor = isUpstream ? undefined : position.cursor;
  const all = await requestSkills(folder, request, at(kind.isPaged ? cursor : undefined));
  if (!isUpstream && !all.result) return wholeAnswer(all.message);
  const ours = skillsPage(all, kind, cursor);
  if (!isUpstream && ours.next !== undefined) {
    return wholeAnswer(ours.message(skillsPrefix + ours.next));
  }

  const answer = await next({
    ...request,
    body: at(isUpstream ? position.cursor : undefined),
  });
  const theirs = await readResponse(answer);
  if (!theirs) return answer;
  if (isUnknownMethod(theirs)) {
    return isUpstream ? wholeAnswer(theirs.message, answer) : wholeAnswer(ours.message());
  }
  const isOurs = (key: string) => ours.keys.has(key) || folder.serves(key);
  return wholeAnswer(mergeList(theirs, isUpstream ? [] : ours.entries, isOurs, kind), answer);
}

function cursorIn(body: Buffer, { params }: Envelope): string | undefined {
  return params && stringAt(body, membersIn(body, params).get('cursor'));
}

/** The request for the page of a cursor, or for the first page. */
function withCursor(body: Buffer, envelope: Envelope, cursor: string | undefined): Buffer {
  const { params } = envelope;
  if (!params || cursorIn(body, envelope) === cursor) return body;
  if (cursor !== undefined) {
    return replaced(body, memberEdits(body, params, { cursor: JSON.stringify(cursor) }));
  }
  const text = changedObject(body, params, { cursor: undefined });
  return replaced(body, [{ span: params, text }]);
}

const maxEntries = 100;

/**
 * Cuts the page after a cursor out of `all`, sorted by key, so that no entry is skipped or repeated when others are added
 * or removed meanwhile. A list that the skills page themselves is left as it is.
 *
 * @throws {GatewayRefusal} `bad_params` for a cursor that is not ours
 */
function skillsPage(all: ResponseMessage, kind: ListKind, cursor: string | undefined) {
  const listed = entriesOf(all, kind);
  const keys = new Set(listed.keys());
  const after = kind.isPaged || cursor === undefined ? '' : keyOfCursor(cursor);
  const following = [...listed]
    .filter(([key]) => key > after)
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  const page = kind.isPaged ? [...listed] : following.slice(0, maxEntries);
  const last = page.at(-1)?.[0];
  const hasMore = page.length < following.length && last !== undefined;
  const entries = page.map(([, entry]) => entry);
  return {
    /** As JSON text. */
    entries,
    /** The keys of all entries of the list. */
    keys,
    /** The cursor of the next page; `undefined` on the last. */
    next: kind.isPaged ? nextCursorOf(all) : hasMore ? cursorAfter(last) : undefined,
    /** The page as a response, with the cursor of the next page. */
    message: (next?: string) => pageMessage(all, entries, kind, next),
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
    ...(cursor ? memberEdits(message, result, cursor) : []),
  ]);
}

/**
 * Puts the entries of `ours` before those of an upstream's page; of two with the same key, ours stays. All other bytes
 * stay, except that the page must not be cached, because our entries may change at any time.
 *
 * @throws {GatewayRefusal} `upstream_unreadable`
 */
function mergeList(
  theirs: ResponseMessage,
  ours: readonly string[],
  isOurs: (key: string) => boolean,
  kind: ListKind,
): Buffer {
  const { message, result } = theirs;
  if (!result) return message;
  const list = membersIn(message, result).get(kind.member);
  if (!list || message[list.start] !== 0x5b) throw unreadable();
  const entries = (elementsIn(message, list) ?? []).flatMap((entry) => {
    const key = stringAt(message, membersIn(message, entry).get(kind.key));
    return key !== undefined && isOurs(key)
      ? []
      : [message.toString('utf8', entry.start, entry.end)];
  });
  return replaced(message, [
    { span: list, text: `[${[...ours, ...entries].join(',')}]` },
    ...withoutCaching(message, result),
    ...withWrappedCursor(theirs),
  ]);
}

/** The entries of a list, as JSON text by their keys. */
function entriesOf(
  { message, result }: ResponseMessage,
  { member, key }: ListKind,
): Map<string, string> {
  const list = result && membersIn(message, result).get(member);
  if (!list) return new Map();
  return new Map(
    (elementsIn(message, list) ?? []).map((entry) => [
      stringAt(message, membersIn(message, entry).get(key)) ?? '',
      message.toString('utf8', entry.start, entry.end),
    ]),
  );
}

/** The cursor in a page; `undefined` on the last. */
function nextCursorOf({ message, result }: ResponseMessage): string | undefined {
  return result && stringAt(message, membersIn(message, result).get('nextCursor'));
}

function withoutCaching(message: Buffer, result: Span) {
  const members = membersIn(message, result);
  const ttlMs = members.get('ttlMs');
  const scope = members.get('cacheScope');
  return [
    ...(ttlMs ? [{ span: ttlMs, text: '0' }] : []),
    ...(scope ? [{ span: scope, text: '"private"' }] : []),
  ];
}

/** The page with its cursor in the form that the caller sends back. */
function withWrappedCursor(theirs: ResponseMessage) {
  const { message, result } = theirs;
  const next = nextCursorOf(theirs);
  if (next === undefined || upstreamCursor(next) === next) return [];
  return memberEdits(message, result, { nextCursor: JSON.stringify(upstreamCursor(next)) });
}

function unreadable(): GatewayRefusal {
  return new GatewayRefusal('upstream_unreadable', { detail: 'its list could not be read' });
}

const skillsPrefix = 'latchkey-skills:';
const upstreamPrefix = 'latchkey-upstream:';

/** Where a list continues: after an entry of the skills, or at a cursor of the upstream. */
type ListPosition =
  | { readonly in: 'skills'; readonly cursor: string | undefined }
  | { readonly in: 'upstream'; readonly cursor: string };

/** Reads a caller's cursor; without one, the list begins. */
function parseCursor(cursor: string | undefined): ListPosition {
  if (cursor === undefined) return { in: 'skills', cursor };
  if (cursor.startsWith(skillsPrefix)) {
    return { in: 'skills', cursor: cursor.slice(skillsPrefix.length) };
  }
  const isWrapped = cursor.startsWith(upstreamPrefix);
  return { in: 'upstream', cursor: isWrapped ? cursor.slice(upstreamPrefix.length) : cursor };
}

/** An upstream's cursor as the caller gets it: unchanged, unless it looks like one of our cursors, as a cursor of another gateway does. */
function upstreamCursor(cursor: string): string {
  const isAmbiguous = cursor.startsWith(skillsPrefix) || cursor.startsWith(upstreamPrefix);
  return isAmbiguous ? upstreamPrefix + cursor : cursor;
}

/** The cursor of the page that follows the entry with this key. */
function cursorAfter(key: string): string {
  return Buffer.from(key).toString('base64url');
}

/** The key that a cursor follows. @throws {GatewayRefusal} `bad_params` for a cursor that is not ours */
function keyOfCursor(cursor: string): string {
  const key = Buffer.from(cursor, 'base64url').toString();
  if (isSkillUri(key) && cursorAfter(key) === cursor) return key;
  throw new GatewayRefusal('bad_params', { detail: 'the cursor does not belong to this list' });
}
