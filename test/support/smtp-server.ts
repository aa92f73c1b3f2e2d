import { createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

import { listen } from './loopback.ts';

/** A mail as it was accepted. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: string;
  /** The header fields, unfolded, by their names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The text, decoded. */
  readonly text: string;
  /** The message as it came. */
  readonly raw: string;
  /** Whether the connection was encrypted, and as which user its client signed in. */
  readonly isEncrypted: boolean;
  readonly user: string | undefined;
}

interface SmtpServerOptions {
  /** With a certificate, the server offers STARTTLS, or speaks TLS from the start if `isImplicit`. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  readonly isImplicit?: boolean;
  /** The account with which clients must sign in. */
  readonly account?: { readonly user: string; readonly password: string };
}

/** The steps at which a script decides on an answer: a connection, a recipient, the data before it is accepted, or the credentials. */
type Step = 'connect' | 'rcpt' | 'data' | 'auth';

/** An answer of a script: a line that begins with three digits, `hang` for none, or `cut` to close the connection. */
type Answer = `${number} ${string}` | 'hang' | 'cut';

/** An SMTP server on this machine's loopback. RFC 5321, RFC 3207, RFC 4954 */
export interface SmtpServer extends AsyncDisposable {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** How many connections were opened. */
  readonly connections: number;
  /** The names that clients greeted with. */
  readonly greetings: readonly string[];
  /** Answers these steps instead of accepting them; `undefined` accepts. `cut` for `data` closes after the mail was accepted. */
  script(answer: (step: Step, about: string) => Answer | undefined): void;
  /** Resolves when that many mails were accepted. */
  has(count: number): Promise<void>;
}

export async function smtpServer(options: SmtpServerOptions = {}): Promise<SmtpServer> {
  const mails: ReceivedMail[] = [];
  const greetings: string[] = [];
  const waiting = new Set<() => void>();
  const sockets = new Set<Socket>();
  let script: (step: Step, about: string) => Answer | undefined = () => undefined;
  let connections = 0;
  const accept = (mail: ReceivedMail) => {
    mails.push(mail);
    for (const look of waiting) look();
  };
  const server: Server = createServer((plain) => {
    connections += 1;
    sockets.add(plain);
    plain.on('error', () => undefined).on('close', () => sockets.delete(plain));
    const { certificate, isImplicit } = options;
    const socket = isImplicit && certificate ? encrypted(plain, certificate) : plain;
    const about = {
      options,
      accept,
      greetings,
      script: (step: Step, of: string) => script(step, of),
    };
    new Dialogue(socket, about, isImplicit === true).begin();
  });
  const port = await listen(server);
  return {
    port,
    mails,
    greetings,
    get connections() {
      return connections;
    },
    script: (answer) => {
      script = answer;
    },
    has: (count) =>
      new Promise((resolve) => {
        const look = () => {
          if (mails.length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function encrypted(plain: Socket, certificate: { readonly cert: string; readonly key: string }) {
  const socket = new TLSSocket(plain, { isServer: true, ...certificate });
  return socket.on('error', () => undefined);
}

interface About {
  readonly options: SmtpServerOptions;
  readonly accept: (mail: ReceivedMail) => void;
  readonly greetings: string[];
  readonly script: (step: Step, about: string) => Answer | undefined;
}

/** The dialogue of one connection. */
class Dialogue {
  #socket: Socket;
  readonly #about: About;
  #isEncrypted: boolean;
  #user: string | undefined;
  #from = '';
  #to = '';
  #rest = '';
  /** Takes the next line, if it is no command. */
  #expects: ((line: string) => void) | undefined;
  #lines: string[] = [];

  constructor(socket: Socket, about: About, isEncrypted: boolean) {
    this.#socket = socket;
    this.#about = about;
    this.#isEncrypted = isEncrypted;
  }

  begin(): void {
    this.#listen();
    this.#answer('connect', '', '220 mail.test ESMTP');
  }

  #listen(): void {
    this.#socket.on('data', (chunk: Buffer) => {
      const lines = (this.#rest + chunk.toString('latin1')).split('\r\n');
      this.#rest = lines.pop() ?? '';
      for (const line of lines) this.#take(line);
    });
  }

  #say(line: string): void {
    this.#socket.write(`${line}\r\n`);
  }

  /** Sends the answer of the script, or the usual one. @returns whether it was the usual one */
  #answer(step: Step, about: string, usual: string): boolean {
    const wanted = this.#about.script(step, about);
    if (wanted === 'hang') return false;
    if (wanted === 'cut') {
      this.#socket.destroy();
      return false;
    }
    this.#say(wanted ?? usual);
    return wanted === undefined;
  }

  #take(line: string): void {
    const expects = this.#expects;
    if (expects) return expects(line);
    const [verb = '', ...words] = line.split(' ');
    const argument = words.join(' ');
    switch (verb.toUpperCase()) {
      case 'EHLO':
        this.#about.greetings.push(argument);
        return this.#greet();
      case 'STARTTLS':
        return this.#encrypt();
      case 'AUTH':
        return this.#signIn(words);
      case 'MAIL':
        return this.#begin(argument);
      case 'RCPT':
        this.#to = /<([^>]*)>/.exec(argument)?.[1] ?? '';
        return void this.#answer('rcpt', this.#to, '250 2.1.5 Ok');
      case 'DATA':
        this.#lines = [];
        this.#expects = (data) => this.#takeData(data);
        return this.#say('354 Go ahead');
      case 'RSET':
        return this.#say('250 2.0.0 Ok');
      case 'QUIT':
        this.#say('221 2.0.0 Bye');
        return void this.#socket.end();
      default:
        return this.#say('502 5.5.2 Unknown command');
    }
  }

  #greet(): void {
    const { certificate, account } = this.#about.options;
    const extensions = [
      ...(certificate && !this.#isEncrypted ? ['STARTTLS'] : []),
      ...(account ? ['AUTH PLAIN'] : []),
      'ENHANCEDSTATUSCODES',
    ];
    this.#say('250-mail.test');
    for (const [index, name] of extensions.entries()) {
      this.#say(`250${index === extensions.length - 1 ? ' ' : '-'}${name}`);
    }
  }

  #encrypt(): void {
    const { certificate } = this.#about.options;
    if (!certificate) return this.#say('502 5.5.1 Not offered');
    this.#say('220 2.0.0 Ready');
    this.#socket.removeAllListeners('data');
    this.#socket = encrypted(this.#socket, certificate);
    this.#isEncrypted = true;
    this.#rest = '';
    this.#listen();
  }

  #signIn([method = '', encoded = '']: readonly string[]): void {
    const [, user = '', password = ''] = Buffer.from(encoded, 'base64').toString().split('\0');
    const { account } = this.#about.options;
    const isRight = method === 'PLAIN' && account?.user === user && account.password === password;
    const usual = isRight ? '235 2.7.0 Ok' : '535 5.7.8 Authentication failed';
    if (this.#answer('auth', encoded, usual) && isRight) this.#user = user;
  }

  #begin(argument: string): void {
    if (this.#about.options.account && this.#user === undefined) {
      return this.#say('530 5.7.0 Authentication required');
    }
    this.#from = /<([^>]*)>/.exec(argument)?.[1] ?? '';
    this.#say('250 2.1.0 Ok');
  }

  #takeData(line: string): void {
    if (line !== '.') return void this.#lines.push(line.startsWith('.') ? line.slice(1) : line);
    this.#expects = undefined;
    const raw = Buffer.from(this.#lines.join('\r\n'), 'latin1').toString('utf8');
    const wanted = this.#about.script('data', this.#to);
    if (wanted !== undefined && wanted !== 'cut') {
      if (wanted !== 'hang') this.#say(wanted);
      return;
    }
    const { from, to } = { from: this.#from, to: this.#to };
    const connection = { isEncrypted: this.#isEncrypted, user: this.#user };
    this.#about.accept({ from, to, ...parsed(raw), raw, ...connection });
    if (wanted === 'cut') return void this.#socket.destroy();
    this.#say('250 2.0.0 Ok: queued as 4F1');
  }
}

function parsed(raw: string): Pick<ReceivedMail, 'headers' | 'text'> {
  const end = raw.indexOf('\r\n\r\n');
  const unfolded = raw.slice(0, end).replaceAll(/\r\n[ \t]+/g, ' ');
  const headers = new Map(
    unfolded.split('\r\n').map((line): [string, string] => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const body = raw.slice(end + 4);
  const isEncoded = headers.get('content-transfer-encoding') === 'quoted-printable';
  return { headers, text: (isEncoded ? decoded(body) : body).replaceAll('\r\n', '\n') };
}

/** RFC 2045 §6.7 */
function decoded(text: string): string {
  const joined = text.replaceAll(/=\r\n/g, '');
  const bytes = joined.replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
