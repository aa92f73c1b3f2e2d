import { setTimeout as pause } from 'node:timers/promises';
import type { Gateway } from '#gateway/gateway';
import type { OtherNodes } from '#gateway/other-nodes';
import type { Log } from '#log/log';
import type { FailedAttempts } from '#oauth/failed-attempts';
import type { RequestRate } from '#scim/request-rate';
import type { MasterKey } from '#secrets/master-key';
import type { LocalBus } from '#nodes/local-bus';
import type { NatsBus, NatsPlace } from '#nodes/nats-bus';
import type { NodeBus } from '#nodes/node-bus';
import { NodeEvents, type NodeEvent } from '#nodes/node-events';
import { NodeLinks } from '#nodes/node-links';
import { newInstance, NodeRegistry } from '#nodes/node-registry';
import type { OwnerSocket } from '#nodes/owner-socket';
import { RemoteAgents } from '#nodes/remote-agents';
import { answerNode, callNode, isForGateway } from '#nodes/remote-calls';
import type { Closers } from './closers.ts';
import { openPostgresStores, openStores, type PostgresPlace, type Stores } from './stores.ts';

const drainMs = 10_000;

/** One of several processes that share the SQLite database of a data folder. */
export interface SharedFolder {
  readonly socket: OwnerSocket;
  /** Whether this process is the owner. Other processes answer only calls without a session and token requests themselves. */
  readonly isOwner: boolean;
}

/** The PostgreSQL database that several nodes share. */
export interface SharedDatabase extends PostgresPlace {
  readonly nodeName: string;
  /** The NATS server over which nodes pass calls to each other. Without one, and without a local bus, each node answers alone. */
  readonly nats?: NatsPlace | undefined;
}

export interface NodeOptions {
  readonly dataDir: string;
  readonly database?: SharedDatabase | undefined;
  /** Connects the processes of this host. Not used with NATS, which connects all nodes. */
  readonly localBus?: LocalBus | undefined;
  readonly log: Log;
  readonly maxBodyBytes: number;
  readonly proxy: { readonly version: string };
}

interface OpenDatabase {
  readonly stores: Stores;
  /** Where nodes share PostgreSQL. */
  readonly nodes: NodeRegistry | undefined;
  /** The random name of this process; `undefined` if no other process shares the database. */
  readonly instance: string | undefined;
}

/** Opens the database, and where nodes share it enters this process in their list. */
export async function openDatabase(
  { dataDir, database, localBus, log, proxy }: NodeOptions,
  closers: Closers,
): Promise<OpenDatabase> {
  if (!database) {
    const stores = await openStores(dataDir);
    closers.push(() => stores.close());
    return { stores, nodes: undefined, instance: localBus && newInstance() };
  }
  // The registry and the database need each other: the database asks it before each admission.
  const registry: { nodes?: NodeRegistry } = {};
  const stores = await openPostgresStores(database, {
    mayAdmit: () => registry.nodes?.isSeen() ?? false,
    failed: (err) => log.warn({ err }, 'the database did not answer'),
  });
  closers.push(() => stores.close());
  const nodes = new NodeRegistry(stores.db, {
    name: database.nodeName,
    version: proxy.version,
    failed: (err) => log.error({ err }, 'this node could not write that it is alive'),
  });
  registry.nodes = nodes;
  await nodes.open();
  closers.push(() => nodes.close());
  return { stores, nodes, instance: nodes.instance };
}

/** The parts of this node that answer other nodes. */
export interface AnsweringNode {
  readonly gateway: Gateway;
  /** Counts failed attempts to guess credentials of clients and of agents. */
  readonly attempts: Readonly<Record<'clients' | 'agents', FailedAttempts>>;
  /** Counts the requests of directories. */
  readonly scimRate: RequestRate;
}

/** The calls between this node and the others. */
export interface RemoteNodes {
  readonly send: NonNullable<OtherNodes['send']>;
  readonly agents: RemoteAgents;
  /** Waits until NATS has answered. Rejects when it cannot be reached. Absent where no NATS is used. */
  readonly probe: (() => Promise<void>) | undefined;
  readonly tell: (event: NodeEvent) => void;
  /** Answers calls of other nodes, and handles their events, from now on. */
  readonly answerWith: (answering: AnsweringNode) => void;
  /** Accepts no more calls of other nodes. */
  readonly drain: () => void;
  /** Waits up to ten seconds until the calls in progress are over. */
  readonly drained: () => Promise<void>;
}

/** Connects this node to the others where NATS or a local bus leads to them. @throws {CommandError} when NATS cannot be used */
export async function openNodeLinks(
  { database, localBus, log, maxBodyBytes }: NodeOptions,
  { instance, nodes, masterKey }: Omit<OpenDatabase, 'stores'> & { masterKey: MasterKey },
  closers: Closers,
): Promise<RemoteNodes | undefined> {
  const nats = database?.nats && (await openNats(database.nats, log));
  const bus: NodeBus | undefined = nats ?? localBus;
  if (!bus || instance === undefined) return undefined;
  const answering: Partial<AnsweringNode> = {};
  const events = new NodeEvents({
    bus,
    masterKey,
    instance,
    wallMs: () => Date.now(),
    onEvent(event, from) {
      if (event.type === 'guessed') answering.attempts?.[event.at].noteFailure(event.subject);
      else if (event.type === 'provisioned') answering.scimRate?.heard(event.counts);
      else answering.gateway?.heard(event, from);
    },
  });
  const nowMs = () => performance.now();
  const links = new NodeLinks({
    bus,
    masterKey,
    instance,
    nowMs,
    wallMs: () => Date.now(),
    ended: (other, reason) => log.info({ instance: other, reason }, 'a link to another node ended'),
    accept(opening, stream) {
      const { gateway } = answering;
      if (!gateway || links.isDraining) return stream.reset('stopping');
      const answered = isForGateway(opening)
        ? answerNode(opening, stream, { gateway, maxBodyBytes })
        : agents.answer(opening, stream);
      answered.catch((err: unknown) => {
        log.error({ err }, 'a call of another node was not answered');
        stream.reset('broken');
      });
    },
  });
  const agents = new RemoteAgents(links, { mayAnswer: () => nodes?.isSeen() ?? true, nowMs });
  closers.push(() => {
    events.close();
    return links.close();
  });
  return {
    agents,
    probe: nats && (() => nats.probe()),
    tell: (event) => events.tell(event),
    send: (other, call) => callNode(links, other, call),
    answerWith(answers) {
      Object.assign(answering, answers);
    },
    drain() {
      links.drain();
      agents.drain();
    },
    async drained() {
      const until = performance.now() + drainMs;
      while (links.streams > 0 && performance.now() < until) await pause(50);
    },
  };
}

async function openNats(nats: NatsPlace, log: Log): Promise<NatsBus> {
  const { NatsBus } = await import('#nodes/nats-bus');
  return NatsBus.open(nats, (isConnected) =>
    isConnected
      ? log.info({}, 'NATS is back')
      : log.warn({}, 'NATS cannot be reached: calls for other nodes are refused until it is back'),
  );
}
