import type { AccountsDoor } from 'latchkey/accounts';
import type { Overview } from '#contract';
import { connectionFacts } from '#connection-facts';
import { notices, type Notice } from '#notice';
import type { SignInWaits } from '#sign-in-waits';

export type LiveOverviewPorts = {
  door: AccountsDoor;
  waits: SignInWaits;
  startsAtLogin: () => boolean;
  /** Hears of every change. */
  changed: (overview: Overview) => void;
  notify: (notice: Notice) => void;
};

/** What the tray and the windows show, kept up to date while the app runs. */
export interface LiveOverview {
  now(): Overview;
  /** Something of our own has changed: a sign-in, a setting. */
  touch(): void;
  /** Follows the door until `signal` aborts. */
  follow(signal: AbortSignal): Promise<void>;
}

export function liveOverview(ports: LiveOverviewPorts): LiveOverview {
  const { door, waits, startsAtLogin, changed, notify } = ports;
  let connections: Overview['connections'] = [];
  let before: Overview | undefined;

  const now = (): Overview => ({
    connections,
    signIns: waits.views(),
    startAtLogin: startsAtLogin(),
  });

  async function tell(notice: Notice): Promise<void> {
    if (await door.claimNotice(notice.name)) notify(notice);
  }

  return {
    now,
    touch: () => changed(now()),
    async follow(signal) {
      const titles = new Map((await door.assistants()).map(({ id, title }) => [id, title]));
      for await (const seen of door.watch(signal)) {
        connections = seen.map((one) => connectionFacts(one, (id) => titles.get(id) ?? id));
        const overview = now();
        changed(overview);
        for (const notice of notices(before, overview)) await tell(notice);
        before = overview;
      }
    },
  };
}
