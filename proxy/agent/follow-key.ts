import type { Clock } from '#clock/clock';
import { TunnelError } from './tunnel-error.ts';
import type { AgentStatus } from './agent-status.ts';
import type { KeyInUse } from './key-in-use.ts';

export type FollowKeyPorts = {
  key: KeyInUse;
  /** Whether it is looked at by itself; else only when asked, as a keychain may have questions of its own. */
  watches: boolean;
  /** `undefined` when there was no tunnel to be replaced. @throws {TunnelError} */
  renew: () => Promise<{ left: Promise<void> } | undefined>;
  status: AgentStatus;
  clock: Clock;
};

const lookMs = 2_000;

/**
 * Notices that another key took the place of the one in use, and has the tunnel replaced by one with the new key, so
 * that the old one can be revoked and no call is lost. The function that is returned looks at once.
 */
export function followKey(ports: FollowKeyPorts, signal: AbortSignal): () => void {
  const { key, watches, renew, status, clock } = ports;
  let isLooking = false;
  /** Whether a tunnel with the new key is still wanted. */
  let isWanted = false;
  let seen = '';
  let told = '';

  async function look(isAsked: boolean): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    try {
      if (isWanted || (await key.hasMoved())) await take();
      seen = told = '';
    } catch (error) {
      if (!(error instanceof TunnelError)) throw error;
      if (signal.aborted) return;
      // One that was refused is not tried again until it changes.
      isWanted = error.code === 'unreachable' || error.code === 'busy';
      const { message: problem, remedy } = error;
      // A file may be just being written.
      const isNews = isAsked || seen === problem || error.code !== 'unreadable';
      seen = problem;
      if (isNews && told !== problem) status({ event: 'key_not_replaced', problem, remedy });
      if (isNews) told = problem;
    } finally {
      isLooking = false;
    }
  }

  async function take(): Promise<void> {
    const renewed = await renew();
    isWanted = false;
    if (!renewed) return;
    status({ event: 'key_replaced' });
    void renewed.left.then(() => signal.aborted || status({ event: 'key_left' }));
  }

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(lookMs, signal);
      if (!signal.aborted) await look(false);
    }
  }

  if (watches) void watch();
  return () => void look(true);
}
