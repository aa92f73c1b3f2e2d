import type { Connection } from '#config/connection';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { Options } from '#config/options';
import { explain, troubleOf } from '#errors';
import type { Host, UserHost } from '#host';
import type { Presence } from '#pipeline/contact';
import type { SignInDoor } from '#pipeline/sign-in-page';
import type { Log } from '#log/log';
import { redact } from '#log/redact';
import type { AnnouncedPresence } from '#status/announce-presence';
import { observedUpstream } from '#status/observed-upstream';
import type { ProxyRequest } from '#status/presence-words';
import { proxyStory, type Fault } from '#status/proxy-story';
import type { RunningProxy } from '#status/running-proxy';
import { shownUrl } from '#status/shown-url';
import type { TokenRecord } from '#auth/token-record';
import type { Upstream } from '#transport/upstream';

export type PresencePorts = Pick<Host, keyof UserHost | 'pid' | 'clock'>;

/** What a proxy can tell and do besides carrying messages. */
export type PresenceOf = {
  door?: SignInDoor | undefined;
  /** The access token there is; it is never told, but its scopes and its end are. */
  token?: (() => Promise<TokenRecord | undefined>) | undefined;
  /** Hears once that a request has worked, behind its answer. */
  worked?: () => Promise<void>;
};

export type OpenedPresence = Presence & {
  /** The upstream as the assistant is to have it; `hear` does what others ask of this proxy. */
  observed(upstream: Upstream, hear: (request: ProxyRequest) => Promise<void>): Upstream;
  close(): Promise<void>;
};

/** Behind the first answer, which nothing is to slow down. */
const afterMs = 200;
/** A server that does not answer is worth showing, too. A page that waits is shown sooner. */
const patienceMs = 3_000;

/**
 * Lets this user's other programs see how the proxy is, once it has answered for the first time. That
 * it cannot be seen is no failure of the proxy.
 */
export function openPresence(
  connection: Connection,
  options: Options,
  { door, token, worked }: PresenceOf,
  ports: PresencePorts,
  log: Log,
): OpenedPresence {
  const { clock, platform, pid } = ports;
  const { url, account } = connection;
  const name = connection.name === url ? shownUrl(url) : connection.name;
  const beginning = { pid, name, url: shownUrl(url), ...(account !== undefined && { account }) };
  const story = proxyStory(beginning, clock, changed);
  const life = new AbortController();
  let timer = setTimeout(open, patienceMs).unref();
  let answered = false;
  let hasWorked = false;
  let announced: AnnouncedPresence | undefined;
  let opening: Promise<void> | undefined;
  let hearing: (request: ProxyRequest) => Promise<void> = () => Promise.resolve();

  void door?.shown(life.signal).then(soon);

  function changed(): void {
    announced?.changed();
    if (!hasWorked && story.told().state === 'ready') {
      hasWorked = true;
      if (worked) setTimeout(() => void tellWorked(worked), afterMs).unref();
    }
    soon();
  }

  function soon(): void {
    if (answered || life.signal.aborted) return;
    answered = true;
    clearTimeout(timer);
    timer = setTimeout(open, afterMs).unref();
  }

  async function tellWorked(hear: () => Promise<void>): Promise<void> {
    await hear().catch((error: unknown) => {
      log.debug('not settled yet', { reason: error instanceof Error ? error.message : '' });
    });
  }

  function open(): void {
    opening ??= announce().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : '';
      log.debug('this proxy cannot be watched', { reason });
    });
  }

  async function announce(): Promise<void> {
    const [{ announcePresence }, { presenceDirectory }, { userInfo }, manifest] = await Promise.all(
      [
        import('#status/announce-presence'),
        import('#status/presence-directory'),
        import('node:os'),
        import('./package.json', { with: { type: 'json' } }),
      ],
    );
    const { version } = manifest.default;
    const stateDirectory = options.stateDir ?? defaultStateDirectory(ports);
    const userId = userInfo().uid;

    const tell = async (): Promise<RunningProxy> => {
      const record = await token?.().catch(() => undefined);
      const page = door?.page();
      const reason = 'somebody is about to sign in with the browser';
      return {
        ...story.told(),
        version,
        ...(page && { state: 'needs_sign_in' as const, reason }),
        ...(record?.scope !== undefined && { scopes: record.scope.split(' ').filter(Boolean) }),
        ...(record?.expiresAt !== undefined && { expiresAt: record.expiresAt }),
      };
    };
    announced = await announcePresence({
      directory: await presenceDirectory({ stateDirectory, platform, userId }),
      platform,
      pid,
      tell,
      hear: async (request) => hearing(request),
    });
    if (life.signal.aborted) await announced.close();
    else void watchPages(announced);
  }

  /** A page that comes up, or is done with, is another state. */
  async function watchPages(shown: AnnouncedPresence): Promise<void> {
    if (!door) return;
    for (;;) {
      await door.shown(life.signal);
      if (life.signal.aborted) return;
      shown.changed();
      await door.page()?.done;
      shown.changed();
    }
  }

  /** Words of an error may quote the whole address. */
  const shownReason = (reason: string) => redact(reason.replaceAll(url, shownUrl(url)));
  const faultOf = (error: unknown): Fault => {
    const trouble = troubleOf(error, 'auto');
    const message = shownReason(explain(error, connection).failure.message);
    if (trouble === undefined) return { state: 'trouble', reason: message };
    return { state: trouble === 'offline' ? 'offline' : 'needs_sign_in', reason: message };
  };

  return {
    changed(standing) {
      const isOnline = standing.state === 'online';
      story.changed(isOnline ? standing : { ...standing, reason: shownReason(standing.reason) });
    },
    observed(upstream, hear) {
      hearing = hear;
      return observedUpstream(upstream, story, faultOf);
    },
    async close() {
      life.abort();
      clearTimeout(timer);
      await opening;
      await announced?.close();
    },
  };
}
