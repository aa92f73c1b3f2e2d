import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import type SMTPConnection from 'nodemailer/lib/smtp-connection';

import type { MailServerSettings } from '#db/mail';
import { shellWord } from '#model/shell-word';
import { redact } from 'latchkey-mcp/safe-text';
import {
  checkedAddresses,
  hostAndPort,
  isNamed,
  hostFault,
  OutboundError,
  type OutboundGuard,
  pinnedLookup,
} from '#outbound/checked-addresses';

/** How long a connection may take to open, a silence within it may last, and one mail may take. */
const connectMs = 10_000;
const silenceMs = 20_000;
export const mailMs = 60_000;
const longestAnswer = 300;
const mostAnswerBytes = 64 * 1024;

/** Why no mail can be sent through a server now. `message` is a predicate whose subject is the server, and has no secret. */
export class MailServerError extends Error {
  override readonly name = 'MailServerError';
}

/** A mail, ready to be sent. */
export interface OutgoingMail {
  readonly from: string;
  readonly to: string;
  readonly message: Buffer;
}

/**
 * The result of sending a mail. `later`: the server refused it for now. `refused`: the server refused it permanently. `words` are a
 * predicate whose subject is the server.
 */
export interface MailResult {
  readonly outcome: 'sent' | 'later' | 'refused';
  readonly words: string;
}

/** An open connection to a mail server, which takes one mail after the other. */
export interface MailSession {
  /** @throws {MailServerError} when the connection broke: whether the mail was accepted is then unknown */
  send(mail: OutgoingMail): Promise<MailResult>;
  close(): void;
}

interface MailSessionPorts {
  readonly guard: OutboundGuard;
  /** The name that this server greets with. */
  readonly name: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Checks the settings of a server without connecting. Returns the problem as a predicate whose subject is the field. Mail is sent
 * unencrypted only to hosts that the operator named, because only those can be in the private network.
 */
export function mailSecurityProblem(
  { host, port, security }: Pick<MailServerSettings, 'host' | 'port' | 'security'>,
  allowedHosts: readonly string[],
): string | undefined {
  if (security !== 'none') return undefined;
  const url = mailServerUrl({ host, port });
  return isNamed(url, allowedHosts)
    ? undefined
    : `must be encrypted, unless the operator of Latchkey allows the host: latchkey-server outbound allow ${shellWord(hostAndPort(url))}`;
}

/** The host and port of a mail server, in the form that `checkedAddresses` takes. */
export function mailServerUrl({ host, port }: Pick<MailServerSettings, 'host' | 'port'>): URL {
  return new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
}

/**
 * Connects to a mail server, encrypts the connection as its settings say, and signs in if they name a user. It dials the addresses that
 * were checked, even if the name resolves to others later.
 *
 * RFC 5321, RFC 3207 (STARTTLS), RFC 4954 (AUTH)
 *
 * @throws {MailServerError}
 */
export async function openMailSession(
  server: MailServerSettings & { readonly password: string | undefined },
  ports: MailSessionPorts,
): Promise<MailSession> {
  const { guard, name, signal } = ports;
  const problem = mailSecurityProblem(server, guard.allowedHosts);
  if (problem !== undefined) throw new MailServerError(problem);
  // Loaded here, because most servers send no mail.
  const { default: Connection } = await import('nodemailer/lib/smtp-connection');
  const socket = await dial(server, guard, signal);
  const connection = new Connection({
    connection: socket,
    host: server.host,
    port: server.port,
    name,
    secure: server.security === 'tls',
    requireTLS: server.security === 'starttls',
    ignoreTLS: server.security === 'none',
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    socketTimeout: silenceMs,
    maxResponseSize: mostAnswerBytes,
    tls: { minVersion: 'TLSv1.2' },
    logger: false,
  });
  const session = new OpenSession(connection, secretsOf(server));
  signal?.addEventListener('abort', () => session.close(), { once: true });
  try {
    await session.signIn(server);
  } catch (error) {
    session.close();
    throw error;
  }
  return session;
}

async function dial(
  server: MailServerSettings,
  guard: OutboundGuard,
  signal: AbortSignal | undefined,
): Promise<Socket> {
  const url = mailServerUrl(server);
  const addresses = await checkedAddresses(url, guard).catch((error: unknown) => {
    if (!(error instanceof OutboundError)) throw error;
    throw new MailServerError(hostFault(error));
  });
  const socket = connect({
    host: server.host,
    port: server.port,
    lookup: pinnedLookup(addresses),
    ...(signal && { signal }),
  });
  // Ignores errors until the library listens for them.
  socket.on('error', () => undefined);
  const late = AbortSignal.timeout(connectMs);
  try {
    await once(socket, 'connect', { signal: late });
  } catch {
    socket.destroy();
    throw new MailServerError(late.aborted ? 'did not answer in time' : 'could not be reached');
  }
  return socket;
}

class OpenSession implements MailSession {
  readonly #connection: SMTPConnection;
  /** The secrets that quoted answers of the server must not contain. */
  readonly #secrets: readonly string[];
  /** Settles the step in progress when the connection breaks. */
  #broken: (error: unknown) => void = () => undefined;
  #fault: unknown;

  constructor(connection: SMTPConnection, secrets: readonly string[]) {
    this.#connection = connection;
    this.#secrets = secrets;
    connection.on('error', (error: unknown) => {
      this.#fault ??= error;
      this.#broken(error);
    });
    connection.on('end', () => {
      this.#fault ??= new Error('closed');
      this.#broken(this.#fault);
    });
  }

  async signIn({ user, password }: { user: string | undefined; password: string | undefined }) {
    await this.#step<void>((done) => this.#connection.connect((error) => done(error ?? null)));
    if (user === undefined) return;
    const credentials = { user, pass: password ?? '' };
    await this.#step<unknown>((done) =>
      this.#connection.login({ credentials }, (error, result) => done(error, result)),
    );
  }

  async send({ from, to, message }: OutgoingMail): Promise<MailResult> {
    try {
      const { response } = await this.#step<{ response: string }>((done) =>
        this.#connection.send({ from, to: [to], size: message.length }, message, done),
      );
      return { outcome: 'sent', words: this.#said(response) };
    } catch (error) {
      const code = responseCodeOf(error);
      if (code === undefined || this.#fault !== undefined) throw error;
      // A server that answers 421 closes the connection, so it takes no other mail in it.
      if (code === 421) throw error;
      await this.#step<unknown>((done) => this.#connection.reset(done));
      const outcome = code >= 500 ? 'refused' : 'later';
      return { outcome, words: this.#wordsOf(error) };
    }
  }

  close(): void {
    this.#connection.close();
  }

  /** Runs one step of the protocol. @throws {MailServerError} */
  async #step<Result>(
    run: (done: (error: unknown, result?: Result) => void) => void,
  ): Promise<Result> {
    const late = Promise.withResolvers<Result>();
    const timer = setTimeout(() => {
      this.#fault ??= new Error('late');
      this.#connection.close();
      late.reject(new MailServerError('did not answer in time'));
    }, mailMs);
    try {
      return await Promise.race([
        late.promise,
        new Promise<Result>((resolve, reject) => {
          this.#broken = reject;
          if (this.#fault !== undefined) reject(this.#fault);
          // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library gives a result where there is no error
          else run((error, result) => (error ? reject(error) : resolve(result as Result)));
        }),
      ]);
    } catch (error) {
      throw error instanceof MailServerError ? error : this.#failure(error);
    } finally {
      clearTimeout(timer);
      this.#broken = () => undefined;
    }
  }

  #failure(error: unknown): MailServerError {
    return new MailServerError(this.#wordsOf(error), { cause: error });
  }

  /** Describes an error as a predicate whose subject is the server. */
  #wordsOf(error: unknown): string {
    const cause = error instanceof MailServerError ? error.cause : error;
    const response = memberOf(cause, 'response');
    if (typeof response === 'string') return this.#said(response);
    const fault = memberOf(cause, 'originalCode');
    if (typeof fault === 'string' && /CERT|TLS|SIGNATURE|ISSUER/.test(fault)) {
      return `has a certificate that is not valid (${fault})`;
    }
    switch (memberOf(cause, 'code')) {
      case 'ETIMEDOUT':
        return 'did not answer in time';
      case 'ETLS':
        return 'did not encrypt the connection';
      case 'EAUTH':
        return 'offers no way to sign in that Latchkey knows';
      default:
        return 'ended the connection';
    }
  }

  /** Quotes an answer of the server: on one line, cut, and without secrets. */
  #said(response: string): string {
    // Redacted before spaces are joined, because a password may contain several spaces.
    const hidden = this.#secrets.reduce(
      (text, one) => text.replaceAll(one, '[redacted]'),
      response,
    );
    const words = redact(hidden.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim());
    return `answered “${words.length > longestAnswer ? `${words.slice(0, longestAnswer)}…` : words}”`;
  }
}

function responseCodeOf(error: unknown): number | undefined {
  const cause = error instanceof MailServerError ? error.cause : error;
  const code = memberOf(cause, 'responseCode');
  return typeof code === 'number' ? code : undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** The password in every form in which it is sent. */
function secretsOf({
  user = '',
  password,
}: {
  readonly user: string | undefined;
  readonly password: string | undefined;
}): readonly string[] {
  if (!password) return [];
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  return [base64(`\0${user}\0${password}`), base64(password), password];
}
