import { GatewayRefusal } from '#gateway/gateway-refusal';
import { scanMessage, type Envelope } from '#gateway/json-scan';
import { replaced } from '#gateway/splice';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { isUnknownMethod, responseOf, whole } from './answer-message.ts';
import { askSkills } from './ask-skills.ts';
import { listWithSkills } from './list-with-skills.ts';
import { listenWithSkills } from './listen-with-skills.ts';
import { mergedObject, type WantedMembers } from './merged-object.ts';
import { lists } from './merged-list.ts';
import { OwnSession } from './own-session.ts';
import { sessionNotices } from './session-notices.ts';
import type { SkillFolder } from './skill-folder.ts';
import type { SkillSession, SkillSessions } from './skill-sessions.ts';
import { isSkillUri, skillUriProblem } from './skill-uri.ts';

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
    if (kind) return listWithSkills(this.#upstream, request, { envelope, kind }, this.#folder);
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

  async #read({ request }: Passed, uri: string): Promise<UpstreamAnswer> {
    checkUri(uri);
    const ours = await askSkills(this.#folder, request);
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
