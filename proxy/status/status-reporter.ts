import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { PersonSignIn } from '#pipeline/sign-in-page';
import type { Presence } from '#pipeline/contact';
import { type Log, redact } from '#log/log';
import type { TokenRecord } from '#auth/token-vault';
import type { Step } from '#pipeline/step';
import { proxyStatus, type Fault } from './proxy-status.ts';
import type { PublishedStatus } from './publish-status.ts';
import { displayUrl, type RunningProxy } from './running-proxy.ts';
import type { ProxyRequest } from './status-protocol.ts';
import { statusStep } from './status-step.ts';

export type StatusReporterOptions = {
  connection: Connection;
  /** Of this program. */
  version: () => Promise<string>;
  /** Where this program keeps its state. */
  stateDirectory: string;
  platform: NodeJS.Platform;
  pid: number;
  clock: Clock;
  log: Log;
  signInService?: PersonSignIn | undefined;
  /** The access token there is; only its scopes and expiry are published. */
  token?: (() => Promise<TokenRecord | undefined>) | undefined;
  /** Called once, after the answer of the first request that succeeds. */
  worked?: () => Promise<void>;
  /** What the error of a request means for the connection; the reason may contain its URL. */
  faultOf: (error: unknown) => Fault;
};

export type StatusReporter = Presence & {
  /** What people call the assistant, after its first request. */
  assistant(): string | undefined;
  /** The step that observes requests; `onRequest` carries out the requests of other programs to this proxy. */
  step(onRequest: (request: ProxyRequest) => Promise<void>): Step;
  close(): Promise<void>;
};

/** After the first answer, so that nothing slows it down. */
const afterFirstMs = 200;
/** A server that does not answer is published, too. A sign-in page that waits is published sooner. */
const silentServerMs = 3_000;

/**
 * Lets other programs of this user watch the proxy, once it has answered for the first time. A failure to
 * publish the status does not affect the proxy.
 */
export function statusReporter(options: StatusReporterOptions): StatusReporter {
  const { connection, stateDirectory, clock, platform, pid, log } = options;
  const { signInService, token, worked, faultOf } = options;
  const { url, account } = connection;
  const name = connection.name === url ? displayUrl(url) : connection.name;
  const identity = { pid, name, url: displayUrl(url), ...(account !== undefined && { account }) };
  const status = proxyStatus(identity, clock, changed);
  const life = new AbortController();
  let timer = setTimeout(open, silentServerMs).unref();
  let answered = false;
  let hasWorked = false;
  let published: PublishedStatus | undefined;
  let opening: Promise<void> | undefined;
  let onRequest: (request: ProxyRequest) => Promise<void> = () => Promise.resolve();

  void signInService?.shown(life.signal).then(soon);

  function changed(): void {
    published?.changed();
    if (!hasWorked && status.snapshot().state === 'ready') {
      hasWorked = true;
      if (worked) setTimeout(() => void callWorked(worked), afterFirstMs).unref();
    }
    soon();
  }

  function soon(): void {
    if (answered || life.signal.aborted) return;
    answered = true;
    clearTimeout(timer);
    timer = setTimeout(open, afterFirstMs).unref();
  }

  async function callWorked(work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => {
      log.debug('not settled yet', { reason: error instanceof Error ? error.message : '' });
    });
  }

  function open(): void {
    opening ??= publish().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : '';
      log.debug('this proxy cannot be watched', { reason });
    });
  }

  async function publish(): Promise<void> {
    const [{ publishStatus }, { statusDirectory }, { userInfo }, version] = await Promise.all([
      import('./publish-status.ts'),
      import('./status-directory.ts'),
      import('node:os'),
      options.version(),
    ]);
    const userId = userInfo().uid;

    const snapshot = async (): Promise<RunningProxy> => {
      const record = await token?.().catch(() => undefined);
      const page = signInService?.page();
      const reason = 'waiting for a person to sign in with the browser';
      return {
        ...status.snapshot(),
        version,
        ...(page && { state: 'needs_sign_in' as const, reason }),
        ...(record?.scope !== undefined && { scopes: record.scope.split(' ').filter(Boolean) }),
        ...(record?.expiresAt !== undefined && { expiresAt: record.expiresAt }),
      };
    };
    published = await publishStatus({
      directory: await statusDirectory({ stateDirectory, platform, userId }),
      platform,
      pid,
      snapshot,
      onRequest: async (request) => onRequest(request),
    });
    if (life.signal.aborted) await published.close();
    else void watchPages(published);
  }

  /** A sign-in page that opens or closes changes the status. */
  async function watchPages(current: PublishedStatus): Promise<void> {
    if (!signInService) return;
    for (;;) {
      await signInService.shown(life.signal);
      if (life.signal.aborted) return;
      current.changed();
      await signInService.page()?.done;
      current.changed();
    }
  }

  /** A message may quote the whole URL. */
  const publicReason = (reason: string) => redact(reason.replaceAll(url, displayUrl(url)));

  return {
    assistant: () => status.assistant(),
    changed(now) {
      const isOnline = now.state === 'online';
      status.changed(isOnline ? now : { ...now, reason: publicReason(now.reason) });
    },
    step(handler) {
      onRequest = handler;
      return statusStep(status, (error) => {
        const { state, reason } = faultOf(error);
        return { state, reason: publicReason(reason) };
      });
    },
    async close() {
      life.abort();
      clearTimeout(timer);
      await opening;
      await published?.close();
    },
  };
}
