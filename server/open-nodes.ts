import { setTimeout as pause } from 'node:timers/promises';
import type { Gateway } from '#gateway/gateway';
import type { OtherNodes } from '#gateway/other-nodes';
import type { Log } from '#log/log';
import type { MasterKey } from '#oauth/master-key';
import { NodeBus, type NatsPlace } from './nodes/node-bus.ts';
import { NodeLinks } from './nodes/node-links.ts';
import { NodeRegistry } from './nodes/node-registry.ts';
import { RemoteAgents } from './nodes/remote-agents.ts';
import { answerNode, callNode, isForGateway } from './nodes/remote-calls.ts';
import { openPostgresStores, openStores, type PostgresPlace, type Stores } from './stores.ts';

const drainMs = 10_000;

/** The PostgreSQL database that several nodes share. */
export interface SharedDatabase extends PostgresPlace {
  readonly nodeName: string;
  /** Over which nodes pass calls to each other; without it, each node answers what it can. */
  readonly nats?: NatsPlace | undefined;
}

export interface NodeOptions {
  readonly dataDir: string;
  readonly database?: SharedDatabase | undefined;
  readonly log: Log;
  readonly maxBodyBytes: number;
  readonly proxy: { readonly version: string };
}

/** Opens the database, and where it is shared enters this process in the list of nodes. */
export async function openDatabase(
  { dataDir, database, log, proxy }: NodeOptions,
  closers: (() => Promise<void>)[],
): Promise<{ stores: Stores; nodes: NodeRegistry | undefined }> {
  if (!database) {
    const stores = await openStores(dataDir);
    closers.push(() => stores.close());
    return { stores, nodes: undefined };
  }
  // It needs the database, which asks it before anybody is admitted.
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
  return { stores, nodes };
}

/** The calls between this node and the others. */
export interface RemoteNodes {
  readonly send: NonNullable<OtherNodes['send']>;
  readonly agents: RemoteAgents;
  /** Answers calls of other nodes from now on. */
  readonly answerWith: (gateway: Gateway) => void;
  /** Accepts no more calls of other nodes. */
  readonly drain: () => void;
  /** Waits up to ten seconds until the calls in progress are over. */
  readonly drained: () => Promise<void>;
}

/** Connects this node to the others where NATS is configured. @throws {CommandError} when NATS cannot be used */
export async function openNodeLinks(
  { database, log, maxBodyBytes }: NodeOptions,
  { nodes, masterKey }: { nodes: NodeRegistry | undefined; masterKey: MasterKey },
  closers: (() => Promise<void>)[],
): Promise<RemoteNodes | undefined> {
  if (!database?.nats || !nodes) return undefined;
  const bus = await NodeBus.open(database.nats, (isConnected) =>
    isConnected
      ? log.info({}, 'NATS is back')
      : log.warn({}, 'NATS cannot be reached: calls for other nodes are refused until it is back'),
  );
  const answering: { gateway?: Gateway } = {};
  const links = new NodeLinks({
    bus,
    masterKey,
    instance: nodes.instance,
    nowMs: () => performance.now(),
    ended: (instance, reason) => log.info({ instance, reason }, 'a link to another node ended'),
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
  const agents = new RemoteAgents(links);
  closers.push(() => links.close());
  return {
    agents,
    send: (instance, call) => callNode(links, instance, call),
    answerWith(gateway) {
      answering.gateway = gateway;
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
