import { randomBytes } from 'node:crypto';
import {
  errorAnswer,
  MessageError,
  modernVersion,
  readMessage,
  type Message,
} from 'latchkey-mcp/raw-message';
import type { ChildSession } from './child-session.ts';
import {
  chunksOf,
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
} from './local-server.ts';
import { plainAnswer } from './plain-answer.ts';
import { runningChildren, type RunningChildrenOptions } from './running-children.ts';

export type StdioLocalServerOptions = RunningChildrenOptions;

/** 192 bits, so that nobody guesses one. */
const sessionIdBytes = 24;
const discoverTimeoutMs = 15_000;
/** A command may be another one by then. */
const legacySeconds = 3_600;

const ownMeta =
  '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';
const ownDiscover = readMessage(
  Buffer.from(
    `{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{"_meta":${ownMeta}}}`,
  ),
);

/**
 * A command that speaks MCP over its standard input and output, presented as Streamable HTTP. Every
 * session has a child of its own; requests of the modern era, which have none, share one a caller. Children are
 * started when they are needed and end when nobody used them for a while.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export function stdioLocalServer(options: StdioLocalServerOptions): LocalServer {
  const { clock } = options;
  const running = runningChildren(options);
  /** By session id. */
  const sessions = new Map<string, ChildSession>();
  /** By caller. */
  const children = new Map<string, Promise<ChildSession>>();
  /** Those that were ended as their caller left: that says nothing of them. */
  const left = new WeakSet<ChildSession>();
  /** How long nobody asks again, as a child refused `server/discover`, like those of the older era. */
  let legacyUntil = 0;

  /** @throws {LocalServerError} `unreachable` when the child ends before it has answered */
  async function openSession(message: Message, request: LocalRequest): Promise<LocalAnswer> {
    const session = await running.open(request.caller, true);
    const answer = await session.request(message, askingOf(request));
    // Whoever made a child that nobody can use any more gets no session.
    if (session.endedHow !== undefined)
      throw new LocalServerError('unreachable', `the MCP server ${session.endedHow}`);
    if (request.signal.aborted) {
      void session.end();
      return answer;
    }
    const id = randomBytes(sessionIdBytes).toString('base64url');
    sessions.set(id, session);
    void session.ended.then(() => sessions.delete(id));
    return { ...answer, headers: { ...answer.headers, 'mcp-session-id': id } };
  }

  /** The child of that caller's requests without a session. */
  async function childOf(caller: string): Promise<ChildSession> {
    const known = children.get(caller);
    if (known) return known;
    const opening = running.open(caller, false);
    children.set(caller, opening);
    const forget = () => {
      if (children.get(caller) === opening) children.delete(caller);
    };
    opening.then(async ({ ended }) => ended).then(forget, forget);
    return opening;
  }

  async function modern(message: Message, request: LocalRequest): Promise<LocalAnswer> {
    if (message.kind !== 'request') {
      (await children.get(request.caller))?.tell(message);
      return plainAnswer(202);
    }
    if (clock.now() < legacyUntil)
      return plainAnswer(404, refusal(message, -32601, 'Method not found'));
    const session = await childOf(request.caller);
    if (message.method !== 'server/discover') return session.request(message, askingOf(request));
    return discover(session, message, request);
  }

  /**
   * Children of the older era refuse this, say nothing, or die of it. One that refuses is asked once more, in
   * words of our own: the asker's may have been wrong, and say nothing of the child.
   */
  async function discover(
    session: ChildSession,
    message: Message,
    request: LocalRequest,
  ): Promise<LocalAnswer> {
    const { signal } = request;
    const answer = await patiently(session, message, signal);
    if (answer?.isResult) return plainAnswer(200, answer.body);
    const isThere = answer !== undefined && session.endedHow === undefined;
    const again = isThere ? await patiently(session, ownDiscover, signal) : undefined;
    // MCP 2026-07-28 transports: who says too little of itself gets a 400.
    if (answer && again?.isResult) return plainAnswer(400, answer.body);
    if (answer !== undefined && !left.has(session)) legacyUntil = clock.now() + legacySeconds;
    children.delete(request.caller);
    void session.end();
    return plainAnswer(404, refusal(message, -32601, 'Method not found'));
  }

  /** The child's answer in JSON; `undefined` when it says nothing for a while. */
  async function patiently(session: ChildSession, message: Message, gone: AbortSignal) {
    const patience = new AbortController();
    const signal = AbortSignal.any([gone, patience.signal]);
    const asked = session.request(message, { accept: 'application/json', signal });
    const silent = clock.sleep(discoverTimeoutMs, patience.signal).then(() => undefined);
    const answer = await Promise.race([asked, silent]);
    patience.abort();
    const body = answer && (await bytesOf(answer));
    return body && { body, isResult: readMessage(body).members.has('result') };
  }

  async function post(request: LocalRequest): Promise<LocalAnswer> {
    let message: Message;
    try {
      message = readMessage(request.body ?? Buffer.alloc(0));
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      return plainAnswer(400, errorAnswer('null', error).bytes);
    }
    const id = request.headers['mcp-session-id'];
    if (id !== undefined) {
      const session = find(id, request.caller);
      if (!session) return unknownSession(message);
      if (message.kind === 'request') return session.request(message, askingOf(request));
      session.tell(message);
      return plainAnswer(202);
    }
    if (message.method === 'initialize' && message.kind === 'request')
      return openSession(message, request);
    if (modernVersion(message) !== undefined) return modern(message, request);
    return plainAnswer(400, refusal(message, -32600, 'no session: initialize first'));
  }

  function find(id: string, caller: string): ChildSession | undefined {
    const session = sessions.get(id);
    return session?.caller === caller ? session : undefined;
  }

  function forgetAll(): void {
    sessions.clear();
    children.clear();
    legacyUntil = 0;
  }

  async function reset(): Promise<void> {
    forgetAll();
    await running.end();
  }

  return {
    async send(request) {
      const { method, headers, caller, signal } = request;
      if (method === 'POST') return post(request);
      const id = headers['mcp-session-id'];
      if (id === undefined) return plainAnswer(405);
      const session = find(id, caller);
      if (!session) return unknownSession();
      if (method === 'GET') return session.listen(signal);
      sessions.delete(id);
      void session.end();
      return plainAnswer(204);
    },
    async leave(caller) {
      // One that is being started for them ends too, once it is there.
      const child = await children.get(caller)?.catch(() => undefined);
      if (child) left.add(child);
      await running.end(caller);
    },
    reset,
    async close() {
      forgetAll();
      await running.close();
    },
  };
}

function askingOf({ headers, signal }: LocalRequest): { accept: string; signal: AbortSignal } {
  return { accept: headers['accept'] ?? '', signal };
}

function refusal(message: Message, code: number, text: string): Buffer {
  return errorAnswer(message.id ?? 'null', { code, message: text }).bytes;
}

function unknownSession(message?: Message): LocalAnswer {
  const id = message?.kind === 'request' ? (message.id ?? 'null') : 'null';
  return plainAnswer(404, errorAnswer(id, { code: -32001, message: 'Session not found' }).bytes);
}

async function bytesOf({ body }: LocalAnswer): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of chunksOf(body)) chunks.push(chunk);
  return chunks.length === 0 ? undefined : Buffer.concat(chunks);
}
