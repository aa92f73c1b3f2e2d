import { userInfo } from 'node:os';
import { presenceDirectory } from '#status/presence-directory';
import { watchPresence, type PresenceWatch } from '#status/watch-presence';

/** Watches the proxies of this user that keep their state there. */
export async function openWatch(
  stateDirectory: string,
  platform: NodeJS.Platform,
): Promise<PresenceWatch> {
  const place = { stateDirectory, platform, userId: userInfo().uid };
  return watchPresence({ directory: await presenceDirectory(place), platform });
}
