import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { randomBytes } from 'node:crypto';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import {
  errorAnswer,
  MessageError,
  modernVersion,
  readMessage,
  type Message,
} from 'latchkey-mcp/raw-message';
import type { Child } from './child-process.ts';
import { ChildSession } from './child-session.ts';
import {
  chunksOf,
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
  plainAnswer,
} from './local-server.ts';

/** 192 bits, so that a session id cannot be guessed. */
const sessionIdBytes = 24;
const discoverTimeoutMs = 15_000;
/** How long a command counts as legacy. The time is limited, because the command may be updated. */
const legacySeconds = 3_600;

const ownMeta =
  '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';
const ownDiscover = readMessage(
  Buffer.from(
    `{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{"_meta":${ownMeta}}}`,
  ),
);

/**
 * A command that speaks MCP over stdio, presented as Streamable HTTP. Each session has a child of its own; the modern
 * requests of a caller, which have no session, share one. Children start on demand and end when they are idle.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export class StdioLocalServer implements LocalServer {
  readonly #clock: Clock;
  readonly #running: RunningChildren;
  /** By session id. */
  readonly #sessions = new Map<string, ChildSession>();
  /** By caller. */
  readonly #children = new Map<string, Promise<ChildSession>>();
  /** Children that ended because their caller lost access, which says nothing about their era. */
  readonly #left = new WeakSet<ChildSession>();
  /** Until then, modern requests are refused without starting a child, because a child did not know `server/discover`. */
  #legacyUntil = 0;

  constructor(options: RunningChildrenOptions) {
    this.#clock = options.clock;
    this.#running = new RunningChildren(options);
  }

  async send(request: LocalRequest): Promise<LocalAnswer> {
    const { method, headers, caller, signal } = request;
    if (method === 'POST') return this.#post(request);
    const id = headers['mcp-session-id'];
    if (id === undefined) return plainAnswer(405);
    const session = this.#find(id, caller);
    if (!session) return unknownSession();
    if (method === 'GET') return session.listen(signal);
    this.#sessions.delete(id);
    void session.end();
    return plainAnswer(204);
  }

  async leave(caller: string): Promise<void> {
    // If the child is still being started, it ends afterwards.
    const child = await this.#children.get(caller)?.catch(() => undefined);
    if (child) this.#left.add(child);
    await this.#running.end(caller);
  }

  async reset(): Promise<void> {
    this.#forgetAll();
    await this.#running.end();
  }

  async close(): Promise<void> {
    this.#forgetAll();
    await this.#running.close();
  }

  async #post(request: LocalRequest): Promise<LocalAnswer> {
    let message: Message;
    try {
      message = readMessage(request.body ?? Buffer.alloc(0));
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      return plainAnswer(400, errorAnswer('null', error).bytes);
    }
    const id = request.headers['mcp-session-id'];
    if (id !== undefined) {
      const session = this.#find(id, request.caller);
      if (!session) return unknownSession(message);
      if (message.kind === 'request') return session.request(message, optionsOf(request));
      session.send(message);
      return plainAnswer(202);
    }
    if (message.method === 'initialize' && message.kind === 'request')
      return this.#openSession(message, request);
    if (modernVersion(message) !== undefined) return this.#modern(message, request);
    return plainAnswer(400, refusal(message, -32600, 'no session: send initialize first'));
  }

  /** @throws {LocalServerError} `unreachable` when the child ends before it has answered, `busy` if there are too many sessions */
  async #openSession(message: Message, request: LocalRequest): Promise<LocalAnswer> {
    const session = await this.#running.open(request.caller, true);
    const answered = session.request(message, optionsOf(request));
    const answer = await answered.catch((error: unknown) => {
      void session.end();
      if (session.endedHow === undefined) throw error;
      return undefined;
    });
    // No session for a child that has ended already.
    if (!answer || session.endedHow !== undefined)
      throw new LocalServerError('unreachable', `the MCP server ${session.endedHow}`);
    if (request.signal.aborted) {
      void session.end();
      return answer;
    }
    const id = randomBytes(sessionIdBytes).toString('base64url');
    this.#sessions.set(id, session);
    void session.ended.then(() => this.#sessions.delete(id));
    return { ...answer, headers: { ...answer.headers, 'mcp-session-id': id } };
  }

  /** The child for the caller's requests without a session. */
  async #childOf(caller: string): Promise<ChildSession> {
    const known = this.#children.get(caller);
    if (known) return known;
    const opening = this.#running.open(caller, false);
    this.#children.set(caller, opening);
    const forget = () => {
      if (this.#children.get(caller) === opening) this.#children.delete(caller);
    };
    opening.then(async ({ ended }) => ended).then(forget, forget);
    return opening;
  }

  async #modern(message: Message, request: LocalRequest): Promise<LocalAnswer> {
    if (message.kind !== 'request') {
      (await this.#children.get(request.caller))?.send(message);
      return plainAnswer(202);
    }
    if (this.#clock.now() < this.#legacyUntil)
      return plainAnswer(404, refusal(message, -32601, 'Method not found'));
    const session = await this.#childOf(request.caller);
    if (message.method !== 'server/discover') return session.request(message, optionsOf(request));
    return this.#discover(session, message, request);
  }

  /**
   * Legacy children refuse `server/discover`, ignore it or crash. If a child refuses, we send it a request of our own,
   * because the caller's request may have been invalid.
   */
  async #discover(
    session: ChildSession,
    message: Message,
    { caller, signal }: LocalRequest,
  ): Promise<LocalAnswer> {
    const answer = await this.#discoverAnswer(session, message, signal);
    if (answer?.isResult) return plainAnswer(200, answer.body);
    const isRunning = answer !== undefined && session.endedHow === undefined;
    const again = isRunning ? await this.#discoverAnswer(session, ownDiscover, signal) : undefined;
    // The caller's `_meta` was incomplete. MCP 2026-07-28 transports
    if (answer && again?.isResult) return plainAnswer(400, answer.body);
    if (answer !== undefined && !this.#left.has(session))
      this.#legacyUntil = this.#clock.now() + legacySeconds;
    this.#children.delete(caller);
    void session.end();
    return plainAnswer(404, refusal(message, -32601, 'Method not found'));
  }

  /** The child's answer in JSON, or a refusal if it crashed; `undefined` if it does not answer within `discoverTimeoutMs`. */
  async #discoverAnswer(session: ChildSession, message: Message, disconnected: AbortSignal) {
    const timeout = new AbortController();
    const signal = AbortSignal.any([disconnected, timeout.signal]);
    const asked = session.request(message, { accept: 'application/json', signal });
    const answered = asked.catch((error: unknown) => {
      if (session.endedHow === undefined) throw error;
      return plainAnswer(404, refusal(message, -32601, 'Method not found'));
    });
    const expired = this.#clock.sleep(discoverTimeoutMs, timeout.signal).then(() => undefined);
    const answer = await Promise.race([answered, expired]);
    timeout.abort();
    const body = answer && (await bytesOf(answer));
    return body && { body, isResult: readMessage(body).members.has('result') };
  }

  #find(id: string, caller: string): ChildSession | undefined {
    const session = this.#sessions.get(id);
    return session?.caller === caller ? session : undefined;
  }

  #forgetAll(): void {
    this.#sessions.clear();
    this.#children.clear();
    this.#legacyUntil = 0;
  }
}

function optionsOf({ headers, signal }: LocalRequest): { accept: string; signal: AbortSignal } {
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
  const gathered = new GatheredBytes();
  for await (const chunk of chunksOf(body)) gathered.add(chunk);
  return gathered.length === 0 ? undefined : gathered.whole();
}

export type RunningChildrenOptions = {
  /** Starts another child. @throws {LocalServerError} */
  start: () => Promise<Child>;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
  /** A session ends after being idle for this long. */
  sessionIdleSeconds?: number;
  /** A child without a session ends after being idle for this long. */
  childIdleSeconds?: number;
  maxSessions?: number;
  maxSessionsPerCaller?: number;
};

/**
 * All running children, including those whose session was closed. Limits their number, in total and for each caller. A caller
 * at the limit loses its longest idle child. Children that stay idle are ended.
 */
class RunningChildren {
  readonly #options: RunningChildrenOptions;
  readonly #running = new Set<ChildSession>();
  #starting = 0;
  #closed = false;

  constructor(options: RunningChildrenOptions) {
    this.#options = options;
  }

  /**
   * Starts a child for `caller`, with a session or without.
   *
   * @throws {LocalServerError} `busy`, `unreachable`
   */
  async open(caller: string, hasSession: boolean): Promise<ChildSession> {
    const { start, sessionIdleSeconds = 1_800, childIdleSeconds = 300 } = this.#options;
    if (this.#closed) throw new LocalServerError('unreachable', 'the server is closing');
    this.#makeRoom(caller);
    this.#starting += 1;
    const child = await start().finally(() => (this.#starting -= 1));
    const session = new ChildSession(child, { ...this.#options, caller, hasSession });
    this.#running.add(session);
    void session.ended.then(() => this.#running.delete(session));
    void this.#endWhenIdle(session, hasSession ? sessionIdleSeconds : childIdleSeconds);
    if (this.#closed) await session.end();
    return session;
  }

  /** Ends the children of one caller, or all. */
  async end(caller?: string): Promise<void> {
    const ending = [...this.#running].filter(
      (session) => session.caller === (caller ?? session.caller),
    );
    await Promise.all(ending.map(async (session) => session.end()));
  }

  /** Ends all children and starts no more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.end();
  }

  /** @throws {LocalServerError} `busy` */
  #makeRoom(caller: string): void {
    const { maxSessions = 256, maxSessionsPerCaller = 32 } = this.#options;
    const own = [...this.#running].filter((session) => session.caller === caller);
    if (own.length >= maxSessionsPerCaller) {
      const idle = own.filter(({ isBusy }) => !isBusy);
      const [oldest] = idle.sort((a, b) => a.usedAt() - b.usedAt());
      if (!oldest) throw new LocalServerError('busy', 'the caller has too many sessions');
      void oldest.end();
    }
    if (this.#running.size + this.#starting >= maxSessions)
      throw new LocalServerError('busy', `too many sessions (${maxSessions})`);
  }

  async #endWhenIdle(session: ChildSession, idleSeconds: number): Promise<void> {
    const { clock } = this.#options;
    const ended = new AbortController();
    void session.ended.then(() => ended.abort());
    while (!ended.signal.aborted) {
      const left = session.usedAt() + idleSeconds - clock.now();
      if (left <= 0) return session.end();
      await clock.sleep(left * 1_000, ended.signal);
    }
  }
}
