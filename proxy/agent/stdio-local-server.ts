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
import { type ChildSession, childSession } from './child-session.ts';
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
/** How long a command counts as legacy. It may be updated in the meantime. */
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
export function stdioLocalServer(options: RunningChildrenOptions): LocalServer {
  const { clock } = options;
  const running = runningChildren(options);
  /** By session id. */
  const sessions = new Map<string, ChildSession>();
  /** By caller. */
  const children = new Map<string, Promise<ChildSession>>();
  /** Ended because their caller left, which says nothing about their era. */
  const left = new WeakSet<ChildSession>();
  /** Until then, `server/discover` is refused without starting a child, because one did not know it. */
  let legacyUntil = 0;

  /** @throws {LocalServerError} `unreachable` when the child ends before it has answered */
  async function openSession(message: Message, request: LocalRequest): Promise<LocalAnswer> {
    const session = await running.open(request.caller, true);
    const answer = await session.request(message, optionsOf(request));
    // No session for a child that has ended already.
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

  /** The child for the caller's requests without a session. */
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
      (await children.get(request.caller))?.send(message);
      return plainAnswer(202);
    }
    if (clock.now() < legacyUntil)
      return plainAnswer(404, refusal(message, -32601, 'Method not found'));
    const session = await childOf(request.caller);
    if (message.method !== 'server/discover') return session.request(message, optionsOf(request));
    return discover(session, message, request);
  }

  /**
   * Legacy children refuse `server/discover`, ignore it or crash. If a child refuses, it gets a request of ours as well,
   * because the caller's may have been invalid.
   */
  async function discover(
    session: ChildSession,
    message: Message,
    request: LocalRequest,
  ): Promise<LocalAnswer> {
    const { signal } = request;
    const answer = await discoverAnswer(session, message, signal);
    if (answer?.isResult) return plainAnswer(200, answer.body);
    const isRunning = answer !== undefined && session.endedHow === undefined;
    const again = isRunning ? await discoverAnswer(session, ownDiscover, signal) : undefined;
    // The caller's `_meta` was incomplete. MCP 2026-07-28 transports
    if (answer && again?.isResult) return plainAnswer(400, answer.body);
    if (answer !== undefined && !left.has(session)) legacyUntil = clock.now() + legacySeconds;
    children.delete(request.caller);
    void session.end();
    return plainAnswer(404, refusal(message, -32601, 'Method not found'));
  }

  /** The child's answer in JSON; `undefined` if it does not answer in time. */
  async function discoverAnswer(
    session: ChildSession,
    message: Message,
    disconnected: AbortSignal,
  ) {
    const timeout = new AbortController();
    const signal = AbortSignal.any([disconnected, timeout.signal]);
    const answered = session.request(message, { accept: 'application/json', signal });
    const expired = clock.sleep(discoverTimeoutMs, timeout.signal).then(() => undefined);
    const answer = await Promise.race([answered, expired]);
    timeout.abort();
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
      if (message.kind === 'request') return session.request(message, optionsOf(request));
      session.send(message);
      return plainAnswer(202);
    }
    if (message.method === 'initialize' && message.kind === 'request')
      return openSession(message, request);
    if (modernVersion(message) !== undefined) return modern(message, request);
    return plainAnswer(400, refusal(message, -32600, 'no session: send initialize first'));
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
      // If the child is still being started, it ends afterwards.
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
  /** The same, for the child behind requests without a session. */
  childIdleSeconds?: number;
  maxSessions?: number;
  maxSessionsPerCaller?: number;
};

/** All running children, including those whose session was closed. */
export interface RunningChildren {
  /**
   * Starts a child for `caller`, with a session or without.
   *
   * @throws {LocalServerError} `busy`, `unreachable`
   */
  open(caller: string, hasSession: boolean): Promise<ChildSession>;

  /** Ends the children of one caller, or all. */
  end(caller?: string): Promise<void>;

  /** Ends all children and starts no more. */
  close(): Promise<void>;
}

/** Limits the number of children, in total and for each caller. Replaces the longest idle one, and ends idle ones. */
export function runningChildren(options: RunningChildrenOptions): RunningChildren {
  const { start, clock, log, maxMessageBytes } = options;
  const { sessionIdleSeconds = 1_800, childIdleSeconds = 300 } = options;
  const { maxSessions = 256, maxSessionsPerCaller = 32 } = options;
  const running = new Set<ChildSession>();
  let starting = 0;
  let closed = false;

  async function open(caller: string, hasSession: boolean): Promise<ChildSession> {
    if (closed) throw new LocalServerError('unreachable', 'the server is closing');
    makeRoom(caller);
    starting += 1;
    const child = await start().finally(() => (starting -= 1));
    const session = childSession(child, { caller, hasSession, maxMessageBytes, clock, log });
    running.add(session);
    void session.ended.then(() => running.delete(session));
    void endWhenIdle(session, hasSession ? sessionIdleSeconds : childIdleSeconds);
    if (closed) await session.end();
    return session;
  }

  /** @throws {LocalServerError} `busy` */
  function makeRoom(caller: string): void {
    const own = [...running].filter((session) => session.caller === caller);
    if (own.length >= maxSessionsPerCaller) {
      const idle = own.filter(({ isBusy }) => !isBusy);
      const [oldest] = idle.sort((a, b) => a.usedAt() - b.usedAt());
      if (!oldest) throw new LocalServerError('busy', 'the caller has too many sessions');
      void oldest.end();
    }
    if (running.size + starting >= maxSessions)
      throw new LocalServerError('busy', `too many sessions (${maxSessions})`);
  }

  async function endWhenIdle(session: ChildSession, idleSeconds: number): Promise<void> {
    const ended = new AbortController();
    void session.ended.then(() => ended.abort());
    while (!ended.signal.aborted) {
      const left = session.usedAt() + idleSeconds - clock.now();
      if (left <= 0) return session.end();
      await clock.sleep(left * 1_000, ended.signal);
    }
  }

  async function end(caller?: string): Promise<void> {
    const ending = [...running].filter((session) => session.caller === (caller ?? session.caller));
    await Promise.all(ending.map(async (session) => session.end()));
  }

  return {
    open,
    end,
    async close() {
      closed = true;
      await end();
    },
  };
}
