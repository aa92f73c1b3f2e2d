import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { PersonSignIn } from '#pipeline/sign-in-page';
import type { ConnectionState, Presence } from '#pipeline/contact';
import type { Log } from '#log/log';
import { redact } from 'latchkey-mcp/safe-text';
import type { TokenRecord } from '#auth/token-vault';
import type { Step } from '#pipeline/step';
import { proxyStatus, type Fault, type ProxyStatus } from './proxy-status.ts';
import type { PublishedStatus } from './publish-status.ts';
import { displayUrl, type RunningProxy } from './running-proxy.ts';
import type { ProxyRequest } from './status-protocol.ts';
import { statusStep } from './status-step.ts';

export type StatusReporterOptions = {
  connection: Connection;
  /** The version of this program. */
  version: () => Promise<string>;
  /** Where this program keeps its state. */
  stateDirectory: string;
  platform: NodeJS.Platform;
  pid: number;
  clock: Clock;
  log: Log;
  signInService?: PersonSignIn | undefined;
  /** The current access token; only its scopes and expiry are published. */
  token?: (() => Promise<TokenRecord | undefined>) | undefined;
  /** Called once, after the answer of the first request that succeeds. */
  worked?: () => Promise<void>;
  /** Returns the meaning of a request's error for the connection; the reason may contain the connection's URL. */
  faultOf: (error: unknown) => Fault;
};

/** The delay after the first answer, so that nothing slows the answer down. */
const afterFirstMs = 200;
/** After this long, the status is published even without an answer. A sign-in page that waits is published sooner. */
const silentServerMs = 3_000;

/**
 * Lets other programs of this user watch the proxy, soon after its first answer, or a few seconds after the
 * start. A failure to publish the status does not affect the proxy.
 */
export class StatusReporter implements Presence {
  readonly #options: StatusReporterOptions;
  readonly #status: ProxyStatus;
  readonly #life = new AbortController();
  #timer: NodeJS.Timeout;
  #answered = false;
  #hasWorked = false;
  #published: PublishedStatus | undefined;
  #opening: Promise<void> | undefined;
  #onRequest: (request: ProxyRequest) => Promise<void> = () => Promise.resolve();

  constructor(options: StatusReporterOptions) {
    this.#options = options;
    const { connection, clock, pid, signInService } = options;
    const { url, account } = connection;
    const name = connection.name === url ? displayUrl(url) : connection.name;
    const identity = { pid, name, url: displayUrl(url), ...(account !== undefined && { account }) };
    this.#status = proxyStatus(identity, clock, () => this.#noteChange());
    this.#timer = setTimeout(() => this.#open(), silentServerMs).unref();
    void signInService?.shown(this.#life.signal).then(() => this.#openSoon());
  }

  /** The display name of the assistant, after its first request. */
  assistant(): string | undefined {
    return this.#status.assistant();
  }

  changed(now: ConnectionState): void {
    const isOnline = now.state === 'online';
    this.#status.changed(isOnline ? now : { ...now, reason: this.#publicReason(now.reason) });
  }

  /** The step that observes requests; `onRequest` carries out the requests of other programs to this proxy. */
  step(onRequest: (request: ProxyRequest) => Promise<void>): Step {
    this.#onRequest = onRequest;
    return statusStep(this.#status, (error) => {
      const { state, reason } = this.#options.faultOf(error);
      return { state, reason: this.#publicReason(reason) };
    });
  }

  async close(): Promise<void> {
    this.#life.abort();
    clearTimeout(this.#timer);
    await this.#opening;
    await this.#published?.close();
  }

  #noteChange(): void {
    const { worked } = this.#options;
    this.#published?.changed();
    if (!this.#hasWorked && this.#status.snapshot().state === 'ready') {
      this.#hasWorked = true;
      if (worked) setTimeout(() => void this.#callWorked(worked), afterFirstMs).unref();
    }
    this.#openSoon();
  }

  #openSoon(): void {
    if (this.#answered || this.#life.signal.aborted) return;
    this.#answered = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open(), afterFirstMs).unref();
  }

  async #callWorked(work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : '';
      this.#options.log.debug('not settled yet', { reason });
    });
  }

  #open(): void {
    this.#opening ??= this.#publish().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : '';
      this.#options.log.debug('this proxy cannot be watched', { reason });
    });
  }

  async #publish(): Promise<void> {
    const { stateDirectory, platform, pid } = this.#options;
    const [{ publishStatus }, { statusDirectory }, { userInfo }, version] = await Promise.all([
      import('./publish-status.ts'),
      import('./status-directory.ts'),
      import('node:os'),
      this.#options.version(),
    ]);
    const userId = userInfo().uid;
    this.#published = await publishStatus({
      directory: await statusDirectory({ stateDirectory, platform, userId }),
      platform,
      pid,
      snapshot: async () => this.#snapshot(version),
      onRequest: async (request) => this.#onRequest(request),
    });
    if (this.#life.signal.aborted) await this.#published.close();
    else void this.#watchPages(this.#published);
  }

  async #snapshot(version: string): Promise<RunningProxy> {
    const { token, signInService } = this.#options;
    const record = await token?.().catch(() => undefined);
    const page = signInService?.page();
    const reason = 'waiting for a person to sign in with the browser';
    return {
      ...this.#status.snapshot(),
      version,
      ...(page && { state: 'needs_sign_in' as const, reason }),
      ...(record?.scope !== undefined && { scopes: record.scope.split(' ').filter(Boolean) }),
      ...(record?.expiresAt !== undefined && { expiresAt: record.expiresAt }),
    };
  }

  /** A sign-in page that opens or closes changes the status. */
  async #watchPages(current: PublishedStatus): Promise<void> {
    const { signInService } = this.#options;
    if (!signInService) return;
    for (;;) {
      await signInService.shown(this.#life.signal);
      if (this.#life.signal.aborted) return;
      current.changed();
      await signInService.page()?.done;
      current.changed();
    }
  }

  /** A message may quote the whole URL, which may contain a key. */
  #publicReason(reason: string): string {
    const { url } = this.#options.connection;
    return redact(reason.replaceAll(url, displayUrl(url)));
  }
}
