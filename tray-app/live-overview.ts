import type { AccountsDoor } from 'latchkey/accounts';
import type { Overview } from '#contract';
import { connectionFacts } from '#connection-facts';
import { notices, type Notice } from '#notice';
import { refused } from '#outcome-of';
import type { SignInWaits } from '#sign-in-waits';

export type LiveOverviewPorts = {
  door: Pick<AccountsDoor, 'assistants' | 'watch' | 'claimNotice'>;
  waits: SignInWaits;
  startsAtLogin: () => boolean;
  /** Hears of every change. */
  changed: (overview: Overview) => void;
  notify: (notice: Notice) => void;
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
};

/** What failed may be mended meanwhile, by a person or by itself. */
const retryMs = 5_000;

/** What the tray and the windows show, kept up to date while the app runs. */
export interface LiveOverview {
  now(): Overview;
  /** Something of our own has changed: a sign-in, a setting. */
  touch(): void;
  /** Follows the door until `signal` aborts; where the door fails, that is shown, and it is tried again. */
  follow(signal: AbortSignal): Promise<void>;
}

export function liveOverview(ports: LiveOverviewPorts): LiveOverview {
  const { door, waits, startsAtLogin, changed, notify, sleep } = ports;
  let known = false;
  let connections: Overview['connections'] = [];
  let trouble: Overview['trouble'];
  let before: Overview | undefined;

  const now = (): Overview => ({
    known,
    connections,
    signIns: waits.views(),
    startAtLogin: startsAtLogin(),
    ...(trouble && { trouble }),
  });

  async function tell(notice: Notice): Promise<void> {
    if (await door.claimNotice(notice.name)) notify(notice);
  }

  async function followOnce(signal: AbortSignal): Promise<void> {
    const titles = new Map((await door.assistants()).map(({ id, title }) => [id, title]));
    for await (const seen of door.watch(signal)) {
      connections = seen.map((one) => connectionFacts(one, (id) => titles.get(id) ?? id));
      known = true;
      trouble = undefined;
      const overview = now();
      changed(overview);
      for (const notice of notices(before, overview)) await tell(notice);
      before = overview;
    }
  }

  return {
    now,
    touch: () => changed(now()),
    async follow(signal) {
      while (!signal.aborted) {
        try {
          await followOnce(signal);
        } catch (error) {
          const { problem, remedy } = refused(error);
          trouble = { problem, remedy };
          changed(now());
          await sleep(retryMs, signal);
        }
      }
    },
  };
}
