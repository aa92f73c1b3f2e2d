import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { masterKey, type MasterKey } from '#secrets/master-key';
import { maxMessageBytes } from './link.ts';
import type { NodeBus } from './node-bus.ts';
import { ReplayGuard } from './replay-guard.ts';

const counts = z.array(z.tuple([z.string(), z.number(), z.number()]));

/**
 * An event that a node sends to all others. It grants nothing: a wrong event at worst raises a count, or cancels a caller's own call.
 */
const eventSchema = z.discriminatedUnion('type', [
  /** A caller cancels a request without a session that did not arrive at the sending node. */
  z.object({ type: z.literal('cancelled'), owner: z.string(), request: z.string() }),
  /** Someone tried a wrong credential; `at` names the counter. */
  z.object({ type: z.literal('guessed'), at: z.enum(['clients', 'agents']), subject: z.string() }),
  /** Requests that count against limits: the caller, how many since the last event, how many are open now. */
  z.object({ type: z.literal('counted'), counts }),
  /** How many requests directories sent, by the ids of their organizations. */
  z.object({
    type: z.literal('provisioned'),
    counts: z.array(z.tuple([z.string(), z.int().nonnegative()])).max(1000),
  }),
]);

export type NodeEvent = z.infer<typeof eventSchema>;

const messageSchema = z.object({
  from: z.string(),
  nonce: z.string(),
  sentMs: z.number(),
  event: eventSchema,
});

export interface NodeEventsOptions {
  readonly bus: Pick<NodeBus, 'isConnected' | 'publish' | 'subscribe'>;
  readonly masterKey: Pick<MasterKey, 'derive' | 'mac'>;
  /** Names this process. */
  readonly instance: string;
  /** The wall clock, which all nodes share. */
  readonly wallMs: () => number;
  readonly onEvent: (event: NodeEvent, from: string) => void;
}

/**
 * Passes events between all nodes of an installation. Events are encrypted under the master key, and a node handles each
 * once. While NATS is unreachable they are lost, and each node counts for itself.
 */
export class NodeEvents {
  readonly #options: NodeEventsOptions;
  readonly #sealing: MasterKey;
  readonly #subject: string;
  readonly #stop: () => void;
  readonly #replays: ReplayGuard;
  readonly #subscribedAtMs: number;

  constructor(options: NodeEventsOptions) {
    const { bus, masterKey: key } = options;
    this.#options = options;
    this.#replays = new ReplayGuard(options.wallMs);
    this.#subscribedAtMs = options.wallMs();
    this.#sealing = masterKey(key.derive('events between nodes'));
    this.#subject = `lk.${key.mac('nodes', 'subjects').slice(0, 22)}.events`;
    this.#stop = bus.subscribe(this.#subject, ({ data }) => this.#receive(data));
  }

  /** Tells the other nodes, if they can be reached. */
  tell(event: NodeEvent): void {
    const { bus, instance: from, wallMs } = this.#options;
    if (!bus.isConnected) return;
    const nonce = randomBytes(12).toString('base64url');
    const message: z.infer<typeof messageSchema> = { from, nonce, sentMs: wallMs(), event };
    bus.publish(this.#subject, Buffer.from(this.#sealing.seal('event', JSON.stringify(message))));
  }

  close(): void {
    this.#stop();
  }

  #receive(data: Uint8Array): void {
    // Decrypting garbage costs work, too.
    if (data.length > maxMessageBytes) return;
    const message = this.#read(data);
    const { instance, onEvent } = this.#options;
    if (!message || message.from === instance) return;
    const { nonce, sentMs, from, event } = message;
    // An older event may be a replay, because this process was not subscribed when its nonce was new.
    if (sentMs < this.#subscribedAtMs) return;
    if (this.#replays.isFirst(nonce, sentMs)) onEvent(event, from);
  }

  /** `undefined` for a message that no node of this installation sent, or an event that this version does not know. */
  #read(data: Uint8Array): z.infer<typeof messageSchema> | undefined {
    try {
      const text = this.#sealing.open('event', Buffer.from(data).toString('latin1'));
      return messageSchema.safeParse(JSON.parse(text)).data;
    } catch {
      return undefined;
    }
  }
}
