import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { decideCollectionName, noteNames } from '#server/db/collections';
import { listen } from '#support/loopback';
import { rpc, toolsList } from '#support/mcp-call';
import { bodyOf } from '#support/counted-server';
import {
  admin,
  createCollection,
  createServer as insertMcpServer,
  createServerClient,
  createServerKey,
  keyCall,
  type Records,
  type Shot,
  tokenCall,
} from './credentials.ts';
import type { Installation } from './installation.ts';
import { isAccepted, type Reply, send, sendTo, Tally, wordFor } from './send.ts';

/** The kinds of calls that are made at the same time. */
export const callKinds = ['key', 'token', 'session', 'agent'] as const;
export type CallKind = (typeof callKinds)[number];

/** A call that was not served. */
export interface Failure {
  readonly kind: CallKind;
  readonly word: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

export interface MixedReport {
  readonly seconds: number;
  readonly calls: Readonly<Record<CallKind, number>>;
  readonly failed: Readonly<Record<CallKind, Tally>>;
  /** Sessions that had ended with their node, and were begun again. */
  readonly sessionsLost: number;
  readonly executed: number;
  /** Must be empty: ids that the MCP server executed more than once. */
  readonly executedTwice: readonly string[];
  /** Must be empty: calls that were executed, although their answer said that they may be sent again (503 with `Retry-After`). */
  readonly executedThoughRefused: readonly string[];
  /** Must be empty: calls that were answered without being executed. */
  readonly answeredNotExecuted: readonly string[];
  readonly writes: Readonly<Record<'keysCreated' | 'keysRevoked' | 'failed', number>>;
  /** Must be empty: keys whose creation or revocation was confirmed, but has no effect at the end. */
  readonly lostWrites: readonly string[];
  /** Must be empty: calls that were served although they began after the answer to the revocation of their key. */
  readonly acceptedAfterRevocation: readonly string[];
}

const lanesOfKind: Readonly<Record<CallKind, number>> = { key: 6, token: 6, session: 6, agent: 6 };
const callsOfSession = 20;
const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** The MCP server behind the installation. It counts how often it executed each call, by an id that the call carries. */
export interface CountingUpstream extends AsyncDisposable {
  readonly url: string;
  readonly executions: ReadonlyMap<string, number>;
}

export async function countingUpstream(
  /** The address on which it listens, and at which callers reach it. */
  address = '127.0.0.1',
): Promise<CountingUpstream> {
  const executions = new Map<string, number>();
  const server = createServer((request, response) => {
    void bodyOf(request).then((text) => {
      const { id, method, params } = JSON.parse(text || '{}');
      if (id === undefined) return response.writeHead(202).end();
      const nonce: unknown = params?.arguments?.nonce;
      if (typeof nonce === 'string') executions.set(nonce, (executions.get(nonce) ?? 0) + 1);
      const initialized = {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'counting', version: '1' },
      };
      const results: Record<string, object> = {
        initialize: initialized,
        'tools/list': { tools: [{ name: 'note', inputSchema: { type: 'object' } }] },
        'tools/call': { content: [{ type: 'text', text: 'noted' }] },
        ping: {},
      };
      const result = results[method];
      const error = { code: -32601, message: 'method not found' };
      const reply = { jsonrpc: '2.0', id, ...(result ? { result } : { error }) };
      response.writeHead(200, {
        'content-type': 'application/json',
        ...(method === 'initialize' && { 'mcp-session-id': randomUUID() }),
      });
      return response.end(JSON.stringify(reply));
    });
  });
  const port = await listen(server, address);
  return {
    url: `http://${address}:${port}/mcp`,
    executions,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A server that the load calls, and the name of the tool there that notes calls. */
interface CalledTool {
  readonly server: string;
  readonly tool: string;
}

/** The servers that the load calls, and the credentials for them. */
export interface MixedTargets {
  readonly http: CalledTool;
  readonly behind: CalledTool;
  readonly httpKey: string;
  readonly httpToken: string;
  readonly agentKey: string;
  /** The key that agents connect with. */
  readonly connectKey: string;
}

/**
 * Creates an HTTP server and a server behind an agent, with credentials. `url` is how nodes reach the upstream. `isCollection` says that
 * the load calls a collection of the two instead.
 */
export async function createTargets(
  installation: Installation,
  records: Records,
  { url, isCollection = false }: { readonly url: string; readonly isCollection?: boolean },
): Promise<MixedTargets> {
  await installation.command('server', 'create', 'acme/http', '--http-url', url);
  const created = await installation.command('agent', 'create', 'acme/near', '--json');
  await installation.command('server', 'create', 'acme/behind', '--agent', 'near');
  await insertMcpServer(records, 'keys');
  const { rows } = {
    rows: await records.db.selectFrom('endpoint').select(['id', 'name']).execute(),
  };
  const idOf = (name: string) => rows.find((row) => row.name === name)?.id ?? '';
  const [httpId, behindId] = [idOf('http'), idOf('behind')];
  const all = isCollection && (await createCollection(records, 'all', [httpId, behindId]));
  const http = { server: all ? 'all' : 'http', tool: 'note' };
  const behind = all ? { server: 'all', tool: renamed } : { server: 'behind', tool: 'note' };
  const { id: clientId } = await createServerClient(records, all || httpId, 'load');
  const targets = {
    http,
    behind,
    httpKey: (await createServerKey(records, all || httpId, 'load')).key,
    httpToken: records.token(http.server, { clientId }),
    agentKey: (await createServerKey(records, all || behindId, 'load')).key,
    connectKey: JSON.parse(created).key,
  };
  if (all) await nameTools(records, all, { httpId, behindId });
  return targets;
}

const renamed = 'note_behind';

/** Decides, as an administrator does, under which names a collection shows what both of its members call `note`. */
async function nameTools(
  { db, now }: Records,
  collectionId: string,
  { httpId, behindId }: { readonly httpId: string; readonly behindId: string },
): Promise<void> {
  const lists = [httpId, behindId].map((member) => ({
    kind: 'tool' as const,
    member,
    names: ['note'],
  }));
  await noteNames(db, collectionId, { lists, withApps: [] }, now);
  const pair = { kind: 'tool', member: behindId, name: 'note' } as const;
  await decideCollectionName(db, collectionId, pair, { decision: 'rename', as: renamed });
}

/** A key that a write created, and what is known about its revocation. */
interface WrittenKey {
  readonly id: string;
  readonly key: string;
  isRevoked: boolean;
  /** Whether a revocation was sent whose outcome is unknown. */
  isUnknown: boolean;
}

/** Calls of all kinds and writes at the same time, against any node, until it is stopped. */
export class MixedLoad {
  readonly #installation: Installation;
  readonly #records: Pick<Records, 'admin'>;
  readonly #targets: MixedTargets;
  readonly #upstream: CountingUpstream;
  readonly #calls: Record<CallKind, number> = { key: 0, token: 0, session: 0, agent: 0 };
  readonly #failed: Record<CallKind, Tally> = {
    key: new Tally(),
    token: new Tally(),
    session: new Tally(),
    agent: new Tally(),
  };
  readonly #failures: Failure[] = [];
  readonly #answered: string[] = [];
  readonly #refused: string[] = [];
  readonly #written: WrittenKey[] = [];
  readonly #accepted: string[] = [];
  readonly #probes: Promise<void>[] = [];
  readonly #paceMs: number;
  #writesFailed = 0;
  #sessionsLost = 0;
  #startedAtMs = 0;
  #number = 0;
  #isOver = false;
  #lanes: Promise<unknown> = Promise.resolve();

  /** `paceMs` is what each caller waits between two calls. */
  constructor(
    {
      installation,
      records,
      targets,
      upstream,
    }: {
      installation: Installation;
      records: Pick<Records, 'admin'>;
      targets: MixedTargets;
      upstream: CountingUpstream;
    },
    { paceMs = 0 }: { paceMs?: number } = {},
  ) {
    this.#installation = installation;
    this.#records = records;
    this.#targets = targets;
    this.#upstream = upstream;
    this.#paceMs = paceMs;
  }

  /** Resolves when one call of each kind was served. */
  async start(): Promise<void> {
    const { http, behind, httpKey, httpToken, agentKey } = this.#targets;
    const shots: Record<CallKind, (body: string) => Shot> = {
      key: (body) => keyCall(http.server, httpKey, body),
      token: (body) => tokenCall(http.server, httpToken, body),
      session: (body) => keyCall(http.server, httpKey, body),
      agent: (body) => keyCall(behind.server, agentKey, body),
    };
    for (const kind of callKinds) {
      const deadline = performance.now() + 20_000;
      const ask = () =>
        send(this.#installation, shots[kind](rpc('tools/call', { name: this.#toolOf(kind) })));
      for (let reply = await ask(); !isAccepted(reply); reply = await ask()) {
        if (performance.now() > deadline) throw new Error(`${kind}: ${JSON.stringify(reply)}`);
        await pause(100);
      }
    }
    this.#startedAtMs = performance.now();
    const lanes = callKinds.flatMap((kind) =>
      Array.from({ length: lanesOfKind[kind] }, () =>
        kind === 'session' ? this.#sessions(shots.session) : this.#plainCalls(kind, shots[kind]),
      ),
    );
    this.#lanes = Promise.all([...lanes, this.#writes()]);
    // It is awaited in `stop`; a failure before that must not end the process.
    this.#lanes.catch(() => undefined);
  }

  #toolOf(kind: CallKind): string {
    const { http, behind } = this.#targets;
    return kind === 'agent' ? behind.tool : http.tool;
  }

  get failures(): readonly Failure[] {
    return this.#failures;
  }

  get total(): number {
    return Object.values(this.#calls).reduce((sum, calls) => sum + calls, 0);
  }

  /** Ends the calls, and compares the answers with the executed calls and with the keys that now work. */
  async stop(): Promise<MixedReport> {
    this.#isOver = true;
    await this.#lanes;
    await Promise.all(this.#probes);
    const seconds = (performance.now() - this.#startedAtMs) / 1000;
    const { executions } = this.#upstream;
    return {
      seconds: Math.round(seconds),
      calls: this.#calls,
      failed: this.#failed,
      sessionsLost: this.#sessionsLost,
      executed: executions.size,
      executedTwice: [...executions].filter(([, times]) => times > 1).map(([nonce]) => nonce),
      executedThoughRefused: this.#refused.filter((nonce) => executions.has(nonce)),
      answeredNotExecuted: this.#answered.filter((nonce) => !executions.has(nonce)),
      writes: {
        keysCreated: this.#written.length,
        keysRevoked: this.#written.filter(({ isRevoked }) => isRevoked).length,
        failed: this.#writesFailed,
      },
      lostWrites: await this.#lostWrites(),
      acceptedAfterRevocation: this.#accepted,
    };
  }

  async #plainCalls(kind: CallKind, shot: (body: string) => Shot): Promise<void> {
    while (!this.#isOver) {
      await this.#call(kind, shot);
      if (this.#paceMs > 0) await pause(this.#paceMs);
    }
  }

  async #call(kind: CallKind, shot: (body: string) => Shot): Promise<Reply> {
    this.#number += 1;
    const nonce = `${kind} ${this.#number}`;
    const startedAtMs = performance.now();
    const params = { name: this.#toolOf(kind), arguments: { nonce } };
    const body = rpc('tools/call', params, this.#number);
    const reply = await send(this.#installation, shot(body));
    this.#calls[kind] += 1;
    if (isAccepted(reply)) {
      this.#answered.push(nonce);
      return reply;
    }
    const isSessionGone = kind === 'session' && wordFor(reply) === '404 -32001';
    if (isSessionGone) this.#sessionsLost += 1;
    else this.#failed[kind].add(wordFor(reply));
    if (reply.outcome === 'unreachable' || (reply.outcome === 'answer' && reply.retryAfter)) {
      this.#refused.push(nonce);
    }
    this.#failures.push({
      kind,
      word: isSessionGone ? 'session lost' : wordFor(reply),
      startedAtMs,
      endedAtMs: performance.now(),
    });
    // A caller that is refused asks again later; without a pause it would only count refusals.
    await pause(20);
    return reply;
  }

  /** Makes calls in sessions. Each call goes to a random node, whether or not that node has the session. */
  async #sessions(shot: (body: string) => Shot): Promise<void> {
    while (!this.#isOver) {
      const params = {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'load', version: '1' },
      };
      const opened = await send(this.#installation, shot(rpc('initialize', params)));
      if (!isAccepted(opened) || opened.outcome !== 'answer') {
        await pause(50);
        continue;
      }
      const session: Record<string, string> = {
        ...json,
        'mcp-protocol-version': '2025-06-18',
        ...(opened.sessionId !== undefined && { 'mcp-session-id': opened.sessionId }),
      };
      const inSession = (body: string): Shot => {
        const plain = shot(body);
        return { ...plain, headers: { ...plain.headers, ...session } };
      };
      for (let call = 0; call < callsOfSession && !this.#isOver; call += 1) {
        const reply = await this.#call('session', inSession);
        if (reply.outcome === 'answer' && reply.status === 404) break;
        if (this.#paceMs > 0) await pause(this.#paceMs);
      }
      if (opened.sessionId !== undefined) {
        const { headers, path } = inSession('');
        await send(this.#installation, { method: 'DELETE', path, headers });
      }
    }
  }

  /** Creates keys, and revokes every other one: what is answered must be there at the end. */
  async #writes(): Promise<void> {
    while (!this.#isOver) {
      await pause(20 + this.#paceMs);
      const name = { name: `key ${this.#written.length}` };
      const reply = await send(
        this.#installation,
        admin(this.#records, 'POST', '/servers/keys/keys', name),
      );
      if (reply.outcome !== 'answer' || reply.status !== 201) {
        this.#writesFailed += 1;
        continue;
      }
      const { id, key } = JSON.parse(reply.text);
      const written = { id, key, isRevoked: false, isUnknown: false };
      this.#written.push(written);
      if (this.#written.length % 2 === 0) await this.#revoke(written);
    }
  }

  async #revoke(written: WrittenKey): Promise<void> {
    const { id, key } = written;
    const revoked = await send(this.#installation, admin(this.#records, 'DELETE', `/keys/${id}`));
    if (revoked.outcome !== 'answer' || revoked.status >= 300) {
      this.#writesFailed += 1;
      written.isUnknown = true;
      return;
    }
    written.isRevoked = true;
    // Asks every node in the same turn, even nodes that the balancer believes to be down.
    for (const node of this.#installation.nodes) {
      const asked = sendTo(node, this.#installation, keyCall('keys', key, toolsList));
      this.#probes.push(
        asked.then((reply) => {
          if (isAccepted(reply)) this.#accepted.push(`${id} at ${node.name}`);
        }),
      );
    }
  }

  /** Asks for every key, once all is well again. */
  async #lostWrites(): Promise<string[]> {
    const lost: string[] = [];
    for (const { id, key, isRevoked, isUnknown } of this.#written) {
      if (isUnknown) continue;
      const reply = await this.#certain(keyCall('keys', key, toolsList));
      if (isAccepted(reply) === isRevoked)
        lost.push(await this.#lossOf({ id, key, isRevoked }, reply));
    }
    return lost;
  }

  /** The details that show whether the write is lost or one node answers wrongly. */
  async #lossOf(
    { id, key, isRevoked }: Pick<WrittenKey, 'id' | 'key' | 'isRevoked'>,
    reply: Reply,
  ): Promise<string> {
    const again = this.#installation.nodes.map(async (node) => {
      const asked = await sendTo(node, this.#installation, keyCall('keys', key, toolsList));
      return `${node.name} ${wordFor(asked)}`;
    });
    const text = reply.outcome === 'answer' ? reply.text.slice(0, 300) : '';
    const written = isRevoked ? 'revoked' : 'created';
    return `${id}, ${written}: ${wordFor(reply)} ${text}; then ${(await Promise.all(again)).join(', ')}`;
  }

  /** Asks until an answer does not report that a part of the installation is unavailable. */
  async #certain(shot: Shot): Promise<Reply> {
    const deadline = performance.now() + 20_000;
    for (;;) {
      const reply = await send(this.#installation, shot);
      if (reply.outcome === 'answer' && reply.status < 500) return reply;
      if (performance.now() > deadline) throw new Error(`no answer any more: ${wordFor(reply)}`);
      await pause(100);
    }
  }
}

/** The violations in a report; there must be none. */
export function violationsOf(report: MixedReport): string[] {
  const { executedTwice, executedThoughRefused, answeredNotExecuted, lostWrites } = report;
  const lists = {
    'executed twice': executedTwice,
    'executed, but answered with 503': executedThoughRefused,
    'answered, but not executed': answeredNotExecuted,
    'a confirmed write is lost': lostWrites,
    'accepted after the revocation': report.acceptedAfterRevocation,
  };
  return Object.entries(lists).flatMap(([what, found]) => found.map((one) => `${what}: ${one}`));
}
