import { membersIn, stringAt } from '#gateway/json-parts';
import type { Envelope } from '#gateway/json-scan';
import { replaced } from '#gateway/splice';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { withMembers } from '#gateway/with-members';
import { isUnknownMethod, responseOf, whole } from './answer-message.ts';
import { askSkills } from './ask-skills.ts';
import { listPlace, ourCursor } from './list-cursor.ts';
import { mergedList, type ListKind } from './merged-list.ts';
import { ownPage } from './own-page.ts';
import type { SkillFolder } from './skill-folder.ts';

/**
 * A page of a list: ours first, then the upstream's. The last page of ours and the first of theirs are one, and theirs
 * leave out what is listed by us.
 *
 * MCP 2025-11-25 pagination
 *
 * @throws {GatewayRefusal} `bad_params` for a cursor that nobody gave, `upstream_failed`
 */
export async function listWithSkills(
  upstream: Upstream,
  request: UpstreamRequest,
  { envelope, kind }: { envelope: Envelope; kind: ListKind },
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const body = Buffer.from(request.body ?? []);
  const place = listPlace(cursorIn(body, envelope));
  const isTheirs = place.of === 'theirs';
  const at = (cursor: string | undefined) => withCursor(body, envelope, cursor);
  const ownPlace = isTheirs ? undefined : place.cursor;
  const all = await askSkills(folder, request, at(kind.isPaged ? ownPlace : undefined));
  if (!isTheirs && !all.result) return whole(all.message);
  const ours = ownPage(all, kind, ownPlace);
  if (!isTheirs && ours.next !== undefined) return whole(ours.message(ourCursor(ours.next)));

  const answer = await upstream.send({ ...request, body: at(isTheirs ? place.cursor : undefined) });
  const theirs = await responseOf(answer);
  if (!theirs) return answer;
  if (isUnknownMethod(theirs)) {
    return isTheirs ? whole(theirs.message, answer) : whole(ours.message());
  }
  const isOurs = (key: string) => ours.known.has(key) || folder.serves(key);
  return whole(mergedList(theirs, isTheirs ? [] : ours.entries, isOurs, kind), answer);
}

function cursorIn(body: Buffer, { params }: Envelope): string | undefined {
  return params && stringAt(body, membersIn(body, params).get('cursor'));
}

/** The request for the page of a cursor; for the first, where there is none. */
function withCursor(body: Buffer, envelope: Envelope, cursor: string | undefined): Buffer {
  const { params } = envelope;
  if (!params || cursorIn(body, envelope) === cursor) return body;
  if (cursor !== undefined) {
    return replaced(body, withMembers(body, params, { cursor: JSON.stringify(cursor) }));
  }
  const kept = [...membersIn(body, params)]
    .filter(([name]) => name !== 'cursor')
    .map(
      ([name, { start, end }]) => `${JSON.stringify(name)}:${body.toString('utf8', start, end)}`,
    );
  return replaced(body, [{ span: params, text: `{${kept.join(',')}}` }]);
}
