import type { NodeBus } from '#server/nodes/node-bus';
import { NodeLinkError } from '#server/nodes/link-stream';

type Receive = Parameters<NodeBus['subscribe']>[1];

/** NATS within a process, whose messages a test can drop, change and repeat. */
export class MemoryBus {
  readonly published: { readonly subject: string; readonly data: Uint8Array }[] = [];
  /** The messages that arrive for a published one; by default that message itself. */
  onMessage: (subject: string, data: Uint8Array) => readonly Uint8Array[] = (_, data) => [data];
  readonly #receivers = new Map<string, Set<Receive>>();

  /** How many subscriptions all processes have. */
  get subscriptions(): number {
    return [...this.#receivers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** The connection of one process. */
  connect() {
    return {
      isConnected: true,
      onLost: () => {},
      publish: (subject: string, data: Uint8Array) => this.publish(subject, data),
      subscribe: (subject: string, receive: Receive) => {
        const receivers = this.#receivers.get(subject) ?? new Set();
        this.#receivers.set(subject, receivers.add(receive));
        return () => {
          receivers.delete(receive);
          if (receivers.size === 0) this.#receivers.delete(subject);
        };
      },
      request: (subject: string, data: Uint8Array) =>
        new Promise<Uint8Array>((respond, reject) => {
          const receivers = this.#receivers.get(subject);
          if (!receivers) return reject(new NodeLinkError('gone', 'nothing listens there'));
          this.published.push({ subject, data });
          for (const receive of receivers) receive({ data, respond });
        }),
      close: () => Promise.resolve(),
    };
  }

  /** Delivers a message that any client of NATS could have sent. */
  publish(subject: string, data: Uint8Array): void {
    this.published.push({ subject, data });
    const arriving = this.onMessage(subject, data);
    for (const receive of this.#receivers.get(subject) ?? []) {
      for (const message of arriving) receive({ data: message, respond: () => {} });
    }
  }
}
