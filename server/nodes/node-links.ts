import { createHash, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { parseJson } from 'latchkey-mcp/json-value';
import { z } from 'zod';
import type { MasterKey } from '#secrets/master-key';
import { Link } from './link.ts';
import { BufferedBytes, type LinkStream, NodeLinkError } from './link-stream.ts';
import type { NodeBus } from './node-bus.ts';
import { ReplayGuard } from './replay-guard.ts';

/** Increased by every change that other versions do not understand. */
const protocolVersion = 1;
const checkEveryMs = 250;
/** A node that sent something so recently is taken to be alive. Heartbeats are rarer, so this is only true of a link in use. */
const recentMs = 50;
const maxAcceptedLinks = 1000;
const maxEarly = 16;
/** The largest signed message. Anybody on the bus may send one, and it is parsed before its MAC is checked. */
const maxSignedBytes = 2048;

/** The instance of a node, as `NodeRegistry` makes it. Anything else must not become part of a NATS subject. */
const instanceSchema = z.string().regex(/^[0-9A-Za-z]{16}$/);
const nonce = z.string().regex(/^[\w-]{22}$/);
const openingSchema = z.object({
  link: nonce,
  from: instanceSchema,
  to: instanceSchema,
  version: z.number(),
  sentMs: z.number(),
  nonce,
});
const acceptedSchema = z.object({ version: z.number(), nonce });
const signedSchema = z.object({ text: z.string(), mac: z.string() });

export interface NodeLinksOptions {
  readonly bus: NodeBus;
  readonly masterKey: Pick<MasterKey, 'derive' | 'mac'>;
  /** Names this process. */
  readonly instance: string;
  /** Answers a call of another node. */
  readonly accept: (opening: unknown, stream: LinkStream) => void;
  /** Called when a link has ended, and why. */
  readonly ended: (instance: string, reason: string) => void;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /** The wall clock, which all nodes share. */
  readonly wallMs: () => number;
}

/**
 * The links of this process to the other nodes, each opened by the first call that needs it. A node that cannot prove that it
 * has the master key gets no link. The keys of a link depend on random bits of both nodes, so that a recorded message is
 * invalid in every other link, and a recorded opening is refused.
 */
export class NodeLinks {
  readonly #options: NodeLinksOptions;
  readonly #prefix: string;
  readonly #secret: Buffer;
  readonly #buffered = new BufferedBytes();
  readonly #replays: ReplayGuard;
  readonly #opened = new Map<string, Promise<Link>>();
  /** The links of `#opened` that are connected. */
  readonly #calling = new Map<string, Link>();
  /** The links that this process opened or accepted, by the subject that each sends to. */
  readonly #links = new Map<string, Link>();
  readonly #timer: NodeJS.Timeout;
  #stopListening: () => void;
  #acceptedLinks = 0;
  #checkedAtMs: number;
  #isDraining = false;

  constructor(options: NodeLinksOptions) {
    const { bus, masterKey, instance, nowMs } = options;
    this.#options = options;
    this.#replays = new ReplayGuard(options.wallMs);
    // Installations with other keys may share a NATS server.
    this.#prefix = `lk.${masterKey.mac('nodes', 'subjects').slice(0, 22)}`;
    this.#secret = masterKey.derive('links between nodes');
    this.#checkedAtMs = nowMs();
    this.#timer = setInterval(() => this.checkTimeouts(), checkEveryMs).unref();
    this.#stopListening = bus.subscribe(this.#subject('node', instance), ({ data, respond }) =>
      this.#accept(data, respond),
    );
    bus.onLost = () => this.#endAll('the connection between nodes was lost');
    bus.onDied = (subjects) => {
      for (const subject of subjects) this.#links.get(subject)?.end('the other process has ended');
    };
  }

  /** Calls in progress, of this node at others and of others here. */
  get streams(): number {
    return [...this.#links.values()].reduce((sum, { streams }) => sum + streams, 0);
  }

  /**
   * Lets other nodes find an agent here, or with `process` one of its processes, as long as `mayAnswer` returns true and until
   * the returned function is called.
   */
  announce(agentId: string, mayAnswer: () => boolean, process?: string): () => void {
    const { bus, instance } = this.#options;
    const [here, nowhere] = [Buffer.from(instance), Buffer.alloc(0)];
    const subject = this.#agentSubject(agentId, { process });
    const stops = [
      // If this node does not answer, another one may.
      bus.subscribe(subject, ({ respond }) => {
        if (mayAnswer()) respond(here);
      }),
    ];
    if (process === undefined) {
      const own = this.#agentSubject(agentId, { node: instance });
      stops.push(bus.subscribe(own, ({ respond }) => respond(mayAnswer() ? here : nowhere)));
    }
    return () => {
      for (const stop of stops) stop();
    };
  }

  /**
   * Finds another node that has the agent, or the given process of the agent; with `node`, only that one. `undefined` if there is
   * none. NATS reports a dead process immediately, long before a link to it times out.
   *
   * @throws {NodeLinkError} `unreachable`
   */
  async findAgent(
    agentId: string,
    at: { process?: string; node?: string } = {},
  ): Promise<string | undefined> {
    const subject = this.#agentSubject(agentId, at);
    try {
      const answer = await this.#options.bus.request(subject, new Uint8Array());
      // The answer need not be authentic: the node of this name gets the call only if it proves that it has the master key.
      const found = instanceSchema.safeParse(Buffer.from(answer).toString('latin1')).data;
      return found === this.#options.instance ? undefined : found;
    } catch (error) {
      if (error instanceof NodeLinkError && error.code === 'gone') return undefined;
      throw error;
    }
  }

  /** Whether this node has just received something over the link that its own calls to the other node use. */
  hasJustHeard(instance: string): boolean {
    const link = this.#calling.get(instance);
    return link !== undefined && this.#options.nowMs() - link.lastReceivedAtMs <= recentMs;
  }

  /** Opens a call at another node. @throws {NodeLinkError} `gone`, `unreachable`; in both cases nothing was sent */
  async open(instance: string, opening: object): Promise<LinkStream> {
    if (!this.#options.bus.isConnected) {
      throw new NodeLinkError('unreachable', 'NATS cannot be reached');
    }
    let link = this.#opened.get(instance);
    if (!link) {
      const connecting = this.#connect(instance);
      link = connecting;
      this.#opened.set(instance, connecting);
      connecting.catch(() => this.#forget(instance, connecting));
    }
    return (await link).open(opening);
  }

  /** Runs one round of checks; a timer calls it. */
  checkTimeouts(): void {
    const nowMs = this.#options.nowMs();
    const wasSuspended = nowMs - this.#checkedAtMs > 4 * checkEveryMs;
    this.#checkedAtMs = nowMs;
    for (const link of this.#links.values()) {
      if (wasSuspended) link.forgiveSilence(nowMs);
      link.checkTimeouts(nowMs);
    }
  }

  /** Accepts no more links, so that other nodes treat this one as gone. Calls in progress continue. */
  drain(): void {
    this.#isDraining = true;
    this.#stopListening();
    this.#stopListening = () => {};
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  async close(): Promise<void> {
    this.drain();
    clearInterval(this.#timer);
    for (const link of this.#links.values()) link.close();
    await this.#options.bus.close();
  }

  async #connect(to: string): Promise<Link> {
    const { bus, instance: from, wallMs } = this.#options;
    const id = randomNonce();
    const own = randomNonce();
    const listening: { link?: Link } = {};
    // Messages that arrive together with the answer to the request.
    const early: Uint8Array[] = [];
    const stop = bus.subscribe(this.#linkSubject(id, 'back'), ({ data }) => {
      if (listening.link) listening.link.receive(data);
      else if (early.length < maxEarly) early.push(data);
    });
    try {
      const version = protocolVersion;
      const request = this.#sign({ link: id, from, to, version, sentMs: wallMs(), nonce: own });
      const answer = await bus.request(this.#subject('node', to), request);
      const accepted = this.#verify(answer, `accept ${id}`, acceptedSchema);
      if (accepted?.version !== protocolVersion) {
        throw new NodeLinkError('unreachable', 'the node speaks another version of the protocol');
      }
      const link: Link = this.#add(to, {
        key: this.#keyOf(id, own, accepted.nonce),
        isOpener: true,
        sendsTo: this.#linkSubject(id, 'there'),
        stop: () => {
          stop();
          if (this.#calling.get(to) === link) this.#calling.delete(to);
          const opened = this.#opened.get(to);
          void opened?.then((current) => current === link && this.#forget(to, opened));
        },
      });
      listening.link = link;
      this.#calling.set(to, link);
      for (const message of early.splice(0)) link.receive(message);
      return link;
    } catch (error) {
      stop();
      throw error;
    }
  }

  #accept(data: Uint8Array, respond: (data: Uint8Array) => void): void {
    const { bus, instance } = this.#options;
    const opening = this.#verify(data, 'open', openingSchema);
    // Only a node with the master key can have written this opening, but it may be a replay.
    if (!opening || opening.to !== instance) return;
    const { link: id, from, nonce: theirs, sentMs } = opening;
    if (!this.#replays.isFirst(id, sentMs) || this.#acceptedLinks >= maxAcceptedLinks) return;
    const own = randomNonce();
    const answer = this.#sign({ version: protocolVersion, nonce: own }, `accept ${id}`);
    if (opening.version !== protocolVersion) return respond(answer);
    const listening: { link?: Link } = {};
    const stop = bus.subscribe(this.#linkSubject(id, 'there'), ({ data: message }) =>
      listening.link?.receive(message),
    );
    this.#acceptedLinks += 1;
    listening.link = this.#add(from, {
      key: this.#keyOf(id, theirs, own),
      isOpener: false,
      sendsTo: this.#linkSubject(id, 'back'),
      stop: () => {
        stop();
        this.#acceptedLinks -= 1;
      },
    });
    respond(answer);
  }

  #add(
    instance: string,
    {
      sendsTo,
      stop,
      ...options
    }: {
      key: Buffer;
      isOpener: boolean;
      sendsTo: string;
      stop: () => void;
    },
  ): Link {
    const { accept, bus, ended, nowMs } = this.#options;
    const link: Link = new Link({
      ...options,
      publish: (message) => bus.publish(sendsTo, message),
      accept,
      buffered: this.#buffered,
      nowMs,
      onEnd: (reason) => {
        this.#links.delete(sendsTo);
        stop();
        ended(instance, reason);
      },
    });
    this.#links.set(sendsTo, link);
    return link;
  }

  #forget(instance: string, link: Promise<Link>): void {
    if (this.#opened.get(instance) === link) this.#opened.delete(instance);
  }

  #endAll(reason: string): void {
    for (const link of this.#links.values()) link.end(reason);
  }

  #subject(kind: 'node' | 'agent', name: string): string {
    return `${this.#prefix}.${kind}.${name}`;
  }

  #agentSubject(
    agentId: string,
    { node, process }: { node?: string; process?: string | undefined },
  ): string {
    // Hashed, because the agent chose the name of its process.
    const hashed = process && createHash('sha256').update(process).digest('base64url').slice(0, 22);
    const at = hashed ?? node;
    return this.#subject('agent', at === undefined ? agentId : `${agentId}.${at}`);
  }

  #linkSubject(id: string, direction: 'there' | 'back'): string {
    return `${this.#prefix}.link.${id}.${direction}`;
  }

  #keyOf(id: string, openers: string, accepters: string): Buffer {
    const salt = `${openers} ${accepters}`;
    return Buffer.from(hkdfSync('sha256', this.#secret, salt, id, 32));
  }

  #sign(value: object, purpose = 'open'): Buffer {
    const text = JSON.stringify(value);
    const mac = this.#options.masterKey.mac('nodes', `${purpose} ${text}`);
    return Buffer.from(JSON.stringify({ text, mac }));
  }

  /** The value, or `undefined` if no node of this installation wrote it for this purpose. */
  #verify<Value>(data: Uint8Array, purpose: string, schema: z.ZodType<Value>): Value | undefined {
    if (data.length > maxSignedBytes) return undefined;
    const signed = signedSchema.safeParse(parseJson(Buffer.from(data).toString('utf8')));
    if (!signed.success) return undefined;
    const { text, mac } = signed.data;
    const right = Buffer.from(this.#options.masterKey.mac('nodes', `${purpose} ${text}`));
    const given = Buffer.from(mac);
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
    return schema.safeParse(parseJson(text)).data;
  }
}

function randomNonce(): string {
  return randomBytes(16).toString('base64url');
}
