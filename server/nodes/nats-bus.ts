import {
  AuthorizationError,
  connect,
  credsAuthenticator,
  errors,
  type Authenticator,
  type Msg,
  type NatsConnection,
} from '@nats-io/transport-node';
import { readNamedFile } from '#config/named-file';
import { CommandError } from '#config/usage-error';
import { maxMessageBytes } from './link.ts';
import { NodeLinkError } from './link-stream.ts';
import type { BusRequest, NodeBus } from './node-bus.ts';

const connectTimeoutMs = 5000;
const requestTimeoutMs = 1000;
/** Debian 12 has 2.9, the oldest version that is tested. */
const oldest = { major: 2, minor: 9 };
/** How long other nodes may need to reconnect after NATS was unreachable. */
const returnMs = 3000;

export interface NatsPlace {
  /** `nats://HOST:PORT` or `tls://HOST:PORT`, perhaps with `USER:PASSWORD@`. */
  readonly url: string;
  /** A file with the credentials of a NATS user. */
  readonly credentialsFile?: string | undefined;
}

/** A decoded part of a URL; the text itself if its percent-encoding is invalid. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export class NatsBus implements NodeBus {
  onLost: () => void = () => {};
  readonly #connection: NatsConnection;
  readonly #changed: (isConnected: boolean) => void;
  #isConnected = true;
  #returnedAtMs = -Infinity;

  private constructor(connection: NatsConnection, changed: (isConnected: boolean) => void) {
    this.#connection = connection;
    this.#changed = changed;
    void this.#watch();
  }

  /**
   * `changed` is called when the connection is lost and when it is restored.
   *
   * @throws {CommandError} that says why NATS cannot be used
   */
  static async open(
    place: NatsPlace,
    changed: (isConnected: boolean) => void = () => {},
  ): Promise<NatsBus> {
    const { host, username, password, protocol } = new URL(place.url);
    const credentials = authenticatorOf(place);
    const connection = await connect({
      servers: host,
      name: 'latchkey',
      timeout: connectTimeoutMs,
      maxReconnectAttempts: -1,
      // Keep reconnecting: NATS may accept these credentials again after it refused them.
      ignoreAuthErrorAbort: true,
      reconnectTimeWait: 100,
      reconnectJitter: 50,
      reconnectJitterTLS: 50,
      pingInterval: 2000,
      ...(protocol === 'tls:' && { tls: {} }),
      ...(username !== '' && {
        user: decoded(username),
        pass: decoded(password),
      }),
      ...(credentials && { authenticator: credentials }),
    }).catch((cause: unknown) => {
      throw connectionFault(host, cause);
    });
    try {
      checkServer(host, connection);
    } catch (error) {
      await connection.close();
      throw error;
    }
    return new NatsBus(connection, changed);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  publish(subject: string, data: Uint8Array): void {
    if (!this.#isConnected) throw new NodeLinkError('unreachable', 'NATS cannot be reached');
    this.#connection.publish(subject, data);
  }

  subscribe(subject: string, receive: (message: BusRequest) => void): () => void {
    const subscription = this.#connection.subscribe(subject, {
      callback: (error: Error | null, message: Msg) => {
        if (!error) {
          receive({ data: message.data, respond: (data) => void message.respond(data) });
        }
      },
    });
    return () => {
      if (!this.#connection.isClosed()) subscription.unsubscribe();
    };
  }

  async request(subject: string, data: Uint8Array): Promise<Uint8Array> {
    if (!this.#isConnected) throw new NodeLinkError('unreachable', 'NATS cannot be reached');
    try {
      const answer = await this.#connection.request(subject, data, { timeout: requestTimeoutMs });
      return answer.data;
    } catch (error) {
      const isAbsent =
        error instanceof errors.NoRespondersError ||
        (error instanceof errors.RequestError && error.isNoResponders());
      // If NATS was unreachable, other nodes may not have reconnected yet.
      const isSure = isAbsent && performance.now() - this.#returnedAtMs > returnMs;
      if (isSure) throw new NodeLinkError('gone', 'nothing listens there');
      const message = error instanceof Error ? error.message : 'no answer';
      throw new NodeLinkError('unreachable', message);
    }
  }

  /** Waits until NATS has answered this connection. @throws {NodeLinkError} `unreachable` */
  async probe(): Promise<void> {
    if (!this.#isConnected) throw new NodeLinkError('unreachable', 'NATS cannot be reached');
    await this.#connection.rtt();
  }

  async close(): Promise<void> {
    this.#isConnected = false;
    await this.#connection.flush().catch(() => undefined);
    await this.#connection.close();
  }

  async #watch(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (type === 'disconnect' && this.#isConnected) {
        this.#isConnected = false;
        this.onLost();
        this.#changed(false);
      } else if (type === 'reconnect' && !this.#isConnected) {
        this.#isConnected = true;
        this.#returnedAtMs = performance.now();
        this.#changed(true);
      }
    }
  }
}

function authenticatorOf({ credentialsFile }: NatsPlace): Authenticator | undefined {
  if (credentialsFile === undefined) return undefined;
  const text = readNamedFile({ option: 'nats-credentials', file: credentialsFile });
  if (!/-----BEGIN NATS USER JWT-----/.test(text)) {
    throw new CommandError(
      `${credentialsFile} does not hold credentials of a NATS user`,
      'create such a file with nsc generate creds',
    );
  }
  return credsAuthenticator(Buffer.from(text));
}

function connectionFault(host: string, cause: unknown): CommandError {
  if (cause instanceof AuthorizationError) {
    return new CommandError(
      `NATS at ${host} refused the credentials of this node`,
      'check --nats-credentials, or the user and password in --nats-url',
      { cause },
    );
  }
  const why = cause instanceof Error ? cause.message.toLowerCase() : 'unknown';
  return new CommandError(
    `NATS cannot be reached at ${host}: ${why}`,
    'check --nats-url, and that nats-server is running there',
    { cause },
  );
}

function checkServer(host: string, { info }: NatsConnection): void {
  const [major = 0, minor = 0] = (info?.version ?? '').split('.').map(Number);
  if (major < oldest.major || (major === oldest.major && minor < oldest.minor)) {
    throw new CommandError(
      `NATS at ${host} is version ${info?.version}; nodes need ${oldest.major}.${oldest.minor} or newer`,
    );
  }
  if ((info?.max_payload ?? 0) < maxMessageBytes) {
    throw new CommandError(
      `NATS at ${host} accepts messages of at most ${info?.max_payload} bytes; nodes need ${maxMessageBytes}`,
      'set max_payload: 1MB in the configuration of nats-server',
    );
  }
}
