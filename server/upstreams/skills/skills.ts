import { emptyAnswer } from '#gateway/adapter-messages';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import {
  messageIn,
  type UpstreamAnswer,
  type UpstreamRequest,
  type UpstreamSend,
  type UpstreamStep,
} from '#gateway/upstream';
import { replaced } from 'latchkey-mcp/json-edit';
import type { Envelope } from 'latchkey-mcp/message';
import { lists, listWithSkills } from './lists.ts';
import { listenInSession, listenWithSkills } from './notifications.ts';
import type { SkillProblem } from './read-skill-folder.ts';
import {
  isUnknownMethod,
  mergeObject,
  readResponse,
  requestSkills,
  wholeAnswer,
  type AddedMembers,
} from './responses.ts';
import { sendCancellable, SkillSessions, type SkillSession } from './sessions.ts';
import type { SkillFolder } from './skill-folder.ts';
import { isSkillUri, skillUriProblem } from './skill-uri.ts';
import type { Target } from '#model/endpoints';

export interface SkillFoldersOptions {
  /** Called for every file in the folder of a server that cannot be served. */
  readonly onProblem: (server: string, problem: SkillProblem) => void;
  readonly onError: (server: string, error: unknown) => void;
}

/** The folders of skills that the operator configured, by `organization/server`. */
export class SkillFolders {
  readonly #folders: ReadonlyMap<string, SkillFolder>;
  readonly #sessions = new SkillSessions();

  private constructor(folders: ReadonlyMap<string, SkillFolder>) {
    this.#folders = folders;
  }

  static async open(
    folders: ReadonlyMap<string, string>,
    options: SkillFoldersOptions,
  ): Promise<SkillFolders> {
    const opened = [...folders].map(async ([server, root]) => {
      // Loaded here, because most installations have no skills, and the MCP SDK that this module loads takes eight megabytes.
      const { SkillFolder } = await import('./skill-folder.ts');
      const folder = await SkillFolder.open(root, {
        onProblem: (problem) => options.onProblem(server, problem),
        onError: (error) => options.onError(server, error),
      });
      return [server, folder] as const;
    });
    return new SkillFolders(new Map(await Promise.all(opened)));
  }

  /** Adds the skills of a server, if it has any, for one session owner. */
  stepFor({ organization, name }: Target, owner: string): UpstreamStep | undefined {
    if (this.#folders.size === 0) return undefined;
    const folder = this.#folders.get(`${organization}/${name}`);
    return folder && skillStep({ folder, sessions: this.#sessions, owner });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#folders.values()].map((folder) => folder.close()));
  }
}

/** The capabilities that skills add to a server. */
const capabilities: AddedMembers = {
  resources: { listChanged: true, subscribe: true },
  extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
};

/** A request on its way through the skills of a server to its upstream. */
interface Passage {
  readonly folder: SkillFolder;
  readonly sessions: SkillSessions;
  readonly owner: string;
  readonly next: UpstreamSend;
}

interface ReceivedMessage {
  readonly request: UpstreamRequest;
  readonly envelope: Envelope;
  readonly session: SkillSession | undefined;
}

/**
 * Adds a folder of skills to an upstream, for one session owner: to its capabilities, its lists, what can be read, and the
 * notifications of changes. Messages that do not concern resources pass untouched. A skill of the folder replaces one
 * of the upstream with the same URI.
 */
export function skillStep({ folder, sessions, owner }: Omit<Passage, 'next'>): UpstreamStep {
  return async (sent, next) => {
    const at = { folder, sessions, owner, next };
    const sessionId = sent.headers['mcp-session-id'];
    const session = sessions.find(owner, sessionId);
    const isOwn = session?.isOwn ?? sessions.isOwnId(sessionId);
    if (isOwn && !session) return emptyAnswer(404);
    const request = isOwn ? withoutSession(sent) : sent;
    if (sent.method === 'GET' && session) {
      const listen = async (signal: AbortSignal) =>
        session.isOwn ? undefined : next({ ...request, signal });
      return listenInSession(listen, request, session, folder);
    }
    if (sent.method === 'DELETE') {
      sessions.close(owner, sessionId);
      return isOwn ? emptyAnswer(204) : next(request);
    }
    const message = messageIn(sent);
    if (!message) return next(request);
    const received = { request, envelope: message.envelope, session };
    if (session?.isOwn !== true) return handle(received, at);
    return sendCancellable(received, session, (cancellable) =>
      handle({ ...received, request: cancellable }, at),
    );
  };
}

function handle(received: ReceivedMessage, at: Passage): Promise<UpstreamAnswer> {
  const { envelope, request } = received;
  const { method = '', uri } = envelope;
  if (envelope.kind !== 'request') return at.next(request);
  const kind = Object.hasOwn(lists, method) ? lists[method] : undefined;
  if (kind) return listWithSkills(at.next, request, { envelope, kind }, at.folder);
  switch (method) {
    case 'initialize':
      return initialize(request, at);
    case 'server/discover':
      return addCapabilities(request, at);
    case 'subscriptions/listen':
      return listenWithSkills(at.next, request, envelope, at.folder);
    case 'resources/read':
    case 'skills/get':
    case 'resources/directory/read':
      return isSkillUri(uri) ? read(received, uri, at) : at.next(request);
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return isSkillUri(uri) ? subscribe(received, uri, at) : at.next(request);
    default:
      return at.next(request);
  }
}

async function addCapabilities(request: UpstreamRequest, at: Passage): Promise<UpstreamAnswer> {
  const answer = await at.next(request);
  const response = await readResponse(answer);
  if (!response) return answer;
  const { message, result } = response;
  const edits = result ? mergeObject(message, result, { capabilities }) : [];
  return wholeAnswer(replaced(message, edits), answer);
}

/** A caller of an upstream without sessions gets a session of ours, so that it can be notified of changes. */
async function initialize(request: UpstreamRequest, at: Passage): Promise<UpstreamAnswer> {
  const answer = await addCapabilities(request, at);
  const { status, sessionId, body } = answer;
  const isResult = body instanceof Uint8Array && Buffer.from(body).includes('"result"');
  if (status !== 200 || !isResult) return answer;
  const { version } = at.folder.feed;
  return { ...answer, sessionId: at.sessions.open(at.owner, sessionId, version) };
}

async function read(
  { request }: ReceivedMessage,
  uri: string,
  at: Passage,
): Promise<UpstreamAnswer> {
  checkUri(uri);
  const ours = await requestSkills(at.folder, request);
  if (ours.result) return wholeAnswer(ours.message);
  const answer = await at.next(request);
  const theirs = await readResponse(answer);
  if (isUnknownMethod(theirs)) return wholeAnswer(ours.message);
  return theirs ? wholeAnswer(theirs.message, answer) : answer;
}

async function subscribe(
  { request, envelope, session }: ReceivedMessage,
  uri: string,
  at: Passage,
): Promise<UpstreamAnswer> {
  checkUri(uri);
  const isUnsubscribe = envelope.method === 'resources/unsubscribe';
  const isKnown = at.folder.serves(uri) || session?.subscribed.has(uri) === true;
  if (!isKnown) return at.next(request);
  if (!session)
    throw new GatewayRefusal('bad_params', { detail: 'subscribing requires a session' });
  if (isUnsubscribe) session.subscribed.delete(uri);
  else session.subscribed.add(uri);
  return wholeAnswer(Buffer.from(`{"jsonrpc":"2.0","id":${envelope.id ?? 'null'},"result":{}}`));
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
