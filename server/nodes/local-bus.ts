import { NodeLinkError } from './link-stream.ts';
import type { BusRequest, NodeBus } from './node-bus.ts';

// A bus between the processes of one installation on one host. Each process is connected to a broker in the process that started
// them all, by a channel of the operating system that no other process can open.

const requestTimeoutMs = 1000;

/** What a process sends to the broker. */
export type ToBroker =
  | { readonly type: 'subscribe' | 'unsubscribe'; readonly subject: string }
  | { readonly type: 'publish'; readonly subject: string; readonly data: Uint8Array }
  | {
      readonly type: 'request';
      readonly subject: string;
      readonly data: Uint8Array;
      /** Identifies the request within its process. */
      readonly id: number;
    }
  | { readonly type: 'answer'; readonly to: ReturnAddress; readonly data: Uint8Array };

/** What the broker sends to a process. */
export type FromBroker =
  | {
      readonly type: 'message';
      readonly subject: string;
      readonly data: Uint8Array;
      /** Where the answer goes, if the sender waits for one. */
      readonly from?: ReturnAddress | undefined;
    }
  | { readonly type: 'answer'; readonly id: number; readonly data: Uint8Array }
  | { readonly type: 'absent'; readonly id: number }
  /** A process has ended, and nothing else listens to these subjects. */
  | { readonly type: 'died'; readonly subjects: readonly string[] };

type Delivered = Extract<FromBroker, { readonly type: 'message' }>;

interface ReturnAddress {
  readonly connection: number;
  readonly id: number;
}

/** The broker's end of the connection to one process. */
export interface BrokerConnection {
  receive(message: ToBroker): void;
  /** The process has ended. */
  close(): void;
}

/** Passes the messages of processes to those that subscribed to their subjects. */
export class LocalBroker {
  readonly #senders = new Map<number, (message: FromBroker) => void>();
  readonly #subscribers = new Map<string, Set<number>>();
  #connections = 0;

  connect(send: (message: FromBroker) => void): BrokerConnection {
    this.#connections += 1;
    const connection = this.#connections;
    this.#senders.set(connection, send);
    return {
      receive: (message) => this.#receive(connection, message),
      close: () => {
        this.#senders.delete(connection);
        const listened = [...this.#subscribers.keys()];
        const subjects = listened.filter((subject) => this.#unsubscribe(connection, subject));
        if (subjects.length === 0) return;
        for (const tell of this.#senders.values()) tell({ type: 'died', subjects });
      },
    };
  }

  #receive(connection: number, message: ToBroker): void {
    switch (message.type) {
      case 'subscribe': {
        const subscribers = this.#subscribers.get(message.subject) ?? new Set();
        this.#subscribers.set(message.subject, subscribers.add(connection));
        return;
      }
      case 'unsubscribe':
        return void this.#unsubscribe(connection, message.subject);
      case 'publish':
        return this.#deliver(message);
      case 'request': {
        const { id } = message;
        if (this.#subscribers.has(message.subject)) {
          return this.#deliver({ ...message, from: { connection, id } });
        }
        return this.#senders.get(connection)?.({ type: 'absent', id });
      }
      case 'answer': {
        const { to, data } = message;
        return this.#senders.get(to.connection)?.({ type: 'answer', id: to.id, data });
      }
    }
  }

  #deliver({ subject, data, from }: Omit<Delivered, 'type'>): void {
    for (const subscriber of this.#subscribers.get(subject) ?? []) {
      this.#senders.get(subscriber)?.({ type: 'message', subject, data, from });
    }
  }

  /** @returns whether it was the last subscriber */
  #unsubscribe(connection: number, subject: string): boolean {
    const subscribers = this.#subscribers.get(subject);
    subscribers?.delete(connection);
    return subscribers?.size === 0 && this.#subscribers.delete(subject);
  }
}

/** A process's connection to the broker. It lasts as long as the process: a process that loses its broker ends. */
export class LocalBus implements NodeBus {
  onLost: () => void = () => {};
  onDied: (subjects: readonly string[]) => void = () => {};
  readonly #send: (message: ToBroker) => void;
  readonly #receivers = new Map<string, Set<(message: BusRequest) => void>>();
  /** The callbacks of waiting requests, by id. They receive the answer, or `undefined` if there is none. */
  readonly #waiting = new Map<number, (data: Uint8Array | undefined) => void>();
  #requests = 0;
  #isConnected = true;

  constructor(send: (message: ToBroker) => void) {
    this.#send = send;
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  publish(subject: string, data: Uint8Array): void {
    this.#checkOpen();
    this.#send({ type: 'publish', subject, data });
  }

  subscribe(subject: string, receive: (message: BusRequest) => void): () => void {
    const receivers = this.#receivers.get(subject) ?? new Set();
    if (receivers.size === 0) this.#send({ type: 'subscribe', subject });
    this.#receivers.set(subject, receivers.add(receive));
    return () => {
      if (!receivers.delete(receive) || receivers.size > 0) return;
      this.#receivers.delete(subject);
      if (this.#isConnected) this.#send({ type: 'unsubscribe', subject });
    };
  }

  async request(subject: string, data: Uint8Array): Promise<Uint8Array> {
    this.#checkOpen();
    this.#requests += 1;
    const id = this.#requests;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new NodeLinkError('unreachable', 'the other process did not answer'));
      }, requestTimeoutMs);
      this.#waiting.set(id, (answer) => {
        clearTimeout(late);
        this.#waiting.delete(id);
        if (answer) resolve(answer);
        else reject(new NodeLinkError('gone', 'nothing listens there'));
      });
      this.#send({ type: 'request', subject, data, id });
    });
  }

  receive(message: FromBroker): void {
    switch (message.type) {
      case 'message': {
        const { subject, data, from } = message;
        const respond = (answer: Uint8Array) => {
          if (from && this.#isConnected) this.#send({ type: 'answer', to: from, data: answer });
        };
        for (const receive of this.#receivers.get(subject) ?? []) receive({ data, respond });
        return;
      }
      case 'answer':
        return this.#waiting.get(message.id)?.(message.data);
      case 'absent':
        return this.#waiting.get(message.id)?.(undefined);
      case 'died':
        return this.onDied(message.subjects);
    }
  }

  close(): Promise<void> {
    this.#isConnected = false;
    return Promise.resolve();
  }

  #checkOpen(): void {
    if (!this.#isConnected) throw new NodeLinkError('unreachable', 'this process is stopping');
  }
}
