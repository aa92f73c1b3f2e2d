import type { EpochSeconds } from '#clock/clock';
import type { ConnectionView, Reminder } from './accounts-door.ts';

const daySeconds = 86_400;

/** The secrets that have been kept for so long that they are to be replaced, the oldest first. */
export function remindersOf(connections: readonly ConnectionView[], now: EpochSeconds): Reminder[] {
  return connections
    .flatMap(({ name, secret }) => {
      if (!secret?.old || secret.storedAt === undefined) return [];
      const { kind, storedAt, dashboardUrl } = secret;
      return [
        { name, kind, storedAt, ageDays: Math.floor((now - storedAt) / daySeconds), dashboardUrl },
      ];
    })
    .sort((one, other) => one.storedAt - other.storedAt);
}
