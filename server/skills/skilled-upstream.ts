import { GatewayRefusal } from '#gateway/gateway-refusal';
import { membersIn, stringAt } from '#gateway/json-parts';
import { scanMessage, type Envelope } from '#gateway/json-scan';
import { replaced } from '#gateway/splice';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { withMembers } from '#gateway/with-members';
import { isUnknownMethod, responseOf, whole, type ResponseMessage } from './answer-message.ts';
import { listenWithSkills } from './listen-with-skills.ts';
import { mergedObject, type WantedMembers } from './merged-object.ts';
import { entriesOf, lists, mergedList, nextCursorOf, withCursor } from './merged-list.ts';
import { OwnSession } from './own-session.ts';
import { sessionNotices } from './session-notices.ts';
import type { SkillFolder } from './skill-folder.ts';
import type { SkillSession, SkillSessions } from './skill-sessions.ts';
import { isSkillUri, skillUriProblem } from './skill-uri.ts';

const ourCursor = 'latchkey-skills:';

/** What a server with skills offers besides. */
const capabilities: WantedMembers = {
  resources: { listChanged: true, subscribe: true },
  extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
};

interface Passed {
  readonly request: UpstreamRequest;
  readonly envelope: Envelope;
  readonly session: SkillSession | undefined;
}

/**
 * An upstream that offers a folder of skills besides what it offers itself, to one caller: in its capabilities, its lists,
 * what is read and what changes are told of. Whatever has nothing to do with resources passes untouched. A skill of
 * the folder is served in the place of one of the same URI.
 */
export class SkilledUpstream implements Upstream {
  readonly #upstream: Upstream;
  readonly #folder: SkillFolder;
  readonly #sessions: SkillSessions;
  readonly #owner: string;

  constructor(
    upstream: Upstream,
    { folder, sessions, owner }: { folder: SkillFolder; sessions: SkillSessions; owner: string },
  ) {
    this.#upstream = upstream;
    this.#folder = folder;
    this.#sessions = sessions;
    this.#owner = owner;
  }

  async send(sent: UpstreamRequest): Promise<UpstreamAnswer> {
    const sessionId = sent.headers['mcp-session-id'];
    const session = this.#sessions.find(this.#owner, sessionId);
    const isOwn = session?.isOwn ?? this.#sessions.isOwnId(sessionId);
    if (isOwn && !session) return nothing(404);
    const request = isOwn ? withoutSession(sent) : sent;
    if (sent.method === 'GET' && session) return this.#listen(request, session);
    if (sent.method === 'DELETE') {
      this.#sessions.close(this.#owner, sessionId);
      return isOwn ? nothing(204) : this.#upstream.send(request);
    }
    const scan = sent.body && scanMessage(sent.body);
    if (scan?.outcome !== 'message') return this.#upstream.send(request);
    const passed = { request, envelope: scan.envelope, session };
    if (session?.isOwn !== true) return this.#message(passed);
    const own = new OwnSession(session);
    return own.carry(passed, (carried) => this.#message({ ...passed, request: carried }));
  }

  #message(passed: Passed): Promise<UpstreamAnswer> {
    const { envelope, request } = passed;
    const { method = '', uri } = envelope;
    if (envelope.kind !== 'request') return this.#upstream.send(request);
    const kind = Object.hasOwn(lists, method) ? lists[method] : undefined;
    if (kind) return this.#list(passed, kind);
    switch (method) {
      case 'initialize':
        return this.#initialize(request);
      case 'server/discover':
        return this.#present(request);
      case 'subscriptions/listen':
        return listenWithSkills(this.#upstream, request, envelope, this.#folder);
      case 'resources/read':
      case 'skills/get':
      case 'resources/directory/read':
        return isSkillUri(uri) ? this.#read(passed, uri) : this.#upstream.send(request);
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return isSkillUri(uri) ? this.#subscribe(passed, uri) : this.#upstream.send(request);
      default:
        return this.#upstream.send(request);
    }
  }

  async #present(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const answer = await this.#upstream.send(request);
    const response = await responseOf(answer);
    if (!response) return answer;
    const { message, result } = response;
    const edits = result ? mergedObject(message, result, { capabilities }) : [];
    return whole(replaced(message, edits), answer);
  }

  /** A caller of an upstream without sessions gets one, so that it can be told of changes. */
  async #initialize(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const answer = await this.#present(request);
    const { status, sessionId, body } = answer;
    const isResult = body instanceof Uint8Array && Buffer.from(body).includes('"result"');
    if (status !== 200 || !isResult) return answer;
    const { version } = this.#folder.feed;
    return { ...answer, sessionId: this.#sessions.open(this.#owner, sessionId, version) };
  }

  /** Our pages first, then the upstream's; the last of ours and the first of theirs are one. */
  async #list(
    { request, envelope }: Passed,
    kind: NonNullable<(typeof lists)[string]>,
  ): Promise<UpstreamAnswer> {
    const body = Buffer.from(request.body ?? []);
    const cursor = envelope.params && membersIn(body, envelope.params).get('cursor');
    const asked = stringAt(body, cursor);
    const isTheirs = asked !== undefined && !asked.startsWith(ourCursor);
    const ownCursor = asked?.slice(ourCursor.length) ?? '';
    const at = (text: string) =>
      replaced(body, [...(envelope.params && cursor ? cursorEdit(body, envelope, text) : [])]);
    const ours = await this.#ours(request, isTheirs ? at('') : at(ownCursor));
    if (!isTheirs && !ours.result) return whole(ours.message);
    const next = nextCursorOf(ours);
    if (!isTheirs && next !== undefined) return whole(withCursor(ours, ourCursor + next));

    const forwarded = isTheirs ? request : { ...request, body: at('') };
    const answer = await this.#upstream.send(forwarded);
    const theirs = await responseOf(answer);
    if (!theirs) return answer;
    if (isUnknownMethod(theirs))
      return isTheirs ? whole(theirs.message, answer) : whole(ours.message);
    const entries = entriesOf(ours, kind);
    const isOurs = (key: string) => entries.has(key) || this.#folder.serves(key);
    const added = isTheirs ? [] : [...entries.values()];
    return whole(mergedList(theirs, added, isOurs, kind), answer);
  }

  async #read({ request }: Passed, uri: string): Promise<UpstreamAnswer> {
    checkUri(uri);
    const ours = await this.#ours(request);
    if (ours.result) return whole(ours.message);
    const answer = await this.#upstream.send(request);
    const theirs = await responseOf(answer);
    if (isUnknownMethod(theirs)) return whole(ours.message);
    return theirs ? whole(theirs.message, answer) : answer;
  }

  async #subscribe({ request, envelope, session }: Passed, uri: string): Promise<UpstreamAnswer> {
    checkUri(uri);
    const isUndone = envelope.method === 'resources/unsubscribe';
    const isKnown = this.#folder.serves(uri) || session?.subscribed.has(uri) === true;
    if (!isKnown) return this.#upstream.send(request);
    if (!session) throw new GatewayRefusal('bad_params', { detail: 'subscribe within a session' });
    if (isUndone) session.subscribed.delete(uri);
    else session.subscribed.add(uri);
    return whole(Buffer.from(`{"jsonrpc":"2.0","id":${envelope.id ?? 'null'},"result":{}}`));
  }

  #listen(request: UpstreamRequest, session: SkillSession): Promise<UpstreamAnswer> {
    const listen = async (signal: AbortSignal) =>
      session.isOwn ? undefined : this.#upstream.send({ ...request, signal });
    return sessionNotices(listen, request, session, this.#folder);
  }

  /** What the skills alone answer. */
  async #ours(request: UpstreamRequest, body = request.body): Promise<ResponseMessage> {
    const { 'mcp-session-id': _, ...headers } = request.headers;
    const bytes = new Uint8Array(body ?? []);
    const response = await this.#folder.fetch(
      new Request('http://skills.invalid/mcp', {
        method: 'POST',
        headers,
        body: bytes,
        signal: request.signal,
      }),
    );
    const answer = {
      status: response.status,
      mediaType: response.headers.get('content-type')?.split(';')[0]?.toLowerCase() ?? '',
      sessionId: undefined,
      retryAfterSeconds: undefined,
      body: new Uint8Array(await response.arrayBuffer()),
    };
    const read = await responseOf(answer);
    if (read) return read;
    throw new GatewayRefusal('fault', { cause: new Error(`skills answered ${response.status}`) });
  }
}

/** @throws {GatewayRefusal} `bad_params` */
function checkUri(uri: string): void {
  const problem = skillUriProblem(uri);
  if (problem !== undefined)
    throw new GatewayRefusal('bad_params', { detail: `the URI ${problem}` });
}

function withoutSession(request: UpstreamRequest): UpstreamRequest {
  const { 'mcp-session-id': _, ...headers } = request.headers;
  return { ...request, headers };
}

function nothing(status: number): UpstreamAnswer {
  const body = new Uint8Array();
  return { status, mediaType: '', sessionId: undefined, retryAfterSeconds: undefined, body };
}

/** The change that asks for the page of a cursor; of the first, where it is empty. */
function cursorEdit(body: Buffer, { params }: Envelope, cursor: string) {
  if (!params) return [];
  if (cursor !== '') return withMembers(body, params, { cursor: JSON.stringify(cursor) });
  const { cursor: _, ...others }: Record<string, unknown> = {
    ...Object(JSON.parse(body.toString('utf8', params.start, params.end))),
  };
  return [{ span: params, text: JSON.stringify(others) }];
}
